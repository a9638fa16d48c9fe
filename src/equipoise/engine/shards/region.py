"""What one worker sees of a network: its own nodes, and as ghosts their neighbours.

Local ids are global ids in ascending order. Edges, neighbours, pairs and links so keep their order, and whatever an own
node adds up it adds up in the same order as in one process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from equipoise.train.arcs import Arcs
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.network import Graph, Network
from equipoise.train.topology import Topology


@dataclass(frozen=True, eq=False)
class CutTopology(Topology):
    """The edges of a graph that one worker knows."""

    known: int  # edges of the whole graph

    @property
    def all_edges(self) -> int:
        return self.known


@dataclass(frozen=True, eq=False)
class Region:
    """One worker's part of the nodes, and their neighbours in any round."""

    shard: int
    n: int  # nodes of the whole network
    nodes: Ints  # global ids of local nodes, ascending
    owner: Ints  # the shard of each local node
    _place: Ints = field(repr=False)  # local id of every global node, -1 where it is unknown here

    @property
    def own(self) -> AnyArray:
        """Which local nodes are this worker's."""
        return np.asarray(self.owner == self.shard)

    @property
    def peers(self) -> tuple[int, ...]:
        """The shards this one exchanges messages with."""
        return tuple(int(s) for s in np.unique(self.owner) if s != self.shard)

    def __len__(self) -> int:
        return len(self.nodes)

    def local(self, nodes: Ints) -> Ints:
        """Local ids of global nodes that are known here."""
        return np.asarray(self._place[nodes])

    def topology(self, graph: Topology) -> Topology:
        """The edges with an own end; degrees are those of the whole graph."""
        kept = self._touches(graph.tails, graph.heads)
        ends = self.local(graph.tails[kept]), self.local(graph.heads[kept])
        cut = CutTopology(len(self), *ends, graph.weights[kept], graph.edges)
        cut.__dict__["degree"] = graph.degree[self.nodes]  # a cached property: the edges here would tell too few
        return cut

    def arcs(self, graph: Arcs) -> Arcs:
        """The links with an own end."""
        kept = self._touches(graph.senders, graph.receivers)
        return Arcs(len(self), self.local(graph.senders[kept]), self.local(graph.receivers[kept]), graph.weights[kept])

    def _touches(self, one: Ints, other: Ints) -> AnyArray:
        mine = np.zeros(self.n, dtype=np.bool_)
        mine[self.nodes[self.own]] = True
        return np.asarray(mine[one] | mine[other])


class LocalNetwork:
    """A network as a region knows it, round by round."""

    def __init__(self, region: Region, network: Network) -> None:
        self.n, self.period, self.static, self.directed = len(region), network.period, network.static, network.directed
        self.region = region
        self._whole = network if network.period is None else None
        self._graphs = [self._cut(network.graph(k)) for k in range(network.period or 0)]
        self._latest: tuple[int, Graph] | None = None

    def _cut(self, graph: Graph) -> Graph:
        return self.region.arcs(graph) if isinstance(graph, Arcs) else self.region.topology(graph)

    def graph(self, round: int) -> Graph:
        """The links of this round with an own end."""
        if self._whole is None:
            return self._graphs[round % len(self._graphs)]
        if self._latest is None or self._latest[0] != round:
            self._latest = round, self._cut(self._whole.graph(round))
        return self._latest[1]

    def topology(self, round: int) -> Topology:
        graph = self.graph(round)
        assert isinstance(graph, Topology)
        return graph

    def arcs(self, round: int) -> Arcs:
        """Who can send to whom; both ways along every link of an undirected network."""
        graph = self.graph(round)
        return graph if isinstance(graph, Arcs) else Arcs.from_topology(graph)


def regions(network: Network, shard_of: Ints) -> list[Region]:
    """One region per shard, from the shard of every node."""
    count = int(shard_of.max()) + 1
    graphs = None if network.period is None else [network.graph(k) for k in range(network.period)]
    return [_region(network.n, shard, shard_of, graphs) for shard in range(count)]


def _region(n: int, shard: int, shard_of: Ints, graphs: Iterable[Graph] | None) -> Region:
    """Own nodes and every neighbour they ever have; where graphs never repeat that may be anybody."""
    mine = shard_of == shard
    seen = mine.copy() if graphs is not None else np.ones(n, dtype=np.bool_)
    for graph in graphs or ():
        one, other = (graph.senders, graph.receivers) if isinstance(graph, Arcs) else (graph.tails, graph.heads)
        seen[other[mine[one]]] = True
        seen[one[mine[other]]] = True
    nodes = np.flatnonzero(seen).astype(np.int64)
    place = np.full(n, -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    return Region(shard, n, nodes, shard_of[nodes].astype(np.int64), place)
