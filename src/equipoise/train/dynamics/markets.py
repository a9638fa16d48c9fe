"""CPU where no link returns: every node makes a market among its neighbours of the round (docs/train.md, 3.5 and 3.7).

    say    p_j, the price of node j, and its elasticity D_j
    reply  z_i, the price at which what market i's neighbours and itself give and take balances
    move   rho_i (p_i - z_j) - rho_j (p_j - z_i) along each link,  rho = D / (degree + 1)
           x + D f'(x) = plan + rho sum of z around, so p = (plan + rho sum z - x) / D

Prices come from a planned share that may lie outside the box; the real share follows as far as boxes allow, in whole units
that leave one node and enter another, so the sum cannot change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.costs._kernels import answer, curve_of, steepness
from equipoise.train.dynamics.flows import Pipe, outflow
from equipoise.train.exchange.rows import LONG_BITS, Codes, Near, Round, Site, Voice
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS
from equipoise.train.problem import Market
from equipoise.train.quantize import Quantizer

PER_OCTAVE = 8  # codes of an elasticity: an eighth of an octave apart
ELASTICITY_BITS = 16
CALM = 0.3  # of a change of elasticity that a round follows: faster, and plans can swing themselves up
ARRIVED = 1e-3  # of log2: nothing worth following
FULL_NODE = 0.15  # elasticity of a node at its bound, as a part of what its curvature says


class Stalls(NamedTuple):
    """What the nodes that live here hold, as the kernels see it."""

    own: Ints
    rho: Floats  # of every node, D / (degree + 1)
    plan: Floats
    level: Floats
    net: Floats


class Markets(Pipe):
    """Who holds how much CPU, who plans to hold how much, and at what price."""

    needs = frozenset({"symmetric", "reliable"})
    NODE = ("units", "excess", "price", "answer", "stretch", "settled")

    def __init__(self, site: Site, market: Market, quantizer: Quantizer, inertia: float, start: Ints) -> None:
        super().__init__(site, market, start, market.boxed)
        self.inertia = inertia
        busiest = max(int(site.near(k).degree.max(initial=1)) for k in site.rounds or (0,))
        self.prices = Voice(site, quantizer, 1, finest=0.5, short=LONG_BITS)
        self.answers = Voice(site, quantizer, 1, finest=1.0 / (busiest + 1), short=LONG_BITS)
        self.told = Codes(site, 1)
        self.curve = curve_of(market.cost, market.lo, market.hi, market.curvature)
        self.settled = np.zeros(len(start))
        self.answer = self.x
        self.reprice()

    def reprice(self) -> None:
        """Prices and elasticities from the cost as it is now, before the first round."""
        self.price = np.array(self.market.cost.derivative(self.x), dtype=np.float64)
        self.stretch = -np.log2(steepness(self.market.cost, self.curve, self.x))

    def play(self, number: int) -> Round:
        """One round. False when a plan no longer fits the grid: the run has diverged and nothing was moved."""
        site, market = self.site, self.market
        near, own = site.near(number), site.own
        self.told.rows[own, 0] = codes = np.round(PER_OCTAVE * self.stretch).astype(np.int64)
        self.prices.say(self.price[:, None], number)
        beside = ELASTICITY_BITS + (FLAG_BITS if self.limited else 0) + (site.degree_bits if site.first(number) else 0)
        self.meter.add(number, self.prices.bits(number) + beside)
        yield self.prices, self.told
        weight = self.inertia * 2.0 ** (codes / PER_OCTAVE)
        rho = self.inertia * 2.0 ** (self.told.rows[:, 0] / PER_OCTAVE) / (near.degree + 1.0)
        said, cleared = self.prices.at(number)[:, 0], np.empty(len(own))
        _clear(near, own, rho, self.price, said, cleared)
        self.answers.say(cleared[:, None], number)
        self.meter.add(number, self.answers.bits(number))
        yield (self.answers,)
        plan, level, net = self.excess + self.x, np.empty(len(own)), np.empty(len(own))
        stalls, wanted = Stalls(own, rho, plan, level, net), np.zeros(len(near.node), dtype=np.int64)
        answered = self.answers.at(number)[:, 0]
        largest = _plan(near, stalls, said, answered, cleared, self.unit, self._most(number), wanted)
        if not (largest < BIGGEST_FLOW or (self.limited and largest < np.inf)):
            return False
        answer(market.cost, self.curve, weight, level, self.answer)
        self.price = (level - self.answer) / weight
        moved = wanted
        if self.limited:
            moved, bits = yield from self.limiter.cut(number, wanted, self.units)
            self.meter.add(number, 0, bits)
        self.units -= outflow(near, own, moved)
        self._remember(plan - net)
        self._stretch(steepness(market.cost, self.curve, self.answer))
        return True

    def _remember(self, plan: Floats) -> None:
        """The way may be gone by the next round: only what would not fit the box is remembered."""
        x, low, high = self.units, self.market.low, self.market.high
        excess, unit = plan - self.x, self.unit
        above = np.where(high < NO_BOUND, np.maximum(0.0, excess - (high - x) * unit), 0.0)
        below = np.where(low > -NO_BOUND, np.minimum(0.0, excess + (x - low) * unit), 0.0)
        self.excess = np.where(excess > 0.0, above, below) if self.limited else np.zeros(len(x))

    def _stretch(self, steep: Floats) -> None:
        """Elasticities go a part of the way to 1 / f'', less at a bound."""
        at_bound = (self.answer <= self.curve.lo) | (self.answer >= self.curve.hi)
        wanted = np.where(at_bound, FULL_NODE, 1.0) / steep
        change = np.log2(wanted) - self.stretch
        moving, near = wanted != self.settled, np.abs(change) < ARRIVED
        self.settled = np.where(moving, np.where(near, wanted, 0.0), self.settled)
        self.stretch = np.where(moving & ~near, self.stretch + CALM * change, self.stretch)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep, by node."""
        kept: dict[str, AnyArray] = {f"node/{name}": getattr(self, name) for name in self.NODE}
        for part, voice in (("price", self.prices), ("answer", self.answers)):
            kept |= {f"said/{part}.{name}": rows for name, rows in voice.memory().items()}
        return kept | self.meter.memory()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint of the whole network."""
        self.meter.restore(memory)
        for name in self.NODE:
            setattr(self, name, memory[f"node/{name}"][self.site.own].copy())
        for part, voice in (("price", self.prices), ("answer", self.answers)):
            voice.restore(memory[f"said/{part}.heard"], memory[f"said/{part}.floors"])


@kernel
def _clear(near: Near, own: Ints, rho: Floats, price: Floats, said: Floats, cleared: Floats) -> None:
    """z_i: the mean price of node i and its neighbours, each with its elasticity there."""
    for r in range(len(own)):
        i = own[r]
        total, weight = rho[i] * price[r], rho[i]
        for e in range(near.first[i], near.first[i + 1]):
            j = near.node[e]
            total += rho[j] * said[j]
            weight += rho[j]
        cleared[r] = total / weight


@kernel
def _plan(
    near: Near, stalls: Stalls, said: Floats, answered: Floats, cleared: Floats, unit: float, most: float, wanted: Ints
) -> float:
    """Along each own entry, in units: what i gives in j's market less what j gives in i's. Fills the net flow and the level
    of each node; returns the largest flow, infinity where a level is no number."""
    own, rho, largest, per_unit = stalls.own, stalls.rho, 0.0, 1.0 / unit
    for r in range(len(own)):
        i = own[r]
        net, total = 0.0, cleared[r]
        for e in range(near.first[i], near.first[i + 1]):
            j = near.node[e]
            flow = rho[i] * (said[i] - answered[j]) - rho[j] * (said[j] - answered[i])
            net += flow
            total += answered[j]
            wish = flow * per_unit
            largest = max(largest, abs(wish))
            wanted[e] = int(min(max(wish, -most), most))
        stalls.net[r] = net
        stalls.level[r] = stalls.plan[r] - net + rho[i] * total
        if not np.isfinite(stalls.level[r]):
            return np.inf
    return largest
