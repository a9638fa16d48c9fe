"""Packets: which are lost, how long each takes, which is the newest that has arrived, and which the sender knows of.

A packet's sequence number is the round in which it was sent. Draws depend on (seed, round, sender, receiver) alone.
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.hostile.faults import Faults, finite_loss
from equipoise.train.hostile.traffic import Traffic, widened

LOSS, WAIT, WEATHER, FIRST_WEATHER = 1, 2, 3, 4  # what a draw is for
LEAST_WINDOW = 8  # packets that a sender remembers until one of them is acknowledged
SEQUENCE_BITS = 48  # 16 each: a packet's own number, that of the one it builds on, and of the newest one received
NEVER = -1


class Mail:
    """The packets of one kind of traffic. `two_way`: packets on the way back carry acknowledgements."""

    def __init__(self, faults: Faults, *, two_way: bool, hops: int = 1, rounds: int = 1) -> None:
        self.faults, self.two_way = faults, two_way
        self.ids: Ints | None = (
            None  # of the nodes in the whole network, where only some are here: draws are keyed by them
        )
        self.bursts = finite_loss(faults.loss)
        self.longest = int(faults.delay) * hops + rounds - 1  # rounds until a packet has arrived or never will
        self.window = max(LEAST_WINDOW, 2 ** int(np.ceil(np.log2(2 * (self.longest + 1) + 2))))
        self.latest = np.empty(0, dtype=np.int64)  # newest packet that the receiver holds
        self.acked = np.empty(0, dtype=np.int64)  # newest packet that the sender knows to be there
        self.fresh = np.empty(0, dtype=np.bool_)  # whether one newer than all before arrived in this round
        self.bad = np.empty(0, dtype=np.bool_)  # weather of a link with bursts
        self.met = np.empty(0, dtype=np.bool_)
        self.due = np.empty((self.window, 0), dtype=np.int64)  # round in which the packet of this slot arrives
        self.number = np.empty((self.window, 0), dtype=np.int64)  # and its number
        self.ack = np.empty((self.window, 0), dtype=np.int64)  # and what it acknowledges
        self.packets = 0  # handed to the network
        self.links_to_pass = 0  # by all of them together
        self.lost = 0

    KEPT = ("latest", "acked", "fresh", "bad", "met", "due", "number", "ack")

    def grow(self, links: int) -> None:
        """Room for pairs that have just met."""
        old = len(self.latest)
        if links > old:
            room = links if not old else max(links, 2 * old)
            for name in self.KEPT:
                setattr(self, name, widened(getattr(self, name), room))
            for array in (self.latest, self.acked, self.due, self.number, self.ack):
                array[..., old:] = NEVER

    def post(self, traffic: Traffic, number: int, going: AnyArray, hops: Ints, rounds: Ints) -> None:
        """Entries that are `going` hand a packet over; whatever arrives in this round is there afterwards.

        `hops` holds for each link how many links a packet passes, 0 where it never gets there; `rounds` how many it takes.
        """
        self.send(traffic, number, going, hops, rounds)
        self.deliver(traffic, number, going)

    def send(
        self, traffic: Traffic, number: int, going: AnyArray, hops: Ints, rounds: Ints, counted: AnyArray | None = None
    ) -> None:
        """The fate of this round's packets. `counted`: the entries that are counted here, where others count the rest."""
        bursts = self.bursts
        order, link, senders, receivers = traffic.by_link
        going = going[order]
        if self.ids is not None:
            senders, receivers = self.ids[senders], self.ids[receivers]
        lost = _post(
            senders,
            receivers,
            link,
            going,
            hops,
            rounds,
            number,
            int(self.faults.seed),
            bursts.enter,
            bursts.leave,
            bursts.good,
            bursts.bad,
            int(self.faults.delay),
            self.longest,
            self.faults.jitter,
            self.bad,
            self.met,
            self.due,
            self.number,
            self.ack,
            self.latest,
        )
        if counted is not None:
            going = going & counted[order]
            lost = int((self.due[number % self.window, link[going]] == NEVER).sum())
        self.lost += lost
        self.packets += int(going.sum())
        self.links_to_pass += int(np.maximum(hops[link[going]], 1).sum())

    def deliver(self, traffic: Traffic, number: int, going: AnyArray) -> None:
        """Packets that arrive in this round, of this one and of those before."""
        order, link, _, _ = traffic.by_link
        going = going[order]
        if self.longest == 0:
            _deliver_at_once(link, going, number, self.due, self.ack, self.latest, self.acked, self.fresh)
        else:
            _deliver(number, self.longest, self.due, self.number, self.ack, self.latest, self.acked, self.fresh)
        if not self.two_way and self.faults.lossless:  # every packet gets there: no acknowledgement is needed
            _acknowledge(number, self.longest, self.number, self.acked)

    def forget(self, links: Ints) -> None:
        """Links whose one end is gone: nothing of them counts any more."""
        for array in (self.latest, self.acked, self.due, self.number, self.ack):
            array[..., links] = NEVER

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {name: getattr(self, name) for name in self.KEPT} | {
            "counts": np.array([self.packets, self.lost, self.links_to_pass])
        }

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name in self.KEPT:
            setattr(self, name, memory[name])
        self.packets, self.lost, self.links_to_pass = map(int, memory["counts"])


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
def _post(
    senders: Ints,
    receivers: Ints,
    link: Ints,
    going: AnyArray,
    hops: Ints,
    rounds: Ints,
    number: int,
    seed: int,
    enter: float,
    leave: float,
    good_loss: float,
    bad_loss: float,
    delay: int,
    longest: int,
    jitter: bool,
    bad: AnyArray,
    met: AnyArray,
    due: Ints,
    numbers: Ints,
    ack: Ints,
    latest: Ints,
) -> int:
    """The fate of every packet of this round; how many are lost."""
    window, lost = due.shape[0], 0
    slot = number % window
    for e in range(len(link)):
        i, j, way = senders[e], receivers[e], link[e]
        if enter > 0.0:
            if not met[way]:
                met[way] = True
                bad[way] = draw(seed, number, i, j, FIRST_WEATHER) < enter / (enter + leave)
            else:
                turn = draw(seed, number, i, j, WEATHER)
                bad[way] = turn >= leave if bad[way] else turn < enter
        if not going[e]:
            continue
        numbers[slot, way], ack[slot, way], due[slot, way] = number, latest[way ^ 1], NEVER
        chance = bad_loss if bad[way] else good_loss
        there, at = hops[way] > 0, number - 1 + rounds[way]
        for hop in range(hops[way]):
            if chance > 0.0 and draw(seed, number, i, j, LOSS + 8 * hop) < chance:
                there = False
                break
            wait = int(draw(seed, number, i, j, WAIT + 8 * hop) * (delay + 1)) if jitter and delay > 0 else delay
            at += wait
        if there and at - number <= longest:
            due[slot, way] = at
        else:
            lost += 1
    return lost


@kernel
def _deliver_at_once(
    link: Ints, going: AnyArray, number: int, due: Ints, ack: Ints, latest: Ints, acked: Ints, fresh: AnyArray
) -> None:
    """Where nothing takes longer than a round only this round's packets can arrive."""
    fresh[:] = False
    slot = number % due.shape[0]
    for e in range(len(link)):
        way = link[e]
        if going[e] and due[slot, way] == number:
            latest[way], fresh[way] = number, True
            acked[way ^ 1] = max(acked[way ^ 1], ack[slot, way])


@kernel
def _deliver(
    number: int, longest: int, due: Ints, numbers: Ints, ack: Ints, latest: Ints, acked: Ints, fresh: AnyArray
) -> None:
    """Packets that arrive in this round; one that was overtaken is dropped, but what it acknowledges counts."""
    window = due.shape[0]
    for way in range(len(latest)):
        fresh[way] = False
        for sent in range(max(0, number - longest), number + 1):
            slot = sent % window
            if numbers[slot, way] == sent and due[slot, way] == number:
                acked[way ^ 1] = max(acked[way ^ 1], ack[slot, way])
                if sent > latest[way]:
                    latest[way], fresh[way] = sent, True


@kernel
def _acknowledge(number: int, longest: int, numbers: Ints, acked: Ints) -> None:
    """Where nothing is lost, a sender knows of every packet that has had its time."""
    window = numbers.shape[0]
    for way in range(len(acked)):
        for sent in range(number - longest, max(-1, number - window), -1):
            if numbers[sent % window, way] == sent:
                acked[way] = sent
                break
