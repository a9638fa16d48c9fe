"""Hull fill: the cheapest way to cover a job's work by slots, without work units (spec, section 2).

Each slot offers a convex curve of work against cost, the lower hull of its options. Segments of all slots seen so far
are kept in order of slope; the prefix that covers the work is the cheapest schedule that ends by now.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Floats, Int32s, kernel
from equipoise.place.planner.job_arrays import JobArrays, takes
from equipoise.place.planner.occupancy import Occupancy
from equipoise.place.planner.slot_costs import SlotCosts, scan, slot_costs, spread

TOGETHER, SPREAD = 0, 1
SEGMENTS = 16384  # most segments kept; the dearest are dropped beyond
SLIGHT = 1e-3  # of the worth: a smaller gain does not renew patience
ROUNDING = 1e-9  # of the work: sums of rates are not exact


class Hull(NamedTuple):
    """The lower convex hull of a slot's options, from (0, 0)."""

    rate: Floats
    cost: Floats
    kind: Int32s
    width: Int32s


class Pool(NamedTuple):
    """Hull segments in order of slope; `kind` (with its domain) and `width` are the option a segment leads to."""

    slope: Floats
    gain: Floats
    cost: Floats
    slot: Int32s
    kind: Int32s
    width: Int32s


class SlotChoice(NamedTuple):
    """The schedule found: for each slot from the start, which option. Width 0: none."""

    kind: Int32s
    width: Int32s


def new_hull(widest: int, domains: int = 1) -> Hull:
    n = 2 * widest * domains + 3
    return Hull(np.empty(n), np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32))


def new_pool() -> Pool:
    return Pool(*np.empty((3, SEGMENTS)), *np.empty((3, SEGMENTS), np.int32))


def new_choice(window: int) -> SlotChoice:
    return SlotChoice(np.zeros(window, np.int32), np.zeros(window, np.int32))


@kernel
def _push(hull: Hull, n: int, rate: float, cost: float, kind: int, width: int) -> int:
    """Add a point of larger rate, dropping those it makes useless; returns the new number of points."""
    while n > 0 and (
        (cost <= hull.cost[n - 1] and n > 1)
        or (
            n > 1
            and (hull.cost[n - 1] - hull.cost[n - 2]) * (rate - hull.rate[n - 2])
            >= (cost - hull.cost[n - 2]) * (hull.rate[n - 1] - hull.rate[n - 2])
        )
    ):
        n -= 1
    hull.rate[n], hull.cost[n], hull.kind[n], hull.width[n] = rate, cost, kind, width
    return n + 1


@kernel
def _add(hull: Hull, n: int, rate: float, cost: float, kind: int, width: int) -> int:
    """Push a point of at least the last rate, unless it is dearer or cannot be."""
    if cost == math.inf or rate < hull.rate[n - 1] or (rate == hull.rate[n - 1] and cost >= hull.cost[n - 1]):
        return n
    if rate == hull.rate[n - 1]:
        if n == 1:
            return n
        n -= 1
    return _push(hull, n, rate, cost, kind, width)


@kernel
def lower_hull(options: SlotCosts, arrays: JobArrays, keep: float, hull: Hull, on: int = 0) -> int:
    """Merge both curves of a domain by rate; returns the number of points, the first being (0, 0).

    Rates are scaled by `keep`, and a kind has its domain: 2 `on` + TOGETHER or SPREAD.
    """
    together, apart = arrays.together[on], arrays.apart[on]
    limit = together.shape[0] - 1
    n = _push(hull, 0, 0.0, 0.0, TOGETHER, 0)
    i, j = 1, 1
    while i <= limit or j <= limit:
        if j > limit or (i <= limit and together[i] <= apart[j]):
            n = _add(hull, n, together[i] * keep, options.together[i], 2 * on + TOGETHER, i)
            i += 1
        else:
            n = _add(hull, n, apart[j] * keep, options.spread[j], 2 * on + SPREAD, j)
            j += 1
    return n


@kernel
def _copy(hull: Hull, n: int) -> Hull:
    return Hull(hull.rate[:n].copy(), hull.cost[:n].copy(), hull.kind[:n].copy(), hull.width[:n].copy())


@kernel
def _merge(hull: Hull, points: int, other: Hull, more: int) -> int:
    """The hull of two hulls."""
    own = _copy(hull, points)
    n, i, j = 1, 1, 1
    while i < points or j < more:
        if j == more or (i < points and own.rate[i] <= other.rate[j]):
            n = _add(hull, n, own.rate[i], own.cost[i], own.kind[i], own.width[i])
            i += 1
        else:
            n = _add(hull, n, other.rate[j], other.cost[j], other.kind[j], other.width[j])
            j += 1
    return n


@kernel
def _insert(pool: Pool, n: int, slope: float, gain: float, cost: float, slot: int, kind: int, width: int) -> int:
    """Keep the pool in order of slope, earlier slots first among equals; returns the new size."""
    k, high = 0, n  # the first of larger slope
    while k < high:
        middle = (k + high) // 2
        if pool.slope[middle] <= slope:
            k = middle + 1
        else:
            high = middle
    if k >= SEGMENTS:
        return n
    n = min(n + 1, SEGMENTS)
    for m in range(n - 1, k, -1):
        pool.slope[m], pool.gain[m], pool.cost[m] = pool.slope[m - 1], pool.gain[m - 1], pool.cost[m - 1]
        pool.slot[m], pool.kind[m], pool.width[m] = pool.slot[m - 1], pool.kind[m - 1], pool.width[m - 1]
    pool.slope[k], pool.gain[k], pool.cost[k] = slope, gain, cost
    pool.slot[k], pool.kind[k], pool.width[k] = slot, kind, width
    return n


@kernel
def cheapest(
    occupancy: Occupancy, row: int, options: SlotCosts, arrays: JobArrays, keep: float, rate: float
) -> tuple[float, int, int]:
    """The cheapest single option of a slot that works at least at this rate: cost, kind, width."""
    best, kind, width = math.inf, TOGETHER, 0
    for on in range(arrays.together.shape[0]):
        if not takes(arrays, on):
            continue
        slot_costs(occupancy, row, arrays, options, on)
        together, apart = arrays.together[on], arrays.apart[on]
        for w in range(1, together.shape[0]):
            if together[w] * keep >= rate and options.together[w] < best:
                best, kind, width = options.together[w], 2 * on + TOGETHER, w
            if apart[w] * keep >= rate and options.spread[w] < best:
                best, kind, width = options.spread[w], 2 * on + SPREAD, w
    return best, kind, width


@kernel
def _priced_alike(occupancy: Occupancy, a: int, b: int) -> bool:
    """Whether two slots have the same prices when empty."""
    differ = 0
    for r in range(occupancy.base.shape[1]):
        differ += occupancy.base[a, r] != occupancy.base[b, r]
    return differ == 0


@kernel
def _least(arrays: JobArrays, on: int, candidates: int, options: SlotCosts) -> float:
    """No spread option of the slot costs less per sample: the cheapest worker, its part of a server, the best rate."""
    cheapest_worker, cheapest_server, rate = math.inf, math.inf, 0.0
    for c in range(candidates):
        cheapest_worker = min(cheapest_worker, options.price_worker[c])
        cheapest_server = min(cheapest_server, options.price_server[c])
    apart = arrays.apart[on]
    for w in range(1, apart.shape[0]):
        rate = max(rate, apart[w] / w)
    if arrays.per_server > 0:
        cheapest_worker += cheapest_server / arrays.per_server
    return cheapest_worker / rate if rate > 0.0 else math.inf


@kernel
def hull_fill(
    occupancy: Occupancy,
    arrays: JobArrays,
    keep: float,
    work: float,
    start: int,
    end: int,
    value: Floats,
    floor: float,
    patience: int,
    options: SlotCosts,
    hull: Hull,
    pool: Pool,
    choice: SlotChoice,
) -> tuple[bool, float, float, int]:
    """The best schedule in slots start..end-1 when finishing in slot t is worth value[t - start].

    Fills `choice`; returns whether the work can be covered at all, the best payoff above `floor` (else floor), its
    cost, and its last slot (-1: none).
    """
    window = occupancy.base.shape[0]
    best, best_cost, best_last = floor, 0.0, -1
    n, total, spent = 0, 0.0, 0.0
    covered, improved, fresh, points = False, start, -1, 0
    other = hull if arrays.together.shape[0] == 1 else _copy(hull, hull.rate.shape[0])
    enough = work * (1.0 - ROUNDING)
    for t in range(start, end):
        if value[t - start] <= best or (covered and t - improved > patience):
            break
        row = t % window
        if fresh < 0 or occupancy.touched[row] > 0 or not _priced_alike(occupancy, row, fresh):
            points = 0
            for on in range(arrays.together.shape[0]):
                if not takes(arrays, on):
                    continue
                candidates = scan(occupancy, row, arrays, options, on)
                if not covered or _least(arrays, on, candidates, options) < pool.slope[n - 1] * keep:
                    spread(arrays, candidates, options, False)
                if points == 0:
                    points = lower_hull(options, arrays, keep, hull, on)
                else:
                    more = lower_hull(options, arrays, keep, other, on)
                    points = _merge(hull, points, other, more)
            fresh = row if occupancy.touched[row] == 0 else -1
        for k in range(1, points):
            gain, cost = hull.rate[k] - hull.rate[k - 1], hull.cost[k] - hull.cost[k - 1]
            slope = cost / gain
            if covered and slope >= pool.slope[n - 1]:
                break
            size = n
            n = _insert(pool, n, slope, gain, cost, t, hull.kind[k], hull.width[k])
            if n == size:
                break
            total += gain
            spent += cost
            while n > 1 and total - pool.gain[n - 1] >= enough:
                n -= 1
                total -= pool.gain[n]
                spent -= pool.cost[n]
            covered = total >= enough
        if not covered:
            continue
        last = pool.slot[:n].max()
        over = max(0.0, total - work)
        if value[last - start] - (spent - pool.slope[n - 1] * over) <= best:
            continue
        slot = pool.slot[n - 1]  # where only a part of the last segment is needed: take a real option instead
        rate, paid = 0.0, 0.0
        for k in range(n):
            if pool.slot[k] == slot:
                rate += pool.gain[k]
                paid += pool.cost[k]
        fresh = -1
        cost, kind, width = cheapest(occupancy, slot % window, options, arrays, keep, rate - over - ROUNDING * work)
        payoff = value[last - start] - (spent - paid + cost)
        if payoff > best:
            if payoff > best + SLIGHT * value[last - start]:
                improved = t
            best, best_cost, best_last = payoff, spent - paid + cost, last
            choice.width[: end - start] = 0
            for k in range(n):
                choice.kind[pool.slot[k] - start] = pool.kind[k]
                choice.width[pool.slot[k] - start] = pool.width[k]
            choice.kind[slot - start], choice.width[slot - start] = kind, width
    return covered, best, best_cost, best_last
