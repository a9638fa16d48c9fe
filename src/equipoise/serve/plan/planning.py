"""What would be best for a job: promised cells if they pay, else idle machines, else why not. Decisions become events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from equipoise.place.cluster import Cluster
from equipoise.place.execution import (
    ADMITTED,
    BEYOND_HORIZON,
    INFEASIBLE_ALONE,
    LENT,
    NO_CAPACITY,
    PENDING,
    PRICED_OUT,
    REFUSED,
    carry_out,
)
from equipoise.place.job import worth, worth_over
from equipoise.place.planner import NO_CELLS, Plan
from equipoise.place.planner.job_arrays import JobArrays
from equipoise.place.planner.packing import MACHINE, ROUNDING, SLOT
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.events import Body, Event
from equipoise.serve.plan.machines import Int32s, Ints, held_by
from equipoise.serve.plan.state import Held, State

JOBS = "jobs"
Quota = Mapping[str, int]
UNLIMITED = np.iinfo(np.int64).max // 4


def limits(quota: Quota, cluster: Cluster) -> Ints:
    """[r] milli-units in the cluster's order."""
    return np.array([quota.get(r, UNLIMITED) for r in cluster.resources], np.int64)


def limited(quota: Quota) -> bool:
    return any(name != JOBS for name in quota)


def use_by_slot(held: Iterable[tuple[JobArrays, Int32s]], first: int, count: int, resources: int) -> Ints:
    """[slot, r] milli-units that jobs hold in slots first..first+count-1."""
    out = np.zeros((count, resources), np.int64)
    for shape, cells in held:
        ahead = cells[(cells[:, SLOT] >= first) & (cells[:, SLOT] < first + count)]
        np.add.at(out, ahead[:, SLOT] - first, held_by(shape, ahead))
    return out


def within(limit: Ints, used: Ints, first: int, shape: JobArrays, cells: Int32s) -> bool:
    """Whether cells keep the tenant within its limit in every slot."""
    more = use_by_slot([(shape, cells)], first, len(used), len(limit))
    return bool((used + more <= limit).all())


def widest(limit: Ints, used: Ints, shape: JobArrays) -> int:
    """The most workers (with servers) that fit the quota in every slot, whatever the slots chosen."""
    free = (limit - used).min(axis=0) if len(used) else limit
    per = shape.worker + (-(-shape.server // shape.per_server) if shape.per_server else 0)
    asked = per > 0
    if (free[asked] < per[asked]).any():
        return 0
    most = int((free[asked] // per[asked]).min())
    while most > 0 and shape.per_server:
        need = most * shape.worker + -(-most // shape.per_server) * shape.server
        if (need <= free).all():
            break
        most -= 1
    return min(most, shape.widest)


def free_from(limit: Ints, used: Ints, shape: JobArrays, first: int) -> int:
    """The first slot from which on the quota holds a worker (with a server) in every slot."""
    short = ((used + shape.worker + shape.server) > limit).any(axis=1)
    return first + (int(np.flatnonzero(short)[-1]) + 1 if short.any() else 0)


def narrowed(shape: JobArrays, most: int) -> JobArrays:
    """The same job with at most so many workers at once."""
    return shape._replace(together=shape.together[:, : most + 1].copy(), apart=shape.apart[:, : most + 1].copy())


class Backfill:
    """Cells from the first slot on that are only lent: the job has no promise there, and gives way to one."""

    def __init__(self, scheduler: Planning) -> None:
        self.scheduler = scheduler

    def ahead(self) -> list[tuple[Held, Int32s]]:
        """Jobs without promise that have cells from the first slot on, and those cells."""
        waiting = self.scheduler.state.waiting.values()
        found = [(held, self.own(held)) for held in waiting if held.state == LENT and len(held.cells)]
        return [(held, cells) for held, cells in found if len(cells)]

    def own(self, held: Held) -> Int32s:
        """What a job has from the first slot on."""
        cells, first = held.cells, self.scheduler.first
        if not len(cells) or held.id not in self.scheduler.state.jobs:
            return NO_CELLS
        return cells if cells[0, SLOT] >= first else np.asarray(cells[cells[:, SLOT] >= first])

    @contextmanager
    def aside(self, held: Held) -> Iterator[None]:
        """The planner sees what is lent, and what the job itself has, as free."""
        ahead = [(one.shape, cells) for one, cells in self.ahead() if one.id != held.id]
        if len(own := self.own(held)):
            ahead.append((held.shape, own))
        with self.scheduler.state.machines.without(ahead):
            yield

    def in_the_way(self, held: Held, cells: Int32s) -> list[Held]:
        """Jobs that must give way so that a plan fits, the least dense first on every machine."""
        spots = {(t, h) for t, h in cells[:, (SLOT, MACHINE)].tolist()}
        near: dict[str, tuple[Held, Int32s]] = {}
        for one, mine in self.ahead():
            if one.id != held.id and any((t, h) in spots for t, h in mine[:, (SLOT, MACHINE)].tolist()):
                near[one.id] = one, mine
        if not near:
            return []
        machines, own, out = self.scheduler.state.machines, self.own(held), dict[str, Held]()
        order = [one.id for one in reversed(self.scheduler.by_density(one for one, _ in near.values()))]
        for (t, h, _, _), need in zip(cells.tolist(), held_by(held.shape, cells), strict=True):
            used = machines.used(t, h) - at_cell(held.shape, own, t, h)
            for id in out:
                used -= at_cell(near[id][0].shape, near[id][1], t, h)
            for id in order:
                if (used + need <= machines.capacity[h]).all():
                    break
                one, mine = near[id]
                if id not in out and (amount := at_cell(one.shape, mine, t, h)).any():
                    out[id] = one
                    used -= amount
        return list(out.values())


def at_cell(shape: JobArrays, cells: Int32s, slot: int, machine: int) -> Ints:
    """[r] milli-units that cells hold on one machine in one slot."""
    here = cells[(cells[:, SLOT] == slot) & (cells[:, MACHINE] == machine)]
    return np.asarray(held_by(shape, here).sum(axis=0))


OVER_QUOTA, OVER_JOBS, BEYOND_QUOTA = "over_quota", "over_jobs", "beyond_quota"
MACHINE_DOWN, LATE, OVERDUE, EXPIRED, TOO_LATE = "machine_down", "late", "overdue", "expired", "too_late"
EARLY, TOLD, UNREPORTED = "early", "told", "unreported"  # how a job ended, where the rate law did not say so
OVERTIME = 0.1  # of its stated work: what a job that should be done, and is not reported so, is thought to need yet
VIRTUAL, REAL = "virtual", "real"
MOST_SLOTS = 1e9
REPORTED = "reported"


@dataclass(frozen=True)
class Verdict:
    """What would be decided about a job."""

    state: str
    reason: str = ""
    worth: float = 0.0
    cost: float = 0.0
    cells: Int32s = field(default_factory=lambda: NO_CELLS)


class Conflict(Exception):
    """What was asked does not go with the state a thing is in."""


class NotFound(Exception):
    """There is no such job or machine."""


class Planning:
    """Commands on a state. Every change is recorded as an event, applied at once, and waits in `fresh` to be stored.

    A job is planned from the next slot that has not begun (`first`) within its horizon.
    """

    def __init__(
        self, state: State, time: Callable[[], float], quota: Callable[[str], Quota], *, finish: str = "assumed"
    ) -> None:
        self.state, self.time, self.quota, self.finish = state, time, quota, finish
        self.fresh: list[Event] = []
        self.backfill = Backfill(self)
        self._tries = 0

    def record(self, kind: str, held: Held | None = None, **data: object) -> None:
        state = self.state
        job, tenant = (held.id, held.tenant) if held is not None else ("", "")
        if held is not None:
            data["name"] = held.name
        event = Event(state.seq + 1, state.now, self.time(), kind, job, tenant, data)
        state.apply(event)
        self.fresh.append(event)

    def taken(self) -> list[Event]:
        """Events since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh

    # The slots.

    @property
    def first(self) -> int:
        """The first slot that has not begun: on a virtual clock this one."""
        return self.state.now + (self.state.clock == REAL)

    def deadline(self, job_arrival: int) -> int:
        state = self.state
        return min(job_arrival + state.horizon + (state.clock == REAL), state.now + state.machines.window)

    # What is best for a job.

    def consider(self, held: Held) -> Verdict:
        """A promise if one pays; else idle machines of the first slot; else why it waits or is refused."""
        why = self.hopeless(held)
        if why:
            return Verdict(REFUSED, why)
        allowed = self.quota(held.tenant)
        if JOBS in allowed and sum(one.tenant == held.tenant for one in self.state.jobs.values()) >= allowed[JOBS]:
            return Verdict(REFUSED, OVER_JOBS)
        if limited(allowed) and not self._quota_holds_one(held, allowed):
            return Verdict(REFUSED, BEYOND_QUOTA)
        reason, plan = self.best(held)
        if plan is not None:
            return Verdict(ADMITTED, "", plan.worth, plan.cost, plan.cells)
        cells = self.idle(held, self.first) if self.state.clock == VIRTUAL else NO_CELLS  # else when the slot begins
        return Verdict(LENT, reason, cells=cells) if len(cells) else Verdict(PENDING, reason)

    def hopeless(self, held: Held) -> str:
        """Why a job could not finish even alone on all machines; "" when it could."""
        speed = self.state.alone(held)
        if speed <= 0.0:
            return INFEASIBLE_ALONE
        slots = self.deadline(held.job.arrival) - self.first
        if held.left > slots * held.pace * speed * (1 + ROUNDING):
            return BEYOND_HORIZON
        job, alone = held.job, max(1, math.ceil(held.left / (held.pace * speed) * (1 - ROUNDING)))
        soonest = worth(job.utility.kind, *job.utility.parameters, float(self.first + alone - 1 - job.arrival))
        return "" if soonest > 0.0 else TOO_LATE

    def _quota_holds_one(self, held: Held, allowed: Quota) -> bool:
        """Whether a tenant that held nothing else could run one worker of the job."""
        limit = limits(allowed, self.state.cluster)
        return widest(limit, np.zeros((0, len(limit)), np.int64), held.shape) > 0

    def best(self, held: Held, *, above: float = 0.0) -> tuple[str, Plan | None]:
        """The best schedule from the first slot on that pays more than `above`, within the tenant's quota; else why none."""
        state, shape, job = self.state, held.shape, held.job
        start, end = self.first, self.deadline(job.arrival)
        left = held.left if held.left > ROUNDING * job.work else OVERTIME * job.work
        work = left / held.pace - self.underway(held)
        if end <= start or shape.widest == 0 or work <= 0.0:
            return NO_CAPACITY, None
        value = worth_over(job.utility.kind, *job.utility.parameters, start - job.arrival, end - start)

        def plan(shape: JobArrays, start: int = start) -> tuple[bool, Plan | None]:
            planner, worths = state.machines.planner, value[len(value) - (end - start) :]
            with self.backfill.aside(held):
                return planner.plan(shape, worths, work, start, end, floor=above, before=held.before(start))

        allowed = self.quota(held.tenant)
        if not limited(allowed):
            covered, found = plan(shape)
            return PRICED_OUT if covered else NO_CAPACITY, found
        limit = limits(allowed, state.cluster)
        used = self._used_by(held.tenant, start, end, but=held.id)
        most = widest(limit, np.zeros_like(used), shape)
        covered, found = plan(narrowed(shape, most)) if most else (False, None)
        if found is None or within(limit, used, start, shape, found.cells):
            return (OVER_QUOTA if not most else PRICED_OUT if covered else NO_CAPACITY), found
        for begin in (start, free_from(limit, used, shape, start)):  # narrower all along, or when others are done
            most = widest(limit, used[begin - start :], shape) if begin < end else 0
            found = plan(narrowed(shape, most), begin)[1] if most else None
            if found is not None:
                break
        return OVER_QUOTA, found

    def underway(self, held: Held) -> float:
        """Samples by the rate law that the slot that has begun will bring, on a real clock."""
        running = held.cells[held.cells[:, SLOT] < self.first] if len(held.cells) else NO_CELLS
        if not len(running):
            return 0.0
        before = held.last if len(held.last) and held.last[0, SLOT] == running[0, SLOT] - 1 else NO_CELLS
        both, missing = np.concatenate((before, running)), held.left / held.pace
        return missing - carry_out(both, len(before), held.shape, missing, 0.0)[1]

    def _used_by(self, tenant: str, start: int, end: int, *, but: str) -> Ints:
        theirs = ((h.shape, h.cells) for h in self.state.jobs.values() if h.tenant == tenant and h.id != but)
        return use_by_slot(theirs, start, end - start, len(self.state.cluster.resources))

    def idle(self, held: Held, slot: int) -> Int32s:
        """Cells of one slot at the width asked for, where idle machines and the quota hold it."""
        width = width_of(held)
        if not width:
            return NO_CELLS
        cells = self.state.machines.planner.pack_now(held.shape, width, slot, held.before(slot))
        allowed = self.quota(held.tenant)
        if len(cells) and limited(allowed):
            used = self._used_by(held.tenant, slot, slot + 1, but=held.id)
            if not within(limits(allowed, self.state.cluster), used, slot, held.shape, cells):
                return NO_CELLS
        return cells

    def decide(self, held: Held, verdict: Verdict) -> None:
        """Write a verdict down, with the cells it reserves; what runs in the slot that has begun goes on."""
        running = held.cells[held.cells[:, SLOT] < self.first] if len(held.cells) else NO_CELLS
        cells = np.concatenate((running, verdict.cells)) if len(running) else verdict.cells
        displaced = self.backfill.in_the_way(held, verdict.cells) if verdict.state == ADMITTED else []
        for other in displaced:
            self._decided(other, PENDING, other.reason, 0.0, 0.0, other.cells[other.cells[:, SLOT] < self.first])
        self._decided(held, verdict.state, verdict.reason, verdict.worth, verdict.cost, cells)
        for other in displaced:
            self._lend_to(other, self.first)

    def _decided(self, held: Held, state: str, reason: str, worth: float, cost: float, cells: Int32s | None) -> None:
        data: Body = {"state": state, "reason": reason, "worth": float(worth), "cost": float(cost)}
        if cells is not None and (len(cells) or len(held.cells)):
            data["cells"] = cells.tolist()
        self.record(kinds.DECIDED, held, **data)

    def _lend_to(self, held: Held, slot: int) -> bool:
        cells = self.idle(held, slot)
        if len(cells):
            self._decided(held, LENT, held.reason, 0.0, 0.0, cells)
        return len(cells) > 0

    def by_density(self, jobs: Iterable[Held]) -> list[Held]:
        """Those first that are worth most for the part of the cluster and the slots they still need."""
        return sorted(jobs, key=lambda held: (-self.density(held), held.n))

    def density(self, held: Held) -> float:
        """Worth per slot and share of the cluster, of finishing at the width asked for."""
        slot, done, pace, known = held.density
        if slot == self.first and done == held.done and pace == held.pace:
            return known
        found = self._density(held)
        held.density = self.first, held.done, held.pace, found
        return found

    def _density(self, held: Held) -> float:
        if held.speed < 0.0:
            self._measure(held)
        speed, left = held.pace * held.speed, held.left
        if not left < MOST_SLOTS * speed:  # hardly moves at that width, or does not fit
            return 0.0
        job, slots = held.job, max(1.0, math.ceil(left / speed))
        value = worth(job.utility.kind, *job.utility.parameters, self.first + slots - 1.0 - job.arrival)
        return float(value / slots / held.share)

    def _measure(self, held: Held) -> None:
        shape, width, total = held.shape, width_of(held), self.state.cluster.total
        need = shape.held(width)
        held.share = float(np.max(need[total > 0] / total[total > 0])) or 1.0
        held.speed = float(shape.together[:, width].max())


def width_of(held: Held) -> int:
    """The width a job asked for, as far as the cluster holds it."""
    return min(held.job.requested or held.shape.widest, held.shape.widest)
