"""Built-in costs as the kernels see them; any other cost is asked in Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import Floats
from equipoise.train.costs._base import Cost, response, second

OTHER, QUADRATIC, LATENCY = 0, 1, 2
HALVINGS, CLOSE = 200, 4e-16
FLATTEST = 1e-2  # of the mean curvature over the box: a cost that is flat somewhere counts as this steep there


class Curve(NamedTuple):
    """QUADRATIC: f' = first (x - second).  LATENCY: f' = 3 second x^2 - first / x^2.  OTHER: not for kernels."""

    kind: int
    first: Floats
    second: Floats
    lo: Floats
    hi: Floats
    flattest: Floats  # least curvature to reckon with


def curve_of(cost: Cost, lo: Floats, hi: Floats, curvature: Floats, start: Floats | None = None) -> Curve:
    """The cost on these boxes; with first shares, what counts as flat is judged around them."""
    offered = getattr(cost, "curve", None)
    if offered is not None and type(cost).derivative is not _owner(type(cost)).derivative:
        offered = None  # a subclass with a derivative of its own: what its parent says of curves is not true of it
    kind, first, other = (OTHER, 0.0, 0.0) if offered is None else offered()
    one, two = (np.ascontiguousarray(np.broadcast_to(part, lo.shape), dtype=np.float64) for part in (first, other))
    mean = _mean_curvature(cost, lo, hi, curvature)
    if start is not None:  # a box that reaches to where a cost is very steep says little of where shares will be
        reach = np.where(start > 0, 2.0, 1.0)
        mean = np.minimum(
            mean, _mean_curvature(cost, np.maximum(lo, start / reach), np.minimum(hi, start * reach), mean)
        )
    return Curve(kind, one, two, lo, hi, FLATTEST * mean)


def _mean_curvature(cost: Cost, lo: Floats, hi: Floats, largest: Floats) -> Floats:
    """By how much f' rises over the box, over its width; the largest curvature where the box has no end or no width."""
    closed = np.isfinite(lo) & np.isfinite(hi) & (hi > lo)
    left, right = np.where(closed, lo, 0.0), np.where(closed, hi, 1.0)
    with np.errstate(all="ignore"):
        mean = (cost.derivative(right) - cost.derivative(left)) / (right - left)
    return np.where(closed & np.isfinite(mean) & (mean > 0), np.minimum(mean, largest), largest)


def _owner(kind: Any) -> Any:
    """The class that defines `curve`."""
    return next(base for base in kind.__mro__ if "curve" in vars(base))


def answer(cost: Cost, curve: Curve, weight: Floats, level: Floats, guess: Floats) -> None:
    """`guess` becomes the x in its box with x + weight f'(x) = level, or the end of the box nearest to it."""
    if curve.kind == OTHER:
        guess[:] = response(cost, weight, level, curve.lo, curve.hi, guess)
    else:
        answers(curve, weight, level, guess)


def steepness(cost: Cost, curve: Curve, x: Floats) -> Floats:
    """f'' at each share, never flat."""
    if curve.kind == OTHER:
        steep = second(cost, x, curve.lo, curve.hi)
        return steep if getattr(cost, "never_flat", False) else np.maximum(steep, curve.flattest)
    out = np.empty(len(x))
    steepnesses(curve, x, out)
    return out


@kernel
def steepnesses(curve: Curve, x: Floats, out: Floats) -> None:
    for i in range(len(x)):
        steep = curve.first[i]
        if curve.kind == LATENCY:
            steep = 2.0 * curve.first[i] / (x[i] * x[i] * x[i]) + 6.0 * curve.second[i] * x[i]
        out[i] = max(steep, curve.flattest[i])


@kernel
def answers(curve: Curve, weight: Floats, level: Floats, x: Floats) -> None:
    """x + weight f'(x) = level in the box: by formula, or by Newton from the last answer."""
    for i in range(len(x)):
        if curve.kind == QUADRATIC:
            stiff = weight[i] * curve.first[i]
            at = (level[i] + stiff * curve.second[i]) / (1.0 + stiff)
            x[i] = min(max(at, curve.lo[i]), curve.hi[i])
        else:
            x[i] = newton(curve.first[i], curve.second[i], curve.lo[i], curve.hi[i], weight[i], level[i], x[i])


@kernel
def newton(work: float, energy: float, low: float, high: float, weight: float, level: float, x: float) -> float:
    """The root of h(x) = x + weight (3 energy x^2 - work / x^2) - level, which rises; halving where a step would leave
    what is known to hold it."""
    at = min(max(x, low), high)
    for _ in range(HALVINGS):
        h = at + weight * (3.0 * energy * at * at - work / (at * at)) - level
        slope = 1.0 + weight * (6.0 * energy * at + 2.0 * work / (at * at * at))
        if h > 0.0:
            high = at
        else:
            low = at
        step = at - h / slope
        if abs(step - at) <= CLOSE * at or high - low <= CLOSE * high:
            return min(max(step, low), high)
        at = step if low < step < high else 0.5 * (low + high)
    return at
