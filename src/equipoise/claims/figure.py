"""Figures of a claim as plain data: curves or bars, with the marks a reader needs. The report draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64] | NDArray[np.int64]
DIGITS = 6  # significant, of what is drawn: the page and the recording stay small


def _numbers(values: Numbers) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in map(float, values)]


@dataclass(frozen=True)
class Curve:
    """One line of a figure; `error` is a standard error, drawn as a band."""

    name: str
    x: Numbers
    y: Numbers
    error: Numbers | None = None
    dashed: bool = False
    dots: bool = False  # points without a line


@dataclass(frozen=True)
class Bars:
    """One colour of bars, a bar for each of the figure's `groups`."""

    name: str
    y: Numbers
    error: Numbers | None = None


@dataclass(frozen=True)
class Mark:
    """A dashed line across the figure at one value of x or y."""

    axis: str  # "x" or "y"
    value: float
    name: str


@dataclass(frozen=True)
class Figure:
    """What is drawn: curves over x, or bars over groups. `caption` says in a sentence what to see."""

    title: str
    x: str  # the axis with its unit: "round", "tasks"
    y: str
    series: Sequence[Curve | Bars]
    caption: str = ""
    groups: Sequence[str] = ()  # of bars
    marks: Sequence[Mark] = ()
    log_x: bool = False
    log_y: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in result.json."""
        plain = asdict(self)
        for kind, series in zip(self.series, plain["series"], strict=True):
            series["kind"] = "bars" if isinstance(kind, Bars) else "curve"
            for name in ("x", "y", "error"):
                if series.get(name) is not None:
                    series[name] = _numbers(series[name])
        plain["series"], plain["groups"] = list(plain["series"]), list(self.groups)
        plain["marks"] = [mark for mark in plain["marks"] if math.isfinite(mark["value"])]
        return plain
