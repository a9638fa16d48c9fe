"""Figures as ECharts options: plain data that a page embeds.

A string that starts with @ names a colour of style.css (@ink is --ink) or a formatter of charts.js (@power); the page
puts the real thing in its place when it mounts the chart, and again when the reader changes between light and dark.
A formatter may have arguments: "@listed {...}" with JSON after it.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.present.figures import HUES, Axis, Figure, Look, Mark, Numbers, Series

Option = dict[str, Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEW = 12  # groups that are all named, points that are all marked
MARKED = 40  # points of a policy's line up to which each has its marker
INSIDE = 0.3  # of the axis: from here a bar has room for its value


def frame(**parts: Any) -> Option:
    """What every chart has: no animation, calm text, a tooltip that stays inside."""
    text = {"fontFamily": "system-ui, sans-serif", "color": "@ink"}
    common = {"animation": False, "backgroundColor": "transparent", "textStyle": text, "tooltip": tooltip("axis")}
    return common | parts


def tooltip(trigger: str, **more: Any) -> Option:
    paper = {"backgroundColor": "@paper", "borderColor": "@rule", "textStyle": {"color": "@ink", "fontSize": 12}}
    pointer = {"lineStyle": {"color": "@soft"}, "label": {"backgroundColor": "@soft"}}
    return {"trigger": trigger, "confine": True, **paper, "axisPointer": pointer, **more}


def grid(*, legend: bool = False) -> Option:
    """Room for axes with their labels and names, above the legend if there is one."""
    inside = {"outerBoundsMode": "same", "outerBoundsContain": "all"}
    return {"left": 4, "right": 16, "top": 12, "bottom": 32 if legend else 6, **inside}


def legend(**more: Any) -> Option:
    """One line below the chart; more entries than fit can be paged through."""
    place = {"type": "scroll", "bottom": 0, "left": "center"}
    entry = {"icon": "roundRect", "itemWidth": 16, "itemHeight": 14}  # lower than its text, a paged legend cuts it
    text = {"textStyle": {"color": "@ink"}, "pageTextStyle": {"color": "@soft"}, "inactiveColor": "@soft"}
    return {**place, **entry, **text, "pageIconColor": "@soft", "pageIconInactiveColor": "@rule", **more}


def x_axis(name: str, kind: str = "value", *, pointer: str, **more: Any) -> Option:
    """A horizontal axis, its name below it; `pointer` is how a tooltip calls a place on it ("round {value}")."""
    heading = {"label": {"formatter": pointer, "precision": 0}}
    found = _axis(name, kind, nameLocation="middle", nameGap=26, axisPointer=heading, **more)
    return found | {"splitLine": {"show": False}}


def y_axis(name: str, kind: str = "value", **more: Any) -> Option:
    """A vertical axis, its name above it and read from left to right."""
    found = _axis(name, kind, nameLocation="end", nameGap=14, **more)
    found["nameTextStyle"] |= {"align": "left", "padding": [0, 0, 0, -24]}
    return found


def _axis(name: str, kind: str, **more: Any) -> Option:
    words = {"nameTextStyle": {"color": "@soft", "fontSize": 12}, "axisLabel": {"color": "@soft", "hideOverlap": True}}
    sides = {"axisLine": {"show": True, "lineStyle": {"color": "@line"}}, "axisTick": {"lineStyle": {"color": "@line"}}}
    inside = {"splitLine": {"lineStyle": {"color": "@rule"}}, "minorTick": {"show": False}}
    return {"type": kind, "name": name, **words, **sides, **inside, **more}


def log_range(values: Iterable[float | None], labels: int = 7) -> Option:
    """Whole decades around all drawn values, with at most so many of them labelled, evenly."""
    drawn = [v for v in values if v is not None and 0 < v < math.inf]
    low, high = (min(drawn), max(drawn)) if drawn else (0.1, 1.0)
    bottom, top = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    step = max(1, math.ceil((top - bottom) / (labels - 1)))
    bottom = top - step * max(1, math.ceil((top - bottom) / step))
    return {"min": 10.0**bottom, "max": 10.0**top, "interval": step}


def line(name: str, points: Sequence[Any], colour: str, **more: Any) -> Option:
    """A plain line; its points are shown too where one stands between two gaps and would have no line."""
    there = [False, *(p[1] is not None for p in points), False]
    lonely = any(here and not (there[k] or there[k + 2]) for k, here in enumerate(there[1:-1]))
    stroke = {"color": colour, "width": 2, **more.pop("stroke", {})}
    dots = {"showSymbol": lonely, "symbol": "circle", "symbolSize": 4, "itemStyle": {"color": colour}}
    return {"type": "line", "name": name, "data": points, **dots, "lineStyle": stroke, **more}


def symbol(look: Look, size: float | tuple[float, float]) -> Option:
    """The marker in the series' own words. An outline is filled with paper: ECharts would fill it with white."""
    fill = {"color": "@paper", "borderColor": look.colour, "borderWidth": 2} if look.hollow else {"color": look.colour}
    found: Option = {"symbol": look.plain, "symbolSize": size, "itemStyle": {**fill, "opacity": 1}}
    if look.plain == "pin":  # its tip would stand in the point; moved down by half, it is centred as others are
        found |= {"symbolSize": (size if isinstance(size, float | int) else size[1]) + 6, "symbolOffset": [0, "50%"]}
    return found


def option(figure: Figure) -> Option | None:
    """The option of a figure; None where there is nothing to draw."""
    if not figure.series:
        return None
    drawn = [entry for k, series in enumerate(figure.series) for entry in _series(figure, k, series)]
    drawn += [_rule(figure, mark) for mark in figure.marks]
    entries = {s.name: _entry(s) for s in reversed(figure.series) if s.name and not s.silent}
    names = list(reversed(entries.values()))
    many = len(names) > 1 if figure.legend is None else figure.legend
    shown = legend(data=names) if many else {"show": False}
    return frame(**_panels(figure, many), legend=shown, tooltip=_tooltip(figure), series=drawn)


def _entry(series: Series) -> Option:
    """Its entry in the legend: a line with its dashes and marker, a dot, or a block."""
    if series.kind in ("bars", "area"):
        return {"name": series.name, "icon": "roundRect"}
    bare = series.kind == "dots" and series.look is None
    return {"name": series.name, "icon": series.marker or "circle" if bare else "inherit"}


def _panels(figure: Figure, many: bool) -> Option:
    """Room and axes: one panel, or one with a strip below it."""
    main = [series for series in figure.series if not (series.right or series.strip)]
    across, upright = _across(figure), _upright(figure, figure.y, main)
    room = grid(legend=many) | ({"top": 34} if any(m.name and m.axis == "x" for m in figure.marks) else {})
    if figure.y.groups and any(series.values for series in figure.series):
        room |= {"right": 28}
    if figure.strip is not None:
        sides = {"left": 52, "right": 16, "outerBoundsMode": "none"}
        quiet = {"axisLabel": {"show": False}, "axisTick": {"show": False}, "name": ""}
        below = _upright(figure, figure.strip, [s for s in figure.series if s.strip], labels=2)
        return {
            "grid": [{**sides, "top": 30, "bottom": 152}, {**sides, "height": 40, "bottom": 78}],
            "xAxis": [across | quiet, across | {"gridIndex": 1}],
            "yAxis": [upright, below | {"gridIndex": 1}],
            "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        }
    if figure.right is not None:
        right = _upright(figure, figure.right, [s for s in figure.series if s.right]) | {"position": "right"}
        right["nameTextStyle"] = right["nameTextStyle"] | {"align": "right", "padding": [0, -8, 0, 0]}
        right["splitLine"] = {"show": False}
        return {"grid": room | {"right": 8}, "xAxis": across, "yAxis": [upright, right]}
    return {"grid": room, "xAxis": across, "yAxis": upright}


def _across(figure: Figure) -> Option:
    axis = figure.x
    if axis.groups:
        label: Option = {"color": "@soft", "hideOverlap": True}
        if len(axis.groups) <= FEW:  # no bar without its name: long ones are broken, not left out
            label |= {"interval": 0, "hideOverlap": False, "width": 84, "overflow": "break", "lineHeight": 14}
        return x_axis(axis.name, "category", pointer=axis.point, data=list(axis.groups), axisLabel=label)
    values = [v for s in figure.series for v in s.x] + [m.value for m in figure.marks if m.axis == "x"]
    pointer = "@bitsPointer" if axis.form == "bits" else "@short" if axis.point == "{value}" else axis.point
    found = x_axis(axis.name, "log" if axis.log else "value", pointer=pointer, **_scale(axis, values, 5))
    if axis.low is None and not axis.log:
        lying = bool(figure.y.groups)
        found |= {"min": 0} if lying and axis.zero else {"min": "dataMin"} if axis.whole else {"scale": True}
    if axis.high is None and axis.whole and not axis.log:
        found["max"] = "dataMax"
    return found | (_room(axis, figure.series, lying=True) if figure.y.groups else {})


def _room(axis: Axis, series: Sequence[Series], *, lying: bool) -> Option:
    """Past the largest value, for its whisker."""
    ends = [
        (value, value + (_finite(error) or 0.0))
        for one in series
        for number, error in zip(one.x if lying else one.y, one.error if one.error is not None else (), strict=False)
        if (value := _finite(number)) is not None
    ]
    top, past = (max((end[k] for end in ends), default=0.0) for k in (0, 1))
    if axis.log or axis.high is not None or not past > top > 0:
        return {}
    return {"boundaryGap": [0, f"{100 * (past / top - 1):.2g}%"]}


def _upright(figure: Figure, axis: Axis, series: Sequence[Series], labels: int = 7) -> Option:
    if axis.groups:
        found = y_axis(axis.name, "category", data=list(axis.groups), inverse=figure.down)
        found["axisLabel"] |= {"width": 150, "overflow": "truncate", "interval": 0, "color": "@ink"}
        return found | {"splitLine": {"show": False}}
    values = [v for s in series for line in (s.y, *(s.band or ())) for v in line]
    values += [m.value for m in figure.marks if m.axis == "y" and axis is figure.y]
    found = y_axis(axis.name, "log" if axis.log else "value", **_scale(axis, values, labels))
    found |= _room(axis, series, lying=False)
    return found if axis.log or axis.low is not None else found | {"scale": not axis.zero}


def _scale(axis: Axis, values: Iterable[float | None], labels: int) -> Option:
    """Limits and labels: whole decades on a logarithmic axis unless told otherwise."""
    form = axis.form or ("power" if axis.log else "short")
    found: Option = {"axisLabel": {"color": "@soft", "hideOverlap": True, "formatter": f"@{form}"}}
    if axis.log:
        found |= log_range(values, labels)
    if axis.ticks:
        places = list(axis.ticks)
        found["axisLabel"] |= {"customValues": places} | ({"formatter": "@short"} if not axis.form else {})
        found["axisTick"] = {"customValues": places, "lineStyle": {"color": "@line"}}
    if axis.whole:
        found["minInterval"] = 1
    return found | {name: end for name, end in (("min", axis.low), ("max", axis.high)) if end is not None}


def _tooltip(figure: Figure) -> Option:
    lying = bool(figure.y.groups)
    said: Option = {"point": figure.x.point, "form": figure.y.form or "short", "most": figure.most}
    said |= {"whole": True} if figure.x.whole else {}
    if lying:
        said = {"form": figure.x.form or "short", "most": figure.most, "lying": True}
    if figure.tip == "item":
        return tooltip("item", formatter=f"@one {json.dumps(said)}")
    more = {"axisPointer": {"type": "shadow"}} if lying else {}
    return tooltip("axis", formatter=f"@listed {json.dumps(said)}", **more)


def _series(figure: Figure, k: int, series: Series) -> list[Option]:
    """What draws a series: itself, its whiskers and its band, all of one name, so that one click hides them."""
    colour = series.look.colour if series.look else series.colour or HUES[k % len(HUES)]
    points = _points(figure, series)
    where: Option = {"xAxisIndex": 1, "yAxisIndex": 1} if series.strip else {"yAxisIndex": 1} if series.right else {}
    if series.kind == "bars":
        made = _bars(figure, series, colour, points)
    elif series.kind == "dots":
        look = series.look
        size = series.size or (11 if look and figure.y.groups else 8 if look or len(points) <= 60 else 5)
        style: Option = {"itemStyle": {"color": colour, "opacity": series.opacity}}
        mark: Option = symbol(look, size) if look and not series.marker else {"symbolSize": size} | style
        if series.marker:
            mark["symbol"] = series.marker
        made = {"type": "scatter", "name": series.name, "data": points, **mark}
    else:
        made = _line(series, colour, points)
    if series.silent:
        made |= {"silent": True, "tooltip": {"show": False}}
    found = [made | where]
    if series.error is not None and not (series.kind == "bars" and len(figure.series) > 1):
        found += _whiskers(series, "@ink" if series.kind == "bars" else colour, lying=bool(figure.y.groups))
    if series.band is not None:
        found.append(_band(figure, series, colour))
    return found


def _points(figure: Figure, series: Series) -> list[Any]:
    """[x, y] or [x, y, error]; where a value has no place on a logarithmic axis the line has a gap."""
    upright = figure.strip if series.strip else figure.right if series.right else figure.y
    errors = [None] * len(series.y) if series.error is None else list(series.error)
    found: list[Any] = []
    for k, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        a, b = _finite(x, figure.x.log), _finite(y, upright is not None and upright.log)
        if a is None:
            continue
        point: Any = [a, b] if series.error is None else [a, b, _finite(errors[k])]
        own: Option = {"tip": series.tips[k]} if series.tips else {}
        if series.colours:
            own["itemStyle"] = {"color": series.colours[k]}
        found.append({"value": point, **own} if own else point)
    return found


def _finite(value: float | None, log: bool = False) -> float | None:
    if value is None or not math.isfinite(value) or (log and value <= 0):
        return None
    return float(value)


def _line(series: Series, colour: str, points: Sequence[Any]) -> Option:
    look, area = series.look, series.kind == "area"
    dash: Any = {"solid": "solid", "dashed": "dashed", "dotted": [2, 4]}[series.dash]
    dash = "dashed" if look and look.dashed else dash
    stroke = {"width": series.width, "type": dash, "opacity": series.opacity}
    made = line(series.name, [p["value"] if isinstance(p, dict) else p for p in points], colour, stroke=stroke)
    made["data"] = list(points)
    if look:
        made["emphasis"] = {"focus": "series"}
        if series.marker != "none" and len(points) <= MARKED and series.kind == "line":
            made |= {"showSymbol": True, **symbol(look, series.size or 8)}
    elif series.marker or (len(points) <= FEW and series.kind == "line" and not area):
        made |= {"showSymbol": series.marker != "none", "symbolSize": series.size or 6}
    if series.kind == "step":
        made |= {"step": "end", "showSymbol": False}
    if area:
        made |= {"areaStyle": {"color": colour, "opacity": 0.85 if series.stack else 0.18}, "showSymbol": False}
    if series.stack:
        made |= {"stack": series.stack, "lineStyle": {"color": "@paper", "width": 0.75}}
    return made


def _bars(figure: Figure, series: Series, colour: str, points: list[Any]) -> Option:
    lying = bool(figure.y.groups)
    made: Option = {"type": "bar", "name": series.name, "data": points, "barMaxWidth": 26 if lying else 40}
    made["itemStyle"] = {"color": colour, "opacity": series.opacity}
    if series.stack:
        made["stack"] = series.stack
    if series.values:
        side, k = ("right", 0) if lying else ("top", 1)
        made["label"] = {"show": True, "position": side, "color": "@ink", "formatter": f'@barValue {{"k": {k}}}'}
        if lying and series.opacity == 1.0:  # on a pale bar nobody could read it
            made["data"] = _labelled(points, figure.x.high)
    return made


def _labelled(points: list[Any], high: float | None) -> list[Any]:
    """A long bar has its value inside, in the colour of the paper."""
    bare = [p["value"] if isinstance(p, dict) else p for p in points]
    top = high or max((p[0] or 0.0 for p in bare), default=0.0)
    inside = {"label": {"position": "insideRight", "color": "@paper"}}
    return [
        (point if isinstance(point, dict) else {"value": point}) | (inside if (value[0] or 0.0) > INSIDE * top else {})
        for point, value in zip(points, bare, strict=True)
    ]


def _whiskers(series: Series, colour: str, *, lying: bool) -> list[Option]:
    """A standard error either side of every value that has one."""
    errors: Numbers = series.error if series.error is not None else ()
    rows = [[_finite(v) for v in row] for row in zip(series.x, series.y, errors, strict=True)]
    data = [[*row, 1] if lying else row for row in rows if row[0] is not None and row[1] is not None and row[2]]
    if not data:
        return []
    drawn = _custom(series, colour, renderItem="@whisker", data=data, z=3)
    return [drawn | {"encode": {"x": 0, "y": 1}} if lying else drawn]


def _custom(series: Series, colour: str, **parts: Any) -> Option:
    """A shape of charts.js that belongs to a series and says nothing of its own."""
    quiet = {"clip": True, "tooltip": {"show": False}, "silent": True}
    return {"type": "custom", "name": series.name, "itemStyle": {"color": colour}, **quiet, **parts}


def _band(figure: Figure, series: Series, colour: str) -> Option:
    """A logarithmic axis cannot stack areas, so a band is drawn as the outline it is (charts.js, `outline`)."""
    low, high = series.band if series.band is not None else ((), ())
    log = figure.y.log
    rows = [(_finite(x), _finite(a, log), _finite(b, log)) for x, a, b in zip(series.x, low, high, strict=True)]
    there = [row for row in rows if None not in row]
    outline = [[x, b] for x, _, b in there] + [[x, a] for x, a, _ in reversed(there)]
    return _custom(series, colour, outline=outline, data=outline[:1], z=1)


def _rule(figure: Figure, mark: Mark) -> Option:
    """A series without points that carries one mark: a line across the chart with its name on it."""
    colour = mark.colour or "@ink"
    label: Option = {"show": bool(mark.name), "formatter": mark.name, "color": colour, "fontSize": 12}
    label |= {"position": "insideStartTop", "distance": 7}
    if mark.dash != "dashed":  # an event: its name is read on its line's own ground
        label |= {"backgroundColor": "@paper", "padding": [1, 3], "borderRadius": 2}
    if mark.axis == "x" and figure.y.groups:  # above the bars, to be read from left to right
        label |= {"position": "start" if figure.down else "end", "distance": 4, "align": "right"}
    elif mark.axis == "x":
        label |= {"position": f"insideEnd{'Top' if mark.end else 'Bottom'}", "distance": [2, 3], "fontSize": 11}
    elif mark.end:
        label["position"] = "insideEndTop"
    rule = {"silent": True, "symbol": "none", "label": label, "data": [{f"{mark.axis}Axis": mark.value}]}
    rule["precision"] = 20  # without it ECharts draws the line at the value rounded to two decimals
    rule["lineStyle"] = {"color": colour, "type": mark.dash, "width": mark.width}
    return {"type": "line", "name": "", "data": [], "markLine": rule, "silent": True, "tooltip": {"show": False}}
