"""CPU over links that carry both ways and return: prices agree, and real CPU follows the plan as gifts (docs/train.md, 5).

    say    q_ij = 2 rho p_i - z_ij, and a gift: what the planned flow F_ij = rho p_i - z_ij exceeds the net of both ledgers by
    hear   z_ij += relax (q_ji - z_ij);  x + D f'(x) = start + sum z_ij in the box, D = sum rho;  p = (start + sum z_ij - x) / D

This is relaxed ADMM on prices with one number per directed link. z needs no agreement of both ends, so loss only delays it.

A ledger is a running sum, sent whole: a later packet makes up for lost ones. Nothing is ever taken, only given, in whole
units: shares alone never exceed the budget, and shares + escrow + (given - received) are the budget exactly. What arrives
at a full node waits in its escrow until it fits or is given on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.channel import NUMBERS, SATURATED, UNDERFLOWED
from equipoise.train.codec import (
    MANTISSA,
    bits_per_number,
    first_floor,
    largest_code,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.costs._kernels import Curve, answer, curve_of, steepness
from equipoise.train.grid import NO_BOUND, exact_sum, spread
from equipoise.train.limiter import BIGGEST_FLOW
from equipoise.train.problem import Market
from equipoise.train.quantize import FLOAT_BITS, Quantizer
from equipoise.train.region import LinkTable, Region
from equipoise.train.spectrum import adjacency_gap

SUM_BITS = 64  # of a running sum
SCALE_BITS = 16  # of log2(elasticity / degree) in eighths, where it has changed; else one bit says that it has not
PER_OCTAVE = 8
LARGER = 0.7  # rho = theta larger^.7 smaller^.3 of the elasticities per link of both ends: found by trying
CALM = 0.3  # of a change of elasticity that a round follows, at most
CALMER, LESS_CALM = 0.7, 1.01  # times that after a turn, and after no turn: late news cannot swing it up
HYSTERESIS = 0.75  # eighths of an octave by which an elasticity is off before it is told anew
ARRIVED = 1e-3  # of log2: nothing worth following
FULL_NODE = 0.15  # elasticity of a node at its bound, as a part of what its curvature says
RELAX, RELAX_PER_GAP, RELAX_BOXED = 0.95, 0.7, 0.7  # .9 with boxes takes 1.7 times the rounds
IN_TURN = 2.0  # theta is larger where graphs take turns
UNKNOWN = -(1 << 62)  # scale of a neighbour that was not heard yet

MESSAGE = np.dtype([("q", np.float64), ("gave", np.int64), ("scale", np.int64), ("floor", np.int64)])


class Slots(NamedTuple):
    """Of a region: its nodes' slots, and what the exchange says of them."""

    first: Ints
    base: Ints
    target: Ints
    where: Ints
    fresh: Bools
    acked: Ints

    @classmethod
    def of(cls, region: Region) -> Slots:
        return cls(region.first, region.base, region.target, region.where, region.fresh, region.acked)


class Plan(NamedTuple):
    """Per node: price, D, start + sum z, elasticity as told; per slot: z, rho, both scales it was made from, gift due."""

    price: Floats
    weight: Floats
    level: Floats
    start: Floats
    told: Ints
    z: Floats
    rho: Floats
    pair: Ints
    due: Floats


class Following(NamedTuple):
    """Per node: log2 of its degree and of its elasticity, the elasticity that was arrived at, and how fast it follows."""

    degree: Floats
    elastic: Floats
    settled: Floats
    calm: Floats


class Ledger(NamedTuple):
    """Units. Per node: its share, what waits beside it, its box, whether it still collects its lo; per slot: given over it so
    far, received over the way back, and received - given where its planned flow is 0."""

    shares: Ints
    escrow: Ints
    low: Ints
    high: Ints
    collecting: Bools
    gave: Ints
    got: Ints
    offset: Ints


class Gifts:
    """Who holds how much CPU, what is on its way, and at what price. Needs links that carry both ways and return."""

    OWN = ("opening", "answer", "elastic", "settled", "calm", "tally")  # the rest is in plan and ledger
    COUNTED = ("prices", "ledgers")

    def __init__(
        self, region: Region, table: LinkTable, market: Market, quantizer: Quantizer, present: Bools | None = None
    ) -> None:
        """`present`: nodes that are there at the start, and divide the budget."""
        self.region, self.table, self.market = region, table, market
        mantissa = mantissa_bits(quantizer)
        self.code = mantissa, bits_per_number(mantissa)
        nodes, slots = len(region.ids), len(region.link)
        gap = min(0.5, 0.5 * adjacency_gap(table.n, table.senders, table.receivers))
        self.theta = (1.0 if table.static else IN_TURN) / (2.0 * math.sqrt((1.0 - gap) * max(gap, 1e-12)))
        self.relax = RELAX_BOXED if market.boxed else RELAX - RELAX_PER_GAP * gap
        whole = curve_of(market.cost, market.lo, market.hi, market.curvature)
        self.curve: Curve = whole._replace(
            **{name: getattr(whole, name)[region.ids] for name in ("first", "second", "lo", "hi", "flattest")}
        )
        self.owner = np.repeat(np.arange(nodes), np.diff(region.first))
        self.degree = np.log2(np.maximum(table.degree[region.ids], 1))
        held, waiting = first_shares(market, present)
        self.ledger = Ledger(
            held[region.ids],
            waiting[region.ids],
            market.low[region.ids],
            market.high[region.ids],
            np.zeros(nodes, dtype=np.bool_),
            *(np.zeros(slots, dtype=np.int64) for _ in range(3)),
        )
        self.opening = self.shares + self.escrow  # balance without any open ledger: it outlives its node
        self.plan = Plan(
            *(np.zeros(nodes) for _ in range(4)),
            np.zeros(nodes, dtype=np.int64),
            *(np.zeros(slots) for _ in range(2)),
            np.full(slots, UNKNOWN, dtype=np.int64),
            np.zeros(slots),
        )
        self.messages = np.zeros(region.rows, dtype=MESSAGE)
        self.answer, self.elastic, self.settled = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
        self.calm = np.full(nodes, CALM)  # its sign is that of the last change
        self.bits = tuple(region.count(name) for name in self.COUNTED)
        self.tally = np.zeros(3, dtype=np.int64)
        self.acting = np.ones(nodes, dtype=np.bool_)
        self.reprice()

    # what others look at

    @property
    def shares(self) -> Ints:
        return self.ledger.shares

    @property
    def escrow(self) -> Ints:
        """Units that wait at a node, in nobody's share."""
        return self.ledger.escrow

    @property
    def collecting(self) -> Bools:
        """Who has joined, and holds less than its lo as yet."""
        return self.ledger.collecting

    @property
    def sent(self) -> Ints:
        """Units given over each link so far."""
        return self.ledger.gave

    @property
    def received(self) -> Ints:
        """Units credited from each link so far, by its receiver; where all nodes live here."""
        return self.ledger.got[self.table.back]

    # rounds

    def reprice(self, links: Bools | None = None) -> None:
        """Prices, elasticities, and the flows of these links anew, from the shares that are there."""
        plan, market = self.plan, self.market
        x = np.clip(market.grid.floats(market.start()), market.lo, market.hi)
        x[self.region.ids] = np.clip(market.grid.floats(self.shares), self.curve.lo, self.curve.hi)
        self.answer[:] = x[self.region.ids]
        plan.price[:] = market.cost.derivative(x)[self.region.ids]
        self.elastic[:] = -np.log2(steepness(market.cost, self.curve, self.answer))
        plan.told[:] = np.round(PER_OCTAVE * (self.elastic - self.degree))
        self.settled[:] = 0.0
        self.reopen(np.ones(len(self.owner), dtype=np.bool_) if links is None else links)

    def say(self, number: int) -> bool:
        slots, scale = Slots.of(self.region), (self.theta, self.market.grid.unit)
        return bool(_say(slots, self.plan, self.ledger, self.messages, self.code, scale, self.bits, self.tally))

    def hear(self, number: int) -> bool:
        plan = self.plan
        _hear(Slots.of(self.region), plan, self.ledger, self.messages, self.theta, self.relax, self.acting)
        answer(self.market.cost, self.curve, plan.weight, plan.level, self.answer)
        steep = steepness(self.market.cost, self.curve, self.answer)
        follow = Following(self.degree, self.elastic, self.settled, self.calm)
        return bool(_price(plan, self.answer, steep, self.curve, follow, self.acting))

    def keep(self, rows: Ints, places: Ints) -> None:
        self.messages[places] = self.messages[rows]

    # who comes and goes

    def shut(self, links: Bools) -> None:
        """These links are out of the plan, at this end: what has moved over them so far has moved."""
        ledger, plan = self.ledger, self.plan
        plan.z[links] = plan.rho[links] = 0.0
        plan.pair[links] = UNKNOWN
        ledger.offset[links] = ledger.got[links] - ledger.gave[links]
        self._set_start()

    def reopen(self, links: Bools) -> None:
        """These links are to be in the plan again, with no flow as yet; what was given before counts as received."""
        ledger, plan = self.ledger, self.plan
        plan.z[links] = plan.rho[links] = 0.0
        plan.pair[links] = UNKNOWN
        if ledger.gave.any():
            ledger.offset[links] = ledger.gave[self.table.back[links]] - ledger.gave[links]
        self._set_start()

    def close(self, gone: Ints, heirs: Ints, present: Bools) -> int:
        """Centres are gone: what the survivors' ledgers say they held goes into the escrow of their heirs; units moved.

        A survivor folds (received - given) of every link with them into its opening balance. One that leaves also settles
        its links with the dead, by its own ledgers.
        """
        table, opening = self.table, self.opening
        senders, receivers, gave, received = table.senders, table.receivers, self.sent, self.received
        is_gone = np.zeros(table.n, dtype=np.bool_)
        is_gone[gone] = True
        to_gone, from_gone = is_gone[receivers] & ~is_gone[senders], is_gone[senders] & ~is_gone[receivers]
        told, heard = to_gone & present[senders], from_gone & present[receivers]
        dead_to, dead_from = to_gone & ~present[senders], from_gone & ~present[receivers]
        claim = exact_sum(opening[gone]) + exact_sum(gave[told]) - exact_sum(received[heard])
        claim += exact_sum(received[dead_to]) - exact_sum(gave[dead_from])
        for links, ends, units in (
            (told, senders, -gave),
            (heard, receivers, received),
            (dead_to, senders, -received),
            (dead_from, receivers, gave),
        ):
            np.add.at(opening, ends[links], units[links])
        closed = is_gone[receivers] | is_gone[senders]
        for array in (self.ledger.gave, self.ledger.got, self.ledger.offset):
            array[closed] = 0
        self.shares[gone] = self.escrow[gone] = opening[gone] = 0
        self.collecting[gone] = False
        part, rest = divmod(claim, len(heirs))
        portions = np.full(len(heirs), part, dtype=np.int64)
        portions[:rest] += 1
        self.escrow[heirs] += portions
        opening[heirs] += portions
        for heir in heirs[portions < 0]:
            _settle(self.ledger, int(heir))
        self._set_start()
        return claim

    def enter(self, nodes: Ints) -> None:
        """Centres join with nothing; one with lo > 0 collects that first."""
        self.shares[nodes] = self.escrow[nodes] = self.opening[nodes] = 0
        self.collecting[nodes] = self.ledger.low[nodes] > 0
        lo, hi = self.market.lo, self.market.hi
        self.plan.price[nodes] = self.market.cost.derivative(np.clip(np.zeros(len(lo)), lo, hi))[nodes]

    def in_flight(self, alive: Bools) -> int:
        """Units in nobody's share: on links, in escrow, or claimed from the dead by the survivors' ledgers."""
        gave, received = self.sent, self.received
        told, heard = alive[self.table.senders], alive[self.table.receivers]
        on_links = exact_sum(gave[told & heard]) - exact_sum(received[told & heard])
        of_the_dead = (
            exact_sum(self.opening[~alive]) + exact_sum(gave[told & ~heard]) - exact_sum(received[~told & heard])
        )
        return on_links + exact_sum(self.escrow[alive]) + of_the_dead

    def _set_start(self) -> None:
        """What each node's plan begins with: its opening balance, and what moved before its links were (re)opened."""
        moved = np.zeros(len(self.opening), dtype=np.int64)
        np.add.at(moved, self.owner, self.ledger.offset)
        self.plan.start[:] = self.market.grid.floats(self.opening + moved)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept = {name: getattr(self, name) for name in self.OWN} | {"messages": self.messages.view(np.int64)}
        kept |= {f"bits.{name}": array for name, array in zip(self.COUNTED, self.bits, strict=True)}
        return kept | self.plan._asdict() | self.ledger._asdict()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name, array in self.memory().items():
            array[:] = memory[name]


def first_shares(market: Market, present: Bools | None) -> tuple[Ints, Ints]:
    """The budget over those who are there, and what does not fit their boxes: in escrow at the first of them."""
    waiting = np.zeros(len(market.lo), dtype=np.int64)
    if present is None or present.all():
        return market.start(), waiting
    shares = waiting.copy()
    fits = min(market.budget, exact_sum(market.high[present]))
    shares[present] = spread(fits, market.low[present], market.high[present])
    waiting[np.flatnonzero(present)[0]] = market.budget - fits
    return shares, waiting


@kernel
def _say(
    slots: Slots,
    plan: Plan,
    ledger: Ledger,
    messages: AnyArray,
    code: tuple[int, int],
    scale: tuple[float, float],
    bits: tuple[Ints, Ints],
    tally: Ints,
) -> bool:
    """Prices and gifts of every node to each neighbour. False when the plan is out of all bounds."""
    mantissa, code_bits = code
    theta, unit = scale
    per_unit, fine = 1.0 / unit, True
    for i in range(len(plan.price)):
        wish, price = 0.0, plan.price[i]
        greeting = theta * 2.0 ** (plan.told[i] / PER_OCTAVE) * price  # over links that are not in the plan yet
        for l in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[l], slots.base[l]
            if t < 0:
                continue
            flow = plan.rho[l] * price - plan.z[l]
            q = flow + plan.rho[l] * price if plan.pair[l] != UNKNOWN else greeting
            tally[NUMBERS] += 1
            if b < 0 or mantissa == MANTISSA:
                messages[t].q = q
                messages[t].floor = 0 if mantissa == MANTISSA else _floor_of(q, mantissa)
                bits[0][l] += FLOAT_BITS
            else:
                change, floor = q - messages[b].q, messages[b].floor
                size = quantise(change, floor, mantissa)
                messages[t].q = messages[b].q + value(size, floor, mantissa, change)
                messages[t].floor = moved_floor(floor, size, mantissa)
                tally[SATURATED] += size >= largest_code(mantissa)
                tally[UNDERFLOWED] += size == 0 and change != 0.0
                bits[0][l] += code_bits
            due = flow * per_unit - (ledger.gave[l] - ledger.got[l] + ledger.offset[l])
            plan.due[l] = due
            if due >= 1.0 and slots.where[l] >= 0:
                wish += due
        spare = _spare(ledger, i)
        fine &= wish < (BIGGEST_FLOW if spare == BIGGEST_FLOW else np.inf)
        part = 0.0 if not 0.0 < wish < np.inf else min(1.0, spare / wish)
        given = 0
        for l in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[l], slots.base[l]
            if t < 0:
                continue
            if part > 0.0 and plan.due[l] >= 1.0 and slots.where[l] >= 0:
                amount = min(int(plan.due[l] * part), spare - given)
                ledger.gave[l] += amount
                given += amount
            messages[t].gave, messages[t].scale = ledger.gave[l], plan.told[i]
            same = b >= 0 and messages[b].scale == plan.told[i]
            bits[1][l] += SUM_BITS + 1 + (0 if same else SCALE_BITS)
        first = min(max(ledger.escrow[i], 0), given)  # what waits is given away first
        ledger.escrow[i] -= first
        ledger.shares[i] -= given - first
    return fine


@kernel
def _spare(ledger: Ledger, i: int) -> int:
    """Units that a node can give away."""
    if ledger.collecting[i]:
        return max(ledger.escrow[i], 0)
    if ledger.low[i] <= -NO_BOUND:
        return int(BIGGEST_FLOW)
    return max(ledger.shares[i] + ledger.escrow[i] - ledger.low[i], 0)


@kernel
def _floor_of(q: float, mantissa: int) -> int:
    row = np.empty(1)
    row[0] = q
    return first_floor(row, mantissa)


@kernel
def _hear(
    slots: Slots,
    plan: Plan,
    ledger: Ledger,
    messages: AnyArray,
    theta: float,
    relax: float,
    acting: Bools,
) -> None:
    """Take in what has arrived: what neighbours think of flows, and what they have given."""
    z, rho = plan.z, plan.rho
    for i in range(len(plan.price)):
        if not acting[i]:
            continue
        weight, level, escrow = 0.0, plan.start[i], ledger.escrow[i]
        for l in range(slots.first[i], slots.first[i + 1]):
            if slots.fresh[l]:
                heard = messages[slots.where[l]]
                escrow += heard.gave - ledger.got[l]
                ledger.got[l] = heard.gave
                pair = (plan.told[i] << 20) + heard.scale
                if plan.pair[l] != UNKNOWN:
                    z[l] += relax * (heard.q - z[l])
                elif slots.acked[l] < 0:
                    continue  # a link is in the plan once both ends have heard each other
                if plan.pair[l] != pair:
                    plan.pair[l] = pair
                    larger, smaller = max(plan.told[i], heard.scale), min(plan.told[i], heard.scale)
                    new = theta * 2.0 ** ((LARGER * larger + (1.0 - LARGER) * smaller) / PER_OCTAVE)
                    z[l] += (new - rho[l]) * plan.price[i]
                    rho[l] = new
            weight += rho[l]
            level += z[l]
        plan.weight[i], plan.level[i], ledger.escrow[i] = weight, level, escrow
        _settle(ledger, i)


@kernel
def _settle(ledger: Ledger, i: int) -> None:
    """Escrow becomes share as far as the box allows; one that collects waits until it has its lo."""
    escrow = ledger.escrow[i]
    if escrow < 0 and not ledger.collecting[i]:  # what a centre below 0 left behind is a debt, paid from above lo
        paid = min(-escrow, ledger.shares[i] - ledger.low[i]) if ledger.low[i] > -NO_BOUND else -escrow
        ledger.shares[i] -= paid
        ledger.escrow[i] += paid
    elif escrow > 0 and not (ledger.collecting[i] and escrow < ledger.low[i]):
        ledger.collecting[i] = False
        fits = min(escrow, ledger.high[i] - ledger.shares[i])
        ledger.shares[i] += fits
        ledger.escrow[i] -= fits


@kernel
def _price(plan: Plan, answer: Floats, steep: Floats, curve: Curve, follow: Following, acting: Bools) -> bool:
    """Prices anew; elasticities follow the curvature calmly. False when a price is not finite."""
    fine = True
    for i in range(len(answer)):
        if not acting[i]:
            continue
        if plan.weight[i] > 0.0:
            plan.price[i] = (plan.level[i] - answer[i]) / plan.weight[i]
            fine &= np.isfinite(plan.price[i])
        at_bound = answer[i] <= curve.lo[i] or answer[i] >= curve.hi[i]
        aim = (FULL_NODE if at_bound else 1.0) / steep[i]
        if aim == follow.settled[i]:
            continue
        off = math.log2(aim) - follow.elastic[i]
        if abs(off) < ARRIVED:
            follow.settled[i] = aim
            continue
        follow.settled[i] = 0.0
        calm = follow.calm[i]
        calm = -CALMER * calm if calm * off < 0.0 else math.copysign(min(abs(calm) * LESS_CALM, CALM), calm)
        follow.calm[i] = calm
        follow.elastic[i] += abs(calm) * off
        exact = PER_OCTAVE * (follow.elastic[i] - follow.degree[i])
        if abs(exact - plan.told[i]) > HYSTERESIS:
            plan.told[i] = round(exact)
    return fine
