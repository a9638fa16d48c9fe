"""A run where everything arrives, played by workers: each holds a part of the centres, and hears their neighbours.

A shard is the same halves for fewer nodes. What a half yields has been said; only rows whose neighbours live elsewhere
cross, as the codes that are counted. What comes out is the same to the bit as in one process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from equipoise.engine.shards.crew import Crew, Packets, Report
from equipoise.engine.shards.restrict import LocalSampler, local_market, partition
from equipoise.errors import Failure
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.audit import Auditor, look_at_units
from equipoise.train.codec import Tally
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics.averages import Averages, Tracked
from equipoise.train.dynamics.flows import Flows
from equipoise.train.dynamics.markets import Markets
from equipoise.train.dynamics.mixing import Mixing
from equipoise.train.dynamics.own import Dynamics
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed
from equipoise.train.exchange import LinkBits
from equipoise.train.exchange.rows import Near, Round, Said, Site
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.state import State, part_of, sent_by, voices_of
from equipoise.train.topology import Topology

NOTHING = -1  # length of a packet that neither end expects


class Boundary(NamedTuple):
    """Between a shard and a peer in one graph: nodes that the peer hears and that are heard, entries out and in."""

    told: Ints
    heard: Ints
    out: Ints
    into: Ints


def boundaries(near: Near, shard_of: Ints, number: int) -> dict[int, Boundary]:
    """Of one shard, by peer; both ends have the same order."""
    owner = np.repeat(np.arange(len(shard_of)), np.diff(near.first))
    theirs = shard_of[near.node]
    crossing = np.flatnonzero((shard_of[owner] == number) & (theirs != number))
    found = {}
    for peer in np.unique(theirs[crossing]):
        out = crossing[theirs[crossing] == peer]
        found[int(peer)] = Boundary(
            np.unique(owner[out]), np.unique(near.node[out]).astype(np.int64), out, np.sort(near.back[out])
        )
    return found


class Shard:
    """The halves of some nodes, ready for their next round."""

    def __init__(self, whole: State, number: int, shard_of: Ints) -> None:
        self.number, self.shard_of = number, shard_of
        self.nodes = nodes = np.flatnonzero(shard_of == number)
        self.site = Site(whole.network, nodes)
        self.layout = Layout(whole.table, nodes) if "links" in (whole.method.cpu, whole.method.learning) else None
        self.links = np.flatnonzero(np.isin(whole.table.senders, nodes)) if hasattr(whole, "table") else None
        self._boundaries: dict[int, dict[int, Boundary]] = {}
        period = whole.network.period
        if period is None:  # anybody may be a neighbour
            self.peers = tuple(int(k) for k in np.unique(shard_of) if k != number)
        else:
            self.peers = tuple(sorted({peer for t in range(period) for peer in self._bounds(t)}))
        self.allocation = None if whole.allocation is None else self._cut_allocation(whole)
        self.learning = None if whole.learning is None else self._cut_learning(whole)
        self.coupling = None
        if whole.coupling is not None and self.allocation is not None:
            self.coupling = copy(whole.coupling)
            cost: Any = self.allocation.market.cost
            self.coupling.cost = cost
        self.take_up(whole.memory())

    def _cut_allocation(self, whole: State) -> Prices | Markets | Flows:
        half, nodes = whole.allocation, self.nodes
        assert half is not None and whole.market is not None
        market, start = local_market(whole.market, nodes), whole.market.start()[nodes]
        if isinstance(half, Prices):
            assert self.layout is not None
            ghosts = whole.layout.row[self.layout.ghosts]
            said = np.column_stack([half.talk.elastic[0, ghosts], half.pinned[ghosts]])
            codes = whole.method.quantizer
            return Prices(self.layout, market, codes, whole.gap, start, ghosts=said, rule=half.rule)
        if isinstance(half, Markets):
            return Markets(self.site, market, whole.method.quantizer, half.inertia, start)
        return Flows(self.site, market, whole.method, half.step, start, market.curvature, whole.delay)

    def _cut_learning(self, whole: State) -> Summed | Averages | Mixing | Dynamics:
        half, nodes = whole.learning, self.nodes
        assert half is not None
        sampler, first = LocalSampler(half.sampler, nodes), half.models[nodes]
        if isinstance(half, Dynamics):
            own = type(half)(whole.table, nodes, sampler, whole.method, half.L, first)
            return own.over_rows(self.site)
        if isinstance(half, Summed):
            assert self.layout is not None
            return Summed(self.layout, sampler, whole.method.quantizer, half.L, half.theta, first, half.pace)
        if isinstance(half, Averages):
            return Averages(self.site, sampler, whole.method, first, (half.alpha, half.momentum), half.calm)
        return Mixing(self.site, sampler, whole.method, first, (half.step, half.alpha), half.calm)

    # a round

    def _bounds(self, number: int) -> dict[int, Boundary]:
        t = number if self.site.network.period is None else self.site.turn(number)
        if t not in self._boundaries:
            if self.site.network.period is None:
                self._boundaries.clear()
            self._boundaries[t] = boundaries(self.site.near(number), self.shard_of, self.number)
        return self._boundaries[t]

    def play(self, number: int) -> Generator[Packets, Packets, str | None]:
        """One round of both halves; the name of what diverged here, or None."""
        names = {"shares": self.allocation, "models": self.learning}
        halves = {name: half for name, half in names.items() if half is not None}
        if self.coupling is not None and self.learning is not None:
            assert self.allocation is not None
            shares = self.allocation.market.grid.floats(self.allocation.units)
            self.coupling.before(shares, self.learning.sampler, number)
        fine = yield from self._in_step({name: half.play(number) for name, half in halves.items()}, number)
        if self.coupling is not None and self.learning is not None:
            self.coupling.after(self.learning.sampler)
        return next((name for name, well in fine.items() if not well), None)

    def _in_step(self, rounds: dict[str, Round], number: int) -> Generator[Packets, Packets, dict[str, bool]]:
        """All halves say something; it is handed over; all go on."""
        fine: dict[str, bool] = {}
        while len(fine) < len(rounds):
            said: list[Said] = []
            for name, talk in rounds.items():
                if name not in fine:
                    try:
                        said += next(talk)
                    except StopIteration as end:
                        fine[name] = bool(end.value)
            packets = {}
            for peer, bound in self._bounds(number).items():
                parts = [one.pack(number, bound.told, bound.out) for one in said]
                if any(part is not None for part in parts):
                    packets[peer] = joined(parts)
            came = (yield packets) if packets else {}
            for peer, packet in came.items():
                bound = self._bounds(number)[peer]
                for one, part in zip(said, parted(packet, len(said)), strict=True):
                    if part is not None:
                        one.unpack(number, bound.heard, bound.into, part)
        return fine

    # what the coordinator looks at

    def audit(self) -> tuple[int, float]:
        """Units that own nodes hold, and the farthest outside a box, CPUs."""
        if self.allocation is None:
            return 0, 0.0
        half, seen = self.allocation, np.zeros(2, dtype=np.int64)
        units, market = half.units, half.market
        look_at_units(units, market.low, market.high, 0, seen)
        return int(units.sum()), float(seen[1]) * market.grid.unit

    def look(self) -> dict[str, AnyArray]:
        """What a row of history needs, by node; and sums."""
        found: dict[str, AnyArray] = {}
        for name, half in (("prices", self.allocation), ("models", self.learning)):
            if half is not None:
                found[f"sum/{name}"] = np.array(sent_by(half))
        for name, voice in voices_of(self.allocation, self.learning).items():
            found[f"sum/tally/{name}"] = voice.tally
        if self.allocation is not None:
            found["units"] = self.allocation.units
        if self.learning is not None:
            found["models"] = self.learning.models
            sampler = self.learning.sampler
            if isinstance(self.learning, Tracked):
                found["trackers"] = self.learning.trackers
            if sampler.batch is not None and sampler.spread is not None:
                found |= {"sum/samples": np.array(sampler.samples), "batch": sampler.batch, "spread": sampler.spread}
        if self.coupling is not None:
            found |= {f"coupling/{name}": array for name, array in self.coupling.cost.memory().items()}
        return found

    def memory(self) -> dict[str, AnyArray]:
        """Own nodes' part of a checkpoint."""
        halves = {"cpu": self.allocation, "model": self.learning}
        return {
            f"{name}/{part}": array
            for name, half in halves.items()
            if half is not None
            for part, array in half.memory().items()
        }

    def take_up(self, memory: dict[str, AnyArray]) -> None:
        """Go on from a checkpoint of the whole network. Samples and tallies are counted from here on."""
        for name, half in {"cpu": self.allocation, "model": self.learning}.items():
            if half is not None:
                half.restore(part_of(memory, name))
        for voice in voices_of(self.allocation, self.learning).values():
            voice.tally[:] = 0
        if self.learning is not None and self.learning.sampler.batch is not None:
            sampler = self.learning.sampler
            sampler.samples = 0
            if "sampler/batch" in memory:
                sampler.batch = memory["sampler/batch"][self.nodes].copy()
        if self.coupling is not None:
            kept = part_of(memory, "coupling")
            self.coupling.cost.restore({name: kept[name][self.nodes].copy() for name in self.coupling.cost.memory()})


def joined(parts: list[bytes | None]) -> bytes:
    """Packets of several streams as one: their lengths, then themselves."""
    lengths = [NOTHING if part is None else len(part) for part in parts]
    return struct.pack(f"<{len(parts)}i", *lengths) + b"".join(part or b"" for part in parts)


def parted(packet: bytes, count: int) -> list[bytes | None]:
    """The same streams again."""
    at, found = 4 * count, []
    for length in struct.unpack_from(f"<{count}i", packet):
        found.append(None if length == NOTHING else packet[at : at + length])
        at += max(length, 0)
    return found


class Front:
    """What the fronts of runs that workers play have in common."""

    swift, here = True, False  # workers need nobody in between
    at_once = 1 << 30  # rounds that they play before they are looked at
    played: Callable[[list[Report]], None] = staticmethod(lambda reports: None)  # told after each play

    def __init__(self, crew: Crew, workers: int, network: Network) -> None:
        self.crew, self.shard_of = crew, partition(network, workers)
        self.wire_bytes: list[int] = []  # between shards, of each round
        self.losses: list[dict[str, Any]] = []

    def ask(
        self, what: str, number: int, arguments: dict[int, tuple[Any, ...]] | tuple[Any, ...] = ()
    ) -> dict[int, Any]:
        """All workers' answers, by shard. One that is gone ends the run, by name; a checkpoint can be gone on from."""
        given = arguments if isinstance(arguments, dict) else dict.fromkeys(self.crew.living, arguments)
        answers = self.crew.ask(what, given)
        for shard in range(int(self.shard_of.max()) + 1):
            if shard not in self.crew.living:
                nodes, process = np.flatnonzero(self.shard_of == shard), self.crew.process_of(shard)
                self.losses.append({"worker": shard, "process": process, "round": number, "centres": nodes})
                named = ", ".join(map(str, nodes[:6])) + (", ..." if len(nodes) > 6 else "")
                raise Failure(
                    f"round {number}: worker {shard} (process {process}) died with centres {named}; "
                    "go on from a checkpoint with --resume, or without one start anew"
                )
        return answers

    def note_bytes(self, reports: list[Report], rounds: int) -> None:
        """Between workers in each of these rounds."""
        self.wire_bytes += [sum(report.sent[k] for report in reports if k < len(report.sent)) for k in range(rounds)]


class Sharded(Front, State):
    """The front of a run whose rounds workers play. Its own halves are brought up to date when somebody looks."""

    def __init__(
        self, crew: Crew, workers: int, problem: Problem, network: Network, method: Method, **options: Any
    ) -> None:
        self._at, self._fresh, self._recipe = 0, True, (problem, network, method, options)
        State.__init__(self, problem, network, method, **options)
        self._origin: tuple[int, dict[str, AnyArray]] = (0, {})  # the round that workers began with, and what they knew
        Front.__init__(self, crew, workers, network)
        self._reports: list[Report] = []
        self._seen: dict[int, dict[str, AnyArray]] = {}
        self._note_counts()
        self.shards = {k: Shard(self, k, self.shard_of) for k in range(workers)}
        crew.start(list(self.shards.values()))

    # rounds

    def advance(self, graph: Topology, number: int) -> str | None:
        return self._play(number, 1)[1]

    def hurry(self, graph: Topology, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds by the workers: how many were played, and what diverged in the last."""
        done, diverged = 0, None
        while done < count and diverged is None:
            played, diverged = self._play(number + done, min(count - done, self.at_once))
            self._audit(auditor, played - (diverged is not None))
            for k in range(done, done + played - (diverged is not None)):
                auditor.watch_links(self.network.topology(number + k))
            done += played
        return done, diverged

    def audit(self, auditor: Auditor) -> None:
        if self._reports:
            self._audit(auditor, min(len(report.units) for report in self._reports))
        else:
            super().audit(auditor)

    def _audit(self, auditor: Auditor, rounds: int) -> None:
        """Shares of every round, as each worker saw its own: sums of whole units."""
        if self.market is None:
            return
        for k in range(min(rounds, *(len(report.units) for report in self._reports))):
            off = abs(sum(report.units[k] for report in self._reports) - self.budget) * self.market.grid.unit
            auditor.worst.budget = max(auditor.worst.budget, off)
            auditor.worst.box = max(auditor.worst.box, *(report.outside[k] for report in self._reports))

    def _play(self, number: int, count: int) -> tuple[int, str | None]:
        reports = self.ask("play", number, (number, count))
        self._reports, self._fresh, self._seen = list(reports.values()), False, {}
        played = max(report.played for report in self._reports)
        stopped = [report for report in self._reports if report.diverged]
        if stopped:
            played = min(report.played for report in stopped)
        self._at = number + played
        self.played(self._reports)
        if self.coupling is not None:
            for _ in range(played):
                self.spend()
        self.note_bytes(self._reports, played)
        return played, self._replay(number + played) if stopped else None

    def _replay(self, end: int) -> str | None:
        """A round in which numbers run away ends in the middle, and not everywhere at once: it is played again here, in one
        process, from where the workers began."""
        problem, network, method, options = self._recipe
        alone, diverged, (begin, memory) = State(problem, network, method, **options), None, self._origin
        if memory:
            alone.restore(memory)
        for number in range(begin, end):
            diverged = alone.advance(alone.meet(number), number)
        self.coupling, self.allocation, self.learning = alone.coupling, alone.allocation, alone.learning
        self._fresh, self._seen = True, {}
        return diverged

    # looking

    def _look(self) -> dict[str, AnyArray]:
        """What workers show, by node or summed; trackers, batches and a moving cost are noted in the halves here."""
        if self._seen:
            return self._seen[0]
        answers: dict[int, dict[str, AnyArray]] = self.ask("look", self._at)
        whole: dict[str, AnyArray] = {}
        for name, first in next(iter(answers.values())).items():
            if name.startswith("sum/"):
                whole[name] = np.sum([seen[name] for seen in answers.values()], axis=0)
                continue
            whole[name] = np.zeros((self.network.n, *first.shape[1:]), dtype=first.dtype)
            for shard, seen in answers.items():
                whole[name][self.shards[shard].nodes] = seen[name]
        self._seen = {0: whole}
        learning = self.learning
        for name, voice in voices_of(self.allocation, learning).items():
            voice.tally[:] = self._tallies[name] + whole[f"sum/tally/{name}"]
        if learning is not None:
            if isinstance(learning, Tracked):
                learning.models[:], learning.trackers[:] = whole["models"], whole["trackers"]
            if "batch" in whole:
                sampler = learning.sampler
                sampler.batch, sampler.spread = whole["batch"], whole["spread"]
                sampler.samples = self._samples + int(whole["sum/samples"])
                sampler.drawn_last(self._at)
        if self.coupling is not None:
            self.coupling.cost.restore(part_of(whole, "coupling"))
        return whole

    @property
    def shares(self) -> Floats | None:
        if self._fresh or self.market is None:
            return super().shares
        return self.market.grid.floats(self._look()["units"])

    @property
    def models(self) -> Floats | None:
        if self._fresh or self.learning is None:
            return super().models
        return self._look()["models"]

    def meters(self) -> dict[str, float]:
        if not self._fresh:
            self._look()
        return super().meters()

    def tallies(self) -> dict[str, Tally]:
        if not self._fresh:
            self._look()
        return super().tallies()

    def bit_parts(self) -> dict[str, int]:
        if self._fresh:
            return super().bit_parts()
        seen = self._look()
        return {name: int(seen[f"sum/{name}"]) for name in self._halves} | {"overhead": self.overhead.total}

    def link_bits(self) -> LinkBits:
        self._pull()
        return super().link_bits()

    def memory(self) -> dict[str, AnyArray]:
        self._pull()
        return super().memory()

    def _pull(self) -> None:
        """Everything the workers have, into the halves here."""
        if self._fresh:
            return
        self._look()
        answers = self.ask("memory", self._at)
        whole: dict[str, AnyArray] = super().memory()
        pairs: dict[str, list[AnyArray]] = {}
        for shard, memory in answers.items():
            part = self.shards[shard]
            for name, array in memory.items():
                kind = name.split("/")[1]
                if kind == "link":
                    whole[name][part.links] = array
                elif kind in ("node", "said"):
                    whole[name][_at(name, part.nodes)] = array
                elif kind == "pairs":
                    pairs.setdefault(name, []).append(array)
                else:
                    whole[name] = array
        super().restore(whole | {name: np.concatenate(arrays) for name, arrays in pairs.items()})
        self._fresh = True

    def restore(self, memory: dict[str, AnyArray]) -> None:
        super().restore(memory)
        self._at = int(memory["round"])
        self._push()

    def rebudget(self, budget: float, graph: Topology) -> None:
        self._pull()
        super().rebudget(budget, graph)
        self._push()

    def _note_counts(self) -> None:
        """Counts as they are when the workers begin theirs at 0."""
        self._samples = 0 if self.learning is None else self.learning.sampler.samples
        self._tallies = {name: v.tally.copy() for name, v in voices_of(self.allocation, self.learning).items()}

    def _push(self) -> None:
        """Workers go on from what is here."""
        self._note_counts()
        memory = {name: array.copy() for name, array in super().memory().items()}
        self.ask("take_up", self._at, (memory,))
        self._reports, self._seen, self._fresh, self._origin = [], {}, True, (self._at, memory)


def _at(name: str, nodes: Ints) -> tuple[Any, ...]:
    """Where a part's nodes are in the whole: along the last axis, or the one before the columns of models."""
    columns = name.startswith("model/") and not name.endswith("floors")
    return (..., nodes, slice(None)) if columns else (..., nodes)
