"""Policies side by side at a crowded site: the finding in words, every measure against the load, and one task's life.

The page, the sheet for a paper, and the tables of the terminal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from equipoise.document import Document, Row, rows_of
from equipoise.present.figures import Axis, Figure, Look, Mark, Panel, Series, Sheet, chosen, looks
from equipoise.present.task_lives import STARVER, life_widget
from equipoise.present.text import NOTHING, count, fixed, joined, number, outcome, percent, tight, with_error
from equipoise.present.values import Block, Cell, Cells, Column, KeyNumber, KeyNumbers, Legend, Page, Table, Tone

ORACLE = "oracle's bound"
LOG_SPREAD = 10.0  # largest over smallest value from which an axis becomes logarithmic
SURE = 2.0  # standard errors beyond which a difference is coloured
Looks = Mapping[str, Look]


@dataclass(frozen=True)
class Measure:
    """A column of the rows as a figure."""

    column: str
    title: str
    unit: str
    meaning: str
    high: float | None = None


IDLE = (
    "Compute that stood idle while a task was ready for it; lower is better. "
    "Part of it is forced: one task can only use one node."
)
MEASURES = (
    Measure("success", "Tasks finished in time", "% of tasks", "Higher is better.", 100.0),
    Measure("energy", "Energy", "energy", "All servers, by the law of the site."),
    Measure("efficiency", "Efficiency", "% of tasks per energy", "Success in percent divided by energy."),
    Measure("network", "Network use", "% of the uplink", "Over the whole horizon."),
    Measure("idle_while_work", "Idle while work waits", "% of all compute", IDLE),
    Measure("latency", "Latency", "steps", "From arrival to the step of success, over the tasks that succeeded."),
)


def page(document: Document) -> Page:
    """The page of a comparison."""
    rows = document.rows("rows")
    look = looks(_names(rows), document.looks)
    # The largest load; before it the load of the published table where the run repeats it.
    shown = [*(paper["load"] for paper in document.result.get("published", [])), max(_loads(rows))]
    blocks: list[Block] = [
        KeyNumbers(_key_numbers(rows, look)),
        *(_measures_table(document, load, look) for load in dict.fromkeys(shown)),
        Legend(list(look.values()), bound=ORACLE if _bounds(rows) else ""),
        *(_figure(measure, rows, look) for measure in MEASURES),
    ]
    if "lives" in document.names:
        blocks.append(life_widget(document, look))
    files = {"history.csv": "every policy, load and seed", "lives.csv": "the lives of the tasks of one seed"}
    return Page(document, _title(document, look), blocks, files)


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["policy"]) for row in rows))


def _loads(rows: Sequence[Row]) -> list[int]:
    return list(dict.fromkeys(int(row["load"]) for row in rows))


def _bounds(rows: Sequence[Row], measure: str = "success") -> dict[int, float]:
    """The oracle's bound by load, where it was computed; it bounds success only."""
    return {row["load"]: row["oracle"] for row in rows if measure == "success" and row["oracle"] is not None}


def _title(document: Document, look: Looks) -> str:
    """7 policies at 10 to 60 tasks, 200 seeds: Hybrid finishes 78 % at 60 tasks, UARA+LARA 33 %: certificate passed."""
    rows = document.rows("rows")
    names, loads = _names(rows), _loads(rows)
    load = max(loads)
    span = f"{min(loads)} to {load}" if len(loads) > 1 else f"{load}"
    who = names[0] if len(names) == 1 else count(len(names), "policy", "policies")
    tasks = "task" if load == 1 else "tasks"
    here = _untold(rows, look, load)
    best = max(here, key=lambda row: row["success"])
    other = next((row for row in here if row["policy"] == STARVER), min(here, key=lambda row: row["success"]))
    who_best = best["policy"] if len(here) > 1 else "it"
    found = f"{who_best} finishes {_whole(best['success'])} at {load} {tasks}"
    if other is not best:
        found += f", {other['policy']} {_whole(other['success'])}"
    return f"{who} at {span} {tasks}, {count(rows[0]['seeds'], 'seed')}: {found}{outcome(document)}"


def _whole(value: float) -> str:
    return f"{value:.0f}\N{NO-BREAK SPACE}%"


def _untold(rows: Sequence[Row], look: Looks, load: int) -> list[Row]:
    """Rows at a load of policies that are not told the truth; all, if there is none."""
    here = [row for row in rows if row["load"] == load]
    return [row for row in here if not look[row["policy"]].dashed] or here


def _key_numbers(rows: Sequence[Row], look: Looks) -> list[KeyNumber]:
    load = max(_loads(rows))
    here = _untold(rows, look, load)
    best, lean, idle = (max(here, key=lambda row: row[name]) for name in ("success", "efficiency", "idle_while_work"))
    where, waste = f"at {load} tasks", f"{idle['idle_while_work']:.1f} %"
    found = [
        KeyNumber("most tasks finished", f"{best['success']:.1f} %", f"{best['policy']} {where}"),
        KeyNumber("most efficient", number(lean["efficiency"], 3), f"{lean['policy']} {where}: % of tasks per energy"),
        KeyNumber("most idle while work waits", waste, f"{idle['policy']} {where}: of all compute"),
    ]
    if best["oracle"] is not None:
        reached = "" if best["of_oracle"] is None else f"; {best['policy']} reaches {percent(best['of_oracle'])} of it"
        found.append(KeyNumber(ORACLE, f"{best['oracle']:.1f} %", f"no policy can finish more {where}{reached}"))
    return found


# Tables, of the page and of the terminal.


def _measures_table(document: Document, load: int, look: Looks) -> Table:
    """Everything that was measured at one load; without looks as the terminal shows it, which has further tables."""
    rows = rows_of(document, "rows", load=load)
    told, baseline = (document.result if look else {}), document.result.get("baseline")
    paired = [gap for gap in told.get("paired", []) if gap["load"] == load and gap["measure"] == "success"]
    gaps = {gap["one"]: gap for gap in paired if gap["other"] == baseline}
    beside = {paper["policy"]: paper for paper in told.get("published", []) if paper["load"] == load}
    written, bounded = with_error if look else tight, bool(_bounds(rows))
    columns = [Column("policy", "left"), *map(Column, ("success, %", "energy", "efficiency"))]
    columns += [Column("latency, steps", drop=2), Column("network, %", drop=3), Column("idle while work, %")]
    columns += [Column("of the oracle's, %", drop=1)] if bounded else []
    columns += [Column(f"success against {baseline}")] if gaps else []
    columns += [Column("paper's success, %, and energy")] if beside else []
    best = {name: max(row[name] for row in rows) for name in ("success", "efficiency")}
    body = []
    for row in rows:
        name, one, paper = row["policy"], look.get(row["policy"]), beside.get(row["policy"])
        success = written(row["success"], row["success_se"], 1)
        efficiency = written(row["efficiency"], row["efficiency_se"] if look else None, 4)
        cells: list[str | Cell] = [Cell(one.name, look=one) if one else name]
        cells += [Cell(success, best=row["success"] == best["success"]), fixed(row["energy"], 0)]
        cells += [Cell(efficiency, best=row["efficiency"] == best["efficiency"])]
        cells += [fixed(row[measure], 1) for measure in ("latency", "network", "idle_while_work")]
        cells += [percent(row["of_oracle"]).removesuffix(" %")] if bounded else []
        cells += [_difference(gaps[name]) if name in gaps else NOTHING] if gaps else []
        cells += [f"{paper['success']:.1f} · {paper['energy']:,.0f}" if paper else NOTHING] if beside else []
        body.append(cells)
    seeds = rows[0]["seeds"]
    note = joined(
        f"Means over {count(seeds, 'seed')}" + (" ± standard error." if seeds > 1 else "."),
        not look and "Idle while work: compute that stood idle while a task was ready for it.",
        gaps and f"The difference from {baseline} is in points, paired seed by seed.",
        beside
        and "The paper's numbers are one run, with other tasks for every policy; single runs scatter by 7 points (sd).",
    )
    return Table(f"At {count(load, 'task')}", columns, body, note, str(load))


def _difference(gap: Row) -> str:
    return with_error(gap["difference"], gap["standard_error"], 1 if gap["measure"] == "success" else 4, "+")


def comparison_tables(document: Document, width: int) -> Iterator[Table]:
    """What a comparison prints in a terminal of so many columns."""
    from equipoise.present.terminal import fits

    loads = _loads(document.rows("rows"))
    if len(loads) > 1:
        wide = _success_table(document, errors=True)
        yield wide if fits(wide, width) else _success_table(document, errors=False)
    yield _measures_table(document, max(loads), {})
    if document.result.get("published"):
        yield _published_table(document)
    if document.result["paired"]:
        yield _paired_table(document, max(loads))


def _success_table(document: Document, *, errors: bool) -> Table:
    """Success in percent, a row for each policy, a column for each load."""
    rows = document.rows("rows")
    names, loads, bounds = _names(rows), _loads(rows), _bounds(rows)
    cells = {(row["policy"], row["load"]): row for row in rows}
    best = {load: max(row["success"] for row in rows if row["load"] == load) for load in loads}
    body: list[Cells] = []
    for name in names:
        mine = [cells[name, load] for load in loads]
        told = [tight(row["success"], row["success_se"] if errors else None, 1) for row in mine]
        first = [row["success"] == best[row["load"]] for row in mine]
        body.append([name, *(Cell(text, best=it) for text, it in zip(told, first, strict=True))])
    if bounds:
        body.append([Cell(text, faint=True) for text in (ORACLE, *(fixed(bounds.get(load), 1) for load in loads))])
    asked = len({row["seed"] for row in rows_of(document, "history") if bounds and row["oracle"] is not None})
    note = f"the {ORACLE} is over the first {count(asked, 'seed')}" if 0 < asked < rows[0]["seeds"] else ""
    title = "success, % of tasks" + (" (± standard error)" if errors else "")
    return Table(title, [Column("policy", "left"), *(Column(count(k, "task")) for k in loads)], body, note, split=True)


def _published_table(document: Document) -> Table:
    """The paper's own numbers beside ours, for the policies that are in both."""
    papers = document.result["published"]
    load = papers[0]["load"]
    ours = {row["policy"]: row for row in rows_of(document, "rows", load=load)}
    measures = {"success": 1, "latency": 1, "energy": 0, "efficiency": 4}
    body = []
    for paper in papers:
        row, cells = ours[paper["policy"]], [paper["policy"]]
        for measure, digits in measures.items():
            error = row["success_se"] if measure == "success" else None  # all four would not fit 80 columns
            cells.append(f"{fixed(paper[measure], digits)} · {tight(row[measure], error, digits)}")
        body.append(cells)
    seeds = count(next(iter(ours.values()))["seeds"], "seed")
    apart = sorted(papers, key=lambda paper: -abs(paper["success"] - ours[paper["policy"]]["success"]))[:2]
    told = [f"{p['policy']} {p['success']:.1f} against {ours[p['policy']]['success']:.1f} %" for p in apart]
    note = (
        f"They differ most in {joined(' and '.join(told))}: the paper's is one run in which every policy met other tasks, "
        f"ours are means over {seeds}, the same tasks for all. --published-run repeats the paper's run to the digit."
    )
    columns = _columns(["success, %", "latency", "energy", "efficiency"])
    return Table(f"the paper's table at {load} tasks · ours", columns, body, note)


def published_tables(document: Document) -> Iterator[Table]:
    """The authors' run: the paper's Table 1 beside ours, cell by cell, and all loads."""
    digits = {"success": 1, "latency": 1, "energy": 0, "efficiency": 4, "network": 1}
    cells: dict[str, list[str | Cell]] = {}
    for cell in document.result["table"]:
        paper, ours = (fixed(cell[whose], digits[cell["column"]]) for whose in ("paper", "ours"))
        told = Cell(f"{paper} · {ours}", tone="good" if cell["same"] else "bad")
        cells.setdefault(cell["policy"], [cell["policy"]]).append(told)
    same, every = sum(cell["same"] for cell in document.result["table"]), len(document.result["table"])
    note = f"the paper's number · ours: {same} of {every} cells are the same in print"
    title = "the paper's Table 1, at 60 tasks, and the authors' sequence played here"
    yield Table(title, _columns(["success, %", "latency", "energy", "efficiency"]), list(cells.values()), note)
    for load, rows in groupby(document.rows("rows"), key=lambda row: int(row["load"])):
        title = f"at {load} tasks" if load else "the opening test, 10 tasks"
        body = [[row["policy"], *(fixed(row[name], places) for name, places in digits.items())] for row in rows]
        yield Table(title, _columns(["success, %", "latency", "energy", "efficiency", "network, %"]), body)


def _columns(heads: Sequence[str]) -> list[Column]:
    return [Column("policy", "left"), *map(Column, heads)]


def _paired_table(document: Document, load: int) -> Table:
    """Differences on the same seeds; those beyond two standard errors in colour."""
    found: dict[str, list[str | Cell]] = {}
    for gap in document.result["paired"]:
        if gap["load"] == load:
            cell = Cell(_difference(gap), tone=_tone(gap["difference"], gap["standard_error"]))
            found.setdefault(gap["one"], [gap["one"]]).append(cell)
    columns = [Column("policy", "left"), Column("success, points"), Column("efficiency")]
    title = f"difference to {document.result['baseline']} on the same seeds, at {count(load, 'task')}"
    return Table(title, columns, list(found.values()))


def _tone(difference: float | None, error: float | None) -> Tone:
    if difference is None or error is None or abs(difference) <= SURE * error:
        return ""
    return "good" if difference > 0 else "bad"


def bundles_table(document: Document, load: int) -> Table:
    """Time sharing: tasks finished of a bundle, switches, and the difference from the best that is blind to losses."""
    rows = rows_of(document, "rows", load=load)
    best, against = max(row["successes"] for row in rows), rows[0]["against"]
    columns = [Column("policy", "left"), Column(f"finished of {load}"), Column("switches")]
    columns += [Column(f"against {against}")] if against else []
    body: list[Cells] = []
    for row in rows:
        told = Cell(with_error(row["successes"], row["successes_se"], 2), best=row["successes"] == best)
        gap = Cell(
            with_error(row["difference"], row["difference_se"], 2, "+"),
            tone=_tone(row["difference"], row["difference_se"]),
        )
        body.append([row["policy"], told, fixed(row["switches"], 0), *([gap] if against else [])])
    note = f"means over {count(rows[0]['bundles'], 'bundle')} ± standard error; differences paired by bundle"
    return Table("one resource, shared in time", columns, body, note)


# The figures of the page.


def _figure(measure: Measure, rows: Sequence[Row], look: Looks) -> Figure:
    loads, column = _loads(rows), measure.column
    values, many = [row[column] for row in rows], len(loads) > 1
    log = many and _is_log(measure, rows)
    meaning = joined(
        measure.meaning,
        log and "The axis is logarithmic" + (", so zeros are left out." if 0.0 in values else "."),
        None in values and "Where a policy finished nothing, there is no point.",
        _bounds(rows, column) and "No policy can lie above the oracle's bound on the seeds it was computed for.",
        len(look) > 1 and _coincide(rows, column) and "All policies are alike in this.",
        _errors(rows, column) and "Whiskers: ± 1 standard error.",
    )
    x, y, series = (_against_load if many else _by_policy)(measure, rows, look)
    across = "number of tasks" if many else f"policy at {loads[0]} tasks"
    label = f"{'Lines' if many else 'Dots'}: {measure.title.lower()} in {measure.unit} by {across}"
    figure = Figure(measure.title, x, y, series, caption=meaning, key=column, label=label, legend=False)
    return replace(figure, tip="x" if many else "item", most=100, down=True)


def _is_log(measure: Measure, rows: Sequence[Row]) -> bool:
    spread = [row[measure.column] for row in rows if row[measure.column]]
    far = max(spread, default=1) > LOG_SPREAD * min(spread, default=1)
    return measure.column == "efficiency" and far


def _coincide(rows: Sequence[Row], column: str) -> bool:
    """Whether at every load all policies have the same value, as far as one can see."""
    top = max((row[column] or 0.0 for row in rows), default=0.0)
    spans = [[row[column] or 0.0 for row in rows if row["load"] == load] for load in _loads(rows)]
    return all(max(values) - min(values) <= 0.005 * top for values in spans)


def _against_load(measure: Measure, rows: Sequence[Row], look: Looks) -> tuple[Axis, Axis, list[Series]]:
    loads, log, bound = sorted(_loads(rows)), _is_log(measure, rows), _bounds(rows, measure.column)
    cells = {(row["policy"], row["load"]): row for row in rows}
    series = []
    for name, one in look.items():
        mine = [cells[name, load] for load in loads]
        values = [row[measure.column] for row in mine]
        series.append(Series(one.name, loads, values, error=_errors(mine, measure.column), look=one))
    if bound:
        values = [bound.get(load) for load in loads]
        series.append(Series(ORACLE, loads, values, colour="@ink", dash="dotted", marker="none"))
    far, pad = loads[-1] / loads[0] > LOG_SPREAD, 0.05 * (loads[-1] - loads[0])
    low, high = (loads[0] / 1.2, loads[-1] * 1.2) if far else (loads[0] - pad, loads[-1] + pad)
    x = Axis("tasks", far, low, high, ticks=loads, point="{value} tasks")
    return x, Axis(measure.unit, log, None if log else 0.0, measure.high), series


def _errors(rows: Sequence[Row], column: str) -> list[float | None] | None:
    found = [row.get(f"{column}_se") for row in rows]
    return found if any(found) else None


def _by_policy(measure: Measure, rows: Sequence[Row], look: Looks) -> tuple[Axis, Axis, list[Series]]:
    """One load: a dot per policy, its whiskers lying."""
    found, bound = {row["policy"]: row for row in rows}, _bounds(rows, measure.column)
    series = []
    for k, (name, one) in enumerate(look.items()):
        value, errors = found[name][measure.column], _errors([found[name]], measure.column)
        series.append(Series(one.name, [value], [k], "dots", errors, one))
    lanes = [one.name for one in look.values()]
    if bound:
        series.append(Series(ORACLE, list(bound.values()), [len(lanes)], "dots", colour="@ink", marker="rect"))
        lanes.append(ORACLE)
    return Axis(measure.unit, low=0.0, high=measure.high), Axis(groups=lanes), series


# For a paper.

PUBLISHED_PANELS = ("success", "energy", "efficiency", "network")  # the four panels of Hasan and Peña


def sheet(document: Document, *, panels: Sequence[str] | None = None) -> Sheet:
    """Every measure over the load, a line for each policy; at a single load a bar for each.

    Parameters
    ----------
    document
        Of a comparison.
    panels
        Some of "success", "energy", "efficiency", "network", "latency", "idle_while_work"; the first four if None.
    """
    measures = {measure.column: measure for measure in MEASURES}
    rows = _with_errors(document)
    look, loads = looks(_names(rows), document.looks), sorted(_loads(rows))
    drawn = []
    for name in chosen(panels, list(measures), PUBLISHED_PANELS):
        measure = measures[name]
        if len(loads) == 1:
            drawn.append(_paper_bars(measure, rows, look))
            continue
        x, y, series = _against_load(measure, rows, look)
        x, y = replace(x, ticks=loads[:: -(-len(loads) // 8)]), replace(y, high=102.0 if name == "success" else None)
        drawn.append(Panel(Figure(measure.title, x, y, series)))
    return Sheet(drawn)


def _paper_bars(measure: Measure, rows: Sequence[Row], look: Looks) -> Panel:
    found, bound = {row["policy"]: row for row in rows}, _bounds(rows, measure.column)
    values = [*(found[name][measure.column] for name in look), *bound.values()]
    lanes = [*(one.name for one in look.values()), *(ORACLE for _ in bound)]
    colours = [*(one.own or one.light for one in look.values()), *("@edge" for _ in bound)]
    errors = _errors([*(found[name] for name in look), *({} for _ in bound)], measure.column)
    bars = Series("", values, list(range(len(values))), "bars", error=errors, colours=colours)
    limits = [Mark("x", value, dash="dotted") for value in bound.values()]
    title = f"{measure.title}, {rows[0]['load']} tasks"
    figure = Figure(title, Axis(measure.unit, low=0.0), Axis(groups=lanes), [bars], limits)
    return Panel(figure, height=0.55 + 0.17 * (len(look) + 1))


def _with_errors(document: Document) -> list[Row]:
    """The rows, with standard errors of what has none there, from the seeds behind them."""
    found = []
    for row in document.rows("rows"):
        seeds = rows_of(document, "history", policy=row["policy"], load=row["load"])
        errors: Row = {}
        for name in ("network", "idle_while_work") if len(seeds) > 1 else ():
            errors[f"{name}_se"] = float(np.std([one[name] for one in seeds], ddof=1) / np.sqrt(len(seeds)))
        found.append(errors | row)
    return found
