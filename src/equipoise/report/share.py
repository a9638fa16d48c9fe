"""The page of a comparison of policies: the finding in words, the certificate, the panels, and one task's life."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.present.html import embedded, render, verdict
from equipoise.present.text import NOTHING, count, number, percent
from equipoise.report.share_charts import ORACLE, Look, bound_by_load, looks, panels
from equipoise.report.share_life import Lives, life_charts
from equipoise.share.simulate import Run
from equipoise.share.sweep import Sweep
from equipoise.share.trace import STARVER, telling_task
from equipoise.share.view import Policy
from equipoise.share.workload import PUBLISHED_LOAD, PUBLISHED_TABLE

BASELINE = "UniformCorrected"
Row = dict[str, Any]


def share_page(result: Sweep, policies: Sequence[Policy], lives: dict[str, Run], document: dict[str, Any]) -> str:
    """The whole page as text; `lives` has a traced run of one seed per policy, `document` stands in result.json."""
    styles = looks(policies)
    charts = panels(result, styles)
    life: dict[str, Any] | None = None
    traced = [look for look in styles if look.name in lives]
    if traced:
        told = Lives([lives[look.name] for look in traced])
        chosen = _chosen_task(document, lives, told.tasks)
        charts += life_charts(told, traced, chosen)
        life = told.compact(chosen)
    return render(
        "share.html.j2",
        title=title(result, styles, document),
        document=document,
        charts=charts,
        styles=styles,
        oracle=ORACLE if bound_by_load(result.rows) else "",
        numbers=_key_numbers(result, styles),
        tables=_tables(result, styles, document),
        lives="" if life is None else embedded(life),
    )


def title(result: Sweep, styles: Sequence[Look], document: dict[str, Any]) -> str:
    """7 policies at 10 to 60 tasks, 200 seeds: Hybrid finishes 78 % at 60 tasks, UARA+LARA 33 %: certificate passed."""
    load = max(result.loads)
    span = f"{min(result.loads)} to {load}" if len(result.loads) > 1 else f"{load}"
    who = result.names[0] if len(result.names) == 1 else count(len(result.names), "policy", "policies")
    tasks = "task" if load == 1 else "tasks"
    where = f"{who} at {span} {tasks}, {count(len(result.seeds), 'seed')}"
    rows = _honest(_at(result, load), styles)
    best = _best(rows)
    other = next((row for row in rows if row["policy"] == STARVER), min(rows, key=lambda row: row["success"]))
    who_best = best["policy"] if len(rows) > 1 else "it"
    found = f"{who_best} finishes {_whole(best['success'])} at {load} {tasks}"
    if other is not best:
        found += f", {other['policy']} {_whole(other['success'])}"
    return f"{where}: {found}: certificate {verdict(document['certificate'])}"


def _whole(value: float) -> str:
    return f"{value:.0f}\N{NO-BREAK SPACE}%"


def _at(result: Sweep, load: int) -> list[Row]:
    return [row for row in result.rows if row["load"] == load]


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: row["success"])


def _honest(rows: Sequence[Row], styles: Sequence[Look]) -> list[Row]:
    """Those of policies that are not told the truth; all, if there is none."""
    told = {look.name for look in styles if look.dashed}
    return [row for row in rows if row["policy"] not in told] or list(rows)


def _chosen_task(document: dict[str, Any], lives: dict[str, Run], tasks: int) -> int:
    """The one asked for, or the one on which policies differ most."""
    asked = document["config"].get("timeline_task")
    if asked is None:
        asked = document["result"].get("timeline", {}).get("task")
    return int(asked) if asked is not None and 0 <= int(asked) < tasks else telling_task(lives)


def _key_numbers(result: Sweep, styles: Sequence[Look]) -> list[dict[str, str]]:
    load = max(result.loads)
    rows = _honest(_at(result, load), styles)
    best = _best(rows)
    lean = max(rows, key=lambda row: row["efficiency"])
    idle = max(rows, key=lambda row: row["idle_while_work"])
    where = f"at {load} tasks"
    found = [
        {"name": "most tasks finished", "value": _percent(best["success"]), "note": f"{best['policy']} {where}"},
        {
            "name": "most efficient",
            "value": number(lean["efficiency"], 3),
            "note": f"{lean['policy']} {where}: % of tasks per energy",
        },
        {
            "name": "most idle while work waits",
            "value": _percent(idle["idle_while_work"]),
            "note": f"{idle['policy']} {where}: of all compute",
        },
    ]
    if best["oracle"] is not None:
        reached = "" if best["of_oracle"] is None else f"; {best['policy']} reaches {percent(best['of_oracle'])} of it"
        note = f"no policy can finish more {where}{reached}"
        found.append({"name": "oracle's bound", "value": _percent(best["oracle"]), "note": note})
    return found


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f} %"


def _tables(result: Sweep, styles: Sequence[Look], document: dict[str, Any]) -> list[dict[str, Any]]:
    """The largest load; before it the load of the published table where the run repeats it."""
    config = document["config"]
    repeats = config.get("preset") == "paper" and not config.get("tasks") and PUBLISHED_LOAD in result.loads
    published = PUBLISHED_LOAD if repeats and any(name in PUBLISHED_TABLE for name in result.names) else None
    loads = dict.fromkeys(([published] if published else []) + [max(result.loads)])
    return [_table(result, styles, document, load, beside=load == published) for load in loads]


def _table(
    result: Sweep, styles: Sequence[Look], document: dict[str, Any], load: int, *, beside: bool
) -> dict[str, Any]:
    baseline = str(document["result"].get("baseline") or (BASELINE if BASELINE in result.names else result.names[0]))
    gaps = _gaps(result, document, baseline, load)
    rows = {row["policy"]: row for row in _at(result, load)}
    bounded = any(row["oracle"] is not None for row in rows.values())
    heads = ["success, %", "energy", "efficiency", "latency, steps", "network, %", "idle while work, %"]
    heads += ["of the oracle's, %"] if bounded else []
    heads += [f"success against {baseline}"] if gaps else []
    heads += ["paper's success, %, and energy"] if beside else []
    body = []
    for look in styles:
        row = rows[look.name]
        cells = [
            _with_error(row["success"], row["success_se"], 1),
            _fixed(row["energy"], 0),
            _with_error(row["efficiency"], row["efficiency_se"], 4),
            _fixed(row["latency"], 1),
            _fixed(row["network"], 1),
            _fixed(row["idle_while_work"], 1),
        ]
        if bounded:
            cells.append(NOTHING if row["of_oracle"] is None else f"{100 * row['of_oracle']:.1f}")
        if gaps:
            gap = gaps.get(look.name)
            cells.append(NOTHING if gap is None else _with_error(gap[0], gap[1], 1, sign="+"))
        if beside:
            told = PUBLISHED_TABLE.get(look.name)
            cells.append(NOTHING if told is None else f"{told.success:.1f} · {told.energy:,.0f}")
        body.append({"look": look, "cells": cells})
    notes = [
        f"Means over {count(len(result.seeds), 'seed')}" + (" ± standard error." if len(result.seeds) > 1 else ".")
    ]
    if gaps:
        notes.append(f"The difference from {baseline} is in points, paired seed by seed.")
    if beside:
        notes.append("The paper's numbers are one run; single runs of 60 tasks scatter by 6 to 10 points (one sd).")
    return {"load": load, "heads": heads, "rows": body, "note": " ".join(notes)}


def _gaps(
    result: Sweep, document: dict[str, Any], baseline: str, load: int
) -> dict[str, tuple[float | None, float | None]]:
    """Success minus the baseline's at a load, with its standard error, by policy."""
    told = document["result"].get("paired")
    if told is not None:
        here = [p for p in told if (p["load"], p["measure"], p["other"]) == (load, "success", baseline)]
        return {p["one"]: (p["difference"], p["standard_error"]) for p in here}
    others = [name for name in result.names if name != baseline]
    pairs = [p for name in others for p in result.paired(name, baseline) if p.load == load]
    return {p.one: (p.difference, p.standard_error) for p in pairs}


def _fixed(value: float | None, digits: int, sign: str = "") -> str:
    return NOTHING if value is None else f"{value:{sign},.{digits}f}".replace("-", "−")


def _with_error(value: float | None, error: float | None, digits: int, sign: str = "") -> str:
    shown = _fixed(value, digits, sign)
    return shown if value is None or error is None else f"{shown} ± {error:,.{digits}f}"
