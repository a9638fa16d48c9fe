"""One graph: who hears whom in one round, over links that carry both ways (Topology) or one way (Arcs); their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from equipoise.errors import InputError, unknown_name
from equipoise.kernels import kernel
from equipoise.train.arrays import Floats, Ints

NODES_NAMED = 5  # an error lists at most this many of the nodes that are cut off


@dataclass(frozen=True, eq=False)
class Topology:
    """A symmetric graph on nodes 0..n-1. The constructor trusts its arrays; `from_edges` checks what a user gives."""

    n: int
    tails: Ints  # tails < heads, sorted by (tail, head), each edge once
    heads: Ints
    weights: Floats  # positive, one per edge

    @classmethod
    def from_edges(
        cls,
        n: int,
        edges: ArrayLike,
        weights: ArrayLike | None = None,
        source: str = "edges",
        lines: Sequence[int] | None = None,
    ) -> Topology:
        """A connected graph from pairs (i, j). An error names `source` and, where known, the line of the edge."""
        topology = cls(n, *checked_edges(n, edges, weights, source, lines))
        topology.require_connected(source)
        return topology

    @classmethod
    def unweighted(cls, n: int, tails: Ints, heads: Ints) -> Topology:
        """A graph from a generator, trusted to be sorted and without repetition; every weight is 1."""
        return cls(n, tails, heads, np.ones(len(tails)))

    @property
    def edges(self) -> int:
        """How many undirected edges there are."""
        return len(self.tails)

    @cached_property
    def degree(self) -> Ints:
        """Neighbours per node."""
        ends = np.bincount(self.tails, minlength=self.n) + np.bincount(self.heads, minlength=self.n)
        return ends.astype(np.int64, copy=False)

    @cached_property
    def diameter(self) -> int:
        """The most links between two nodes."""
        return int(shortest_path(abs(self.laplacian()), unweighted=True).max())

    @property
    def connected(self) -> bool:
        """Whether every node can reach every other."""
        return self.edges >= self.n - 1 and not pieces(self.n, self.tails, self.heads).any()

    def laplacian(self, weights: Floats | None = None) -> Any:
        """D - W as a scipy CSR array, with these weights instead of the graph's own if given."""
        w = self.weights if weights is None else weights
        diagonal = np.bincount(self.tails, w, self.n) + np.bincount(self.heads, w, self.n)
        tails, heads, nodes = (
            a.astype(np.int32) for a in (self.tails, self.heads, np.arange(self.n))
        )  # half the traffic
        rows, columns = np.concatenate([tails, heads, nodes]), np.concatenate([heads, tails, nodes])
        return coo_array((np.concatenate([-w, -w, diagonal]), (rows, columns)), shape=(self.n, self.n)).tocsr()

    def require_connected(self, source: str) -> None:
        """Refuse a graph in pieces, naming the smallest one: its nodes could never agree with the others."""
        if self.connected:
            return
        piece = pieces(self.n, self.tails, self.heads)
        names, sizes = np.unique(piece, return_counts=True)
        cut_off = np.flatnonzero(piece == names[sizes.argmin()])
        from_one = " (are the nodes counted from 1? they count from 0 here)" if list(cut_off) == [0] else ""
        raise InputError(
            f"{source}: not connected: {len(names)} components; cut off in the smallest ({len(cut_off)} of {self.n}): "
            f"{listed(cut_off)}{from_one}; add an edge from there to the rest",
            code="network.disconnected",
        )


@kernel
def pieces(n: int, tails: Ints, heads: Ints) -> Ints:
    """The smallest node that each node can reach: all 0 if the graph is connected (union-find, paths halved)."""
    root = np.arange(n)
    for e in range(len(tails)):
        i, j = tails[e], heads[e]
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        while root[j] != j:
            root[j] = root[root[j]]
            j = root[j]
        root[max(i, j)] = min(i, j)
    for i in range(n):  # a root is never larger than its nodes
        root[i] = root[root[i]]
    return root


def canonical(n: int, tails: Ints, heads: Ints) -> tuple[Ints, Ints]:
    """Distinct edges with the smaller end first, sorted by (tail, head)."""
    key = np.minimum(tails, heads) * n + np.maximum(tails, heads)
    key.sort()
    return key // n, key % n


def check_nodes(n: int) -> None:
    """Refuse a number of nodes that is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n={n!r}: a network needs a whole number of nodes, at least 1", code="network.nodes")


def listed(nodes: Ints) -> str:
    """The first few nodes, as an error names them."""
    return ", ".join(map(str, nodes[:NODES_NAMED])) + (", ..." if len(nodes) > NODES_NAMED else "")


Where = Callable[[int], str]


def checked_edges(
    n: int,
    edges: ArrayLike,
    weights: ArrayLike | None,
    source: str,
    lines: Sequence[int] | None,
    directed: bool = False,
) -> tuple[Ints, Ints, Floats]:
    """What a user gave as sorted ends and weights, each edge once (each direction once if directed), or an error."""
    check_nodes(n)

    def where(row: int) -> str:
        return source if lines is None else f"{source}:{lines[row]}"

    pairs = _pairs(edges, where)
    given = _weights(weights, pairs, where)
    _check_nodes_of_edges(n, pairs, where)
    return _merge(n, pairs, given, where, directed)


def _pairs(edges: ArrayLike, where: Where) -> Ints:
    """The edges as int64[E, 2]; node names must be whole numbers."""
    try:
        pairs = np.asarray(edges, dtype=np.float64).reshape(-1, 2) if np.size(edges) == 0 else np.asarray(edges)
    except ValueError:
        raise InputError(f"{where(0)}: every edge must be a pair of nodes (i, j)") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iuf":
        raise InputError(f"{where(0)}: every edge must be a pair of whole numbers (i, j)")
    if pairs.dtype.kind == "f":
        odd = np.flatnonzero((pairs != np.floor(pairs)).any(axis=1) | ~np.isfinite(pairs).all(axis=1))
        if odd.size:
            i, j = pairs[odd[0]]
            raise InputError(
                f"{where(odd[0])}: edge {i:g} - {j:g}: nodes are whole numbers, counted from 0", code="edge.form"
            )
    return pairs.astype(np.int64)


def _weights(weights: ArrayLike | None, pairs: Ints, where: Where) -> Floats:
    if weights is None:
        return np.ones(len(pairs))
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{where(0)}: every weight must be a number", code="weights.number") from None
    if given.shape != (len(pairs),):
        raise InputError(
            f"{where(0)}: {given.size} weights for {len(pairs)} edges; give one per edge", code="weights.count"
        )
    bad = np.flatnonzero(~(np.isfinite(given) & (given > 0)))
    if bad.size:
        (i, j), w = pairs[bad[0]], given[bad[0]]
        way_out = "drop the edge instead" if w == 0 else "weights must be positive and finite"
        raise InputError(f"{where(bad[0])}: edge {i} - {j} has weight {w:g}; {way_out}", code="weights.range")
    return given


def _check_nodes_of_edges(n: int, pairs: Ints, where: Where) -> None:
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n)).any(axis=1))
    if outside.size:
        i, j = pairs[outside[0]]
        node = j if 0 <= i < n else i
        raise InputError(
            f"{where(outside[0])}: edge {i} - {j}: node {node} is outside 0..{n - 1} (n={n})", code="edge.node"
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise InputError(
            f"{where(loops[0])}: self-loop at node {pairs[loops[0], 0]}; drop it, a node hears itself anyway",
            code="edge.loop",
        )


def _merge(n: int, pairs: Ints, given: Floats, where: Where, directed: bool) -> tuple[Ints, Ints, Floats]:
    """Each edge once: repetitions merge if their weights agree and are refused if not."""
    key = pairs[:, 0] * n + pairs[:, 1] if directed else pairs.min(axis=1) * n + pairs.max(axis=1)
    order = np.argsort(key, kind="stable")
    key, weight = key[order], given[order]
    first = np.ones(len(key), dtype=bool)
    first[1:] = key[1:] != key[:-1]
    differ = np.flatnonzero(~first[1:] & (weight[1:] != weight[:-1]))
    if differ.size:
        one, other = order[differ[0]], order[differ[0] + 1]
        (i, j), (k, m), u, w = pairs[one], pairs[other], given[one], given[other]
        if (i, j) == (k, m):
            link = f"{i} -> {j}" if directed else f"{i} - {j}"
            raise InputError(
                f"{where(other)}: edge {link} is given twice, with weights {u:g} and {w:g}; keep one", code="edge.twice"
            )
        raise InputError(
            f"{where(other)}: not symmetric: {i} -> {j} has weight {u:g} but {k} -> {m} has weight {w:g}; "
            "give both directions the same weight, or pass directed=True for one-way links",
            code="edge.asymmetric",
        )
    return key[first] // n, key[first] % n, weight[first]


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


KINDS = ("laplacian", "metropolis", "curvature")


def edge_weights(kind: str, topology: Topology, curvature: Floats | None = None) -> Floats:
    """Weights of one kind, one per edge.

    "laplacian" are the graph's own. "metropolis", 1 / (1 + max(d_i, d_j)), mix stably whatever the graph.
    "curvature", 1 / max(d_i a_i, d_j a_j), need no constant for a safe CPU step; a_i = f_i'' > 0 is the curvature.
    """
    if kind not in KINDS:
        raise unknown_name("weights", kind, KINDS)
    if kind == "laplacian":
        return topology.weights
    tails, heads = topology.tails, topology.heads
    degree = topology.degree.astype(np.float64)
    if kind == "metropolis":
        return 1.0 / (1.0 + np.maximum(degree[tails], degree[heads]))
    if curvature is None:
        raise InputError(
            'weights "curvature" need the curvature of every cost; use "metropolis" where there is none',
            code="curvature.missing",
        )
    steepness = degree * _checked(curvature, topology.n)
    return np.asarray(1.0 / np.maximum(steepness[tails], steepness[heads]))


def _checked(curvature: Floats, n: int) -> Floats:
    curvature = np.asarray(curvature, dtype=np.float64)
    if curvature.shape != (n,):
        raise InputError(
            f"curvature has shape {curvature.shape}; expected one number for each of {n} nodes", code="curvature.shape"
        )
    bad = np.flatnonzero(~(np.isfinite(curvature) & (curvature > 0)))
    if bad.size:
        raise InputError(
            f"curvature of node {bad[0]} is {curvature[bad[0]]:g}; it must be positive and finite",
            code="curvature.range",
        )
    return curvature
