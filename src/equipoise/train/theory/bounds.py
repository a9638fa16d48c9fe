"""Bounds that a run is held against, one equation each (docs/train.md, 3.2 to 3.6)."""

from __future__ import annotations

import math
from typing import Literal

from equipoise.train.arrays import Floats


def sector(rho: float, rounding: Literal["nearest", "floor"] = "nearest") -> tuple[float, float]:
    """q(v)/v lies in [e^(-rho/2), e^(rho/2)] rounding to the nearest cell, in (e^-rho, 1] rounding down."""
    return (math.exp(-rho / 2), math.exp(rho / 2)) if rounding == "nearest" else (math.exp(-rho), 1.0)


def step_limit(top_eigenvalue: float, rho: float = 0.0) -> float:
    """CPU flows descend while step < 2 e^(-rho/2) / lambda_max(L H)."""
    return 2.0 * math.exp(-rho / 2) / top_eigenvalue if top_eigenvalue > 0 else math.inf


def delay_limit(delay: int, top_eigenvalue: float) -> float:
    """With prices `delay` rounds old at both ends: step < 2 cos(delay pi / (2 delay + 1)) / lambda_max(L H)."""
    return 2.0 * math.cos(delay * math.pi / (2 * delay + 1)) / top_eigenvalue if top_eigenvalue > 0 else math.inf


def alpha_limit(step: float, top_eigenvalue: float, smoothness: float) -> float:
    """Learning is stable (Euler, equal Hessians) iff step alpha h < (2 - step lambda_max)^2 / 2; 0 if mixing is not."""
    left = 2.0 - step * top_eigenvalue
    return left * left / (2.0 * step * smoothness) if left > 0 else 0.0


def paper_alpha(second_eigenvalue: float, smoothness: float) -> float:
    """|lambda_2| / L: the paper's sufficient bound, up to its factor; slow, not a boundary."""
    return abs(second_eigenvalue) / smoothness


def innovation_limit() -> float:
    """rho < 2 ln 2: beyond, e^(rho/2) > 2 and an innovation code can overshoot by more than the error it corrects."""
    return 2.0 * math.log(2.0)


def node_residual(rho: float, price: float, curvature: Floats) -> float:
    """The largest gap at which node-wise codes stand still: (price sinh(rho/2))^2 / 2 sum 1/a_i, quadratic costs, no box.

    Prices in one cell are one code, and nothing flows. The gap is half the variance of the prices with weights 1/a_i, whose
    mean is the optimal `price`: at most (price - low)(high - price) / 2, largest for the cell around price cosh(rho/2).
    """
    return float((price * math.sinh(rho / 2)) ** 2 / 2.0 * (1.0 / curvature).sum())


def meeting_limit(smoothness: float, momentum: float = 0.0) -> float:
    """Averages are stable on every graph, convex losses, while alpha < (1 + beta) / (2 L) (theory/averages.py).

    Complete graphs reach it. Without a momentum it is the value that is safe for all of them.
    """
    return 0.5 * (1.0 + momentum) / smoothness
