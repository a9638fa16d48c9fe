"""The CPU half on a hostile network: whoever has CPU that is worth more elsewhere gives it, one way, and keeps the books.

Every link has two running sums: what its sender has given and what its receiver has credited. The difference is in flight.
A packet carries the whole sum, so a later one makes up for all that were lost before. Nothing is ever taken, only given:
shares alone never exceed the budget, and shares + in flight are the budget exactly, in whole grid units.

What arrives at a full node waits there in escrow, priced, until it fits or is given on (docs/train.md, 5).
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import bits_float, float_bits, kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs._base import second
from equipoise.train.grid import NO_BOUND, exact_sum, spread
from equipoise.train.hostile.mail import NEVER, SEQUENCE_BITS, Mail
from equipoise.train.hostile.post import Post
from equipoise.train.hostile.traffic import Traffic, widened
from equipoise.train.limiter import BIGGEST_FLOW
from equipoise.train.method import Method
from equipoise.train.problem import Market

SUM_BITS = 64  # a running sum; every packet has two, of what its sender has given over the link and credited from it
SCALE_BITS = 16  # degree x curvature, rounded up to an eighth of an octave
EIGHTHS = np.array([2.0 ** (k / 8.0) for k in range(8)])  # of an octave
MANTISSA = 52  # bits of a float below its exponent
STEP = 0.8  # of the difference in price that a link evens out in a round
PATIENCE = 0.3  # kappa: how fast the price of a full (empty) node follows what it cannot place (give); 1 oscillates
UNWOUND = 0.3  # of such a price, at most, where the curvature was larger when it arose than it is now
FLATTEST = 1e-3  # of a node's largest curvature: the least that counts


class Ledger:
    """Who holds how much CPU, what is on its way, and what a marginal unit is worth where."""

    def __init__(self, market: Market, method: Method, mail: Mail, present: AnyArray) -> None:
        self.open(market, method, mail, STEP / method.sector)
        fits = min(market.budget, exact_sum(market.high[present]))
        self.shares[present] = spread(fits, market.low[present], market.high[present])
        self.escrow[np.flatnonzero(present)[0]] = market.budget - fits
        self.opening = self.shares + self.escrow

    def open(self, market: Market, method: Method, mail: Mail, step: float) -> None:
        """Empty books."""
        self.market, self.method, self.mail = market, method, mail
        nodes = len(market.lo)
        self.step = step
        self.shares = np.zeros(nodes, dtype=np.int64)  # units
        self.escrow = np.zeros(nodes, dtype=np.int64)  # units that wait at a node, in nobody's share
        self.collecting = np.zeros(nodes, dtype=np.bool_)  # has joined, and holds less than its lo as yet
        self.excess = np.zeros(nodes)  # nu - omega: what a full (empty) node's price is above (below) its cost's
        self.opening = np.zeros(nodes, dtype=np.int64)  # balance without any open ledger: it outlives its node
        self.prices = np.zeros((nodes, 1))
        self.scale = np.ones(nodes)
        self.pushed = np.zeros(nodes, dtype=np.int64)  # units given in this round ...
        self.wished, self.part = (
            np.zeros(nodes),
            np.zeros(nodes),
        )  # ... those wished for, and how much of them there was
        self.sent = np.empty(0, dtype=np.int64)  # per link, by its sender
        self.got = np.empty(0, dtype=np.int64)  # per link, by its receiver
        self.seen = np.empty(0, dtype=np.int64)  # of what was sent, when the price was made that the sender holds
        self.worth = np.empty(0)  # degree x curvature of the sender, as the receiver holds it
        window = mail.window
        self.sent_in = np.empty((window, 0), dtype=np.int64)  # each as told in the last packets
        self.got_in = np.empty((window, 0), dtype=np.int64)
        self.worth_in = np.empty((window, 0))
        self.post = Post(method.quantizer, 1, 0, window)
        self.amount_bits = np.empty(0, dtype=np.int64)
        self._nothing = np.empty((0, 0))
        self.times = np.empty(0, dtype=np.int64)  # links that a packet passes

    KEPT = ("sent", "got", "seen", "worth", "sent_in", "got_in", "worth_in", "amount_bits")
    OWN: tuple[str, ...] = ("shares", "escrow", "collecting", "excess", "opening")

    def grow(self, links: int) -> None:
        """Room for pairs that have just met."""
        old = len(self.sent)
        if links > old:
            room = links if not old else max(links, 2 * old)
            for name in self.KEPT:
                setattr(self, name, widened(getattr(self, name), room))
            self._nothing = np.empty((room, 0))
            self.times = np.ones(room, dtype=np.int64)
            self.post.grow(room)

    def begin_with(self, units: Ints) -> None:
        """Shares as they are, instead of equal ones."""
        self.shares[:], self.escrow[:] = units, 0
        self.opening[:] = units

    def in_flight(self, senders: Ints, receivers: Ints, alive: AnyArray) -> int:
        """Units in nobody's share: on links, in escrow, or claimed from the dead by the survivors' books."""
        sent, got = self.sent[: len(senders)], self.got[: len(senders)]
        told, heard = alive[senders], alive[receivers]
        on_links = exact_sum(sent[told & heard]) - exact_sum(got[told & heard])
        of_the_dead = exact_sum(self.opening[~alive]) + exact_sum(sent[told & ~heard]) - exact_sum(got[~told & heard])
        return on_links + exact_sum(self.escrow[alive]) + of_the_dead

    def give(self, traffic: Traffic, number: int, acting: AnyArray, going: AnyArray, open_: AnyArray) -> bool:
        """Everybody who acts gives to those who need it more, and says so. False when a number no longer fits the grid."""
        market, grid = self.market, self.market.grid
        lo, hi = market.lo, market.hi
        x = np.clip(grid.floats(self.shares), lo, hi)
        slope = second(market.cost, x, lo, hi)
        curvature = np.maximum(slope, FLATTEST * market.curvature)
        held = grid.floats(self.escrow)
        held[self.collecting] -= np.where(np.isfinite(lo), lo, 0.0)[self.collecting]
        prices = market.cost.derivative(x) + self.excess + curvature * held
        if not np.isfinite(prices[acting]).all():
            return False
        self.scale = _told(np.maximum(traffic.degree, 1) * curvature)
        order, link, senders, _ = traffic.by_link
        wishes = np.empty(len(link))
        _wish(
            link,
            senders,
            open_[order],
            acting,
            prices,
            self.scale,
            self.post.held,
            self.worth,
            self.mail.latest,
            self.seen,
            self.step,
            grid.unit,
            self.sent,
            wishes,
            self.wished,
        )
        fine = _give(
            link,
            senders,
            acting,
            wishes,
            self.wished,
            market.low,
            self.collecting,
            self.shares,
            self.escrow,
            self.sent,
            self.pushed,
            self.part,
        )
        _settle_prices(
            acting,
            self.wished,
            self.pushed,
            curvature,
            market.curvature,
            PATIENCE * grid.unit,
            market.low,
            market.high,
            self.collecting,
            self.shares,
            self.escrow,
            self.excess,
        )
        self.prices[:, 0] = prices - curvature * grid.floats(self.pushed)  # what giving will have done to it
        _write(
            senders,
            link,
            going[order],
            number,
            self.sent,
            self.got,
            self.scale,
            self.sent_in,
            self.got_in,
            self.worth_in,
        )
        used = traffic.link[going]
        self.amount_bits[used] += (2 * SUM_BITS + SCALE_BITS + SEQUENCE_BITS) * self.times[used]
        self.post.say(traffic, number, going, self.mail, self.prices, self._nothing, self.times)
        return bool(fine)

    def take(self, owners: Ints, acting: AnyArray) -> bool:
        """After delivery: credit what has arrived, as far as it fits; `owners` names each link's receiver."""
        self.post.hear(self.mail)
        _read(self.mail.fresh, self.mail.latest, self.sent_in, self.got_in, self.worth_in, self.seen, self.worth)
        _credit(self.mail.fresh, self.mail.latest, self.sent_in, owners, self.got, self.escrow)
        _settle(self.market.low, self.market.high, acting, self.collecting, self.shares, self.escrow, self.excess)
        return True

    def close(self, gone: Ints, heirs: Ints, senders: Ints, receivers: Ints, present: AnyArray) -> int:
        """Centres are gone: what the survivors' ledgers say they held goes into the escrow of their heirs; units moved.

        A survivor folds (received - sent) of every link with them into its opening balance. One that leaves also settles its
        links with the dead, by its own books.
        """
        is_gone = np.zeros(len(self.shares), dtype=np.bool_)
        is_gone[gone] = True
        to_gone, from_gone = np.flatnonzero(is_gone[receivers]), np.flatnonzero(is_gone[senders])
        outer_to = to_gone[present[senders[to_gone]]]
        outer_from = from_gone[present[receivers[from_gone]]]
        claim = exact_sum(self.opening[gone]) + int(self.sent[outer_to].sum()) - int(self.got[outer_from].sum())
        inner_to = to_gone[~present[senders[to_gone]] & ~is_gone[senders[to_gone]]]
        inner_from = from_gone[~present[receivers[from_gone]] & ~is_gone[receivers[from_gone]]]
        claim += int(self.got[inner_to].sum()) - int(self.sent[inner_from].sum())
        np.subtract.at(self.opening, senders[inner_to], self.got[inner_to])
        np.add.at(self.opening, receivers[inner_from], self.sent[inner_from])
        np.subtract.at(self.opening, senders[outer_to], self.sent[outer_to])
        np.add.at(self.opening, receivers[outer_from], self.got[outer_from])
        for links in (to_gone, from_gone):
            for name in ("sent", "got", "seen", "sent_in", "got_in"):
                getattr(self, name)[..., links] = 0
        self.shares[gone] = self.escrow[gone] = self.opening[gone] = 0
        self.excess[gone], self.collecting[gone] = 0.0, False
        part, rest = divmod(claim, len(heirs))
        portions = np.full(len(heirs), part, dtype=np.int64)
        portions[:rest] += 1
        self.escrow[heirs] += portions
        self.opening[heirs] += portions
        return claim

    def enter(self, nodes: Ints) -> None:
        """Centres join with nothing; one with lo > 0 collects that first."""
        self.shares[nodes] = self.escrow[nodes] = self.opening[nodes] = 0
        self.excess[nodes] = 0.0
        self.collecting[nodes] = self.market.low[nodes] > 0

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in (*self.OWN, *self.KEPT)}
        return own | {f"post.{name}": array for name, array in self.post.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.post.restore({k.removeprefix("post."): v for k, v in memory.items() if k.startswith("post.")})
        for name in (*self.OWN, *self.KEPT):
            setattr(self, name, memory[name])
        self._nothing = np.empty((len(self.sent), 0))
        self.times = np.ones(len(self.sent), dtype=np.int64)


@kernel
def scale_code(scale: float) -> int:
    """The least eighth of an octave that is no smaller than a scale > 0, in fewer than SCALE_BITS bits."""
    bits = float_bits(scale)
    exponent = bits >> MANTISSA
    size = bits_float(bits - ((exponent - 1023) << MANTISSA))  # from 1 to 2
    part = 0
    while part < 8 and EIGHTHS[part] < size:
        part += 1
    return int(8 * exponent + part)


@kernel
def scale_of(code: int) -> float:
    """What a code stands for."""
    return float(bits_float(float_bits(EIGHTHS[code & 7]) + (((code >> 3) - 1023) << MANTISSA)))


@kernel
def _told(scale: Floats) -> Floats:
    """Rounded up to an eighth of an octave, as it is sent."""
    told = np.empty(len(scale))
    for i in range(len(scale)):
        told[i] = scale_of(scale_code(scale[i]))
    return told


@kernel
def _wish(
    link: Ints,
    senders: Ints,
    counts: AnyArray,
    acting: AnyArray,
    prices: Floats,
    scale: Floats,
    heard: Floats,
    worth: Floats,
    latest: Ints,
    seen: Ints,
    step: float,
    unit: float,
    sent: Ints,
    wishes: Floats,
    wished: Floats,
) -> None:
    """i would give j step (phi_i - phi_j) / max(d_i a_i, d_j a_j), where phi_j is what j said, raised by what it has not yet
    seen of i's gifts as if all its neighbours had given as much: so gifts stop before they are too many, whatever the delay.
    """
    wished[:] = 0.0
    for e in range(len(link)):
        i, way = senders[e], link[e]
        back = way ^ 1
        wishes[e] = 0.0
        if counts[e] and acting[i] and latest[back] != NEVER:
            rival = heard[back, 0] + worth[back] * ((sent[way] - seen[way]) * unit)
            wishes[e] = max(0.0, step * (prices[i] - rival) / max(scale[i], worth[back]) / unit)
            wished[i] += wishes[e]


@kernel
def _give(
    link: Ints,
    senders: Ints,
    acting: AnyArray,
    wishes: Floats,
    wished: Floats,
    low: Ints,
    collecting: AnyArray,
    shares: Ints,
    escrow: Ints,
    sent: Ints,
    pushed: Ints,
    part: Floats,
) -> bool:
    """Gifts as wished, cut to what each has: escrow goes first, then what a share has above lo."""
    fine = True
    for i in range(len(shares)):
        pushed[i], part[i] = 0, 0.0
        if not wished[i] < BIGGEST_FLOW:
            fine &= wished[i] < np.inf
            wished[i] = BIGGEST_FLOW if wished[i] == wished[i] else 0.0
        if wished[i] > 0.0:
            part[i] = min(1.0, _spare(i, low, collecting, shares, escrow) / wished[i])
    for e in range(len(link)):
        i = senders[e]
        if part[i] > 0.0 and wishes[e] > 0.0:
            amount = int(min(wishes[e], BIGGEST_FLOW) * part[i])
            amount = min(amount, _spare(i, low, collecting, shares, escrow) - pushed[i])
            sent[link[e]] += amount
            pushed[i] += amount
    for i in range(len(shares)):
        from_escrow = min(max(escrow[i], 0), pushed[i])
        escrow[i] -= from_escrow
        shares[i] -= pushed[i] - from_escrow
    return fine


@kernel
def _spare(i: int, low: Ints, collecting: AnyArray, shares: Ints, escrow: Ints) -> int:
    """Units that a node can give away."""
    if collecting[i]:
        return int(escrow[i])
    room = shares[i] - low[i] if low[i] > -NO_BOUND else int(BIGGEST_FLOW)
    return int(escrow[i] + room)


@kernel
def _settle_prices(
    acting: AnyArray,
    wished: Floats,
    pushed: Ints,
    curvature: Floats,
    steepest: Floats,
    patience: float,
    low: Ints,
    high: Ints,
    collecting: AnyArray,
    shares: Ints,
    escrow: Ints,
    excess: Floats,
) -> None:
    """A full node's price rises while escrow waits, an empty one's falls while it should give more than it has."""
    for i in range(len(shares)):
        if not acting[i]:
            continue
        rate, undo = patience * curvature[i], patience * steepest[i]  # the curvature may have been larger before
        above, below = max(0.0, excess[i]), max(0.0, -excess[i])
        if collecting[i]:
            below += rate * max(0, low[i] - escrow[i])
        else:
            if high[i] < NO_BOUND:
                above = max(0.0, above + rate * (escrow[i] - (high[i] - shares[i])))
            if low[i] > -NO_BOUND:
                free = shares[i] - low[i]
                below += rate * max(0.0, wished[i] - pushed[i])
                below = max(0.0, below - min(undo * free, max(UNWOUND * below, rate * free)))
        excess[i] = above - below


@kernel
def _write(
    senders: Ints,
    link: Ints,
    going: AnyArray,
    number: int,
    sent: Ints,
    got: Ints,
    scale: Floats,
    sent_in: Ints,
    got_in: Ints,
    worth_in: Floats,
) -> None:
    """Running sums and scales into this round's packets."""
    slot = number % sent_in.shape[0]
    for e in range(len(link)):
        if going[e]:
            way = link[e]
            sent_in[slot, way], got_in[slot, way], worth_in[slot, way] = sent[way], got[way ^ 1], scale[senders[e]]


@kernel
def _read(
    fresh: AnyArray, latest: Ints, sent_in: Ints, got_in: Ints, worth_in: Floats, seen: Ints, worth: Floats
) -> None:
    """What the newest packets say of their sender."""
    window = sent_in.shape[0]
    for way in range(len(fresh)):
        if fresh[way]:
            slot = latest[way] % window
            seen[way ^ 1], worth[way] = got_in[slot, way], worth_in[slot, way]


@kernel
def _credit(fresh: AnyArray, latest: Ints, sent_in: Ints, owners: Ints, got: Ints, escrow: Ints) -> None:
    """Received sum - credited sum is new."""
    window = sent_in.shape[0]
    for way in range(len(owners)):
        if fresh[way]:
            total = sent_in[latest[way] % window, way]
            if total > got[way]:
                escrow[owners[way]] += total - got[way]
                got[way] = total


@kernel
def _settle(
    low: Ints, high: Ints, acting: AnyArray, collecting: AnyArray, shares: Ints, escrow: Ints, excess: Floats
) -> None:
    """Escrow becomes share as far as the box allows; one that collects waits until it has its lo, and then forgets the
    price that brought it."""
    for i in range(len(shares)):
        if (
            escrow[i] < 0 and not collecting[i]
        ):  # what a centre below 0 left behind is a debt, paid out of what is above lo
            paid = min(-escrow[i], shares[i] - low[i]) if low[i] > -NO_BOUND else -escrow[i]
            shares[i] -= paid
            escrow[i] += paid
        if escrow[i] <= 0 or not acting[i]:
            continue
        if collecting[i]:
            if escrow[i] < low[i]:
                continue
            collecting[i], excess[i] = False, 0.0
        fits = min(escrow[i], high[i] - shares[i])
        shares[i] += fits
        escrow[i] -= fits
