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
from equipoise.train.limiter import BIGGEST_FLOW, limit
from equipoise.train.links import Neighbours, Round
from equipoise.train.method import Method
from equipoise.train.problem import Market

PER_OCTAVE = 8  # codes of an elasticity: an eighth of an octave apart, 16 bits
ELASTICITY_BITS = 16
CALM = 0.3  # of a change of elasticity that a round follows: faster, and plans can swing themselves up
FULL_NODE = 0.15  # elasticity of a node at its bound, as a part of what its curvature says


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
        wish = np.empty(len(round.pair))
        level = self.excess + grid.floats(self.shares)
        largest = _plan(
            self.channel.heard, self.markets.heard, self.cleared, spread, near, grid.unit, wish, self.excess, level
        )
        if not (largest < BIGGEST_FLOW or (market.boxed and largest < np.inf)):
            return False
        self.answer = response(market.cost, weight, level, market.lo, market.hi, self.answer)
        self.prices[:, 0] = (level - self.answer) / weight
        self._move(round, wish)
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

    def _move(self, round: Round, wish: Floats) -> None:
        """Real shares follow the plan: exactly where nothing is bounded, else as far as boxes allow."""
        market, topology = self.market, round.topology
        if not market.boxed:
            _deliver(wish, topology.tails, topology.heads, self.shares)
            self.excess[:] = 0.0
            return
        if not self.per_link:
            if len(self.backlog) == 0:
                self.backlog = np.zeros(len(wish))
            wish += self.backlog
        wanted = np.clip(wish, -BIGGEST_FLOW / len(wish), BIGGEST_FLOW / len(wish)).astype(np.int64)
        moved = limit(
            wanted, topology.tails, topology.heads, round.pair, self.shares, market.low, market.high, self.limiter_bits,
            self.amount_bits,
        )  # fmt: skip
        if not self.per_link:
            self.backlog = wish - moved
        _follow(moved, topology.tails, topology.heads, market.grid.unit, self.shares, self.excess)
        if self.per_link:
            _forget(market.low, market.high, market.grid.unit, self.shares, self.excess)

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
    wish: Floats,
    excess: Floats,
    level: Floats,
) -> float:
    """Along each edge, in units: what i gives in j's market, rho_i (p_i - z_j), less what j gives in i's.

    The planned share s becomes s - what was given; level = s + rho_i sum of z over i's markets (docs/train.md, 3.7).
    Returns the largest |flow| in units.
    """
    largest = 0.0
    for i in range(len(spread)):
        net, answers = 0.0, cleared[i, 0]
        for e in range(near.first[i], near.first[i + 1]):
            answer = answered[near.heard[e], 0]
            taken = spread[near.node[e]] * (said[near.heard[e], 0] - answered[near.told[e], 0])
            given = spread[i] * (said[near.told[e], 0] - answer)
            net += taken - given
            answers += answer
            if i < near.node[e]:
                flow = (given - taken) / unit
                wish[near.edge[e]] = flow
                largest = max(largest, abs(flow))
        excess[i] += net
        level[i] += net + spread[i] * answers
        largest = largest if np.isfinite(level[i]) else np.inf
    return largest


@kernel
def _deliver(wish: Floats, tails: Ints, heads: Ints, shares: Ints) -> None:
    """Without bounds everything planned moves, in whole units."""
    for e in range(len(wish)):
        units = int(wish[e])
        shares[tails[e]] -= units
        shares[heads[e]] += units


@kernel
def _follow(moved: Ints, tails: Ints, heads: Ints, unit: float, shares: Ints, excess: Floats) -> None:
    """What moved; the excess is what is planned and has not."""
    for e in range(len(moved)):
        shares[tails[e]] -= moved[e]
        shares[heads[e]] += moved[e]
        excess[tails[e]] += moved[e] * unit
        excess[heads[e]] -= moved[e] * unit


@kernel
def _forget(low: Ints, high: Ints, unit: float, shares: Ints, excess: Floats) -> None:
    """Where the way is gone by the next round, only what would not fit the box is remembered."""
    for i in range(len(shares)):
        above, below = (high[i] - shares[i]) * unit, (shares[i] - low[i]) * unit
        if excess[i] > 0.0:
            excess[i] = max(0.0, excess[i] - above) if high[i] < NO_BOUND else 0.0
        else:
            excess[i] = min(0.0, excess[i] + below) if low[i] > -NO_BOUND else 0.0
