"""The panels of a sweep: every measure against the load, one colour and marker per policy in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from equipoise.document import look_of
from equipoise.present.echarts import Chart, Option, frame, grid, line, log_range, symbol, tooltip, x_axis, y_axis
from equipoise.present.values import Look as Look
from equipoise.present.values import looks as looks_of
from equipoise.share.sweep import Sweep
from equipoise.share.view import Policy, name_of

ORACLE = "oracle bound"
LOG_SPREAD = 10.0  # largest over smallest value from which an axis becomes logarithmic


def looks(policies: Sequence[Policy]) -> list[Look]:
    """Each policy's own colour and marker; one not yet used where it has none that can be drawn."""
    facts = [look_of(policy) for policy in policies]
    found = looks_of(map(str, range(len(policies))), {str(k): fact for k, fact in enumerate(facts)})
    return [replace(look, name=name_of(policy)) for look, policy in zip(found.values(), policies, strict=True)]


@dataclass(frozen=True)
class Measure:
    """A column of the rows as a panel."""

    column: str
    title: str
    unit: str
    meaning: str
    axis: Option


MEASURES = (
    Measure("success", "Tasks finished in time", "% of tasks", "Higher is better.", {"min": 0, "max": 100}),
    Measure("energy", "Energy", "energy", "All nodes over the whole horizon, idle ones included.", {"min": 0}),
    Measure("efficiency", "Efficiency", "% of tasks per energy", "Success in percent divided by energy.", {"min": 0}),
    Measure("network", "Network use", "% of the uplink", "Over the whole horizon.", {"min": 0}),
    Measure(
        "idle_while_work",
        "Idle while work waits",
        "% of all compute",
        "Compute that stood idle while a task was ready for it; lower is better. Part of it is forced: one task can "
        "only use one node.",
        {"min": 0},
    ),
    Measure("latency", "Latency", "steps", "From arrival to completion, over the tasks that succeeded.", {"min": 0}),
)


def panels(result: Sweep, styles: Sequence[Look]) -> list[Chart]:
    """Six panels; with one load, a dot per policy instead of a line."""
    rows = result.rows
    return [_panel(measure, rows, styles, result.loads) for measure in MEASURES]


def bound_by_load(rows: Sequence[dict[str, Any]]) -> dict[int, float]:
    """The oracle's bound in percent of tasks, for the loads it was asked about."""
    return {row["load"]: row["oracle"] for row in rows if row["oracle"] is not None}


def _panel(measure: Measure, rows: Sequence[dict[str, Any]], styles: Sequence[Look], loads: Sequence[int]) -> Chart:
    values = [row[measure.column] for row in rows]
    spread = [v for v in values if v]
    logarithmic = (
        measure.column == "efficiency"
        and len(loads) > 1
        and max(spread, default=1) > LOG_SPREAD * min(spread, default=1)
    )
    bound = bound_by_load(rows) if measure.column == "success" else {}
    option = (
        _against_load(measure, rows, styles, loads, bound, logarithmic)
        if len(loads) > 1
        else _by_policy(measure, rows, styles, bound)
    )
    shown = "Lines" if len(loads) > 1 else "Dots"
    across = "number of tasks" if len(loads) > 1 else f"policy at {loads[0]} tasks"
    errors = any(row.get(f"{measure.column}_se") for row in rows)
    meaning = measure.meaning
    if logarithmic:
        meaning += " The axis is logarithmic" + (", so zeros are left out." if 0.0 in values else ".")
    if None in values:
        meaning += " Where a policy finished nothing, there is no point."
    if bound:
        meaning += " No policy can lie above the oracle's bound on the seeds it was computed for."
    if len(styles) > 1 and _coincide(rows, measure.column):
        meaning += " All policies are alike in this."
    if errors:
        meaning += " Whiskers: ± 1 standard error."
    return Chart(
        measure.column,
        measure.title,
        f"{shown}: {measure.title.lower()} in {measure.unit} by {across}",
        meaning,
        option,
    )


def _coincide(rows: Sequence[dict[str, Any]], column: str) -> bool:
    """Whether at every load all policies have the same value, as far as one can see."""
    top = max((row[column] or 0.0 for row in rows), default=0.0)
    spans = [[row[column] or 0.0 for row in rows if row["load"] == load] for load in {row["load"] for row in rows}]
    return all(max(values) - min(values) <= 0.005 * top for values in spans)


def _against_load(
    measure: Measure,
    rows: Sequence[dict[str, Any]],
    styles: Sequence[Look],
    loads: Sequence[int],
    bound: dict[int, float],
    logarithmic: bool,
) -> Option:
    series: list[Option] = []
    ordered = sorted(loads)
    for look in styles:
        found = {row["load"]: row for row in rows if row["policy"] == look.name}
        points = [_point(load, found[load], measure.column, logarithmic) for load in ordered]
        series += _drawn(look, points)
    if bound:
        points = [[load, bound.get(load)] for load in ordered]
        stroke = {"type": [2, 4], "width": 2}
        series.append(line(ORACLE, points, "@ink", stroke=stroke, z=1))
    low, high = ordered[0], ordered[-1]
    far = high / low > LOG_SPREAD
    pad = 0.05 * (high - low)
    ends = {"min": low / 1.2, "max": high * 1.2} if far else {"min": low - pad, "max": high + pad}
    axis = log_range([p[1] for s in series if s["type"] == "line" for p in s["data"]]) if logarithmic else measure.axis
    return frame(
        grid=grid(),
        legend={"show": False},
        tooltip=tooltip("axis", formatter="@againstLoad"),
        xAxis=x_axis(
            "tasks",
            "log" if far else "value",
            pointer="{value} tasks",
            axisTick={"customValues": ordered, "lineStyle": {"color": "@line"}},
            axisLabel={"customValues": ordered, "color": "@soft", "hideOverlap": True},
            **ends,
        ),
        yAxis=y_axis(measure.unit, "log" if logarithmic else "value", **axis),
        series=series,
    )


def _point(load: int, row: dict[str, Any], column: str, logarithmic: bool) -> list[float | None]:
    value = row[column]
    return [load, None if value is None or (logarithmic and value <= 0) else value, row.get(f"{column}_se")]


def _drawn(look: Look, points: list[list[float | None]]) -> list[Option]:
    """A line with its markers, and whiskers of the same name, so that one click hides both."""
    stroke = {"type": "dashed" if look.dashed else "solid", "width": 2}
    drawn = line(look.name, points, look.colour, stroke=stroke, emphasis={"focus": "series"})
    drawn |= {"showSymbol": True, **symbol(look, 8)}
    return [drawn, *_whiskers(look, [p for p in points if p[1] is not None and p[2]])]


def _whiskers(look: Look, points: list[Any]) -> list[Option]:
    if not points:
        return []
    colour = {"itemStyle": {"color": look.colour}}
    return [
        {
            "type": "custom",
            "name": look.name,
            "renderItem": "@whisker",
            "data": points,
            "silent": True,
            "clip": True,
            "z": 1,
        }
        | colour
    ]


def _by_policy(
    measure: Measure, rows: Sequence[dict[str, Any]], styles: Sequence[Look], bound: dict[int, float]
) -> Option:
    """One load: a dot per policy, its whiskers lying."""
    series: list[Option] = []
    found = {row["policy"]: row for row in rows}
    lanes = [look.name for look in styles] + ([ORACLE] if bound else [])
    for k, look in enumerate(styles):
        row = found[look.name]
        value, error = row[measure.column], row.get(f"{measure.column}_se")
        points = [] if value is None else [[value, k, error]]
        dot = {"type": "scatter", "name": look.name, "data": points, **symbol(look, 11)}
        series.append(dot)
        series += _whiskers(look, [[*p, 1] for p in points if p[2]])
    if bound:
        mark = {"type": "scatter", "name": ORACLE, "symbol": "rect", "symbolSize": [3, 18]}
        series.append(
            mark | {"data": [[next(iter(bound.values())), len(styles), None]], "itemStyle": {"color": "@ink"}}
        )
    names = y_axis("", "category", data=lanes, inverse=True)
    names["axisLabel"] |= {"width": 150, "overflow": "truncate", "interval": 0}
    return frame(
        grid=grid(),
        legend={"show": False},
        tooltip=tooltip("item", formatter="@valueOf"),
        xAxis=x_axis(measure.unit, pointer="{value}", **measure.axis),
        yAxis=names,
        series=series,
    )
