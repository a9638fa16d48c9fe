"""The panels of a sweep: every measure against the load, one colour and marker per policy in all of them."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.report.charts import Chart, Option, frame, grid, line, log_range, tooltip, x_axis, y_axis
from equipoise.share.sweep import Sweep
from equipoise.share.view import Policy, name_of

ORACLE = "oracle bound"
SHAPES = {  # ECharts' symbols as paths in a box of 16; "empty" before a name draws the outline only
    "circle": "M8 2a6 6 0 1 0 .01 0z",
    "rect": "M2.5 2.5h11v11h-11z",
    "triangle": "M8 2l6.5 11.5h-13z",
    "diamond": "M8 1l6 7-6 7-6-7z",
    "roundRect": "M5 2.5h6a2.5 2.5 0 0 1 2.5 2.5v6a2.5 2.5 0 0 1-2.5 2.5H5A2.5 2.5 0 0 1 2.5 11V5A2.5 2.5 0 0 1 5 2.5z",
    "pin": "M8 15.5C4.5 11 3 8.6 3 6.2a5 5 0 0 1 10 0c0 2.4-1.5 4.8-5 9.3z",
    "arrow": "M8 1.5l5.5 13L8 11l-5.5 3.5z",
}
SPARE_COLOURS = ("#0f766e", "#c026d3", "#4d7c0f", "#2563eb", "#b45309", "#9f1239", "#0369a1", "#6d28d9")
LIGHT_PAPER, DARK_PAPER = "#ffffff", "#191f27"  # --paper of style.css
CONTRAST = {LIGHT_PAPER: 3.0, DARK_PAPER: 4.5}  # at least; WCAG asks 3 of lines, on dark they look thinner
LOG_SPREAD = 10.0  # largest over smallest value from which an axis becomes logarithmic


@dataclass(frozen=True)
class Look:
    """How a policy is drawn everywhere. A clairvoyant twin has its policy's colour and dashes."""

    name: str
    light: str
    dark: str
    marker: str
    dashed: bool = False

    @property
    def colour(self) -> str:
        """For charts.js, which knows light from dark."""
        return f"@{self.light}|{self.dark}"

    @property
    def shape(self) -> str:
        return SHAPES[self.plain]

    @property
    def plain(self) -> str:
        """The marker's name without its "empty"."""
        name = self.marker.removeprefix("empty")
        return name[0].lower() + name[1:]

    def symbol(self, size: int) -> Option:
        """The marker in the series' own words. An outline is filled with paper: ECharts would fill it with white."""
        fill = (
            {"color": "@paper", "borderColor": self.colour, "borderWidth": 2} if self.hollow else {"color": self.colour}
        )
        found: Option = {"symbol": self.plain, "symbolSize": size, "itemStyle": {**fill, "opacity": 1}}
        if self.plain == "pin":  # its tip would stand in the point; moved down by half, it is centred as others are
            found |= {"symbolSize": size + 6, "symbolOffset": [0, "50%"]}
        return found

    @property
    def hollow(self) -> bool:
        return self.marker.startswith("empty")


def looks(policies: Sequence[Policy]) -> list[Look]:
    """Each policy's own colour and marker; one not yet used where it has none that can be drawn."""
    own = [(_own_colour(policy), _own_marker(policy)) for policy in policies]
    colours = [c for c in SPARE_COLOURS if c not in {colour for colour, _ in own}]
    markers = [m for m in _all_markers() if m not in {marker for _, marker in own}] or list(SHAPES)
    found = []
    for k, (policy, (colour, marker)) in enumerate(zip(policies, own, strict=True)):
        given = colour or colours[k % len(colours)]
        found.append(
            Look(
                name_of(policy),
                _readable(given, LIGHT_PAPER),
                _readable(given, DARK_PAPER),
                marker or markers[k % len(markers)],
                bool(getattr(policy, "clairvoyant", False)),
            )
        )
    return found


def _own_colour(policy: Policy) -> str | None:
    colour = str(getattr(policy, "colour", ""))
    return colour.lower() if re.fullmatch(r"#[0-9a-fA-F]{6}", colour) else None


def _own_marker(policy: Policy) -> str | None:
    marker = str(getattr(policy, "marker", ""))
    return marker if marker in _all_markers() else None


def _all_markers() -> list[str]:
    return [*SHAPES, *(f"empty{name[0].upper()}{name[1:]}" for name in SHAPES)]


def _readable(colour: str, paper: str) -> str:
    """The colour, lighter on dark paper and never fainter than the contrast that lines need."""
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    towards = 0.0 if paper == LIGHT_PAPER else 1.0
    if towards:
        lightness = max(lightness, 1.0 - 0.9 * lightness)  # what was darkest stands out most
    while True:
        shade = _hex(colorsys.hls_to_rgb(hue, lightness, saturation))
        if _contrast(shade, paper) >= CONTRAST[paper]:
            return shade
        lightness += 0.05 * (towards - lightness)


def _hex(rgb: tuple[float, float, float]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in rgb))


def _contrast(one: str, other: str) -> float:
    """WCAG's ratio, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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
    drawn |= {"showSymbol": True, **look.symbol(8)}
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
        dot = {"type": "scatter", "name": look.name, "data": points, **look.symbol(11)}
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
