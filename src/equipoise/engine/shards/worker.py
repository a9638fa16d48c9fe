"""What a worker does when it is asked: play rounds with its peers, show what it has, go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from equipoise.train.arrays import AnyArray

Memory = dict[str, AnyArray]
Packets = dict[int, bytes]  # by the number of the other worker


class Halted(Exception):
    """A peer is gone, or the coordinator wants everybody to stop."""


class Post(Protocol):
    """How a worker reaches its peers."""

    def exchange(self, number: int, phase: int, packets: Packets) -> Packets:
        """Send each peer its packet, and wait for theirs of the same round and phase. Raises Halted."""
        ...

    def renew(self) -> None:
        """Nothing that was sent before counts any more."""
        ...

    @property
    def halted(self) -> bool:
        """Whether the coordinator wants everybody to stop: for those who have no peers to wait for."""
        ...


@dataclass
class Report:
    """What came of a play."""

    shard: int
    played: int = 0  # rounds that were finished
    diverged: str | None = None
    halted: bool = False
    units: list[int] = field(default_factory=list)  # that own nodes hold after each round
    outside: list[float] = field(default_factory=list)  # the farthest outside a box after each round, CPUs
    sent: list[int] = field(default_factory=list)  # bytes to other shards in each round
    beside: list[tuple[int, ...]] = field(default_factory=list)  # units in flight and owed, where packets are lost


class Worker:
    """A shard and its post."""

    def __init__(self, shard: Any, post: Post) -> None:
        self.shard, self.post = shard, post

    def play(self, begin: int, count: int) -> Report:
        """These rounds, or fewer: until one diverges or a peer is gone."""
        report = Report(self.shard.number)
        try:
            for number in range(begin, begin + count):
                if self.post.halted:
                    raise Halted
                report.sent.append(0)
                report.diverged = self._round(number, report)
                units, outside, *more = self.shard.audit()
                report.units.append(units)
                report.outside.append(outside)
                report.beside.append(tuple(more))
                report.played += 1
                if report.diverged:
                    break
        except Halted:
            report.halted = True
        return report

    def _round(self, number: int, report: Report) -> str | None:
        talk, phase = self.shard.play(number), 0
        try:
            packets = next(talk)
            while True:
                report.sent[-1] += sum(map(len, packets.values()))
                packets = talk.send(self.post.exchange(number, phase, packets))
                phase += 1
        except StopIteration as end:
            diverged: str | None = end.value
            return diverged

    def take_up(self, memory: Memory) -> None:
        """Go on from here."""
        self.shard.take_up(memory)
        self.post.renew()

    def look(self) -> Memory:
        """What changes every round."""
        found: Memory = self.shard.look()
        return found

    def memory(self) -> Memory:
        """Everything."""
        found: Memory = self.shard.memory()
        return found

    def replace(self, shard: Any) -> None:
        """Another shard in place of this one: a run goes on in another form."""
        self.shard = shard
        self.post.renew()
