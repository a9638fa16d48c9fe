"""Bytes over links, each message once and as it was sent: what centres agree by before the first round."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from equipoise.data.agreement import Link, Place
from equipoise.kernels import Ints
from equipoise.train.exchange import LinkBits
from equipoise.train.network import Network


class InMemoryDelivery:
    """All centres in one process: what is sent has arrived. Every bit is counted."""

    def __init__(self) -> None:
        self._bits: dict[Link, int] = {}

    def deliver(self, sent: Mapping[Link, bytes]) -> Mapping[Link, bytes]:
        """Over links that are there."""
        for link, message in sent.items():
            self._bits[link] = self._bits.get(link, 0) + 8 * len(message)
        return sent

    @property
    def bits(self) -> LinkBits:
        """Sent over each link that was used, so far."""
        links = sorted(self._bits)
        ends = np.array(links, dtype=np.int64).reshape(-1, 2)
        return LinkBits(ends[:, 0], ends[:, 1], np.array([self._bits[link] for link in links], dtype=np.int64))


def tree(network: Network) -> dict[int, Place]:
    """Shortest ways over the links of the first round to centre 0, and from it: everybody can find them alone."""
    arcs = network.arcs(0)
    graph = csr_array((np.ones(len(arcs.senders)), (arcs.senders, arcs.receivers)), shape=(network.n, network.n))
    down, up = _from_first(graph), _from_first(csr_array(graph.T))
    return {
        node: Place(
            above=None if node == 0 else int(up[node]),
            below=tuple(np.flatnonzero(up == node).tolist()),
            children=tuple(np.flatnonzero(down == node).tolist()),
            upper=None if node == 0 else int(down[node]),
        )
        for node in range(network.n)
    }


def _from_first(graph: csr_array) -> Ints:
    """Of each node, the one before it on a shortest way from node 0; -1 of node 0 itself."""
    found = breadth_first_order(graph, 0, directed=True, return_predecessors=True)[1].astype(np.int64)
    found[0] = -1
    return np.asarray(found)
