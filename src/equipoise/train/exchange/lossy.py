"""Packets are lost, late, repeated and overtaken.

The message table has a row for each of the last packets of every link. A packet names the one it builds on, always one
that its receiver is known to hold; where none is recent enough its numbers are sent as they are. Packets on the way back
carry acknowledgements. Draws depend on (seed, round, sender, receiver) alone: every engine sees the same losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Bools, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.exchange import Half
from equipoise.train.hostile.faults import Faults, finite_loss
from equipoise.train.hostile.membership import Membership
from equipoise.train.region import LinkTable, Region

LOSS, WAIT, WEATHER, FIRST_WEATHER, AGAIN = 1, 2, 3, 4, 5  # what a draw is for
HOP, COPY = 8, 1 << 20  # added to it for each further link that a packet passes, and for its second copy
HEADER_BITS = 48  # 16 each: a packet's own number, that of the one it builds on, and of the newest one received
LEAST_WINDOW = 8  # packets that both ends remember
NEVER = -1


class Weather(NamedTuple):
    """What befalls packets: Gilbert-Elliott losses, copies and delays."""

    seed: int
    enter: float
    leave: float
    good: float
    bad: float
    again: float
    delay: int
    jitter: bool


class Fates(NamedTuple):
    """Per slot: packets so far, the newest one received, whether its weather is bad; per packet of the window (and copy):
    the round in which it arrives, and what it acknowledges."""

    sent: Ints
    newest: Ints
    bad: Bools
    met: Bools
    due: Ints
    ack: Ints


class Lossy:
    """All nodes in one process, on a network that loses and delays.

    `kept` holds the links that both ends count on, `acting` the nodes that act in this round: whoever knows of crashes and
    splits sets them. `hops` holds how many links a packet passes, 0 where it never arrives, and `rounds` how many it takes.
    """

    def __init__(self, table: LinkTable, faults: Faults, copies: float = 0.0, longest: int | None = None) -> None:
        """`copies`: the chance that a packet comes twice. `longest`: rounds after which it never comes."""
        self.table, self.longest = table, faults.delay if longest is None else longest
        self.window = LEAST_WINDOW * (1 + self.longest // 2)  # a few round trips: one of them is acknowledged
        # Where nothing is lost or late a sender knows of every packet, and one-way links need that.
        self._certain = faults.lossless and self.longest == 0 and not faults.straggle
        bursts, slots = finite_loss(faults.loss), len(table)
        self.region = Region.cut(table, np.arange(table.n), self.window)
        self.region.where[:] = NEVER
        self.region.fresh[:] = False
        self._waiting = self.region.rows  # where packets wait for a node that does not act, one row per slot
        self.region.rows += slots if faults.straggle else 0
        self._weather = Weather(
            int(faults.seed), bursts.enter, bursts.leave, bursts.good, bursts.bad, copies, faults.delay, faults.jitter
        )
        self._fates = Fates(
            np.zeros(slots, dtype=np.int64),
            np.full(slots, NEVER, dtype=np.int64),
            np.zeros(slots, dtype=np.bool_),
            np.zeros(slots, dtype=np.bool_),
            np.full((2 if copies else 1, self.window, slots), NEVER, dtype=np.int64),
            np.full((self.window, slots), NEVER, dtype=np.int64),
        )
        self.kept = np.ones(slots, dtype=np.bool_)
        self.hops, self.rounds = np.ones(slots, dtype=np.int64), np.ones(slots, dtype=np.int64)
        self.halves: list[Half] = []
        self.acting = self._acted = np.ones(table.n, dtype=np.bool_)
        self.headers = self.region.count("headers")
        self.packets = self.lost = 0

    too_far = False  # whether a packet may take longer than anybody waits for it

    @property
    def newest(self) -> Ints:
        """The number of the newest packet that each slot's owner has received over the way back."""
        return self._fates.newest

    def open(self, number: int) -> None:
        region, turn = self.region, self.table.turn(number)
        going = turn & self.kept & self.acting[self.table.senders]
        _open(self.window, going, self._fates.sent, region.acked, region.base, region.target)

    def move(self, number: int, halves: Sequence[Half]) -> None:
        region, table, fates = self.region, self.table, self._fates
        ways = table.senders, table.receivers, self.hops, self.rounds
        self.lost += _send(
            number, table.turn(number), region.target, ways, self.longest, self._weather, fates, self.headers
        )
        self.packets += int(np.count_nonzero(region.target >= 0))
        region.fresh &= ~self._acted[table.senders]  # what was not heard yet waits
        _deliver(number, self.longest, table.back, region.target, fates, region.acked, region.where, region.fresh)
        if self._certain:
            region.acked[region.target >= 0] = fates.sent[region.target >= 0] - 1
        self._acted = self.acting
        late = np.flatnonzero(region.fresh & ~self.acting[table.senders])
        if len(late):
            for half in halves:
                half.keep(region.where[late], self._waiting + late)
            region.where[late] = self._waiting + late

    def reach(self, members: Membership) -> None:
        """Which packets can arrive, now that these are there."""
        self.hops = members.passes(self.table.senders, self.table.receivers).astype(np.int64)

    def drop(self, links: Bools) -> None:
        """Packets on their way over these links are lost."""
        self._fates.due[:, :, links] = NEVER

    def forget(self, links: Bools) -> None:
        """Links that close or start anew: nothing said over them counts any more. Both ways must be given."""
        self.drop(links)
        for array in (self._fates.newest, self.region.acked, self.region.where):
            array[links] = NEVER
        self.region.fresh[links] = False

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return self._arrays() | {"acted": self._acted, "counts": np.array([self.packets, self.lost])}

    def _arrays(self) -> dict[str, AnyArray]:
        region = self.region
        slots = {"acked": region.acked, "where": region.where, "fresh": region.fresh, "headers": self.headers}
        return self._fates._asdict() | slots

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name, array in self._arrays().items():
            array[:] = memory[name]
        self._acted = memory["acted"]
        self.packets, self.lost = map(int, memory["counts"])


@kernel
def draw(seed: int, number: int, sender: int, receiver: int, use: int) -> float:
    """Uniform in [0, 1), from its arguments alone (splitmix64, thrice)."""
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(use)
    for part in (np.uint64(number), np.uint64(sender), np.uint64(receiver)):
        state = (state ^ part) * np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(30)
        state = state * np.uint64(0x94D049BB133111EB) + np.uint64(0x9E3779B97F4A7C15)
        state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return float(state >> np.uint64(11)) * 2.0**-53


@kernel
def _open(window: int, going: Bools, count: Ints, acked: Ints, base: Ints, target: Ints) -> None:
    """Rows of a link are its number plus a multiple of the number of links, in turn."""
    slots = len(going)
    for e in range(slots):
        target[e] = (count[e] % window) * slots + e if going[e] else -1
        base[e] = (acked[e] % window) * slots + e if acked[e] >= 0 and count[e] - acked[e] < window else -1


@kernel
def _send(
    number: int,
    turn: Bools,
    target: Ints,
    ways: tuple[Ints, Ints, Ints, Ints],
    longest: int,
    weather: Weather,
    fates: Fates,
    headers: Ints,
) -> int:
    """The fate of every packet of this round; how many are lost."""
    senders, receivers, hops, rounds = ways
    window, lost = fates.ack.shape[0], 0
    for e in range(len(target)):
        if not turn[e]:
            continue
        i, j = senders[e], receivers[e]
        if weather.enter > 0.0:
            if not fates.met[e]:
                fates.met[e] = True
                odds = weather.enter / (weather.enter + weather.leave)
                fates.bad[e] = draw(weather.seed, number, i, j, FIRST_WEATHER) < odds
            else:
                chance = draw(weather.seed, number, i, j, WEATHER)
                fates.bad[e] = chance >= weather.leave if fates.bad[e] else chance < weather.enter
        if target[e] < 0:
            continue
        row = fates.sent[e] % window
        fates.sent[e] += 1
        fates.ack[row, e] = fates.newest[e]
        headers[e] += HEADER_BITS
        first = number - 1 + rounds[e]
        arrives = _arrival(number, first, i, j, weather, fates.bad[e], hops[e], 0)
        fates.due[0, row, e] = arrives if arrives - number <= longest else NEVER
        lost += fates.due[0, row, e] == NEVER
        if fates.due.shape[0] > 1:
            again = hops[e] if draw(weather.seed, number, i, j, AGAIN) < weather.again else 0
            fates.due[1, row, e] = _arrival(number, first, i, j, weather, fates.bad[e], again, COPY)
    return lost


@kernel
def _arrival(number: int, first: int, i: int, j: int, weather: Weather, bad: bool, hops: int, copy: int) -> int:
    """The round in which a packet arrives that can do so in round `first`; every link it passes can lose or delay it."""
    chance, arrives = weather.bad if bad else weather.good, first
    for hop in range(hops):
        use = copy + HOP * hop
        if chance > 0.0 and draw(weather.seed, number, i, j, LOSS + use) < chance:
            return NEVER
        if weather.jitter and weather.delay > 0:
            arrives += int(draw(weather.seed, number, i, j, WAIT + use) * (weather.delay + 1))
        else:
            arrives += weather.delay
    return arrives if hops > 0 else NEVER


@kernel
def _deliver(
    number: int, longest: int, back: Ints, target: Ints, fates: Fates, acked: Ints, where: Ints, fresh: Bools
) -> None:
    """Packets that arrive in this round; one that was overtaken is dropped, but what it acknowledges counts."""
    window, slots = fates.ack.shape[0], len(back)
    for e in range(slots):
        last = fates.sent[e] - 1
        if longest == 0 and target[e] < 0:
            continue
        for packet in range(max(0, last - longest), last + 1):
            row = packet % window
            for copy in range(fates.due.shape[0]):
                if fates.due[copy, row, e] == number:
                    r = back[e]
                    acked[r] = max(acked[r], fates.ack[row, e])
                    if packet > fates.newest[r]:
                        fates.newest[r], where[r], fresh[r] = packet, row * slots + e, True
