"""Policies side by side at a crowded site: the finding in words, every measure against the load, and one task's life."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise.document import Document, Row
from equipoise.present.looks import Look, looks
from equipoise.present.task_lives import STARVER, life_widget
from equipoise.present.text import NOTHING, count, fixed, number, percent, with_error
from equipoise.present.values import (
    Axis,
    Block,
    Cell,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Legend,
    Mark,
    Page,
    Panel,
    Series,
    Sheet,
    Table,
    chosen,
    verdict,
)

ORACLE = "oracle bound"
LOG_SPREAD = 10.0  # largest over smallest value from which an axis becomes logarithmic
BESIDE = {
    "result.json": "holds the result and the certificate",
    "history.csv": "every policy, load and seed",
    "lives.csv": "the lives of the tasks of one seed",
    "config.yaml": "repeats the run",
}
Looks = Mapping[str, Look]


@dataclass(frozen=True)
class Measure:
    """A column of the rows as a figure."""

    column: str
    title: str
    unit: str
    meaning: str
    high: float | None = None


MEASURES = (
    Measure("success", "Tasks finished in time", "% of tasks", "Higher is better.", 100.0),
    Measure("energy", "Energy", "energy", "All nodes over the whole horizon, idle ones included."),
    Measure("efficiency", "Efficiency", "% of tasks per energy", "Success in percent divided by energy."),
    Measure("network", "Network use", "% of the uplink", "Over the whole horizon."),
    Measure(
        "idle_while_work",
        "Idle while work waits",
        "% of all compute",
        "Compute that stood idle while a task was ready for it; lower is better. Part of it is forced: one task can "
        "only use one node.",
    ),
    Measure("latency", "Latency", "steps", "From arrival to completion, over the tasks that succeeded."),
)


def page(document: Document) -> Page:
    """The page of a comparison."""
    rows = document.rows("rows")
    look = looks(_names(rows), document.looks)
    blocks: list[Block] = [
        KeyNumbers(_key_numbers(rows, look)),
        *(_measures_table(document, look, load) for load in _table_loads(document)),
        Legend(list(look.values()), bound=ORACLE if _bounds(rows) else ""),
        *(_figure(measure, rows, look) for measure in MEASURES),
    ]
    if "lives" in document.names:
        blocks.append(life_widget(document, look))
    return Page.of(document, _title(document, look), blocks, BESIDE)


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["policy"]) for row in rows))


def _loads(rows: Sequence[Row]) -> list[int]:
    return list(dict.fromkeys(int(row["load"]) for row in rows))


def _bounds(rows: Sequence[Row]) -> dict[int, float]:
    """The oracle's bound by load, where it was computed."""
    return {row["load"]: row["oracle"] for row in rows if row["oracle"] is not None}


def _title(document: Document, look: Looks) -> str:
    """7 policies at 10 to 60 tasks, 200 seeds: Hybrid finishes 78 % at 60 tasks, UARA+LARA 33 %: certificate passed."""
    rows = document.rows("rows")
    names, loads = _names(rows), _loads(rows)
    load = max(loads)
    span = f"{min(loads)} to {load}" if len(loads) > 1 else f"{load}"
    who = names[0] if len(names) == 1 else count(len(names), "policy", "policies")
    tasks = "task" if load == 1 else "tasks"
    where = f"{who} at {span} {tasks}, {count(rows[0]['seeds'], 'seed')}"
    here = _untold(rows, look, load)
    best = max(here, key=lambda row: row["success"])
    other = next((row for row in here if row["policy"] == STARVER), min(here, key=lambda row: row["success"]))
    who_best = best["policy"] if len(here) > 1 else "it"
    found = f"{who_best} finishes {_whole(best['success'])} at {load} {tasks}"
    if other is not best:
        found += f", {other['policy']} {_whole(other['success'])}"
    passed = "" if document.certificate is None else f": certificate {verdict(document.certificate)}"
    return f"{where}: {found}{passed}"


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
    where = f"at {load} tasks"
    found = [
        KeyNumber("most tasks finished", _percent(best["success"]), f"{best['policy']} {where}"),
        KeyNumber("most efficient", number(lean["efficiency"], 3), f"{lean['policy']} {where}: % of tasks per energy"),
        KeyNumber(
            "most idle while work waits", _percent(idle["idle_while_work"]), f"{idle['policy']} {where}: of all compute"
        ),
    ]
    if best["oracle"] is not None:
        reached = "" if best["of_oracle"] is None else f"; {best['policy']} reaches {percent(best['of_oracle'])} of it"
        found.append(
            KeyNumber("oracle's bound", _percent(best["oracle"]), f"no policy can finish more {where}{reached}")
        )
    return found


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f} %"


# The tables of the page.


def _table_loads(document: Document) -> list[int]:
    """The largest load; before it the load of the published table where the run repeats it."""
    published = [paper["load"] for paper in document.result.get("published", [])]
    return list(dict.fromkeys([*published, max(_loads(document.rows("rows")))]))


def _measures_table(document: Document, look: Looks, load: int) -> Table:
    rows = [row for row in document.rows("rows") if row["load"] == load]
    baseline, gaps = _gaps(document, load)
    bounded = any(row["oracle"] is not None for row in rows)
    beside = {paper["policy"]: paper for paper in document.result.get("published", []) if paper["load"] == load}
    heads = ["success, %", "energy", "efficiency", "latency, steps", "network, %", "idle while work, %"]
    heads += ["of the oracle's, %"] if bounded else []
    heads += [f"success against {baseline}"] if gaps else []
    heads += ["paper's success, %, and energy"] if beside else []
    body = []
    for row in rows:
        cells: list[str | Cell] = [
            Cell(look[row["policy"]].name, look=look[row["policy"]]),
            with_error(row["success"], row["success_se"], 1),
            fixed(row["energy"], 0),
            with_error(row["efficiency"], row["efficiency_se"], 4),
            *(fixed(row[name], 1) for name in ("latency", "network", "idle_while_work")),
        ]
        if bounded:
            cells.append(NOTHING if row["of_oracle"] is None else f"{100 * row['of_oracle']:.1f}")
        if gaps:
            gap = gaps.get(row["policy"])
            cells.append(NOTHING if gap is None else with_error(gap["difference"], gap["standard_error"], 1, "+"))
        if beside:
            paper = beside.get(row["policy"])
            cells.append(NOTHING if paper is None else f"{paper['success']:.1f} · {paper['energy']:,.0f}")
        body.append(cells)
    seeds = rows[0]["seeds"]
    notes = [f"Means over {count(seeds, 'seed')}" + (" ± standard error." if seeds > 1 else ".")]
    if gaps:
        notes.append(f"The difference from {baseline} is in points, paired seed by seed.")
    if beside:
        notes.append("The paper's numbers are one run; single runs of 60 tasks scatter by 6 to 10 points (one sd).")
    columns = [Column("policy", "left"), *map(Column, heads)]
    title = f"At {load} {'task' if load == 1 else 'tasks'}"
    return Table(title, columns, body, " ".join(notes), str(load))


def _gaps(document: Document, load: int) -> tuple[str, dict[str, Row]]:
    """The baseline, and how much better every other policy is at a load, by policy."""
    baseline = str(document.result.get("baseline", ""))
    told = [gap for gap in document.result.get("paired", []) if gap["load"] == load and gap["measure"] == "success"]
    return baseline, {gap["one"]: gap for gap in told if gap["other"] == baseline}


# The figures of the page.


def _figure(measure: Measure, rows: Sequence[Row], look: Looks) -> Figure:
    loads = _loads(rows)
    values = [row[measure.column] for row in rows]
    log = len(loads) > 1 and _is_log(measure, values)
    bound = _bounds(rows) if measure.column == "success" else {}
    across = "number of tasks" if len(loads) > 1 else f"policy at {loads[0]} tasks"
    meaning = measure.meaning
    if log:
        meaning += " The axis is logarithmic" + (", so zeros are left out." if 0.0 in values else ".")
    if None in values:
        meaning += " Where a policy finished nothing, there is no point."
    if bound:
        meaning += " No policy can lie above the oracle's bound on the seeds it was computed for."
    if len(look) > 1 and _coincide(rows, measure.column):
        meaning += " All policies are alike in this."
    if any(row.get(f"{measure.column}_se") for row in rows):
        meaning += " Whiskers: ± 1 standard error."
    shown = "Lines" if len(loads) > 1 else "Dots"
    x, y, series = (
        _against_load(measure, rows, look, bound, log) if len(loads) > 1 else _by_policy(measure, rows, look, bound)
    )
    return Figure(
        measure.title,
        x,
        y,
        series,
        caption=meaning,
        key=measure.column,
        label=f"{shown}: {measure.title.lower()} in {measure.unit} by {across}",
        legend=False,
        tip="x" if len(loads) > 1 else "item",
        most=100,
        down=True,
    )


def _is_log(measure: Measure, values: Sequence[float | None]) -> bool:
    spread = [v for v in values if v]
    far = max(spread, default=1) > LOG_SPREAD * min(spread, default=1)
    return measure.column == "efficiency" and far


def _coincide(rows: Sequence[Row], column: str) -> bool:
    """Whether at every load all policies have the same value, as far as one can see."""
    top = max((row[column] or 0.0 for row in rows), default=0.0)
    spans = [[row[column] or 0.0 for row in rows if row["load"] == load] for load in _loads(rows)]
    return all(max(values) - min(values) <= 0.005 * top for values in spans)


def _against_load(
    measure: Measure, rows: Sequence[Row], look: Looks, bound: Mapping[int, float], log: bool
) -> tuple[Axis, Axis, list[Series]]:
    loads = sorted(_loads(rows))
    cells = {(row["policy"], row["load"]): row for row in rows}
    series = [
        Series(
            one.name,
            loads,
            [cells[name, load][measure.column] for load in loads],
            error=_errors([cells[name, load] for load in loads], measure.column),
            look=one,
        )
        for name, one in look.items()
    ]
    if bound:
        series.append(
            Series(ORACLE, loads, [bound.get(load) for load in loads], colour="@ink", dash="dotted", marker="none")
        )
    low, high = loads[0], loads[-1]
    far, pad = high / low > LOG_SPREAD, 0.05 * (high - low)
    ends = (low / 1.2, high * 1.2) if far else (low - pad, high + pad)
    x = Axis("tasks", log=far, low=ends[0], high=ends[1], ticks=loads, point="{value} tasks")
    return x, Axis(measure.unit, log=log, low=None if log else 0.0, high=measure.high), series


def _errors(rows: Sequence[Row], column: str) -> list[float | None] | None:
    found = [row.get(f"{column}_se") for row in rows]
    return found if any(found) else None


def _by_policy(
    measure: Measure, rows: Sequence[Row], look: Looks, bound: Mapping[int, float]
) -> tuple[Axis, Axis, list[Series]]:
    """One load: a dot per policy, its whiskers lying."""
    found = {row["policy"]: row for row in rows}
    series = [
        Series(
            one.name, [found[name][measure.column]], [k], "dots", error=_errors([found[name]], measure.column), look=one
        )
        for k, (name, one) in enumerate(look.items())
    ]
    lanes = [one.name for one in look.values()]
    if bound:
        series.append(Series(ORACLE, list(bound.values()), [len(lanes)], "dots", colour="@ink", marker="rect"))
        lanes.append(ORACLE)
    return Axis(measure.unit, low=0.0, high=measure.high), Axis(groups=lanes), series


# For a paper.

PUBLISHED_PANELS = ("success", "energy", "efficiency", "network")  # the four panels of Hasan and Peña
PAPER_WORDS = {  # where the paper's words are shorter than the page's
    "energy": ("Energy", "energy units"),
    "efficiency": ("Efficiency", "% of tasks / energy"),
    "network": ("Use of the uplink", "% of capacity"),
    "latency": ("Latency of finished tasks", "steps"),
    "idle_while_work": ("Idle while work waits", "% of compute"),
}


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
        bound = _bounds(rows) if name == "success" else {}
        title, unit = PAPER_WORDS.get(name, (measure.title, measure.unit))
        if len(loads) == 1:
            drawn.append(_paper_bars(measure, rows, look, bound, f"{title}, {loads[0]} tasks", unit))
            continue
        log = _is_log(measure, [row[name] for row in rows])
        x, y, series = _against_load(measure, rows, look, bound, log)
        ticks = loads if len(loads) <= 8 else loads[:: -(-len(loads) // 8)]
        x, y = replace(x, ticks=ticks), replace(y, name=unit, high=102.0 if name == "success" else None)
        series = [replace(one, name="oracle's bound") if one.name == ORACLE else one for one in series]
        drawn.append(Panel(Figure(title, x, y, series)))
    return Sheet(drawn)


def _paper_bars(
    measure: Measure, rows: Sequence[Row], look: Looks, bound: Mapping[int, float], title: str, unit: str
) -> Panel:
    found = {row["policy"]: row for row in rows}
    values = [*(found[name][measure.column] for name in look), *bound.values()]
    lanes = [*(one.name for one in look.values()), *("oracle's bound" for _ in bound)]
    colours = [*(one.own or one.light for one in look.values()), *("@edge" for _ in bound)]
    errors = _errors([*(found[name] for name in look), *({} for _ in bound)], measure.column)
    bars = Series("", values, list(range(len(values))), "bars", error=errors, colours=colours)
    limits = [Mark("x", value, dash="dotted") for value in bound.values()]
    figure = Figure(title, Axis(unit, low=0.0), Axis(groups=lanes), [bars], limits)
    return Panel(figure, height=0.55 + 0.17 * (len(look) + 1))


def _with_errors(document: Document) -> list[Row]:
    """The rows, with standard errors of what has none there, from the seeds behind them."""
    seeds: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in document.rows("history") if "history" in document.names else []:
        for measure in ("network", "idle_while_work"):
            seeds[row["policy"], row["load"]][measure].append(row[measure])
    found = []
    for row in document.rows("rows"):
        own = seeds.get((row["policy"], row["load"]), {})
        errors = {f"{m}_se": float(np.std(v, ddof=1) / np.sqrt(len(v))) for m, v in own.items() if len(v) > 1}
        found.append(errors | row)
    return found
