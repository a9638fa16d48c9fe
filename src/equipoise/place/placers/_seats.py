"""Who sits where in one slot when some were promised: what is due, then everybody in order, then who is there wider."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from equipoise.kernels import ZERO, Floats, Int32s, Ints, borrowed, inner, kernel
from equipoise.place.placers._slotwise import (
    GIVE,
    JOB,
    MACHINE,
    SERVERS,
    TAKE,
    WORKERS,
    JobTable,
    copied,
    holds,
    seat,
    take,
)
from equipoise.place.planner.job_arrays import fits_together, inside, servers_for


class Due(NamedTuple):
    """Parts that plans hold in a slot, the largest first: buddies, so that each finds room."""

    job: Ints
    units: Ints  # of one part
    parts: Ints
    workers: Ints  # of one part


class Rates(NamedTuple):
    """Samples per slot of all jobs in one row: job j with w workers in a domain is at offset[j] + domain * stride[j] + w."""

    together: Floats
    apart: Floats
    offset: Ints
    stride: Ints
    domain: Ints  # [machine] that of its type


@inner
def rate_at(rates: Rates, j: int, machine: int, width: int) -> float:
    """Samples per slot on one machine."""
    return float(rates.together[rates.offset[j] + rates.domain[machine] * rates.stride[j] + width])


@inner
def rate_of(rates: Rates, jobs: JobTable, rows: Int32s, first: int, last: int) -> float:
    """Samples per slot of rows first..last-1, which are one job's: of all domains that they are in, in the fastest."""
    j, width, best = rows[first, JOB], 0, 0.0
    for k in range(first, last):
        width += rows[k, WORKERS]
    if last - first == 1:
        return rate_at(rates, int(j), int(rows[first, MACHINE]), width)
    for on in range(jobs.within.shape[0]):
        if inside(jobs.within, on, rows, first, last):
            best = max(best, rates.apart[rates.offset[j] + on * rates.stride[j] + width])
    return best


@kernel
def seat_due(
    due: Due, units: Ints, jobs: JobTable, free: Ints, was: Int32s, first: Ints, last: Ints, out: Int32s
) -> int:
    """Each part on the machine it was on, else on the one with fewest units that hold it. `units` are those free."""
    n = 0
    for d in range(due.job.shape[0]):
        j, begin = due.job[d], n
        for p in range(due.parts[d]):
            workers = (p + 1) * due.workers[d]
            servers = servers_for(workers, jobs.per_server[j]) - servers_for(
                workers - due.workers[d], jobs.per_server[j]
            )
            best = -1
            for k in range(first[j], last[j]):
                h, taken = was[k, MACHINE], False
                for i in range(begin, n):
                    taken = taken or out[i, MACHINE] == h
                if best < 0 and not taken and units[h] >= due.units[d] and was[k, WORKERS] >= due.workers[d]:
                    best = h
            if best < 0:
                for h in range(units.shape[0]):
                    if units[h] >= due.units[d] and (best < 0 or units[h] < units[best]):
                        best = h
            if best < 0 or not holds(free[best], jobs, j, due.workers[d], servers):
                continue  # a machine has failed: the part waits
            units[best] -= due.units[d]
            out[n, JOB], out[n, MACHINE], out[n, WORKERS], out[n, SERVERS] = j, best, due.workers[d], servers
            take(free, jobs, out[n : n + 1], TAKE)
            n += 1
    return n


@kernel
def seat_all(
    order: Ints,
    widths: Ints,
    jobs: JobTable,
    rates: Rates,
    free: Ints,
    was: Int32s,
    first: Ints,
    last: Ints,
    held: Int32s,
    begin: Ints,
    end: Ints,
) -> Int32s:
    """Seats in order, at the width asked for or the widest of its halves that fits; `held[begin[j]:end[j]]` is due to job j
    and taken already. Nobody has less than what is due. Rows job by job."""
    order, widths, jobs, rates, free, was, held = borrowed((order, widths, jobs, rates, free, was, held))
    machines, resources = free.shape
    out, n = np.empty((held.shape[0] + 2 * machines + 64, 4), np.int32), 0
    most, stale = np.full(resources, np.iinfo(np.int64).max), True  # of each resource on any machine, or more than that
    for j in order:
        due = held[begin[j] : end[j]]
        if n + machines + due.shape[0] > out.shape[0]:
            longer = np.empty((2 * out.shape[0] + machines, 4), np.int32)
            copied(out, n, longer)
            out = longer
        mine = 0
        for k in range(due.shape[0]):
            mine += due[k, WORKERS]
        got, width = 0, widths[j]
        if width > mine and (mine > 0 or holds(most, jobs, j, 1, 0)):
            take(free, jobs, due, GIVE)
            while got == 0 and width > mine:
                got = seat(free, jobs, j, width, was[first[j] : last[j]], jobs.restart[j] > 0.0, out[n:])
                if (
                    got > 0
                    and mine > 0
                    and rate_of(rates, jobs, out, n, n + got) < rate_of(rates, jobs, due, ZERO, due.shape[0])
                ):
                    take(free, jobs, out[n : n + got], GIVE)
                    got = 0
                width = width // 2 if width & (width - 1) == 0 else width - 1
            if got == 0:
                take(free, jobs, due, TAKE)
                if stale:  # looked up anew only when somebody found no room
                    for r in range(resources):
                        most[r] = 0
                        for h in range(machines):
                            most[r] = max(most[r], free[h, r])
                    stale = False
        if got > 0:
            stale = True
        else:
            got = due.shape[0]
            copied(due, got, out[n:])
        n += got
    return out[:n]


@kernel
def widen(rows: Int32s, jobs: JobTable, rates: Rates, free: Ints, was: Int32s, first: Ints, last: Ints) -> None:
    """What is idle after all: jobs on one machine grow on it while they are faster."""
    rows, jobs, rates, free, was = borrowed((rows, jobs, rates, free, was))
    for k in range(rows.shape[0]):
        j = int(rows[k, JOB])
        if (k > 0 and rows[k - 1, JOB] == j) or (k + 1 < rows.shape[0] and rows[k + 1, JOB] == j):
            continue
        h, w = int(rows[k, MACHINE]), int(rows[k, WORKERS])
        one = rows[k : k + 1]
        take(free, jobs, one, GIVE)
        wide = min(
            jobs.widest[j], fits_together(free[h], jobs.worker[j], jobs.server[j], jobs.per_server[j], jobs.widest[j])
        )
        stays = last[j] == first[j] + 1 and was[first[j], MACHINE] == h and was[first[j], WORKERS] == w
        keep = 1.0 - jobs.restart[j] if stays else 1.0
        if wide > w and rate_at(rates, j, h, wide) * keep > rate_at(rates, j, h, w):
            rows[k, WORKERS], rows[k, SERVERS] = wide, servers_for(wide, jobs.per_server[j])
        take(free, jobs, one, TAKE)


@kernel
def slots_left(jobs: Ints, left: Floats, speed: Floats) -> Floats:
    """Slots that each still needs at the width it asked for; a thousandth of one at least."""
    out = np.empty(jobs.shape[0])
    for k in range(jobs.shape[0]):
        out[k] = max(left[jobs[k]] / speed[jobs[k]], 1e-3)
    return out


TOGETHER = cast(bool, np.bool_(True))  # for a literal True the callee would be compiled twice


class LevelTable(NamedTuple):
    """The levels of all jobs in one row: job j has first[j] .. first[j + 1] - 1."""

    first: Ints
    workers: Ints
    units: Ints  # of all parts
    rate: Floats


def grown(order: Ints, widths: Ints, table: LevelTable, left: Floats, free: int) -> Ints:
    """Widths when everybody asked for less than there is (`free` units): the rest goes, a level at a time, to whom it
    speeds up most for what it takes."""
    at = np.full(len(widths), -1)
    job, level, gain, free = steps(order, widths, table, left, at, free)
    out = widths.copy()
    if len(job):  # sorted here: NumPy's sort takes longer to compile
        handed(np.argsort(-gain, kind="stable"), job, level, table, at, free, out)
    return out


@kernel
def steps(
    order: Ints, widths: Ints, table: LevelTable, left: Floats, at: Ints, free: int
) -> tuple[Ints, Ints, Floats, int]:
    """Every level above the one each has (`at`, written here), what it speeds up for what it takes; and what is free."""
    most = 0
    for j in order:
        for level in range(table.first[j], table.first[j + 1]):
            if table.workers[level] <= widths[j]:
                at[j] = level
        if at[j] >= 0:
            free -= table.units[at[j]]
            most += table.first[j + 1] - 1 - at[j]
    most = most if free > 0 else 0
    job, level_of, gain, n = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most), 0
    for j in order:
        for level in range(at[j], table.first[j + 1] - 1 if at[j] >= 0 and most > 0 else at[j]):
            if left[j] <= table.rate[level]:
                break
            more = max(1, table.units[level + 1] - table.units[level])
            job[n], level_of[n] = j, level
            gain[n] = (table.rate[level + 1] / table.rate[level] - 1.0) * table.units[level] / more
            n += 1
    return job[:n], level_of[:n], gain[:n], free


@kernel
def handed(by_gain: Ints, job: Ints, level_of: Ints, table: LevelTable, at: Ints, free: int, out: Ints) -> None:
    """Give levels in this order, as long as there is room."""
    for k in by_gain:
        j, level = job[k], level_of[k]
        more = table.units[level + 1] - table.units[level]
        if at[j] == level and more <= free:
            free -= more
            at[j] = level + 1
            out[j] = table.workers[level + 1]
