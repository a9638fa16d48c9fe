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
from typing import ClassVar

import numpy as np

from equipoise.errors import InputError, refuse_negative
from equipoise.kernels import Floats, Int32s, Ints, kernel
from equipoise.place.execution import (
    ADMITTED,
    INFEASIBLE_ALONE,
    LENT,
    NO_CAPACITY,
    PENDING,
    PRICED_OUT,
    REFUSED,
    Execution,
)
from equipoise.place.job import DEADLINE, LINEAR, SIGMOID
from equipoise.place.placers._slotwise import WAITING
from equipoise.place.planner.job_arrays import fits_together, servers_for
from equipoise.place.planner.packing import MACHINE, ROUNDING, WORKERS
from equipoise.place.prices._posted import History, clearing, history_of
from equipoise.place.prices.replay import SLIGHT, STEPS

MOST_PARTS = 1024  # of a machine
CANDIDATES = STEPS[:9]  # prices that are tried on history, in clearing prices
LONGEST = 1e300  # work of a job nobody knows the end of


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
        from equipoise.place.simulate import simulate

        key = run.cluster, run.slots, run.horizon
        if key not in self._found:
            pasts = history_of(self.history, "replay")
            scale = clearing(run, pasts) / (parts_of(run) * run.cluster.size)
            horizon = None if run.slots is not None else run.horizon
            earned = {}
            for step in CANDIDATES:
                asked = replace(self, theta=step * scale, history=None)
                runs = [simulate(run.cluster, past, asked, slots=run.slots, horizon=horizon) for past in pasts]
                earned[asked.theta] = sum(one.utility for one in runs)
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
    counted = cluster.resources.index("gpu") if "gpu" in cluster.resources else 0
    amount = int(cluster.capacity[0, counted]) // 1000
    return 1 << (max(1, min(amount, MOST_PARTS)).bit_length() - 1)


class ElasticFlowSession:
    def __init__(self, policy: ElasticFlow, run: Execution, theta: float) -> None:
        self.policy, self.run, self.theta = policy, run, theta
        self.parts = parts_of(run)
        self.total = self.parts * run.cluster.size
        self.enough = 0.5 * ROUNDING * run.work  # so much may be missing of a job that is done
        levels = [self._levels(j) for j in range(len(run.jobs))]
        most = max(map(len, levels), default=0)
        table = np.zeros((3, len(levels), most))
        for j, rows in enumerate(levels):
            table[:, j, : len(rows)] = np.array(rows, dtype=float).reshape(-1, 3).T
        self.width, self.block, self.rate = table[0].astype(np.int64), table[1].astype(np.int64), table[2]
        self.count = np.array([len(rows) for rows in levels], dtype=np.int64)
        self.due: dict[int, int] = {}  # of unfinished jobs that are here: the slot to finish by
        self.plan: dict[int, Ints] = {}  # parts of each job in slot `made` and those after
        self.made, self.stale = 0, True
        self.detail = {"theta": theta}

    def _levels(self, j: int) -> list[tuple[int, int, float]]:
        """(workers, parts, samples per slot) of each width that is faster than those below it."""
        arrays, job, machines = self.run.arrays[j], self.run.jobs[j], self.run.cluster.size
        found: list[tuple[int, int, float]] = []
        widths = [1 << k for k in range(max(arrays.widest, 0).bit_length())]
        if not self.policy.scaling and job.requested:
            widths = [min(job.requested, arrays.widest)]
        for w in widths:
            block = self._block(j, w)
            if block > self.parts * machines:
                break
            rate = float((arrays.together if block <= self.parts else arrays.apart)[0, w]) * max(0.0, 1.0 - arrays.restart)
            if rate > (found[-1][2] if found else 0.0):
                found = [*(level for level in found if level[1] < block), (w, block, rate)]
        return found if self.policy.scaling else found[-1:]

    def _block(self, j: int, w: int) -> int:
        """The parts that so many workers and their servers need: of one machine, else whole machines; always 2^k."""
        arrays, capacity = self.run.arrays[j], self.run.cluster.capacity[0]
        need = w * arrays.worker + servers_for(w, arrays.per_server) * arrays.server
        block = 1
        while block <= self.parts and (need * self.parts > block * capacity).any():
            block *= 2
        while block > self.parts:
            each, over = divmod(w * self.parts, block)
            if over or each == 0:
                return self.total + 1
            if fits_together(capacity, arrays.worker, arrays.server, arrays.per_server, each) == each:
                break
            block *= 2
        return block

    def date(self, j: int) -> int:
        """The slot by which a job wants to be finished; the last of its horizon if it has no deadline."""
        run, (_, rate, when) = self.run, self.run.worth_parameters[j]
        kind, last = run.worth_kind[j], run.deadline(j) - 1
        if kind == LINEAR:
            return min(last, int(run.arrival[j]) + max(0, math.ceil(when) - 1))
        if kind == DEADLINE or (kind == SIGMOID and rate > 0.0):
            return min(last, int(run.arrival[j]) + math.floor(when))
        return last

    def arrive(self, job: int) -> None:
        run, date = self.run, self.date(job)
        why = run.hopeless(job) or ("" if self.count[job] else INFEASIBLE_ALONE)
        area = 0
        if not why and self.policy.admission:
            plan = self._planned({**self.due, job: date})
            utility = run.jobs[job].utility
            if plan is None:
                why = NO_CAPACITY
            elif utility(0) < self.theta * (area := int(plan[job].sum())):
                why = PRICED_OUT
            else:
                self.plan, self.made = plan, run.now
                worth = utility(date - int(run.arrival[job]))
                run.decide(job, ADMITTED, worth=worth, cost=self.theta * area, due=date)
        if why:
            run.decide(job, REFUSED, why)
            return
        if not self.policy.admission:
            run.decide(job, PENDING, WAITING)
        self.due[job] = date

    def _asked(self, due: dict[int, int]) -> tuple[Ints, Ints, Floats]:
        """Jobs in order of deadline, those last whose statement or date is past; slots they have, and what they need."""
        run, policy = self.run, self.policy
        jobs = np.fromiter(due, dtype=np.int64, count=len(due))
        date = np.fromiter(due.values(), dtype=np.int64, count=len(due))
        need = run.work[jobs] - run.done[jobs] - self.enough[jobs]
        late = (need <= 0.0) | (date < run.now)
        if not (policy.admission or policy.scaling):
            late[:] = True
        need[late] = LONGEST
        order = np.lexsort((jobs, date, late & policy.admission))
        slots = np.maximum(1, date - run.now + 1)
        slots[late] = slots.max(initial=1)
        return jobs[order], slots[order], need[order]

    def _planned(self, due: dict[int, int]) -> dict[int, Ints] | None:
        """A plan from now on in which everybody who has a promise is in time; None if none is found."""
        jobs, slots, need = self._asked(due)
        plan = np.zeros((len(jobs), int(slots.max(initial=1))), dtype=np.int64)
        free = np.full(plan.shape[1], self.total, dtype=np.int64)
        if not in_order(free, jobs, slots, need, self.count, self.block, self.rate, self.policy.admission, plan):
            return None
        return {int(j): row for j, row in zip(jobs, plan, strict=True)}

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
        now = np.array([row[ahead] if ahead < len(row) else 0 for row in rows], dtype=np.int64)
        widen(self.total - int(now.sum()), now, jobs, need, self.count, self.block, self.rate)
        self._seat(jobs, now)

    def _seat(self, jobs: Ints, blocks: Ints) -> None:
        """The widest first, so that what is free of a machine is always a multiple of the block: everybody finds room."""
        run = self.run
        free = np.full(run.cluster.size, self.parts, dtype=np.int64)
        chosen = [(int(j), int(block), run.before(int(j))) for j, block in zip(jobs, blocks, strict=True) if block]
        levels = {j: int(np.searchsorted(self.block[j, : self.count[j]], block)) for j, block, _ in chosen}
        same = {j: int(was[:, WORKERS].sum()) == self.width[j, levels[j]] for j, _, was in chosen}
        for j, block, was in sorted(chosen, key=lambda one: (-one[1], not same[one[0]])):
            machines, each = max(1, block // self.parts), min(block, self.parts)
            hosts = was[:, MACHINE] if same[j] else np.empty(0, np.int32)
            if len(hosts) != machines or (free[hosts] < each).any():  # the fullest that have room
                order = np.argsort(free, kind="stable")
                hosts = order[np.searchsorted(free[order], each) :][:machines]
            free[hosts] -= each
            run.assign(j, self._cells(j, int(self.width[j, levels[j]]), hosts))
            if not self.policy.admission:
                run.decide(j, LENT)

    def _cells(self, j: int, width: int, hosts: Ints | Int32s) -> Int32s:
        """So many workers on these machines, the same number on each, with their part of the servers."""
        cells, gamma = np.empty((len(hosts), 4), np.int32), self.run.arrays[j].per_server
        each = width // len(hosts)
        for k, host in enumerate(np.sort(hosts)):
            servers = servers_for((k + 1) * each, gamma) - servers_for(k * each, gamma)
            cells[k] = self.run.now, host, each, servers
        return cells

    def finished(self, job: int) -> None:
        self.due.pop(job, None)
        self.plan.pop(job, None)

    def unfinished(self, job: int) -> None:
        """Nothing: it has its share again, or not, when the next slot is planned."""


@kernel
def highest(free: int, top: int, block: Ints) -> int:
    """The highest level up to `top` that fits; -1: none."""
    while top >= 0 and block[top] > free:
        top -= 1
    return top


@kernel
def minimum_share(free: Ints, slots: int, need: float, levels: int, block: Ints, rate: Floats, out: Ints) -> int:
    """Write the minimum satisfactory share, parts by slot, and return its sum; -1 if not even the highest level does it.

    The lowest level that suffices, as late as possible; before that the level below it, until the work is done.
    """
    for q in range(levels):
        done, first = 0.0, slots
        while first > 0 and done < need:
            first -= 1
            level = highest(free[first], q, block)
            done += rate[level] if level >= 0 else 0.0
        if done < need:
            continue
        done, area = 0.0, 0
        for t in range(slots):
            level = highest(free[t], q if t >= first else q - 1, block) if done < need else -1
            out[t] = block[level] if level >= 0 else 0
            done += rate[level] if level >= 0 else 0.0
            area += out[t]
        return area
    return -1


@kernel
def in_order(
    free: Ints,
    jobs: Ints,
    slots: Ints,
    need: Floats,
    levels: Ints,
    block: Ints,
    rate: Floats,
    strict: bool,
    plan: Ints,
) -> bool:
    """Give each job in turn its minimum share of what is free; whether all find theirs.

    One that can have none, for it is late or nobody is promised anything (not `strict`), has the most that is free.
    """
    for i in range(jobs.shape[0]):
        j, row = jobs[i], plan[i]
        if need[i] >= LONGEST or minimum_share(free, slots[i], need[i], levels[j], block[j], rate[j], row) < 0:
            if strict and need[i] < LONGEST:
                return False
            for t in range(slots[i]):
                level = highest(free[t], levels[j] - 1, block[j])
                row[t] = block[j, level] if level >= 0 else 0
        for t in range(slots[i]):
            free[t] -= row[t]
    return True


@kernel
def widen(free: int, now: Ints, jobs: Ints, need: Floats, levels: Ints, block: Ints, rate: Floats) -> None:
    """Give what is free in this slot a level at a time: to those who have nothing now; then where it costs least.

    The cost, for each part added, is the part-slots that the job then takes more in all, at its speed per part so far.
    """
    count = jobs.shape[0]
    cost = np.empty(count)
    for i in range(count):
        cost[i] = _extra(need[i], now[i], levels[jobs[i]], block[jobs[i]], rate[jobs[i]])
    while free > 0:
        best, most = -1, 0
        for i in range(count):
            j = jobs[i]
            above = highest(now[i], levels[j] - 1, block[j]) + 1
            if cost[i] < LONGEST and block[j, above] - now[i] <= free:
                if best < 0 or (now[i] > 0, cost[i]) < (now[best] > 0, cost[best]):
                    best, most = i, block[j, above]
        if best < 0:
            return
        j = jobs[best]
        free -= most - now[best]
        now[best] = most
        cost[best] = _extra(need[best], most, levels[j], block[j], rate[j])


@kernel
def _extra(need: float, now: int, levels: int, block: Ints, rate: Floats) -> float:
    """What a level more now costs; LONGEST if there is none, or the job is done in this slot without it."""
    level = highest(now, levels - 1, block) if now > 0 else -1
    if level + 1 >= levels or (level >= 0 and rate[level] >= need):
        return LONGEST
    if level < 0:
        return 0.0
    return 1.0 - (rate[level + 1] - rate[level]) * block[level] / rate[level] / (block[level + 1] - block[level])
