"""Many rounds of a static network without leaving compiled code, where cost and model are of a kind that kernels know.

The halves do not touch each other, so each plays its rounds by itself; the audit looks at the shares after every round.
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import Floats
from equipoise.train.audit import look_at_shares
from equipoise.train.average import Circle, descend, track
from equipoise.train.models.least_squares import gradients
from equipoise.train.trade import Floor, trade


@kernel
def trade_on(floor: Floor, number: int, count: int, budget: float, worst: Floats) -> int:
    """CPU rounds `number`, `number` + 1, ...; how many were played before one diverged. `worst`: budget and box, CPUs."""
    for k in range(count):
        if not trade(floor, number + k):
            return k
        look_at_shares(floor.shares, floor.unit, floor.curve.lo, floor.curve.hi, budget, worst)
    return count


@kernel
def learn_on(circle: Circle, hessian: Floats, slope: Floats, number: int, count: int) -> int:
    """Learning rounds on least squares; how many were played before one diverged."""
    m = slope.shape[1]
    new = np.empty(slope.shape)
    for k in range(count):
        if not descend(circle, number + k):
            return k
        gradients(hessian, slope, circle.yz[:, :m], new)
        if not track(new, circle.gradient, circle.yz):
            return k
    return count
