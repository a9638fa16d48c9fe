"""The page of policies side by side on one cluster: who earned most, who ran where, what was gained and which jobs lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from equipoise import __version__
from equipoise.place.comparison import Comparison
from equipoise.present.html import TEMPLATES, embedded, render, verdict
from equipoise.present.text import NOTHING, count, number, percent
from equipoise.report import place_charts as charts_of
from equipoise.report.place_gantt import Floor, posted
from equipoise.report.place_panels import duration, floor_panels
from equipoise.report.share_charts import Look
from equipoise.units import show

Row = dict[str, Any]
MOST_JOBS = 15  # that gained, and that lost, per policy
MOST_SKIPPED = 20
FOLD, MOST_FOLD = 9, 1000  # relative gains from which they are told as a factor, and only as a large one
PROGRAMS = {"lp": "linear program", "milp": "integer program", "trivial": "looking: no job can finish"}
BOUNDS = {"lp": "LP", "milp": "exact", "trivial": "trivial"}


def page(
    comparison: Comparison, title: str, *, baseline: str | None = None, config: dict[str, Any] | None = None
) -> str:
    """The whole page as text. `baseline` is what the others are measured against, `config` what repeats the run."""
    results, rows = comparison.results, comparison.table
    styles = charts_of.styles_of(results, comparison.labels)
    base = comparison[baseline or comparison.baseline].policy.label
    bound = None if comparison.bound is None else comparison.bound.utility
    kind = "" if comparison.bound is None else BOUNDS.get(comparison.bound.kind, comparison.bound.kind)
    best = max(range(len(rows)), key=lambda k: (rows[k]["utility"], rows[k]["completed"]))
    floor = Floor(results)
    priced = any(posted(result) is not None for result in results)
    calibration = charts_of.calibration_scores(comparison.calibration)
    charts = [
        charts_of.utility_by_policy(rows, styles, bound, kind),
        charts_of.completed_by_policy(rows, styles, len(comparison.jobs)),
        *floor_panels(
            floor.window, comparison.jobs.slot, comparison.labels, best, comparison.cluster.resources, priced=priced
        ),
        charts_of.completion_times(results, styles),
        charts_of.reasons(results, styles),
        *calibration,
    ]
    certificate = comparison.certificate.as_dict()
    gains = _gains(comparison, base, styles, best)
    return render(
        "place.html.j2",
        title=f"{title}: {headline(comparison)}",
        document={
            "verb": "place",
            "version": __version__,
            "config": config or _config(comparison),
            "certificate": certificate,
        },
        charts=charts,
        numbers=_key_numbers(comparison, rows[best], base),
        table=_table(comparison, styles),
        gains=gains,
        baseline=base,
        calibrated=bool(calibration),
        facts=_facts(comparison),
        skipped=_skipped(comparison),
        rows=embedded(rows),
        floor=embedded(_told(floor.data(), comparison)),
        own=Markup((TEMPLATES / "place.js").read_text(encoding="utf-8")),
    )


def headline(comparison: Comparison) -> str:
    """PDORS earned most of 6 policies, 75.9 % of the bound: certificate passed."""
    rows = comparison.table
    best = max(rows, key=lambda row: (row["utility"], row["completed"]))
    outcome = f"certificate {verdict(comparison.certificate.as_dict())}"
    if not any(row["completed"] for row in rows):
        who = rows[0]["policy"] if len(rows) == 1 else f"none of {count(len(rows), 'policy', 'policies')}"
        return f"{who} completed {'no' if len(rows) == 1 else 'a'} job: {outcome}"
    found = f"{best['policy']} earned "
    found += number(best["utility"]) if len(rows) == 1 else f"most of {count(len(rows), 'policy', 'policies')}"
    if best["share_of_bound"] is not None:
        found += f", {percent(best['share_of_bound'])} of the bound"
    return f"{found}: {outcome}"


def _key_numbers(comparison: Comparison, best: Row, base: str) -> list[dict[str, str]]:
    jobs = len(comparison.jobs)
    found = [{"name": "most utility", "value": number(best["utility"]), "note": best["policy"]}]
    if best["share_of_bound"] is not None and comparison.bound is not None:
        note = f"no schedule can earn more than {number(comparison.bound.utility)}, even knowing all jobs in advance"
        found.append({"name": "of the bound", "value": percent(best["share_of_bound"]), "note": note})
    before = next(row for row in comparison.table if row["policy"] == base)
    if base != best["policy"]:
        change = best["utility"] - before["utility"]
        relative = change / before["utility"] if before["utility"] > 0 else None
        rise = "" if relative is None else f"{_relative(relative)}, "
        more = best["completed"] - before["completed"]
        note = rise + (f"{_signed(more)} completed jobs" if more else "with as many completed jobs")
        found.append({"name": f"{best['policy']} over {base}", "value": _signed(change), "note": note})
    done = max(comparison.table, key=lambda row: row["completed"])
    note = f"of {jobs:,}, {done['policy']}" + ("" if done is best else f"; {best['policy']} {best['completed']:,}")
    found.append({"name": "most jobs completed", "value": f"{done['completed']:,}", "note": note})
    return found


def _table(comparison: Comparison, styles: Sequence[Look]) -> Row:
    bounded, gpus = comparison.bound is not None, "gpu" in comparison.cluster.resources
    heads = ["utility", *(["of the bound"] if bounded else []), "completed", "admitted"]
    heads += ["mean hours", "median hours", "p99 hours", *(["GPU hours held"] if gpus else [])]
    body = []
    for row, look in zip(comparison.table, styles, strict=True):
        cells = [number(row["utility"]), *([percent(row["share_of_bound"])] if bounded else [])]
        cells += [f"{row['completed']:,}", f"{row['admitted']:,}"]
        cells += [number(row[f"{name}_completion"], 3) for name in ("mean", "median", "p99")]
        cells += [number(row["gpu_hours"])] if gpus else []
        body.append({"look": look, "cells": cells})
    note = f"All policies met the same {count(len(comparison.jobs), 'job')}. Hours run from arrival to completion, over the "
    note += "completed jobs. Admitted: told so at some time"
    promising = [r.policy.label for r in comparison.results if getattr(r.policy, "promises", False)]
    note += f", which is a promise to finish them under {' and '.join(promising)}." if promising else "."
    return {"heads": heads, "rows": body, "note": note + (f" Note: {comparison.note}." if comparison.note else "")}


def _gains(comparison: Comparison, base: str, styles: Sequence[Look], best: int) -> list[Row]:
    look_of = {look.name: look for look in styles}
    found = comparison.gains(base)
    names = [gain["policy"] for gain in found]
    opened = comparison.labels[best] if comparison.labels[best] in names else names[0] if names else ""
    return [
        {
            "look": look_of[gain["policy"]],
            "open": gain["policy"] == opened,
            "cells": [
                _signed(gain["utility"]),
                _relative(gain["relative"]),
                _signed(gain["completed"]),
                *(f"{n:,}" for n in (len(gain["gained"]), len(gain["lost"]), gain["same"])),
            ],
            "words": f"utility {_signed(gain['utility'])}; {count(len(gain['gained']), 'job')} gained, "
            f"{len(gain['lost']):,} lost",
            "lost": [_moved(job) for job in gain["lost"][:MOST_JOBS]],
            "lost_in_all": len(gain["lost"]),
            "gained": [_moved(job) for job in gain["gained"][:MOST_JOBS]],
            "gained_in_all": len(gain["gained"]),
        }
        for gain in found
    ]


def _moved(job: Row) -> Row:
    ends = ["not" if job[name] is None else f"{job[name]:,}" for name in ("finish_before", "finish_after")]
    worths = [number(job[name], 3) for name in ("utility_before", "utility_after")]
    why = charts_of.REASON_WORDS.get(job["reason"], job["reason"].replace("_", " "))
    return {
        "id": job["id"],
        "cells": [f"{job['arrival']:,}", *worths, *ends],
        "told": f"{job['state']}: {why}" if why and why != job["state"] else job["state"],
    }


def _signed(value: float, digits: int | None = None) -> str:
    """+441.7, −3, 0."""
    size = number(abs(value)) if digits is None else f"{abs(value):,.{digits}f}"
    return f"+{size}" if value > 0 else f"−{size}" if value < 0 else size


def _relative(change: float | None) -> str:
    """+31.0 %; 250-fold where percents say nothing, a dash over nothing."""
    if change is None:
        return NOTHING
    if change >= FOLD:
        return f"{number(1.0 + change, 3)}-fold" if change < MOST_FOLD else f"over {MOST_FOLD:,}-fold"
    return f"{_signed(100 * change, 1)} %"


def _facts(comparison: Comparison) -> list[dict[str, str]]:
    cluster, jobs = comparison.cluster, comparison.jobs
    types = "; ".join(
        f"{m.count:,} × {m.name} ({', '.join(f'{show(amount)} {r}' for r, amount in m.capacity.items())})"
        for m in cluster.machines
    )
    last = max((job.arrival for job in jobs), default=0)
    when = f", slot 0 begins {jobs.start}" if jobs.start else ""
    span = f"arriving in slots {min((job.arrival for job in jobs), default=0):,} to {last:,}{when}"
    ends = [f"fixed end after {count(comparison.slots, 'slot')}"] if comparison.slots is not None else []
    if comparison.horizon is not None:
        ends.append(f"each job is planned within {count(comparison.horizon, 'slot')} of its arrival")
    facts = [
        ("machines", types if len(cluster.machines) == 1 else f"{cluster.size:,}: {types}"),
        ("jobs", f"{len(jobs):,} from {jobs.source}, {span}"),
        ("slot", duration(jobs.slot)),
        ("planning", "; ".join(ends)),
        ("seed", str(comparison.seed)),
    ]
    facts += [("note", comparison.note)] if comparison.note else []
    for reason, row in comparison.hopeless.items():
        if row["jobs"]:
            held = ", ".join(f"{percent(share)} of {r}" for r, share in row["resource_time"].items())
            words = charts_of.REASON_WORDS.get(reason, reason)
            facts.append(
                (
                    words,
                    f"{count(row['jobs'], 'job')} ({percent(row['share'])}), with so much of the time asked for: {held}",
                )
            )
    limit = comparison.bound
    if limit is not None:
        loose = "" if limit.status == "optimal" else f", {limit.status.replace('_', ' ')}: not the tightest of its kind"
        facts.append(("bound", f"{number(limit.utility)} by {PROGRAMS.get(limit.kind, limit.kind)}{loose}"))
    else:
        facts.append(("bound", "not computed"))
    for result in comparison.results:
        note = result.detail.get("prices")
        if note:
            facts.append((f"prices of {result.policy.label}", ", ".join(f"{k} {_plain(v)}" for k, v in note.items())))
    return [{"name": name, "value": value} for name, value in facts]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{k} {_plain(v)}" for k, v in value.items()) + ")"
    return number(value) if isinstance(value, int | float) else str(value)


def _skipped(comparison: Comparison) -> Row | None:
    rows = comparison.jobs.skipped
    if not rows:
        return None
    was = "was" if len(rows) == 1 else "were"
    words = f"{count(len(rows), 'row')} of the trace could not be mapped to a job and {was} left out"
    shown = [{"line": row.line, "reason": row.reason} for row in rows[:MOST_SKIPPED]]
    return {"words": words, "rows": shown, "more": max(0, len(rows) - MOST_SKIPPED)}


def _told(data: Row, comparison: Comparison) -> Row:
    """The floor's data with a sentence and the end of the run for each policy."""
    total = len(comparison.jobs)
    for one, result in zip(data["policies"], comparison.results, strict=True):
        means = [sum(column) / max(1, len(column)) for column in one["use"]]
        mean = ", ".join(f"{m:.0f} % of {r}" for r, m in zip(data["resources"], means, strict=True))
        one["end"] = result.end
        one["story"] = (
            f"{one['policy']} completed {result.completed:,} of {count(total, 'job')} and earned {number(result.utility)}; "
            f"on average it used {mean}."
        )
    return data


def _config(comparison: Comparison) -> Row:
    """What is known of the run, when nobody says how it was asked for."""
    found: Row = {"jobs": comparison.jobs.source, "policies": list(comparison.labels)}
    found |= {"slots": comparison.slots, "horizon": comparison.horizon, "seed": comparison.seed}
    return {name: value for name, value in found.items() if value is not None}
