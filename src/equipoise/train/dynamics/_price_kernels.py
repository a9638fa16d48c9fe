"""Kernels of `prices`: what is said, which gifts follow, what boxes hold back, and the prices that come of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import numba
import numpy as np

from equipoise.kernels import Floats, Ints, bits_float, float_bits, generated, inlined, inner, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.audit import look_at_units
from equipoise.train.codec import MANTISSA, SIGN, first_floor, moved_floor, quantise, value
from equipoise.train.costs._kernels import LATENCY, QUADRATIC, newton
from equipoise.train.dynamics._layout import LANES, Paths

CALM = 0.3  # of its way that an elasticity goes in a round
FULL = 0.15  # of the elasticity that a node at a bound counts for: it passes prices on, and bends little
PER_OCTAVE = 8  # elasticities are said in eighths of an octave
STEPS = 80  # of an octave that a link's weight can take: eighths, leaning in tenths
# With boxes gifts are multiples of a quantum far below anything that matters (1e-12 of the budget), and what a box holds
# back below half of it is forgotten: near the optimum nobody passes single units to and fro.
QUANTUM = 1024  # units
MAGIC = 1.5 * 2.0**52  # v + q MAGIC - q MAGIC is the nearest multiple of q
COARSE_BITS, AMOUNT_BITS = 10, 66  # a part of what is pending; an exact fraction and single units
PARTS, PART_BITS = 16, 4  # a part of what a box bears is a / 2^s, a below this
NEAR = 1e-3  # octaves: an elasticity so near to what is wanted has arrived
# Graphs in which elasticities are still to be said; rows said anew; rows that hold back; whether these have decided what
# moves; rounds with a second exchange for it.
NEWS, CHANGED, LIMITED, DECIDED, SECOND = range(5)
OCTAVE = 2.0 ** (np.arange(STEPS) / STEPS)  # both ends of a link must get the same bits: a table, not a power


class Rule(NamedTuple):
    """What does not change in a run."""

    kind: int  # of cost
    boxed: bool
    unit: float
    relax: float
    theta: float
    lean: int  # tenths: towards the more elastic end of a link
    cap: float  # units: the largest gift
    quantum: int  # units that gifts are multiples of
    mantissa: int


class Talk(NamedTuple):
    """What rows have said in each graph, own ones and ghosts; the last price is padding."""

    price: Floats  # [graph, row + 1]
    before: Floats  # the same at the last meeting
    floors: Ints
    elastic: Ints  # as said, in eighths of an octave
    codes: AnyArray  # of own rows, where they are to be sent elsewhere
    changed: Ints  # rows whose elasticity was said anew
    limited: Ints  # rows that cannot bear all that is pending
    news: Ints  # NEWS to SECOND
    bits: Ints  # [graph, own row]: said beside codes to each neighbour


class Node(NamedTuple):
    """State of own rows. plan is the share that the plan moves; shares are what is held, the same where there is no box."""

    price: Floats
    plan: Ints
    shares: Ints
    pull: Floats  # [graph, row]: h
    pull_sum: Floats
    weight: Floats  # [graph, row]: D, the sum of link weights
    weight_sum: Floats
    inverse: Floats  # 1 / D
    level: Floats
    answer: Floats
    steep: Floats  # f'' at the answer, negative where it is at a bound
    settled: Floats
    elastic: Floats  # log2
    told: Ints
    contacts: Floats


class Curves(NamedTuple):
    """Costs of own rows: a Curve, and what quadratic ones have ready."""

    slope: Floats
    centre: Floats
    flattest: Floats
    lo: Floats
    hi: Floats
    scale: Floats  # 1 / (1 + D slope)
    middle: Floats  # D slope centre


class Boxes(NamedTuple):
    """What keeps shares in their boxes. Gifts are pending until the next meeting of their graph."""

    low: Ints
    high: Ints
    net: Ints  # [graph, row]: what pending gifts take away in all
    size: Ints  # and their sizes added up
    owed: Ints  # [graph, entry]: held back, still to be given (received if negative)
    owing: AnyArray  # entries that owe ...
    owing_count: Ints  # ... and how many
    out_part: Ints  # [row, 2]: a / 2^s of its givings that a row bears, as said in this round
    in_part: Ints
    flags: AnyArray  # [row]: 1 limited, 2 to be looked at
    rows: Ints
    entries: AnyArray
    lefts: Ints
    pending: Ints  # [entry] of limited rows in this round
    moved: Ints  # [entry] what they decide
    abroad: Ints  # [ghost entry]: what limited neighbours elsewhere have decided
    pinned: Ints  # [row]: 1 where lo = hi


@inlined
def strength(one: int, other: int, lean: int) -> float:
    """2 ** ((lean max + (1 - lean) min) / 8): the same bits at both ends, on every machine."""
    e = lean * max(one, other) + (10 - lean) * min(one, other)
    power: float = bits_float((e // STEPS + 1023) << MANTISSA)
    return float(OCTAVE[e % STEPS]) * power


@inlined
def gift(weight: float, mine: float, theirs: float, rule: Rule) -> int:
    """Whole units that this end gives: odd in the prices, so that the other end receives as much."""
    magic = MAGIC * rule.quantum
    return int((min(max(weight * (mine - theirs), -rule.cap), rule.cap) + magic) - magic)


def _lanes() -> Callable[..., None]:
    """Sums of gifts and of their sizes, LANES nodes side by side."""
    lanes = range(LANES)
    text = ["def sums(start, ids, node, weight, P, G, A, magic):", "    for q in range(len(G)):"]
    text += [f"        o{c} = P[ids[q, {c}]]; g{c} = 0.0; s{c} = 0.0" for c in lanes]
    text += [
        "        for e in range(start[q], start[q + 1]):",
        "            l = uintp(e)",
    ]  # signed indices are wrapped: no vectors
    text += [f"            d{c} = weight[l, {c}] * (o{c} - P[node[l, {c}]])" for c in lanes]
    text += [f"            d{c} = (d{c} + magic) - magic" for c in lanes]
    text += [f"            g{c} += d{c}; s{c} += abs(d{c})" for c in lanes]
    text += [f"        G[q, {c}] = g{c}; A[q, {c}] = s{c}" for c in lanes]
    scope: dict[str, object] = {"uintp": numba.uintp}
    return cast(Callable[..., None], generated("sums", text, scope, __name__, __file__))


sum_gifts = _lanes()


@inner
def sum_large_gifts(rule: Rule, paths: Paths, t: int, weight: Floats, P: Floats, G: Floats, A: Floats) -> None:
    """A node with a gift beyond the cap: both ends of such a link see it and cut it alike, so sums stay exact in floats."""
    for q in range(len(G)):
        for c in range(LANES):
            if A[q, c] > rule.cap:
                own, net, size = P[paths.ids[t, q, c]], 0.0, 0.0
                for e in range(paths.start[t, q], paths.start[t, q + 1]):
                    d = float(gift(weight[e, c], own, P[paths.lane_node[t, e, c]], rule))
                    net += d
                    size += abs(d)
                G[q, c] = net
                A[q, c] = size


@inner
def part_of(room: int, wanted: int) -> tuple[int, int]:
    """a and s with a / 2^s not above room / wanted, in 10 bits: the sum of (amount a) >> s stays within room."""
    if wanted <= room:
        return 1, 0
    if room <= 0:
        return 0, 0
    s = 0
    while (room << 1) < wanted and s < 50:
        room <<= 1
        s += 1
    a = min(PARTS - 1, int(PARTS * (float(room) / float(wanted))))
    while a > 0 and a * wanted > room << PART_BITS:
        a -= 1
    return a, s + PART_BITS


@inner
def find_limits(shares: Ints, boxes: Boxes, t: int, limited: Ints) -> int:
    """Own rows that cannot bear all that is pending, and the parts of their givings and receipts that they can."""
    tight, net, size = 0, boxes.net[t], boxes.size[t]
    for i in range(len(shares)):
        tight |= (size[i] > shares[i] - boxes.low[i]) | (size[i] > boxes.high[i] - shares[i])
    count = 0
    for i in range(len(shares) if tight else 0):
        spare, room = shares[i] - boxes.low[i], boxes.high[i] - shares[i]
        gives, takes = (size[i] + net[i]) >> 1, (size[i] - net[i]) >> 1
        if gives > spare or takes > room:
            boxes.out_part[i, 0], boxes.out_part[i, 1] = part_of(spare, gives)
            boxes.in_part[i, 0], boxes.in_part[i, 1] = part_of(room, takes)
            limited[count] = i
            count += 1
    return count


@inner
def look_around(chosen: Ints, count: int, paths: Paths, t: int, flags: AnyArray, rows: Ints) -> int:
    """Own rows among these and their neighbours, each once, in `rows`; their flag 2 is set."""
    own, found = len(paths.degree[t]), 0
    for q in range(count):
        r = chosen[q]
        if r < own and not flags[r] & 2:
            flags[r] |= 2
            rows[found] = r
            found += 1
        for e in range(paths.first[t, r], paths.first[t, r + 1]):
            j = paths.node[t, e]
            if j < own and not flags[j] & 2:
                flags[j] |= 2
                rows[found] = j
                found += 1
    return found


@inner
def due(rule: Rule, paths: Paths, talk: Talk, boxes: Boxes, weight: Floats, t: int, e: int) -> int:
    """What is pending on an entry: the gift of the last meeting and what is owed; below 0 to be received."""
    before = talk.before[t]
    mine, theirs = before[paths.owner[t, e]], before[paths.node[t, e]]
    return gift(weight[paths.place[t, e]], mine, theirs, rule) + int(boxes.owed[t, e])


@kernel
def decide(rule: Rule, paths: Paths, talk: Talk, boxes: Boxes, shares: Ints, weight: Floats, t: int) -> None:
    """Limited rows decide what moves on their links, and tell it: a second exchange in this round.

    Between two limited rows the smaller of both ends' parts moves. A neighbour that is not limited bears anything up to what
    is pending, so there a row moves all, but scales down either its receipts or its givings to end at its bound: what only
    passes through it is not held up. Scaled amounts add up to the unit, so that a pinned row stays where it is.
    """
    own = len(shares)
    for q in range(talk.news[LIMITED]):
        boxes.flags[talk.limited[q]] |= 1
    for q in range(talk.news[LIMITED]):
        i = talk.limited[q]
        if i >= own:
            continue
        gives, takes, after = 0, 0, shares[i]
        for e in range(paths.first[t, i], paths.first[t, i + 1]):
            amount, j = due(rule, paths, talk, boxes, weight, t, e), paths.node[t, e]
            boxes.pending[e] = amount
            if boxes.flags[j] & 1:
                amount = both_parts(amount, boxes, i, j)
                boxes.moved[e] = amount
            elif amount > 0:
                gives += amount
            else:
                takes -= amount
            after -= amount
        side, wanted, total = 0, 0, 0
        if after > boxes.high[i]:
            side, wanted, total = -1, takes - (after - boxes.high[i]), takes
        elif after < boxes.low[i]:
            side, wanted, total = 1, gives - (boxes.low[i] - after), gives
        left = scale_down(paths, boxes, t, i, side, wanted, total)
        talk.bits[t, i] += 1 + (0 if side == 0 else AMOUNT_BITS if left < 0 else COARSE_BITS)


@inner
def scale_down(paths: Paths, boxes: Boxes, t: int, i: int, side: int, wanted: int, total: int) -> int:
    """What a limited row moves on links to neighbours that are not: all, but on one side (1: givings, -1: receipts) no more
    than `wanted` of `total` units. How many units it stays below that; -1 where it had to be exact."""
    a, s = part_of(wanted, total)
    part = float(wanted) / float(total) * (1.0 - 2.0**-50) if wanted > 0 else 0.0
    left = wanted
    for turn in range(
        3 if side != 0 else 1
    ):  # in 10 bits; if the box is too narrow for that by a fraction; single units
        if turn == 1:
            if left <= boxes.high[i] - boxes.low[i]:
                return left
            left = wanted
        for e in range(paths.first[t, i], paths.first[t, i + 1]):
            if boxes.flags[paths.node[t, e]] & 1:
                continue
            amount = boxes.pending[e]
            size = abs(amount)
            if side == 0 or amount * side <= 0:
                boxes.moved[e] = amount
            elif turn < 2:
                size = (size * a) >> s if turn == 0 else min(math.floor(part * float(size)), left)
                boxes.moved[e] = side * size
                left -= size
            else:
                more = min(left, size - abs(boxes.moved[e]))
                boxes.moved[e] += side * more
                left -= more
    return -1


@inner
def both_parts(amount: int, boxes: Boxes, i: int, j: int) -> int:
    """Of what is pending between two limited rows, what both bear."""
    giver, taker, size = (i, j, amount) if amount > 0 else (j, i, -amount)
    out: int = (size * boxes.out_part[giver, 0]) >> boxes.out_part[giver, 1]
    into: int = (size * boxes.in_part[taker, 0]) >> boxes.in_part[taker, 1]
    return min(out, into) if amount > 0 else -min(out, into)


@inner
def hold_back(rule: Rule, paths: Paths, talk: Talk, boxes: Boxes, node: Node, weight: Floats, t: int) -> None:
    """What was pending on links of limited rows and is not moved stays owed, at both ends alike.

    The main pass moves all that is pending, so shares are corrected here by what is left.
    """
    own, links, fresh = len(node.shares), paths.links[t], 0
    for q in range(talk.news[LIMITED]):
        i = talk.limited[q]
        for e in range(paths.first[t, i], paths.first[t, i + 1]):
            j = paths.node[t, e]
            if i < own:
                left = boxes.pending[e] - boxes.moved[e]
                fresh = keep_owed(boxes, node, i, e, left, fresh)
                if j < own and not boxes.flags[j] & 1:
                    fresh = keep_owed(boxes, node, j, paths.back[t, e], -left, fresh)
            elif not boxes.flags[j] & 1:  # a limited row elsewhere has decided
                mine = int(paths.back[t, e])
                left = due(rule, paths, talk, boxes, weight, t, mine) + boxes.abroad[e - links]
                fresh = keep_owed(boxes, node, j, mine, left, fresh)
    for q in range(boxes.owing_count[t]):
        boxes.owed[t, boxes.owing[t, q]] = 0
    for q in range(fresh):
        boxes.owed[t, boxes.entries[q]] = boxes.lefts[q]
        boxes.owing[t, q] = boxes.entries[q]
    boxes.owing_count[t] = fresh
    for q in range(talk.news[LIMITED]):
        i = talk.limited[q]
        boxes.flags[i] = 0
        boxes.out_part[i, 0], boxes.out_part[i, 1] = 1, 0
        boxes.in_part[i, 0], boxes.in_part[i, 1] = 1, 0
    talk.news[LIMITED] = 0


@inlined
def keep_owed(boxes: Boxes, node: Node, i: int, e: int, left: int, fresh: int) -> int:
    """What is left of an entry's pending gift stays with its giver; how many entries owe."""
    if left == 0:
        return fresh
    node.shares[i] += left
    if abs(left) < QUANTUM // 2:
        node.plan[i] += left
        return fresh
    boxes.entries[fresh] = e
    boxes.lefts[fresh] = left
    return fresh + 1


@inner
def add_owed(rule: Rule, paths: Paths, prices: Floats, boxes: Boxes, weight: Floats, t: int) -> None:
    """Pending are this round's gifts and what is owed."""
    for q in range(boxes.owing_count[t]):
        e = boxes.owing[t, q]
        i, owed = paths.owner[t, e], boxes.owed[t, e]
        new = gift(weight[paths.place[t, e]], prices[i], prices[paths.node[t, e]], rule)
        boxes.net[t, i] += owed
        boxes.size[t, i] += abs(new + owed) - abs(new)


@inner
def reweigh(
    rule: Rule, paths: Paths, talk: Talk, node: Node, curves: Curves, boxes: Boxes, weight: Floats, t: int
) -> None:
    """Elasticities were said anew: links take their new weights, and a node's pull changes so that flows stay."""
    found = look_around(talk.changed, talk.news[CHANGED], paths, t, boxes.flags, boxes.rows)
    per, prices, said = rule.relax / rule.unit, talk.price[t], talk.elastic[t]
    back = rule.unit / rule.relax
    for q in range(found):
        i = boxes.rows[q]
        boxes.flags[i] = 0
        for e in range(paths.first[t, i], paths.first[t, i + 1]):
            at, j = paths.place[t, e], paths.node[t, e]
            new = rule.theta * strength(said[i], said[j], rule.lean) * per
            new = 0.0 if boxes.pinned[i] & boxes.pinned[j] else new  # nothing can pass between two
            if new != weight[at]:
                change = (new - weight[at]) * back
                pull = 0.5 * change * (prices[i] + prices[j])
                weight[at] = new
                node.weight[t, i] += change
                node.pull[t, i] += pull
                node.weight_sum[i] += change
                node.pull_sum[i] += pull
        make_ready(rule, node, curves, i)
    talk.news[CHANGED] = 0


@inner
def make_ready(rule: Rule, node: Node, curves: Curves, i: int) -> None:
    """What follows from the sum of a node's weights."""
    node.inverse[i] = 1.0 / node.weight_sum[i] if node.weight_sum[i] > 0.0 else 0.0
    if rule.kind == QUADRATIC:
        stiff = node.weight_sum[i] * curves.slope[i]
        curves.scale[i] = 1.0 / (1.0 + stiff)
        curves.middle[i] = stiff * curves.centre[i]


@kernel
def make_all_ready(rule: Rule, node: Node, curves: Curves) -> None:
    for i in range(len(node.price)):
        make_ready(rule, node, curves, i)


@inner
def encode(p: Floats, P: Floats, before: Floats, floors: Ints, mantissa: int, codes: AnyArray) -> None:
    """Prices as they are heard: each moves by the nearest code of its change."""
    drop = MANTISSA - mantissa
    for i in range(len(p)):
        was, floor = P[i], floors[i]
        change = p[i] - was
        code = quantise(change, floor, mantissa)
        step = bits_float((((code + floor) << drop) if code > 0 else 0) | (float_bits(change) & SIGN))
        before[i] = was
        P[i] = was + step
        floors[i] = moved_floor(floor, code, mantissa)
        if len(codes) > 0:
            codes[i] = code if change >= 0.0 else -code


@kernel
def hear_codes(codes: Ints, rows: Ints, talk: Talk, t: int, mantissa: int) -> None:
    """What a receiver elsewhere does: the same additions as the sender made."""
    for q in range(len(rows)):
        g, code = rows[q], codes[q]
        floor, was = talk.floors[t, g], talk.price[t, g]
        talk.before[t, g] = was
        talk.price[t, g] = was + value(abs(code), floor, mantissa, float(code))
        talk.floors[t, g] = moved_floor(floor, abs(code), mantissa)


@kernel
def say(rule: Rule, talk: Talk, node: Node, boxes: Boxes, k: int, codes_bits: Ints) -> None:
    """A node's own memory becomes messages: a code of its price; an elasticity that has changed; parts that a box bears.

    codes_bits: bits of an elasticity, of two parts, for the count.
    """
    graphs = len(talk.floors)
    t, own = k % graphs, len(node.price)
    P, floors = talk.price[t], talk.floors[t]
    if k < graphs or rule.mantissa == MANTISSA:
        for i in range(own):
            talk.before[t, i] = P[i]
            P[i] = node.price[i]
            floors[i] = first_floor(P[i : i + 1], rule.mantissa)
    else:
        encode(node.price, P, talk.before[t], floors, rule.mantissa, talk.codes)
    count = 0
    if talk.news[NEWS] > 0:
        talk.news[NEWS] -= 1
        for i in range(own):
            if node.told[i] != talk.elastic[t, i]:
                talk.elastic[t, i] = node.told[i]
                talk.changed[count] = i
                count += 1
                talk.bits[t, i] += codes_bits[0]
    talk.news[CHANGED] = count
    if rule.boxed and k >= graphs:
        held = find_limits(node.shares, boxes, t, talk.limited)
        for q in range(held):
            talk.bits[t, talk.limited[q]] += codes_bits[1]
        talk.news[LIMITED] = held


@kernel
def hear_gifts(
    rule: Rule,
    paths: Paths,
    talk: Talk,
    node: Node,
    curves: Curves,
    boxes: Boxes,
    weights: Floats,
    sums: Floats,
    k: int,
) -> None:
    """Gifts of this round, in whole units, and the shares after those of the last meeting."""
    t = k % len(paths.first)
    lanes, flat = weights[t], weights[t].reshape(-1)
    if talk.news[LIMITED] or (rule.boxed and boxes.owing_count[t]):
        talk.news[SECOND] += talk.news[LIMITED] > 0
        if talk.news[DECIDED] == 0:
            decide(rule, paths, talk, boxes, node.shares, flat, t)
        talk.news[DECIDED] = 0
        hold_back(rule, paths, talk, boxes, node, flat, t)
    if talk.news[CHANGED]:
        reweigh(rule, paths, talk, node, curves, boxes, flat, t)
    P, G, A = talk.price[t], sums[0], sums[1]
    sum_gifts(paths.start[t], paths.ids[t], paths.lane_node[t], lanes, P, G, A, MAGIC * rule.quantum)
    large = 0
    sizes = A.reshape(-1)
    for q in range(len(sizes)):
        large |= sizes[q] > rule.cap
    if large:
        sum_large_gifts(rule, paths, t, lanes, P, G, A)
    if rule.boxed:
        nets, pos, net, size = G.reshape(-1), paths.pos[t], boxes.net[t], boxes.size[t]
        shares = node.shares
        for i in range(len(shares)):
            shares[i] -= net[i]
            net[i] = int(nets[pos[i]])
            size[i] = int(sizes[pos[i]])
        if boxes.owing_count[t]:
            add_owed(rule, paths, P, boxes, flat, t)


@inlined
def next_level(i: int, t: int, g: float, keep: float, back: float, unit: float, price: float, node: Node) -> float:
    """level = plan + h, after the gifts g of this round."""
    node.plan[i] -= int(g)
    was = node.pull[t, i]
    now = keep * was + (1.0 - keep) * (node.weight[t, i] * price - back * g)
    node.pull[t, i] = now
    total = now if len(node.pull) == 1 else node.pull_sum[i] + (now - was)
    node.pull_sum[i] = total
    return float(node.plan[i]) * unit + float(total)


@inner
def quadratic(rule: Rule, pos: AnyArray, G: Floats, P: Floats, node: Node, curves: Curves, t: int, keep: float) -> int:
    """Prices where f' = slope (x - centre); whether an elasticity is on its way."""
    odd, back = 0, 0.5 * rule.unit / rule.relax
    for i in range(len(node.price)):
        level = next_level(i, t, G[pos[i]], keep, back, rule.unit, P[i], node)
        at = min(max((level + curves.middle[i]) * curves.scale[i], curves.lo[i]), curves.hi[i])
        node.price[i] = (level - at) * node.inverse[i]
        steep = -curves.slope[i] if (at <= curves.lo[i]) | (at >= curves.hi[i]) else curves.slope[i]
        odd |= steep != node.settled[i]
        node.steep[i] = steep
    return odd


@inner
def latency(rule: Rule, pos: AnyArray, G: Floats, P: Floats, node: Node, curves: Curves, t: int, keep: float) -> int:
    """Prices where f' = 3 centre x^2 - slope / x^2."""
    odd, back = 0, 0.5 * rule.unit / rule.relax
    for i in range(len(node.price)):
        level = next_level(i, t, G[pos[i]], keep, back, rule.unit, P[i], node)
        work, energy, lo, hi = curves.slope[i], curves.centre[i], curves.lo[i], curves.hi[i]
        at = newton(work, energy, lo, hi, node.weight_sum[i], level, node.answer[i])
        node.answer[i] = at
        node.price[i] = (level - at) * node.inverse[i]
        steep = max(2.0 * work / (at * at * at) + 6.0 * energy * at, curves.flattest[i])
        steep = -steep if (at <= lo) | (at >= hi) else steep
        odd |= steep != node.settled[i]
        node.steep[i] = steep
    return odd


@inner
def levels(rule: Rule, pos: AnyArray, G: Floats, P: Floats, node: Node, t: int, keep: float) -> None:
    """For costs that only Python knows: levels, to be answered there."""
    back = 0.5 * rule.unit / rule.relax
    for i in range(len(node.price)):
        node.level[i] = next_level(i, t, G[pos[i]], keep, back, rule.unit, P[i], node)


@kernel
def price_answers(node: Node, curves: Curves) -> int:
    """Prices of answers that Python gave; `steep` holds f'' there."""
    odd = 0
    for i in range(len(node.price)):
        at = node.answer[i]
        node.price[i] = (node.level[i] - at) * node.inverse[i]
        if (at <= curves.lo[i]) | (at >= curves.hi[i]):
            node.steep[i] = -node.steep[i]
        odd |= node.steep[i] != node.settled[i]
    return odd


@kernel
def follow(node: Node, talk: Talk) -> None:
    """Elasticities follow the curvature calmly; who is at a bound counts for less."""
    for i in range(len(node.price)):
        steep = node.steep[i]
        if steep == node.settled[i]:
            continue
        wanted = math.log2(1.0 / steep) if steep > 0.0 else math.log2(FULL / -steep)
        if abs(wanted - node.elastic[i]) < NEAR:
            node.settled[i] = steep
        else:
            node.settled[i] = 0.0
            node.elastic[i] += CALM * (wanted - node.elastic[i])
            node.told[i] = round(PER_OCTAVE * (node.elastic[i] - math.log2(node.contacts[i])))
            talk.news[NEWS] = len(talk.floors)  # to be said in each of the graphs


@kernel
def hear_prices(rule: Rule, paths: Paths, talk: Talk, node: Node, curves: Curves, sums: Floats, k: int) -> None:
    """New prices from what was heard."""
    graphs = len(paths.first)
    t = k % graphs
    keep = 0.0 if k < graphs else 1.0 - 2.0 * rule.relax
    pos, G, P = paths.pos[t], sums[0].reshape(-1), talk.price[t]
    if rule.kind == QUADRATIC:
        odd = quadratic(rule, pos, G, P, node, curves, t, keep)
    elif rule.kind == LATENCY:
        odd = latency(rule, pos, G, P, node, curves, t, keep)
    else:
        levels(rule, pos, G, P, node, t, keep)
        odd = 0
    if odd:
        follow(node, talk)


@kernel
def finite(values: Floats) -> bool:
    """Whether all are numbers."""
    bad = 0
    for i in range(len(values)):
        bad |= values[i] - values[i] != 0.0
    return bad == 0


class Watch(NamedTuple):
    """What an auditor asks for in every round."""

    budget: int  # units
    low: Ints
    high: Ints
    seen: Ints  # worst so far, in units: the budget missed, the box left
    record: Ints  # [round, row]: shares of every round, or nothing


@kernel
def play(
    rule: Rule,
    paths: Paths,
    talk: Talk,
    node: Node,
    curves: Curves,
    boxes: Boxes,
    weights: Floats,
    sums: Floats,
    codes_bits: Ints,
    watch: Watch,
    k: int,
    count: int,
) -> int:
    """`count` rounds, with the auditor's look at each; how many were played before prices were no numbers."""
    for done in range(count):
        say(rule, talk, node, boxes, k + done, codes_bits)
        hear_gifts(rule, paths, talk, node, curves, boxes, weights, sums, k + done)
        hear_prices(rule, paths, talk, node, curves, sums, k + done)
        look_at_units(node.shares, watch.low, watch.high, watch.budget, watch.seen)
        if len(watch.record):
            watch.record[done] = node.shares
        if not finite(node.price):
            return done
    return count
