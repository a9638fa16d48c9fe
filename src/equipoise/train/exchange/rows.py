"""Everything arrives: a node says a row of numbers to all its neighbours of the round at once.

A dynamics over rows is a generator per round. What it yields has been said; when it goes on, it has been heard. In one
process there is nothing to do in between; workers hand over the rows that others hear (engine/sharded.py).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, Protocol

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import (
    FINEST,
    NUMBERS,
    SATURATED,
    UNDERFLOWED,
    bits_per_number,
    first_floor,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.network import Network
from equipoise.train.quantize import EXACT, FLOAT_BITS, Coder, Quantizer, decode_one, encode_one, uniform_coder
from equipoise.train.topology import edge_weights

SINGLE_BITS = 32  # of a number where no link returns: there is nothing that both ends remember
LONG_BITS = 48  # of one whose rounding would jitter at bounds: a float without its last 16 bits
DEGREE_BITS = 8  # more where a node can have more than 255 neighbours
PLAIN, SINGLE, CODED, NODEWISE = 0, 1, 2, 3
MANY = 1 << 21  # pairs that are noted before they are added up


class Near(NamedTuple):
    """A graph as every node sees it: entries first[i]..first[i+1] are node i's neighbours, in ascending order."""

    first: Ints
    node: AnyArray  # the neighbour
    back: AnyArray  # the same link among the neighbour's entries
    edge: AnyArray  # the edge's number in the graph
    degree: Ints


class Site:
    """The nodes that live in one process, all or some, and who meets whom in each round."""

    def __init__(self, network: Network, own: Ints | None = None) -> None:
        self.network, self.n = network, network.n
        self.own: Ints = np.arange(network.n) if own is None else own
        self.whole = len(self.own) == network.n
        self._kept: dict[tuple[int, str], Any] = {}
        self._latest = -1
        graphs = [id(network.topology(k)) for k in range(network.period or 0)]
        first = {graph: graphs.index(graph) for graph in dict.fromkeys(graphs)}
        self.rounds = list(first.values())  # those in which each graph is met first
        self._book = [self.rounds.index(first[graph]) for graph in graphs]

    @property
    def books(self) -> int:
        """Different graphs that return; 1 where none does."""
        return max(1, len(self.rounds))

    def turn(self, number: int) -> int:
        """Which of the books this round uses."""
        return self._book[number % len(self._book)] if self._book else 0

    def first(self, number: int) -> bool:
        """Whether the graph of this round was never met before."""
        return not self._book or number == self.rounds[self.turn(number)]

    def near(self, number: int) -> Near:
        """Who meets whom in this round."""

        def make() -> Near:
            graph = self.network.topology(number)
            first, node, edge, back = adjacency(self.n, graph.tails, graph.heads)
            return Near(first, node, back, edge, graph.degree)

        found: Near = self._made(number, "near", make)
        return found

    def entries(self, number: int) -> Ints:
        """Entries of nodes that live here."""

        def make() -> Ints:
            first = self.near(number).first
            if self.whole:
                return np.arange(first[-1])
            return np.concatenate([np.arange(first[i], first[i + 1]) for i in self.own] or [np.empty(0, np.int64)])

        found: Ints = self._made(number, "entries", make)
        return found

    def keys(self, number: int) -> Ints:
        """The same entries, as sender x n + receiver."""

        def make() -> Ints:
            graph = self.network.topology(number)
            ways = np.concatenate([graph.tails * self.n + graph.heads, graph.heads * self.n + graph.tails])
            ways.sort()
            return ways if self.whole else ways[np.isin(ways // self.n, self.own)]

        found: Ints = self._made(number, "keys", make)
        return found

    def weights(self, number: int, kind: str) -> Floats:
        """Weights of all entries."""

        def make() -> Floats:
            return edge_weights(kind, self.network.topology(number))[self.near(number).edge]

        found: Floats = self._made(number, kind, make)
        return found

    def turn_to(self, number: int) -> None:
        """A new round: where no graph returns, what was made of the last is forgotten. Before halves play side by side."""
        if self.network.period is None and number != self._latest:
            self._kept, self._latest = {}, number

    def _made(self, number: int, what: str, make: Any) -> Any:
        """Once for each graph that returns; else of the latest round only."""
        self.turn_to(number)
        key = (number if self.network.period is None else self.turn(number), what)
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def degree_bits(self) -> int:
        return max(DEGREE_BITS, (self.n - 1).bit_length())


class Said(Protocol):
    """Something that has been said: rows by node, or amounts by link, as workers hand them over."""

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes | None:
        """What is heard of these own nodes along these own entries; None where both ends know that there is nothing."""

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        """The same of nodes that live elsewhere, along their entries."""


Round = Generator[tuple[Said, ...], None, bool]


class Voice:
    """One stream of numbers, `width` of each node: plain, as singles, in codes of their change, or in the paper's codes.

    heard[book, node] is what everybody who meets the node in that graph believes of it. Codes of changes need a graph that
    returns: both ends remember what was said in it last. Where none does, numbers are singles.
    """

    def __init__(
        self, site: Site, quantizer: Quantizer, width: int, *, finest: float = 1.0, short: int = SINGLE_BITS
    ) -> None:
        """`finest`: the relative error that codes of changes must keep below, whatever rho allows; `short`: bits of a number
        where no graph returns."""
        self.site, self.width = site, width
        self.coder, self.edge_coder = quantizer.coder(), None
        self.kind, self.code_bits = NODEWISE, quantizer.bits
        if self.coder.kind == EXACT:
            self.kind = PLAIN
        elif quantizer.mode == "edge":  # differences are quantised where the flow is made
            self.kind, self.edge_coder = PLAIN, self.coder
        elif quantizer.mode == "innovation":
            self.kind = SINGLE if site.network.period is None else CODED
            needed = int(np.ceil(-np.log2(finest) - 1.0)) if finest < 1.0 else 0
            self.mantissa = min(FINEST, max(mantissa_bits(quantizer), needed))
            self.code_bits = short if self.kind == SINGLE else bits_per_number(self.mantissa)
        books = site.books if self.kind == CODED else 1
        self.heard = np.zeros((books, site.n, width))
        self.floors: Ints = np.zeros((books, site.n), dtype=np.int64)
        self.codes: Ints = np.zeros((0 if site.whole else site.n, width), dtype=np.int64)
        self.tally: Ints = np.zeros(3, dtype=np.int64)

    def at(self, number: int) -> Floats:
        """What everybody believes of every node in this round's graph."""
        rows: Floats = self.heard[self._book(number)]
        return rows

    def _book(self, number: int) -> int:
        return self.site.turn(number) if self.kind == CODED else 0

    def _plain(self, number: int) -> bool:
        return self.kind == PLAIN or (self.kind == CODED and self.site.first(number))

    def say(self, values: Floats, number: int) -> None:
        """Own nodes speak."""
        rows, own = self.at(number), self.site.own
        self.tally[NUMBERS] += values.size
        if self._plain(number):
            rows[own] = values
            if self.kind == CODED:
                self._first_floors(number, own)
        elif self.kind == SINGLE:
            rows[own] = rounded(values, self.code_bits)
        elif self.kind == CODED:
            _say_changes(rows, self.floors[self._book(number)], values, own, self.mantissa, self.codes)
        else:
            _say_codes(self.coder, values, own, rows, self.codes, self.tally)

    def _first_floors(self, number: int, nodes: Ints) -> None:
        rows, floors = self.at(number), self.floors[self._book(number)]
        for i in nodes:
            floors[i] = first_floor(rows[i], self.mantissa)

    def bits(self, number: int) -> int:
        """Of one node's message in this round."""
        each = FLOAT_BITS if self._plain(number) and self.edge_coder is None else self.code_bits
        return each * self.width

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes:
        rows = self.at(number)[nodes]
        if self._plain(number):
            return rows.tobytes()
        if self.kind == SINGLE:
            return rows.astype(np.float32).tobytes() if self.code_bits == SINGLE_BITS else _cut_short(rows)
        return packed(self.codes[nodes], self.code_bits)

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        rows, shape = self.at(number), (len(nodes), self.width)
        if self._plain(number):
            rows[nodes] = np.frombuffer(packet).reshape(shape)
            if self.kind == CODED:
                self._first_floors(number, nodes)
        elif self.kind == SINGLE:
            single = self.code_bits == SINGLE_BITS
            rows[nodes] = (np.frombuffer(packet, dtype=np.float32) if single else _made_long(packet)).reshape(shape)
        else:
            codes = unpacked(packet, shape[0] * shape[1], self.code_bits).reshape(shape)
            if self.kind == CODED:
                _hear_changes(rows, self.floors[self._book(number)], codes, nodes, self.mantissa)
            else:
                _hear_codes(self.coder, codes, nodes, rows)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep, of own nodes."""
        heard = self.heard[:, self.site.own]
        return {"heard": heard[:, :, 0] if self.width == 1 else heard, "floors": self.floors[:, self.site.own]}

    def restore(self, heard: AnyArray, floors: AnyArray) -> None:
        """Of all nodes."""
        self.heard[:], self.floors[:] = heard.reshape(self.heard.shape), floors


class Delivered:
    """Numbers of each node as they are, for what must be exact: 64 bits each, whenever two meet first in a graph."""

    def __init__(self, site: Site, own: Floats) -> None:
        self.rows = np.zeros((site.n, own.shape[1]))
        self.rows[site.own] = own

    @property
    def bits(self) -> int:
        return FLOAT_BITS * self.rows.shape[1]

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes:
        return self.rows[nodes].tobytes()

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        self.rows[nodes] = np.frombuffer(packet).reshape(len(nodes), -1)


class Codes:
    """Small whole numbers of each node."""

    def __init__(self, site: Site, width: int) -> None:
        self.rows: Ints = np.zeros((site.n, width), dtype=np.int64)

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes:
        return self.rows[nodes].astype(np.int16).tobytes()

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        self.rows[nodes] = np.frombuffer(packet, dtype=np.int16).reshape(len(nodes), -1)


class Amounts:
    """Whole numbers along links: each node's own, by entry."""

    def __init__(self, count: int) -> None:
        self.by_entry: Ints = np.zeros(count, dtype=np.int64)

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes:
        return self.by_entry[entries].tobytes()

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        self.by_entry[entries] = np.frombuffer(packet, dtype=np.int64)


class Meter:
    """Bits that own nodes have sent over each link."""

    def __init__(self, site: Site) -> None:
        self.site, self.total = site, 0
        self._each: dict[int, int] = {}
        self._entries: dict[int, Ints] = {}
        self._loose: list[tuple[Ints, Ints]] = []
        self._noted = 0

    def add(self, number: int, each: int, entries: Ints | None = None) -> None:
        """So many bits over every link of this round's graph, and what single entries carried beside."""
        site = self.site
        keys, more = site.keys(number), None if entries is None else entries[site.entries(number)]
        self.total += each * len(keys) + (0 if more is None else int(more.sum()))
        if site.network.period is None:
            self._note(keys, _carried(len(keys), each, more))
            return
        t = site.turn(number)
        self._each[t] = self._each.get(t, 0) + each
        if more is not None:
            self._entries[t] = self._entries.get(t, 0) + more

    def _note(self, keys: Ints, bits: Ints) -> None:
        self._loose.append((keys, bits))
        self._noted += len(keys)
        if self._noted > MANY:
            self._loose = [added_up(self._loose)]
            self._noted = len(self._loose[0][0]) // 2  # as many again may come before it is done again

    def pairs(self) -> tuple[Ints, Ints]:
        """Links as sender x n + receiver, ascending, and the bits of each."""
        found = list(self._loose)
        for t, each in self._each.items():
            keys = self.site.keys(self.site.rounds[t])
            found.append((keys, _carried(len(keys), each, self._entries.get(t))))
        return added_up(found)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return dict(zip(("pairs/keys", "pairs/bits"), self.pairs(), strict=True))

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint of the whole network."""
        keys, bits = memory["pairs/keys"], memory["pairs/bits"]
        here = np.isin(keys // self.site.n, self.site.own)
        self._each, self._entries, self._loose = {}, {}, [(keys[here], bits[here])]
        self.total = int(bits[here].sum())


def _carried(count: int, each: int, more: Ints | None) -> Ints:
    bits: Ints = np.full(count, each, dtype=np.int64)
    return bits if more is None else bits + more


def added_up(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Bits by key, each key once."""
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([part[0] for part in parts] or [np.empty(0, dtype=np.int64)])
    bits = np.concatenate([part[1] for part in parts] or [np.empty(0, dtype=np.int64)])
    keys, place = np.unique(keys, return_inverse=True)
    total: Ints = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, place, bits)
    return keys, total


def flood(meter: Meter, values: Floats) -> None:
    """Agree on the largest value: every link carries a float in each round until all know it."""
    known, number, site = values.copy(), 0, meter.site
    while known.min() < values.max():
        meter.add(number, FLOAT_BITS)
        graph, heard = site.network.topology(number), known.copy()
        np.maximum.at(heard, graph.heads, known[graph.tails])
        np.maximum.at(heard, graph.tails, known[graph.heads])
        known, number = heard, number + 1


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


@kernel
def _say_changes(rows: Floats, floors: Ints, values: Floats, own: Ints, mantissa: int, codes: Ints) -> None:
    """Each number moves by the nearest code of its change; a row has one floor."""
    for r in range(len(own)):
        i, largest = own[r], 0
        floor = floors[i]
        for c in range(values.shape[1]):
            change = values[r, c] - rows[i, c]
            code = quantise(change, floor, mantissa)
            largest = max(largest, code)
            rows[i, c] += value(code, floor, mantissa, change)
            if len(codes):
                codes[i, c] = code if change >= 0.0 else -code
        floors[i] = moved_floor(floor, largest, mantissa)


@kernel
def _hear_changes(rows: Floats, floors: Ints, codes: Ints, nodes: Ints, mantissa: int) -> None:
    """What a receiver elsewhere does: the same additions as the sender made."""
    for q in range(len(nodes)):
        i, largest = nodes[q], 0
        floor = floors[i]
        for c in range(codes.shape[1]):
            code = codes[q, c]
            largest = max(largest, abs(code))
            rows[i, c] += value(abs(code), floor, mantissa, float(code))
        floors[i] = moved_floor(floor, largest, mantissa)


@kernel
def _say_codes(coder: Coder, values: Floats, own: Ints, rows: Floats, codes: Ints, tally: Ints) -> None:
    """Without memory: q(v) itself."""
    for r in range(len(own)):
        for c in range(values.shape[1]):
            code = encode_one(coder, values[r, c])
            tally[UNDERFLOWED] += code == 0 and values[r, c] != 0.0
            tally[SATURATED] += abs(code) > coder.top
            code = min(max(code, -coder.top), coder.top)
            rows[own[r], c] = decode_one(coder, code)
            if len(codes):
                codes[own[r], c] = code


@kernel
def _hear_codes(coder: Coder, codes: Ints, nodes: Ints, rows: Floats) -> None:
    for q in range(len(nodes)):
        for c in range(codes.shape[1]):
            rows[nodes[q], c] = decode_one(coder, codes[q, c])


@kernel
def quantise_counted(coder: Coder, number: float, tally: Ints) -> float:
    """q(v) of a difference, in edge mode, counting what leaves the range."""
    code = encode_one(coder, number)
    tally[UNDERFLOWED] += code == 0 and number != 0.0
    tally[SATURATED] += abs(code) > coder.top
    return decode_one(coder, min(max(code, -coder.top), coder.top))


def rounded(values: Floats, bits: int) -> Floats:
    """Numbers as a short float holds them."""
    if bits == SINGLE_BITS:
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(np.float64)
    whole = np.ascontiguousarray(values).view(np.int64)
    return ((whole + (1 << 15)) & ~0xFFFF).view(np.float64)


def _cut_short(rows: Floats) -> bytes:
    return np.ascontiguousarray(rows).view(np.uint8).reshape(-1, 8)[:, 2:].tobytes()


def _made_long(packet: bytes) -> Floats:
    whole = np.zeros((len(packet) // 6, 8), dtype=np.uint8)
    whole[:, 2:] = np.frombuffer(packet, dtype=np.uint8).reshape(-1, 6)
    return whole.view(np.float64).ravel()


NO_CODER = uniform_coder(EXACT, 1.0, 0)


def packed(codes: AnyArray, width: int, signed: bool = True) -> bytes:
    """Whole numbers in so many bits each; of a signed one the first bit is its sign."""
    values = np.asarray(codes, dtype=np.int64).ravel()
    if signed:
        values = np.abs(values) | ((values < 0).astype(np.int64) << (width - 1))
    return np.packbits(((values[:, None] >> np.arange(width)) & 1).astype(np.uint8)).tobytes()


def unpacked(packet: bytes, count: int, width: int, signed: bool = True) -> Ints:
    """The same numbers again."""
    bits = np.unpackbits(np.frombuffer(packet, dtype=np.uint8), count=count * width)
    values = bits.reshape(count, width).astype(np.int64) @ (1 << np.arange(width))
    if not signed:
        return np.asarray(values)
    size = values & ((1 << (width - 1)) - 1)
    return np.asarray(np.where(values >> (width - 1), -size, size))
