"""A round of the CPU half by markets, on one shard (the twin of train.trade.trade)."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from equipoise.engine.shards.bits import get, put
from equipoise.engine.shards.crossing import Crossing, Packets, talk
from equipoise.engine.shards.limiting import limited, wide_boxes
from equipoise.engine.shards.region import Region
from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs._kernels import answer, steepness
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS
from equipoise.train.links import Round
from equipoise.train.trade import (
    ELASTICITY_BITS,
    ENTERS,
    LEAVES,
    PER_OCTAVE,
    Trading,
    book_moves,
    clear,
    close_round,
    fits,
    in_units,
    move_freely,
    plan,
    reprice,
)

OFFSET = 1 << (ELASTICITY_BITS - 1)  # codes of elasticities are signed


class TradingPart:
    """The trading of own nodes, and what neighbours last told of their elasticity."""

    def __init__(self, trading: Trading, region: Region) -> None:
        self.trading, self.ghosts = trading, np.flatnonzero(~region.own)
        relative = np.log2(trading.weight / trading.inertia)
        self.codes = np.round(PER_OCTAVE * relative).astype(np.int64)  # of every node's elasticity, as last told
        self.wide = wide_boxes(trading.market.low, trading.market.high, self.ghosts)

    def advance(self, round: Round, crossing: Crossing, number: int) -> Generator[Packets, Packets, bool]:
        """One round; False when a plan no longer fits the grid here."""
        trading, ghosts = self.trading, self.ghosts
        floor = trading.floor(round)
        trading.shares[ghosts], trading.excess[ghosts] = 0, 0.0  # nobody asks for them, but they must stay numbers
        flags = (FLAG_BITS if floor.boxed else 0) + (ELASTICITY_BITS if floor.per_link else 1)
        speakers = crossing.out_senders
        new = np.round(PER_OCTAVE * trading.stretch[speakers]).astype(np.int64)
        changed = new != self.codes[speakers]

        def add(peer: int, packet: AnyArray, cursor: int) -> int:
            return _tell(crossing.to[peer], new, changed, floor.per_link, packet, cursor)

        def read(peer: int, packet: AnyArray, cursor: int) -> int:
            senders = crossing.from_senders[peer]
            return _learn(senders, floor.per_link, trading.inertia, packet, cursor, self.codes, trading.weight)

        yield from talk(
            trading.channel,
            trading.prices,
            crossing,
            trading.plain,
            number,
            flags,
            extra_bits=1 + ELASTICITY_BITS,
            add=add,
            read=read,
        )
        self.codes[speakers] = new
        clear(
            floor.tails,
            floor.heads,
            floor.tail_slot,
            floor.head_slot,
            floor.per_link,
            floor.weight,
            floor.trust,
            floor.prices,
            floor.said.heard,
            floor.desk,
            floor.cleared,
        )
        yield from talk(trading.markets, floor.cleared, crossing, floor.repeats, number)
        largest = plan(
            floor.tails,
            floor.heads,
            floor.tail_slot,
            floor.head_slot,
            floor.per_link,
            floor.boxed,
            floor.unit,
            floor.shares,
            floor.said.heard,
            floor.answered.heard,
            floor.cleared,
            floor.backlog,
            floor.desk,
            floor.wish,
            floor.excess,
            floor.level,
        )
        fine = bool(largest < BIGGEST_FLOW or (floor.boxed and largest < np.inf))
        kept = [array[ghosts].copy() for array in (trading.weight, trading.stretch, trading.settled)]
        trading.answer[ghosts] = np.clip(0.0, floor.curve.lo[ghosts], floor.curve.hi[ghosts])
        with np.errstate(all="ignore"):
            answer(trading.market.cost, trading.curve, trading.weight, trading.level, trading.answer)
            steep = steepness(trading.market.cost, trading.curve, trading.answer)
        steep[ghosts] = 1.0
        reprice(floor)
        if not floor.boxed:
            move_freely(floor.tails, floor.heads, floor.wish, floor.most, False, floor.shares, floor.backlog)
        else:
            floor.desk[ghosts, LEAVES : ENTERS + 1] = 0.0  # what ghosts give and take in all is not known here
            free = fits(floor.desk, *self.wide, floor.shares)
            moved = yield from limited(
                lambda: in_units(floor.wish, floor.most),
                round,
                crossing,
                trading.shares,
                *self.wide,
                bool(free),
                trading.channel.bits_sent,
                trading.amount_bits,
            )
            if moved is None:
                move_freely(
                    floor.tails, floor.heads, floor.wish, floor.most, not floor.per_link, floor.shares, floor.backlog
                )
            else:
                book_moves(floor, moved)
        close_round(floor, steep)
        for array, before in zip((trading.weight, trading.stretch, trading.settled), kept, strict=True):
            array[ghosts] = before
        return fine


@kernel
def _tell(chosen: Ints, codes: Ints, changed: AnyArray, always: bool, packet: AnyArray, cursor: int) -> int:
    """Elasticities: always where links are new each round, else a bit whether it follows."""
    for k in chosen:
        if not always:
            cursor = put(packet, cursor, 1 if changed[k] else 0, 1)
        if always or changed[k]:
            cursor = put(packet, cursor, codes[k] + OFFSET, ELASTICITY_BITS)
    return cursor


@kernel
def _learn(
    senders: Ints, always: bool, inertia: float, packet: AnyArray, cursor: int, codes: Ints, weight: Floats
) -> int:
    """What neighbours tell of theirs."""
    for i in senders:
        follows = always
        if not always:
            follows = get(packet, cursor, 1) == 1
            cursor += 1
        if follows:
            code = get(packet, cursor, ELASTICITY_BITS) - OFFSET
            cursor += ELASTICITY_BITS
            if code != codes[i]:
                codes[i], weight[i] = code, inertia * 2.0 ** (code / PER_OCTAVE)
    return cursor
