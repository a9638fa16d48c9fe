"""A run on a hostile network whose rounds are played by workers, seen as one state: `train.solve` drives it like any other.

The whole run's state is kept here as a mirror. Whatever happens to centres happens in the mirror: it pulls everything, meets
the events, and pushes. A worker that dies is a crash of its nodes: the others go back to a round they all remember, and the
mirror's timetable says from then on what happened there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.engine.shards.crew import Crew
from equipoise.engine.shards.front import bytes_sent, go_back, losses_of
from equipoise.engine.shards.hostile_state import HostileShard, Memory, merge, push, sums, whole_memory, with_counts
from equipoise.engine.shards.partition import partition
from equipoise.engine.shards.region import Region, regions
from equipoise.engine.shards.worker import Report
from equipoise.errors import Failure
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import Auditor
from equipoise.train.channel import Tally
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.loss import CentresLost
from equipoise.train.hostile.state import HostileState
from equipoise.train.hostile.traffic import Traffic
from equipoise.train.links import LinkBits
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem


class ShardedHostileState(HostileState):
    """The front of a run with faults or one-way links."""

    at_once = 1 << 30  # rounds that workers play before they are looked at
    played: Callable[[list[Report]], None] = staticmethod(lambda reports: None)  # told after each play

    swift = True  # rounds are played many at a time: workers need nobody in between

    def __init__(
        self,
        crew: Crew,
        workers: int,
        problem: Problem,
        network: Network,
        method: Method,
        faults: Faults,
        **options: Any,
    ) -> None:
        self._stale = self._mourning = False  # mourning: a worker is gone, and the others are asked what they have
        super().__init__(problem, network, method, faults, **options)
        self.crew = crew
        self.shard_of = partition(network, workers)
        self.regions: dict[int, Region] = {r.shard: r for r in regions(network, self.shard_of)}
        self.wire_bytes: list[int] = []  # between shards, of each round
        self.losses: list[dict[str, Any]] = []  # workers that died
        self._at = self._even = 0  # rounds that the workers have played, and the mirror
        self._base: Memory = {}  # counts of the mirror when it last pushed
        self._counts: dict[int, Memory] = {}  # of each worker since, as it last told them
        self._last: list[Any] = []  # what each worker saw of its nodes after the last round
        crew.start([HostileShard(self, region) for region in self.regions.values()])
        after: CentresLost | None = options.get("after")
        lost = () if after is None else np.unique(self.shard_of[list(after.nodes)])
        self._living = tuple(shard for shard in self.regions if shard not in lost)  # some may have died since
        self._begin_counts()

    # rounds

    def meet(self, number: int) -> Traffic:
        if not self.timetable.at(number):
            return super().meet(number)
        self._pull()
        traffic = super().meet(number)
        self._push()
        return traffic

    def advance(self, traffic: Traffic, number: int) -> str | None:
        at, diverged = number, None
        while at <= number and diverged is None:  # some rounds are played again where a worker is lost
            if at != number:
                self.meet(at)
            played, diverged = self._play(at, number + 1 - at, None)
            at += played
        return diverged

    def hurry(self, traffic: Traffic, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds by the workers, or as many as there are before something happens; fewer than none where a worker is
        lost, and the others go back."""
        return self._play(number, count, auditor)

    def _play(self, begin: int, count: int, auditor: Auditor | None) -> tuple[int, str | None]:
        """How many rounds were played, and what diverged in the last."""
        number, end = begin, begin + count
        if not self.wire_bytes:  # a run that goes on in this form begins late
            self._at = self._even = begin
        while number < end:
            many = min(self._until(number, end) - number, self.at_once)
            reports = self.crew.ask("play", dict.fromkeys(self._living, (number, many)))
            self.played(list(reports.values()))
            gone = [shard for shard in self._living if shard not in reports]
            stopped = [] if gone else [report.played for report in reports.values() if report.diverged]
            if stopped:
                played = min(stopped)
            elif gone or any(report.halted for report in reports.values()):
                played = self._agree(gone, number) - number
            else:
                played = min(report.played for report in reports.values())
            self._note(list(reports.values()), number, played, None if gone else auditor)
            self._at = number + played
            for k in range(number, self._at):  # pairs are numbered in the order in which they meet
                self.roads.traffic(k)
                self._grow()
            if stopped:
                return self._at - begin, self._replay()
            self._stale = played > 0 or self._stale
            number = self._at
            if gone:
                self._bury(gone)
            elif number < end and self.timetable.at(number):
                break
        return number - begin, None

    def _until(self, number: int, end: int) -> int:
        """The round before which something happens, or the end."""
        return min([end, *(event.round for event in self.timetable.events if number < event.round)])

    def _note(self, reports: list[Report], begin: int, played: int, auditor: Auditor | None) -> None:
        """What workers saw of the rounds that count."""
        if played < 0:
            del self.wire_bytes[played:]
            return
        self.wire_bytes += bytes_sent(reports, played)
        diverged = any(report.diverged for report in reports)
        for k in range(min(played - diverged, *(len(report.units) for report in reports))):
            self._last = [(report.units[k], report.outside[k]) for report in reports]
            if auditor is not None:
                auditor.worst.rounds += 1
                self.audit(auditor)

    def audit(self, auditor: Auditor) -> None:
        if not self._last:
            super().audit(auditor)
            return
        worst = auditor.worst
        worst.links = self._packets + sum(packets for (_, _, packets), _ in self._last)
        if self.allocation is None:
            return
        claims = exact_sum(self.allocation.opening[~self.members.alive])
        held, flying = (sum(units[part] for units, _ in self._last) for part in (0, 1))
        self._note_worst(worst, held, flying + claims, max(debt for _, (_, debt) in self._last))
        worst.box = max(worst.box, *(outside for _, (outside, _) in self._last))

    def _replay(self) -> str | None:
        """A round in which numbers run away ends half played: the mirror plays it by itself, from where it last was even."""
        for number in range(self._even, self._at):
            diverged = super().advance(self.roads.traffic(number), number)
            if diverged:
                self._stale = False
                return diverged
        raise Failure(f"round {self._at}: workers diverged, and the same rounds in one process did not")

    # a worker is gone

    def _agree(self, gone: list[int], number: int) -> int:
        """The latest round that all others remember: they go back to it."""
        self._living = tuple(shard for shard in self._living if shard not in gone)
        return go_back(self.crew, number)

    def _bury(self, gone: list[int]) -> None:
        """The nodes of workers that are gone crash now; neighbours notice it as they would any crash."""
        nodes = np.flatnonzero(np.isin(self.shard_of, gone)).tolist()
        self.losses += losses_of(gone, self.shard_of, self.crew, self._at)
        for shard in gone:  # what they had counted stays counted
            self._base = with_counts(self._base, self._counts.pop(shard, {}))
        self._stale = self._mourning = True
        self._pull()
        self._mourning = False
        self.add_crash(nodes, self._at)
        for event in self.timetable.at(self._at):
            if event.kind in ("crash", "noticed") and event.nodes[0] in nodes and event not in self.happened:
                self._happen(event)
        self._push()

    # looking

    def _pull(self) -> None:
        """The mirror is as the workers are."""
        if not self._stale:
            return
        found = self.crew.ask("memory", dict.fromkeys(self._living, ()))
        gone = [shard for shard in self._living if shard not in found]
        if gone and not self._mourning:  # it died after its last round
            self._at = self._agree(gone, self._at)
            self._bury(gone)
            raise CentresLost(tuple(np.flatnonzero(np.isin(self.shard_of, gone))), self._at, None, None, known=True)
        self._stale = False
        merge(self, {self.regions[shard]: memory for shard, memory in found.items()}, self._base, self._at)
        self._counts.update((shard, sums(memory)) for shard, memory in found.items())
        self._even = self._at

    def _push(self) -> None:
        """Workers go on from what is here."""
        self.crew.ask("take_up", {shard: (push(self, self.regions[shard]),) for shard in self._living})
        self._stale = False
        self._begin_counts()

    def _begin_counts(self) -> None:
        self._base = sums(whole_memory(self))
        self._packets = self.mail.packets
        self._counts = {}
        self._last = []

    # what others look at

    @property
    def shares(self) -> Floats | None:
        self._pull()
        return super().shares

    @property
    def models(self) -> Floats | None:
        self._pull()
        return super().models

    @property
    def in_flight(self) -> int:
        self._pull()
        return super().in_flight

    @property
    def packets(self) -> int:
        self._pull()
        return super().packets

    @property
    def lost(self) -> int:
        self._pull()
        return super().lost

    def tracker_in_flight(self) -> Floats:
        self._pull()
        return super().tracker_in_flight()

    def tallies(self) -> dict[str, Tally]:
        self._pull()
        return super().tallies()

    def bit_parts(self) -> dict[str, int]:
        self._pull()
        return super().bit_parts()

    def link_bits(self) -> LinkBits:
        self._pull()
        return super().link_bits()

    def meters(self) -> dict[str, float]:
        self._pull()
        return super().meters()

    def memory(self) -> dict[str, AnyArray]:
        self._pull()
        return super().memory()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        super().restore(memory)
        self._at = self._even = int(memory["round"])
        self._push()
