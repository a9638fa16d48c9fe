"""The most jobs that one shared rate can finish in time (Moore and Hodgson), for one seed at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import kernel

Floats = NDArray[np.float64]


@kernel
def keep_most(work: Floats, due: Floats, n: int, rate: float, kept: NDArray[np.bool_], heap: NDArray[np.int64]) -> None:
    """Keep as many of n jobs, which ascend in `due`, as can be done in time at `rate`; the largest give way.

    A job that would be late even alone is never kept, nor one whose work is infinite. `heap` is room for n indices.
    """
    size, total = 0, 0.0
    for j in range(n):
        kept[j] = False
        if (
            work[j] > rate * due[j] + 1e-9 or work[j] == np.inf
        ):  # added to the total, it would swallow the rest's digits
            continue
        kept[j] = True
        total += work[j]
        size = _push(heap, size, j, work)
        if total > rate * due[j] + 1e-9:
            largest, size = _pop(heap, size, work)
            kept[largest] = False
            total -= work[largest]


@kernel
def _push(heap: NDArray[np.int64], size: int, j: int, work: Floats) -> int:
    """Put j into a heap whose root has the most work; the new size."""
    k = size
    while k > 0 and work[heap[(k - 1) // 2]] < work[j]:
        heap[k] = heap[(k - 1) // 2]
        k = (k - 1) // 2
    heap[k] = j
    return size + 1


@kernel
def _pop(heap: NDArray[np.int64], size: int, work: Floats) -> tuple[int, int]:
    """Take the root; (it, the new size)."""
    root, size = heap[0], size - 1
    j, k = heap[size], 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and work[heap[child + 1]] > work[heap[child]]:
            child += 1
        if work[heap[child]] <= work[j]:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = j
    return root, size
