"""Means, ratios and paired differences over seeds, with standard errors."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """one - other at a load, over the same seeds. The standard error is None with a single seed."""

    one: str
    other: str
    measure: str
    load: int
    difference: float
    standard_error: float | None

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" ± {self.standard_error:.3g}"
        return f"{self.load} tasks: {self.one} - {self.other} in {self.measure}: {self.difference:+.3g}{error}"


def mean_and_error(values: Floats) -> tuple[float | None, float | None]:
    """Mean and its standard error over seeds that have a value."""
    there = values[np.isfinite(values)]
    if not len(there):
        return None, None
    return float(there.mean()), _error(there)


def _error(values: Floats) -> float | None:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def ratio_and_error(top: Floats, bottom: Floats) -> tuple[float, float | None]:
    """mean(top) / mean(bottom), and its standard error by linearisation."""
    below = float(bottom.mean())
    if below == 0.0:
        return 0.0, None
    ratio = float(top.mean()) / below
    return ratio, _error((top - ratio * bottom) / below)


def difference(
    one: str, other: str, measure: str, load: int, first: dict[str, Floats], second: dict[str, Floats]
) -> Paired:
    """Paired by seed. Efficiency is a ratio of means: its difference is linearised before it is paired."""
    if measure == "efficiency":
        parts = []
        for cell in (first, second):
            ratio, _ = ratio_and_error(cell["success"], cell["energy"])
            below = float(cell["energy"].mean()) or 1.0
            parts.append((cell["success"] - ratio * cell["energy"]) / below + ratio)
        gap = parts[0] - parts[1]
    else:
        gap = first[measure] - second[measure]
        gap = gap[np.isfinite(gap)]
    value, error = mean_and_error(gap)
    return Paired(one, other, measure, load, math.nan if value is None else value, error)
