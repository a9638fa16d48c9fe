"""Where the nodes of a region stand in memory, and their neighbours in each graph, in an order that kernels like.

Rows are sorted by degree within windows, so that LANES nodes side by side have lists of like length. A node's neighbours
stand in the order of their rows in the whole network, so that a sum over them gives the same bits in a part of it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Bools, Floats, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.region import LinkTable

LANES = 8  # nodes side by side
WINDOW = 1024  # rows sorted by degree among themselves: farther apart would cost more memory traffic than it saves


class Paths(NamedTuple):
    """Links of every graph, as kernels walk them. The first axis is the graph.

    Entries first[i]..first[i+1] of `node` are the neighbours of row i (of a ghost: those that live here); `place` is where
    an own entry stands in the lanes. Lanes: group q holds rows ids[q], and entries start[q]..start[q+1], LANES wide; missing
    ones have weight 0. Row i stands at pos[i].
    """

    first: AnyArray
    node: AnyArray
    owner: AnyArray
    place: AnyArray
    back: AnyArray  # the same link as the neighbour's entry
    start: AnyArray
    ids: AnyArray
    lane_node: AnyArray
    pos: AnyArray
    degree: Ints
    links: Ints  # directed links that leave this region's nodes, per graph


class Layout:
    """Rows 0..own-1 are the nodes that live here; those after them are ghosts, neighbours that live elsewhere."""

    def __init__(self, table: LinkTable, nodes: Ints | None = None) -> None:
        n = table.n
        windows = np.arange(n) // WINDOW
        degree = np.bincount(table.senders[table.turns[0]], minlength=n)
        order = np.lexsort((np.arange(n), -degree, windows))  # global row -> node
        rank: Ints = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        here = np.ones(n, dtype=np.bool_) if nodes is None else np.isin(np.arange(n), nodes)
        near = np.zeros(n, dtype=np.bool_)
        near[table.receivers[here[table.senders]]] = True
        mine, ghosts = order[here[order]], order[(near & ~here)[order]]
        self.table, self.nodes, self.own = table, np.concatenate([mine, ghosts]), len(mine)
        self.row: Ints = np.full(n, -1)
        self.row[self.nodes] = np.arange(len(self.nodes))
        graphs = [_Graph(self, turn & here[table.senders], rank) for turn in table.turns]
        self.paths = _stack(graphs)
        self.graphs = len(graphs)
        self.entry_links = [graph.link for graph in graphs]
        self.links = np.flatnonzero(here[table.senders])  # those that leave nodes that live here
        self.by_node = np.argsort(mine)  # own rows in the order of their nodes

    @property
    def rows(self) -> int:
        return len(self.nodes)

    @property
    def ghosts(self) -> Ints:
        """Nodes that live elsewhere and are heard here, in the order of their rows."""
        return self.nodes[self.own :]

    @cached_property
    def contacts(self) -> Floats:
        """Links of each own row, a link counted once for every graph that it is in."""
        return np.asarray(self.paths.degree.sum(axis=0), dtype=np.float64)

    def keep(self, rows: AnyArray, axis: int = -1) -> AnyArray:
        """Values of own rows along an axis, in the order of their nodes: what a checkpoint holds."""
        return np.take(rows, self.by_node, axis=axis)

    def take(self, whole: AnyArray, axis: int = -1, ghosts: bool = False) -> AnyArray:
        """From values of every node of the network those of own rows, or of all rows."""
        return np.take(whole, self.nodes if ghosts else self.nodes[: self.own], axis=axis)

    def spread_links(self, t: int, entries: AnyArray) -> AnyArray:
        """Values of a graph's entries, by link that ever leaves a node here; 0 where it is not in the graph."""
        spread = np.zeros(len(self.table), dtype=entries.dtype)
        spread[self.entry_links[t]] = entries
        return spread[self.links]

    def own_entries(self, t: int, links: Ints) -> Ints:
        """Of a graph's links that leave a node here, by their order in it, the entries."""
        order = np.argsort(self.entry_links[t])
        wanted = np.flatnonzero(self.table.turns[t])[links]
        return np.asarray(order[np.searchsorted(self.entry_links[t], wanted, sorter=order)])

    def reverse(self, t: int, links: Ints) -> Ints:
        """The opposite links of a graph, by their order in it."""
        there = np.flatnonzero(self.table.turns[t])
        return np.searchsorted(there, self.table.back[there[links]])

    def peers_of(self, t: int, links: Ints) -> Ints:
        """The nodes at the other end of a graph's links."""
        return np.asarray(self.table.receivers[np.flatnonzero(self.table.turns[t])[links]])


class _Graph:
    """One graph's links, sorted for traversal."""

    def __init__(self, layout: Layout, there: Bools, rank: Ints) -> None:
        table, own, rows = layout.table, layout.own, layout.rows
        senders, receivers = layout.row[table.senders[there]], table.receivers[there]
        by = np.lexsort((rank[receivers], senders))
        self.link = np.flatnonzero(there)[by]  # number of each entry in the link table
        self.owner, heard = senders[by], layout.row[receivers[by]]
        self.degree = np.bincount(self.owner, minlength=own)
        abroad = np.flatnonzero(heard >= own)
        abroad = abroad[np.lexsort((self.owner[abroad], heard[abroad]))]
        self.node = np.concatenate([heard, self.owner[abroad]])
        counts = np.concatenate([self.degree, np.bincount(heard[abroad] - own, minlength=rows - own)])
        self.first = np.concatenate([[0], np.cumsum(counts)])
        number: Ints = np.full(len(table), -1)
        number[self.link] = np.arange(len(self.link))
        back = number[table.back[self.link]]
        back[abroad] = len(self.link) + np.arange(len(abroad))
        self.back = np.concatenate([back, abroad])
        groups = -(-own // LANES)
        order = np.lexsort((-self.degree, np.arange(own) // WINDOW))
        self.ids = np.full(groups * LANES, rows)
        self.ids[:own] = order
        self.pos: Ints = np.empty(own, dtype=np.int64)
        self.pos[order] = np.arange(own)
        padded = np.concatenate([self.degree[order], np.zeros(groups * LANES - own, dtype=np.int64)])
        wide = padded.reshape(-1, LANES).max(axis=1)
        self.start = np.concatenate([[0], np.cumsum(wide)])
        nth = np.arange(len(self.owner)) - self.first[self.owner]
        self.place = (self.start[self.pos[self.owner] // LANES] + nth) * LANES + self.pos[self.owner] % LANES
        self.lane_node = np.repeat(
            self.ids.reshape(-1, LANES), wide, axis=0
        ).ravel()  # a missing entry reads the node itself
        self.lane_node[self.place] = heard


def _stack(graphs: list[_Graph]) -> Paths:
    """Arrays of all graphs, padded to one length."""

    def stacked(name: str, kind: type = np.uint32) -> AnyArray:
        parts = [getattr(graph, name) for graph in graphs]
        whole: AnyArray = np.zeros((len(parts), max(map(len, parts))), dtype=kind)
        for row, part in zip(whole, parts, strict=True):
            row[: len(part)] = part
        return whole

    lanes = stacked("lane_node")
    return Paths(
        first=stacked("first"),
        node=stacked("node"),
        owner=stacked("owner"),
        place=stacked("place"),
        back=stacked("back"),
        start=stacked("start"),
        ids=stacked("ids").reshape(len(graphs), -1, LANES),
        lane_node=lanes.reshape(len(graphs), -1, LANES),
        pos=stacked("pos"),
        degree=stacked("degree", np.int64),
        links=np.array([len(graph.owner) for graph in graphs]),
    )
