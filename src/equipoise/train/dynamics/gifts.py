"""CPU over links that carry both ways and return: prices agree, and real CPU follows the plan as gifts (docs/train.md, 5).

    say    q_ij = 2 rho p_i - z_ij, and a gift: by how much the planned flow rho p_i - z_ij exceeds what has moved
    hear   z_ij += relax (q_ji - z_ij);  x + D f'(x) = level = start + sum z_ij in the box, D = sum rho;  p = (level - x) / D

This is relaxed ADMM on prices with one number per directed link. z needs no agreement of both ends, so loss only delays it.

A ledger is a running sum, sent whole: a later packet makes up for lost ones. Nothing is ever taken, only given, in whole
units: shares alone never exceed the budget, and shares + escrow + (given - received) are the budget exactly. What arrives
at a full node waits in its escrow until it fits or is given on.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.kernels import Bools, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import bits_per_number, mantissa_bits
from equipoise.train.costs._kernels import Curve, answer, curve_of, steepness
from equipoise.train.dynamics._gift_kernels import (
    CALM,
    PER_OCTAVE,
    UNKNOWN,
    Following,
    Ledger,
    Plan,
    hear,
    price,
    say,
    settle,
)
from equipoise.train.dynamics._slots import Slots
from equipoise.train.grid import exact_sum, spread
from equipoise.train.problem import Market
from equipoise.train.quantize import Quantizer
from equipoise.train.region import LinkTable, Region
from equipoise.train.spectrum import adjacency_gap

RELAX, RELAX_PER_GAP, RELAX_BOXED = 0.95, 0.7, 0.7  # .9 with boxes takes 1.7 times the rounds
FULL_NODE = 0.5  # elasticity of a node at its bound, as a part of what its curvature says; 1 where news is late
IN_TURN = 2.0  # theta is larger where graphs take turns

MESSAGE = np.dtype([("q", np.float64), ("gave", np.int64), ("scale", np.int64), ("floor", np.int64)])


class Gifts:
    """Who holds how much CPU, what is on its way, and at what price. Needs links that carry both ways and return."""

    OWN = ("opening", "answer", "elastic", "settled", "calm", "tally")  # the rest is in plan and ledger

    def __init__(
        self,
        region: Region,
        table: LinkTable,
        market: Market,
        quantizer: Quantizer,
        present: Bools | None = None,
        relax: float | None = None,
        late: bool = False,
    ) -> None:
        """`present`: nodes that are there at the start, and divide the budget. `relax`, `late`: where news is old."""
        self.region, self.table, self.market = region, table, market
        mantissa = mantissa_bits(quantizer)
        self.code = mantissa, bits_per_number(mantissa)
        nodes, slots = len(region.ids), len(region.link)
        gap = min(0.5, 0.5 * adjacency_gap(table.n, table.senders, table.receivers))
        self.theta = (1.0 if table.static else IN_TURN) / (2.0 * math.sqrt((1.0 - gap) * max(gap, 1e-12)))
        usual = RELAX_BOXED if market.boxed else RELAX - RELAX_PER_GAP * gap
        self.relax, self.full = usual if relax is None else relax, 1.0 if late else FULL_NODE
        whole = curve_of(market.cost, market.lo, market.hi, market.curvature)
        self.curve: Curve = whole._replace(
            **{name: getattr(whole, name)[region.ids] for name in ("first", "second", "lo", "hi", "flattest")}
        )
        self.owner = np.repeat(np.arange(nodes), np.diff(region.first))
        self.degree = np.log2(np.maximum(table.degree[region.ids], 1))
        held, waiting = first_shares(market, present)
        self.ledger = Ledger(
            shares=held[region.ids],
            escrow=waiting[region.ids],
            low=market.low[region.ids],
            high=market.high[region.ids],
            collecting=np.zeros(nodes, dtype=np.bool_),
            gave=np.zeros(slots, dtype=np.int64),
            got=np.zeros(slots, dtype=np.int64),
            offset=np.zeros(slots, dtype=np.int64),
        )
        self.opening = self.shares + self.escrow  # balance without any open ledger: it outlives its node
        self.plan = Plan(
            price=np.zeros(nodes),
            weight=np.zeros(nodes),
            level=np.zeros(nodes),
            start=np.zeros(nodes),
            told=np.zeros(nodes, dtype=np.int64),
            z=np.zeros(slots),
            rho=np.zeros(slots),
            pair=np.full(slots, UNKNOWN, dtype=np.int64),
            due=np.zeros(slots),
        )
        self.messages = np.zeros(region.rows, dtype=MESSAGE)
        self.answer, self.elastic, self.settled = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
        self.calm = np.full(nodes, CALM)  # its sign is that of the last change
        self.bits = region.count("prices"), region.count("ledgers")
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
        return bool(say(slots, self.plan, self.ledger, self.messages, self.code, scale, self.bits, self.tally))

    def hear(self, number: int) -> bool:
        plan = self.plan
        hear(Slots.of(self.region), plan, self.ledger, self.messages, self.theta, self.relax, self.acting)
        answer(self.market.cost, self.curve, plan.weight, plan.level, self.answer)
        steep = steepness(self.market.cost, self.curve, self.answer)
        follow = Following(self.degree, self.elastic, self.settled, self.calm)
        return bool(price(plan, self.answer, steep, self.curve, follow, self.full, self.acting))

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
            settle(self.ledger, int(heir))
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
        kept |= {"bits.prices": self.bits[0], "bits.ledgers": self.bits[1]}
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
