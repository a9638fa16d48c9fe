"""The limiter between shards (the twin of train.limiter.limit): factors and cut amounts cross as they are counted."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from equipoise.engine.shards.bits import get, put
from equipoise.engine.shards.crossing import Crossing, Packets, readable
from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import AMOUNT_BITS, FACTOR_BITS, FULL, Promises, agreed, decide, promise
from equipoise.train.links import Round


def wide_boxes(low: Ints, high: Ints, ghosts: Ints) -> tuple[Ints, Ints]:
    """The same boxes, with all the room there can be at ghosts: they limit for themselves, and tell."""
    low, high = low.copy(), high.copy()
    low[ghosts], high[ghosts] = -NO_BOUND, NO_BOUND
    return low, high


def limited(
    wishes: Callable[[], Ints],
    round: Round,
    crossing: Crossing,
    shares: Ints,
    low: Ints,
    high: Ints,
    free: bool,
    bits_sent: Ints,
    link_bits: Ints,
) -> Generator[Packets, Packets, Ints | None]:
    """What moves along each edge; None: all that is wished for, no limit binds. `free`: none of an own node can."""
    tails, heads = round.topology.tails, round.topology.heads
    wanted = np.empty(0, dtype=np.int64)

    def promised() -> Promises:
        nonlocal wanted
        wanted = wishes()
        return promise(wanted, tails, heads, shares, low, high)

    promises = None if free else promised()
    came = yield _factors(crossing, promises)
    told = {peer: readable(packet) for peer, packet in came.items()}
    if promises is None and any(packet.any() for packet in told.values()):
        promises = promised()
    cut_push = cut_pull = np.zeros(len(shares), dtype=np.int64)
    if promises is not None:
        for slots, senders in ((crossing.slots, crossing.senders), (crossing.out_slots, crossing.out_senders)):
            _count(slots, senders, promises, bits_sent)
        for peer, packet in told.items():
            _hear_factors(crossing.from_senders[peer], packet, promises)
        cut_push, cut_pull = decide(promises, wanted, round.pair, shares, low, high, link_bits)
    came = yield _amounts(crossing, promises, cut_push, cut_pull)
    told = {peer: readable(packet) for peer, packet in came.items()}
    if promises is None and any(packet.any() for packet in told.values()):
        promises = promised()
        decide(promises, wanted, round.pair, shares, low, high, link_bits)
    if promises is None:
        return None
    for peer, packet in told.items():
        _hear_amounts(crossing.edges[peer], packet, crossing.own, promises)
    return agreed(promises, wanted)


def _factors(crossing: Crossing, promises: Promises | None) -> Packets:
    packets: Packets = {}
    for peer, chosen in crossing.to.items():
        packet = np.zeros(len(chosen) * (1 + 2 * FACTOR_BITS) // 8 + 9, dtype=np.uint8)
        cursor = len(chosen)
        if promises is not None:
            cursor = _tell_factors(crossing.out_senders[chosen], promises, packet)
        packets[peer] = packet[: -(-cursor // 8)].tobytes()
    return packets


@kernel
def _tell_factors(senders: Ints, promises: Promises, packet: AnyArray) -> int:
    """A bit whether a node limits anything, and two factors if it does."""
    cursor = 0
    for i in senders:
        limits = min(promises.can_give[i], promises.can_take[i]) < FULL
        cursor = put(packet, cursor, 1 if limits else 0, 1)
        if limits:
            cursor = put(packet, cursor, promises.can_give[i], FACTOR_BITS)
            cursor = put(packet, cursor, promises.can_take[i], FACTOR_BITS)
    return cursor


@kernel
def _hear_factors(senders: Ints, packet: AnyArray, promises: Promises) -> None:
    cursor = 0
    for i in senders:
        limits = get(packet, cursor, 1) == 1
        cursor += 1
        promises.can_give[i] = promises.can_take[i] = FULL
        if limits:
            promises.can_give[i] = get(packet, cursor, FACTOR_BITS)
            promises.can_take[i] = get(packet, cursor + FACTOR_BITS, FACTOR_BITS)
            cursor += 2 * FACTOR_BITS


@kernel
def _count(slots: Ints, senders: Ints, promises: Promises, bits_sent: Ints) -> None:
    for k in range(len(slots)):
        i = senders[k]
        bits_sent[slots[k]] += 2 * FACTOR_BITS if min(promises.can_give[i], promises.can_take[i]) < FULL else 0


def _amounts(crossing: Crossing, promises: Promises | None, cut_push: Ints, cut_pull: Ints) -> Packets:
    packets: Packets = {}
    for peer, edges in crossing.edges.items():
        packet = np.zeros(len(edges) * (1 + AMOUNT_BITS) // 8 + 9, dtype=np.uint8)
        cursor = len(edges)
        if promises is not None:
            cursor = _tell_amounts(edges, crossing.own, promises, cut_push, cut_pull, packet)
        packets[peer] = packet[: -(-cursor // 8)].tobytes()
    return packets


@kernel
def _tell_amounts(
    edges: Ints, own: AnyArray, promises: Promises, cut_push: Ints, cut_pull: Ints, packet: AnyArray
) -> int:
    """Of each edge that crosses: a bit whether the own end's part was cut, and what is left of it if it was."""
    cursor = 0
    for e in edges:
        gives = own[promises.givers[e]]
        cut = cut_push[promises.givers[e]] < 0 if gives else cut_pull[promises.takers[e]] < 0
        cursor = put(packet, cursor, 1 if cut else 0, 1)
        if cut:
            cursor = put(packet, cursor, promises.push[e] if gives else promises.pull[e], AMOUNT_BITS)
    return cursor


@kernel
def _hear_amounts(edges: Ints, packet: AnyArray, own: AnyArray, promises: Promises) -> None:
    cursor = 0
    for e in edges:
        cut = get(packet, cursor, 1) == 1
        cursor += 1
        if cut:
            amount = get(packet, cursor, AMOUNT_BITS)
            cursor += AMOUNT_BITS
            if own[promises.givers[e]]:
                promises.pull[e] = amount
            else:
                promises.push[e] = amount
