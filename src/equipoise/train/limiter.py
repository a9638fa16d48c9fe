"""Flows along edges cut so that no share leaves its box: exactly, in whole numbers and few bits (docs/train.md, 3.5)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import Ints

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


class Promises(NamedTuple):
    """Of each edge: who gives, who takes, the giver's half and the taker's; of each node: the factors it promises."""

    givers: Ints
    takers: Ints
    push: Ints
    pull: Ints
    can_give: Ints
    can_take: Ints


@kernel
def promise(wanted: Ints, tails: Ints, heads: Ints, shares: Ints, low: Ints, high: Ints) -> Promises:
    """What every node can give and take out of half its room, whatever else happens."""
    nodes, edges = len(shares), len(wanted)
    givers, takers = np.empty(edges, dtype=np.int64), np.empty(edges, dtype=np.int64)
    push, pull = np.empty(edges, dtype=np.int64), np.empty(edges, dtype=np.int64)
    given, taken = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    for e in range(edges):
        givers[e], takers[e] = (tails[e], heads[e]) if wanted[e] > 0 else (heads[e], tails[e])
        push[e] = abs(wanted[e]) // 2
        pull[e] = abs(wanted[e]) - push[e]
        given[givers[e]] += pull[e]
        taken[takers[e]] += push[e]
    can_give, can_take = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    for i in range(nodes):
        can_give[i] = factor((shares[i] - low[i]) // 2, given[i])
        can_take[i] = factor((high[i] - shares[i]) // 2, taken[i])
    return Promises(givers, takers, push, pull, can_give, can_take)


@kernel
def decide(
    promises: Promises, wanted: Ints, pair: Ints, shares: Ints, low: Ints, high: Ints, link_bits: Ints
) -> tuple[Ints, Ints]:
    """Push and pull against the promises, cut where a node's own decisions would not balance; the pushes and pulls that
    were cut are those of nodes whose limits, returned, are below 0."""
    givers, takers, push, pull, can_give, can_take = promises
    nodes, edges = len(shares), len(wanted)
    pushed, pulled = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    for e in range(edges):
        push[e] = scaled(push[e], can_take[takers[e]])
        pull[e] = scaled(pull[e], can_give[givers[e]])
        pushed[givers[e]] += push[e]
        pulled[takers[e]] += pull[e]
    push_limit, pull_limit = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    for i in range(nodes):  # at most one of the two is cut
        above, below = high[i] - shares[i], shares[i] - low[i]
        push_limit[i] = min(pushed[i], below - below // 2 + pulled[i])
        pull_limit[i] = min(pulled[i], above - above // 2 + pushed[i])
    for e in range(edges):
        forward = 2 * pair[e] + (
            0 if wanted[e] > 0 else 1
        )  # the link from giver to taker; its reverse has the other parity
        link_bits[forward] += AMOUNT_BITS if push_limit[givers[e]] < pushed[givers[e]] else 0
        link_bits[forward ^ 1] += AMOUNT_BITS if pull_limit[takers[e]] < pulled[takers[e]] else 0
    _cut(push, givers, pushed, push_limit)
    _cut(pull, takers, pulled, pull_limit)
    return push_limit - pushed, pull_limit - pulled


@kernel
def agreed(promises: Promises, wanted: Ints) -> Ints:
    """What moves along each edge."""
    moved = np.empty(len(wanted), dtype=np.int64)
    for e in range(len(wanted)):
        both = promises.push[e] + promises.pull[e]
        moved[e] = both if wanted[e] > 0 else -both
    return moved


@kernel
def _cut(amounts: Ints, owners: Ints, totals: Ints, limits: Ints) -> None:
    """Cut each owner's amounts in proportion so that they add up to its limit, to the unit."""
    left = limits.copy()
    kept = amounts.copy()
    for e in range(len(amounts)):
        i = owners[e]
        if limits[i] < totals[i]:
            kept[e] = min(left[i], int(amounts[e] * (limits[i] / totals[i])))
        left[i] -= kept[e]
    for e in range(len(amounts)):  # the few units that rounding left over
        extra = min(amounts[e] - kept[e], left[owners[e]])
        left[owners[e]] -= extra
        amounts[e] = kept[e] + extra


@kernel
def limit(
    wanted: Ints,
    tails: Ints,
    heads: Ints,
    pair: Ints,
    shares: Ints,
    low: Ints,
    high: Ints,
    node_bits: Ints,
    link_bits: Ints,
) -> Ints:
    """Cut flows so that no share leaves its box. Exact: everything is a whole number of units.

    Half of each wish is pushed by its giver, half pulled by its taker. First every node promises what it can give and take
    out of half its room, whatever else happens (a bit, and two factors of 8 bits if it limits anything). Then each decides
    how much to push and pull against its neighbours' promises, so that its own decisions balance within the other half (a
    bit a link, and the amount in 64 bits where it is cut). A full or pinned node has nothing to promise but can pull from
    one side what it pushes to the other, so CPU passes through it.
    """
    promises = promise(wanted, tails, heads, shares, low, high)
    for i in range(len(shares)):
        node_bits[i] = 2 * FACTOR_BITS if min(promises.can_give[i], promises.can_take[i]) < FULL else 0
    decide(promises, wanted, pair, shares, low, high, link_bits)
    return agreed(promises, wanted)
