"""One-way links, answered around: a link's packets go straight, and those on its way back are passed on by others.

CPU needs both ends of a link to talk: a giver must learn what its gift was worth. On a one-way link the answer is passed on
by others, link by link, each keeping it until its next link is up. A packet so takes some rounds more, can be lost or late
on every link, and each of its bits passes all of them; ledgers bear it (docs/train.md, 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.exchange import Half
from equipoise.train.exchange.lossy import Lossy
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.membership import Membership
from equipoise.train.network import Network
from equipoise.train.region import LinkTable
from equipoise.train.topology import Arcs


class Relayed(Lossy):
    """Both ways between every two centres that any graph of the network links."""

    def __init__(self, network: Network, faults: Faults) -> None:
        self.relay, self._delay = Relay(network), faults.delay
        arcs = self.relay.arcs
        back = np.searchsorted(arcs.key, arcs.receivers * arcs.n + arcs.senders)
        always = np.ones(len(arcs.senders), dtype=np.bool_)
        longest = faults.delay * self.relay.most_hops + self.relay.most_rounds - 1
        super().__init__(LinkTable(network.n, arcs.senders, arcs.receivers, back, (always,)), faults, longest=longest)
        self._rounds = np.ones((1, len(back)), dtype=np.int64)
        self._counted = np.zeros(len(back), dtype=np.int64)
        self._further = self.region.count("relays")  # bits over all links but the first
        self.links_passed = 0

    def reach(self, members: Membership) -> None:
        table = self.table
        self.hops, self._rounds = self.relay.ways(table.senders, table.receivers, members.alive, members.side)
        live = members.passes(table.senders, table.receivers) & (self.hops > 0)
        takes = self._rounds.max(axis=0) - 1 + self._delay * self.hops
        self.too_far = bool((takes[live] > self.longest).any())

    def move(self, number: int, halves: Sequence[Half]) -> None:
        self.rounds = self._rounds[number % len(self._rounds)]
        super().move(number, halves)
        passed = np.maximum(self.hops, 1)
        self.links_passed += int(passed[self.region.target >= 0].sum())
        sent = np.sum([bits for name, bits in self.region.bits.items() if name != "relays"], axis=0)
        self._further += (sent - self._counted) * (passed - 1)
        self._counted = sent

    def memory(self) -> dict[str, AnyArray]:
        return super().memory() | {
            "counted": self._counted,
            "further": self._further,
            "passed": np.array(self.links_passed),
        }

    def restore(self, memory: dict[str, AnyArray]) -> None:
        super().restore(memory)
        self._counted, self._further[:] = memory["counted"], memory["further"]
        self.links_passed = int(memory["passed"])


MOST_NODES = 2000  # ways between all pairs are kept in a table
SLACK, LEAST_REACH = 3, 64  # ways may become so much longer when centres on them are gone, or so long at least


class Relay:
    """Both ways between every two centres that any graph of the network links."""

    def __init__(self, network: Network) -> None:
        if network.n > MOST_NODES:
            raise InputError(
                f"boxes or faults on one-way links need a way back for every link: at most {MOST_NODES} centres, not "
                f"{network.n}; drop the boxes (lo, hi) and the faults, or give links that carry both ways"
            )
        assert network.period is not None
        self.n = network.n
        self.graphs = [network.arcs(k) for k in range(network.period)]
        keys = np.unique(np.concatenate([np.concatenate([g.key, g.receivers * g.n + g.senders]) for g in self.graphs]))
        self.arcs = Arcs.unweighted(self.n, keys // self.n, keys % self.n)
        everybody, nobody = np.ones(self.n, dtype=np.bool_), np.zeros(self.n, dtype=np.bool_)
        hops, rounds = self.ways(self.arcs.senders, self.arcs.receivers, everybody, nobody)
        self.most_hops = min(max(SLACK * int(hops.max()), LEAST_REACH), self.n)
        self.most_rounds = min(max(SLACK * int(rounds.max()), LEAST_REACH), self.n * len(self.graphs))

    def ways(self, senders: Ints, receivers: Ints, alive: AnyArray, side: AnyArray) -> tuple[Ints, Ints]:
        """Per link how many links its packets pass (0: there is no way), and per phase how many rounds that takes."""
        hops = shortest_path(self._matrix(self.graphs, alive, side), unweighted=True)
        rounds = np.stack([self._rounds_from(phase, alive, side) for phase in range(len(self.graphs))])
        passed = hops[senders, receivers]
        there = np.isfinite(passed)
        return np.where(there, passed, 0.0).astype(np.int64), rounds[:, senders, receivers]

    def _matrix(self, graphs: list[Arcs], alive: AnyArray, side: AnyArray) -> Any:
        senders = np.concatenate([g.senders for g in graphs])
        receivers = np.concatenate([g.receivers for g in graphs])
        kept = alive[senders] & alive[receivers] & (side[senders] == side[receivers])
        return coo_array((np.ones(int(kept.sum())), (senders[kept], receivers[kept])), shape=(self.n, self.n)).tocsr()

    def _rounds_from(self, phase: int, alive: AnyArray, side: AnyArray) -> Ints:
        """Rounds until what i says in this phase is known to j, everybody passing on what they hold; 0 if it never is."""
        period = len(self.graphs)
        if period == 1:
            hops = shortest_path(self._matrix(self.graphs, alive, side), unweighted=True)
            return np.where(np.isfinite(hops), hops, 0.0).astype(np.int64)
        steps = [self._matrix([g], alive, side).toarray() for g in self.graphs]
        knows = np.eye(self.n, dtype=np.bool_)  # knows[i, j]: j knows what i said
        found = np.zeros((self.n, self.n), dtype=np.int64)
        idle = number = 0
        while idle < period and not knows.all():
            spread = knows | ((knows.astype(np.float64) @ steps[(phase + number) % period]) > 0)
            number += 1
            found[spread & ~knows] = number
            idle = 0 if (spread != knows).any() else idle + 1
            knows = spread
        return found
