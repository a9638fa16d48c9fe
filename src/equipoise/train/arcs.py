"""One directed graph: who can send to whom in one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.topology import Topology, checked_edges, listed


@dataclass(frozen=True, eq=False)
class Arcs:
    """One-way links on nodes 0..n-1. The constructor trusts its arrays; `from_edges` checks what a user gives."""

    n: int
    senders: Ints  # sorted by (sender, receiver), each arc once, no loops
    receivers: Ints
    weights: Floats  # positive, one per arc

    @classmethod
    def from_edges(
        cls,
        n: int,
        edges: ArrayLike,
        weights: ArrayLike | None = None,
        source: str = "edges",
        lines: Sequence[int] | None = None,
    ) -> Arcs:
        """A strongly connected graph from pairs (sender, receiver); errors as those of `Topology.from_edges`."""
        arcs = cls(n, *checked_edges(n, edges, weights, source, lines, directed=True))
        arcs.require_strongly_connected(source)
        return arcs

    @classmethod
    def from_topology(cls, topology: Topology) -> Arcs:
        """Both directions of every link."""
        senders = np.concatenate([topology.tails, topology.heads])
        receivers = np.concatenate([topology.heads, topology.tails])
        order = np.argsort(senders * topology.n + receivers, kind="stable")
        return cls(topology.n, senders[order], receivers[order], np.tile(topology.weights, 2)[order])

    @classmethod
    def unweighted(cls, n: int, senders: Ints, receivers: Ints) -> Arcs:
        """A graph from a generator, trusted to be sorted and without repetition; every weight is 1."""
        return cls(n, senders, receivers, np.ones(len(senders)))

    @cached_property
    def out_degree(self) -> Ints:
        """How many each node can send to."""
        return np.bincount(self.senders, minlength=self.n).astype(np.int64, copy=False)

    @cached_property
    def in_degree(self) -> Ints:
        """How many each node hears."""
        return np.bincount(self.receivers, minlength=self.n).astype(np.int64, copy=False)

    @cached_property
    def key(self) -> Ints:
        """One number per arc, ascending: the place of (sender, receiver) in an n x n matrix."""
        return self.senders * self.n + self.receivers

    @cached_property
    def strongly_connected(self) -> bool:
        """Whether a message from any node can get to any other."""
        if self.n > 1 and not (self.out_degree.all() and self.in_degree.all()):  # most graphs that fail, fail here
            return False
        return self._components()[0] == 1

    def require_strongly_connected(self, source: str) -> None:
        """Refuse a graph in which some node cannot reach another, naming the smallest component."""
        if self.strongly_connected:
            return
        count, component = self._components()
        cut_off = np.flatnonzero(component == np.bincount(component).argmin())
        alone = list(cut_off) == [0] and self.out_degree[0] == self.in_degree[0] == 0
        from_one = " (are the nodes counted from 1? they count from 0 here)" if alone else ""
        raise InputError(
            f"{source}: not strongly connected: {count} components; no way there and back for the smallest "
            f"({len(cut_off)} of {self.n}): {listed(cut_off)}{from_one}; add the missing links to or from it, "
            "or make the network undirected",
            code="network.disconnected",
        )

    def _components(self) -> tuple[int, Ints]:
        """How many strongly connected components there are, and which one each node is in."""
        start = np.concatenate([[0], np.cumsum(self.out_degree)])
        matrix = csr_array((np.ones(len(self.senders)), self.receivers, start), shape=(self.n, self.n))
        count, component = connected_components(matrix, directed=True, connection="strong")
        return int(count), component.astype(np.int64)
