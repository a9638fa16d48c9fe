"""Dorm-style: as much in use as fairness allows, with few running jobs resized at a time (after Sun et al., from memory).

Greedy instead of the original's integer program: running jobs stay; waiting ones start in what is free, up to their
fair width (DRF's); if some cannot, a few that hold most beyond their fair share shrink; then jobs grow, the largest gain
in use first. In use is not the same as useful: it fills machines with workers that wait for the network, and worth
and durations are nothing to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Int32s, Ints, kernel
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import JOB, WORKERS, JobTable, Slotwise, dominant, emptiness, fill, take

ADJUSTED = 0.2  # of the running jobs, at least one: how many may be resized in a slot (the original's second theta)
UNFAIR = 0.1  # of the cluster: how far a job may grow beyond its fair share (in the spirit of its first theta)


@dataclass(frozen=True)
class Dorm:
    label: str = "Dorm-style"
    colour: ClassVar[str] = "#be185d"
    rank: ClassVar[int] = 5
    candidate: ClassVar[bool] = False  # never recommended

    def start(self, run: Execution, seed: int) -> DormSession:
        return DormSession(run)


@kernel
def widest_within(jobs: JobTable, j: int, share: float) -> int:
    """The most workers whose dominant share is at most so much."""
    w = 0
    while w < jobs.widest[j] and dominant(jobs, j, w + 1) <= share:
        w += 1
    return w


class DormSession(Slotwise):
    def __init__(self, run: Execution) -> None:
        super().__init__(run)
        self.target = np.zeros_like(self.width)  # what a job is being resized to

    def seats(self, queue: Ints) -> Int32s:
        free = self.capacity.copy()
        sits = {int(j): self.held(int(j)) for j in np.unique(self.still(queue, free)[:, JOB])}
        running = set(sits)
        fair = np.zeros_like(self.width)
        fair[queue], *_ = fill(queue, self.jobs, self.capacity.copy())
        adjustments = max(1, int(ADJUSTED * len(running)))
        self._admit(queue, sits, fair, free)
        if any(fair[j] > 0 and int(j) not in sits for j in queue):
            adjustments -= self._shrink(sits, running, fair, free, adjustments)
            self._admit(queue, sits, fair, free)
        self._grow(sits, running, fair, free, adjustments)
        return np.concatenate([sits[int(j)] for j in queue if int(j) in sits] or [self.was[:0]])

    def _admit(self, queue: Ints, sits: dict[int, Int32s], fair: Ints, free: Ints) -> None:
        """Start waiting jobs where they fit, those with a fair share first, at most at their fair width."""
        waiting = np.array([j for j in queue if int(j) not in sits], dtype=np.int64)
        order = waiting[np.argsort(fair[waiting] == 0, kind="stable")]
        rows = self.in_order(order, widths=np.maximum(fair, 1), free=free, narrower=True)
        for j in np.unique(rows[:, JOB]):
            sits[int(j)] = rows[rows[:, JOB] == j]

    def _shrink(self, sits: dict[int, Int32s], running: set[int], fair: Ints, free: Ints, most: int) -> int:
        """Bring those furthest above their fair share down to it; returns how many."""
        over = {j: dominant(self.jobs, j, _width(sits[j])) - dominant(self.jobs, j, max(1, fair[j])) for j in running}
        chosen = sorted((j for j in over if over[j] > 0.0), key=lambda j: (-over[j], j))[:most]
        for j in chosen:
            self._resize(j, max(1, int(fair[j])), sits, free)
            running.discard(j)
        return len(chosen)

    def _grow(self, sits: dict[int, Int32s], running: set[int], fair: Ints, free: Ints, most: int) -> None:
        """Widen jobs, by the largest gain in use; those just started for nothing, running ones as far as allowed."""
        wanted = {}
        for j, rows in sits.items():
            width = widest_within(self.jobs, j, dominant(self.jobs, j, int(fair[j])) + UNFAIR)
            if width > _width(rows) and (j in running or self.last[j] == 0):
                wanted[j] = (width, (width - _width(rows)) * emptiness(self.jobs.worker[j], self.jobs.total))
        for j in sorted(wanted, key=lambda j: (-wanted[j][1], j)):
            if j in running and most == 0:
                continue
            if np.any(np.all(free >= self.jobs.worker[j], axis=1)) and self._resize(j, wanted[j][0], sits, free):
                most -= j in running

    def _resize(self, j: int, width: int, sits: dict[int, Int32s], free: Ints) -> bool:
        """Seat a job anew at a width, or the widest below it that fits; whether its width is another now."""
        old = sits[j]
        take(free, self.jobs, old, -1)
        self.target[j] = width
        rows = self.in_order(np.array([j]), widths=self.target, free=free, narrower=True)
        shrinks = width < _width(old)
        if len(rows) and (shrinks or _width(rows) > _width(old)):
            sits[j] = rows
            return True
        take(free, self.jobs, rows, -1)
        take(free, self.jobs, old, 1)
        return False


def _width(rows: Int32s) -> int:
    return int(rows[:, WORKERS].sum())
