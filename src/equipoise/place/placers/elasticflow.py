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
from equipoise.kernels import Floats, Ints, kernel
from equipoise.place import execution as says
from equipoise.place.execution import Execution
from equipoise.place.job import DEADLINE, LINEAR, SIGMOID
from equipoise.place.placers._slotwise import WAITING
from equipoise.place.planner.job_arrays import fits_together, servers_for
from equipoise.place.planner.packing import MACHINE, ROUNDING, WORKERS
from equipoise.place.prices._posted import History, clearing, history_of, replayed
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
    candidate: ClassVar[bool] = True  # to be recommended
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
        levels = [self._levels(j) for j in range(len(run.jobs))]
        self.workers = [{block: w for w, block, _ in rows} for rows in levels]
        self.count = np.array([len(rows) for rows in levels], dtype=np.int64)
        self.block = np.zeros((len(levels), max(self.count, default=0)), dtype=np.int64)
        self.rate = np.zeros(self.block.shape)
        for j, rows in enumerate(levels):
            self.block[j, : len(rows)], self.rate[j, : len(rows)] = [row[1] for row in rows], [row[2] for row in rows]
        self.due: dict[int, int] = {}  # of unfinished jobs that are here: the slot to finish by
        self.plan: dict[int, Ints] = {}  # parts of each job in slot `made` and those after
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
            block = self._block(j, w)
            rate = arrays.together[0, w] if block <= self.parts else arrays.apart[0, w]
            rate *= max(0.0, 1.0 - arrays.restart)  # whoever is packed anew may move in any slot
            if block <= self.total and rate > (found[-1][2] if found else 0.0):
                found = [*(level for level in found if level[1] < block), (w, block, float(rate))]
        return found if self.policy.scaling else found[-1:]

    def _block(self, j: int, w: int) -> int:
        """The parts that so many workers and their servers need: of one machine, else whole machines; always 2^k."""
        arrays, capacity = self.run.arrays[j], self.run.cluster.capacity[0]
        need = arrays.held(w)
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
        run, kind, (_, rate, when) = self.run, self.run.worth_kind[j], self.run.worth_parameters[j].tolist()
        last, slots = run.deadline(j) - 1, run.horizon
        if kind == LINEAR:
            slots = max(0, math.ceil(when) - 1)
        elif kind == DEADLINE or (kind == SIGMOID and rate > 0.0):
            slots = math.floor(when)
        return min(last, int(run.arrival[j]) + slots)

    def arrive(self, job: int) -> None:
        run, date, worth = self.run, self.date(job), self.run.jobs[job].utility
        why = run.hopeless(job) or ("" if self.count[job] else says.INFEASIBLE_ALONE)
        if not why and self.policy.admission:
            plan = self._planned({**self.due, job: date})
            cost = 0.0 if plan is None else self.theta * float(plan[job].sum())
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
        chosen = []
        for j, block in zip(jobs.tolist(), blocks.tolist(), strict=True):
            if block:
                width, was = self.workers[j][block], run.before(j)
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
    free: Ints, jobs: Ints, slots: Ints, need: Floats, levels: Ints, block: Ints, rate: Floats, strict: bool, plan: Ints
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
    while free > 0:
        best, least = -1, np.inf
        for i in range(jobs.shape[0]):
            j = jobs[i]
            level = highest(now[i], levels[j] - 1, block[j])
            if level + 1 == levels[j] or block[j, level + 1] - now[i] > free:
                continue
            cost = -LONGEST
            if level >= 0:
                if rate[j, level] >= need[i]:  # done in this slot without it
                    continue
                gain = (rate[j, level + 1] - rate[j, level]) / (block[j, level + 1] - block[j, level])
                cost = 1.0 - gain * block[j, level] / rate[j, level]
            if cost < least:
                best, least = i, cost
        if best < 0:
            return
        row = block[jobs[best]]
        more = row[highest(now[best], levels[jobs[best]] - 1, row) + 1]
        free -= more - now[best]
        now[best] = more
