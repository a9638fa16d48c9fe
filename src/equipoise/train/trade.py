"""The CPU half of a round: every node makes a market among its neighbours (docs/train.md, 3.5 and 3.7).

Node j says its price p_j; market i answers with the price z_i at which what its neighbours and itself give and take
balances; CPU moves against that. Prices come from a planned share s_j that may lie outside the box; the real share x_j
follows it as far as boxes allow, in whole grid units that leave one node and enter another, so the sum cannot change.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.compiled import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import Channel, lengthened
from equipoise.train.costs.cost import response, second
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import AMOUNT_BITS, BIGGEST_FLOW, FACTOR_BITS, FULL, factor, scaled
from equipoise.train.links import Neighbours, Round
from equipoise.train.method import Method
from equipoise.train.problem import Market

PER_OCTAVE = 8  # codes of an elasticity: an eighth of an octave apart, 16 bits
ELASTICITY_BITS = 16
CALM = 0.3  # of a change of elasticity that a round follows: faster, and plans can swing themselves up
FULL_NODE = 0.25  # elasticity of a node at its bound, as a part of what its curvature says


class Trading:
    """Who holds how much CPU, who plans to hold how much, and at what price."""

    def __init__(self, market: Market, method: Method, inertia: float, links: int, slots: int, per_link: bool) -> None:
        self.market, self.inertia, self.per_link = market, inertia, per_link
        nodes = len(market.lo)
        self.shares: Ints = market.start()
        x = market.grid.floats(self.shares)
        self.excess = np.zeros(nodes)  # planned minus real share, CPUs
        self.prices = np.asarray(market.cost.derivative(x), dtype=np.float64).reshape(nodes, 1).copy()
        self.answer = x.copy()  # x_j(p_j): what node j would hold at its own price
        self.stretch = np.log2(1.0 / self._steepness(x))  # log2 of the elasticity 1 / f''
        self.backlog = np.zeros(0)  # of a static network: what was planned along each entry and has not moved, units
        self.channel = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.markets = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.amount_bits = np.zeros(links, dtype=np.int64)  # of cut amounts so far, per directed link
        self.limiter_bits = np.zeros(nodes, dtype=np.int64)
        self.cleared = np.zeros((nodes, 1))

    def _steepness(self, x: Floats) -> Floats:
        steep = second(self.market.cost, x, self.market.lo, self.market.hi)
        return np.maximum(steep, 1e-12 * self.market.curvature)

    def advance(self, round: Round, number: int) -> bool:
        """One round. False when a plan no longer fits the grid: the run has diverged and nothing was moved."""
        market, grid, near = self.market, self.market.grid, round.neighbours
        degree = round.topology.degree
        codes = np.round(PER_OCTAVE * self.stretch)
        weight = self.inertia * 2.0 ** (codes / PER_OCTAVE)  # D
        spread = weight / (degree + 1)  # rho
        self.channel.exchange(self.prices, round, number)
        _clear(self.prices, self.channel.heard, spread, near, self.cleared)
        self.markets.exchange(self.cleared, round, number, self.markets.repeats(degree))
        planned = np.empty(len(near.node))
        level = self.excess + grid.floats(self.shares)
        largest = _plan(
            self.channel.heard, self.markets.heard, self.cleared, spread, near, grid.unit, planned, self.excess, level
        )
        if not largest < BIGGEST_FLOW:
            return False
        self.answer = response(market.cost, weight, level, market.lo, market.hi, self.answer)
        self.prices[:, 0] = (level - self.answer) / weight
        self._move(near, planned)
        if market.boxed:
            self.channel.bits_sent[round.slots] += self.limiter_bits[round.senders]
        self._follow_curvature(round, codes)
        return True

    def grow(self, pairs: int, slots: int) -> None:
        """Room for pairs that have just met."""
        self.channel.grow(slots)
        self.markets.grow(slots)
        if 2 * pairs > len(self.amount_bits):
            self.amount_bits = lengthened(self.amount_bits, max(2 * pairs, 2 * len(self.amount_bits)))

    KEPT = ("shares", "excess", "prices", "answer", "stretch", "backlog", "amount_bits")

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept = {name: getattr(self, name) for name in self.KEPT}
        kept |= {f"channel.{name}": array for name, array in self.channel.memory().items()}
        return kept | {f"markets.{name}": array for name, array in self.markets.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for part, channel in (("channel.", self.channel), ("markets.", self.markets)):
            channel.restore({k.removeprefix(part): v for k, v in memory.items() if k.startswith(part)})
        for name in self.KEPT:
            setattr(self, name, memory[name])

    def _move(self, near: Neighbours, planned: Floats) -> None:
        """Real shares follow the plan: exactly where nothing is bounded, else as far as boxes allow."""
        market, unit = self.market, self.market.grid.unit
        if not market.boxed:
            _deliver(planned, near, self.shares)
            self.excess[:] = 0.0
            return
        if not self.per_link and len(self.backlog) == 0:
            self.backlog = np.zeros(len(planned) + len(self.shares))
        _settle(
            planned, near, self.backlog, market.low, market.high, unit, self.shares, self.excess, self.limiter_bits,
            self.amount_bits,
        )  # fmt: skip

    def _follow_curvature(self, round: Round, codes: Floats) -> None:
        """Elasticities follow the curvature where each node plans to be, calmly; new codes are told."""
        market = self.market
        wanted = np.log2(1.0 / self._steepness(self.answer))
        bounded = (self.answer <= market.lo) | (self.answer >= market.hi)
        self.stretch += CALM * (wanted + math.log2(FULL_NODE) * bounded - self.stretch)
        if self.per_link:
            self.channel.bits_sent[round.slots] += ELASTICITY_BITS
        else:
            changed = np.round(PER_OCTAVE * self.stretch) != codes
            self.channel.bits_sent[round.slots] += 1 + ELASTICITY_BITS * changed[round.senders]


@kernel
def _clear(prices: Floats, heard: Floats, spread: Floats, near: Neighbours, cleared: Floats) -> None:
    """z_i: the mean price of node i and its neighbours, each with its elasticity there."""
    for i in range(len(spread)):
        total, weights = spread[i] * prices[i, 0], spread[i]
        for e in range(near.first[i], near.first[i + 1]):
            rho = spread[near.node[e]]
            total += rho * heard[near.heard[e], 0]
            weights += rho
        cleared[i, 0] = total / weights


@kernel
def _plan(
    said: Floats,
    answered: Floats,
    cleared: Floats,
    spread: Floats,
    near: Neighbours,
    unit: float,
    planned: Floats,
    excess: Floats,
    level: Floats,
) -> float:
    """Entry e of node i: what neighbour j gives in i's market, rho_j (p_j - z_i), in units; both ends compute the same.

    The planned share s becomes s - what was given; level = s + rho_j sum of z over j's markets (docs/train.md, 3.7).
    Returns the largest |flow| in units.
    """
    largest = 0.0
    for i in range(len(spread)):
        net, answers = 0.0, cleared[i, 0]
        for e in range(near.first[i], near.first[i + 1]):
            taken = spread[near.node[e]] * (said[near.heard[e], 0] - answered[near.told[e], 0])
            given = spread[i] * (said[near.told[e], 0] - answered[near.heard[e], 0])
            planned[e] = taken / unit
            largest = max(largest, abs(planned[e]))
            net += taken - given
            answers += answered[near.heard[e], 0]
        excess[i] += net
        level[i] += net + spread[i] * answers
        largest = largest if np.isfinite(level[i]) else np.inf
    return largest


@kernel
def _deliver(planned: Floats, near: Neighbours, shares: Ints) -> None:
    """Without bounds everything planned moves, in whole units."""
    for i in range(len(shares)):
        for e in range(near.first[i], near.first[i + 1]):
            units = int(planned[e])
            shares[i] += units
            shares[near.node[e]] -= units


@kernel
def _settle(
    planned: Floats,
    near: Neighbours,
    backlog: Floats,
    low: Ints,
    high: Ints,
    unit: float,
    shares: Ints,
    excess: Floats,
    node_bits: Ints,
    link_bits: Ints,
) -> None:
    """Real trades: wishes are cut to each node's room, then each market's longer side to its shorter one, to the unit.

    Positive is given into a market. A node's wishes to give, over all its markets, are scaled to fit x - lo, its wishes to
    take to fit hi - x (a bit, and two factors of 8 bits if it limits anything): whatever the markets grant, it stays in its
    box. What a market grants is told with a bit a link, and the amount where it was cut.
    """
    nodes, entries = len(shares), len(planned)
    kept = len(backlog) > 0
    wish = np.empty(entries + nodes)  # a market's own maker stands after all entries
    offer = np.empty(entries + nodes, dtype=np.int64)
    gives, takes = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    most = 2.0**60 / max(1, entries)
    for i in range(nodes):
        rest = 0.0
        for e in range(near.first[i], near.first[i + 1]):
            rest -= planned[e]
            wish[e] = planned[e] + (backlog[e] if kept else 0.0)
            offer[e] = int(min(max(wish[e], -most), most))
            if offer[e] > 0:
                gives[near.node[e]] += offer[e]
            else:
                takes[near.node[e]] -= offer[e]
        own = entries + i
        wish[own] = rest + (backlog[own] if kept else 0.0)
        offer[own] = int(min(max(wish[own], -most), most))
        if offer[own] > 0:
            gives[i] += offer[own]
        else:
            takes[i] -= offer[own]
    may_give, may_take = gives, takes  # from here on: codes of factors
    for i in range(nodes):
        may_give[i] = factor(shares[i] - low[i], gives[i])
        may_take[i] = factor(high[i] - shares[i], takes[i])
        node_bits[i] = 1 + (2 * FACTOR_BITS if min(may_give[i], may_take[i]) < FULL else 0)
    for i in range(nodes):
        own = entries + i
        given = taken = 0
        for k in range(near.first[i], near.first[i + 1] + 1):
            e = k if k < near.first[i + 1] else own
            j = near.node[e] if e < entries else i
            if offer[e] > 0:
                offer[e] = scaled(offer[e], may_give[j])
                given += offer[e]
            else:
                offer[e] = -scaled(-offer[e], may_take[j])
                taken -= offer[e]
        over = given - taken
        if over != 0:  # cut the longer side in proportion, then the units that rounding left
            sign, part, left = (1, over / given, over) if over > 0 else (-1, -over / taken, -over)
            for again in range(2):
                for k in range(near.first[i], near.first[i + 1] + 1):
                    e = k if k < near.first[i + 1] else own
                    amount = sign * offer[e]
                    if amount > 0 and left > 0:
                        less = min(left, amount if again else min(amount, int(amount * part)))
                        offer[e] -= sign * less
                        left -= less
                        if less > 0 and e < entries:
                            link_bits[near.link[e]] += AMOUNT_BITS
        for e in range(near.first[i], near.first[i + 1]):
            link_bits[near.link[e]] += 1
            shares[near.node[e]] -= offer[e]
            excess[near.node[e]] += offer[e] * unit
            if kept:
                backlog[e] = wish[e] - offer[e]
        shares[i] -= offer[own]
        excess[i] += offer[own] * unit
        if kept:
            backlog[own] = wish[own] - offer[own]
    if not kept:  # where the way is gone by the next round, only what would not fit the box is remembered
        for i in range(nodes):
            above, below = (high[i] - shares[i]) * unit, (shares[i] - low[i]) * unit
            if excess[i] > 0.0:
                excess[i] = max(0.0, excess[i] - above) if high[i] < NO_BOUND else 0.0
            else:
                excess[i] = min(0.0, excess[i] + below) if low[i] > -NO_BOUND else 0.0
