"""The independent truth: both halves solved centrally, knowing nothing of the rounds (docs/train.md, 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.train.arrays import Floats
from equipoise.train.costs._base import Cost
from equipoise.train.models._base import Model

HALVINGS = 200
NEAR = 8  # units of the grid by which best shares may be off
PRICE_ERROR = 1e-9  # of a price: what rounding may leave of a difference
LOSS_ERROR = 1e-12  # of the loss at 0: what rounding may leave of a difference
FLAT = 1e-6  # of the gradient at 0: the centralised solver has arrived


@dataclass(frozen=True, eq=False)
class CpuOptimum:
    """Best shares under the budget, and the price lambda* they share."""

    shares: Floats
    price: float


@dataclass(frozen=True, eq=False)
class ModelOptimum:
    """Best common model and its total loss; `trusted` when the gradient there is flat beside the one at 0."""

    parameters: Floats
    loss: float
    trusted: bool
    loss_at_zero: float = 0.0  # of the model 0: how large the numbers are that losses are differences of


def optimal_shares(cost: Cost, budget: float, lo: Floats, hi: Floats) -> CpuOptimum:
    """Bisection on the price: at price p node i wants the x in its box where f_i'(x) = p; the sum grows with p."""
    at_price = _demand(cost, lo, hi)
    inside = np.clip(np.zeros_like(lo), lo, hi)
    scale = max(1e-6, float(np.abs(cost.derivative(inside)).max()))  # a size of price to start the search from
    low, high = _bracket(lambda p: float(at_price(p).sum()), budget, scale)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if at_price(middle).sum() < budget:
            low = middle
        else:
            high = middle
    price = 0.5 * (low + high)
    return CpuOptimum(_share_out_rest(at_price(price), at_price(low), at_price(high), budget, lo, hi), price)


def why_not_best(best: CpuOptimum, cost: Cost, budget: float, lo: Floats, hi: Floats, unit: float) -> str:
    """Why these are not the best shares of a budget, in words; "" if they are: they are feasible, and at their price no
    node would rather have less or more. Knows nothing of how they were found; `unit` of the grid, in CPUs."""
    x, price = best.shares, best.price
    if not np.isfinite(x).all() or np.isnan(price):
        return "the best shares are not finite numbers"
    if abs(float(x.sum()) - budget) > PRICE_ERROR * (abs(budget) + float(np.abs(x).sum())) + len(x) * unit:
        return "the best shares do not add up to the budget"
    if ((x < lo) | (x > hi)).any():
        return "the best shares are outside their boxes"
    near = NEAR * (unit + np.spacing(np.abs(x)))
    with np.errstate(all="ignore"):
        below, above = cost.derivative(np.maximum(x - near, lo)), cost.derivative(np.minimum(x + near, hi))
        size = PRICE_ERROR * np.maximum(abs(price), np.maximum(np.abs(below), np.abs(above)))
        less, more = (x > lo) & ~(below <= price + size), (x < hi) & ~(above >= price - size)
    return "the best shares are not optimal at their price" if (less | more).any() else ""


def _share_out_rest(x: Floats, below: Floats, above: Floats, budget: float, lo: Floats, hi: Floats) -> Floats:
    """The last bits that bisection leaves, moved to nodes inside their boxes, so that the sum is the budget."""
    wide = above - below
    for _ in range(3):
        rest = budget - float(np.sum(x))
        inside = (x > lo) & (x < hi)
        pull = np.where(inside, np.maximum(wide, 1e-300), 0.0) if inside.any() else wide
        if rest == 0.0 or not pull.sum() > 0:
            break
        x = np.clip(x + rest * (pull / pull.sum()), lo, hi)
    return x


def _demand(cost: Cost, lo: Floats, hi: Floats) -> Callable[[float], Floats]:
    """What every node takes at a price: in closed form where the cost offers it, else by bisection on its derivative."""
    closed = getattr(cost, "share_at", None)
    if closed is not None:
        return lambda price: np.clip(closed(price), lo, hi)

    def bisected(price: float) -> Floats:
        left, right = _finite_box(cost, lo, hi, price)
        for _ in range(100):
            middle = 0.5 * (left + right)
            rising = cost.derivative(middle) < price
            left, right = np.where(rising, middle, left), np.where(rising, right, middle)
        return np.asarray(0.5 * (left + right))

    return bisected


def _finite_box(cost: Cost, lo: Floats, hi: Floats, price: float) -> tuple[Floats, Floats]:
    """Open ends replaced by points whose derivative lies beyond the price."""
    left = np.where(np.isfinite(lo), lo, np.where(np.isfinite(hi), hi, 0.0) - 1.0)
    right = np.where(np.isfinite(hi), hi, np.where(np.isfinite(lo), lo, 0.0) + 1.0)
    for _ in range(1000):
        too_high, too_low = cost.derivative(left) > price, cost.derivative(right) < price
        move_left, move_right = too_high & ~np.isfinite(lo), too_low & ~np.isfinite(hi)
        if not (move_left.any() or move_right.any()):
            break
        width = right - left
        left, right = np.where(move_left, left - width, left), np.where(move_right, right + width, right)
    return left, right


def _bracket(total: Callable[[float], float], budget: float, scale: float) -> tuple[float, float]:
    """Prices between which the budget is met."""
    low, high = -scale, scale
    for _ in range(1000):
        if total(low) <= budget:
            break
        low *= 2.0
    for _ in range(1000):
        if total(high) >= budget:
            break
        high *= 2.0
    return low, high


def optimal_model(model: Model) -> ModelOptimum:
    """Pooled data: in closed form where the model has one, else L-BFGS until the gradient is as flat as floats allow."""
    known = model.optimum()
    if known is None:
        known = _descend(model)
    return _measured(model, known)


def _measured(model: Model, y: Floats) -> ModelOptimum:
    """A model with its total loss, and whether the gradient there is flat beside the one at 0."""
    loss, gradient = model.total(y)
    at_zero, first = model.total(np.zeros(model.size))
    flat = float(np.abs(gradient).max()) <= max(FLAT * float(np.abs(first).max()), 1e-12)
    return ModelOptimum(y, loss, flat, at_zero)


def why_not_least(best: ModelOptimum, model: Model) -> str:
    """Why this is not the best model, in words; "" if it is: its loss is the one it claims, and its gradient is flat."""
    with np.errstate(all="ignore"):
        found = _measured(model, best.parameters)
    if not found.trusted:
        return "the gradient at the best model is not 0"
    pairs = ((found.loss, best.loss), (found.loss_at_zero, best.loss_at_zero))
    same = [abs(one - other) <= LOSS_ERROR * max(abs(one), abs(found.loss_at_zero)) for one, other in pairs]
    return "" if all(same) else "the loss of the best model is another one"


def _descend(model: Model) -> Floats:
    """Until |gradient|^2 / (2 convexity) proves the loss good to 1e-13, or the gradient is 1e-11 of its start."""
    from scipy.optimize import minimize

    last, enough = np.inf, False

    def total(y: Floats) -> tuple[float, Floats]:
        nonlocal last
        loss, gradient = model.total(y)
        last = float(gradient @ gradient)
        return loss, gradient

    def proven(intermediate_result: Any) -> None:
        nonlocal enough
        if model.convexity > 0 and last <= 2 * model.convexity * 1e-13 * max(1.0, abs(intermediate_result.fun)):
            enough = True
            raise StopIteration

    y = np.zeros(model.size)
    scale = float(np.abs(model.total(y)[1]).max()) or 1.0
    options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-11 * scale, "maxls": 50}
    for _ in range(4):  # restarts clear the memory of curvature once line searches meet rounding
        found = minimize(total, y, jac=True, method="L-BFGS-B", callback=proven, options=options)
        y = np.asarray(found.x)
        if np.abs(model.total(y)[1]).max() <= 1e-9 * scale or enough:
            break
    return y
