"""The auditor: watches a run from outside and recomputes what it claims, sharing none of its bookkeeping."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs._base import Cost, second
from equipoise.train.models._base import Model
from equipoise.train.topology import Topology
from equipoise.train.truth import CpuOptimum, ModelOptimum

if TYPE_CHECKING:
    from equipoise.train.problem import Market

NEGATIVE = 1e-9  # a relative gap below minus this is not rounding
ROUNDED = 64 * float(np.finfo(np.float64).eps)  # of the size of costs: a smaller difference of them is rounding
ARRIVED = 1e-12  # of the least loss: how near to it a centralised solver comes
GRID_NOISE = 4096  # units by which shares may be off without anybody caring
WITNESSES = 32  # nodes whose own model is scored on all data; beyond that, the ones farthest from the average


@dataclass
class Extremes:
    """The worst that any round showed."""

    budget: float = 0.0  # |sum x - b|, CPUs
    box: float = 0.0  # how far a share was outside its box, CPUs
    tracker: float = 0.0  # |sum z - sum grad g|, relative to the gradients
    gradient: float = 0.0  # largest sum of |grad g| of any coordinate
    model: float = 0.0  # largest size of any node's model
    rounds: int = 0  # rounds that were looked at
    links: int = 0  # directed links, summed over those rounds
    over: float = 0.0  # how far shares alone exceeded the budget, CPUs
    words: int = 0  # numbers heard that do not fit the bits that were counted, or came over no link of the round


@dataclass
class Auditor:
    """Looks at shares in every round, and at models and costs whenever the history is written."""

    worst: Extremes = field(default_factory=Extremes)
    keeps: bool = False  # whether the shares of every round are kept, for whoever checks them later
    kept: list[Ints] = field(default_factory=list)  # in units, [round, node] each
    kept_budgets: list[int] = field(default_factory=list)  # in force in each of those rounds

    def keep(self, units: Ints, budget: int) -> None:
        """Shares of some rounds, [round, node], and the budget in force."""
        if self.keeps:
            self.kept.append(units)
            self.kept_budgets += [budget] * len(units)

    def watch_links(self, topology: Topology, rounds: int = 1) -> None:
        """Every round: how many links the graph had."""
        self.worst.rounds += rounds
        self.worst.links += 2 * topology.edges * rounds

    def watch_words(self, before: list[Words], after: list[Words], links: Ints, topology: Topology) -> None:
        """What everybody believed of everybody before a round and after it: each change must fit its code, and each link
        that was used must be one of this round's graph. `links` are sender x n + receiver, sorted."""
        n = topology.n
        there = np.concatenate([topology.tails * n + topology.heads, topology.heads * n + topology.tails])
        self.worst.words += int((~np.isin(links, there)).sum())
        for old, new in zip(before, after, strict=True):
            self.worst.words += int(np.count_nonzero(~fits(old.rows, new.rows, new.bits, new.change)))

    def watch_units(self, shares: Ints, market: Market, budget: int) -> None:
        """Every round: shares as whole units."""
        seen: Ints = np.zeros(2, dtype=np.int64)
        look_at_units(shares, market.low, market.high, budget, seen)
        self.see_units(seen, market.grid.unit)
        self.keep(shares[None].copy(), budget)

    def see_units(self, seen: Ints, unit: float) -> None:
        """The worst of some rounds, in units: the budget missed, the box left."""
        self.worst.budget = max(self.worst.budget, float(seen[0]) * unit)
        self.worst.box = max(self.worst.box, float(seen[1]) * unit)

    def consensus(self, Y: Floats) -> float:
        """Largest distance of a node's model from the average one, as a part of the largest model so far."""
        self.worst.model = max(self.worst.model, float(np.linalg.norm(Y, axis=1).max()))
        return disagreement(Y, self.worst.model)

    def gradient_error(self, gradients: Floats) -> float:
        """|sum of gradients at the nodes' own models|, computed anew, as a part of the largest gradients so far."""
        size = float(max(np.abs(gradients).sum(axis=0).max(), 1e-300))
        self.worst.gradient = max(self.worst.gradient, size)
        return float(np.abs(gradients.sum(axis=0)).max()) / self.worst.gradient

    def tracker_error(self, gradients: Floats, Z: Floats) -> float:
        """|sum z - sum grad g(y)|, with gradients computed anew, as a part of the largest gradients so far."""
        off = float(np.abs(Z.sum(axis=0) - gradients.sum(axis=0)).max())
        size = float(max(np.abs(gradients).sum(axis=0).max(), np.abs(Z).sum(axis=0).max(), 1e-300))
        self.worst.gradient = max(self.worst.gradient, size)
        error = off / self.worst.gradient
        self.worst.tracker = largest(self.worst.tracker, error)
        return error


class Words(NamedTuple):
    """What everybody believes of every node, the bits counted for each number, and whether a code tells its change."""

    rows: Floats
    bits: int
    change: bool


def fits(before: Floats, after: Floats, bits: int, change: bool) -> AnyArray:
    """Which numbers can have come in so many bits: as a change of a sign, 6 bits of exponent and a mantissa, or as the first
    bits of a float. Sums of floats are rounded: a unit in the last place is no sign of anything."""
    if bits >= 64:
        return np.ones(after.shape, dtype=np.bool_)
    with np.errstate(all="ignore"):
        told = after - before if change else after
        mantissa, exponent = np.frexp(told)
        scale = 2.0 ** ((bits - 6) if change else {32: 24, 48: 37}[bits])
        nearest = np.ldexp(np.round(mantissa * scale) / scale, exponent)
        slack = np.spacing(np.maximum(np.abs(before), np.abs(after))) if change else 0.0
        return (np.abs(nearest - told) <= slack) | ~np.isfinite(told)


def cpu_gap(cost: Cost, x: Floats, optimum: CpuOptimum) -> float:
    """sum f(x) - sum f(x*), with exact summation; the budget is the same, so the price term cancels rounding."""
    with np.errstate(all="ignore"):
        each = cost.value(x) - cost.value(optimum.shares) - optimum.price * (x - optimum.shares)
    return math.fsum(each.tolist()) if np.isfinite(each).all() else math.inf


def model_gap(model: Model, Y: Floats, optimum: ModelOptimum) -> float:
    """How much worse the worst witness's own model is than the centralised one, on everybody's data."""
    if not model.quick_totals:
        Y = farthest(Y, WITNESSES)
    with np.errstate(all="ignore"):
        return float((model.totals(Y) - optimum.loss).max())


def farthest(Y: Floats, most: int) -> Floats:
    """At most so many rows, in order: those farthest from the average one."""
    if len(Y) <= most:
        return Y
    apart = np.linalg.norm(Y - Y.mean(axis=0), axis=1)
    return Y[np.sort(np.argsort(apart, kind="stable")[-most:])]


def largest(*values: float) -> float:
    """The largest; not a number if any is not, which Python's own max would hide."""
    return math.nan if any(math.isnan(value) for value in values) else max(values)


def cost_size(market: Market, optimum: CpuOptimum) -> float:
    """How large the numbers are that costs near the optimum are differences of: |f| + |f'| |x| + f'' x^2, summed.

    At the optimum, never over the box: near an end that no share goes to, f'' may be larger by any factor.
    """
    x, cost = optimum.shares, market.cost
    with np.errstate(all="ignore"):
        each = np.abs(cost.value(x)) + np.abs(cost.derivative(x) * x) + second(cost, x, market.lo, market.hi) * x**2
    return float(each.sum())


def cost_noise(market: Market, optimum: CpuOptimum) -> float:
    """A cost difference too small to speak of: rounding of costs, or of shares to the grid."""
    steep = second(market.cost, optimum.shares, market.lo, market.hi)
    off_grid = float(steep.sum()) * (GRID_NOISE * market.grid.unit) ** 2
    return max(ROUNDED * cost_size(market, optimum), off_grid, 1e-300)


def loss_noise(optimum: ModelOptimum) -> float:
    """A difference of losses too small to speak of."""
    return max(ARRIVED * abs(optimum.loss), ROUNDED * abs(optimum.loss_at_zero), 1e-300)


def as_part(gap: float, first: float, noise: float) -> float:
    """A gap as a part of the first one; 0 where it is rounding, if the first was so small that rounding would show."""
    return 0.0 if abs(gap) <= noise and noise > NEGATIVE * first else gap / first


def worst_part(parts: list[float]) -> float:
    """The larger, unless one is negative: an infeasible half is not hidden by the other, and neither is one that is not
    a number."""
    if not parts or any(math.isnan(part) for part in parts):
        return math.nan
    return min(parts) if min(parts) < -NEGATIVE else max(parts)


def disagreement(Y: Floats, size: float) -> float:
    """Largest distance of a node's model from the average one, relative to a size (or to the largest model, if larger)."""
    size = max(size, float(np.linalg.norm(Y, axis=1).max()), 1e-300)
    return float(np.linalg.norm(Y - Y.mean(axis=0), axis=1).max() / size)


@kernel
def look_at_units(shares: Ints, low: Ints, high: Ints, budget: int, worst: Ints) -> None:
    """The largest |sum x - b| and the farthest outside a box so far, in whole units."""
    total, outside = 0, 0
    for i in range(len(shares)):
        total += shares[i]
        outside = max(outside, low[i] - shares[i], shares[i] - high[i])
    worst[0] = max(worst[0], abs(total - budget))
    worst[1] = max(worst[1], outside)


@kernel
def kkt_violation(x: Floats, prices: Floats, curvature: Floats, lo: Floats, hi: Floats) -> float:
    """min over lambda of the largest of |f' - lambda| inside, (lambda - f')+ at lo, (f' - lambda)+ at hi.

    A node that is d away from a bound counts for at most curvature x d towards it, so that "at lo" needs no tolerance.
    Wanting more grows with lambda and wanting less falls: bisect for where the two largest meet.
    """
    low, high, worst = prices[0], prices[0], 0.0
    for price in prices:  # written out: numpy's own take half a second to compile
        low, high = min(low, price), max(high, price)
    for _ in range(100):
        price = 0.5 * (low + high)
        more = less = 0.0
        for i in range(len(x)):
            more = max(more, min(price - prices[i], curvature[i] * (hi[i] - x[i])))
            less = max(less, min(prices[i] - price, curvature[i] * (x[i] - lo[i])))
        worst = max(more, less)
        if more > less:
            high = price
        elif less > more:
            low = price
        else:
            break
    return worst
