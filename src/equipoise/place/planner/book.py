"""The book of what is taken: for every slot ahead, machines grouped by equal type and equal use.

A plan looks at groups, never at single machines, so ten thousand equal machines cost as much as one. Amounts are whole
milli-units: what is given back is exactly what was taken. Slots live in a ring: slot t is row t % window.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import kernel
from equipoise.place.cluster import Cluster

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]

BUCKETS = 64  # groups are chained by mean use, the least used first
NONE = -1


class Book(NamedTuple):
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


def new_book(cluster: Cluster, window: int, growth: Floats, base: Floats) -> Book:
    """An empty book for `window` slots ahead; memory is taken as it is touched. `base` has a row a slot."""
    machines, types, resources = cluster.size, len(cluster.machines), len(cluster.resources)
    groups = machines + types + 1
    by_machine, by_group = (window, machines), (window, groups)
    book = Book(
        cluster.capacity,
        cluster.type_of,
        np.asarray(growth, float),
        np.array(base, float),
        np.zeros(by_machine, np.int32),
        np.zeros(by_machine, np.int32),
        np.zeros(by_machine, np.int32),
        np.zeros(by_group, np.int32),
        np.zeros(by_group, np.int32),
        np.zeros(by_group, np.int32),
        np.zeros((*by_group, resources), np.int64),
        np.zeros((*by_group, resources)),
        np.zeros(by_group, np.int32),
        np.zeros(by_group, np.int32),
        np.zeros(by_group, np.int32),
        np.full((window, BUCKETS), NONE, np.int32),
        np.zeros(by_group, np.int32),
        np.zeros(window, np.int32),
        np.zeros(window, np.int32),
        np.zeros(window, np.int32),
    )
    for row in range(window):
        clear(book, row)
    return book


@kernel
def clear(book: Book, row: int) -> None:
    """Give everything in a slot back: one group a type."""
    for b in range(BUCKETS):
        book.top[row, b] = NONE
    book.spares[row] = 0
    book.groups[row] = book.capacity.shape[0]
    book.touched[row] = 0
    for g in range(book.capacity.shape[0]):
        book.type[row, g] = g
        book.members[row, g] = 0
        book.first[row, g] = NONE
        for r in range(book.capacity.shape[1]):
            book.used[row, g, r] = 0
            book.factor[row, g, r] = 1.0
        _chain(book, row, g, 0)
    for h in range(book.kind.shape[0] - 1, -1, -1):
        _join(book, row, h, book.kind[h])


@kernel
def _chain(book: Book, row: int, g: int, b: int) -> None:
    """Put a group at the head of a bucket."""
    book.bucket[row, g] = b
    book.earlier[row, g] = NONE
    book.later[row, g] = book.top[row, b]
    if book.top[row, b] != NONE:
        book.earlier[row, book.top[row, b]] = g
    book.top[row, b] = g


@kernel
def _unchain(book: Book, row: int, g: int) -> None:
    before, after = book.earlier[row, g], book.later[row, g]
    if before == NONE:
        book.top[row, book.bucket[row, g]] = after
    else:
        book.later[row, before] = after
    if after != NONE:
        book.earlier[row, after] = before


@kernel
def _join(book: Book, row: int, h: int, g: int) -> None:
    """Put a machine at the head of a group."""
    book.group[row, h] = g
    book.before[row, h] = NONE
    book.after[row, h] = book.first[row, g]
    if book.first[row, g] != NONE:
        book.before[row, book.first[row, g]] = h
    book.first[row, g] = h
    book.members[row, g] += 1


@kernel
def _leave(book: Book, row: int, h: int) -> None:
    g = book.group[row, h]
    before, after = book.before[row, h], book.after[row, h]
    if before == NONE:
        book.first[row, g] = after
    else:
        book.after[row, before] = after
    if after != NONE:
        book.before[row, after] = before
    book.members[row, g] -= 1


@kernel
def _alike(book: Book, row: int, a: int, b: int) -> bool:
    """Whether two groups are machines of one type used alike."""
    differ = int(book.type[row, a] != book.type[row, b])
    for r in range(book.capacity.shape[1]):
        differ += book.used[row, a, r] != book.used[row, b, r]
    return differ == 0


@kernel
def move(book: Book, row: int, h: int, amount: Ints) -> None:
    """Take `amount` (milli-units; negative gives back) on machine h: it joins the group of machines used like it now."""
    old = book.group[row, h]
    kind = book.type[row, old]
    resources = book.capacity.shape[1]
    spares = book.spares[row]
    g = book.spare[row, spares - 1] if spares > 0 else book.groups[row]  # a new group, kept when no other is like it
    was, now, moved, share, having = False, False, False, 0.0, 0
    for r in range(resources):
        used, full = book.used[row, old, r] + amount[r], book.capacity[kind, r]
        book.used[row, g, r] = used
        was, now, moved = was or book.used[row, old, r] > 0, now or used > 0, moved or amount[r] != 0
        if full > 0:
            share += used / full
            having += 1
    if not moved:
        return
    book.type[row, g] = kind
    b = min(BUCKETS - 1, int(BUCKETS * share / max(1, having)))  # by mean use over the resources the machine has
    other = book.top[row, b]
    while other != NONE and not _alike(book, row, other, g):
        other = book.later[row, other]
    if other != NONE:
        g = other
    else:
        if book.spares[row] > 0:
            book.spares[row] -= 1
        else:
            book.groups[row] += 1
        book.members[row, g] = 0
        book.first[row, g] = NONE
        for r in range(resources):
            full = book.capacity[kind, r]
            book.factor[row, g, r] = math.exp(book.growth[r] * book.used[row, g, r] / full) if full > 0 else 1.0
        _chain(book, row, g, b)
    book.touched[row] += int(now) - int(was)
    _leave(book, row, h)
    if book.members[row, old] == 0:
        _unchain(book, row, old)
        book.spare[row, book.spares[row]] = old
        book.spares[row] += 1
    _join(book, row, h, g)


@kernel
def use(book: Book, row: int) -> Ints:
    """[machine, r] milli-units taken in a slot."""
    out = np.empty((book.kind.shape[0], book.capacity.shape[1]), np.int64)
    for h in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[h, r] = book.used[row, book.group[row, h], r]
    return out


@kernel
def roomiest(book: Book, row: int) -> Ints:
    """[r] the largest free amount on any one machine."""
    out = np.zeros(book.capacity.shape[1], np.int64)
    for b in range(BUCKETS):
        g = book.top[row, b]
        while g != NONE:
            for r in range(out.shape[0]):
                out[r] = max(out[r], book.capacity[book.type[row, g], r] - book.used[row, g, r])
            g = book.later[row, g]
    return out
