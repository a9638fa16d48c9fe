"""Flows along edges cut so that no share leaves its box: exactly, in whole numbers and few bits (docs/train.md, 3.5)."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import Ints
from equipoise.train.exchange.rows import Amounts, Codes, Near, Said, Site

# Factors in 8 bits: code 255 is 1, each code below an eighth of an octave less, 0 is nothing. Even steps of 1/256 would
# round a small factor to 0 and lock a narrow node that much CPU wants to pass.
FACTOR_BITS, FULL, EIGHTHS = 8, 255, 8
FLAG_BITS = 2  # on every link of every round: whether factors follow, and whether an amount does
AMOUNT_BITS = 64
FACTOR_SHIFT = 31
FACTOR_MASK = 2**FACTOR_SHIFT - 1
FACTORS = np.floor(2.0 ** (FACTOR_SHIFT - (FULL - np.arange(FULL + 1)) / EIGHTHS)).astype(np.int64)
FACTORS[0] = 0
BIGGEST_FLOW = 2.0**52  # units; a larger one means the run has diverged


@kernel
def factor(room: int, flow: int) -> int:
    """The code of the largest factor at which a flow fits into the room: 0 is none, FULL is all of it."""
    if flow <= room:
        return FULL
    if room <= 0:
        return 0
    code = FULL - max(1, math.ceil(EIGHTHS * math.log2(flow / room)))
    while code > 0 and scaled(flow, code) > room:
        code -= 1
    return max(code, 0)


@kernel
def scaled(amount: int, code: int) -> int:
    """amount x factor, rounded towards 0, in whole numbers below 2^63: a sum of parts never exceeds the part of the sum."""
    if code == FULL:
        return amount
    part = FACTORS[code]
    return int((amount >> FACTOR_SHIFT) * part + ((amount & FACTOR_MASK) * part >> FACTOR_SHIFT))


GIVE, TAKE = 0, 1  # columns of what a node promises

Cut = Generator[tuple[Said, ...], None, tuple[Ints, Ints]]


class Limiter:
    """Cuts what is wanted along links, whole numbers that both ends know, so that no share leaves its box.

    Half of each wish is pushed by its giver, half pulled by its taker. First every node promises what it can give and take
    out of half its room, whatever else happens (a bit, and two factors of 8 bits if it limits anything). Then each decides
    how much to push and pull against its neighbours' promises, so that its own decisions balance within the other half (a
    bit a link, and the amount in 64 bits where it is cut). A full or pinned node has nothing to promise but can pull from
    one side what it pushes to the other, so CPU passes through it.
    """

    def __init__(self, site: Site, low: Ints, high: Ints) -> None:
        self.site, self.low, self.high = site, low, high
        self.promises = Codes(site, 2)

    def cut(self, number: int, wanted: Ints, shares: Ints) -> Cut:
        """What moves along each own entry, out of the node if positive; and the bits that single entries carried."""
        near, own, box = self.site.near(number), self.site.own, (self.low, self.high)
        _promise(near, own, wanted, shares, box, self.promises.rows)
        yield (self.promises,)
        amounts, bits = Amounts(len(near.node)), np.zeros(len(near.node), dtype=np.int64)
        _decide(near, own, wanted, shares, box, self.promises.rows, amounts.by_entry, bits)
        yield (amounts,)
        return _agreed(near, own, wanted, amounts.by_entry), bits


@kernel
def _promise(near: Near, own: Ints, wanted: Ints, shares: Ints, box: tuple[Ints, Ints], promises: Ints) -> None:
    """What every node can give and take out of half its room, whatever else happens."""
    low, high = box
    for r in range(len(own)):
        i, given, taken = own[r], 0, 0
        for e in range(near.first[i], near.first[i + 1]):
            push = abs(wanted[e]) // 2
            if wanted[e] > 0:
                given += wanted[e] - push
            else:
                taken += push
        promises[i, GIVE] = factor((shares[r] - low[r]) // 2, given)
        promises[i, TAKE] = factor((high[r] - shares[r]) // 2, taken)


@kernel
def _decide(
    near: Near, own: Ints, wanted: Ints, shares: Ints, box: tuple[Ints, Ints], promises: Ints, amounts: Ints, bits: Ints
) -> None:
    """Push and pull against the neighbours' promises, cut where a node's own decisions would not balance."""
    low, high = box
    for r in range(len(own)):
        i, pushed, pulled = own[r], 0, 0
        factors = 2 * FACTOR_BITS if min(promises[i, GIVE], promises[i, TAKE]) < FULL else 0
        for e in range(near.first[i], near.first[i + 1]):
            push, j = abs(wanted[e]) // 2, near.node[e]
            bits[e] = factors
            if wanted[e] > 0:
                amounts[e] = scaled(push, promises[j, TAKE])
                pushed += amounts[e]
            else:
                amounts[e] = scaled(-wanted[e] - push, promises[j, GIVE])
                pulled += amounts[e]
        above, below = high[r] - shares[r], shares[r] - low[r]  # at most one of the two is cut
        most_pushed = min(pushed, below - below // 2 + pulled)
        most_pulled = min(pulled, above - above // 2 + pushed)
        if most_pushed < pushed:
            _cut(near, i, wanted, True, amounts, pushed, most_pushed, bits)
        if most_pulled < pulled:
            _cut(near, i, wanted, False, amounts, pulled, most_pulled, bits)


@kernel
def _cut(near: Near, i: int, wanted: Ints, leaving: bool, amounts: Ints, total: int, limit: int, bits: Ints) -> None:
    """Cut what leaves a node, or what enters it, in proportion, so that it adds up to its limit, to the unit."""
    left, part = limit, limit / total
    for e in range(near.first[i], near.first[i + 1]):
        if (wanted[e] > 0) == leaving:
            left -= min(left, int(amounts[e] * part))
    spare, left = left, limit
    for e in range(near.first[i], near.first[i + 1]):
        if (wanted[e] > 0) == leaving:
            kept = min(left, int(amounts[e] * part))
            left -= kept
            extra = min(amounts[e] - kept, spare)  # the few units that rounding left over
            spare -= extra
            amounts[e] = kept + extra
            bits[e] += AMOUNT_BITS


@kernel
def _agreed(near: Near, own: Ints, wanted: Ints, amounts: Ints) -> Ints:
    """What moves: what the giver pushes and the taker pulls."""
    moved = np.zeros(len(wanted), dtype=np.int64)
    for r in range(len(own)):
        i = own[r]
        for e in range(near.first[i], near.first[i + 1]):
            both = amounts[e] + amounts[near.back[e]]
            moved[e] = both if wanted[e] > 0 else -both
    return moved
