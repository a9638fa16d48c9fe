"""Chart options as plain data, for any page.

A string that starts with @ names a colour of style.css (@ink is --ink) or a formatter of charts.js (@power); the page
puts the real thing in its place when it mounts the chart, and again when the reader changes between light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Option = dict[str, Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Hues of neighbouring bands differ; all are of middle lightness, so that they read on white and on black.
HUES = ("#3b6fb6", "#2f9e98", "#7fae5b", "#d9b44a", "#d9814a", "#bf5b74", "#8a68b5")


@dataclass(frozen=True)
class Chart:
    """A chart with the words around it. Without an option it is a heading and a sentence."""

    key: str
    title: str
    label: str  # for who cannot see it
    meaning: str  # one or two plain sentences
    option: Option | None
    wide: bool = False  # a full row on wide screens
    tall: bool = False


def frame(**parts: Any) -> Option:
    """What every chart has: no animation, calm text, a tooltip that stays inside."""
    common: Option = {
        "animation": False,
        "backgroundColor": "transparent",
        "textStyle": {"fontFamily": "system-ui, sans-serif", "color": "@ink"},
        "tooltip": tooltip("axis"),
    }
    return common | parts


def tooltip(trigger: str, **more: Any) -> Option:
    return {
        "trigger": trigger,
        "confine": True,
        "backgroundColor": "@paper",
        "borderColor": "@rule",
        "textStyle": {"color": "@ink", "fontSize": 12},
        "axisPointer": {"lineStyle": {"color": "@soft"}, "label": {"backgroundColor": "@soft"}},
        **more,
    }


def grid(*, legend: bool = False) -> Option:
    """Room for axes with their labels and names, above the legend if there is one."""
    inside = {"outerBoundsMode": "same", "outerBoundsContain": "all"}
    return {"left": 4, "right": 16, "top": 12, "bottom": 32 if legend else 6, **inside}


def legend(**more: Any) -> Option:
    """One line below the chart; more entries than fit can be paged through."""
    return {
        "type": "scroll",
        "bottom": 0,
        "left": "center",
        "icon": "roundRect",
        "itemWidth": 16,
        "itemHeight": 14,  # lower than its text, a paged legend cuts the text
        "textStyle": {"color": "@ink"},
        "pageTextStyle": {"color": "@soft"},
        "pageIconColor": "@soft",
        "pageIconInactiveColor": "@rule",
        "inactiveColor": "@soft",
        **more,
    }


def x_axis(name: str, kind: str = "value", *, pointer: str, **more: Any) -> Option:
    """A horizontal axis, its name below it; `pointer` is how a tooltip calls a place on it ("round {value}")."""
    heading = {"label": {"formatter": pointer, "precision": 0}}
    return _axis(name, kind, nameLocation="middle", nameGap=26, axisPointer=heading, **more) | {
        "splitLine": {"show": False}
    }


def y_axis(name: str, kind: str = "value", **more: Any) -> Option:
    """A vertical axis, its name above it and read from left to right."""
    found = _axis(name, kind, nameLocation="end", nameGap=14, **more)
    found["nameTextStyle"] |= {"align": "left", "padding": [0, 0, 0, -24]}
    return found


def _axis(name: str, kind: str, **more: Any) -> Option:
    return {
        "type": kind,
        "name": name,
        "nameTextStyle": {"color": "@soft", "fontSize": 12},
        "axisLine": {"show": True, "lineStyle": {"color": "@line"}},
        "axisTick": {"lineStyle": {"color": "@line"}},
        "axisLabel": {"color": "@soft", "hideOverlap": True},
        "splitLine": {"lineStyle": {"color": "@rule"}},
        "minorTick": {"show": False},
        **more,
    }


def log_range(values: Iterable[float | None], labels: int = 7) -> Option:
    """Whole decades around all drawn values, with at most so many of them labelled, evenly."""
    drawn = [v for v in values if v is not None and 0 < v < math.inf]
    low, high = (min(drawn), max(drawn)) if drawn else (0.1, 1.0)
    bottom, top = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    step = max(1, math.ceil((top - bottom) / (labels - 1)))
    bottom = top - step * max(1, math.ceil((top - bottom) / step))
    return {"min": 10.0**bottom, "max": 10.0**top, "interval": step}


def log_points(x: Floats, y: Floats, rows: Ints) -> list[list[float | None]]:
    """[x, y] for a log axis: where y is not a positive finite number the line has a gap."""
    return [[float(a), float(b) if 0 < b < math.inf else None] for a, b in zip(x[rows], y[rows], strict=True)]


def line(name: str, points: Sequence[Any], colour: str, **more: Any) -> Option:
    """A plain line; its points are shown too where one stands between two gaps and would have no line."""
    there = [False, *(p[1] is not None for p in points), False]
    lonely = any(
        here and not (before or after) for before, here, after in zip(there, there[1:], there[2:], strict=False)
    )
    return {
        "type": "line",
        "name": name,
        "data": points,
        "showSymbol": lonely,
        "symbol": "circle",
        "symbolSize": 4,
        "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "width": 2, **more.pop("stroke", {})},
        **more,
    }


def mark_at(axis: str, value: float, text: str, colour: str = "@ink") -> Option:
    """A dashed line across the chart at one value, with its name on it."""
    return {
        "silent": True,
        "symbol": "none",
        "lineStyle": {"color": colour, "type": "dashed", "width": 1.5},
        "label": {"formatter": text, "color": colour, "position": "insideStartTop", "distance": 7, "fontSize": 12},
        "precision": 20,  # without it ECharts draws the line at the value rounded to two decimals
        "data": [{axis: value}],
    }


def thinned(amount: int, most: int) -> Ints:
    """Indices of at most `most` of so many rows, evenly spread, the first and the last among them."""
    if amount <= most:
        return np.arange(amount)
    return np.unique(np.linspace(0, amount - 1, most).round().astype(np.int64))


def hues(amount: int) -> list[str]:
    """A colour for each of so many bands, in a walk through all hues."""
    if amount <= len(HUES):
        return list(HUES[:amount])
    anchors = np.array([[int(h[k : k + 2], 16) for k in (1, 3, 5)] for h in HUES], dtype=float)
    places = np.linspace(0, len(HUES) - 1, amount)
    mixed = np.column_stack([np.interp(places, range(len(HUES)), anchors[:, k]) for k in range(3)])
    return ["#{:02x}{:02x}{:02x}".format(*map(round, row)) for row in mixed.tolist()]
