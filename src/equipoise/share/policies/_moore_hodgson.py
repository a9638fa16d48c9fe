"""Moore and Hodgson's rule: the most jobs that can be done in time, with a heap whose root has the most work."""

from typing import Any

import numpy as np

from equipoise.kernels import ZERO, Indices, inner

JOB = np.dtype(
    [*((name, np.float64) for name in ("work", "due", "top")), ("task", np.uint64), ("kept", np.bool_)], align=True
)  # `top`: not of this job, but the work of the one that stands here in the heap


@inner
def keep_most(jobs: Any, n: int, rate: float, heap: Indices) -> None:
    """Keep as many of n jobs, which ascend in `due`, as can be done in time at `rate` (Moore and Hodgson).

    The largest give way. A job that would be late even alone is never kept, nor one whose work is infinite. `heap` is
    room for n indices.
    """
    size, total, late = ZERO, 0.0, False
    for j in range(n):
        mine, most = jobs[j].work, rate * jobs[j].due + 1e-9
        fits = (mine <= most) & (mine < np.inf)  # infinite work would swallow the digits of the rest
        more = total + (mine if fits else 0.0)
        jobs[j].kept = fits
        if (more <= most) | (not fits):
            total = more
            if late and fits:
                size = _push(heap, size, j, jobs)
            continue
        if not late:  # till now nobody had to give way: no heap
            late = True
            for k in range(j):
                if jobs[k].kept:
                    size = _push(heap, size, k, jobs)
        if size > 0 and jobs[0].top >= mine:
            jobs[heap[0]].kept = False
            total += mine - jobs[0].top
            _replace(heap, size, j, jobs)
        else:
            jobs[j].kept = False


@inner
def _push(heap: Indices, size: int, j: int, jobs: Any) -> int:
    """Put j into a heap whose root has the most work; the new size."""
    k, work = size, jobs[j].work
    while k > 0 and jobs[(k - 1) >> 1].top < work:
        heap[k], jobs[k].top = heap[(k - 1) >> 1], jobs[(k - 1) >> 1].top
        k = (k - 1) >> 1
    heap[k], jobs[k].top = j, work
    return size + 1


@inner
def _replace(heap: Indices, size: int, j: int, jobs: Any) -> None:
    """Put j in the place of the root."""
    k, child, work = 0, 1, jobs[j].work
    while child < size:
        child += (child + 1 < size) and jobs[child + 1].top > jobs[child].top
        if jobs[child].top <= work:
            break
        heap[k], jobs[k].top = heap[child], jobs[child].top
        k, child = child, 2 * child + 1
    heap[k], jobs[k].top = j, work
