"""What is taken: for every slot ahead, machines grouped by equal type and equal use.

A plan looks at groups, never at single machines, so ten thousand equal machines cost as much as one. Amounts are whole
milli-units: what is given back is exactly what was taken. Slots live in a ring: slot t is row t % window.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Floats, Int32s, Ints, kernel
from equipoise.place.cluster import Cluster

BUCKETS = 64  # groups are chained by mean use, the least used first
NONE = -1


class Occupancy(NamedTuple):
    """Rows are slots. A group's price of resource r is base[row, r] * factor[row, group, r]."""

    capacity: Ints  # [type, r] milli-units
    kind: Int32s  # [machine] its type
    growth: Floats  # [r] ln(price when full / price when empty)
    base: Floats  # [row, r] utility per milli-unit and slot on an empty machine
    group: Int32s  # [row, machine]
    after: Int32s  # [row, machine] the group's list of machines
    before: Int32s
    first: Int32s  # [row, group] its first machine
    members: Int32s  # [row, group] how many machines
    type: Int32s  # [row, group]
    used: Ints  # [row, group, r] milli-units on each of its machines
    factor: Floats  # [row, group, r] exp(growth * used / capacity)
    bucket: Int32s  # [row, group]
    later: Int32s  # [row, group] the bucket's list of groups
    earlier: Int32s
    top: Int32s  # [row, bucket] its first group
    spare: Int32s  # [row, k] group numbers free for reuse
    spares: Int32s  # [row] how many of those
    groups: Int32s  # [row] group numbers ever used
    touched: Int32s  # [row] machines with anything on them


def new_occupancy(cluster: Cluster, window: int, growth: Floats, base: Floats) -> Occupancy:
    """Nothing taken in `window` slots ahead; memory is taken as it is touched. `base` has one row per slot."""
    machines, resources = cluster.size, len(cluster.resources)
    groups = machines + len(cluster.machines) + 1
    fixed = cluster.capacity, cluster.type_of, np.asarray(growth, float), np.array(base, float)
    by_machine = np.zeros((3, window, machines), np.int32)
    first, members, kind, *chain, spare = np.zeros((7, window, groups), np.int32)
    used, factor = np.zeros((window, groups, resources), np.int64), np.zeros((window, groups, resources))
    top, counts = np.full((window, BUCKETS), NONE, np.int32), np.zeros((3, window), np.int32)
    occupancy = Occupancy._make((*fixed, *by_machine, first, members, kind, used, factor, *chain, top, spare, *counts))
    for row in range(window):
        clear(occupancy, row)
    return occupancy


@kernel
def clear(occupancy: Occupancy, row: int) -> None:
    """Give everything in a slot back: one group a type."""
    for b in range(BUCKETS):
        occupancy.top[row, b] = NONE
    occupancy.spares[row] = 0
    occupancy.groups[row] = occupancy.capacity.shape[0]
    occupancy.touched[row] = 0
    for g in range(occupancy.capacity.shape[0]):
        occupancy.type[row, g] = g
        occupancy.members[row, g] = 0
        occupancy.first[row, g] = NONE
        for r in range(occupancy.capacity.shape[1]):
            occupancy.used[row, g, r] = 0
            occupancy.factor[row, g, r] = 1.0
        _chain(occupancy, row, g, 0)
    for h in range(occupancy.kind.shape[0] - 1, -1, -1):
        _join(occupancy, row, h, occupancy.kind[h])


@kernel
def _enter(item: int, of: int, row: int, first: Int32s, after: Int32s, before: Int32s) -> None:
    """Put an item at the head of a list: a machine of its group's, a group of its bucket's."""
    before[row, item] = NONE
    after[row, item] = first[row, of]
    if first[row, of] != NONE:
        before[row, first[row, of]] = item
    first[row, of] = item


@kernel
def _drop(item: int, of: int, row: int, first: Int32s, after: Int32s, before: Int32s) -> None:
    """Take an item out of its list."""
    left, right = before[row, item], after[row, item]
    if left == NONE:
        first[row, of] = right
    else:
        after[row, left] = right
    if right != NONE:
        before[row, right] = left


@kernel
def _chain(occupancy: Occupancy, row: int, g: int, b: int) -> None:
    """Put a group at the head of a bucket."""
    occupancy.bucket[row, g] = b
    _enter(g, b, row, occupancy.top, occupancy.later, occupancy.earlier)


@kernel
def _join(occupancy: Occupancy, row: int, h: int, g: int) -> None:
    """Put a machine at the head of a group."""
    occupancy.group[row, h] = g
    occupancy.members[row, g] += 1
    _enter(h, g, row, occupancy.first, occupancy.after, occupancy.before)


@kernel
def _alike(occupancy: Occupancy, row: int, a: int, b: int) -> bool:
    """Whether two groups are machines of one type used alike."""
    differ = int(occupancy.type[row, a] != occupancy.type[row, b])
    for r in range(occupancy.capacity.shape[1]):
        differ += occupancy.used[row, a, r] != occupancy.used[row, b, r]
    return differ == 0


@kernel
def move(occupancy: Occupancy, row: int, h: int, amount: Ints) -> None:
    """Take `amount` (milli-units; negative gives back) on machine h: it joins the group of machines used like it now."""
    old = occupancy.group[row, h]
    kind = occupancy.type[row, old]
    resources = occupancy.capacity.shape[1]
    spares = occupancy.spares[row]
    g = occupancy.spare[row, spares - 1] if spares > 0 else occupancy.groups[row]
    was, now, moved, share, having = False, False, False, 0.0, 0
    for r in range(resources):
        used, full = occupancy.used[row, old, r] + amount[r], occupancy.capacity[kind, r]
        occupancy.used[row, g, r] = used
        was, now, moved = was or occupancy.used[row, old, r] > 0, now or used > 0, moved or amount[r] != 0
        if full > 0:
            share += used / full
            having += 1
    if not moved:
        return
    occupancy.type[row, g] = kind
    b = min(BUCKETS - 1, int(BUCKETS * share / max(1, having)))  # by mean use over the resources the machine has
    other = occupancy.top[row, b]
    while other != NONE and not _alike(occupancy, row, other, g):
        other = occupancy.later[row, other]
    if other != NONE:
        g = other
    else:
        if occupancy.spares[row] > 0:
            occupancy.spares[row] -= 1
        else:
            occupancy.groups[row] += 1
        occupancy.members[row, g] = 0
        occupancy.first[row, g] = NONE
        for r in range(resources):
            full = occupancy.capacity[kind, r]
            occupancy.factor[row, g, r] = (
                math.exp(occupancy.growth[r] * occupancy.used[row, g, r] / full) if full > 0 else 1.0
            )
        _chain(occupancy, row, g, b)
    occupancy.touched[row] += int(now) - int(was)
    occupancy.members[row, old] -= 1
    _drop(h, old, row, occupancy.first, occupancy.after, occupancy.before)
    if occupancy.members[row, old] == 0:
        _drop(old, occupancy.bucket[row, old], row, occupancy.top, occupancy.later, occupancy.earlier)
        occupancy.spare[row, occupancy.spares[row]] = old
        occupancy.spares[row] += 1
    _join(occupancy, row, h, g)


@kernel
def use(occupancy: Occupancy, row: int) -> Ints:
    """[machine, r] milli-units taken in a slot."""
    out = np.empty((occupancy.kind.shape[0], occupancy.capacity.shape[1]), np.int64)
    for h in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[h, r] = occupancy.used[row, occupancy.group[row, h], r]
    return out


@kernel
def roomiest(occupancy: Occupancy, row: int) -> Ints:
    """[r] the largest free amount on any one machine."""
    out = np.zeros(occupancy.capacity.shape[1], np.int64)
    for b in range(BUCKETS):
        g = occupancy.top[row, b]
        while g != NONE:
            for r in range(out.shape[0]):
                out[r] = max(out[r], occupancy.capacity[occupancy.type[row, g], r] - occupancy.used[row, g, r])
            g = occupancy.later[row, g]
    return out
