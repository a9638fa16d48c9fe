"""One-way links, answered around: a link's packets go straight, and those on its way back are passed on by others.

Every link that a packet passes can lose or delay it, and each of its bits passes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.train.arrays import AnyArray
from equipoise.train.exchange import Half
from equipoise.train.exchange.lossy import Lossy
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.membership import Membership
from equipoise.train.hostile.relay import Relay
from equipoise.train.network import Network
from equipoise.train.region import LinkTable


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
