"""Test a cost that a user wrote, and say what is wrong with it."""

from __future__ import annotations

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.costs._base import Cost, box

DERIVATIVE_TOLERANCE = 1e-4  # central differences of a smooth function agree far better than this
UNBOUNDED_REACH = 100.0  # how far to sample where the box has no end


def check_cost(cost: Cost, nodes: int | None = None, *, samples: int = 33) -> None:
    """Raise InputError when the derivative does not match the value or the cost is not convex on its box."""
    if isinstance(cost, type):
        raise InputError(f"{cost.__name__} is a class: pass an instance, {cost.__name__}(...)", code="cost.class")
    name = type(cost).__name__
    for method in ("value", "derivative"):
        if not callable(getattr(cost, method, None)):
            raise InputError(
                f"{name} has no {method}(x): a cost needs value(x) and derivative(x), vectorised over nodes",
                code="cost.method",
            )
    if nodes is None:
        nodes = getattr(cost, "nodes", None) or max(np.size(getattr(cost, "lo", 0)), np.size(getattr(cost, "hi", 0)))
    lo, hi = box(cost, nodes)
    points = _samples(lo, hi, samples)
    slopes = np.array([_finite(name, "derivative", cost.derivative, x) for x in points])
    _check_derivative(name, cost, points, slopes, lo, hi)
    _check_convex(name, points, slopes)


def _samples(lo: Floats, hi: Floats, samples: int) -> Floats:
    """Points across each box, from lo to hi; an open end is sampled UNBOUNDED_REACH away from the other."""
    middle = np.where(np.isfinite(lo), lo, np.where(np.isfinite(hi), hi, 0.0))
    left = np.where(np.isfinite(lo), lo, middle - UNBOUNDED_REACH)
    right = np.where(np.isfinite(hi), hi, middle + UNBOUNDED_REACH)
    return np.asarray(left + np.linspace(0.0, 1.0, samples)[:, None] * (right - left))


def _finite(name: str, method: str, function: object, x: Floats) -> Floats:
    given = x.copy()
    try:
        with np.errstate(all="ignore"):
            y = function(given)  # type: ignore[operator]
    except TypeError as error:
        raise InputError(f"{name}.{method}(x) failed on an array of {len(x)} shares: {error}") from None
    if not isinstance(y, np.ndarray):
        raise InputError(
            f"{name}.{method}(x) returned a {type(y).__name__}: return a numpy array, one number per node",
            code="cost.shape",
        )
    if y.shape != x.shape:
        hint = "return one per node" if len(x) > 1 else "return one per node, or pass check_cost(cost, nodes)"
        raise InputError(
            f"{name}.{method}(x) returned shape {y.shape} for x of shape {x.shape}: {hint}", code="cost.shape"
        )
    if not np.array_equal(given, x):
        raise InputError(f"{name}.{method}(x) changes x in place: work on a copy", code="cost.in_place")
    if not np.isfinite(y).all():
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InputError(
            f"{name}.{method} is not finite at node {i}, x = {x[i]:g}: {y[i]}; keep its box where it is",
            code="cost.finite",
        )
    return y


def _check_derivative(name: str, cost: Cost, points: Floats, slopes: Floats, lo: Floats, hi: Floats) -> None:
    for x, slope in zip(points[1:-1], slopes[1:-1], strict=True):
        step = np.minimum(1e-5 * np.maximum(1.0, np.abs(x)), 0.25 * np.minimum(x - lo, hi - x))
        step = np.where(step > 0, step, 1e-9)
        above, below = _finite(name, "value", cost.value, x + step), _finite(name, "value", cost.value, x - step)
        found = (above - below) / (2 * step)
        noise = 1e-15 * (np.abs(above) + np.abs(below)) / step
        wrong = (
            np.abs(found - slope) > DERIVATIVE_TOLERANCE * np.maximum(np.abs(found), np.abs(slope)) + 8 * noise + 1e-9
        )
        wrong &= hi > lo
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"{name}.derivative does not match {name}.value at node {i}, x = {x[i]:g}: "
                f"it says {slope[i]:g}, finite differences say {found[i]:g}",
                code="cost.derivative",
            )


def _check_convex(name: str, points: Floats, slopes: Floats) -> None:
    falls = np.diff(slopes, axis=0) < -1e-9 * (1.0 + np.abs(slopes[1:]))
    if falls.any():
        k, i = (int(v) for v in np.argwhere(falls)[0])
        raise InputError(
            f"{name} is not convex at node {i}: its derivative falls from {slopes[k, i]:g} at x = {points[k, i]:g} "
            f"to {slopes[k + 1, i]:g} at x = {points[k + 1, i]:g}",
            code="cost.convex",
        )
