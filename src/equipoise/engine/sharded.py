"""Links that return, played by workers: each holds a part of the centres, and hears of its neighbours what they say.

A shard is the same halves on a smaller layout. Only rows whose neighbours live elsewhere cross, as the codes that are
counted; what comes out is the same to the bit as in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from equipoise.engine.shards.crew import Crew
from equipoise.engine.shards.front import lost_worker
from equipoise.engine.shards.partition import partition
from equipoise.engine.shards.restrict import local_market, part_of_model
from equipoise.engine.shards.worker import Report
from equipoise.kernels import Bools
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.audit import Auditor, look_at_units
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics._price_kernels import CHANGED, DECIDED, LIMITED, decide, hear_codes
from equipoise.train.dynamics._sum_kernels import hear_rows
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed
from equipoise.train.link_state import LinkState
from equipoise.train.links import LinkBits
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.sampler import Sampler
from equipoise.train.topology import Topology

Packets = dict[int, bytes]
PART_WIDTH = 10  # bits of a part: 4 of a, 6 of s


class Part:
    """The nodes of one shard, as costs and models are cut by."""

    def __init__(self, shard: int, nodes: Ints, shard_of: Ints, layout: Layout) -> None:
        self.shard, self.nodes, self.n = shard, nodes, len(shard_of)
        self.own = np.ones(len(nodes), dtype=np.bool_)
        self.peers = tuple(int(peer) for peer in np.unique(shard_of[layout.ghosts]))

    def __len__(self) -> int:
        return len(self.nodes)


class Boundary:
    """Which own rows a peer hears in each graph, and which of its rows are heard here: both in the order of their nodes."""

    def __init__(self, layout: Layout, theirs: Bools) -> None:
        self.told, self.heard, self.out, self.into = [], [], [], []
        for t, links in enumerate(layout.paths.links):
            owner, node = layout.paths.owner[t, :links].astype(np.int64), layout.paths.node[t, :links].astype(np.int64)
            crossing = np.flatnonzero(theirs[layout.nodes[node]])
            self.told.append(_by_node(layout, owner[crossing]))
            self.heard.append(_by_node(layout, node[crossing]))
            numbers = layout.entry_links[t][crossing]
            self.out.append(crossing[np.argsort(numbers)])
            self.into.append(crossing[np.argsort(layout.table.back[numbers])])


def _by_node(layout: Layout, rows: Ints) -> Ints:
    rows = np.unique(rows)
    return np.asarray(rows[np.argsort(layout.nodes[rows])])


class LinkShard:
    """The halves of some nodes, ready for their next round."""

    def __init__(self, whole: LinkState, shard: int, shard_of: Ints, start: Floats | None) -> None:
        nodes = np.flatnonzero(shard_of == shard)
        self.layout = layout = Layout(whole.table, nodes)
        self.region = Part(shard, nodes, shard_of, layout)
        self.boundaries = {peer: Boundary(layout, shard_of == peer) for peer in self.region.peers}
        self.allocation: Prices | None = None
        self.learning: Summed | None = None
        if whole.allocation is not None and whole.market is not None:
            prices = whole.allocation
            market = local_market(whole.market, self.region)
            ghosts = whole.layout.row[layout.ghosts]
            said = np.column_stack([prices.talk.elastic[0, ghosts], prices.pinned[ghosts]])
            start_units = whole.market.start()[nodes]
            self.allocation = Prices(
                layout, market, whole.method.quantizer, whole.gap, start_units, ghosts=said, rule=prices.rule
            )
        if whole.learning is not None and start is not None:
            learning = whole.learning
            sampler = Sampler(part_of_model(learning.model, nodes))
            self.learning = Summed(
                layout, sampler, whole.method.quantizer, learning.L, learning.theta, start[nodes], learning.pace
            )

    # a round

    def play(self, number: int) -> Generator[Packets, Packets, str | None]:
        """One round of both halves; the name of what diverged here, or None."""
        halves = [half for half in (self.allocation, self.learning) if half is not None]
        for half in halves:
            half.say(number)
        came = yield {peer: self._said(number, boundary) for peer, boundary in self.boundaries.items()}
        asked = [peer for peer, packet in came.items() if self._hear(number, self.boundaries[peer], packet)]
        if self.allocation is not None and self.allocation.rule.boxed and number >= self.layout.graphs:
            yield from self._second_exchange(self.allocation, number % self.layout.graphs, asked)
        fine = [half.hear(number) for half in halves]
        return None if all(fine) else "shares" if halves[fine.index(False)] is self.allocation else "models"

    def _second_exchange(self, half: Prices, t: int, asked: list[int]) -> Generator[Packets, Packets, None]:
        """Rows that hold back tell neighbours that do not what moves between them."""
        if half.talk.news[LIMITED] == 0:
            return
        parts = half.rule, self.layout.paths, half.talk, half.boxes, half.node.shares
        decide(*parts, half.weights[t].reshape(-1), t)
        half.talk.news[DECIDED] = 1
        limited = (half.boxes.flags & 1).astype(np.bool_)
        paths, packets = self.layout.paths, {}
        for peer in asked:
            entries = self.boundaries[peer].out[t]
            decided = entries[limited[paths.owner[t, entries]] & ~limited[paths.node[t, entries]]]
            packets[peer] = half.boxes.moved[decided].tobytes()
        came = (yield packets) if packets else {}
        for peer, packet in came.items():
            entries = self.boundaries[peer].into[t]
            heard = entries[limited[paths.node[t, entries]] & ~limited[paths.owner[t, entries]]]
            half.boxes.abroad[paths.back[t, heard] - paths.links[t]] = np.frombuffer(packet, dtype=np.int64)

    def _said(self, number: int, boundary: Boundary) -> bytes:
        """What one peer hears of this shard's rows."""
        t = number % self.layout.graphs
        rows, plain = boundary.told[t], number < self.layout.graphs
        out = []
        if self.allocation is not None:
            talk, boxes = self.allocation.talk, self.allocation.boxes
            exact = plain or not len(talk.codes) or self.allocation.mantissa == 52
            out.append(talk.price[t, rows].tobytes() if exact else packed(talk.codes[rows], self.allocation.code_bits))
            changed = np.isin(rows, talk.changed[: talk.news[CHANGED]])
            limited = np.isin(rows, talk.limited[: talk.news[LIMITED]])
            out += [
                np.packbits(changed).tobytes(),
                np.packbits(limited).tobytes() if self.allocation.rule.boxed else b"",
            ]
            out.append(talk.elastic[t, rows[changed]].astype(np.int16).tobytes())
            both = np.concatenate([boxes.out_part[rows[limited]], boxes.in_part[rows[limited]]], axis=1)
            out.append(packed(both.ravel()[::2] * 64 + both.ravel()[1::2], PART_WIDTH, signed=False))
        if self.learning is not None:
            table = self.learning.table
            exact = plain or self.learning.mantissa == 52
            out.append(table.said[t, rows].tobytes() if exact else packed(table.codes[rows], self.learning.code_bits))
        return b"".join(out)

    def _hear(self, number: int, boundary: Boundary, packet: bytes) -> bool:
        """Write what a peer said into the ghosts' rows; whether a row on either side of the boundary holds back."""
        t = number % self.layout.graphs
        rows, plain, reader = boundary.heard[t], number < self.layout.graphs, Reader(packet)
        asked = False
        if self.allocation is not None:
            half = self.allocation
            talk, boxes, news = half.talk, half.boxes, half.talk.news
            if plain or half.mantissa == 52:
                talk.before[t, rows] = talk.price[t, rows]
                talk.price[t, rows] = reader.floats(len(rows))
                half.set_first_floors(t, rows)
            else:
                hear_codes(reader.codes(len(rows), half.code_bits), rows, talk, t, half.mantissa)
            changed = rows[reader.mask(len(rows))]
            limited = rows[reader.mask(len(rows))] if half.rule.boxed else rows[:0]
            talk.elastic[t, changed] = reader.numbers(len(changed), np.int16)
            parts = reader.codes(2 * len(limited), PART_WIDTH, signed=False).reshape(-1, 2)
            boxes.out_part[limited] = np.column_stack([parts[:, 0] // 64, parts[:, 0] % 64])
            boxes.in_part[limited] = np.column_stack([parts[:, 1] // 64, parts[:, 1] % 64])
            own = np.isin(boundary.told[t], talk.limited[: news[LIMITED]]).any()
            asked = bool(own or len(limited))
            talk.changed[news[CHANGED] : news[CHANGED] + len(changed)] = changed
            talk.limited[news[LIMITED] : news[LIMITED] + len(limited)] = limited
            news[CHANGED] += len(changed)
            news[LIMITED] += len(limited)
        if self.learning is not None:
            table, columns = self.learning.table, self.learning.model.size
            if plain or self.learning.mantissa == 52:
                table.said[t, rows] = reader.floats(len(rows) * columns).reshape(-1, columns)
                self.learning.set_first_floors(t, rows)
            else:
                hear_rows(
                    reader.codes(len(rows) * columns, self.learning.code_bits).reshape(-1, columns), rows, table, t
                )
        return asked

    # what the coordinator looks at

    def audit(self) -> tuple[int, float]:
        """Units that own nodes hold, and the farthest outside a box, CPUs."""
        if self.allocation is None:
            return 0, 0.0
        half, seen = self.allocation, np.zeros(2, dtype=np.int64)
        look_at_units(half.node.shares, half.boxes.low, half.boxes.high, 0, seen)
        return int(half.node.shares.sum()), float(seen[1]) * half.rule.unit

    def look(self) -> dict[str, AnyArray]:
        """What a row of history needs, by node."""
        found: dict[str, AnyArray] = {}
        if self.allocation is not None:
            half = self.allocation
            found |= {"units": half.units, "cpu_bits": half.link_bits(), "second": np.array(half.second_exchanges)}
        if self.learning is not None:
            found |= {"models": self.learning.models, "model_bits": self.learning.link_bits()}
        return found

    def bits(self) -> dict[str, int]:
        return {}

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
        """Go on from a checkpoint of the whole network."""
        for name, half in {"cpu": self.allocation, "model": self.learning}.items():
            if half is not None:
                half.restore({n.removeprefix(f"{name}/"): a for n, a in memory.items() if n.startswith(f"{name}/")})


class ShardedLinks(LinkState):
    """The front of a run whose rounds workers play. Its own halves are brought up to date when somebody looks."""

    swift = True  # workers need nobody in between
    at_once = 1 << 30  # rounds that they play before they are looked at
    played: Callable[[list[Report]], None] = staticmethod(lambda reports: None)  # told after each play

    def __init__(
        self, crew: Crew, workers: int, problem: Problem, network: Network, method: Method, **options: Any
    ) -> None:
        super().__init__(problem, network, method, **options)
        self.crew, self.shard_of = crew, partition(network, workers)
        self.wire_bytes: list[int] = []  # between shards, of each round
        self.losses: list[dict[str, Any]] = []
        self._reports: list[Report] = []
        self._seen: dict[int, dict[str, AnyArray]] = {}
        self._at, self._fresh = 0, True
        start = None if self.learning is None else self.learning.models
        self.shards = {k: LinkShard(self, k, self.shard_of, start) for k in range(workers)}
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
        for k in range(rounds):
            off = abs(sum(report.units[k] for report in self._reports) - self.budget) * self.market.grid.unit
            auditor.worst.budget = max(auditor.worst.budget, off)
            auditor.worst.box = max(auditor.worst.box, *(report.outside[k] for report in self._reports))

    def _play(self, number: int, count: int) -> tuple[int, str | None]:
        reports = self.crew.ask("play", dict.fromkeys(self.crew.living, (number, count)))
        self._refuse_loss(number)
        self._reports, self._fresh, self._seen = list(reports.values()), False, {}
        played = max(report.played for report in self._reports)
        stopped = [report for report in self._reports if report.diverged]
        if stopped:
            played = min(report.played for report in stopped)
        self._at = number + played
        self.played(self._reports)
        self.wire_bytes += [
            sum(report.sent[k] for report in self._reports if k < len(report.sent)) for k in range(played)
        ]
        return played, stopped[0].diverged if stopped else None

    def _refuse_loss(self, number: int) -> None:
        """A worker that is gone ends the run, by name; a checkpoint can be gone on from."""
        for shard, part in self.shards.items():
            if shard not in self.crew.living:
                process = self.crew.process_of(shard)
                self.losses.append({"worker": shard, "process": process, "round": number, "centres": part.region.nodes})
                raise lost_worker(self.crew, shard, part.region.nodes, number)

    # looking

    def _look(self) -> dict[int, dict[str, AnyArray]]:
        if not self._seen:
            answers = self.crew.ask("look", dict.fromkeys(self.crew.living, ()))
            self._refuse_loss(self._at)
            self._seen = {shard: seen for shard, (seen, _) in answers.items()}
        return self._seen

    def _gathered(self, name: str) -> AnyArray:
        """Values of all shards by node, or by link."""
        parts = {shard: seen[name] for shard, seen in self._look().items()}
        by_link = name.endswith("bits")
        first = next(iter(parts.values()))
        whole = np.zeros((len(self.table) if by_link else self.network.n, *first.shape[1:]), dtype=first.dtype)
        for shard, values in parts.items():
            part = self.shards[shard]
            whole[part.layout.links if by_link else part.region.nodes] = values
        return whole

    @property
    def shares(self) -> Floats | None:
        if self._fresh or self.market is None:
            return super().shares
        return self.market.grid.floats(self._gathered("units"))

    @property
    def models(self) -> Floats | None:
        if self._fresh or self.learning is None:
            return super().models
        return self._gathered("models")

    def _bits(self) -> dict[str, Ints]:
        found = super()._bits()
        if not self._fresh:
            found |= {"prices": self._gathered("cpu_bits")} if self.allocation is not None else {}
            found |= {"models": self._gathered("model_bits")} if self.learning is not None else {}
        return found

    def link_bits(self) -> LinkBits:
        return LinkBits(self.table.senders, self.table.receivers, np.sum(list(self._bits().values()), axis=0))

    def memory(self) -> dict[str, AnyArray]:
        if not self._fresh:
            self._pull()
        return super().memory()

    def _pull(self) -> None:
        """Everything the workers have, into the halves here."""
        answers = self.crew.ask("memory", dict.fromkeys(self.crew.living, ()))
        self._refuse_loss(self._at)
        whole: dict[str, AnyArray] = dict(super().memory())
        for shard, memory in answers.items():
            layout, nodes = self.shards[shard].layout, self.shards[shard].region.nodes
            for name, part in memory.items():
                kind = name.split("/")[1]
                if kind == "link":
                    whole[name][layout.links] = part
                elif kind in ("node", "said"):
                    whole[name][_at(name, nodes)] = part
                else:
                    whole[name] = part
        super().restore(whole)
        self._fresh = True

    def restore(self, memory: dict[str, AnyArray]) -> None:
        super().restore(memory)
        self._push()

    def rebudget(self, budget: float, graph: Topology) -> None:
        if not self._fresh:
            self._pull()
        super().rebudget(budget, graph)
        self._push()

    def _push(self) -> None:
        """Workers go on from what is here."""
        whole = super().memory()
        self.crew.ask("take_up", dict.fromkeys(self.crew.living, (whole,)))
        self._refuse_loss(self._at)
        self._reports, self._seen, self._fresh = [], {}, True


def _at(name: str, nodes: Ints) -> tuple[Any, ...]:
    """Where a part's nodes are in the whole: along the last axis, or the one before the columns of models."""
    columns = name.startswith("model/") and not name.endswith("floors")
    return (..., nodes, slice(None)) if columns else (..., nodes)


def packed(codes: AnyArray, width: int, signed: bool = True) -> bytes:
    """Whole numbers in so many bits each; of a signed one the first bit is its sign."""
    values = np.asarray(codes, dtype=np.int64).ravel()
    if signed:
        values = np.abs(values) | ((values < 0).astype(np.int64) << (width - 1))
    return np.packbits(((values[:, None] >> np.arange(width)) & 1).astype(np.uint8)).tobytes()


class Reader:
    """Reads a packet from its beginning."""

    def __init__(self, packet: bytes) -> None:
        self.packet, self.at = packet, 0

    def _take(self, size: int) -> bytes:
        self.at += size
        return self.packet[self.at - size : self.at]

    def numbers(self, count: int, kind: Any) -> AnyArray:
        return np.frombuffer(self._take(count * np.dtype(kind).itemsize), dtype=kind)

    def floats(self, count: int) -> Floats:
        return self.numbers(count, np.float64)

    def mask(self, count: int) -> Bools:
        return np.unpackbits(np.frombuffer(self._take(-(-count // 8)), dtype=np.uint8), count=count).astype(np.bool_)

    def codes(self, count: int, width: int, signed: bool = True) -> Ints:
        bits = np.unpackbits(np.frombuffer(self._take(-(-count * width // 8)), dtype=np.uint8), count=count * width)
        values = bits.reshape(count, width).astype(np.int64) @ (1 << np.arange(width))
        if not signed:
            return np.asarray(values)
        size = values & ((1 << (width - 1)) - 1)
        return np.asarray(np.where(values >> (width - 1), -size, size))
