"""Slot by slot: what policies that plan nothing ahead have in common, a queue by arrival and seats in one slot.

Seats are a job's own of the slot before if they can be, else the tightest machine that holds it together, else as few
machines as greedy finds. Amounts are whole milli-units.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from equipoise._moved import old_attribute
from equipoise.kernels import ZERO, Bools, Floats, Int32s, Ints, borrowed, inner, kernel
from equipoise.place.execution import INFEASIBLE_ALONE, LENT, PENDING, REFUSED, Execution
from equipoise.place.planner.hull import SPREAD, TOGETHER
from equipoise.place.planner.job_arrays import alone, fits_together, inside, servers_for
from equipoise.place.planner.packing import ROUNDING

WAITING = "waiting"  # why a job that is not refused does not run: others are before it
JOB, MACHINE, WORKERS, SERVERS = 0, 1, 2, 3  # columns of a seat
TAKE, GIVE = cast(int, np.int64(1)), cast(int, np.int64(-1))  # for a literal the callee would be compiled twice
NO_SEATS = np.empty((0, 4), np.int32)


class JobTable(NamedTuple):
    """All jobs of a run, one row for each."""

    worker: Ints  # [job, r] milli-units
    server: Ints
    per_server: Ints  # [job] 0: all-reduce
    widest: Ints  # [job]
    restart: Floats  # [job]
    total: Floats  # [r] milli-units of the whole cluster
    within: Bools  # [domain, machine] whether it is in it
    whole: Ints  # [domain] that of the whole type
    ways: Ints  # [job, k] domains it takes, together or spread, the fastest first (`JobArrays.ways`); -1: no more


@kernel
def dominant(jobs: JobTable, j: int, width: int) -> float:
    """The largest share of any resource of the cluster that so many workers and their servers hold."""
    servers, out = servers_for(width, jobs.per_server[j]), 0.0
    for r in range(jobs.total.shape[0]):
        if jobs.total[r] > 0:
            out = max(out, (width * jobs.worker[j, r] + servers * jobs.server[j, r]) / jobs.total[r])
    return out


@inner
def holds(free: Ints | Floats, jobs: JobTable, j: int, workers: int, servers: int) -> bool:
    """Whether one machine has room for them."""
    for r in range(free.shape[0]):  # noqa: SIM110  # numba compiles no generator
        if workers * jobs.worker[j, r] + servers * jobs.server[j, r] > free[r]:
            return False
    return True


@inner
def _hand(free: Ints, jobs: JobTable, j: int, machine: int, workers: int, servers: int) -> None:
    for r in range(free.shape[1]):
        free[machine, r] -= workers * jobs.worker[j, r] + servers * jobs.server[j, r]


@kernel
def take(free: Ints, jobs: JobTable, seats: Int32s, sign: int) -> None:
    """Take seats (sign 1), or give them back (-1)."""
    for k in range(seats.shape[0]):
        _hand(free, jobs, seats[k, JOB], seats[k, MACHINE], sign * seats[k, WORKERS], sign * seats[k, SERVERS])


@kernel
def emptiness(free: Ints, total: Floats) -> float:
    """How much of the cluster is free on one machine, summed over resources."""
    out = 0.0
    for r in range(free.shape[0]):
        if total[r] > 0:
            out += free[r] / total[r]
    return out


@inner
def tightest(free: Ints, jobs: JobTable, j: int, width: int, on: int) -> int:
    """The fullest machine of a domain that holds the whole width together, -1 when none does (best fit)."""
    servers, best, least = servers_for(width, jobs.per_server[j]), -1, np.inf
    for h in range(free.shape[0]):
        if jobs.within[on, h] and holds(free[h], jobs, j, width, servers):
            room = emptiness(free[h], jobs.total)
            if room < least:
                best, least = h, room
    return best


@inner
def copied(rows: Int32s, count: int, out: Int32s) -> int:
    """Write the first `count` rows to `out`: NumPy's assignment takes longer to compile."""
    for k in range(count):
        for column in range(rows.shape[1]):
            out[k, column] = rows[k, column]
    return count


@inner
def seat(free: Ints, jobs: JobTable, j: int, width: int, was: Int32s, stay: bool, out: Int32s) -> int:
    """Take seats for exactly `width` workers with their servers, the fastest way that there is, and write them; returns how
    many rows (0: no room).

    `was` are its seats in the slot before. `stay`: keep them though it could sit together elsewhere.
    """
    kept, again = 0, was.shape[0] > 0
    for k in range(was.shape[0]):
        kept += was[k, WORKERS]
        again = again and holds(free[was[k, MACHINE]], jobs, j, int(was[k, WORKERS]), int(was[k, SERVERS]))
    again = again and kept == width
    n = copied(was, was.shape[0], out) if again and stay else 0
    for way in jobs.ways[j]:
        if n > 0 or way < 0:
            break
        on = way // 2
        if again and inside(jobs.within, on, was, ZERO, was.shape[0]) and (way % 2 == SPREAD or was.shape[0] == 1):
            n = copied(was, was.shape[0], out)
        elif way % 2 == TOGETHER:
            alone = tightest(free, jobs, j, width, on)
            if alone >= 0:
                n = 1
                out[0, MACHINE], out[0, WORKERS], out[0, SERVERS] = alone, width, servers_for(width, jobs.per_server[j])
        else:
            n = _spread(free, jobs, j, width, on, out)
            if n == 0 and jobs.per_server[j] > 0:
                n = _servers_first(free, jobs, j, width, on, out)
    for k in range(n):
        out[k, JOB] = j
    take(free, jobs, out[:n], TAKE)
    return n


@inner
def _ranked(score: Ints, most: int) -> Ints:
    """Machines by a score of 0 to `most`, the lowest first and ties in order: NumPy's sort takes longer to compile."""
    start, out = np.zeros(most + 2, np.int64), np.empty(score.shape[0], np.int64)
    for h in range(score.shape[0]):
        start[score[h] + 1] += 1
    for s in range(most):
        start[s + 1] += start[s]
    for h in range(score.shape[0]):
        out[start[score[h]]] = h
        start[score[h]] += 1
    return out


@inner
def _spread(free: Ints, jobs: JobTable, j: int, width: int, on: int, out: Int32s) -> int:
    """The roomiest machines first, each filled with workers and a server whenever one is due; takes nothing."""
    per_server = jobs.per_server[j]
    room = np.empty(free.shape[0], np.int64)
    for h in range(free.shape[0]):
        room[h] = width - max(0, fits_together(free[h], jobs.worker[j], jobs.server[j], per_server, width))
    n, w, s = 0, 0, 0
    for h in _ranked(room, width):
        workers, servers = 0, 0
        while w < width and jobs.within[on, h]:
            due = int(per_server > 0 and s * per_server <= w)
            if not holds(free[h], jobs, j, workers + 1, servers + due):
                break
            workers, servers = workers + 1, servers + due
            w, s = w + 1, s + due
        if workers > 0:
            out[n, MACHINE], out[n, WORKERS], out[n, SERVERS] = h, workers, servers
            n += 1
        if w == width:
            return n
    return 0


@inner
def _servers_first(free: Ints, jobs: JobTable, j: int, width: int, on: int, out: Int32s) -> int:
    """Servers where fewest workers would fit, then workers where most do: for free room that holds only one kind."""
    machines = free.shape[0]
    servers = servers_for(width, jobs.per_server[j])
    room, sits = np.empty(machines, np.int64), np.zeros((machines, 2), np.int64)
    for h in range(machines):
        room[h] = max(0, fits_together(free[h], jobs.worker[j], jobs.worker[j], ZERO, width))
    order = _ranked(room, width)
    for kind in range(2):
        missing = servers if kind == 0 else width
        for k in range(machines):
            h = order[k] if kind == 0 else order[machines - 1 - k]
            while (
                missing > 0 and jobs.within[on, h] and holds(free[h], jobs, j, sits[h, 1] + kind, sits[h, 0] + 1 - kind)
            ):
                sits[h, kind] += 1
                missing -= 1
        if missing > 0:
            return 0
    n = 0
    for h in range(machines):
        if sits[h, 0] + sits[h, 1] > 0:
            out[n, MACHINE], out[n, WORKERS], out[n, SERVERS] = h, sits[h, 1], sits[h, 0]
            n += 1
    return n


@inner
def room(free: Ints) -> tuple[Ints, Floats]:
    """The most of each resource that is free on one machine; and in all, where 64 bits might not hold it."""
    most, total = np.zeros(free.shape[1], np.int64), np.zeros(free.shape[1])
    for r in range(free.shape[1]):
        for h in range(free.shape[0]):
            most[r] = max(most[r], free[h, r])
            total[r] += free[h, r] * (1.0 + ROUNDING)
    return most, total


@inner
def fits_at_all(most: Ints, total: Floats, jobs: JobTable, j: int, width: int) -> bool:
    """Whether so many workers could be seated for all that `room` tells: a quick no for most."""
    return holds(most, jobs, j, 1, 0) and holds(total, jobs, j, width, servers_for(width, jobs.per_server[j]))


@kernel
def seat_in_order(
    order: Ints,
    widths: Ints,
    jobs: JobTable,
    free: Ints,
    was: Int32s,
    first: Ints,
    last: Ints,
    fixed: bool,
    narrower: bool,
) -> Int32s:
    """Seat jobs one after the other; job j had was[first[j]:last[j]] in the slot before. Rows job by job.

    `fixed`: nobody moves and nobody overtakes one that does not fit. `narrower`: one that does not fit at its width
    may have the widest that does.
    """
    order, widths, jobs, free, was = borrowed((order, widths, jobs, free, was))
    machines = free.shape[0]
    out, n = np.empty((2 * machines + 16, 4), np.int32), 0
    stale = True
    for j in order:
        if stale:
            one, total = room(free)
            stale = False
        got, width = 0, widths[j]
        while got == 0 and width > 0 and holds(one, jobs, j, 1, 0):
            if fits_at_all(one, total, jobs, j, width):
                if n + machines > out.shape[0]:
                    longer = np.empty((2 * out.shape[0], 4), np.int32)
                    copied(out, n, longer)
                    out = longer
                got = seat(free, jobs, j, width, was[first[j] : last[j]], fixed or jobs.restart[j] > 0.0, out[n:])
            if not narrower:
                break
            width -= 1
        if got > 0:
            n += got
            stale = True
        elif fixed:
            break
    return out[:n]


@kernel
def fill(queue: Ints, jobs: JobTable, free: Ints) -> tuple[Ints, Int32s, Int32s]:
    """Progressive filling: a worker, with a server when one is due, to the smallest dominant share until nothing fits.

    Ties to the earlier in the queue. Returns every job's width; and its workers and its servers on each machine, by which
    all fit.
    """
    count, machines = queue.shape[0], free.shape[0]
    width, share, sits_in = np.zeros(count, np.int64), np.zeros(count), np.zeros(count, np.int64)
    workers, servers = np.zeros((count, machines), np.int32), np.zeros((count, machines), np.int32)
    begun = 0  # jobs that were asked; those that can have no more have an endless share
    while True:
        most, _ = room(free)
        while begun < count and not holds(most, jobs, queue[begun], 1, 0):
            share[begun] = np.inf  # what is free only shrinks
            begun += 1
        best, least = begun, 0.0  # a share of nothing is the smallest
        if begun < count:
            begun += 1
        else:
            least = np.inf
            for i in range(count):
                if share[i] < least:
                    best, least = i, share[i]
        if least == np.inf:
            return width, workers, servers
        j = queue[best]
        due = servers_for(width[best] + 1, jobs.per_server[j]) - servers_for(width[best], jobs.per_server[j])
        at, beside = -1, -1
        for way in jobs.ways[j]:
            if at >= 0 or way < 0:
                break
            on = jobs.whole[way // 2]
            if width[best] > 0 and on != sits_in[best]:
                continue
            sits_in[best] = on
            at = _pick(free, jobs, j, 1, due, workers[best], on)
            beside = at
            if at < 0 and due > 0:
                at, beside = _pick_apart(free, jobs, j, workers[best], on)
        share[best] = np.inf
        if at >= 0:
            _hand(free, jobs, j, at, 1, 0)
            _hand(free, jobs, j, beside, 0, due)
            workers[best, at] += 1
            servers[best, beside] += due
            width[best] += 1
            if width[best] < jobs.widest[j]:
                share[best] = dominant(jobs, j, width[best])


@inner
def _pick(free: Ints, jobs: JobTable, j: int, workers: int, servers: int, sits: Int32s, on: int) -> int:
    """A machine with room for these: one where the job sits already, else the emptiest; -1: none."""
    best, most = -1, -1.0
    for h in range(free.shape[0]):
        if jobs.within[on, h] and holds(free[h], jobs, j, workers, servers):
            room = np.inf if sits[h] > 0 else emptiness(free[h], jobs.total)
            if room > most:
                best, most = h, room
    return best


@inner
def _pick_apart(free: Ints, jobs: JobTable, j: int, sits: Int32s, on: int) -> tuple[int, int]:
    """Machines for a worker and for a server that find no room on one."""
    for at in range(free.shape[0]):
        if jobs.within[on, at] and holds(free[at], jobs, j, 1, 0):
            _hand(free, jobs, j, at, 1, 0)
            beside = _pick(free, jobs, j, 0, 1, sits, on)
            _hand(free, jobs, j, at, -1, 0)
            if beside >= 0:
                return at, beside
    return -1, -1


class Slotwise:
    """A policy at work that decides about one slot at a time: `seats` says who sits where in it."""

    state = LENT  # what a job is told that runs: nothing is promised

    def __init__(self, run: Execution) -> None:
        self.run, cluster = run, run.cluster
        arrays, count, domains = run.arrays, len(run.jobs), len(cluster.domains)
        self.alone = [alone(one, cluster) for one in arrays]
        best = [int(np.argmax(rates)) for _, rates in self.alone]  # more workers would only wait for each other
        ways = [(one.ways(width) + [-1] * 2 * domains)[: 2 * domains] for one, width in zip(arrays, best, strict=True)]
        self.jobs = JobTable(
            np.array([one.worker for one in arrays], dtype=np.int64).reshape(count, len(cluster.resources)),
            np.array([one.server for one in arrays], dtype=np.int64).reshape(count, len(cluster.resources)),
            np.array([one.per_server for one in arrays], dtype=np.int64),
            np.array(best, dtype=np.int64),
            np.array([one.restart for one in arrays], dtype=float),
            cluster.total,
            cluster.within,
            np.array([cluster.domains.index((name, None)) for name, _ in cluster.domains]),
            np.array(ways, dtype=np.int64).reshape(count, 2 * domains),
        )
        self.width = np.zeros(count, dtype=np.int64)  # at which it runs when it has the width it asked for
        self.speed = np.ones(count)  # samples per slot at that width
        self.queue = np.empty(0, dtype=np.int64)  # unfinished jobs that are here, in order of arrival
        self.was = NO_SEATS  # seats of the slot before
        self.first, self.last = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._new: list[int] = []
        self.begun: Bools = np.zeros(count, dtype=bool)
        for j in range(count):
            self._size(j)

    @property
    def desk(self) -> Execution:
        """The name of `run` in 0.1.0."""
        old_attribute("Slotwise.desk", "run")
        return self.run

    @property
    def capacity(self) -> Ints:
        """[machine, r] milli-units that jobs may have in this slot."""
        return self.run.capacity(self.run.now)

    def _size(self, j: int) -> None:
        """The width asked for, or what one machine holds, or the widest; no more than fits an empty cluster."""
        arrays, job, (one, rates) = self.run.arrays[j], self.run.jobs[j], self.alone[j]
        asked = min(job.requested or one or arrays.widest, arrays.widest)
        if asked > one:  # it does not fit one machine: what fits all of them?
            self.width[j] = asked
            empty = self.run.full.copy()
            asked = int(self.in_order(np.array([j]), free=empty, narrower=True)[:, WORKERS].sum())
        self.width[j] = asked
        if asked:
            self.speed[j] = rates[asked]

    def seats(self, queue: Ints) -> Int32s:
        """Rows (job, machine, workers, servers) of this slot, job by job."""
        raise NotImplementedError

    def in_order(
        self,
        order: Ints,
        *,
        widths: Ints | None = None,
        free: Ints | None = None,
        fixed: bool = False,
        narrower: bool = False,
    ) -> Int32s:
        """Seats for jobs one after the other, at the widths they asked for on an empty cluster unless given."""
        widths = self.width if widths is None else widths
        free = self.capacity.copy() if free is None else free
        return seat_in_order(order, widths, self.jobs, free, self.was, self.first, self.last, fixed, narrower)

    def undisturbed(self, order: Ints, *, widths: Ints | None = None) -> Int32s:
        """Seats in order; then the same jobs, those first who would lose time by moving, if all still find seats."""
        rows = self.in_order(order, widths=widths)
        chosen = order[np.isin(order, rows[:, JOB])]
        settled = (self.last[chosen] > 0) & (self.jobs.restart[chosen] > 0.0)
        if not settled.any():
            return rows
        again = self.in_order(np.concatenate((chosen[settled], chosen[~settled])), widths=widths)
        return again if again[:, WORKERS].sum() == rows[:, WORKERS].sum() else rows

    def held(self, j: int) -> Int32s:
        """The seats of a job in the slot before."""
        return self.was[self.first[j] : self.last[j]]

    def still(self, queue: Ints, free: Ints) -> Int32s:
        """The seats of the slot before, taken from `free`; but of jobs on a machine that does not hold all it held."""
        rows = self.was[np.isin(self.was[:, JOB], queue)]
        take(free, self.jobs, rows, 1)
        over = (free[rows[:, MACHINE]] < 0).any(axis=1)
        gone = np.isin(rows[:, JOB], rows[over, JOB])
        take(free, self.jobs, rows[gone], -1)
        return rows[~gone]

    def arrive(self, job: int) -> None:
        why = self.run.hopeless(job) or ("" if self.width[job] else INFEASIBLE_ALONE)
        self.run.decide(job, REFUSED if why else PENDING, why or WAITING)
        if not why:
            self._new.append(job)

    def slot(self) -> None:
        self.queue = np.concatenate((self.queue, np.array(self._new, dtype=np.int64)))
        self.queue = self.queue[self.run.finish[self.queue] < 0]
        self._new.clear()
        rows = self.seats(self.queue) if len(self.queue) else NO_SEATS
        starts = np.flatnonzero(np.diff(rows[:, JOB], prepend=-1))
        self.first[self.was[:, JOB]] = self.last[self.was[:, JOB]] = 0
        self.was = rows
        jobs = rows[starts, JOB].astype(np.int64)
        ends = np.append(starts, len(rows))[1:]
        self.first[jobs], self.last[jobs] = starts, ends
        self.run.assign_now(jobs, rows, starts, ends)
        for job in jobs[~self.begun[jobs]].tolist():
            self.begun[job] = True
            self.began(job)

    def began(self, job: int) -> None:
        """A job runs for the first time."""
        self.run.decide(job, self.state)

    def finished(self, job: int) -> None:
        """Nothing: it had nothing beyond this slot."""

    def unfinished(self, job: int) -> None:
        """Nothing: it is seated again, or not, when the next slot is."""
