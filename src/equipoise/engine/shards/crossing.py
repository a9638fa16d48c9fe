"""What crosses between shards in a round: which messages leave, for whom, and which are awaited from whom."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from equipoise.engine.shards.bits import copy_bits
from equipoise.engine.shards.region import Region
from equipoise.engine.shards.voice import hear, most_bits, speak
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import Channel, send
from equipoise.train.links import Round

Packets = dict[int, bytes]  # by shard
Talk = Generator[Packets, Packets, None]


@dataclass(frozen=True, eq=False)
class Crossing:
    """One round's messages, from one shard's side. Slots and senders are local; lists are in the same order at both ends."""

    slots: Ints  # that own nodes speak and somebody here hears, nobody elsewhere
    senders: Ints
    out_slots: Ints  # that own nodes speak and another shard hears
    out_senders: Ints
    to: dict[int, Ints]  # for each peer, which of those
    from_slots: dict[int, Ints]  # of each peer: what it speaks and somebody here hears
    from_senders: dict[int, Ints]
    edges: dict[int, Ints]  # edges between here and each peer
    own: AnyArray  # which local nodes are this shard's

    @property
    def peers(self) -> tuple[int, ...]:
        return tuple(self.to)


def crossing_of(region: Region, round: Round) -> Crossing:
    """Who must hear whom across shards in this round."""
    own, owner = region.own, region.owner
    tails, heads = round.topology.tails, round.topology.heads
    edges = {
        peer: np.flatnonzero((own[tails] & (owner[heads] == peer)) | (own[heads] & (owner[tails] == peer)))
        for peer in region.peers
    }
    if round.per_link:
        slots = np.concatenate([round.tail_slot, round.head_slot])
        senders, receivers = np.concatenate([tails, heads]), np.concatenate([heads, tails])
        leaves, comes = own[senders] & ~own[receivers], ~own[senders] & own[receivers]
        inner = own[senders] & own[receivers]
        reader, writer = owner[receivers], owner[senders]
        to = {peer: np.flatnonzero(reader[leaves] == peer) for peer in region.peers}
        heard = {peer: np.flatnonzero(comes & (writer == peer)) for peer in region.peers}
        return Crossing(
            slots[inner],
            senders[inner],
            slots[leaves],
            senders[leaves],
            to,
            {peer: slots[k] for peer, k in heard.items()},
            {peer: senders[k] for peer, k in heard.items()},
            edges,
            own,
        )
    needed = {peer: np.zeros(len(region), dtype=np.bool_) for peer in region.peers}
    for peer, crossing in edges.items():
        ends = np.concatenate([tails[crossing], heads[crossing]])
        needed[peer][ends] = True
    leaves = own & np.any(list(needed.values()), axis=0) if needed else np.zeros(len(region), dtype=np.bool_)
    out = np.flatnonzero(leaves)
    place = np.cumsum(leaves) - 1
    inner = np.flatnonzero(own & ~leaves)
    to = {peer: place[np.flatnonzero(ends & own)] for peer, ends in needed.items()}
    heard = {peer: np.flatnonzero(ends & (owner == peer)) for peer, ends in needed.items()}
    return Crossing(inner, inner, out, out, to, heard, dict(heard), edges, own)


Extra = Callable[[int, AnyArray, int], int]  # a peer, its packet's bytes, the cursor: the cursor behind what was added


def talk(
    channel: Channel,
    values: Floats,
    crossing: Crossing,
    repeats: Ints,
    number: int,
    flags: int = 0,
    *,
    extra_bits: int = 0,
    add: Extra | None = None,
    read: Extra | None = None,
) -> Talk:
    """Every own node speaks; what others must hear goes out, and theirs is heard. `add` and `read` put more into a packet,
    at most `extra_bits` a message."""
    wire = channel.wire
    inner = len(crossing.slots)
    send(wire, values, crossing.slots, crossing.senders, repeats, number, flags, 0, inner, wire.tally)
    count = len(crossing.out_slots)
    spoken = np.zeros(most_bits(channel, count) // 8 + 8, dtype=np.uint8)
    begins, ends = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    speak(wire, values, crossing.out_slots, crossing.out_senders, repeats, number, flags, spoken, begins, ends)
    packets: Packets = {}
    for peer, chosen in crossing.to.items():
        room = int((ends[chosen] - begins[chosen]).sum()) + extra_bits * len(chosen)
        packet = np.zeros(room // 8 + 9, dtype=np.uint8)
        cursor = copy_bits(spoken, begins, ends, chosen, packet, 0)
        if add is not None:
            cursor = add(peer, packet, cursor)
        packets[peer] = packet[: -(-cursor // 8)].tobytes()
    came = yield packets
    for peer, slots in crossing.from_slots.items():
        packet = readable(came[peer])
        cursor = hear(wire, slots, crossing.from_senders[peer], repeats, number, packet, 0)
        if read is not None:
            read(peer, packet, cursor)


def readable(packet: bytes) -> AnyArray:
    """A packet as the kernels read it."""
    return np.frombuffer(packet, dtype=np.uint8)
