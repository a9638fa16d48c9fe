"""What a cost is: f_i(x_i) per node, vectorised over nodes; and what the solver asks of it."""

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
