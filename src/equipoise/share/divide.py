"""Two ways to divide a resource among tasks, for whole batches: one after the other, or in proportion."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.kernels import INDEX, ZERO, Bools, Floats, Indices, inlined, inner, kernel
from equipoise.share.task import SENDING


def greedy(key: ArrayLike, who: Bools, most: ArrayLike, total: ArrayLike) -> Floats:
    """Serve tasks in ascending `key`, each up to `most`, until `total` is spent. Ties go to the first task.

    Parameters
    ----------
    key
        Who is served first: array of shape (seeds, tasks), or what broadcasts to it.
    who
        The tasks that take part: booleans of shape (seeds, tasks).
    most
        The most that one task may get.
    total
        What there is: one value, or one for each seed.
    """
    shape = who.shape
    given = np.zeros(shape)
    _greedy(_full(key, shape), who, _grid(most, shape), _column(total, shape), given)
    return given


def share_out(weight: ArrayLike, who: Bools, most: ArrayLike, total: ArrayLike) -> Floats:
    """Divide `total` in proportion to `weight`, each at most `most`; what the full ones leave goes to the rest.

    Parameters
    ----------
    weight
        Of each task: array of shape (seeds, tasks), or what broadcasts to it.
    who
        The tasks that take part: booleans of shape (seeds, tasks).
    most
        The most that one task may get.
    total
        What there is: one value, or one for each seed.
    """
    shape = who.shape
    given = np.zeros(shape)
    if not who.any():
        return given
    _share_out(_grid(weight, shape), who, _grid(most, shape), _column(total, shape), given)
    return given


def equal(who: Bools, most: ArrayLike, total: ArrayLike) -> Floats:
    """Max-min fair: the same for everybody, and what the full ones leave to the rest. As `share_out` with equal weights."""
    return share_out(1.0, who, most, total)


def first(n: int, key: ArrayLike, who: Bools) -> Bools:
    """The `n` tasks of `who` with the smallest key, for each seed; ties go to the first task. Arrays as of `greedy`."""
    return greedy(key, who, 1.0, float(n)) > 0.0


def _grid(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Values with a row for all seeds or one for each, and a column for all tasks or one for each."""
    array = np.asarray(values, dtype=float)
    if array.size == 1:
        return array.reshape(1, 1)
    if array.shape != shape:
        np.broadcast_to(array, shape)  # refuses what does not fit
        array = array.reshape((1,) * (2 - array.ndim) + array.shape)
    return np.ascontiguousarray(array)


def _full(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Values with a row for each seed and a column for each task; whole numbers stay so."""
    array = np.asarray(values)
    if array.dtype != np.int64:
        array = array.astype(float, copy=False)
    return np.ascontiguousarray(array if array.shape == shape else np.broadcast_to(array, shape))


def _column(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(values, dtype=float).reshape(-1)
    if len(array) not in (1, shape[0]):
        raise InputError(
            f"total has {len(array)} values; expected one, or one for each of {shape[0]} seeds", code="total.shape"
        )
    return array if len(array) == shape[0] else np.full(shape[0], array[0])


@kernel
def count(who: Bools) -> Floats:
    """How many tasks, for each seed, as a column; at least one, so that one can divide by it.

    Parameters
    ----------
    who
        Booleans of shape (seeds, tasks).
    """
    found = np.empty((who.shape[0], 1))
    for s in range(who.shape[0]):
        row, n = who[s], 0
        for i in range(len(row)):
            n += row[i]
        found[s, 0] = max(n, 1)
    return found


@inlined
def those_in(first: int, last: int, s: int, state: NDArray[np.int8], who: Indices) -> int:
    """Write the numbers of a seed's tasks between two states; how many."""
    n = ZERO
    for i in range(state.shape[1]):  # without a branch: where they are is hard to predict
        who[n] = i
        n += (state[s, i] >= first) & (state[s, i] <= last)
    return n


@inlined
def send_evenly(s: int, state: NDArray[np.int8], data: Floats, total: float, who: Indices, given: Floats) -> None:
    """The uplink in equal parts to a seed's tasks that send, and what the full ones leave to the rest, as of `equal`."""
    n, left = those_in(SENDING, SENDING, s, state, who), total
    while n > 0 and left > 0.0:
        part, keep = 1.0 / n * left, ZERO
        for k in range(n):
            i = who[k]
            given[s, i] = min(part, data[s, i])
            if part >= data[s, i]:
                left -= data[s, i]
            else:
                who[keep] = i
                keep += 1
        n = ZERO if keep == n else keep


@kernel
def _greedy(key: Floats, who: Bools, most: Floats, total: Floats, given: Floats) -> None:
    """`order` holds the tasks in ascending key, only as many as can be served: often few."""
    seeds, tasks = who.shape
    order, present = np.empty(tasks, INDEX), np.empty(tasks + 1, INDEX)
    row, column = int(most.shape[0] > 1), int(most.shape[1] > 1)
    for s in range(seeds):
        found, n, asked = 0, ZERO, 0.0
        keys, mosts, here = key[s], most[s * row], who[s]
        for i in range(tasks):  # without a branch: where they are is hard to predict
            present[found] = i
            found += here[i]
        for k in range(found):
            i = present[k]
            if n > 0 and asked >= total[s] and keys[i] >= keys[order[n - 1]]:
                continue
            n = insert(order, n, keys, i)
            asked += mosts[i * column]
            while n > 1 and asked - mosts[order[n - 1] * column] >= total[s]:
                n -= 1
                asked -= mosts[order[n] * column]
        left = total[s]
        for k in range(n):
            i = order[k]
            part = min(mosts[i * column], left)
            if part > 0.0:
                given[s, i] = part
                left -= part
            if left <= 0.0:
                break


@inner
def insert(order: Indices, n: int, key: Floats, i: int | np.uint64) -> int:
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
    open_ = np.empty(tasks + 1, INDEX)
    weight_row, weight_column = int(weight.shape[0] > 1), int(weight.shape[1] > 1)
    most_row, most_column = int(most.shape[0] > 1), int(most.shape[1] > 1)
    for s in range(seeds):
        found, n, here, w, m = 0, 0, who[s], weight[s * weight_row], most[s * most_row]
        for i in range(tasks):  # without a branch: they are few, and where is hard to predict
            open_[found] = i
            found += here[i]
        for k in range(found):
            i = open_[k]
            open_[n] = i
            n += w[i * weight_column] > 0.0 and m[i * most_column] > 0.0
        left = total[s]
        while n > 0 and left > 0.0:
            weights = 0.0
            for k in range(n):
                i = open_[k]
                weights += w[i * weight_column]
            keep, whole = 0, left
            for k in range(n):
                i = open_[k]
                if w[i * weight_column] / weights * whole >= m[i * most_column]:
                    given[s, i] = m[i * most_column]
                    left -= m[i * most_column]
                else:
                    open_[keep] = i
                    keep += 1
            if keep == n:
                for k in range(n):
                    i = open_[k]
                    given[s, i] = w[i * weight_column] / weights * whole
                break
            n = keep
