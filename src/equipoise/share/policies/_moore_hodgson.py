"""Moore and Hodgson's rule: the most jobs that can be done in time, with a heap whose root has the most work."""

from typing import Any

import numpy as np

from equipoise.kernels import ZERO, Indices, inner

JOB = np.dtype([("work", np.float64), ("due", np.float64), ("task", np.uint64), ("kept", np.bool_)], align=True)


@inner
def keep_most(jobs: Any, n: int, rate: float, heap: Indices) -> None:
    """Keep as many of n jobs, which ascend in `due`, as can be done in time at `rate` (Moore and Hodgson).

    The largest give way. A job that would be late even alone is never kept, nor one whose work is infinite. `heap` is
    room for n indices.
    """
    size, total, late = ZERO, 0.0, False
    for j in range(n):
        mine, most = jobs[j].work, rate * jobs[j].due + 1e-9
        jobs[j].kept = mine <= most and mine < np.inf  # infinite work would swallow the digits of the rest
        if not jobs[j].kept:
            continue
        if total + mine <= most:
            total += mine
            if late:
                size = _push(heap, size, j, jobs)
            continue
        if not late:  # till now nobody had to give way: no heap
            late = True
            for k in range(j):
                if jobs[k].kept:
                    size = _push(heap, size, k, jobs)
        if size > 0 and jobs[heap[0]].work >= mine:
            jobs[heap[0]].kept = False
            total += mine - jobs[heap[0]].work
            _replace(heap, size, j, jobs)
        else:
            jobs[j].kept = False


@inner
def _push(heap: Indices, size: int, j: int, jobs: Any) -> int:
    """Put j into a heap whose root has the most work; the new size."""
    k = size
    while k > 0 and jobs[heap[(k - 1) // 2]].work < jobs[j].work:
        heap[k] = heap[(k - 1) // 2]
        k = (k - 1) // 2
    heap[k] = j
    return size + 1


@inner
def _replace(heap: Indices, size: int, j: int, jobs: Any) -> None:
    """Put j in the place of the root."""
    k = 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and jobs[heap[child + 1]].work > jobs[heap[child]].work:
            child += 1
        if jobs[heap[child]].work <= jobs[j].work:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = j
