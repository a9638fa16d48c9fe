"""What a cost is: f_i(x_i) per node, vectorised over nodes; what the solver asks of it; and how a user's own is checked."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import Floats

# Widening of a sampled curvature bound: a maximum over samples is a lower estimate of the true one.
SAMPLED_CURVATURE_MARGIN = 1.25
SAMPLES = 129
LOCAL_REACH = 1e-4  # half the distance of a local one
RESPONSE_HALVINGS, RESPONSE_CLOSE = 100, 1e-15
REACH = 1e-6  # half the distance of a finite difference, as a part of the box
DERIVATIVE_TOLERANCE = 1e-4  # central differences of a smooth function agree far better than this
STEP = (
    1e-5  # of the distance to the nearer end of the box, or of the size of x: half the distance of a central difference
)
LONGEST = 1e-2  # of the size of x, where the box is open
RESOLVED = 1e-10  # of |f / f'|: a central difference that far is rounded to 6 digits
COARSEST = 1000.0  # spacings of floats: a shorter step would measure their rounding
ROUNDING = 4e-15  # of f and of f' x, whatever their units
NEXT_TO_NOTHING = 1e-9  # of the largest slope inside the box: as good as 0
UNBOUNDED_REACH = 100.0  # how far to sample where the box has no end


class Cost(Protocol):
    """A separable convex cost. `x` holds one CPU share per node; both methods return one number per node.

    A cost may also offer `curvature() -> (smallest, largest)` of f'' on the box, `second(x)`, `share_at(price)`, the
    inverse of the derivative, and `response(weight, level, guess)`, the x with x + weight f'(x) = level. Without them they
    are found numerically.
    """

    @property
    def lo(self) -> Any: ...

    @property
    def hi(self) -> Any: ...

    def value(self, x: Floats) -> Floats: ...

    def derivative(self, x: Floats) -> Floats: ...


def described(cost: Cost) -> str:
    """The `repr` of a cost: its kind, for how many nodes, and the shares it allows."""
    nodes = getattr(cost, "nodes", None)
    return (
        f"<{type(cost).__name__}: {nodes or 'any number of'} nodes, shares {np.min(cost.lo):g} to {np.max(cost.hi):g}>"
    )


def per_node(name: str, value: ArrayLike, nodes: int | None = None) -> Floats:
    """A scalar or one number per node, as float64; NaN is refused by name."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or one number per node, not {value!r}", code="cost.number") from None
    if array.ndim > 1:
        raise InputError(f"{name} must be a number or one number per node; this array has shape {array.shape}")
    if np.isnan(array).any():
        where = f" at node {int(np.flatnonzero(np.isnan(array))[0])}" if array.ndim else ""
        raise InputError(f"{name} is not a number{where}: give a finite value", code="cost.number")
    if nodes is not None:
        if array.ndim and len(array) != nodes:
            raise InputError(f"{name} has {len(array)} values for {nodes} nodes: give one per node, or one number")
        array = np.broadcast_to(array, (nodes,)).astype(np.float64)
    return array


def length(*arrays: Floats) -> int | None:
    """How many nodes these scalars and arrays speak of; None when all are scalars."""
    sizes = {len(a) for a in arrays if a.ndim}
    if len(sizes) > 1:
        raise InputError(
            f"a cost's parameters speak of {' and '.join(map(str, sorted(sizes)))} nodes: give one length",
            code="cost.nodes",
        )
    return sizes.pop() if sizes else None


def box(cost: Cost, nodes: int) -> tuple[Floats, Floats]:
    """lo and hi of every node, checked: lo <= hi."""
    lo = per_node("lo", getattr(cost, "lo", -np.inf), nodes)
    hi = per_node("hi", getattr(cost, "hi", np.inf), nodes)
    bad = np.flatnonzero(lo > hi)
    if len(bad):
        i = int(bad[0])
        raise InputError(f"lo > hi at node {i} ({lo[i]:g} > {hi[i]:g}): swap or correct them", code="cost.box")
    return lo, hi


def curvature(cost: Cost, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """The smallest and largest f'' of each node on its box; sampled from the derivative when the cost offers none."""
    offered = getattr(cost, "curvature", None)
    if offered is not None:
        smallest, largest = offered()
        return per_node("curvature", smallest, len(lo)), per_node("curvature", largest, len(lo))
    if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        raise InputError(
            f"{type(cost).__name__} has an unbounded box and no curvature(): set finite lo and hi, or add "
            "curvature() returning the smallest and largest second derivative",
            code="cost.unbounded",
        )
    width = np.where(hi > lo, hi - lo, 1.0)
    spots = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, SAMPLES))[:, None]  # dense at both ends, where curvature peaks
    left, right = (np.clip(lo + (spots + side * REACH) * width, lo, np.maximum(hi, lo)) for side in (-1.0, 1.0))
    with np.errstate(all="ignore"):
        rises = np.array([cost.derivative(b) - cost.derivative(a) for a, b in zip(left, right, strict=True)])
        second = np.where(right > left, rises / np.where(right > left, right - left, 1.0), 0.0)
    if not np.isfinite(second).all():
        node = int(np.flatnonzero(~np.isfinite(second).all(axis=0))[0])
        raise InputError(
            f"{type(cost).__name__} has no finite derivative on its box at node {node}: raise lo or lower hi there"
        )
    largest = second.max(axis=0)
    fixed = np.where(largest > 0, largest, 1.0)  # a box of one point has no curvature to speak of
    return np.maximum(second.min(axis=0), 0.0), fixed * SAMPLED_CURVATURE_MARGIN


def second(cost: Cost, x: Floats, lo: Floats, hi: Floats) -> Floats:
    """f'' at each node's share, by differences of the derivative where the cost does not offer it; positive."""
    offered = getattr(cost, "second", None)
    if offered is not None:
        return np.asarray(offered(x))
    width = np.where(np.isfinite(hi - lo) & (hi > lo), hi - lo, 1.0 + np.abs(x))
    left, right = np.maximum(x - LOCAL_REACH * width, lo), np.minimum(x + LOCAL_REACH * width, hi)
    apart = np.where(right > left, right - left, 1.0)
    rise = np.where(right > left, cost.derivative(right) - cost.derivative(left), 0.0)
    return np.asarray(np.maximum(rise / apart, 0.0))


def response(cost: Cost, weight: Floats, level: Floats, lo: Floats, hi: Floats, guess: Floats) -> Floats:
    """The x in its box with x + weight f'(x) = level, or the end of the box nearest to it."""
    offered = getattr(cost, "response", None)
    if offered is not None:
        return np.asarray(np.minimum(np.maximum(offered(weight, level, guess), lo), hi))
    at = np.clip(guess, lo, hi)
    miss = level - at - weight * cost.derivative(at)
    # x + weight f'(x) rises by at least 1: the root is no farther away than the miss.
    left = np.clip(np.minimum(at, at + miss), lo, hi)
    right = np.clip(np.maximum(at, at + miss), lo, hi)
    for _ in range(RESPONSE_HALVINGS):
        apart = (right - left) > RESPONSE_CLOSE * np.abs(
            right
        )  # who is close enough stays: no node's answer depends on others
        if not apart.any():
            break
        at = 0.5 * (left + right)
        below = at + weight * cost.derivative(at) < level
        left, right = np.where(apart & below, at, left), np.where(apart & ~below, at, right)
    at = 0.5 * (left + right)
    at = np.where(np.isfinite(lo) & (lo + weight * _finite_slope(cost, lo, at) >= level), lo, at)
    return np.asarray(np.where(np.isfinite(hi) & (hi + weight * _finite_slope(cost, hi, at) <= level), hi, at))


def _finite_slope(cost: Cost, ends: Floats, inside: Floats) -> Floats:
    """f' at the ends of boxes; inside where a box has no end."""
    return cost.derivative(np.where(np.isfinite(ends), ends, inside))


# Is a cost that a user wrote what it must be?


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
    """Against central differences of the value; every tolerance is a part of the cost's own size, in whatever units."""
    steepest = np.abs(slopes[1:-1]).max(axis=0)
    for x, slope in zip(points[1:-1], slopes[1:-1], strict=True):
        room = np.minimum(x - lo, hi - x)
        size = np.maximum(np.abs(x), UNBOUNDED_REACH)
        with np.errstate(all="ignore"):  # an open box says nothing of units: as far as rounding of f asks for
            resolved = np.nan_to_num(RESOLVED * np.abs(_finite(name, "value", cost.value, x) / slope))
        wished = np.where(np.isfinite(room), STEP * room, np.clip(resolved, STEP * size, LONGEST * size))
        step = np.minimum(np.maximum(wished, COARSEST * np.spacing(np.abs(x))), 0.25 * room)
        right, left = x + step, x - step
        apart = right - left
        above, below = _finite(name, "value", cost.value, right), _finite(name, "value", cost.value, left)
        found = (above - below) / np.where(apart > 0, apart, 1.0)
        noise = ROUNDING * (np.abs(above) + np.abs(below) + np.abs(slope * x)) / np.where(apart > 0, apart, 1.0)
        allowed = DERIVATIVE_TOLERANCE * np.maximum(np.abs(found), np.abs(slope)) + 4 * noise
        wrong = (np.abs(found - slope) > allowed + NEXT_TO_NOTHING * steepest) & (apart > 0)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"{name}.derivative does not match {name}.value at node {i}, x = {x[i]:g}: "
                f"it says {slope[i]:g}, finite differences say {found[i]:g}",
                code="cost.derivative",
            )


def _check_convex(name: str, points: Floats, slopes: Floats) -> None:
    """The derivative never falls by more than rounding, which is a part of the slopes themselves."""
    size = np.maximum(np.abs(slopes[1:]), np.abs(slopes[:-1]))
    noise = NEXT_TO_NOTHING * size + ROUNDING * np.abs(slopes[1:-1]).max(axis=0)
    falls = np.diff(slopes, axis=0) < -noise
    if falls.any():
        k, i = (int(v) for v in np.argwhere(falls)[0])
        raise InputError(
            f"{name} is not convex at node {i}: its derivative falls from {slopes[k, i]:g} at x = {points[k, i]:g} "
            f"to {slopes[k + 1, i]:g} at x = {points[k + 1, i]:g}",
            code="cost.convex",
        )
