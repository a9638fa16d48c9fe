"""Policies side by side on one cluster: who earned most, who ran where, what was gained and which jobs lost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from equipoise.document import Document, Row
from equipoise.present import place_figures, values
from equipoise.present.figures import Look, looks
from equipoise.present.place_figures import facts_of, reason, reason_kinds
from equipoise.present.text import (
    NOTHING,
    count,
    duration,
    fixed,
    joined,
    number,
    outcome,
    percent,
    relative,
    signed,
    with_error,
)
from equipoise.present.timeline import Timeline
from equipoise.present.values import Bullets, Cell, Column, Fold, KeyNumber, KeyNumbers, Page, Section, Table, Text

MOST_JOBS, FEW_JOBS = 15, 5  # that gained, and that lost, per policy: in the page, in the terminal
MOST_USERS = 10
SLOWDOWN = (
    "Slowdown: time from arrival over the job's own duration alone, of all jobs that can finish; unfinished ones count to "
    "the end. In time: within 2.5 times it, or the stated deadline. Unfair: slower than own duration x mean contention. "
)
HOPELESS = {
    "infeasible_alone": ("is larger than the cluster's machines", "are larger than the cluster's machines"),
    "beyond_horizon": ("cannot finish in time even alone", "cannot finish in time even alone"),
}


def page(document: Document) -> Page:
    """The page of a comparison."""
    told = facts_of(document)
    rows, look = told["rows"], _looks(document)
    best = max(range(len(rows)), key=lambda k: merit(told, rows[k]))
    total = count(told["jobs"], "job")
    stories = [f"{row['policy']} completed {row['completed']:,} of {total}{_earning(told, row)}" for row in rows]
    files = {"history.csv": "a row per policy and slot", "outcomes.csv": "a row per policy and job"}
    files |= {"allocations-*.csv": "every schedule"}
    title = f"{what_met_what(told)}: {headline(document)}"
    blocks: list[values.Block] = [
        *objective(told),
        KeyNumbers(_key_numbers(told, rows[best])),
        Section("Policies side by side", [replace(policy_table(document), title="")], key="policies"),
        place_figures.completed_figure(told, look),
        (place_figures.utility_figure if is_stated(told) else place_figures.slowdown_figure)(told, look),
        Timeline(document).widget(best, stories),
        place_figures.completion_figure(document, look),
        place_figures.reasons_figure(told),
        *user_tables(told),
        *_gains(told, look, rows[best]["policy"]),
        *place_figures.calibration_figures(told["calibration"]),
        place_figures.facts_section(told),
    ]
    return Page(document, title, blocks, files, certificate_last=True)


def _looks(document: Document) -> dict[str, Look]:
    return looks([row["policy"] for row in document.rows("rows")], document.looks, once=True)


def what_met_what(told: Row) -> str:
    """60 jobs on 20 machines, 24 slots of 1 h."""
    slot, slots = duration(told["slot"]), told["slots"]
    ahead = f"{slots} slots of {slot}" if slots is not None else f"slots of {slot}, planned {told['horizon']} ahead"
    return f"{count(told['jobs'], 'job')} on {count(told['machines'], 'machine')}, {ahead}"


def headline(document: Document) -> str:
    """PDORS earned most of 6 policies, 75.9 % of the bound: certificate passed."""
    told = document.result
    rows = told["rows"]
    best = max(rows, key=lambda row: merit(told, row))
    many = count(len(rows), "policy", "policies")
    if not any(row["completed"] for row in rows):
        who = f"{rows[0]['policy']} completed no" if len(rows) == 1 else f"none of {many} completed a"
        return f"{who} job{outcome(document)}"
    if not is_stated(told):
        least = f"the least slowdown of {many}, " if len(rows) > 1 else "a slowdown of "
        mean = number(best["mean_slowdown"], 3)
        return (
            f"{best['policy']} completed {count(best['completed'], 'job')}, {least}{mean} on average{outcome(document)}"
        )
    found = f"{best['policy']} earned " + (number(best["utility"]) if len(rows) == 1 else f"most of {many}")
    part = best["share_of_bound"]
    return found + ("" if part is None else f", {percent(part)} of the bound") + outcome(document)


def summary(document: Document, speeds: Mapping[str, float] | None = None) -> list[Table | Text | Bullets]:
    """What the terminal shows of a comparison; `speeds` are decisions per second, which no document keeps."""
    told = facts_of(document)
    title = f"{what_met_what(told)}: {count(len(told['rows']), 'policy', 'policies')}"
    about_bound = told["bound_note"]
    blocks: list[Table | Text | Bullets] = [
        Text("", strong=title),
        *objective(told),
        Bullets([f"- {note}" for note in told["notes"] if not about_bound or note != about_bound]),
        policy_table(document, speeds),
        *([Text(about_bound)] if about_bound else []),
        *user_tables(told),
        *reason_tables(told),
        *map(Text, (*_hopeless_lines(told), *_calibration_lines(told))),
    ]
    if told["gains"]:
        first = told["gains"][0]
        blocks.append(gain_table(told, looks([row["policy"] for row in told["rows"]], {})))
        if first["lost"]:
            title = f"Jobs that lost under {first['policy']} instead of {first['baseline']}"
            blocks.append(moved_table(told, title, first["lost"], first["jobs_lost"], FEW_JOBS))
    return blocks


# Tables.


def policy_table(document: Document, speeds: Mapping[str, float] | None = None) -> Table:
    """Jobs done, in time, how much slower than alone, promises; then what was earned, where anything was stated."""
    told, look = facts_of(document), _looks(document)
    rows, bound, rates, has_worth = told["rows"], told["bound"], speeds or {}, is_stated(told)
    measured, promising = "in_time" in rows[0], any(row["admitted"] for row in rows)

    def figure(head: str, name: str, digits: int = 4, least: bool = False) -> Column:
        """A number for each policy, the best of them marked."""
        best = (min if least else max)((row[name] for row in rows if row[name] is not None), default=None)

        def cell(row: Row) -> Cell:
            return Cell(number(row[name], digits), best=row[name] is not None and row[name] == best)

        return Column(head, of=cell)

    def hours(name: str, drop: int) -> Column:
        return Column(f"{name} hours", drop=drop, of=lambda row: _hours(row[f"{name}_completion"]))

    columns = [
        Column("policy", "left", of=lambda row: Cell(row["policy"], look=look[row["policy"]])),
        figure("jobs done", "completed"),
        measured and figure("in time", "in_time"),
        measured and figure("mean slowdown", "mean_slowdown", 3, least=True),
        measured and figure("p95", "p95_slowdown", 3, least=True),
        measured and promising and Column("promised on arrival", of=lambda row: f"{row['promised_on_arrival']:,}"),
        measured and promising and Column("broken by us / machine / statement", of=_broken),
        measured and Column("unfair, %", drop=2, of=lambda row: fixed(_part(row["unfair"]), 0)),
        has_worth and figure("utility", "utility"),
        has_worth
        and bound is not None
        and Column("% of bound", drop=1, of=lambda row: percent(row["share_of_bound"]).removesuffix(" %")),
        promising and Column("promised at all", drop=5, of=lambda row: f"{row['admitted']:,}"),
        *(hours("mean", 3), hours("median", 7), hours("p99", 6)),
        "gpu" in told["resources"] and Column("GPU hours", drop=4, of=lambda row: f"{row['gpu_hours']:,.0f}"),
        bool(rates) and Column("decided per s", drop=8, of=lambda row: f"{rates[row['policy']]:,.0f}"),
    ]
    note = f"All policies met the same {count(told['jobs'], 'job')}. "
    note += SLOWDOWN if measured else ""
    note += "Hours run from arrival to the end of the slot of finish, over the jobs done."
    if document.config.get("fair") and "Dated" in (row["policy"] for row in rows):
        note += " Dated is fair (--fair): a job counts the less the more of the cluster its user has had."
    table = Table.of("Policies on the same jobs", rows, columns, note)
    if bound is None:
        return table
    limits = {"policy": "bound", "utility" if has_worth else "jobs done": number(bound["utility"])}
    limits |= {"% of bound": "100"}
    last = [Cell(limits.get(column.name, ""), faint=True) for column in table.columns]
    return replace(table, rows=[*table.rows, last])


def _part(part: float | None) -> float | None:
    return None if part is None else 100.0 * part


def _broken(row: Row) -> Cell:
    """Promises broken by us, which must be none, by machines that went away, and by jobs longer than they stated."""
    words = " / ".join(f"{row[f'broken_by_{who}']:,}" for who in ("us", "machine", "statement"))
    return Cell(words, tone="bad" if row["broken_by_us"] else "")


def user_tables(told: Row) -> list[Table]:
    """By user, how many of the jobs fared worse than by equal shares; none where no job states a user."""
    users: dict[str, dict[str, Row]] = {}
    for row in told.get("users", []):
        users.setdefault(row["user"], {})[row["policy"]] = row
    names = [row["policy"] for row in told["rows"]]
    most = sorted(users.values(), key=lambda own: -own[names[0]]["jobs"])
    columns = [Column("user", "left", of=lambda own: own[names[0]]["user"])]
    columns += [Column("jobs", of=lambda own: f"{own[names[0]]['jobs']:,}")]
    columns += [Column(name, of=lambda own, name=name: fixed(_part(own[name]["unfair"]), 0)) for name in names]  # type: ignore[misc]
    note = f"The {MOST_USERS} with most jobs of {len(users):,}." if len(users) > MOST_USERS else ""
    title = "Jobs that fared worse than by equal shares, %, by user"
    return [Table.of(title, most[:MOST_USERS], columns, note)] if users else []


def _hours(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def reason_tables(told: Row) -> list[Table]:
    """Why jobs did not finish; none when all did."""
    kinds = reason_kinds(told)
    columns = [Column("policy", "left"), *(Column(reason(kind)) for kind in kinds)]
    rows = [
        [name, *(f"{found[kind]:,}" if kind in found else NOTHING for kind in kinds)]
        for name, found in told["reasons"].items()
    ]
    return [Table("Why jobs did not finish: the last thing each was told", columns, rows)] if kinds else []


def gain_table(told: Row, look: Mapping[str, Look]) -> Table:
    """What would have been gained over the baseline."""
    gains, has_worth = told["gains"], is_stated(told)
    base, measured = gains[0]["baseline"], "in_time" in gains[0]

    def gained(row: Row) -> Cell:
        return Cell(signed(row["utility"]), tone="good" if row["utility"] > 0 else "bad" if row["utility"] < 0 else "")

    columns = [
        Column("instead", "left", of=lambda row: Cell(row["policy"], look=look[row["policy"]])),
        Column("jobs done", of=lambda row: signed(row["completed"])),
        measured and Column("in time", of=lambda row: signed(row["in_time"])),
        measured and Column("mean slowdown", of=lambda row: fixed(row["mean_slowdown"], 2, "+")),
        has_worth and Column("utility gained", of=gained),
        has_worth and Column(f"of {base}'s", drop=2, of=lambda row: relative(row["relative"])),
        Column("jobs that gained", drop=3, of=lambda row: f"{row['jobs_gained']:,}"),
        Column("that lost", drop=1, of=lambda row: f"{row['jobs_lost']:,}"),
        Column("neither", drop=4, of=lambda row: f"{row['same']:,}"),
    ]
    return Table.of(f"What you would have gained over {base}", gains, columns)


def moved_table(told: Row, title: str, jobs: Sequence[Row], total: int, most: int) -> Table:
    """Jobs that gained or lost most by the change from the baseline to a policy."""
    columns = [Column("job", "left"), Column("arrives", drop=3)]
    columns += [Column("utility before"), Column("utility after")] if is_stated(told) else []
    columns += [Column("finish before", drop=2), Column("finish after", drop=1), Column("told last", "left", wrap=True)]
    rows = []
    for job in jobs[:most]:
        ends = ["not" if end is None else f"{end:,}" for end in (job["finish_before"], job["finish_after"])]
        worths = [number(job[f"utility_{when}"], 3) for when in ("before", "after") if is_stated(told)]
        why = reason(job["reason"])
        last = f"{job['state']}: {why}" if why and why != job["state"] else job["state"]
        rows.append([job["id"], f"{job['arrival']:,}", *worths, *ends, last])
    return Table(title, columns, rows, f"The {len(rows)} largest of {total:,}." if total > len(rows) else "")


MEASURES = {"completed": "jobs done", "admitted": "promised", "mean_completion": "mean hours"}
MEASURES |= {"median_completion": "median hours", "p99_completion": "p99 hours", "gpu_hours": "GPU hours"}


def whatif_blocks(document: Document) -> list[Table | Text | Bullets]:
    """What the terminal shows of `place whatif`: both runs side by side, whose dates move, who gains and who loses."""
    told, (now, then) = document.result, document.rows("rows")
    names = [name for name in now if isinstance(now[name], int | float) and isinstance(then[name], int | float)]
    names = [name for name in names if name != "utility" or is_stated(told)]
    rows = [
        {"name": MEASURES.get(name, name.replace("_", " ")), "now": now[name], "then": then[name]} for name in names
    ]
    columns = [
        Column("", "left", of=itemgetter("name")),
        Column("now", of=lambda row: number(row["now"])),
        Column("then", of=lambda row: number(row["then"])),
        Column("change", of=lambda row: signed(row["then"] - row["now"])),
    ]
    dates = ", ".join(f"{amount:,} {kind}" for kind, amount in told["dates"].items())
    blocks: list[Table | Text | Bullets] = [
        Text("", strong=f"What if: {told['words']}, {count(told['jobs'], 'job')} of {now['policy']}"),
        Bullets([f"- {note}" for note in told["notes"]]),
        Table.of("As it is, and as it would be", rows, columns),
        Text(f"Dates promised: {dates}. Jobs: {told['jobs_gained']:,} gain, {told['jobs_lost']:,} lose."),
    ]
    for kind, verb in (("gained", "gain"), ("lost", "lose")):
        if told[kind]:
            blocks.append(moved_table(told, f"Jobs that {verb} most", told[kind], told[f"jobs_{kind}"], FEW_JOBS))
    return blocks


def trial_table(trials: Sequence[Row]) -> Table:
    """Every candidate, best first; the chosen one marked."""
    columns = [
        Column("", "left", of=lambda trial: "->" if trial["chosen"] else ""),
        Column("level", of=lambda trial: f"{trial['level']:.4g}"),
        Column("full / empty", of=lambda trial: f"{trial['ratio']:.4g}"),
        Column("lead in slots", drop=1, of=lambda trial: f"{trial['lead']:g}"),
        Column("utility", of=lambda trial: Cell(number(trial["utility"]), best=trial["chosen"])),
        Column("jobs done", of=lambda trial: f"{trial['completed']:,}"),
    ]
    note = "The level is the price of the whole cluster for a slot."
    return Table.of("Prices replayed on history", sorted(trials, key=lambda trial: -trial["utility"]), columns, note)


def sweep_table(document: Document) -> Table:
    """Means with standard errors over seeds, beside what was gained over the baseline on the same seeds."""
    paired, seeds = {row["policy"]: row for row in document.rows("paired")}, len(document.result["seeds"])
    base = next((row["baseline"] for row in paired.values()), "")
    measured = [("jobs done", "completed", 1), ("in time", "in_time", 1), ("mean slowdown", "mean_slowdown", 2)]
    measured += [("utility", "utility", 1), ("of the bound", "share_of_bound", 3)] if is_stated(document.result) else []
    measured = [found for found in measured if found[1] in document.rows("rows")[0]]
    columns = [Column("policy", "left"), *(Column(name, drop=3 * (name == "of the bound")) for name, _, _ in measured)]
    columns += [Column(f"over {base}", drop=1), Column("ahead", drop=4)] if base else []
    body = []
    for row in document.rows("rows"):
        cells = [row["policy"], *(with_error(row[name], row[f"{name}_se"], n) for _, name, n in measured)]
        if (gap := paired.get(row["policy"])) is not None:
            cells += [with_error(gap["utility"], gap["utility_se"], 1), f"{gap['ahead']} of {seeds}"]
        body.append([*cells, *("" for _ in columns[len(cells) :])])
    return Table(f"{seeds} seeds, mean ± standard error", columns, body)


def bound_numbers(document: Document, seconds: float) -> list[KeyNumbers | Bullets]:
    """What `place bound` found, and how long it took."""
    told = document.result
    kind = {"lp": "linear program", "milp": "the optimum", "trivial": "no job can finish"}[told["kind"]]
    numbers = {
        "jobs": f"{told['jobs']:,} on {count(told['machines'], 'machine')}, to slot {told['end']:,}",
        "no schedule earns more than": f"{number(told['utility'], 6)} ({kind}, {told['status']})",
        "it completes": f"{told['completed']:,.{1 if told['kind'] == 'lp' else 0}f} jobs",
        "time": f"{seconds:.1f} s",
        "note": told["note"],
    }
    tiles = KeyNumbers([KeyNumber(name, value) for name, value in numbers.items() if value])
    return [tiles, Bullets([f"- {line}" for line in told["notes"]])]


def verified_numbers(document: Document) -> list[KeyNumbers | Text]:
    """What `place verify` found beside the certificate."""
    told = document.result
    done = f"{told['completed']:,} of {told['jobs']:,}"
    numbers = {"cells": f"{told['cells']:,}", "jobs done": done, "utility": number(told["utility"], 6)}
    tiles = KeyNumbers([KeyNumber(name, value) for name, value in numbers.items()])
    unclaimed = "no finishes are claimed, so that work and locality have nothing to be compared with (--claims FILE)"
    return [tiles] if document.config["claims"] is not None else [tiles, Text(unclaimed)]


def import_lines(document: Document) -> list[str]:
    """What `place import` wrote and skipped, line by line."""
    told, source = document.result, Path(document.config["jobs"]).name
    slots = f"slots 0 to {told['last_arrival']:,} of {duration(told['slot'])}"
    slots += f" from {told['start']}" if told["start"] else ""
    lines = [f"{told['out']}: {told['jobs']:,} jobs from {source} ({told['format']}), {slots}"]
    lines += [f"- {line}" for line in (told["note"], *told["lines"]) if line]
    if skipped := len(told["skipped"]):
        lines.append(f"- {percent(skipped / (told['jobs'] + skipped))} of the rows skipped in all")
    return lines + ([f"{told['cluster_out']}: {count(told['machines'], 'machine')}"] if "machines" in told else [])


# Sentences.


def _key_numbers(told: Row, best: Row) -> list[KeyNumber]:
    rows, bound, base = told["rows"], told["bound"], told["baseline"]
    done = max(rows, key=lambda row: row["completed"])
    note = f"of {told['jobs']:,}, {done['policy']}"
    note += "" if done is best else f"; {best['policy']} {best['completed']:,}"
    found = [KeyNumber("most jobs completed", f"{done['completed']:,}", note)]
    if "in_time" in best:
        soon = max(rows, key=lambda row: row["in_time"])
        note = soon["policy"] + ("" if soon is best else f"; {best['policy']} {best['in_time']:,}")
        found.append(KeyNumber("most in time", f"{soon['in_time']:,}", note))
    if not is_stated(told):
        return [
            *found,
            KeyNumber("least slowdown", number(best["mean_slowdown"], 3), f"{best['policy']}, mean of all jobs"),
        ]
    found.append(KeyNumber("most utility", number(best["utility"]), best["policy"]))
    if best["share_of_bound"] is not None and bound is not None:
        note = f"no schedule can earn more than {number(bound['utility'])}, even knowing all jobs in advance"
        found.append(KeyNumber("of the bound", percent(best["share_of_bound"]), note))
    before = next(row for row in rows if row["policy"] == base)
    if base != best["policy"]:
        change = best["utility"] - before["utility"]
        rise = f"{relative(change / before['utility'])}, " if before["utility"] > 0 else ""
        more = best["completed"] - before["completed"]
        note = rise + (f"{signed(more)} completed jobs" if more else "with as many completed jobs")
        found.append(KeyNumber(f"{best['policy']} over {base}", signed(change), note))
    return found


def is_stated(told: Row) -> bool:
    """Whether any job states what it is worth; documents that do not say are of jobs that all did."""
    return bool(told.get("stated", "worth") != "nothing")


def objective(told: Row) -> list[Text]:
    """By what the policies are judged, and which one is recommended."""
    about, advice = told.get("objective"), told.get("recommended")
    words = joined(about and f"Objective: {about}.", advice and f"Recommended: {advice['why']}.")
    return [Text(words)] if words else []


def merit(told: Row, row: Row) -> tuple[float, int]:
    """More is better: utility, or where nothing is stated less slowdown; then jobs done."""
    judged = row["utility"] if is_stated(told) else -(row["mean_slowdown"] or 0.0)
    return judged, row["completed"]


def _earning(told: Row, row: Row) -> str:
    return f" and earned {number(row['utility'])}" if is_stated(told) else ""


def _gains(told: Row, look: Mapping[str, Look], best: str) -> list[Section]:
    """What would have been gained, and for each policy the jobs that lost and that gained most."""
    gains, base = told["gains"], told["baseline"]
    if not gains:
        return []
    opened = best if best in [gain["policy"] for gain in gains] else gains[0]["policy"]
    kinds = {"lost": "Jobs that lost most", "gained": "Jobs that gained most"}
    folds = []
    for gain in gains:
        inner = [
            moved_table(told, title, gain[kind], gain[f"jobs_{kind}"], MOST_JOBS)
            if gain[kind]
            else Text("None.", f"{title}.")
            for kind, title in kinds.items()
        ]
        change = f"utility {signed(gain['utility'])}; " if is_stated(told) else ""
        change += f"{count(gain['jobs_gained'], 'job')} gained"
        words = f"{gain['policy']} instead of {base}: {change}, {gain['jobs_lost']:,} lost"
        folds.append(Fold(words, inner, open=gain["policy"] == opened))
    judged = "what finishing it is worth" if is_stated(told) else "how much slower than alone it is"
    note = Text(
        f"A job gains or loses by {judged} under the one policy and under {base}; finishes are slots.", soft=True
    )
    title = f"What you would have gained over {base}, and which jobs lost"
    return [Section(title, [replace(gain_table(told, look), title=""), *folds, note], "gains")]


def _hopeless_lines(told: Row) -> list[str]:
    """Jobs no policy could finish, with what they would hold."""
    found = []
    for kind, (one, many) in HOPELESS.items():
        row = told["hopeless"][kind]
        if row["jobs"]:
            shares = ", ".join(f"{percent(part)} of {name} time" for name, part in row["resource_time"].items() if part)
            verb = one if row["jobs"] == 1 else many
            found.append(f"{count(row['jobs'], 'job')} ({percent(row['share'])}) {verb} ({kind}): {shares}")
    return found


def _calibration_lines(told: Row) -> list[str]:
    """What prices each policy chose from history."""
    found = []
    for label in dict.fromkeys(row["policy"] for row in told["calibration"]):
        rows = [row for row in told["calibration"] if row["policy"] == label]
        if (chosen := next((row for row in rows if row["chosen"]), None)) is None:
            continue  # it was a bid, in a document of 0.1.0
        lead = f", lead {chosen['lead']:g}" if chosen["lead"] else ""
        setting = f"level {chosen['level']:.3g}, full / empty {chosen['ratio']:.3g}{lead}"
        there = f"utility {number(chosen['utility'])} there"
        found.append(f"prices of {label}: {setting}, chosen of {len(rows)} replayed on history ({there})")
    return found
