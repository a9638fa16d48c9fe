"""The CPU half of a round: every node makes a market among its neighbours (docs/train.md, 3.5 and 3.7).

Node j says its price p_j; market i answers with the price z_i at which what its neighbours and itself give and take
balances; CPU moves against that. Prices come from a planned share s_j that may lie outside the box; the real share x_j
follows it as far as boxes allow, in whole grid units that leave one node and enter another, so the sum cannot change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import Channel, Wire, lengthened, send
from equipoise.train.costs._kernels import OTHER, Curve, answer, answers, curve_of, steepness, steepnesses
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS, limit
from equipoise.train.links import Round
from equipoise.train.method import Method
from equipoise.train.problem import Market

PER_OCTAVE = 8  # codes of an elasticity: an eighth of an octave apart, 16 bits
ELASTICITY_BITS = 16
CALM = 0.3  # of a change of elasticity that a round follows: faster, and plans can swing themselves up
ARRIVED = 1e-3  # of log2: nothing worth following
PATIENCE = 20.0  # widths of the wider end that may be planned along an edge and not have moved
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
    plain: Ints  # codes of a price ...
    repeats: Ints  # ... and of a market's answer
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
    desk: Floats  # what edges ask of each node
    level: Floats  # s + rho sum of z
    wish: Floats  # along each edge, units
    most: float  # of a wish, units: sums over a hub's edges stay inside 64 bits
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
        self.desk = np.zeros((nodes, DESK))
        self.backlog = np.zeros(0 if per_link else links // 2)
        self.channel = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.markets = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.plain = self.channel.plain
        self.amount_bits = np.zeros(links, dtype=np.int64)
        self.factor_bits = np.zeros(nodes, dtype=np.int64)
        self._static_floor: Floor | None = None

    def reprice(self) -> None:
        """Prices and elasticities anew, before the first round: the cost has learnt what its noise is."""
        x = self.market.grid.floats(self.shares)
        self.prices[:, 0] = self.market.cost.derivative(x)
        self.stretch[:] = -np.log2(steepness(self.market.cost, self.curve, x))
        self.weight[:] = self.inertia * 2.0 ** (np.round(PER_OCTAVE * self.stretch) / PER_OCTAVE)

    def floor(self, round: Round) -> Floor:
        """Everything a round needs."""
        if self._static_floor is not None:
            return self._static_floor
        market, topology = self.market, round.topology
        made = Floor(
            tails=topology.tails,
            heads=topology.heads,
            tail_slot=round.tail_slot,
            head_slot=round.head_slot,
            pair=round.pair,
            slots=round.slots,
            senders=round.senders,
            trust=round.trust,
            plain=self.plain,
            repeats=round.kept("codes of markets", lambda: self.markets.repeats(topology.degree)),
            said=self.channel.wire,
            answered=self.markets.wire,
            curve=self.curve,
            per_link=self.per_link,
            boxed=market.boxed,
            unit=market.grid.unit,
            inertia=self.inertia,
            low=market.low,
            high=market.high,
            shares=self.shares,
            excess=self.excess,
            prices=self.prices,
            cleared=self.cleared,
            answer=self.answer,
            stretch=self.stretch,
            settled=self.settled,
            weight=self.weight,
            desk=self.desk,
            level=self.level,
            wish=np.empty(len(round.pair)),
            most=BIGGEST_FLOW / max(1, topology.all_edges),
            backlog=self.backlog,
            factor_bits=self.factor_bits,
            amount_bits=self.amount_bits,
        )
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
    slots, senders, count = floor.slots, floor.senders, len(floor.slots)
    send(floor.said, floor.prices, slots, senders, floor.plain, number, flags, 0, count, floor.said.tally)
    clear(
        floor.tails,
        floor.heads,
        floor.tail_slot,
        floor.head_slot,
        floor.per_link,
        floor.weight,
        floor.trust,
        floor.prices,
        floor.said.heard,
        floor.desk,
        floor.cleared,
    )
    send(floor.answered, floor.cleared, slots, senders, floor.repeats, number, 0, 0, count, floor.answered.tally)
    largest = plan(
        floor.tails,
        floor.heads,
        floor.tail_slot,
        floor.head_slot,
        floor.per_link,
        floor.boxed,
        floor.unit,
        floor.shares,
        floor.said.heard,
        floor.answered.heard,
        floor.cleared,
        floor.backlog,
        floor.desk,
        floor.wish,
        floor.excess,
        floor.level,
    )
    return largest < BIGGEST_FLOW or (floor.boxed and largest < np.inf)


# Columns of a node's desk: all that an edge asks of its ends lies in one line of memory.
RHO, SAID, ANSWER, SUM, WEIGHT, LEAVES, ENTERS, DESK = 0, 1, 2, 3, 4, 5, 6, 8


@kernel
def clear(
    tails: Ints,
    heads: Ints,
    tail_slot: Ints,
    head_slot: Ints,
    per_link: bool,
    weight: Floats,
    trust: Floats,
    prices: Floats,
    heard: Floats,
    desk: Floats,
    cleared: Floats,
) -> None:
    """z_i: the mean price of node i and its neighbours, each with its elasticity there, rho = D / (degree + 1)."""
    for i in range(len(desk)):
        rho = weight[i] * trust[i]
        desk[i, RHO], desk[i, SUM], desk[i, WEIGHT] = rho, rho * prices[i, 0], rho
        desk[i, SAID] = 0.0 if per_link else heard[i, 0]
    for e in range(len(tails)):
        i, j = tails[e], heads[e]
        ours, theirs = desk[i, SAID], desk[j, SAID]
        if per_link:
            ours, theirs = heard[tail_slot[e], 0], heard[head_slot[e], 0]
        desk[i, SUM] += desk[j, RHO] * theirs
        desk[j, SUM] += desk[i, RHO] * ours
        desk[i, WEIGHT] += desk[j, RHO]
        desk[j, WEIGHT] += desk[i, RHO]
    for i in range(len(desk)):
        cleared[i, 0] = desk[i, SUM] / desk[i, WEIGHT]


@kernel
def plan(
    tails: Ints,
    heads: Ints,
    tail_slot: Ints,
    head_slot: Ints,
    per_link: bool,
    boxed: bool,
    unit: float,
    shares: Ints,
    said: Floats,
    answered: Floats,
    cleared: Floats,
    backlog: Floats,
    desk: Floats,
    wishes: Floats,
    excess: Floats,
    level: Floats,
) -> float:
    """Along each edge, in units: what i gives in j's market, rho_i (p_i - z_j), less what j gives in i's.

    The planned share s becomes s - what was given; level = s + rho_i sum of z over i's markets (docs/train.md, 3.7). Sums up
    what would leave and enter each node, backlogs included. Returns the largest |flow| in units.
    """
    largest, per_unit = 0.0, 1.0 / unit
    for i in range(len(desk)):
        desk[i, ANSWER] = 0.0 if per_link else answered[i, 0]
        desk[i, SUM], desk[i, WEIGHT] = 0.0, cleared[i, 0]  # from here on: net flow, and the sum of answers
        desk[i, LEAVES], desk[i, ENTERS] = 0.0, 0.0
    for e in range(len(tails)):
        i, j = tails[e], heads[e]
        p_i, p_j, z_i, z_j = desk[i, SAID], desk[j, SAID], desk[i, ANSWER], desk[j, ANSWER]
        if per_link:
            a, b = tail_slot[e], head_slot[e]
            p_i, p_j, z_i, z_j = said[a, 0], said[b, 0], answered[a, 0], answered[b, 0]
        flow = desk[i, RHO] * (p_i - z_j) - desk[j, RHO] * (p_j - z_i)
        desk[i, SUM] -= flow
        desk[j, SUM] += flow
        desk[i, WEIGHT] += z_j
        desk[j, WEIGHT] += z_i
        wish = flow * per_unit
        largest = max(largest, abs(wish))
        if boxed:
            wish += 0.0 if per_link else backlog[e]
            if wish > 0.0:
                desk[i, LEAVES] += wish
                desk[j, ENTERS] += wish
            else:
                desk[i, ENTERS] -= wish
                desk[j, LEAVES] -= wish
        wishes[e] = wish
    for i in range(len(desk)):
        excess[i] += shares[i] * unit + desk[i, SUM]  # for now the planned share itself
        level[i] = excess[i] + desk[i, RHO] * desk[i, WEIGHT]
        largest = max(largest, 0.0 if boxed else abs(shares[i]))  # beyond, sums would no longer be exact
        largest = largest if np.isfinite(level[i]) else np.inf
    return largest


@kernel
def _settle(floor: Floor, steep: Floats) -> None:
    """New prices; real shares follow the plan as far as boxes allow; elasticities follow the curvature calmly."""
    reprice(floor)
    if floor.boxed and not fits(floor.desk, floor.low, floor.high, floor.shares):
        _move_limited(floor)
    else:
        move_freely(
            floor.tails,
            floor.heads,
            floor.wish,
            floor.most,
            floor.boxed and not floor.per_link,
            floor.shares,
            floor.backlog,
        )
    close_round(floor, steep)


@kernel
def reprice(floor: Floor) -> None:
    """What node j would pay at the plan's level: the prices of the next round."""
    for i in range(len(floor.shares)):
        floor.prices[i, 0] = (floor.level[i] - floor.answer[i]) / floor.weight[i]


@kernel
def close_round(floor: Floor, steep: Floats) -> None:
    """What is planned and has not moved is remembered, and elasticities move on."""
    for i in range(len(floor.shares)):
        floor.excess[i] -= floor.shares[i] * floor.unit
    if not floor.boxed:
        floor.excess[:] = 0.0  # a unit of rounding
    elif floor.per_link:
        _forget(floor)
    _stretch(
        floor.inertia,
        floor.per_link,
        steep,
        floor.answer,
        floor.curve.lo,
        floor.curve.hi,
        floor.settled,
        floor.stretch,
        floor.weight,
        floor.said.bits_sent,
    )


@kernel
def move_freely(tails: Ints, heads: Ints, wish: Floats, most: float, kept: bool, shares: Ints, backlog: Floats) -> None:
    """Every wish, in whole units: the same as with limits that do not bind."""
    for e in range(len(wish)):
        units = int(min(max(wish[e], -most), most))
        shares[tails[e]] -= units
        shares[heads[e]] += units
        if kept:
            backlog[e] = wish[e] - units


@kernel
def fits(desk: Floats, low: Ints, high: Ints, shares: Ints) -> bool:
    """Whether no limit can bind: all that leaves a node fits into half of x - lo, all that enters into half of hi - x."""
    fine = True
    for i in range(len(shares)):
        fine &= desk[i, LEAVES] <= (shares[i] - low[i]) // 2 - 2.0
        fine &= desk[i, ENTERS] <= (high[i] - shares[i]) // 2 - 2.0
    return fine


@kernel
def _move_limited(floor: Floor) -> None:
    """What the limiter leaves of the wishes moves; the rest is remembered along the edge, where it will be there again."""
    moved = limit(
        in_units(floor.wish, floor.most),
        floor.tails,
        floor.heads,
        floor.pair,
        floor.shares,
        floor.low,
        floor.high,
        floor.factor_bits,
        floor.amount_bits,
    )
    for k in range(len(floor.slots)):
        floor.said.bits_sent[floor.slots[k]] += floor.factor_bits[floor.senders[k]]
    book_moves(floor, moved)


@kernel
def in_units(wish: Floats, most: float) -> Ints:
    """Whole units, towards 0."""
    wanted = np.empty(len(wish), dtype=np.int64)
    for e in range(len(wish)):
        wanted[e] = int(min(max(wish[e], -most), most))
    return wanted


@kernel
def book_moves(floor: Floor, moved: Ints) -> None:
    """Shares change hands; what has not moved is remembered along its edge."""
    wish = floor.wish
    for e in range(len(wish)):
        i, j = floor.tails[e], floor.heads[e]
        floor.shares[i] -= moved[e]
        floor.shares[j] += moved[e]
        if not floor.per_link:
            rest = wish[e] - moved[e]
            most = PATIENCE * max(floor.high[i] - floor.low[i], floor.high[j] - floor.low[j])
            floor.backlog[e] = min(max(rest, -most), most)
            undone = (rest - floor.backlog[e]) * floor.unit  # what would take too long is taken back into the plan
            floor.excess[i] += undone
            floor.excess[j] -= undone


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
def _stretch(
    inertia: float,
    per_link: bool,
    steep: Floats,
    answer: Floats,
    lo: Floats,
    hi: Floats,
    settled: Floats,
    stretch: Floats,
    weight: Floats,
    bits_sent: Ints,
) -> None:
    """Elasticities go a part of the way to 1 / f'', less at a bound; a new code is told in 16 bits."""
    for i in range(len(steep)):
        wanted = 1.0 / steep[i]
        if answer[i] <= lo[i] or answer[i] >= hi[i]:
            wanted *= FULL_NODE
        if wanted == settled[i]:
            continue
        change = np.log2(wanted) - stretch[i]
        if abs(change) < ARRIVED:
            settled[i] = wanted
            continue
        stretch[i] += CALM * change
        settled[i] = 0.0
        new = inertia * 2.0 ** (np.round(PER_OCTAVE * stretch[i]) / PER_OCTAVE)
        if new != weight[i]:
            weight[i] = new
            if not per_link:
                bits_sent[i] += ELASTICITY_BITS
