"""A round on a hostile network as one worker plays it: gifts and models are given, packets cross, and what arrives is taken.

Which packets are lost and how long each takes follows from the same draws at both ends: what is lost is not sent at all.
Bytes between workers are the counted bits of what arrives, rounded up to a byte for each peer; a packet that others pass on
counts once for every link it passes, and crosses once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equipoise.engine.shards.crossing import Packets
from equipoise.engine.shards.hostile_packets import OUT_OF_STEP, read_packets, write_packets
from equipoise.engine.shards.region import Region
from equipoise.errors import Failure
from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.hostile.ledger import SCALE_BITS, SUM_BITS, Ledger, scale_code, scale_of
from equipoise.train.hostile.mail import NEVER, SEQUENCE_BITS, Mail
from equipoise.train.hostile.push_pull import PushPull
from equipoise.train.hostile.pushed import Pushed
from equipoise.train.hostile.traffic import Traffic
from equipoise.train.quantize import FLOAT_BITS

if TYPE_CHECKING:
    from equipoise.engine.shards.hostile_state import HostileShard

NOTHING_MORE = np.empty(0, dtype=np.int64)
LEDGER_WIDTHS = np.array([SUM_BITS, SUM_BITS, SCALE_BITS], dtype=np.int64)
WEIGHT_WIDTHS = np.array([FLOAT_BITS], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Lane:
    """The packets of one mail in one round; entries are in the order of links, which both ends share."""

    mail: Mail
    traffic: Traffic
    open_: AnyArray  # entries that are in the books, in the traffic's own order
    going: AnyArray  # entries that hand over a packet
    mine: AnyArray  # entries with an own sender
    halves: tuple[Ledger | PushPull, ...]
    hops: Ints
    rounds: Ints

    def crossing(self, region: Region, peers: tuple[int, ...], number: int) -> tuple[dict[int, Ints], dict[int, Ints]]:
        """Entries whose packet leaves for each peer and will arrive, and those whose packet comes from each."""
        order, link, senders, receivers = self.traffic.by_link
        arrives = self.going[order] & (self.mail.due[number % self.mail.window, link] != NEVER)
        source, target = region.owner[senders], region.owner[receivers]
        leaves = np.flatnonzero(arrives & (source == region.shard) & (target != region.shard))
        comes = np.flatnonzero(arrives & (source != region.shard) & (target == region.shard))
        there, here = target[leaves], source[comes]
        return ({peer: leaves[there == peer] for peer in peers}, {peer: comes[here == peer] for peer in peers})


def hostile_round(state: HostileShard, region: Region, number: int) -> Generator[Packets, Packets, str | None]:
    """One round of both halves; the name of what diverged here, or None."""
    cpu, learning, own = state.allocation, state.learning, region.own
    traffic = state.meet_round(number)
    peers = state.peers
    acting = state.timetable.acting(number, state.members.alive)
    mine = acting & own
    if state.coupling is not None and learning is not None and cpu is not None:
        shares = np.where(state.members.alive, cpu.shares, 0)
        learning.sampler.batch = state.coupling.cost.batches(cpu.market.grid.floats(shares), number + 1)
        state.spent.append(int(shares[own].sum()))
    lanes = _lanes(state, traffic, number, acting, own)
    ghosts = None if cpu is None else (cpu.shares[~own], cpu.escrow[~own])
    fine = {"shares": True, "models": True}
    for lane in lanes:
        for half in lane.halves:
            name = "shares" if isinstance(half, Ledger) else "models"
            fine[name] = half.give(lane.traffic, number, mine, lane.going & lane.mine, lane.open_)
        lane.mail.send(lane.traffic, number, lane.going, lane.hops, lane.rounds, counted=lane.mine)
    crossings = [lane.crossing(region, peers, number) for lane in lanes]
    came = yield {
        peer: _packed([(lane, leaves[peer]) for lane, (leaves, _) in zip(lanes, crossings, strict=True)], number)
        for peer in peers
    }
    for peer in peers:
        awaited = [(lane, comes[peer]) for lane, (_, comes) in zip(lanes, crossings, strict=True)]
        _unpack(awaited, number, came.get(peer, b""), peer)
    for lane in lanes:
        lane.mail.deliver(lane.traffic, number, lane.going)
    if all(fine.values()):
        if cpu is not None:
            fine["shares"] = cpu.take(state.receivers, mine)
        if learning is not None:
            fine["models"] = learning.take(state.receivers, mine | ~own, number)  # neighbours have no gradient anyway
            if state.coupling is not None:
                state.coupling.after(learning.sampler)
    if cpu is not None and ghosts is not None:  # what neighbours hold is not known here
        cpu.shares[~own], cpu.escrow[~own] = ghosts
    return None if all(fine.values()) else "models" if fine["shares"] else "shares"


def _lanes(state: HostileShard, traffic: Traffic, number: int, acting: AnyArray, own: AnyArray) -> list[Lane]:
    """One for both halves; where links are one-way and CPU needs answers, one for each."""
    cpu, learning = state.allocation, state.learning

    def lane(mail: Mail, traffic: Traffic, hops: Ints, rounds: Ints, *halves: Ledger | PushPull | None) -> Lane:
        open_ = state.members.open(traffic.senders, traffic.receivers)
        present = tuple(half for half in halves if half is not None)
        return Lane(mail, traffic, open_, open_ & acting[traffic.senders], own[traffic.senders], present, hops, rounds)

    passing = state._passing
    if state.cpu_mail is state.mail:
        return [lane(state.mail, traffic, passing, passing, cpu, learning)]
    hops, rounds = state._ways
    around = lane(state.cpu_mail, state.cpu_roads.traffic(number), hops, rounds[number % len(rounds)], cpu)
    return [around] if learning is None else [around, lane(state.mail, traffic, passing, passing, learning)]


def _packed(parts: list[tuple[Lane, Ints]], number: int) -> bytes:
    """All packets for one peer, bit by bit."""
    most = sum(
        len(chosen) * (SEQUENCE_BITS + int(_widths(half).sum()) + max(FLOAT_BITS, half.post.bits) * half.post.width)
        for lane, chosen in parts
        for half in lane.halves
    )
    buffer, cursor = np.zeros(most // 8 + 1, dtype=np.uint8), 0
    for lane, chosen in parts:
        _, link, senders, _ = lane.traffic.by_link
        mail = lane.mail
        for half in lane.halves:
            post, (own, each) = half.post, _said(half)
            cursor = write_packets(
                chosen,
                senders,
                link,
                number,
                mail.acked,
                mail.number,
                mail.ack,
                own,
                each,
                post.coder,
                post.innovation,
                post.bits,
                post.said,
                post.unit,
                _extra(half, number, senders[chosen], link[chosen]),
                _widths(half),
                buffer,
                cursor,
            )
    return buffer[: -(-cursor // 8)].tobytes()


def _unpack(parts: list[tuple[Lane, Ints]], number: int, packet: bytes, peer: int) -> None:
    """Everything one peer sent in this round."""
    buffer, cursor = np.frombuffer(packet, dtype=np.uint8), 0
    for lane, chosen in parts:
        _, link, senders, _ = lane.traffic.by_link
        for half in lane.halves:
            post, widths = half.post, _widths(half)
            extra = np.empty((len(chosen), len(widths)), dtype=np.int64)
            least = cursor + len(chosen) * (SEQUENCE_BITS + int(widths.sum()) + min(post.bits, FLOAT_BITS) * post.width)
            if least <= 8 * len(buffer):
                cursor = read_packets(
                    chosen,
                    link,
                    number,
                    lane.mail.ack,
                    post.of_nodes,
                    post.coder,
                    post.innovation,
                    post.bits,
                    post.said,
                    post.unit,
                    extra,
                    widths,
                    buffer,
                    cursor,
                )
            if cursor == OUT_OF_STEP or max(least, cursor) > 8 * len(buffer):
                raise Failure(f"round {number}: shard {peer} sent {len(packet)} bytes that are not of this round")
            _keep(half, number, senders[chosen], link[chosen], extra)
    if len(packet) != -(-cursor // 8):
        raise Failure(f"round {number}: shard {peer} sent {len(packet)} bytes, of which {-(-cursor // 8)} were awaited")


# what a half says besides codes


def _said(half: Ledger | PushPull) -> tuple[Floats, Floats]:
    """What `Post.say` was given: numbers of nodes, and of links."""
    return (half.models, half.given) if isinstance(half, PushPull) else (half.prices, half._nothing)


def _widths(half: Ledger | PushPull) -> Ints:
    if isinstance(half, PushPull):
        return NOTHING_MORE
    return WEIGHT_WIDTHS if isinstance(half, Pushed) else LEDGER_WIDTHS


def _extra(half: Ledger | PushPull, number: int, senders: Ints, links: Ints) -> Ints:
    """Running sums and scales, or weights, as whole numbers: a row for each packet."""
    if isinstance(half, PushPull):
        return np.empty((len(links), 0), dtype=np.int64)
    if isinstance(half, Pushed):
        return np.asarray(half.weights[number % len(half.weights), senders].view(np.int64)[:, None])
    slot = number % len(half.sent_in)
    return np.column_stack([half.sent_in[slot, links], half.got_in[slot, links], _codes(half.worth_in[slot, links])])


def _keep(half: Ledger | PushPull, number: int, senders: Ints, links: Ints, extra: Ints) -> None:
    """The other end of `_extra`."""
    if isinstance(half, PushPull):
        return
    if isinstance(half, Pushed):
        half.weights[number % len(half.weights), senders] = extra[:, 0].copy().view(np.float64)
        return
    slot = number % len(half.sent_in)
    half.sent_in[slot, links], half.got_in[slot, links] = extra[:, 0], extra[:, 1]
    half.worth_in[slot, links] = _scales(extra[:, 2])


@kernel
def _codes(scales: Floats) -> Ints:
    found = np.empty(len(scales), dtype=np.int64)
    for k in range(len(scales)):
        found[k] = scale_code(scales[k])
    return found


@kernel
def _scales(codes: Ints) -> Floats:
    found = np.empty(len(codes))
    for k in range(len(codes)):
        found[k] = scale_of(codes[k])
    return found
