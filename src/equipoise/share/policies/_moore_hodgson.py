"""Moore and Hodgson's rule: the most jobs that can be done in time, with a heap whose root has the most work."""

import numpy as np

from equipoise.kernels import ZERO, Bools, Floats, Indices, inner, kernel


@kernel
def keep_most(work: Floats, due: Floats, n: int, rate: float, kept: Bools, heap: Indices) -> None:
    """Keep as many of n jobs, which ascend in `due`, as can be done in time at `rate` (Moore and Hodgson).

    The largest give way. A job that would be late even alone is never kept, nor one whose work is infinite. `heap` is
    room for n indices.
    """
    size, total, late = ZERO, 0.0, False
    for j in range(n):
        mine, most = work[j], rate * due[j] + 1e-9
        kept[j] = mine <= most and mine < np.inf  # infinite work would swallow the digits of the rest
        if not kept[j]:
            continue
        if total + mine <= most:
            total += mine
            if late:
                size = _push(heap, size, j, work)
            continue
        if not late:  # till now nobody had to give way: no heap
            late = True
            for k in range(j):
                if kept[k]:
                    size = _push(heap, size, k, work)
        if size > 0 and work[heap[0]] >= mine:
            kept[heap[0]] = False
            total += mine - work[heap[0]]
            _replace(heap, size, j, work)
        else:
            kept[j] = False


@inner
def _push(heap: Indices, size: int, j: int, work: Floats) -> int:
    """Put j into a heap whose root has the most work; the new size."""
    k = size
    while k > 0 and work[heap[(k - 1) // 2]] < work[j]:
        heap[k] = heap[(k - 1) // 2]
        k = (k - 1) // 2
    heap[k] = j
    return size + 1


@inner
def _replace(heap: Indices, size: int, j: int, work: Floats) -> None:
    """Put j in the place of the root."""
    k = 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and work[heap[child + 1]] > work[heap[child]]:
            child += 1
        if work[heap[child]] <= work[j]:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = j
