"""What would be best for a job: promised cells if they pay, else idle machines, else why not. Decisions become events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.place.desk import (
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
from equipoise.place.planner import NO_CELLS, Plan
from equipoise.place.planner.seat import ROUNDING, SLOT
from equipoise.place.planner.shape import Shape, servers_for
from equipoise.place.utility import worth, worth_over
from equipoise.serve import event as kinds
from equipoise.serve.event import Event
from equipoise.serve.plan import quota as quotas
from equipoise.serve.plan.floor import Int32s
from equipoise.serve.plan.lent import Lent
from equipoise.serve.plan.quota import JOBS, Quota
from equipoise.serve.plan.state import Held, State

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
        self.lent = Lent(self)
        self._tries = 0

    def record(self, kind: str, held: Held | None = None, **data: Any) -> None:
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
        return min(job_arrival + state.horizon + (state.clock == REAL), state.now + state.floor.window)

    # What is best for a job.

    def consider(self, held: Held) -> Verdict:
        """A promise if one pays; else idle machines of the first slot; else why it waits or is refused."""
        why = self.hopeless(held)
        if why:
            return Verdict(REFUSED, why)
        allowed = self.quota(held.tenant)
        if JOBS in allowed and sum(one.tenant == held.tenant for one in self.state.jobs.values()) >= allowed[JOBS]:
            return Verdict(REFUSED, OVER_JOBS)
        if quotas.limited(allowed) and not self._quota_holds_one(held, allowed):
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
        limit = quotas.limits(allowed, self.state.cluster)
        return quotas.widest(limit, np.zeros((0, len(limit)), np.int64), held.shape) > 0

    def best(self, held: Held, *, floor: float = 0.0) -> tuple[str, Plan | None]:
        """The best schedule from the first slot on that pays more than `floor`, within the tenant's quota; else why none."""
        state, shape, job = self.state, held.shape, held.job
        start, end = self.first, self.deadline(job.arrival)
        left = held.left if held.left > ROUNDING * job.work else OVERTIME * job.work
        work = left / held.pace - self.underway(held)
        if end <= start or shape.widest == 0 or work <= 0.0:
            return NO_CAPACITY, None
        value = worth_over(job.utility.kind, *job.utility.parameters, start - job.arrival, end - start)

        def plan(shape: Shape, start: int = start) -> tuple[bool, Plan | None]:
            planner, worths = state.floor.planner, value[len(value) - (end - start) :]
            with self.lent.aside(held):
                return planner.plan(shape, worths, work, start, end, floor=floor, before=held.before(start))

        allowed = self.quota(held.tenant)
        if not quotas.limited(allowed):
            covered, found = plan(shape)
            return PRICED_OUT if covered else NO_CAPACITY, found
        limit = quotas.limits(allowed, state.cluster)
        used = self._used_by(held.tenant, start, end, but=held.id)
        most = quotas.widest(limit, np.zeros_like(used), shape)
        covered, found = plan(quotas.narrowed(shape, most)) if most else (False, None)
        if found is None or quotas.within(limit, used, start, shape, found.cells):
            return (OVER_QUOTA if not most else PRICED_OUT if covered else NO_CAPACITY), found
        for begin in (
            start,
            quotas.free_from(limit, used, shape, start),
        ):  # narrower all along, or when others are done
            most = quotas.widest(limit, used[begin - start :], shape) if begin < end else 0
            found = plan(quotas.narrowed(shape, most), begin)[1] if most else None
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

    def _used_by(self, tenant: str, start: int, end: int, *, but: str) -> Any:
        theirs = ((h.shape, h.cells) for h in self.state.jobs.values() if h.tenant == tenant and h.id != but)
        return quotas.use_by_slot(theirs, start, end - start, len(self.state.cluster.resources))

    def idle(self, held: Held, slot: int) -> Int32s:
        """Cells of one slot at the width asked for, where idle machines and the quota hold it."""
        width = width_of(held)
        if not width:
            return NO_CELLS
        cells = self.state.floor.planner.seat_now(held.shape, width, slot, held.before(slot))
        allowed = self.quota(held.tenant)
        if len(cells) and quotas.limited(allowed):
            used = self._used_by(held.tenant, slot, slot + 1, but=held.id)
            if not quotas.within(quotas.limits(allowed, self.state.cluster), used, slot, held.shape, cells):
                return NO_CELLS
        return cells

    def decide(self, held: Held, verdict: Verdict) -> None:
        """Write a verdict down, with the cells it reserves; what runs in the slot that has begun goes on."""
        running = held.cells[held.cells[:, SLOT] < self.first] if len(held.cells) else NO_CELLS
        cells = np.concatenate((running, verdict.cells)) if len(running) else verdict.cells
        displaced = self.lent.in_the_way(held, verdict.cells) if verdict.state == ADMITTED else []
        for other in displaced:
            self._decided(other, PENDING, other.reason, 0.0, 0.0, other.cells[other.cells[:, SLOT] < self.first])
        self._decided(held, verdict.state, verdict.reason, verdict.worth, verdict.cost, cells)
        for other in displaced:
            self._lend_to(other, self.first)

    def _decided(self, held: Held, state: str, reason: str, worth: float, cost: float, cells: Int32s | None) -> None:
        data: dict[str, Any] = {"state": state, "reason": reason, "worth": float(worth), "cost": float(cost)}
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
        need = width * shape.worker + servers_for(width, shape.per_server) * shape.server
        held.share = float(np.max(need[total > 0] / total[total > 0])) or 1.0
        held.speed = float(shape.together[width])


def width_of(held: Held) -> int:
    """The width a job asked for, as far as the cluster holds it."""
    return min(held.job.requested or held.shape.widest, held.shape.widest)
