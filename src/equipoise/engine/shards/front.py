"""A run whose rounds are played by workers, seen as one state: `train.solve` drives it like any other.

The whole run's state is kept here as a mirror. Workers hold the truth; the mirror is brought up to date when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from equipoise.engine.shards.crew import Crew
from equipoise.engine.shards.layout import LAYOUT, NODE, local_pairs, paste, places
from equipoise.engine.shards.partition import partition
from equipoise.engine.shards.region import Region, regions
from equipoise.engine.shards.shard import Shard, cut_memory
from equipoise.engine.shards.worker import Report
from equipoise.errors import Failure
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.audit import Auditor
from equipoise.train.channel import Tally
from equipoise.train.links import LinkBits, Pairs, Round
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.state import State


class ShardedState(State):
    """The front of a run without faults."""

    at_once = 1 << 30  # rounds that workers play before they are looked at
    played: Callable[[list[Report]], None] = staticmethod(lambda reports: None)  # told after each play

    swift = True  # rounds are played many at a time: workers need nobody in between

    def __init__(
        self, crew: Crew, workers: int, problem: Problem, network: Network, method: Method, **options: Any
    ) -> None:
        super().__init__(problem, network, method, **options)
        self.crew, self._recipe = crew, (problem, network, method, options)
        self._origin: tuple[int, dict[str, AnyArray]] = 0, {}
        self.shard_of = partition(network, workers)
        self.regions: dict[int, Region] = {r.shard: r for r in regions(network, self.shard_of)}
        self.wire_bytes: list[int] = []  # between shards, of each round
        self.losses: list[dict[str, Any]] = []  # workers that died
        self._reports: list[Report] = []
        self._stale = self._stale_all = False
        self._sums: dict[str, AnyArray] = {}
        self._bits: dict[str, int] = {}
        self._drawn: dict[int, int] = {}  # samples of each worker since it began
        self._at = 0
        self.make_room()
        crew.start([Shard(self, region) for region in self.regions.values()])
        self._note_sums()

    # rounds

    def advance(self, round: Round, number: int) -> str | None:
        return self._play(number, 1)[1]

    def hurry(self, round: Round, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds by the workers: how many were played, and what diverged in the last."""
        done, diverged = 0, None
        while done < count and diverged is None:
            played, diverged = self._play(number + done, min(count - done, self.at_once))
            self._audit(auditor, diverged)
            for k in range(done, done + played - (diverged is not None)):
                auditor.watch_links((round if k == 0 else self.meet(number + k)).topology)
            done += played
        return done, diverged

    def audit(self, auditor: Auditor) -> None:
        if self._reports:
            self._audit(auditor, None)
        else:
            super().audit(auditor)

    def _play(self, number: int, count: int) -> tuple[int, str | None]:
        reports = self.crew.ask("play", dict.fromkeys(self.crew.living, (number, count)))
        if len(self.crew.living) < len(self.regions):
            self._give_up(number)
        self._reports = list(reports.values())
        self._stale = self._stale_all = True
        self._at = number + max(report.played for report in self._reports)
        self.played(self._reports)
        played = max(report.played for report in self._reports)
        stopped = [report for report in self._reports if report.diverged]
        if stopped:
            played = min(report.played for report in stopped)
        self.wire_bytes += bytes_sent(self._reports, played)
        if self.coupling is not None and self.market is not None:
            for _ in range(played):
                self.coupling.cpu_seconds += self.coupling.cost.tau * (self.budget * self.market.grid.unit)
        return played, self._replay(number + played) if stopped else None

    def _replay(self, end: int) -> str | None:
        """A round in which numbers run away ends in the middle, and not everywhere at once: it is played again here, in one
        process, from where the workers began."""
        problem, network, method, options = self._recipe
        alone = State(problem, network, method, **options)
        begin, memory = self._origin
        if memory:
            alone.restore(memory)
        for number in range(begin, end):
            diverged = alone.advance(alone.meet(number), number)
            if diverged:
                break
        self.links, self.overhead, self.coupling = alone.links, alone.overhead, alone.coupling
        self.allocation, self.learning = alone.allocation, alone.learning
        self._stale, self._stale_all, self._bits = False, False, {}
        return diverged

    def _give_up(self, begin: int) -> NoReturn:
        """A worker is gone, and its centres with it: the run ends by name; its checkpoint does not."""
        gone = next(shard for shard in self.regions if shard not in self.crew.living)
        raise lost_worker(self.crew, gone, np.flatnonzero(self.shard_of == gone), begin)

    def _audit(self, auditor: Auditor, diverged: str | None) -> None:
        """Shares of every round, as each worker saw its own: sums of whole units."""
        if self.market is None:
            return
        unit, rounds = self.market.grid.unit, min(len(report.units) for report in self._reports)
        for k in range(rounds - (diverged is not None)):
            off = abs(sum(report.units[k] for report in self._reports) - self.budget) * unit
            auditor.worst.budget = max(auditor.worst.budget, off)
            auditor.worst.box = max(auditor.worst.box, *(report.outside[k] for report in self._reports))

    # looking

    def _look(self) -> None:
        """What changes every round."""
        if not self._stale:
            return
        answers = self.crew.ask("look", dict.fromkeys(self.crew.living, ()))
        if len(answers) < len(self.regions):
            self._give_up(self._at)
        self._stale = False
        self._bits = {}
        whole = self._arrays()
        for shard, (seen, bits) in answers.items():
            region = self.regions[shard]
            at = region.nodes[region.own]
            for name, rows in seen.items():
                if name == "sampler/samples":
                    self._drawn[shard] = int(rows)  # of one who died since, what it last told
                elif LAYOUT[name] == NODE:
                    whole[name][at] = rows
            for name, count in bits.items():
                self._bits[name] = self._bits.get(name, 0) + count
        if self.learning is not None:
            sampler = self.learning.sampler
            sampler.samples = int(self._sums["sampler/samples"]) + sum(self._drawn.values())
            if sampler.batch is not None:
                sampler.drawn_last(self._at)
        if self.coupling is not None:
            self.coupling.cost.restore({name: whole[f"coupling/{name}"] for name in ("sum", "weight", "peak", "sigma")})

    def _arrays(self) -> dict[str, AnyArray]:
        """The mirror's own arrays by name, to be written into."""
        found = State.memory(self)
        sampler = None if self.learning is None else self.learning.sampler
        if sampler is not None and sampler.batch is not None:
            if sampler.spread is None:
                sampler.spread = np.full(len(sampler.batch), np.nan)
            found |= {"sampler/spread": sampler.spread, "sampler/batch": sampler.batch}
        return found

    def _pull(self, *, all_of_it: bool = False) -> None:
        """Everything. Who dies after the last look takes its counts along, unless all is needed."""
        self._look()
        if not self._stale_all:
            return
        whole = self._arrays()
        for name, before in self._sums.items():
            if name != "sampler/samples":
                whole[name][:] = before
        answers = self.crew.ask("memory", dict.fromkeys(self.crew.living, ()))
        if all_of_it and len(answers) < len(self.regions):
            self._give_up(self._at)
        self._stale_all = False
        for shard, memory in answers.items():
            region = self.regions[shard]
            local = Pairs(len(region))
            local.restore({"keys": memory["links/keys"], "ids": memory["links/ids"]})
            where = places(region, local, self.links.numbering, self.links.per_link)
            for name, part in memory.items():
                axis = LAYOUT.get(name)
                if axis is not None and axis.kind == "sum" and name != "sampler/samples":
                    whole[name] += part
                elif axis is not None and axis.kind not in ("sum", "same"):
                    paste(whole[name], part, axis, where)

    def _push(self) -> None:
        """Workers go on from what is here."""
        parts = {}
        for shard in self.crew.living:
            region = self.regions[shard]
            local = local_pairs(region, self.links.numbering)
            where = places(region, local, self.links.numbering, self.links.per_link)
            kept = {f"links/{name}": array for name, array in local.memory().items()}
            parts[shard] = (cut_memory(self, where) | kept,)
        self.crew.ask("take_up", parts)
        self._stale = self._stale_all = False
        self._reports = []  # of another budget
        self._origin = self._at, {name: array.copy() for name, array in State.memory(self).items()}
        self._note_sums()

    def _note_sums(self) -> None:
        """Counts as they were when the workers began theirs at 0."""
        self._sums = {
            name: array.copy()
            for name, array in self._arrays().items()
            if name in LAYOUT and LAYOUT[name].kind == "sum"
        }
        self._bits, self._drawn = {}, {}

    # what others look at

    @property
    def shares(self) -> Floats | None:
        if getattr(self, "_stale", False):
            self._look()
        return super().shares

    @property
    def models(self) -> Floats | None:
        if getattr(self, "_stale", False):
            self._look()
        return super().models

    def bit_parts(self) -> dict[str, int]:
        self._look()
        if not self._bits:
            return super().bit_parts()
        parts: dict[str, int] = {}
        for half, name in (("cpu/", "prices"), ("model/", "models")):
            streams = [bits for stream, bits in self._bits.items() if stream.startswith(half)]
            parts |= {name: sum(streams)} if streams else {}
        return parts | {"overhead": super().bit_parts()["overhead"]}

    def tallies(self) -> dict[str, Tally]:
        self._pull()
        return super().tallies()

    def link_bits(self) -> LinkBits:
        self._pull()
        return super().link_bits()

    def meters(self) -> dict[str, float]:
        self._look()
        return super().meters()

    def memory(self) -> dict[str, AnyArray]:
        self._pull(all_of_it=True)
        return super().memory()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        super().restore(memory)
        self._at = int(memory["round"])
        self._push()

    def rebudget(self, budget: float, round: Round) -> None:
        self._pull(all_of_it=True)
        super().rebudget(budget, round)
        self._push()


def lost_worker(crew: Crew, shard: int, nodes: Ints, number: int) -> Failure:
    """Who died, with whom, and the way to go on."""
    named = ", ".join(map(str, nodes[:6])) + (", ..." if len(nodes) > 6 else "")
    return Failure(
        f"round {number}: worker {shard} (process {crew.process_of(shard)}) died with centres {named}; "
        "go on from a checkpoint with --resume, or without one start anew"
    )


def bytes_sent(reports: list[Report], rounds: int) -> list[int]:
    """Of all workers together in each round."""
    return [sum(report.sent[k] for report in reports if k < len(report.sent)) for k in range(rounds)]
