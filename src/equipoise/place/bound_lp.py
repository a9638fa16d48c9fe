"""The compact linear program: what all jobs could reach together, slot by slot, if machines and workers were divisible.

Time is cut into periods q of `coarsen` slots (one slot each, unless that is too large). Job j may work in n_jq slots of
period q, in the modes p of its shape (on a type, together on one machine or apart, several widths): a mode does the part
e_jp of its work in a slot and takes the part d_jpr of the cluster's resource r. With z_jqp the slots spent in a mode, y_jc
the part of the job that completes in period c, worth u_jc (its first slot), the program is

    maximise sum u_jc y_jc    subject to    sum_c y_jc <= 1
    sum_{q <= c} e_jp z_jqp >= sum_{c' <= c} y_jc'       for every c: the work is done before it counts
    sum_p z_jqp <= n_jq sum_{c >= q} y_jc                a job works in one mode, and only until it completes
    sum_jp d_jpr z_jqp <= slots of period q              capacity

Every schedule is a point of it: restarts only lose work, a server stands for at most gamma workers, whole machines hold no
more than their sum. What is returned is the value of the solver's prices, by weak duality a bound whatever its tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.errors import refuse_if, whole_number
from equipoise.kernels import Floats, Ints
from equipoise.linear_program import model_of, run, solver_of
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job, Workload, worth_over

EDGES = 6  # at most so many modes for a concave rate; its envelope can be exact up to this width
CLOSE = 3e-3  # a rate overestimated by this part needs no more modes
ROUNDING = 1e-9  # of a job's work: what a float sum may miss and still be called done
FAINT = 1e-9  # of a job's utility: later completions are not modelled, their worth is added to the bound


@dataclass(frozen=True)
class Window:
    """A job that can complete: its slots, what completing in each is worth, and its modes."""

    index: int  # in the workload
    job: Job
    worth: Floats  # u(0), u(1), ... for as long as it is worth anything
    faint: float  # the most that completing later would be worth
    earliest: int  # slots from arrival to the first in which it could complete, alone
    need: float  # samples, what truly has to be done
    share: Floats  # [modes] part of the work done in a slot
    workers: Floats  # [modes]
    servers: Floats  # [modes]
    types: Ints  # [modes] of machines

    @property
    def end(self) -> int:
        return self.job.arrival + len(self.worth)


def windows_of(cluster: Cluster, workload: Workload, slots: int | None, horizon: int | None) -> list[Window]:
    """The jobs that can complete in time; the rest add nothing."""
    for name, value in (("slots", slots), ("horizon", horizon)):
        if value is not None:
            whole_number(value, name, code="slots.range")
    why = "without an end every job completes some day; give slots=, horizon=, or both"
    refuse_if(slots is None and horizon is None, why, code="slots.missing")
    found = []
    for index, job in enumerate(workload):
        last = min(x for x in (slots, None if horizon is None else job.arrival + horizon) if x is not None)
        if last > job.arrival and (window := window_of(cluster, index, job, last - job.arrival)) is not None:
            found.append(window)
    return found


def window_of(cluster: Cluster, index: int, job: Job, count: int) -> Window | None:
    """The job with `count` slots from its arrival, or None if it cannot complete in them or that is worth nothing."""
    found = [modes(cluster, job, on) for on in range(len(cluster.types))]
    width, rate, servers = (np.concatenate(part) for part in zip(*found, strict=True))
    types = np.repeat(np.arange(len(found)), [len(rates) for _, rates, _ in found])
    need, fastest = job.work * job.actual * (1.0 - ROUNDING), rate.max(initial=0.0)
    if not fastest > 0.0 or need > count * fastest:
        return None
    earliest = max(0, math.ceil(need / fastest) - 1)
    worth = worth_over(job.utility.kind, *job.utility.parameters, 0, count)
    if not worth[earliest] > 0.0:
        return None
    kept = int(np.count_nonzero(worth > FAINT * worth[earliest]))
    faint = float(worth[kept]) if kept < count else 0.0
    return Window(index, job, worth[:kept], faint, earliest, need, rate / need, width, servers, types)


def modes(cluster: Cluster, job: Job, on: int) -> tuple[Floats, Floats, Floats]:
    """Workers, samples per slot and servers of the modes of which every width on a type, together or apart, is a mix or
    worse."""
    inner, outer = int(together(cluster, job)[cluster.entry_types == on].max()), apart(cluster, job, on)
    points = [(*point, inner) for point in envelope(job, inner, together=True, type=cluster.types[on])]
    points += [(*point, outer) for point in envelope(job, outer, together=False, type=cluster.types[on])]
    hull: list[tuple[float, float, int]] = [(0.0, 0.0, 1)]
    for width, rate, limit in sorted(points, key=lambda p: (p[0], -p[1])):
        if rate <= hull[-1][1]:
            continue  # more workers for no more work
        while len(hull) > 1 and (rate - hull[-1][1]) * (hull[-1][0] - hull[-2][0]) >= (hull[-1][1] - hull[-2][1]) * (
            width - hull[-1][0]
        ):
            hull.pop()
        hull.append((width, rate, limit))
    workers, rates = np.array([h[0] for h in hull[1:]]), np.array([h[1] for h in hull[1:]])
    if job.server is None:
        return workers, rates, np.zeros(len(workers))
    # ceil(w / gamma) is at least w / gamma, and at least 1 however wide the mode may be
    per_worker = np.array([max(1.0 / job.workers_per_server, 1.0 / h[2]) for h in hull[1:]])
    return workers, rates, workers * per_worker


def envelope(job: Job, widest: int, *, together: bool, type: str = "") -> list[tuple[float, float]]:
    """(workers, samples per slot) whose concave hull from (0, 0) is nowhere below the rate of a whole width."""

    def rate(width: int | float) -> float:
        return job.rate(width, together=together, type=type)  # type: ignore[arg-type]  # corners lie between widths

    if widest < 1 or not job.takes(type):
        return []
    if not isinstance((job.speeds or {}).get(type, 1.0), float):
        return [(float(w), rate(w)) for w in range(1, widest + 1)]
    if job.server is not None:
        return [(float(widest), rate(widest))]
    if widest == 1 or rate(2) <= rate(1):
        return [(1.0, rate(1))]  # a second worker brings less than exchanging gradients costs
    # w / (A + B w) with A > 0 is concave: lines through neighbouring widths lie above it, and so do their corners
    for lines in range(2, EDGES + 1):
        starts = np.unique(np.r_[0, np.round(np.geomspace(1, widest - 1, lines - 1)).astype(np.int64)])
        if lines == 2:
            starts = np.array([0, widest - 1])
        low, high = (np.array([rate(int(w) + k) for w in starts]) for k in (0, 1))
        slope, level = high - low, low - (high - low) * starts
        bend = slope[:-1] - slope[1:]
        corner = np.divide(level[1:] - level[:-1], bend, out=starts[1:].astype(float), where=bend > 1e-12 * slope[0])
        corner = np.r_[np.clip(corner, starts[:-1] + 1, starts[1:]), float(widest)]
        height = slope * corner + level
        height[:-1] = np.maximum(height[:-1], slope[1:] * corner[:-1] + level[1:])  # the higher line: never below
        if (height <= (1.0 + CLOSE) * np.array([rate(w) for w in corner])).all():
            break
    return list(zip(corner.tolist(), height.tolist(), strict=True))


def together(cluster: Cluster, job: Job) -> Ints:
    """The most workers one empty machine of each entry holds together with their servers."""
    worker, server = demands(cluster, job)
    return np.array([_held(room, worker, server, job) for room in cluster.capacity.tolist()], dtype=np.int64)


def apart(cluster: Cluster, job: Job, on: int) -> int:
    """At most so many workers do all machines of a type hold: by machine without servers, and by their sum with them."""
    worker, server = demands(cluster, job)
    own = cluster.entry_types == on
    rooms, counts = cluster.capacity[own].tolist(), cluster.counts[own].tolist()
    total = [sum(n * c for n, c in zip(counts, column, strict=True)) for column in zip(*rooms, strict=True)]
    hosts = [min((c // a for c, a in zip(room, worker, strict=True) if a), default=0) for room in rooms]
    if server is not None and not any(fits(room, server) for room in rooms):
        return 0
    by_machine = sum(count * n for count, n in zip(counts, hosts, strict=True))
    return int(min(by_machine, _held(total, worker, server, job)))


def demands(cluster: Cluster, job: Job) -> tuple[list[int], list[int] | None]:
    """Milli-units of a worker and of a server, in the cluster's order of resources."""
    who = f"job {job.id!r}"
    server = None if job.server is None else cluster.demand(job.server, who).tolist()
    return cluster.demand(job.worker, who).tolist(), server


def fits(room: Sequence[int], demand: Sequence[int]) -> bool:
    return all(a <= c for c, a in zip(room, demand, strict=True))


def _held(room: Sequence[int], worker: Sequence[int], server: Sequence[int] | None, job: Job) -> int:
    """The largest w with w workers and ceil(w / gamma) servers in `room`: whole groups of gamma, then a part of one."""
    if server is None:
        return min([job.widest, *(c // a for c, a in zip(room, worker, strict=True) if a)])
    gamma = job.workers_per_server
    group = [gamma * a + b for a, b in zip(worker, server, strict=True)]
    groups = min(c // g for c, g in zip(room, group, strict=True) if g)
    left = [c - groups * g - b for c, g, b in zip(room, group, server, strict=True)]
    rest = min(c // a for c, a in zip(left, worker, strict=True) if a) if min(left) >= 0 else 0
    return min(job.widest, groups * gamma + rest)


LEVEL = 1e-6  # of a job's utility: completions this close are one, worth the earlier, at the time of the later
MOST_ENTRIES = 3_000_000  # non-zeros: many minutes and some GB beyond
FITTING = 500_000  # non-zeros that `coarsen=None` stays under: some 20 CPU seconds
LARGE, LONG = 200_000, 12  # non-zeros, and stages per job, from which interior points beat the simplex
INTERIOR = {"solver": "ipm", "run_crossover": "off", "ipm_optimality_tolerance": 1e-6}  # prices are valued anyway
MOST_POOLS = 8


def fitting(cluster: Cluster, windows: Sequence[Window], coarsen: int | None) -> int:
    """Slots to a period: as asked, or the smallest power of two that fits (at 5,000 jobs 64 is .3% looser than 32)."""
    period = 1 if coarsen is None else whole_number(coarsen, "coarsen", code="coarsen.range")
    longest = max(len(w.worth) for w in windows)
    while coarsen is None and period < longest and _entries(cluster, windows, period) > FITTING:
        period *= 2
    entries, way_out = _entries(cluster, windows, period), "Give fewer jobs, a shorter horizon, or a larger coarsen"
    why = f"the program has about {entries:,} entries with coarsen={period}, over {MOST_ENTRIES:,}. {way_out}"
    refuse_if(entries > MOST_ENTRIES, why, code="bound.size")
    return period


def _entries(cluster: Cluster, windows: Sequence[Window], period: int) -> int:
    """Non-zeros, roughly: per period and mode a capacity of every resource, its activity and cover, and the chains."""
    resources = len(cluster.resources)
    return sum((-(-len(w.worth) // period) + 1) * (len(w.share) * (resources + 2) + 7) for w in windows)


def pools_of(cluster: Cluster, windows: Sequence[Window]) -> list[NDArray[np.bool_]]:
    """Sets of entries of machines to hold capacity in: all, each type, and each that the workers or servers of some job are
    confined to."""
    found = {(True,) * len(cluster.machines): None}
    own = [cluster.entry_types == on for on in range(len(cluster.types))]
    found |= {tuple(pool.tolist()): None for pool in own}
    for w in windows:
        for demand in demands(cluster, w.job):
            if demand is not None:
                hosts = np.array([fits(room, demand) for room in cluster.capacity.tolist()])
                found |= {tuple((hosts & own[on]).tolist()): None for on in np.unique(w.types)}
    return [np.array(pool) for pool in list(found)[: MOST_POOLS + len(own) - 1]]


@dataclass(frozen=True)
class Solved:
    """The value of the program's prices, and the part of each job completed."""

    utility: float
    status: str
    completion: Floats


class Program:
    """Columns: z, then A_k = sum_{c >= k} y_c and the work done ahead P_k, for the stages k a job can complete in.

    A stage ends with a period in which completing is worth more than in the next; the work in it counts at its end.
    Sums over c become chains of neighbours, which keeps the matrix sparse.
    """

    def __init__(
        self, cluster: Cluster, windows: Sequence[Window], period: int, pools: Sequence[NDArray[np.bool_]]
    ) -> None:
        self.windows, self.period = windows, period
        self.periods = -(-max(w.end for w in windows) // period)
        self.shares = _shares(cluster, windows, pools)
        self.jobs = [Block(w, period) for w in windows]
        self._number()

    def _number(self) -> None:
        """Arrays over all (job, period), (job, period, mode) and (job, stage), in the order of the jobs."""
        jobs = self.jobs
        lengths = np.array([len(b.days) for b in jobs])
        modes = np.array([len(w.share) for w in self.windows])
        stages = np.array([len(b.worth) for b in jobs])
        self.first_stage = np.cumsum(stages) - stages
        self.stage_job = np.repeat(np.arange(len(jobs)), stages)
        self.worth = np.concatenate([b.worth for b in jobs])
        self.pair_job = np.repeat(np.arange(len(jobs)), lengths)
        self.pair_period = np.concatenate([b.first + np.arange(len(b.days)) for b in jobs])
        self.pair_days = np.concatenate([b.days for b in jobs])
        self.pair_stage = np.concatenate([s + b.stage for s, b in zip(self.first_stage, jobs, strict=True)])
        self.pair = np.repeat(np.arange(len(self.pair_job)), modes[self.pair_job])  # of every column z
        first_mode = np.cumsum(modes) - modes
        starts = np.cumsum(modes[self.pair_job]) - modes[self.pair_job]
        self.mode = first_mode[self.pair_job][self.pair] + np.arange(len(self.pair)) - starts[self.pair]
        self.mode_share = np.concatenate([w.share for w in self.windows])

    def matrix(self) -> tuple[sparse.csc_matrix, Floats, Floats]:
        """Rows: cover by stage, A falling, activity by pair, capacity by period and resource; their lower and upper ends."""
        z, k, pairs = len(self.pair), len(self.worth), len(self.pair_job)
        stage = np.arange(k)
        inner = stage[:-1][self.stage_job[:-1] == self.stage_job[1:]]  # stages with another one after them
        a, ahead = z, z + k
        entries: list[tuple[Any, Any, Any]] = [
            (self.pair_stage[self.pair], np.arange(z), self.mode_share[self.mode]),
            (stage, a + stage, -1.0),
            (inner, a + inner + 1, 1.0),
            (inner, ahead + inner, -1.0),
            (inner + 1, ahead + inner, 1.0),
            (k + inner, a + inner, 1.0),
            (k + inner, a + inner + 1, -1.0),
            (2 * k + self.pair, np.arange(z), 1.0),
            (2 * k + np.arange(pairs), a + self.pair_stage, -self.pair_days),
        ]
        rows = self.shares.shape[1]
        for r in range(rows):
            taken = self.shares[self.mode, r]
            some = np.flatnonzero(taken > 0.0)
            entries.append((2 * k + pairs + self.pair_period[self.pair[some]] * rows + r, some, taken[some]))
        row, column, value = (np.concatenate(x) for x in zip(*(np.broadcast_arrays(*e) for e in entries), strict=True))
        shape = (2 * k + pairs + self.periods * rows, z + 2 * k)
        low = np.concatenate([np.zeros(2 * k), np.full(shape[0] - 2 * k, -np.inf)])
        room = np.full(self.periods * rows, float(self.period))
        high = np.concatenate([np.zeros(k), np.full(k, np.inf), np.zeros(pairs), room])
        high[:k][np.diff(self.stage_job, append=-1) != 0] = np.inf  # nothing after the last stage: surplus is left
        return sparse.csc_matrix((value, (row, column)), shape=shape), low, high

    def solve(self, time_limit: float | None = None, **options: Any) -> Solved:
        """Solve, and value the prices found."""
        import highspy

        matrix, low, high = self.matrix()
        z, k = len(self.pair), len(self.worth)
        begins = np.diff(self.stage_job, prepend=-1) != 0
        gain = np.where(begins, self.worth, np.diff(self.worth, prepend=0.0))  # u_k - u_(k-1)
        cost = np.concatenate([np.zeros(z), -gain, np.zeros(k)])
        most = np.concatenate([np.full(z, np.inf), np.ones(k), np.full(k, np.inf)])
        if matrix.nnz > LARGE and k > LONG * len(self.jobs):
            options = INTERIOR | options
        if time_limit is not None:
            options = options | {"time_limit": float(time_limit)}
        solver = solver_of(model_of(cost, most, matrix, low, high), **options)
        run(solver)
        statuses = {highspy.HighsModelStatus.kOptimal: "optimal", highspy.HighsModelStatus.kTimeLimit: "time_limit"}
        status = statuses.get(solver.getModelStatus(), "inexact")
        solution = solver.getSolution()
        dual = np.asarray(solution.row_dual) if solution.dual_valid else np.zeros(matrix.shape[0])
        values = np.asarray(solution.col_value) if solution.value_valid else np.zeros(z + 2 * k)
        price = np.maximum(-dual[2 * k + len(self.pair_job) :], 0.0).reshape(self.periods, -1)
        utility = self.value_of(price, dual[:k])
        completion = np.clip(values[z : z + k][self.first_stage], 0.0, 1.0)
        return Solved(utility, status, completion)

    def value_of(self, price: Floats, work: Floats) -> float:
        """Weak duality. Capacity is paid; each job then earns at most the best of its stages, given a worth of its work.

        rho_k, the worth of work done by stage k, may not rise; a period earns nu = max_p(e_p rho - d_p price, 0), a job
        max_k(u_k - rho_k + sum of n nu up to stage k).
        """
        rho = np.maximum(work, 0.0)
        for first, after in zip(self.first_stage, np.append(self.first_stage[1:], len(rho)), strict=True):
            rho[first:after] = np.maximum.accumulate(rho[first:after][::-1])[::-1]
        paid = np.einsum("ij,ij->i", self.shares[self.mode], price[self.pair_period[self.pair]])
        earned = np.zeros(len(self.pair_job))
        np.maximum.at(earned, self.pair, self.mode_share[self.mode] * rho[self.pair_stage[self.pair]] - paid)
        by_stage = np.bincount(self.pair_stage, earned * self.pair_days, minlength=len(rho))
        before = np.cumsum(by_stage)
        before -= (before - by_stage)[self.first_stage][self.stage_job]
        best = np.zeros(len(self.windows))
        np.maximum.at(best, self.stage_job, self.worth - rho + before)
        faint = sum(w.faint for w in self.windows)
        return float(best.sum() + self.period * price.sum() + faint)


class Block:
    """A job's periods: its slots in each, the stage each belongs to, and what completing in a stage is worth."""

    def __init__(self, window: Window, period: int) -> None:
        arrival, end = window.job.arrival, window.end
        self.first = arrival // period
        starts = np.arange(self.first, -(-end // period)) * period
        self.days = (np.minimum(starts + period, end) - np.maximum(starts, arrival)).astype(float)
        completing = np.flatnonzero(starts + period > arrival + window.earliest)
        since = np.maximum(starts[completing], arrival + window.earliest) - arrival
        worth = window.worth[since]
        ends, levels, top = [], [], float(worth[0])
        for k, value in enumerate(worth.tolist()):
            if value < top - LEVEL * worth[0]:
                ends.append(k - 1)
                levels.append(top)
                top = value
        ends.append(len(worth) - 1)
        levels.append(top)
        self.worth: Floats = np.array(levels)
        self.stage: Ints = np.searchsorted(completing[ends], np.arange(len(starts)))


def _shares(cluster: Cluster, windows: Sequence[Window], pools: Sequence[NDArray[np.bool_]]) -> Floats:
    """The part of each (pool, resource) that each mode of each job takes: [modes, pools * resources]."""
    count = np.array([m.count for m in cluster.machines])
    capacity = np.array([(cluster.capacity * (count * pool)[:, None]).sum(axis=0) for pool in pools], dtype=float)
    taken = []
    for w in windows:
        amount = np.zeros((len(w.share), *capacity.shape))
        for demand, number in zip(demands(cluster, w.job), (w.workers, w.servers), strict=True):
            if demand is not None:
                hosts = np.array([fits(room, demand) for room in cluster.capacity.tolist()])
                own = [hosts & (cluster.entry_types == on) for on in w.types]  # of each mode
                confined = np.array([[not (mode & ~pool).any() for pool in pools] for mode in own])
                amount += number[:, None, None] * confined[:, :, None] * np.array(demand, dtype=float)
        part = np.divide(amount, capacity, out=np.zeros_like(amount), where=capacity > 0)
        taken.append(part.reshape(len(w.share), -1))
    return np.concatenate(taken)
