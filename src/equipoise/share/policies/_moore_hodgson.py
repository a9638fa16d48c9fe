"""Moore and Hodgson's rule: the most jobs that can be done in time, with a heap whose root has the most work."""

import numpy as np

from equipoise.kernels import ZERO, Bools, Floats, Ints, kernel


@kernel
def keep_most(work: Floats, due: Floats, n: int, rate: float, kept: Bools, heap: Ints) -> None:
    """Keep as many of n jobs, which ascend in `due`, as can be done in time at `rate` (Moore and Hodgson).

    The largest give way. A job that would be late even alone is never kept, nor one whose work is infinite. `heap` is
    room for n indices.
    """
    size, total = ZERO, 0.0
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
def _push(heap: Ints, size: int, j: int, work: Floats) -> int:
    """Put j into a heap whose root has the most work; the new size."""
    k = size
    while k > 0 and work[heap[(k - 1) // 2]] < work[j]:
        heap[k] = heap[(k - 1) // 2]
        k = (k - 1) // 2
    heap[k] = j
    return size + 1


@kernel
def _pop(heap: Ints, size: int, work: Floats) -> tuple[int, int]:
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
