"""ElasticFlow (after Gu et al., ASPLOS '23): a job that can be done by its deadline beside those promised is admitted.

Each slot all promised jobs are planned anew in order of deadline, each with its minimum satisfactory share: the fewest
GPUs, a power of two, that do its work in time. What is left over widens those that it costs least. A plan in which all
jobs are in time replaces the one before; if re-planning finds none, the one before is kept, so no date is broken. Written
from the abstract and the artifact. `elasticflow:priced` admits only what is worth a price for each GPU-slot of its share.

A machine is halved again and again, into as many parts as it has GPUs, rounded down to a power of two; what a job cannot
use of its parts is idle. Each slot counts as lost to a restart in part. Bad at worth, unless priced; jobs without a
deadline are promised the end of the horizon; machines must be equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import numpy as np

from equipoise.errors import InputError, refuse_negative
from equipoise.kernels import ZERO, Floats, Ints, inner, kernel
from equipoise.place import execution as says
from equipoise.place.execution import Execution
from equipoise.place.job import DEADLINE, LINEAR, SIGMOID
from equipoise.place.placers._pool import ENOUGH, Levels, book, plan, widest_at
from equipoise.place.placers._slotwise import TAKE, WAITING
from equipoise.place.planner.job_arrays import JobArrays, servers_for
from equipoise.place.planner.packing import MACHINE, ROUNDING, WORKERS
from equipoise.place.prices._posted import History, clearing, history_of, replayed
from equipoise.place.prices.replay import SLIGHT, STEPS

MOST_PARTS = 1024  # of a machine
CANDIDATES = STEPS[:9]  # prices that are tried on history, in clearing prices
LONGEST = 1e300  # work of a job nobody knows the end of
EARLY = cast(bool, np.bool_(True))  # for a literal True the callee would be compiled twice


@dataclass(frozen=True)
class ElasticFlow:
    """Deadlines that are promised.

    Parameters
    ----------
    theta
        A job is admitted only if it is worth so much for each part-slot of its minimum share (a part is a GPU, where a
        machine has a power of two of them).
    history
        Past jobs: theta is the best of nine on them. None: as given.
    admission
        False: nobody is refused or promised anything; all run in order of deadline, those too late as well.
    scaling
        False: each job has the width it asked for, or nothing.
    label
        What it is called.
    """

    theta: float = 0.0
    history: History | None = None
    admission: bool = True
    scaling: bool = True
    label: str = "ElasticFlow"
    colour: ClassVar[str] = "#1d4ed8"
    rank: ClassVar[float] = 8.0
    promises: ClassVar[bool] = True
    named_only: ClassVar[bool] = True  # it refuses clusters
    candidate: ClassVar[bool] = True  # to be recommended,
    wants_worth: ClassVar[bool] = True  # where worth or deadlines are stated
    calendars: ClassVar[bool] = False  # it refuses one
    kinds: ClassVar[tuple[str, ...]] = ("priced",)
    _found: dict[object, float] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        refuse_negative("ElasticFlow", theta=self.theta)

    def start(self, run: Execution, seed: int) -> ElasticFlowSession:
        return ElasticFlowSession(self, run, self.price(run))

    def price(self, run: Execution) -> float:
        """Theta: as given, or the lowest of the candidates that earned as good as the most on history."""
        if self.history is None:
            return self.theta
        key = run.cluster, run.slots, run.horizon, run.pace
        if key not in self._found:
            pasts = history_of(self.history, "replay")
            scale = clearing(run, pasts) / (parts_of(run) * run.cluster.size)
            asked = [replace(self, theta=step * scale, history=None) for step in CANDIDATES]
            earned = {policy.theta: sum(one.utility for one in replayed(run, policy, pasts)) for policy in asked}
            enough = max(earned.values()) * (1.0 - SLIGHT)
            self._found[key] = min(theta for theta, utility in earned.items() if utility >= enough)
        return self._found[key]


def parts_of(run: Execution) -> int:
    """Into how many parts a machine is cut: its GPUs (or the first resource), rounded down to a power of two."""
    cluster = run.cluster
    if (cluster.capacity != cluster.capacity[0]).any() or len(cluster.domains) > 1:
        names = ", ".join(dict.fromkeys(machine.name for machine in cluster.machines))
        raise InputError(
            f"ElasticFlow plans one pool of equal machines; {names} differ. Take another policy, or one kind of machines",
            code="elasticflow.machines",
        )
    if run.calendar:
        raise InputError(
            "ElasticFlow plans one pool of machines that are always there; leave it out, or the calendar",
            code="elasticflow.calendar",
        )
    counted = cluster.resources.index("gpu") if "gpu" in cluster.resources else 0
    amount = int(cluster.capacity[0, counted]) // 1000
    return 1 << (max(1, min(amount, MOST_PARTS)).bit_length() - 1)


class ElasticFlowSession:
    def __init__(self, policy: ElasticFlow, run: Execution, theta: float) -> None:
        self.policy, self.run, self.theta = policy, run, theta
        self.parts = parts_of(run)
        self.total = self.parts * run.cluster.size
        self.enough = 0.5 * ROUNDING * run.work  # so much may be missing of a job that is done
        found = [self._levels(j) for j in range(len(run.jobs))]
        self.first = np.cumsum([0, *map(len, found)])  # job j has the levels first[j] to first[j + 1] - 1
        rows = np.array([level for levels in found for level in levels]).reshape(-1, 3)
        workers, parts = rows[:, :2].T.astype(np.int64)
        # All machines are alike, and a power of two of parts: parts fit if there are as many, whatever their sizes.
        self.levels = Levels(workers, np.zeros_like(parts), parts, rows[:, 2].copy(), parts.astype(float))
        self.due: dict[int, int] = {}  # of unfinished jobs that are here: the slot to finish by
        self.plan: dict[int, Ints] = {}  # of each job, its level in slot `made` and those after; -1: none
        self.made = 0
        self.detail = {"theta": theta}

    def _levels(self, j: int) -> list[tuple[int, int, float]]:
        """(workers, parts, samples per slot) of each width that is faster than those below it."""
        arrays, asked = self.run.arrays[j], self.run.jobs[j].requested
        widths = [1 << k for k in range(max(arrays.widest, 0).bit_length())]
        if not self.policy.scaling and asked:
            widths = [min(asked, arrays.widest)]
        found: list[tuple[int, int, float]] = []
        for w in widths:
            block = self._block(arrays, w)
            rate = float((arrays.together if block <= self.parts else arrays.apart)[0, w])
            rate *= max(0.0, 1.0 - arrays.restart)  # whoever is packed anew may move in any slot
            if block <= self.total and rate > (found[-1][2] if found else 0.0):
                found = [*(level for level in found if level[1] < block), (w, block, rate)]
        return found if self.policy.scaling else found[-1:]

    def _block(self, arrays: JobArrays, w: int) -> int:
        """The parts that so many workers and their servers need: of one machine, else of whole machines; always 2^k."""
        capacity, machines = self.run.cluster.capacity[0], 1
        while w % machines or (arrays.held(w // machines) > capacity).any():
            machines *= 2
            if machines > min(w, self.run.cluster.size):
                return self.total + 1
        if machines > 1:
            return machines * self.parts
        need = arrays.held(w)
        asked = need > 0
        return 1 << (int((-(-need[asked] * self.parts // capacity[asked])).max(initial=1)) - 1).bit_length()

    def date(self, j: int) -> int:
        """The slot by which a job wants to be finished; the last of its horizon if it has no deadline."""
        run, kind, (_, rate, when) = self.run, self.run.worth_kind[j], self.run.worth_parameters[j].tolist()
        last, slots = run.deadline(j) - 1, run.horizon
        if kind == LINEAR:
            slots = max(0, math.ceil(when) - 1)
        elif kind == DEADLINE or (kind == SIGMOID and rate > 0.0):
            slots = math.floor(when)
        return min(last, int(run.arrival[j]) + slots)

    def arrive(self, job: int) -> None:
        run, date, worth = self.run, self.date(job), self.run.jobs[job].utility
        parts = self.levels.parts[self.first[job] : self.first[job + 1]]
        why = run.hopeless(job) or ("" if len(parts) else says.INFEASIBLE_ALONE)
        if not why and self.policy.admission:
            plan = self._planned({**self.due, job: date})
            cost = 0.0 if plan is None else self.theta * float(parts[plan[job][plan[job] >= 0]].sum())
            why = says.NO_CAPACITY if plan is None else says.PRICED_OUT if worth(0) < cost else ""
            if plan is not None and not why:
                self.plan, self.made = plan, run.now
                run.decide(job, says.ADMITTED, worth=worth(date - int(run.arrival[job])), cost=cost, due=date)
        if why:
            run.decide(job, says.REFUSED, why)
        else:
            self.due[job] = date
            if not self.policy.admission:
                run.decide(job, says.PENDING, WAITING)

    def _asked(self, due: dict[int, int]) -> tuple[Ints, Ints, Floats]:
        """Jobs in order of deadline, those last whose statement or date is past; slots from now to their last, and needs."""
        run, policy = self.run, self.policy
        jobs = np.fromiter(due, dtype=np.int64, count=len(due))
        date = np.fromiter(due.values(), dtype=np.int64, count=len(due))
        need = run.work[jobs] - run.done[jobs] - self.enough[jobs]
        late = (need <= 0.0) | (date < run.now)
        if not (policy.admission or policy.scaling):
            late[:] = True
        need[late] = LONGEST
        order = np.lexsort((jobs, date, late & policy.admission))
        last = np.maximum(0, date - run.now)
        last[late] = last.max(initial=0)
        return jobs[order], last[order], need[order]

    def _planned(self, due: dict[int, int]) -> dict[int, Ints] | None:
        """A plan from now on in which everybody who has a promise is in time; None if none is found."""
        jobs, last, need = self._asked(due)
        room = np.full((int(last.max()) + 1, 1), self.total)
        out = np.full((len(jobs), len(room)), -1)
        if not in_order(room, jobs, last, need, self.levels, self.first, self.policy.admission, out):
            return None
        return dict(zip(jobs.tolist(), out, strict=True))

    def slot(self) -> None:
        run = self.run
        if not self.due:
            return
        if run.now != self.made or not self.policy.admission:
            better = self._planned(self.due)
            if better is not None:
                self.plan, self.made = better, run.now
        jobs, _, need = self._asked(self.due)
        rows, ahead = [self.plan[j] for j in jobs.tolist()], run.now - self.made
        level = np.array([row[ahead] if ahead < len(row) else -1 for row in rows])
        widen(self.total, level, jobs, need, self.levels, self.first)
        self._seat(jobs[level >= 0], (self.first[jobs] + level)[level >= 0])

    def _seat(self, jobs: Ints, levels: Ints) -> None:
        """The widest first, so that what is free of a machine is always a multiple of the block: everybody finds room."""
        run = self.run
        free = np.full(run.cluster.size, self.parts, dtype=np.int64)
        chosen = []
        widths, blocks = self.levels.workers[levels].tolist(), self.levels.parts[levels].tolist()
        for j, width, block in zip(jobs.tolist(), widths, blocks, strict=True):
            was = run.before(j)
            chosen.append((-block, was[:, WORKERS].sum() != width, j, width, was[:, MACHINE]))
        for minus, other, j, width, hosts in sorted(chosen, key=lambda one: one[:3]):  # who can stay, before who moves
            each = min(-minus, self.parts)
            if other or (free[hosts] < each).any():  # the fullest that have room
                order = np.argsort(free, kind="stable")
                hosts = np.sort(order[np.searchsorted(free[order], each) :][: -minus // each])
            free[hosts] -= each
            first = width // len(hosts) * np.arange(len(hosts) + 1)  # the same number of workers on each
            servers = np.diff([servers_for(int(w), run.arrays[j].per_server) for w in first])
            cells = np.column_stack((np.full(len(hosts), run.now), hosts, np.diff(first), servers))
            run.assign(j, cells.astype(np.int32))
            if not self.policy.admission:
                run.decide(j, says.LENT)

    def finished(self, job: int) -> None:
        self.due.pop(job, None)
        self.plan.pop(job, None)

    def unfinished(self, job: int) -> None:
        """Nothing: it has its share again, or not, when the next slot is planned."""


@inner
def _own(levels: Levels, first: Ints, j: int) -> Levels:
    """Those of one job."""
    a, b = first[j], first[j + 1]
    return Levels(levels.workers[a:b], levels.size[a:b], levels.parts[a:b], levels.rate[a:b], levels.share[a:b])


@kernel
def in_order(
    room: Ints, jobs: Ints, last: Ints, need: Floats, levels: Levels, first: Ints, strict: bool, out: Ints
) -> bool:
    """Give each job in turn its minimum share of what is free, its level by slot; whether all find theirs.

    One that can have none, for it is late or nobody is promised anything (not `strict`), has the most that is free.
    """
    cells = np.empty((room.shape[0], 2), np.int64)
    for i in range(jobs.shape[0]):
        own = _own(levels, first, jobs[i])
        n = 0
        if need[i] < LONGEST:  # which allows for rounding, as `plan` does
            n = plan(room, ZERO, last[i], own, need[i] / ENOUGH, cells, ZERO, ZERO, EARLY)
        if n == 0:
            if strict and need[i] < LONGEST:
                return False
            for t in range(last[i] + 1):
                level = widest_at(room, t, own, own.rate.shape[0] - 1, ZERO) if room[t, 0] > 0 else -1
                if level >= 0:
                    cells[n, 0], cells[n, 1] = t, level
                    n += 1
        book(room, cells[:n], own, TAKE)
        for c in range(n):
            out[i, cells[c, 0]] = cells[c, 1]
    return True


@kernel
def widen(free: int, level: Ints, jobs: Ints, need: Floats, levels: Levels, first: Ints) -> None:
    """Give what is left of a slot's `free` parts a level at a time: to those who have none; then where it costs least.

    The cost, for each part added, is the part-slots that the job then takes more in all, at its speed per part so far.
    """
    for i in range(jobs.shape[0]):
        free -= levels.parts[first[jobs[i]] + level[i]] if level[i] >= 0 else 0
    while free > 0:
        best, least, taken = -1, np.inf, 0
        for i in range(jobs.shape[0]):
            at = first[jobs[i]] + level[i]
            if at + 1 == first[jobs[i] + 1]:
                continue
            more = levels.parts[at + 1] - (levels.parts[at] if level[i] >= 0 else 0)
            if more > free:
                continue
            cost = -LONGEST
            if level[i] >= 0:
                if levels.rate[at] >= need[i]:  # done in this slot without it
                    continue
                gain = (levels.rate[at + 1] - levels.rate[at]) / more
                cost = 1.0 - gain * levels.parts[at] / levels.rate[at]
            if cost < least:
                best, least, taken = i, cost, more
        if best < 0:
            return
        level[best] += 1
        free -= taken
