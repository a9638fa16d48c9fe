"""The oracle: how many tasks any policy could finish in time, clairvoyant or not. A bound to measure policies by.

Linear program (docs/share.md, 2), with z_i the part of task i that is finished, x_i(t) computed and y_i(t) sent in slot t:

    maximise sum z_i,  0 <= z_i <= 1,   sum_i x_i(t) <= capacity,  x_i(t) <= cap_i,  sum_i y_i(t) <= bandwidth,
    W_i z_i <= X_i,    X_i(<= t) / W_i <= Y_i(<= t - 1 - delay_i) / D_i      (store-and-forward, relaxed)

It is solved without y and mostly without a solver:

1. The data behind x_i(t) can be sent from the arrival on, is due in slot t - 1 - delay_i, and has no limit of its own. By
   Hall's theorem all of it fits through the uplink if and only if, in every interval of slots, what is released and due
   inside is at most bandwidth times its length. So y goes; rows for intervals come in only when they are violated.
2. Without those rows the amounts X that the slots can carry are a polymatroid (flows out of sources), on which the greedy
   rule is optimal: tasks by ascending work, each as much as still fits. If its schedule also fits through the uplink, it
   is the optimum.
3. Otherwise HiGHS solves it with the violated intervals; what counts is the value of its prices, a bound whatever their
   errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equipoise.errors import InputError, refuse_if
from equipoise.kernels import Floats, Ints, inner, kernel
from equipoise.linear_program import run, solver_of
from equipoise.share._arithmetic import keys_of
from equipoise.share.site import Site
from equipoise.share.step import DUST, SLACK, ready_steps
from equipoise.share.task import least_work
from equipoise.share.workload import Batch, Workload

if TYPE_CHECKING:
    import highspy

Progress = Callable[[int, int], None]  # seeds done, and in all

ROUNDING = 1e-6  # tasks by which an optimum may come out too low: arithmetic, not the engine's slack
CROWDED = 1e-7  # of a slot's bandwidth by which an interval may overflow and count as kept; errs upwards


@dataclass(frozen=True)
class Bound:
    """What no policy can beat: arrays have one value for each seed."""

    seeds: Ints
    tasks: int
    optimum: Floats  # of the linear program, in tasks
    bound: Ints  # its floor: whole tasks
    exact: Ints | None = None  # tasks that a schedule exists for, if that was asked

    @property
    def percent(self) -> Floats:
        """The bound in percent of tasks, per seed."""
        return np.asarray(100.0 * self.bound / self.tasks)


def oracle(
    workload: Workload | None = None,
    *,
    load: int = 60,
    seeds: int | Iterable[int] = 1,
    site: Site | None = None,
    exact: bool = False,
    progress: Progress | None = None,
) -> Bound:
    """The most tasks that any policy can finish in time on the fluid pool, for each seed.

    Parameters
    ----------
    workload
        What arrives; the authors' preset if None.
    load
        How many tasks.
    seeds
        A count, or the seeds themselves.
    site
        The servers and the uplink; the workload's own if None.
    exact
        Whether to decide whole tasks and true store-and-forward too, by integer programming: for 20 tasks at most.
    progress
        Called with seeds done and seeds in all.
    """
    workload = workload or Workload.authors()
    site = site or workload.site
    if exact and site.success == "observed":
        raise InputError("oracle: exact=True needs success by the true error; use exact=False", code="oracle.luck")
    batch = workload.draw(load, seeds, site)
    count, tasks = batch.shape
    optimum, bound, best = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    for row in range(count):
        jobs = jobs_of(batch, row, site)
        optimum[row] = lp_optimum(jobs)
        bound[row] = floor_of(optimum[row], jobs)
        if exact:
            from equipoise.share.oracle_exact import exact_optimum

            best[row] = exact_optimum(jobs)
        if progress is not None:
            progress(row + 1, count)
    return Bound(batch.seeds, tasks, optimum, bound, best if exact else None)


def bounds_of(batch: Batch, site: Site) -> Floats:
    """The bound for every seed of a batch: tasks."""
    ready = ready_steps(batch, site) if site.uplink == "equal" else None
    jobs = [jobs_of(batch, row, site, ready) for row in range(batch.shape[0])]
    return np.array([float(floor_of(lp_optimum(one), one)) for one in jobs])


def bound_of(batch: Batch, row: int, site: Site) -> int:
    """The bound for one seed of a batch: tasks."""
    why = f"bound_of: row {row} of a batch of {batch.shape[0]} seeds; expected 0 to {batch.shape[0] - 1}"
    refuse_if(not 0 <= row < batch.shape[0], why, code="row.range")
    return int(bounds_of(batch.rows(row, row + 1), site)[0])


def floor_of(optimum: float, jobs: OracleTasks) -> int:
    """The whole tasks that an optimum allows any policy.

    The engine lets sums round up to SLACK above their limits. Scaled down by 1 + SLACK / limit, what a policy did obeys the
    program, whose optimum is thus at least that fraction of the policy's successes.
    """
    slack = 1.0 + SLACK / min(jobs.capacity, float(jobs.most.min(initial=jobs.cap)), jobs.bandwidth)
    return min(int(np.floor(slack * optimum + ROUNDING)), jobs.count + jobs.free)


@dataclass(frozen=True)
class OracleTasks:
    """The tasks of one seed that could finish if they were alone, in slots and samples, and what the site has for them."""

    arrival: Ints  # the first slot to send in
    delay: Ints
    ready: Ints  # the first slot to compute in, with the whole uplink
    end: Ints  # the first slot too late to compute in
    data: Floats
    work: Floats
    most: Floats  # samples per slot that each may get
    slots: int
    capacity: float
    cap: float  # the site's, of which `most` is the least with the task's own limit
    bandwidth: float
    free: int = 0  # tasks that any grant finishes: they are not among these

    @property
    def count(self) -> int:
        return len(self.work)


def jobs_of(batch: Batch, row: int, site: Site, ready_by: Ints | None = None) -> OracleTasks:
    """One seed as the engine plays it: the last computing slot is deadline - 1, and amounts up to DUST are nothing.

    Where the uplink divides itself, when a task can compute is given (`ready_by`, if it is known for the whole batch), and
    there is nothing to send.
    """
    cap, bandwidth, horizon = site.most_per_task, float(site.bandwidth), batch.horizon
    arrival, delay = np.ceil(batch.arrival[row]).astype(np.int64), batch.delay[row].astype(np.int64)
    data = np.maximum(batch.data[row] - DUST, 0.0)
    sending = np.where(data > 0.0, np.maximum(np.ceil(data / (bandwidth + SLACK)), 1.0), 0.0).astype(np.int64)
    ready = arrival + sending + delay
    if site.uplink == "equal":
        ready_by = ready_steps(batch.rows(row, row + 1), site) if ready_by is None else ready_by[row : row + 1]
        ready = arrival = ready_by[0]
        data, delay, bandwidth = np.zeros(len(data)), np.zeros(len(data), np.int64), np.inf
    end = np.minimum(np.ceil(batch.deadline[row]).astype(np.int64), horizon)
    most = np.minimum(batch.speed[row], cap)
    work = batch.work[row] if site.success == "true" else _luckiest(batch, row, end - ready, most)
    free = (work == 0.0) & (end > ready)  # whom any grant finishes
    work = work - DUST
    able = (work <= (most + SLACK) * (end - ready)) & (end > ready) & ~free
    arrival, delay, ready, end = (column[able] for column in (arrival, delay, ready, end))
    data, work, most = (column[able] for column in (data, work, most))
    return OracleTasks(
        arrival, delay, ready, end, data, work, most, horizon, site.capacity, cap, bandwidth, int(free.sum())
    )


def _luckiest(batch: Batch, row: int, tests: Ints, most: Floats) -> Floats:
    """The least work at which one of a task's tests, one for each slot that it can compute in, would accept its error.

    The k-th test comes after k grants: it counts if its work can be computed in k slots. 0: it accepts the first error.
    """
    keys, least = keys_of(batch.seeds[row : row + 1], batch.shape[1])[0], np.full(batch.shape[1], np.inf)
    laws = np.array([*(getattr(batch, name)[row] for name in ("a", "b", "floor", "target", "sigma")), most + SLACK])
    least_work(keys, tests, laws, batch.table[row], batch.table_samples, batch.table_errors, least)
    return np.where(least <= 1.0, 0.0, least)


def lp_optimum(jobs: OracleTasks) -> float:
    """The optimum of the linear program, and those whom any grant finishes, in tasks."""
    if not jobs.count:
        return float(jobs.free)
    computed, order = np.zeros((jobs.count, jobs.slots)), np.argsort(jobs.work)
    # Made here and not in the kernel: to compile how an array is made takes longer than all of this.
    free, notes = np.full(jobs.slots, jobs.capacity), np.zeros((5, max(jobs.slots, jobs.count)), np.int64)
    fill_slots(order, jobs.work, jobs.ready, jobs.end, jobs.most, computed, free, notes)
    if Uplink(jobs).fits(computed):
        return jobs.free + float((computed.sum(axis=1) / jobs.work).sum())
    return jobs.free + Program(jobs).solve()


@kernel
def fill_slots(
    order: Ints, work: Floats, ready: Ints, end: Ints, most: Floats, computed: Floats, free: Floats, notes: Ints
) -> None:
    """Greedy on the polymatroid: each task in `order` gets as much of its work as the slots can carry besides the earlier.

    Late slots first, so that its data has time; when they are full, earlier tasks move along augmenting paths.
    `free` is the capacity of each slot, and what it has left in the end; `notes` are zeros, for `_free_slot`.
    """
    from_slot, by_task, dust = notes[0], notes[1], 1e-13 * free[0]  # of the site's capacity: nothing is taken yet
    for i in order:
        left = work[i]
        for t in range(end[i] - 1, ready[i] - 1, -1):
            part = min(left, most[i], free[t])
            computed[i, t] = part
            free[t] -= part
            left -= part
        while left > dust:
            found = _free_slot(i, ready, end, most, dust, computed, free, notes)
            if found < 0:
                break
            part, t = min(left, free[found]), found  # as much as every step of the path allows
            while t >= 0:
                part = min(part, most[by_task[t]] - computed[by_task[t], t])
                if from_slot[t] >= 0:
                    part = min(part, computed[by_task[t], from_slot[t]])
                t = from_slot[t]
            free[found] -= part
            left -= part
            t = found
            while t >= 0:
                computed[by_task[t], t] += part
                if from_slot[t] >= 0:
                    computed[by_task[t], from_slot[t]] -= part
                t = from_slot[t]


@inner
def _free_slot(
    i: int, ready: Ints, end: Ints, most: Floats, dust: float, computed: Floats, free: Floats, notes: Ints
) -> int:
    """Breadth first from task i over slots where it could do more, through tasks that could do less there; -1: none.

    `notes`: from which slot each is reached, by which task, the queue, whether it is closed (no path leads from it to a
    free slot, nor ever will); and whether each task was asked.
    """
    tasks, slots = computed.shape
    from_slot, by_task, queue, closed, asked = notes[0], notes[1], notes[2], notes[3], notes[4]
    for k in range(tasks):
        asked[k] = 0
    for t in range(slots):
        by_task[t] = -1
    head, tail, j, here = 0, 0, i, -1
    while True:
        asked[j] = 1
        for t in range(end[j] - 1, ready[j] - 1, -1):
            if by_task[t] < 0 and not closed[t] and computed[j, t] < most[j] - dust:
                by_task[t], from_slot[t] = j, here
                if free[t] > dust:
                    return t
                queue[tail] = t
                tail += 1
        j = -1
        while j < 0:
            if head == tail:
                for k in range(tail):
                    closed[queue[k]] = 1
                return -1
            here = queue[head]
            for k in range(tasks):
                if not asked[k] and computed[k, here] > dust:
                    j = k
                    break
            if j < 0:
                head += 1


class Uplink:
    """What must be sent for a schedule of computing, and the intervals [release, due] it would overfill."""

    def __init__(self, jobs: OracleTasks) -> None:
        self.jobs = jobs
        self.releases, self.release = np.unique(jobs.arrival, return_inverse=True)
        self.density = jobs.data / jobs.work  # data behind a sample of work
        lengths = np.arange(jobs.slots)[None, :] - self.releases[:, None] + 1.0
        self.room = np.where(lengths > 0, jobs.bandwidth * np.maximum(lengths, 1.0), np.inf)

    def fits(self, computed: Floats) -> bool:
        """Whether the data of what is computed, [tasks, slots], can be there in time."""
        if not np.isfinite(self.jobs.bandwidth):
            return True
        tasks, slots = np.nonzero(computed)
        return bool((self.excess(tasks, slots, computed[tasks, slots]) <= CROWDED * self.jobs.bandwidth).all())

    def excess(self, task: Ints, slot: Ints, computed: Floats) -> Floats:
        """By how much the data released and due in each interval exceeds its room: [releases, slots]."""
        demand = np.zeros(self.room.shape)
        np.add.at(demand, (self.release[task], self.due(task, slot)), self.density[task] * computed)
        inside = np.cumsum(np.cumsum(demand[::-1], axis=0)[::-1], axis=1)  # released from here on, due up to here
        return np.asarray(inside - self.room)

    def due(self, task: Ints, slot: Ints) -> Ints:
        """The last slot to send in what is computed in `slot`; of no account for a task without data."""
        return np.asarray(np.maximum(slot - 1 - self.jobs.delay[task], 0))

    def price(self, task: Ints, slot: Ints, prices: Floats) -> Floats:
        """What a sample computed pays for its data, given a price for each interval: those that contain it add up."""
        around = np.cumsum(np.cumsum(prices, axis=0)[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(self.density[task] * around[self.release[task], self.due(task, slot)])


class Program:
    """The linear program in x alone, in units of the cap; interval rows are added as they are violated."""

    def __init__(self, jobs: OracleTasks) -> None:
        self.jobs, self.uplink = jobs, Uplink(jobs)
        lengths = jobs.end - jobs.ready
        self.task = np.repeat(np.arange(jobs.count), lengths)
        self.slot = np.concatenate([np.arange(a, b) for a, b in zip(jobs.ready, jobs.end, strict=True)])
        self.need = jobs.work / jobs.cap
        self.most = np.minimum(jobs.most / jobs.cap, self.need)[self.task]
        self.value = 1.0 / self.need[self.task]
        self.room = np.concatenate([np.full(jobs.slots, jobs.capacity / jobs.cap), self.need])
        self.rows: list[tuple[int, int]] = []  # intervals: the number of the release, the due slot

    def solve(self) -> float:
        """Solve, add the intervals overfilled most, and again, until everything can be sent."""
        solver = self._without_uplink()
        while True:
            run(solver)
            solution = solver.getSolution()
            computed = self.jobs.cap * np.asarray(solution.col_value)
            violated = self._violated(computed)
            if not violated:
                return self._value_of_prices(-np.asarray(solution.row_dual))
            self._add(solver, violated)

    def _without_uplink(self) -> highspy.Highs:
        """One row for each slot, and one for each task."""
        import highspy

        columns = len(self.task)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, len(self.room)
        model.col_cost_, model.col_lower_, model.col_upper_ = -self.value, np.zeros(columns), self.most
        model.row_lower_, model.row_upper_ = np.full(len(self.room), -np.inf), self.room
        model.a_matrix_.start_ = 2 * np.arange(columns + 1)
        model.a_matrix_.index_ = np.stack([self.slot, self.jobs.slots + self.task], axis=1).ravel()
        model.a_matrix_.value_ = np.ones(2 * columns)
        return solver_of(model, presolve="off", dual_feasibility_tolerance=1e-9)

    def _violated(self, computed: Floats) -> list[tuple[int, int]]:
        """Overfilled intervals, worse than their neighbours: few rows cut as much as all (they are dense), and as fast."""
        excess = self.uplink.excess(self.task, self.slot, computed)
        around = np.pad(excess, 1, constant_values=-np.inf)
        peak = (excess >= around[:-2, 1:-1]) & (excess > around[2:, 1:-1])
        peak &= (excess >= around[1:-1, :-2]) & (excess > around[1:-1, 2:])
        found = np.argwhere(peak & (excess > CROWDED * self.jobs.bandwidth)).tolist()
        known = set(self.rows)
        return [(release, due) for release, due in found if (release, due) not in known]

    def _add(self, solver: highspy.Highs, intervals: list[tuple[int, int]]) -> None:
        """In units of one slot's bandwidth."""
        scale = self.jobs.cap / self.jobs.bandwidth
        release, due = self.uplink.release[self.task], self.uplink.due(self.task, self.slot)
        amount = scale * self.uplink.density[self.task]
        inside = [np.flatnonzero((release >= r) & (due <= e) & (amount > 0.0)) for r, e in intervals]
        start = np.cumsum([0] + [len(columns) for columns in inside])
        columns = np.concatenate(inside)
        room = np.array([self.uplink.room[row] for row in intervals]) / self.jobs.bandwidth
        index, starts = columns.astype(np.int32), start[:-1].astype(np.int32)
        least = np.full(len(intervals), -np.inf)
        solver.addRows(len(intervals), least, room, len(columns), starts, index, amount[columns])
        self.rows += intervals

    def _value_of_prices(self, price: Floats) -> float:
        """Weak duality: for any prices >= 0, their rows' room and each column's profit at its most bound the optimum."""
        price = np.maximum(price, 0.0)
        n, slots = len(self.room), self.jobs.slots
        per_interval = np.zeros(self.uplink.room.shape)
        for row, paid in zip(self.rows, price[n:], strict=True):
            per_interval[row] = paid / self.jobs.bandwidth
        sending = self.jobs.cap * self.uplink.price(self.task, self.slot, per_interval)
        profit = self.value - price[self.slot] - price[slots + self.task] - sending
        rooms = price[:n] @ self.room + per_interval[per_interval > 0] @ self.uplink.room[per_interval > 0]
        return float(rooms + np.maximum(profit, 0.0) @ self.most)
