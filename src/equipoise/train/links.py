"""Who talks to whom in a round, as indices into what the receivers remember (docs/train.md, 3.3).

On a static network one estimate per node is enough: everybody who hears node i hears all of it. Where neighbours change,
every directed link keeps its own, because a node hears only its current neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.topology import Topology
from equipoise.train.weights import edge_weights


class Neighbours(NamedTuple):
    """The same edges seen from every node: entries first[i]..first[i+1] are node i's neighbours, in ascending order."""

    first: Ints
    node: AnyArray  # the neighbour
    edge: AnyArray  # the edge's number in this round's graph
    back: AnyArray  # where the neighbour has this node among its own
    heard: AnyArray  # slot of what the neighbour said, here
    told: AnyArray  # slot of what this node said, there
    link: AnyArray  # the directed link from this node to the neighbour: 2p or 2p + 1 of pair p


@dataclass(frozen=True, eq=False)
class Round:
    """One round's edges. Edge e joins tails[e] and heads[e]; `pair` numbers that pair of nodes for good."""

    topology: Topology
    pair: Ints
    slots: Ints  # estimates that are updated in this round ...
    senders: Ints  # ... and the node whose value each one follows
    tail_slot: Ints  # where the head of edge e finds the tail's value ...
    head_slot: Ints  # ... and the tail the head's
    per_link: bool
    _kept: dict[str, AnyArray] = field(default_factory=dict)

    @cached_property
    def neighbours(self) -> Neighbours:
        """Adjacency lists with the slots of this round."""
        n = self.topology.n
        first, node, edge, back = adjacency(n, self.topology.tails, self.topology.heads)
        own = np.repeat(np.arange(n, dtype=np.int32), np.diff(first))
        link = (2 * self.pair[edge] + (own > node)).astype(np.int32)
        heard, told = (link ^ 1, link) if self.per_link else (node, own)
        return Neighbours(first, node, edge, back, heard, told, link)

    def kept(self, name: str, make: Callable[[], AnyArray]) -> AnyArray:
        """An array of this round, made once (a run has one curvature, one quantiser)."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def weights(self, kind: str, curvature: Floats | None = None) -> Floats:
        """Edge weights of this round."""
        return self.kept(kind, lambda: edge_weights(kind, self.topology, curvature))

    @cached_property
    def trust(self) -> Floats:
        """1 / (degree + 1): what a node gives to each meeting around it."""
        return np.asarray(1.0 / (self.topology.degree + 1.0))

    @property
    def trust_by_entry(self) -> Floats:
        """The same of each neighbour, per entry."""
        return self.kept("trust by entry", lambda: self.trust[self.neighbours.node])

    @property
    def trust_around(self) -> Floats:
        """Sum of trust over a node's neighbours."""

        def add_up() -> Floats:
            rows = np.repeat(np.arange(self.topology.n), np.diff(self.neighbours.first))
            return np.asarray(np.bincount(rows, self.trust_by_entry, self.topology.n), dtype=np.float64)

        return self.kept("trust around", add_up)

    def entry_weights(self, kind: str) -> Floats:
        """The same per entry of the neighbours' lists."""
        return self.kept(f"{kind} by entry", lambda: self.weights(kind)[self.neighbours.edge])


@dataclass(frozen=True, eq=False)
class LinkBits:
    """Bits sent over each directed link that was used."""

    senders: Ints
    receivers: Ints
    bits: Ints

    @property
    def total(self) -> int:
        return int(self.bits.sum())


class Pairs:
    """Numbers pairs of nodes in the order they first meet. Pair p has two links: 2p from the smaller node, 2p + 1 back."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._keys = np.empty(0, dtype=np.int64)  # smaller * n + larger, sorted
        self._ids = np.empty(0, dtype=np.int64)  # the pair's number, in the order of the keys

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, keys: Ints) -> Ints:
        """Numbers of these pairs (sorted keys, each once), giving new ones to pairs never seen."""
        known = np.isin(keys, self._keys, assume_unique=True)
        if not known.all():
            new = keys[~known]
            ids = np.concatenate([self._ids, np.arange(len(self), len(self) + len(new))])
            merged = np.concatenate([self._keys, new])
            order = np.argsort(merged, kind="stable")
            self._keys, self._ids = merged[order], ids[order]
        return np.asarray(self._ids[np.searchsorted(self._keys, keys)])

    def find(self, keys: Ints) -> Ints:
        """Numbers of pairs that have met, in any order."""
        return np.asarray(self._ids[np.searchsorted(self._keys, keys)])

    def directed(self) -> tuple[Ints, Ints]:
        """Sender and receiver of each directed link that was ever used; rows 2p and 2p + 1 belong to pair p."""
        tails, heads = np.empty(len(self), dtype=np.int64), np.empty(len(self), dtype=np.int64)
        tails[self._ids], heads[self._ids] = self._keys // self.nodes, self._keys % self.nodes
        return np.column_stack([tails, heads]).ravel(), np.column_stack([heads, tails]).ravel()

    def memory(self) -> dict[str, Ints]:
        """What a checkpoint must keep."""
        return {"keys": self._keys, "ids": self._ids}

    def restore(self, memory: dict[str, Ints]) -> None:
        """Take up the numbering of a checkpoint."""
        self._keys, self._ids = memory["keys"], memory["ids"]


class Graphs(Protocol):
    """A network, or what one worker knows of it."""

    n: int
    period: int | None
    static: bool

    def topology(self, round: int) -> Topology: ...


class Links:
    """Lays out the slots of estimates for the pairs that meet."""

    def __init__(self, network: Graphs) -> None:
        self.nodes = network.n
        self.per_link = not network.static
        self._pairs = Pairs(network.n)
        self._rounds: dict[int, Round] = {}
        self._network = network

    @property
    def numbering(self) -> Pairs:
        """The pairs by number."""
        return self._pairs

    @property
    def pairs(self) -> int:
        """Pairs of nodes that have met so far."""
        return len(self._pairs)

    @property
    def slots(self) -> int:
        """Estimates kept so far."""
        return 2 * self.pairs if self.per_link else self.nodes

    def round(self, number: int) -> Round:
        """The edges and slots of one round; new pairs are numbered on the way."""
        period = self._network.period
        if period is not None and number % period in self._rounds:
            return self._rounds[number % period]
        made = self._lay_out(self._network.topology(number))
        if period is not None:
            self._rounds[number % period] = made
        return made

    def _lay_out(self, topology: Topology) -> Round:
        pair = self._pairs.number(topology.tails * self.nodes + topology.heads)
        if self.per_link:
            tail_slot, head_slot = 2 * pair, 2 * pair + 1
            slots = np.concatenate([tail_slot, head_slot])
            senders = np.concatenate([topology.tails, topology.heads])
        else:
            tail_slot, head_slot = topology.tails, topology.heads
            slots = senders = np.arange(self.nodes, dtype=np.int64)
        return Round(topology, pair, slots, senders, tail_slot, head_slot, self.per_link)

    def directed(self) -> tuple[Ints, Ints]:
        """Sender and receiver of each directed link that was ever used."""
        return self._pairs.directed()

    def memory(self) -> dict[str, Ints]:
        """What a checkpoint must keep."""
        return self._pairs.memory()

    def restore(self, memory: dict[str, Ints]) -> None:
        """Take up the numbering of a checkpoint."""
        self._pairs.restore(memory)
        self._rounds.clear()


@kernel
def adjacency(n: int, tails: Ints, heads: Ints) -> tuple[Ints, AnyArray, AnyArray, AnyArray]:
    """Every node's neighbours in ascending order, from edges sorted by (tail, head): first, node, edge, back."""
    edges = len(tails)
    first = np.zeros(n + 1, dtype=np.int64)
    for e in range(edges):
        first[tails[e] + 1] += 1
        first[heads[e] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    node, edge = np.empty(2 * edges, dtype=np.int32), np.empty(2 * edges, dtype=np.int32)
    back = np.empty(2 * edges, dtype=np.int32)
    filled, place = first[:-1].copy(), np.empty(edges, dtype=np.int32)
    for e in range(edges):  # smaller neighbours first: they are the tails of a node's edges
        i = heads[e]
        node[filled[i]], edge[filled[i]], place[e] = tails[e], e, filled[i]
        filled[i] += 1
    for e in range(edges):
        i = tails[e]
        node[filled[i]], edge[filled[i]] = heads[e], e
        back[filled[i]], back[place[e]] = place[e], filled[i]
        filled[i] += 1
    return first, node, edge, back
