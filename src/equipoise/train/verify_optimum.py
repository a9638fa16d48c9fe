"""The best shares and the best model once more, found by other means than a run's own truth: for whoever verifies one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize

from equipoise.train.arrays import Floats
from equipoise.train.costs._base import Cost, second
from equipoise.train.models._base import Model

DOUBLINGS, HALVINGS = 200, 70
ROUNDED = 2.0**-46  # of the size of costs: what rounding leaves of their differences
NEAR = 4096  # units by which shares may be off without anybody caring
ARRIVED = 1e-6  # of the gradient at the start: a model that is as good as the best
SAME, TINY = 1e-6, 1e-9  # of a value; of the gap at the start: how well claims and findings must agree
SHOWN = 2  # of what is wrong, said one by one
WITNESSES = 32  # models that are scored on everybody's data: those farthest from the average


@dataclass(frozen=True, eq=False)
class Prices:
    """What nodes would take at the price at which all of a budget is taken: any shares are held against that."""

    cost: Cost
    lo: Floats
    hi: Floats
    unit: float
    price: float
    wanted: Floats

    @classmethod
    def find(cls, cost: Cost, lo: Floats, hi: Floats, unit: float, budget: float, near: Floats) -> Prices:
        """By Brent's method on the price; `near` are shares to look around where boxes are open."""
        inside = np.clip(near, lo, hi)
        slopes = cost.derivative(inside)
        low, high = float(slopes.min()), float(slopes.max())
        width = max(high - low, abs(high), 1e-6)
        wanted = _Demand(cost, lo, hi, inside)

        def missing(price: float) -> float:
            return math.fsum(wanted(price).tolist()) - budget

        for _ in range(DOUBLINGS):
            if missing(low) <= 0.0 <= missing(high):
                break
            low, high, width = low - width, high + width, 2.0 * width
        below, above = missing(low), missing(high)
        price = brentq(missing, low, high, xtol=1e-300, rtol=1e-15, maxiter=500) if below < 0.0 < above else low
        price = high if below < 0.0 and not above > 0.0 else price
        return cls(cost, lo, hi, unit, price, wanted(price))

    def gap(self, x: Floats) -> float:
        """How much more these shares cost than the best, or more than that, whatever the price: by Lagrange."""
        with np.errstate(all="ignore"):
            each = self.cost.value(x) - self.cost.value(self.wanted) - self.price * (x - self.wanted)
        return math.fsum(each.tolist()) if np.isfinite(each).all() else math.inf

    @property
    def noise(self) -> float:
        """A gap that is rounding, of costs or of shares to their unit."""
        z, cost = self.wanted, self.cost
        bend = second(cost, z, self.lo, self.hi)
        size = np.abs(cost.value(z)) + np.abs(cost.derivative(z) * z) + bend * z**2
        return max(ROUNDED * float(size.sum()), float(bend.sum()) * (NEAR * self.unit) ** 2, 1e-300)

    def limit(self, x: Floats, allowed: float, most: float) -> float:
        """How far prices may differ where the gap is `allowed`: its root times the steepest slope, at most `most`, and
        rounding. Nodes at the bound where they should be have no say."""
        lo, hi = self.lo, self.hi
        inside = np.clip(x, lo, hi)
        acts = ~((inside == self.wanted) & ((inside == lo) | (inside == hi)))
        bends = np.maximum(second(self.cost, inside, lo, hi), second(self.cost, self.wanted, lo, hi))
        steep = float(bends[acts].max(initial=0.0))
        price = float(np.abs(self.cost.derivative(inside)[acts]).max(initial=0.0))
        alike = max(math.sqrt(2 * steep * self.noise), 8 * self.unit * steep, 64 * float(np.spacing(price)))
        return max(min(math.sqrt(2 * steep * allowed), most), alike)


class _Demand:
    """What each node takes at a price: where its derivative meets it, by halving, or the end of its box."""

    def __init__(self, cost: Cost, lo: Floats, hi: Floats, inside: Floats) -> None:
        self.cost, self.lo, self.hi, self.inside = cost, lo, hi, inside

    def __call__(self, price: float) -> Floats:
        left, right = self._end(price, self.lo, -1.0), self._end(price, self.hi, 1.0)
        for _ in range(HALVINGS):
            middle = 0.5 * (left + right)
            more = self.cost.derivative(middle) < price
            left, right = np.where(more, middle, left), np.where(more, right, middle)
        x = 0.5 * (left + right)
        for end, side in ((self.lo, 1.0), (self.hi, -1.0)):
            closed = np.isfinite(end)
            at = np.where(closed, end, x)
            x = np.where(closed & (side * (self.cost.derivative(at) - price) >= 0.0), at, x)
        return np.asarray(x)

    def _end(self, price: float, bound: Floats, side: float) -> Floats:
        """The bound; where a box is open, a share whose derivative lies beyond the price."""
        closed = np.isfinite(bound)
        at, reach = np.where(closed, bound, self.inside), 1.0
        for _ in range(DOUBLINGS):
            short = ~closed & (side * (price - self.cost.derivative(at)) > 0.0)
            if not short.any():
                break
            at, reach = np.where(short, at + side * reach, at), 2.0 * reach
        return np.asarray(at)


def price_spread(x: Floats, prices: Floats, curvature: Floats, lo: Floats, hi: Floats) -> float:
    """The least p such that some common price is within p of everybody's who could still act on it."""

    def sides(price: float) -> tuple[float, float]:
        more = np.minimum(price - prices, curvature * (hi - x))
        less = np.minimum(prices - price, curvature * (x - lo))
        return max(0.0, float(more.max())), max(0.0, float(less.max()))

    def balance(price: float) -> float:
        more, less = sides(price)
        return more - less

    low, high = float(prices.min()), float(prices.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return math.nan
    if balance(low) >= 0.0 or balance(high) <= 0.0:
        return min(max(sides(low)), max(sides(high)))
    return max(sides(brentq(balance, low, high, xtol=1e-300, rtol=1e-15, maxiter=500)))


@dataclass(frozen=True, eq=False)
class Least:
    """The least loss of one model for all, and what it may be off by."""

    model: Model
    loss: float
    at_start: float
    noise: float  # a difference of losses that is rounding
    off: float  # how far above the least the loss may be; infinite where nothing proves it

    @classmethod
    def find(cls, model: Model, start: Floats, guess: Floats) -> Least:
        """By L-BFGS on the pooled loss, from any guess: a file's best model, or the average of models."""
        first, slope = model.total(start)
        size = float(np.abs(slope).max()) or 1.0
        options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-10 * size}
        y = np.asarray(minimize(model.total, guess, jac=True, method="L-BFGS-B", options=options).x)
        loss, gradient = model.total(y)
        noise = max(1e-12 * abs(loss), ROUNDED * abs(first), 1e-300)
        proven = float(gradient @ gradient) / (2 * model.convexity) if model.convexity > 0 else math.inf
        flat = float(np.abs(gradient).max()) <= max(ARRIVED * size, 1e-12)
        return cls(model, loss, first, noise, min(proven, noise if flat else math.inf))

    @property
    def scale(self) -> float:
        """The gap at the start."""
        return max(self.at_start - self.loss, self.noise)

    def gap(self, models: Floats) -> float:
        """Of the worst centre's own model, on everybody's data."""
        return worst_loss(self.model, models) - self.loss

    def part_of_start(self, gap: float) -> float:
        """As a part of the gap at the start; what is rounding is none."""
        return 0.0 if abs(gap) <= self.noise and self.noise > 1e-9 * self.scale else gap / self.scale


def worst_loss(model: Model, models: Floats) -> float:
    """The largest loss on everybody's data; of many models, of those farthest from the average."""
    if len(models) > WITNESSES and not model.quick_totals:
        apart = np.linalg.norm(models - models.mean(axis=0), axis=1)
        models = models[np.sort(np.argsort(apart, kind="stable")[-WITNESSES:])]
    with np.errstate(all="ignore"):
        return float(np.max(model.totals(np.ascontiguousarray(models))))


def apart(models: Floats) -> float:
    """The farthest model from the average one, as a part of the largest."""
    size = float(np.linalg.norm(models, axis=1).max())
    return float(np.linalg.norm(models - models.mean(axis=0), axis=1).max()) / max(size, 1e-300)


def like(one: float | None, other: float | None, room: float = 0.0) -> bool:
    """Equal to rounding, and to this room; what is not a number is like nothing but itself."""
    one, other = (math.nan if value is None else float(value) for value in (one, other))
    if not (math.isfinite(one) and math.isfinite(other)):
        return not math.isfinite(one) and not math.isfinite(other)
    return abs(one - other) <= SAME * max(abs(one), abs(other)) + room


def said(wrong: list[str]) -> str:
    """The first of what is wrong."""
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return "; ".join(wrong[:SHOWN]) + more
