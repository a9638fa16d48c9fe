"""Loss, delay and one-way links, played by workers: each holds a part of the centres, and hears what is said to them.

What befalls a packet follows from seeds alone, so every worker draws the fate of all packets, as one process does. Its
halves say and hear for its own centres; rows of their message tables that lead to another worker's centres are sent there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.engine.sharded import Front
from equipoise.engine.shards.crew import Crew, Packets, Report
from equipoise.engine.shards.restrict import LocalSampler, local_market
from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.audit import Auditor
from equipoise.train.coupling import CouplingLink
from equipoise.train.dynamics.gifts import Gifts
from equipoise.train.dynamics.links import Links
from equipoise.train.dynamics.own import Dynamics
from equipoise.train.dynamics.pushed import Pushed
from equipoise.train.dynamics.tracking import Tracking
from equipoise.train.exchange import Half
from equipoise.train.exchange.lossy import Lossy
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.state import HostileState
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.region import Region
from equipoise.train.state import part_of

Memory = dict[str, AnyArray]
HEARD = ("messages", "said")  # tables whose rows a receiver reads; only its sender needs the rest of a message
ROWS = (*HEARD, "floors")
PER_SLOT = (
    *("z", "rho", "pair", "due", "gave", "got", "offset", "bits.prices", "bits.ledgers"),
    *("bits", "given", "taken", "heard", "met"),
)
LOOKED_AT = (  # of halves, for a row of history
    *("shares", "escrow", "gave", "got", "bits.prices", "bits.ledgers", "tally"),
    *("models", "yz", "given", "taken", "bits"),
)
FATES = ("due", "ack")  # of packets
SUMS = ("tally", "samples")  # over workers
ALIKE = ("acted", "counts", "passed")  # of an exchange, what is not per link: the same at every worker


class Sharded:
    """The exchange of a whole network as some of its nodes see it. `region` has their links, and a message table for these
    and for the links that lead here from elsewhere; row w of link l is row w of the whole's table, at another place."""

    def __init__(self, whole: Lossy, shard: int, shard_of: Ints) -> None:
        kept: dict[int, Any] = {id(whole.halves): [], id(whole.table): whole.table}
        self.whole, table = deepcopy(whole, kept), whole.table
        self.region = region = Region.cut(table, np.flatnonzero(shard_of == shard))
        self.links = region.link
        near = np.concatenate([region.link, table.back[region.link[region.outside]]])
        self._slots, self._near = len(table), len(near)
        self._place = np.full(len(table), -1)
        self._place[near] = np.arange(len(near))
        region.rows = whole.window * len(near)
        ends = shard_of[table.receivers[region.link]]
        self.told = {int(peer): region.link[ends == peer] for peer in np.unique(ends) if peer != shard}
        self.heard = {peer: np.sort(table.back[links]) for peer, links in self.told.items()}
        times = np.arange(whole.window)[:, None]
        self.table_rows = (times * len(table) + near).ravel()  # of the whole's table, those that stand here
        self.own_rows = (times * len(near) + np.arange(len(region.link))).ravel()  # here, those of own links

    def open(self, number: int) -> None:
        self.whole.open(number)
        whole, region = self.whole.region, self.region
        region.base, region.target = self._here(whole.base[self.links]), self._here(whole.target[self.links])

    def say(self, peer: int, halves: Sequence[Half]) -> bytes:
        """What own nodes have said to a peer's."""
        rows = self._written(self.told[peer])
        return b"".join(table[rows].tobytes() for table in _tables(halves))

    def take(self, peer: int, halves: Sequence[Half], packet: bytes) -> bytes:
        """What a peer's nodes have said, into the same rows; the rest of its packet."""
        rows = self._written(self.heard[peer])
        for table in _tables(halves):
            came, packet = packet[: len(rows) * table[:1].nbytes], packet[len(rows) * table[:1].nbytes :]
            table[rows] = np.frombuffer(came, dtype=table.dtype).reshape(len(rows), *table.shape[1:])
        return packet

    def move(self, number: int, halves: Sequence[Half]) -> None:
        for name, bits in self.region.bits.items():
            self.whole.region.bits[name][self.links] = bits
        self.whole.move(number, ())
        self.look_up()

    def look_up(self) -> None:
        """What has arrived, as the whole knows it."""
        whole, region, links = self.whole.region, self.region, self.links
        region.where, region.fresh = self._here(whole.where[links]), whole.fresh[links]
        region.acked = whole.acked[links]

    def _written(self, links: Ints) -> Ints:
        """Rows that are written in this round over these links."""
        target = self.whole.region.target[links]
        return self._here(target[target >= 0])

    def _here(self, rows: Ints) -> Ints:
        """Rows of the whole's message table as numbers of those that stand here."""
        return np.where(rows < 0, -1, rows // self._slots * self._near + self._place[rows % self._slots])


def _tables(halves: Sequence[Any]) -> list[AnyArray]:
    return [getattr(half, name) for half in halves for name in HEARD if hasattr(half, name)]


class LossyPart:
    """The nodes of one shard, and where what they know stands in arrays of the whole network."""

    def __init__(self, shard: int, shard_of: Ints, exchanges: list[Sharded]) -> None:
        self.link_arrays: tuple[str, ...] = ()  # of a user's dynamics
        self.shard, self.nodes, self.n = shard, np.flatnonzero(shard_of == shard), len(shard_of)
        self.peers = tuple(sorted({peer for exchange in exchanges for peer in exchange.told}))
        of = {f"exchange{k}": exchange for k, exchange in enumerate(exchanges)}
        of |= {"model": exchanges[0], "cpu": exchanges[-1]}
        self._links = {part: exchange.links for part, exchange in of.items()}
        self._rows = {part: (exchange.table_rows, exchange.own_rows) for part, exchange in of.items()}
        self._length = {part: exchange.whole.region.rows for part, exchange in of.items()}

    def __len__(self) -> int:
        return len(self.nodes)

    def cut(self, memory: Memory) -> Memory:
        """This shard's part of a checkpoint of the whole."""
        return {each: self._cut(each, whole) for each, whole in memory.items()}

    def _cut(self, each: str, whole: AnyArray) -> AnyArray:
        part, name = each.split("/")
        if name in SUMS:  # the first goes on counting from here, the others from 0
            return whole if self.shard == 0 else np.zeros_like(whole)
        if part not in ("cpu", "model", "sampler", "coupling") or whole.ndim == 0:
            return whole
        if name in ROWS:
            here, _ = self._rows[part]
            return np.reshape(whole.reshape(self._length[part], -1, *whole.shape[1:])[here], (-1, *whole.shape[1:]))
        return np.asarray(whole[self._at(part, name)])

    def paste(self, whole: Memory, memory: Memory) -> None:
        """What this shard knows, into a checkpoint of the whole."""
        for each, mine in memory.items():
            part, name = each.split("/")
            if name in SUMS:
                whole[each] = whole[each] + mine
            elif mine.ndim == 0 or (part in self._links and name in ALIKE):
                whole[each] = mine
            elif part.startswith("exchange"):
                whole[each][..., self._links[part]] = mine[..., self._links[part]]
            elif name in ROWS:
                here, own = self._rows[part]
                rows = mine.reshape(len(here), -1, *mine.shape[1:])
                whole[each].reshape(self._length[part], -1, *mine.shape[1:])[here[own]] = rows[own]
            else:
                whole[each][self._at(part, name)] = mine

    def _at(self, part: str, name: str) -> tuple[Any, ...]:
        """The entries of this shard's links, or of its nodes."""
        if part in ("cpu", "model") and (name in PER_SLOT or (part == "model" and name in self.link_arrays)):
            return (self._links[part],)
        return (..., self.nodes) if name == "weights" else (self.nodes,)


class LossyShard:
    """The halves of some nodes, ready for their next round."""

    def __init__(self, state: HostileState, shard: int, shard_of: Ints) -> None:
        self.exchanges = [Sharded(exchange, shard, shard_of) for exchange in state.exchanges]
        self.part = part = LossyPart(shard, shard_of, self.exchanges)
        self.number, self.peers = shard, part.peers
        self.allocation: Gifts | Pushed | None = None
        self.learning: Links | Tracking | Dynamics | None = None
        self.coupling: CouplingLink | None = None
        if isinstance(state.learning, Dynamics):
            part.link_arrays = ("told", *state.learning.link_arrays)
        if state.allocation is not None:
            self.allocation = _cut_allocation(state, state.allocation, self.exchanges[-1].region, part)
        if state.learning is not None:
            self.learning = _cut_learning(state, state.learning, self.exchanges[0].region, part)
        if state.coupling is not None and self.allocation is not None:
            self.coupling = copy(state.coupling)
            cost: Any = self.allocation.market.cost
            self.coupling.cost = cost
        self.halves: list[list[Any]] = [[] for _ in self.exchanges]  # of each exchange
        if self.allocation is not None:
            self.halves[-1].append(self.allocation)
        if self.learning is not None:
            self.halves[0].append(self.learning)
        self.take_up(part.cut(HostileState.memory(state)))

    def play(self, number: int) -> Generator[Packets, Packets, str | None]:
        """One round of both halves; the name of what diverged here, or None."""
        cpu, learning, both = self.allocation, self.learning, list(zip(self.exchanges, self.halves, strict=True))
        if self.coupling is not None and learning is not None and cpu is not None:
            self.coupling.before(cpu.market.grid.floats(cpu.shares), learning.sampler, number)
        for exchange in self.exchanges:
            exchange.open(number)
        fine = [cpu is None or cpu.say(number), learning is None or learning.say(number)]
        came = yield {
            peer: b"".join(exchange.say(peer, halves) for exchange, halves in both if peer in exchange.told)
            for peer in self.peers
        }
        for exchange, halves in both:
            for peer in exchange.told:
                came[peer] = exchange.take(peer, halves, came[peer])
            if halves:
                exchange.move(number, halves)
        if all(fine):
            fine = [cpu is None or cpu.hear(number), learning is None or learning.hear(number)]
        if self.coupling is not None and learning is not None:
            self.coupling.after(learning.sampler)
        return None if all(fine) else "models" if fine[0] else "shares"

    # what the coordinator looks at

    def audit(self) -> tuple[int, float, int, int]:
        """Of own nodes: units held, the farthest outside a box in CPUs, units on their links and in escrow, and the most
        that one of them owes."""
        cpu = self.allocation
        if cpu is None:
            return 0, 0.0, 0, 0
        x, market = cpu.market.grid.floats(cpu.shares), cpu.market
        outside = float(np.maximum(market.lo - x, x - market.hi).max(initial=0.0))
        flying = 0
        if isinstance(cpu, Gifts):  # over all nodes: given and not received
            flying = exact_sum(cpu.ledger.gave) - exact_sum(cpu.ledger.got) + exact_sum(cpu.escrow)
        return exact_sum(cpu.shares), outside, flying, -int(cpu.escrow.min())

    def look(self) -> Memory:
        """What a row of history needs."""
        return {name: array for name, array in self.memory().items() if _looked_at(*name.split("/"))}

    def memory(self) -> Memory:
        """Own nodes' part of a checkpoint."""
        found = {
            f"{part}/{name}": array for part, kept in self._parts().items() for name, array in kept.memory().items()
        }
        found.pop("coupling/cpu_seconds", None)  # spent by all
        if self.learning is not None and self.learning.sampler.spread is not None:
            found["sampler/spread"] = self.learning.sampler.spread
        return found

    def take_up(self, memory: Memory) -> None:
        """Go on from this shard's part of a checkpoint."""
        for name, part in self._parts().items():
            part.restore(part_of(memory, name))
        for exchange in self.exchanges:
            exchange.look_up()

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {f"exchange{k}": exchange.whole for k, exchange in enumerate(self.exchanges)}
        sampler = None if self.learning is None else self.learning.sampler
        parts |= {"cpu": self.allocation, "model": self.learning, "sampler": sampler, "coupling": self.coupling}
        return {name: part for name, part in parts.items() if part is not None}


def _looked_at(part: str, name: str) -> bool:
    return name in LOOKED_AT if part in ("cpu", "model") else name not in FATES


def _cut_allocation(state: HostileState, whole: Gifts | Pushed, region: Region, part: LossyPart) -> Gifts | Pushed:
    """The CPU half of these nodes, with their costs and boxes alone."""
    market = local_market(whole.market, part.nodes)
    if isinstance(whole, Pushed):
        pushed = Pushed(region, whole.table, whole.market, state.method, state.network)  # its step is everybody's
        pushed.market = market
        return pushed
    numbered = replace(region, ids=np.arange(len(part)))  # as the market numbers them
    half = Gifts(numbered, whole.table, market, state.method.quantizer, None, whole.relax)
    half.region, half.full, half.degree = region, whole.full, whole.degree[part.nodes]
    cut = {name: getattr(whole.curve, name)[part.nodes] for name in ("first", "second", "lo", "hi", "flattest")}
    half.curve = whole.curve._replace(**cut)
    return half


def _cut_learning(
    state: HostileState, whole: Links | Tracking | Dynamics, region: Region, part: LossyPart
) -> Links | Tracking | Dynamics:
    """The models of these nodes, with their data alone."""
    if isinstance(whole, Dynamics):
        own = LocalSampler(whole.sampler, part.nodes)
        mine = type(whole)(whole.table, part.nodes, own, state.method, whole.L, whole.start[part.nodes])
        return mine.over_links(region)
    sampler, start = LocalSampler(whole.sampler, part.nodes), whole.start[part.nodes]
    half: Links | Tracking
    if isinstance(whole, Tracking):
        steps = whole.alpha, whole.momentum, whole.kept
        half = Tracking(region, whole.table, sampler, state.method, steps, start, whole.alpha_limit, whole.directed)
    else:
        half = Links(region, state.exchange.table, sampler, state.method, 1.0, start)
        half.stiffness, half.penalty = whole.stiffness, whole.penalty[region.link]  # by everybody's smoothness
    half.largest = whole.largest
    return half


class ShardedLossy(Front, HostileState):
    """The front of a run whose rounds workers play. Its own halves are brought up to date after every play."""

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
        HostileState.__init__(self, problem, network, method, faults, **options)
        self._recipe = (problem, network, method, faults), options
        Front.__init__(self, crew, workers, network)
        self._at, self._pulled = 0, True
        self._origin: tuple[int, Memory] = 0, {}
        shards = [LossyShard(self, k, self.shard_of) for k in range(workers)]
        self.parts = {shard.number: shard.part for shard in shards}
        crew.start(shards)

    # rounds

    def advance(self, turn: AnyArray, number: int) -> str | None:
        return self._play(number, 1, None)[1]

    def hurry(self, turn: AnyArray, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds by the workers: how many were played, and what diverged in the last."""
        done, diverged = 0, None
        while done < count and diverged is None:
            played, diverged = self._play(number + done, min(count - done, self.at_once), auditor)
            done += played
        return done, diverged

    def _play(self, number: int, count: int, auditor: Auditor | None) -> tuple[int, str | None]:
        reports: list[Report] = list(self.ask("play", number, (number, count)).values())
        stopped = [report for report in reports if report.diverged]
        played = min(report.played for report in stopped or reports)
        self._at, self._pulled = number + played, False
        self.played(reports)
        self.note_bytes(reports, played)
        if stopped:
            diverged = self._replay(auditor) or stopped[0].diverged
            played = self._at - number
        else:
            diverged = None
            self._count_seconds(reports, played)
            self._paste("look")
        if auditor is not None:
            auditor.worst.rounds += played - bool(stopped)
            if not stopped:
                self._audit_rounds(auditor, reports)
        return played, diverged

    def _audit_rounds(self, auditor: Auditor, reports: list[Report]) -> None:
        """Every round, as each worker saw its own nodes: sums of whole units."""
        worst = auditor.worst
        worst.links = self.packets
        if self.market is None:
            return
        unit = self.market.grid.unit
        for k in range(reports[0].played):
            held = sum(report.units[k] for report in reports)
            flying, owed = zip(*(report.beside[k] for report in reports), strict=True)
            worst.budget = max(worst.budget, abs(held + sum(flying) - self.budget) * unit)
            worst.over = max(worst.over, (held - self.budget) * unit, max(owed) * unit)
            worst.box = max(worst.box, *(report.outside[k] for report in reports))

    def _count_seconds(self, reports: list[Report], rounds: int) -> None:
        """CPU-seconds of what was held before each round."""
        if self.coupling is None or self.allocation is None:
            return
        unit, held = self.allocation.market.grid.unit, exact_sum(self.allocation.shares)
        for k in range(rounds):
            self.coupling.cpu_seconds += self.coupling.cost.tau * (held * unit)
            held = sum(report.units[k] for report in reports)

    def _replay(self, auditor: Auditor | None) -> str | None:
        """A round in which numbers run away does not end everywhere at once, and some workers are not there yet: it is
        played again here, in one process, from where they began."""
        given, options = self._recipe
        alone, end = HostileState(*given, **options), self._at
        self._at, memory = self._origin
        if memory:
            alone.restore(memory)
        diverged = None
        while self._at < end and diverged is None:
            diverged = alone.advance(alone.meet(self._at), self._at)
            self._at += 1
            if auditor is not None and diverged is None:
                alone.audit(auditor)
        vars(self).update(vars(alone))
        return diverged

    # looking

    def _paste(self, what: str) -> None:
        """What the workers have, into the state here: all, or what a row of history needs."""
        answers = self.ask(what, self._at)
        whole = super().memory()
        sampler = None if self.learning is None else self.learning.sampler
        if sampler is not None and sampler.batch is not None:
            whole["sampler/spread"] = np.full(self.network.n, np.nan)
        whole |= {name: np.zeros_like(array) for name, array in whole.items() if name.split("/")[1] in SUMS}
        for shard, answer in answers.items():
            self.parts[shard].paste(whole, answer)
        for name, part in self._parts().items():
            part.restore(part_of(whole, name))
        if sampler is not None and sampler.batch is not None:
            sampler.spread, sampler.batch = whole["sampler/spread"], whole["sampler/batch"].copy()

    def memory(self) -> Memory:
        if not self._pulled:
            self._paste("memory")
            self._pulled = True
        return super().memory()

    def restore(self, memory: Memory) -> None:
        """Workers go on from a checkpoint, each from its own part."""
        super().restore(memory)
        self._at, self._pulled = int(memory["round"]), True
        self._origin = self._at, {name: np.copy(array) for name, array in memory.items()}
        whole = super().memory()
        self.ask("take_up", self._at, {shard: (self.parts[shard].cut(whole),) for shard in self.crew.living})


def refuse_schedules(faults: Faults) -> None:
    """Workers play networks whose centres are there all the time, and act in every round."""
    for name in ("crash", "leave", "join", "straggle", "partition"):
        if getattr(faults, name):
            raise InputError(
                f"workers play loss, delay and one-way links among centres that stay, and these faults have {name}: leave "
                "out engine (--workers), and the run is played in this process",
                code="need.staying",
            )
