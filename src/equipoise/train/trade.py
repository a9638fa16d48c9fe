"""The CPU half of a round: every node makes a market among its neighbours (docs/train.md, 3.5 and 3.7).

Node j says its price p_j; market i answers with the price z_i at which what its neighbours and itself give and take
balances; CPU moves against that. Prices come from a planned share s_j that may lie outside the box; the real share x_j
follows it as far as boxes allow, in whole grid units that leave one node and enter another, so the sum cannot change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.compiled import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import ONCE, Channel, Wire, lengthened, send
from equipoise.train.costs.curve import OTHER, Curve, answer, answers, curve_of, steepness, steepnesses
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS, fits, limit
from equipoise.train.links import Round
from equipoise.train.method import Method
from equipoise.train.problem import Market

PER_OCTAVE = 8  # codes of an elasticity: an eighth of an octave apart, 16 bits
ELASTICITY_BITS = 16
CALM = 0.3  # of a change of elasticity that a round follows: faster, and plans can swing themselves up
ARRIVED = 1e-3  # of log2: nothing worth following
FULL_NODE = 0.15  # elasticity of a node at its bound, as a part of what its curvature says


class Floor(NamedTuple):
    """The trading floor of one round, as the kernels see it."""

    tails: Ints
    heads: Ints
    tail_slot: Ints
    head_slot: Ints
    pair: Ints
    slots: Ints
    senders: Ints
    trust: Floats  # 1 / (degree + 1)
    repeats: Ints
    said: Wire
    answered: Wire
    curve: Curve
    per_link: bool
    boxed: bool
    unit: float
    inertia: float
    low: Ints
    high: Ints
    shares: Ints
    excess: Floats  # planned minus real share, CPUs
    prices: Floats
    cleared: Floats  # z: what each market answers
    answer: Floats  # x_j(p_j): what node j would hold at its own price
    stretch: Floats  # log2 of the elasticity 1 / f'', followed calmly
    settled: Floats  # the elasticity that stretch has arrived at
    weight: Floats  # D = theta times the elasticity as it was told
    rho: Floats  # D / (degree + 1)
    total: Floats  # scratch: sums over a node's edges ...
    volume: Floats  # ... of prices and weights, then of flows and answers
    level: Floats  # s + rho sum of z
    wish: Floats  # along each edge, units
    backlog: Floats  # of a static network: what was planned along each edge and has not moved, units
    factor_bits: Ints  # of one round, per sender
    amount_bits: Ints  # of cut amounts so far, per directed link


class Trading:
    """Who holds how much CPU, who plans to hold how much, and at what price."""

    KEPT = ("shares", "excess", "prices", "answer", "stretch", "settled", "weight", "backlog", "amount_bits")

    def __init__(self, market: Market, method: Method, inertia: float, links: int, slots: int, per_link: bool) -> None:
        self.market, self.inertia, self.per_link = market, inertia, per_link
        nodes = len(market.lo)
        self.shares: Ints = market.start()
        x = market.grid.floats(self.shares)
        self.curve = curve_of(market.cost, market.lo, market.hi, market.curvature)
        self.excess = np.zeros(nodes)
        self.prices = np.asarray(market.cost.derivative(x), dtype=np.float64).reshape(nodes, 1).copy()
        self.answer = x.copy()
        self.stretch = -np.log2(steepness(market.cost, self.curve, x))
        self.settled = np.zeros(nodes)
        self.weight = inertia * 2.0 ** (np.round(PER_OCTAVE * self.stretch) / PER_OCTAVE)
        self.cleared, self.level = np.zeros((nodes, 1)), np.zeros(nodes)
        self.scratch = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
        self.backlog = np.zeros(0 if per_link else links // 2)
        self.channel = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.markets = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.amount_bits = np.zeros(links, dtype=np.int64)
        self.factor_bits = np.zeros(nodes, dtype=np.int64)
        self._static_floor: Floor | None = None

    def floor(self, round: Round) -> Floor:
        """Everything a round needs."""
        if self._static_floor is not None:
            return self._static_floor
        market, topology = self.market, round.topology
        made = Floor(
            topology.tails, topology.heads, round.tail_slot, round.head_slot, round.pair, round.slots, round.senders,
            round.trust, self.markets.repeats(topology.degree), self.channel.wire, self.markets.wire, self.curve, self.per_link,
            market.boxed, market.grid.unit, self.inertia, market.low, market.high, self.shares, self.excess, self.prices,
            self.cleared, self.answer, self.stretch, self.settled, self.weight, *self.scratch, self.level, np.empty(len(round.pair)), self.backlog,
            self.factor_bits, self.amount_bits,
        )  # fmt: skip
        if not self.per_link:
            self._static_floor = made
        return made

    def advance(self, round: Round, number: int) -> bool:
        """One round. False when a plan no longer fits the grid: the run has diverged and nothing was moved."""
        floor = self.floor(round)
        if self.curve.kind != OTHER:
            return trade(floor, number)
        if not _negotiate(floor, number):
            return False
        answer(self.market.cost, self.curve, self.weight, self.level, self.answer)
        _settle(floor, steepness(self.market.cost, self.curve, self.answer))
        return True

    def grow(self, pairs: int, slots: int) -> None:
        """Room for pairs that have just met."""
        self.channel.grow(slots)
        self.markets.grow(slots)
        if 2 * pairs > len(self.amount_bits):
            self.amount_bits = lengthened(self.amount_bits, max(2 * pairs, 2 * len(self.amount_bits)))

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
        self._static_floor = None


@kernel
def trade(floor: Floor, number: int) -> bool:
    """One round with a cost that kernels know."""
    if not _negotiate(floor, number):
        return False
    answers(floor.curve, floor.weight, floor.level, floor.answer)
    steep = np.empty(len(floor.answer))
    steepnesses(floor.curve, floor.answer, steep)
    _settle(floor, steep)
    return True


@kernel
def _negotiate(floor: Floor, number: int) -> bool:
    """Prices are said, markets answer, and everybody plans. False when a plan is out of all bounds."""
    flags = (FLAG_BITS if floor.boxed else 0) + (ELASTICITY_BITS if floor.per_link else 1)
    send(floor.said, floor.prices, floor.slots, floor.senders, ONCE, number, flags)
    _clear(floor)
    send(floor.answered, floor.cleared, floor.slots, floor.senders, floor.repeats, number, 0)
    largest = _plan(floor)
    return largest < BIGGEST_FLOW or (floor.boxed and largest < np.inf)


@kernel
def _clear(floor: Floor) -> None:
    """z_i: the mean price of node i and its neighbours, each with its elasticity there, rho = D / (degree + 1)."""
    rho, total, volume, heard = floor.rho, floor.total, floor.volume, floor.said.heard
    tails, heads, tail_slot, head_slot = floor.tails, floor.heads, floor.tail_slot, floor.head_slot
    for i in range(len(rho)):
        rho[i] = floor.weight[i] * floor.trust[i]
        volume[i], total[i] = rho[i], rho[i] * floor.prices[i, 0]
    for e in range(len(tails)):
        i, j = tails[e], heads[e]
        total[i] += rho[j] * heard[head_slot[e], 0]
        total[j] += rho[i] * heard[tail_slot[e], 0]
        volume[i] += rho[j]
        volume[j] += rho[i]
    for i in range(len(rho)):
        floor.cleared[i, 0] = total[i] / volume[i]


@kernel
def _plan(floor: Floor) -> float:
    """Along each edge, in units: what i gives in j's market, rho_i (p_i - z_j), less what j gives in i's.

    The planned share s becomes s - what was given; level = s + rho_i sum of z over i's markets (docs/train.md, 3.7).
    Returns the largest |flow| in units.
    """
    rho, net, answers, wish = floor.rho, floor.total, floor.volume, floor.wish
    tails, heads, tail_slot, head_slot = floor.tails, floor.heads, floor.tail_slot, floor.head_slot
    said, answered, per_unit = floor.said.heard, floor.answered.heard, 1.0 / floor.unit
    largest = 0.0
    for i in range(len(rho)):
        net[i], answers[i] = 0.0, floor.cleared[i, 0]
    for e in range(len(tails)):
        i, j, a, b = tails[e], heads[e], tail_slot[e], head_slot[e]
        flow = rho[i] * (said[a, 0] - answered[b, 0]) - rho[j] * (said[b, 0] - answered[a, 0])
        net[i] -= flow
        net[j] += flow
        answers[i] += answered[b, 0]
        answers[j] += answered[a, 0]
        wish[e] = flow * per_unit
        largest = max(largest, abs(wish[e]))
    for i in range(len(rho)):
        floor.level[i] = floor.shares[i] * floor.unit + floor.excess[i] + net[i] + rho[i] * answers[i]
        floor.excess[i] += net[i]
        largest = largest if np.isfinite(floor.level[i]) else np.inf
    return largest


@kernel
def _settle(floor: Floor, steep: Floats) -> None:
    """New prices; real shares follow the plan as far as boxes allow; elasticities follow the curvature calmly."""
    for i in range(len(floor.weight)):
        floor.prices[i, 0] = (floor.level[i] - floor.answer[i]) / floor.weight[i]
    if floor.boxed:
        _follow(floor)
        if floor.per_link:
            _forget(floor)
    else:
        for e in range(len(floor.wish)):
            units = int(floor.wish[e])
            floor.shares[floor.tails[e]] -= units
            floor.shares[floor.heads[e]] += units
        floor.excess[:] = 0.0
    _stretch(floor, steep)


@kernel
def _follow(floor: Floor) -> None:
    """What is wished moves, all of it or what the limiter leaves; the excess is what is planned and has not."""
    wish, tails, heads, shares, kept = floor.wish, floor.tails, floor.heads, floor.shares, not floor.per_link
    most = BIGGEST_FLOW / max(1, len(wish))
    wanted = np.empty(len(wish), dtype=np.int64)
    for e in range(len(wish)):
        wish[e] += floor.backlog[e] if kept else 0.0
        wanted[e] = int(min(max(wish[e], -most), most))
    if not fits(wish, tails, heads, shares, floor.low, floor.high):
        wanted = limit(
            wanted, tails, heads, floor.pair, shares, floor.low, floor.high, floor.factor_bits, floor.amount_bits
        )
        for k in range(len(floor.slots)):
            floor.said.bits_sent[floor.slots[k]] += floor.factor_bits[floor.senders[k]]
    for e in range(len(wish)):
        moved, i, j = wanted[e], tails[e], heads[e]
        if kept:
            floor.backlog[e] = wish[e] - moved
        shares[i] -= moved
        shares[j] += moved
        floor.excess[i] += moved * floor.unit
        floor.excess[j] -= moved * floor.unit


@kernel
def _forget(floor: Floor) -> None:
    """Where the way is gone by the next round, only what would not fit the box is remembered."""
    for i in range(len(floor.shares)):
        x, low, high, excess = floor.shares[i], floor.low[i], floor.high[i], floor.excess[i]
        if excess > 0.0:
            floor.excess[i] = max(0.0, excess - (high - x) * floor.unit) if high < NO_BOUND else 0.0
        else:
            floor.excess[i] = min(0.0, excess + (x - low) * floor.unit) if low > -NO_BOUND else 0.0


@kernel
def _stretch(floor: Floor, steep: Floats) -> None:
    """Elasticities go a part of the way to 1 / f'', less at a bound; a new code is told in 16 bits."""
    for i in range(len(steep)):
        wanted = 1.0 / steep[i]
        if floor.answer[i] <= floor.curve.lo[i] or floor.answer[i] >= floor.curve.hi[i]:
            wanted *= FULL_NODE
        if wanted == floor.settled[i]:
            continue
        change = np.log2(wanted) - floor.stretch[i]
        if abs(change) < ARRIVED:
            floor.settled[i] = wanted
            continue
        floor.stretch[i] += CALM * change
        new = floor.inertia * 2.0 ** (np.round(PER_OCTAVE * floor.stretch[i]) / PER_OCTAVE)
        if new != floor.weight[i]:
            floor.weight[i] = new
            if not floor.per_link:
                floor.said.bits_sent[i] += ELASTICITY_BITS
