"""What `prices` and `summed` hand over where neighbours live with another worker: the codes that are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.kernels import Bools, Floats, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.dynamics._price_kernels import CHANGED, DECIDED, LIMITED, decide, hear_codes
from equipoise.train.dynamics._sum_kernels import hear_rows
from equipoise.train.exchange.rows import packed, unpacked

if TYPE_CHECKING:
    from equipoise.train.dynamics.prices import Prices
    from equipoise.train.dynamics.summed import Summed

PART_WIDTH = 10  # bits of a part: 4 of a, 6 of s


class PriceRows:
    """Prices, elasticities that changed, and the parts that rows at a bound can bear."""

    def __init__(self, half: Prices) -> None:
        self.half = half

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes:
        half, t = self.half, number % self.half.layout.graphs
        talk, boxes, rows = half.talk, half.boxes, half.layout.row[nodes]
        out = [talk.price[t, rows].tobytes() if self.half.plain(number) else packed(talk.codes[rows], half.code_bits)]
        changed = np.isin(rows, talk.changed[: talk.news[CHANGED]])
        limited = np.isin(rows, talk.limited[: talk.news[LIMITED]])
        out += [np.packbits(changed).tobytes(), np.packbits(limited).tobytes() if half.rule.boxed else b""]
        out.append(talk.elastic[t, rows[changed]].astype(np.int16).tobytes())
        both = np.concatenate([boxes.out_part[rows[limited]], boxes.in_part[rows[limited]]], axis=1)
        out.append(packed(both.ravel()[::2] * 64 + both.ravel()[1::2], PART_WIDTH, signed=False))
        return b"".join(out)

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        half, t, reader = self.half, number % self.half.layout.graphs, Reader(packet)
        talk, boxes, news, rows = half.talk, half.boxes, half.talk.news, half.layout.row[nodes]
        if self.half.plain(number):
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
        talk.changed[news[CHANGED] : news[CHANGED] + len(changed)] = changed
        talk.limited[news[LIMITED] : news[LIMITED] + len(limited)] = limited
        news[CHANGED] += len(changed)
        news[LIMITED] += len(limited)


class Decided:
    """What moves between a row that holds back and a neighbour that does not: the first tells the other."""

    def __init__(self, half: Prices, number: int) -> None:
        self.half, self.t = half, number % half.layout.graphs
        layout, talk, boxes = half.layout, half.talk, half.boxes
        self.limited = np.zeros(layout.rows, dtype=np.bool_)
        if talk.news[LIMITED]:
            decide(half.rule, layout.paths, talk, boxes, half.node.shares, half.weights[self.t].reshape(-1), self.t)
            talk.news[DECIDED] = 1
            self.limited = (boxes.flags & 1).astype(np.bool_)

    def _between(self, entries: Ints, ours: bool) -> Ints:
        """Of these links those whose one end, ours or theirs, holds back, and the other does not."""
        layout, paths = self.half.layout, self.half.layout.paths
        if not ours:
            entries = layout.reverse(self.t, entries)
        mine = layout.own_entries(self.t, entries)
        owner, node = self.limited[paths.owner[self.t, mine]], self.limited[paths.node[self.t, mine]]
        return np.asarray(mine[owner & ~node if ours else node & ~owner])

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes | None:
        rows = self.half.layout.row[np.concatenate([nodes, self.half.layout.peers_of(self.t, entries)])]
        if not self.limited[rows].any():
            return None  # both ends know that there is nothing to tell
        return self.half.boxes.moved[self._between(entries, ours=True)].tobytes()

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        half, paths = self.half, self.half.layout.paths
        heard = self._between(entries, ours=False)
        half.boxes.abroad[paths.back[self.t, heard] - paths.links[self.t]] = np.frombuffer(packet, dtype=np.int64)


class ModelRows:
    """Models times their weight."""

    def __init__(self, half: Summed) -> None:
        self.half = half

    def pack(self, number: int, nodes: Ints, entries: Ints) -> bytes:
        half, t, rows = self.half, number % self.half.layout.graphs, self.half.layout.row[nodes]
        if self.half.plain(number):
            return bytes(half.table.said[t, rows].tobytes())
        return packed(half.table.codes[rows], half.code_bits)

    def unpack(self, number: int, nodes: Ints, entries: Ints, packet: bytes) -> None:
        half, t, rows = self.half, number % self.half.layout.graphs, self.half.layout.row[nodes]
        shape = (len(rows), half.model.size)
        if self.half.plain(number):
            half.table.said[t, rows] = np.frombuffer(packet).reshape(shape)
            half.set_first_floors(t, rows)
        else:
            hear_rows(unpacked(packet, shape[0] * shape[1], half.code_bits).reshape(shape), rows, half.table, t)


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
        return unpacked(self._take(-(-count * width // 8)), count, width, signed)
