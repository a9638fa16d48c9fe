"""Two ways to divide a resource among tasks, for whole batches: one after the other, or in proportion."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.compiled import kernel
from equipoise.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def greedy(key: ArrayLike, who: Bools, most: ArrayLike, total: ArrayLike) -> Floats:
    """Serve tasks in ascending `key`, each up to `most`, until `total` is spent. Ties go to the first task."""
    shape = who.shape
    given = np.zeros(shape)
    _greedy(_grid(key, shape), who, _grid(most, shape), _column(total, shape), given)
    return given


def share_out(weight: ArrayLike, who: Bools, most: ArrayLike, total: ArrayLike) -> Floats:
    """Divide `total` in proportion to `weight`, each at most `most`; what the full ones leave goes to the rest."""
    shape = who.shape
    given = np.zeros(shape)
    _share_out(_grid(weight, shape), who, _grid(most, shape), _column(total, shape), given)
    return given


def equal(who: Bools, most: ArrayLike, total: ArrayLike) -> Floats:
    """Max-min fair: the same for everybody, and what the full ones leave to the rest."""
    return share_out(1.0, who, most, total)


def count(who: Bools) -> Floats:
    """How many, in each row, as a column; at least one, so that one can divide by it."""
    return np.asarray(np.maximum(who.sum(axis=1, keepdims=True), 1), dtype=float)


def first(n: int, key: ArrayLike, who: Bools) -> Bools:
    """The n tasks of `who` with the smallest key, in each row; ties go to the first task."""
    return greedy(key, who, 1.0, float(n)) > 0.0


def _grid(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(values, dtype=float)
    return np.ascontiguousarray(array) if array.shape == shape else np.ascontiguousarray(np.broadcast_to(array, shape))


def _column(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(values, dtype=float).reshape(-1)
    if len(array) not in (1, shape[0]):
        raise InputError(f"total has {len(array)} values; expected one, or one for each of {shape[0]} seeds")
    return array if len(array) == shape[0] else np.full(shape[0], array[0])


@kernel
def _greedy(key: Floats, who: Bools, most: Floats, total: Floats, given: Floats) -> None:
    seeds, tasks = who.shape
    order = np.empty(tasks, np.int64)
    for s in range(seeds):
        n = 0
        for i in range(tasks):
            if who[s, i]:
                n = insert(order, n, key[s], i)
        left = total[s]
        for k in range(n):
            i = order[k]
            part = min(most[s, i], left)
            if part > 0.0:
                given[s, i] = part
                left -= part
            if left <= 0.0:
                break


@kernel
def insert(order: NDArray[np.int64], n: int, key: Floats, i: int) -> int:
    """Put i into the first n of `order`, which ascend in key, behind its equals; the new n."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if key[order[middle]] <= key[i]:
            low = middle + 1
        else:
            high = middle
    for k in range(n, low, -1):
        order[k] = order[k - 1]
    order[low] = i
    return n + 1


@kernel
def _share_out(weight: Floats, who: Bools, most: Floats, total: Floats, given: Floats) -> None:
    seeds, tasks = who.shape
    open_ = np.empty(tasks, np.int64)
    for s in range(seeds):
        n = 0
        for i in range(tasks):
            if who[s, i] and weight[s, i] > 0.0 and most[s, i] > 0.0:
                open_[n] = i
                n += 1
        left = total[s]
        while n > 0 and left > 0.0:
            weights = 0.0
            for k in range(n):
                weights += weight[s, open_[k]]
            keep, whole = 0, left
            for k in range(n):
                i = open_[k]
                if weight[s, i] * whole / weights >= most[s, i]:
                    given[s, i] = most[s, i]
                    left -= most[s, i]
                else:
                    open_[keep] = i
                    keep += 1
            if keep == n:
                for k in range(n):
                    given[s, open_[k]] = weight[s, open_[k]] * whole / weights
                break
            n = keep
