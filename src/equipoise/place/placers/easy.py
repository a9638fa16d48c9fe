"""EASY backfill (Slurm's default): in order of arrival; the first that waits has a reservation, others fill holes before it.

After Lifka's scheduler (1995). The reservation is the earliest slot in which the head of the queue fits by stated
durations. Others start now if they end before it, or on amounts of machines that it leaves over. Nobody is stopped or
moved, nor is one who runs longer than stated. It knows nothing of worth or deadlines. Bad where wide jobs wait for machines
that come free one by one, and where durations are overstated: holes look too short to fill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from equipoise.kernels import Floats, Int32s, Ints, borrowed, kernel
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import GIVE, JOB, TAKE, JobTable, Slotwise, copied, fits_at_all, room, seat, take
from equipoise.place.planner.packing import ROUNDING

LONGEST = 1e9  # slots: for a rate of nothing
STAY = cast(bool, np.bool_(True))  # for a literal True the callee would be compiled twice


@dataclass(frozen=True)
class EASY:
    label: str = "EASY"
    colour: ClassVar[str] = "#4d7c0f"
    rank: ClassVar[float] = 3.5

    def start(self, run: Execution, seed: int) -> EASYSession:
        return EASYSession(run)


class EASYSession(Slotwise):
    def __init__(self, run: Execution) -> None:
        super().__init__(run)
        both = zip(run.arrays, self.width, strict=True)
        tables = [(a.together[a.taken, w], a.apart[a.taken, w]) for a, w in both]  # of the types it takes
        slowest = [[rates.min(initial=np.inf) for rates in pair] for pair in tables]
        self.rates = np.array(slowest).reshape(-1, 2)  # on one machine, or not
        with np.errstate(divide="ignore", invalid="ignore"):
            need = run.work[:, None] / self.rates + self.jobs.restart[:, None]
        self.slots = np.ceil(np.fmin(need, LONGEST) * (1.0 - ROUNDING))

    def seats(self, queue: Ints) -> Int32s:
        free = self.capacity.copy()
        held = self.still(queue, free)
        job = held[:, JOB].astype(np.int64)
        rate = self.rates[job, (self.last[job] - self.first[job] > 1).astype(np.int64)]
        left = np.maximum(self.run.work[job] - self.run.done[job], 0.0) / rate
        ends = np.maximum(1.0, np.ceil(np.fmin(left, LONGEST) * (1.0 - ROUNDING)))  # past its statement: any slot now
        waiting = queue[~np.isin(queue, job)]
        return backfill(waiting, self.width, self.slots, self.jobs, free, held, ends)


@kernel
def backfill(
    waiting: Ints, widths: Ints, slots: Floats, jobs: JobTable, free: Ints, held: Int32s, ends: Floats
) -> Int32s:
    """Seats that are held, and of those that start now. Job j needs slots[j, 0] on one machine, slots[j, 1] spread; held[k]
    is given back after ends[k] slots."""
    jobs, free = borrowed((jobs, free))
    machines, resources = free.shape
    most = held.shape[0]
    for j in waiting:
        most += min(machines, 2 * widths[j])
    nobody, out, until = np.empty((0, 4), np.int32), np.empty((most + machines, 4), np.int32), np.empty(most + machines)
    n = copied(held, held.shape[0], out)
    for k in range(n):
        until[k] = ends[k]
    both = shadow = free  # what is free from the slot of the reservation on
    reserved = np.inf  # slots from now to it
    stale = True
    for j in waiting:
        if stale:
            one, total = room(free)
            stale = False
        got = 0
        if fits_at_all(one, total, jobs, j, widths[j]):
            got = seat(free, jobs, j, widths[j], nobody, STAY, out[n:])
        if got == 0 and reserved == np.inf:  # the head of those that wait
            shadow, both = free.copy(), free.copy()
            before, fits = -1.0, False
            while not fits:
                when = np.inf
                for k in range(n):
                    if before < until[k] < when:
                        when = until[k]
                if when == np.inf:
                    break
                for k in range(n):
                    if until[k] == when:
                        take(shadow, jobs, out[k : k + 1], GIVE)
                reserved = before = when
                fits = seat(shadow, jobs, j, widths[j], nobody, STAY, out[n:]) > 0
        elif got > 0:
            if slots[j, min(got, 2) - 1] > reserved:  # only on what the head leaves over
                take(free, jobs, out[n : n + got], GIVE)
                for h in range(machines):
                    for r in range(resources):
                        both[h, r] = min(free[h, r], shadow[h, r])
                got = seat(both, jobs, j, widths[j], nobody, STAY, out[n:])
                take(free, jobs, out[n : n + got], TAKE)
                take(shadow, jobs, out[n : n + got], TAKE)
            for k in range(n, n + got):
                until[k] = slots[j, min(got, 2) - 1]
            n += got
            stale = True
    return out[:n]
