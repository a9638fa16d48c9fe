"""The two-step (Nesterov) iteration of one mode, e+ = (1 - r)(e + beta (e - e_prev)) with rate r = step lambda."""

from __future__ import annotations

import math
from typing import overload

import numpy as np

from equipoise.train.arrays import Floats

HALVINGS = 60  # of [0, 1]: down to rounding


@overload
def two_step_radius(rate: float, beta: float) -> float: ...
@overload
def two_step_radius(rate: Floats, beta: float) -> Floats: ...
def two_step_radius(rate: float | Floats, beta: float) -> float | Floats:
    """The larger |root| of s^2 - (1 - r)(1 + beta) s + (1 - r) beta: how an error shrinks a round, in the long run."""
    left = 1.0 - np.asarray(rate, dtype=np.float64)
    trace, product = left * (1.0 + beta), left * beta
    inside = trace * trace - 4.0 * product
    real = (np.abs(trace) + np.sqrt(np.maximum(inside, 0.0))) / 2.0
    radius = np.where(inside < 0.0, np.sqrt(np.maximum(product, 0.0)), real)
    return float(radius) if radius.ndim == 0 else radius


def momentum_limit(beta: float) -> float:
    """The largest stable rate, 2 (1 + beta) / (1 + 2 beta): 2 without momentum, 4/3 as beta nears 1."""
    return 2.0 * (1.0 + beta) / (1.0 + 2.0 * beta)


def best_beta(smallest: float, largest: float) -> float:
    """The beta in [0, 1) with the least radius over all rates between; 0 where no rate is positive.

    The smallest rate wants critical damping, (1 - sqrt r)/(1 + sqrt r). A largest rate above 1 becomes slower with
    beta; where it would be the slower one, the best is where the two are equally slow.
    """
    if not 0.0 < smallest < 1.0:
        return 0.0
    critical = (1.0 - math.sqrt(smallest)) / (1.0 + math.sqrt(smallest))
    if two_step_radius(largest, critical) <= two_step_radius(smallest, critical):
        return critical
    low, high = 0.0, critical
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if two_step_radius(largest, middle) <= two_step_radius(smallest, middle):
            low = middle
        else:
            high = middle
    return low
