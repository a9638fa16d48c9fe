"""Shares on a dyadic grid: whole numbers of a unit 2^-k, so that every sum is exact in any order (docs/train.md, 3.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equipoise.train.arrays import Floats, Ints

# sum|x| stays below 2^51 units: floats hold every share and every sum exactly (2^53), with room for excursions.
GRID_BITS = 51
UNBOUNDED_ROOM = 64.0  # boxes without an end: sum|x| may grow to this many times its start
SMALLEST_REACH = 1e-150  # CPUs: a unit of it can still be divided by
HALVINGS = 100
NO_BOUND = 2**61  # units; stands for an open end of a box


@dataclass(frozen=True)
class Grid:
    """The unit that one integer of CPU stands for."""

    unit: float

    @classmethod
    def fit(cls, budget: float, lo: Floats, wished: Floats | None) -> Grid:
        """The finest unit at which no sum the run can meet loses a bit, for budgets up to this one.

        `wished` are shares of the size to expect, needed where boxes have no lower end.
        """
        reach = abs(budget) + 2.0 * float(-np.minimum(lo, 0.0)[np.isfinite(lo)].sum())
        if wished is not None:
            reach = UNBOUNDED_ROOM * max(reach, float(np.abs(wished).sum()))
        reach = max(reach, float(np.abs(lo[np.isfinite(lo)]).max(initial=0.0)), SMALLEST_REACH)
        return cls(2.0 ** (math.ceil(math.log2(reach)) - GRID_BITS))

    def units(self, value: float) -> int:
        """The nearest whole number of units."""
        return round(value / self.unit)

    def inward(self, lo: Floats, hi: Floats) -> tuple[Ints, Ints]:
        """Boxes in units, snapped inward so that the grid never steps out; one without a grid point becomes the nearest."""
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(lo), np.ceil(lo / self.unit), -NO_BOUND)
            high = np.where(np.isfinite(hi), np.floor(hi / self.unit), NO_BOUND)
            nearest = np.round(lo / self.unit)
        pinched = low > high
        low, high = np.where(pinched, nearest, low), np.where(pinched, nearest, high)
        return np.clip(low, -NO_BOUND, NO_BOUND).astype(np.int64), np.clip(high, -NO_BOUND, NO_BOUND).astype(np.int64)

    def floats(self, units: Ints) -> Floats:
        """Exact: every share the run can meet is a float."""
        return np.asarray(units * self.unit)


def spread(total: int, low: Ints, high: Ints) -> Ints:
    """Divide a whole number of units over boxes: an equal level for all, clipped; what is left by largest remainder."""
    n = len(low)
    below, above = min(int(low.min()), total // n), max(int(high.max()), -(-total // n))
    while below < above:  # the highest level whose clipped sum does not exceed the total
        level = (below + above + 1) // 2
        if exact_sum(np.clip(level, low, high)) <= total:
            below = level
        else:
            above = level - 1
    shares = np.clip(below, low, high)
    room = np.flatnonzero((low <= below) & (below < high))
    left = total - exact_sum(shares)
    shares[room[:left]] += 1
    return np.asarray(shares)


def proportion(total: int, low: Ints, high: Ints, weights: Floats) -> Ints:
    """Divide a whole number of units in proportion to weights > 0, clipped to closed boxes: x = clip(level weights)."""
    below, above = 0.0, float((high / weights).max())
    for _ in range(HALVINGS):
        level = 0.5 * (below + above)
        if exact_sum(np.clip(np.floor(level * weights), low, high).astype(np.int64)) <= total:
            below = level
        else:
            above = level
    shares = np.clip(np.floor(below * weights), low, high).astype(np.int64)
    for node in np.argsort(-weights, kind="stable"):  # what rounding left: a few units, to whoever has room
        shares[node] += min(total - exact_sum(shares), int(high[node] - shares[node]))
    return np.asarray(shares)


def exact_sum(units: Ints) -> int:
    """The sum as a Python integer: boxes without an end do not overflow it."""
    return (
        int(units.sum(dtype=object)) if len(units) and np.abs(units).max() > 2**61 // len(units) else int(units.sum())
    )
