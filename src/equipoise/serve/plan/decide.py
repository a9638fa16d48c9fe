"""Decisions: what is asked of the service, answered with events. Only here is anything planned.

A job is planned from the next slot that has not begun (`first`) within its horizon. Admitted jobs are promised their
cells; the others wait, are lent what is idle slot by slot, and are offered a promise again whenever room comes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.place import read
from equipoise.place.desk import (
    ADMITTED,
    BEYOND_HORIZON,
    INFEASIBLE_ALONE,
    LENT,
    NO_CAPACITY,
    PENDING,
    PRICED_OUT,
    REFUSED,
)  # fmt: skip
from equipoise.place.planner import NO_CELLS, Plan
from equipoise.place.planner.seat import MACHINE, ROUNDING, SLOT
from equipoise.place.planner.shape import Shape, servers_for, shape_of
from equipoise.place.utility import worth, worth_over
from equipoise.serve import event as kinds
from equipoise.serve.event import Event
from equipoise.serve.plan import quota as quotas
from equipoise.serve.plan.floor import DOWN, DRAINING, UP, Floor, Int32s
from equipoise.serve.plan.quota import JOBS, Quota
from equipoise.serve.plan.state import FORMAT, Held, State
from equipoise.serve.plan.submission import job_of, name_of

OVER_QUOTA, MACHINE_DOWN, LATE, EXPIRED = "over_quota", "machine_down", "late", "expired"
RETRIES = 16  # waiting jobs offered a promise whenever room comes back
OVERTIME = 0.1  # of its stated work: what a job that should be done, and is not reported so, is thought to need yet
SLOWEST = 0.01  # of the rate law: a pace below this is not believed
VIRTUAL, REAL = "virtual", "real"
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


class Scheduler:
    """Commands on a state. Every change is recorded as an event, applied at once, and waits in `fresh` to be stored."""

    def __init__(
        self, state: State, time: Callable[[], float], quota: Callable[[str], Quota], *, finish: str = "assumed"
    ) -> None:
        self.state, self.time, self.quota, self.finish = state, time, quota, finish
        self.fresh: list[Event] = []

    def record(self, kind: str, held: Held | None = None, **data: Any) -> None:
        state = self.state
        job, tenant = (held.id, held.tenant) if held is not None else ("", "")
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

    # A submission.

    def submit(self, body: Mapping[str, Any], tenant: str) -> Held:
        """Store a job and decide about it."""
        state = self.state
        id = f"j{state.count + 1}"
        job = job_of(body, state.cluster, id=id, slot=state.slot_seconds, horizon=state.horizon, now=state.now)
        shape = shape_of(job, state.cluster)
        name = name_of(body)
        data = {"name": name, "job": read.plain_job(job)}
        verdict = self.consider(Held(state.count + 1, id, name, tenant, job, shape, 0.0))
        event = Event(state.seq + 1, state.now, self.time(), kinds.SUBMITTED, id, tenant, data)
        state.submit(event, job, shape)
        self.fresh.append(event)
        held = state.jobs[id]
        self.decide(held, verdict)
        return held

    def imagine(self, body: Mapping[str, Any], tenant: str) -> tuple[Held, Verdict]:
        """What `submit` would decide now; nothing changes."""
        state = self.state
        job = job_of(body, state.cluster, id="new", slot=state.slot_seconds, horizon=state.horizon, now=state.now)
        held = Held(0, "", name_of(body), tenant, job, shape_of(job, state.cluster), self.time())
        verdict = self.consider(held)
        held.state, held.reason, held.worth, held.cost = verdict.state, verdict.reason, verdict.worth, verdict.cost
        held.cells, held.decided = verdict.cells, state.now
        return held, verdict

    def consider(self, held: Held) -> Verdict:
        """A promise if one pays; else idle machines of the first slot; else why it waits or is refused."""
        why = self.hopeless(held)
        if why:
            return Verdict(REFUSED, why)
        allowed = self.quota(held.tenant)
        if JOBS in allowed and sum(one.tenant == held.tenant for one in self.state.jobs.values()) >= allowed[JOBS]:
            return Verdict(REFUSED, OVER_QUOTA)
        reason, plan = self.best(held)
        if plan is not None:
            return Verdict(ADMITTED, "", plan.worth, plan.cost, plan.cells)
        cells = self.idle(held, self.first)
        return Verdict(LENT, reason, cells=cells) if len(cells) else Verdict(PENDING, reason)

    def hopeless(self, held: Held) -> str:
        """Why a job could not finish even alone on all machines; "" when it could."""
        speed = self.state.alone(held.shape)
        if speed <= 0.0:
            return INFEASIBLE_ALONE
        slots = self.deadline(held.job.arrival) - self.first
        return BEYOND_HORIZON if held.left > slots * speed * (1 + ROUNDING) else ""

    def best(self, held: Held, *, floor: float = 0.0) -> tuple[str, Plan | None]:
        """The best schedule from the first slot on that pays more than `floor`, within the tenant's quota; else why none."""
        state, shape, job = self.state, held.shape, held.job
        start, end = self.first, self.deadline(job.arrival)
        work = held.left if held.left > ROUNDING * job.work else OVERTIME * job.work
        if end <= start or shape.widest == 0:
            return NO_CAPACITY, None
        value = worth_over(job.utility.kind, *job.utility.parameters, start - job.arrival, end - start)

        def plan(shape: Shape) -> tuple[bool, Plan | None]:
            planner = state.floor.planner
            return planner.plan(shape, value, work / held.pace, start, end, floor=floor, before=held.before(start))

        allowed = self.quota(held.tenant)
        if not quotas.limited(allowed):
            covered, found = plan(shape)
            return PRICED_OUT if covered else NO_CAPACITY, found
        limit = quotas.limits(allowed, state.cluster)
        used = self._used_by(held.tenant, start, end, but=held.id)
        most = quotas.widest(limit, np.zeros_like(used), shape)
        covered, found = plan(quotas.narrowed(shape, most)) if most else (False, None)
        if found is not None and not quotas.within(limit, used, start, shape, found.cells):
            most, found = quotas.widest(limit, used, shape), None
            covered, found = plan(quotas.narrowed(shape, most)) if most else (False, None)
            return OVER_QUOTA, found
        return (OVER_QUOTA if not most else PRICED_OUT if covered else NO_CAPACITY), found

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
        self._decided(held, verdict.state, verdict.reason, verdict.worth, verdict.cost, cells)

    def _decided(self, held: Held, state: str, reason: str, worth: float, cost: float, cells: Int32s | None) -> None:
        data: dict[str, Any] = {"state": state, "reason": reason, "worth": float(worth), "cost": float(cost)}
        if cells is not None and (len(cells) or len(held.cells)):
            data["cells"] = cells.tolist()
        self.record(kinds.DECIDED, held, **data)

    # The clock.

    def tick(self, slot: int) -> None:
        """Slots pass, one by one: what was planned counts as done, and idle machines of the new slot are lent."""
        state = self.state
        if slot <= state.now:
            raise Conflict(f"it is slot {state.now} already; time does not go back to slot {slot}")
        while state.now < slot:
            self.record(kinds.TICK, slot=state.now + 1)
            self._end_of_slot()
        self._expire()
        self._offer(self._waiting(), RETRIES)
        self._lend()

    def _end_of_slot(self) -> None:
        """Jobs whose work is done finish; promised ones whose cells ran out are planned on."""
        for held in list(self.state.jobs.values()):
            if held.complete and self.finish != REPORTED:
                self.record(kinds.FINISHED, held, slot=self.state.now - 1, reason="", first=self.state.now)
            elif held.state == ADMITTED and not len(held.cells):
                self._overdue(held)

    def _overdue(self, held: Held) -> None:
        reason, plan = self.best(held, floor=-math.inf)
        if plan is not None:
            self._decided(held, ADMITTED, LATE, plan.worth, plan.cost, plan.cells)
        else:
            self._decided(held, PENDING, reason, 0.0, 0.0, NO_CELLS)

    def _expire(self) -> None:
        """Waiting jobs that can no longer finish within their horizon."""
        for held in self._waiting():
            slots = self.deadline(held.job.arrival) - self.first
            if held.left > max(0, slots) * held.pace * self.state.alone(held.shape) * (1 + ROUNDING):
                self._decided(held, REFUSED, EXPIRED, 0.0, 0.0, NO_CELLS)

    def _waiting(self) -> list[Held]:
        return [held for held in self.state.jobs.values() if held.state != ADMITTED]

    def _offer(self, waiting: Iterable[Held], most: int) -> None:
        """A promise to the densest of those who wait, if one pays by now; begun ones first."""
        order = self.by_density(waiting)
        order.sort(key=lambda held: held.done == 0.0)
        for held in order[:most]:
            plan = self.best(held)[1]
            if plan is not None:
                self.decide(held, Verdict(ADMITTED, "", plan.worth, plan.cost, plan.cells))

    def _lend(self) -> None:
        """Idle machines of this slot to those who wait, the densest first; without promise."""
        now, floor = self.state.now, self.state.floor
        room = floor.planner.roomiest(now)
        for held in self.by_density(self._waiting()):
            if (held.shape.worker > room).any() or (len(held.cells) and held.cells[0, SLOT] <= now):
                continue
            cells = self.idle(held, now)
            if len(cells):
                self._decided(held, LENT, held.reason, 0.0, 0.0, cells)
                room = floor.planner.roomiest(now)

    def by_density(self, jobs: Iterable[Held]) -> list[Held]:
        """Those first that are worth most for the part of the cluster and the slots they still need."""
        return sorted(jobs, key=lambda held: (-self.density(held), held.n))

    def density(self, held: Held) -> float:
        state, job, width = self.state, held.job, width_of(held)
        if not width:
            return 0.0
        shape = held.shape
        slots = max(1.0, math.ceil(held.left / held.pace / float(shape.together[width])))
        need = width * shape.worker + servers_for(width, shape.per_server) * shape.server
        total = state.cluster.total
        share = float(np.max(need[total > 0] / total[total > 0])) or 1.0
        value = worth(job.utility.kind, *job.utility.parameters, self.first + slots - 1.0 - job.arrival)
        return float(value / slots / share)

    # What users report.

    def job(self, id: str) -> Held:
        if id not in self.state.jobs:
            raise NotFound(f"no job {id[:80]!r} is running or waiting")
        return self.state.jobs[id]

    def cancel(self, id: str) -> Held:
        held = self.job(id)
        self.record(kinds.CANCELLED, held, first=self.first)
        self.room_again()
        return held

    def finished(self, id: str) -> Held:
        """A job is done, early or late."""
        held = self.job(id)
        reason = "early" if held.left > ROUNDING * held.job.work else ""
        self.record(kinds.FINISHED, held, slot=self.state.now, reason=reason, first=self.first)
        self.room_again()
        return held

    def progress(self, id: str, done: float, elapsed: float) -> Held:
        """So many samples are done, `elapsed` (0 to 1) of this slot in. A late promise is re-planned at its pace."""
        held = self.job(id)
        if not 0.0 <= done <= held.job.work:
            raise InputError(f"done is {done:g}; expected samples from 0 to the job's {held.job.work:g}")
        part = self._gain_now(held) * elapsed
        nominal, gained = held.since + part, done - max(held.reported, 0.0)
        pace = max(SLOWEST, gained / nominal) if nominal > 0.0 and gained >= 0.0 else held.pace
        at_start = min(max(0.0, done - part * pace), held.job.work)
        self.record(kinds.PROGRESS, held, done=float(at_start), pace=float(pace), reported=float(done))
        if held.state == ADMITTED and not self._on_time(held):
            plan = self.best(held, floor=-math.inf)[1]
            if plan is not None:
                self.decide(held, Verdict(ADMITTED, LATE, plan.worth, plan.cost, plan.cells))
            else:
                self._decided(held, ADMITTED, LATE, held.worth, held.cost, None)
        return held

    def _gain_now(self, held: Held) -> float:
        """Samples by the rate law in this slot."""
        here = held.cells[held.cells[:, SLOT] == self.state.now] if len(held.cells) else NO_CELLS
        if not len(here):
            return 0.0
        width = int(here[:, 2].sum())
        return float(held.shape.together[width] if len(here) == 1 else held.shape.apart[width])

    def _on_time(self, held: Held) -> bool:
        from equipoise.place.desk import carry_out

        left, enough = held.left / held.pace, ROUNDING * held.job.work / held.pace
        if left <= enough:
            return True
        return bool(len(held.cells) and carry_out(held.cells, 0, held.shape, left, enough)[0] >= 0)

    def room_again(self) -> None:
        """Room came back: those who wait are asked again."""
        self._offer(self._waiting(), RETRIES)

    # Machines and prices.

    def add_machines(self, values: Mapping[str, Any]) -> list[str]:
        machine = read.machine_from(dict(values))
        names = list(self.state.floor.grown(machine).names[self.state.cluster.size :])
        self.record(kinds.MACHINE, status="added", machine=read.plain_machine(machine), names=names)
        self.room_again()
        return names

    def set_machine(self, name: str, status: str) -> tuple[list[str], list[tuple[str, str]]]:
        """Drain, down or up. Returns jobs that were planned anew, and those that found no room with the reason."""
        state = self.state
        if name not in state.floor.index:
            raise NotFound(f"no machine {name[:80]!r}")
        h = state.floor.index[name]
        if state.floor.status[h] == status:
            return [], []
        self.record(kinds.MACHINE, status=status, name=name)
        if status == UP:
            self.room_again()
        return self._displace(h, name) if status == DOWN else ([], [])

    def _displace(self, h: int, name: str) -> tuple[list[str], list[tuple[str, str]]]:
        """Jobs on a machine that failed lose their cells and are planned again, by density, from what they reported."""
        hit = [held for held in self.state.jobs.values() if (held.cells[:, MACHINE] == h).any()]
        kept, lost = [], []
        promised = {held.id for held in hit if held.state == ADMITTED}
        for held in hit:
            self._fall_back(held)
            self._decided(held, PENDING, MACHINE_DOWN, 0.0, 0.0, NO_CELLS)
        for held in self.by_density(hit):
            reason, plan = self.best(held, floor=-math.inf if held.id in promised else 0.0)
            if plan is not None:
                self.decide(held, Verdict(ADMITTED, MACHINE_DOWN, plan.worth, plan.cost, plan.cells))
                kept.append(held.id)
            else:
                self._decided(held, PENDING, reason, 0.0, 0.0, None)
                lost.append((held.id, reason))
        return kept, lost

    def _fall_back(self, held: Held) -> None:
        """What was not reported was not saved; a job that never reports is taken to save at the end of every slot."""
        if held.reported >= 0.0 or self.finish == REPORTED:
            saved = max(held.reported, 0.0)
            if saved != held.done:
                self.record(kinds.PROGRESS, held, done=saved, pace=held.pace, reported=saved)

    def set_prices(self, base: Mapping[str, float], ratio: float) -> None:
        """Utility per unit and slot on an empty machine, and a full machine's price over that."""
        rows = price_rows(base, ratio, self.state.cluster.resources)
        self.record(kinds.PRICES, base=rows[0], growth=rows[1])
        self.room_again()


def price_rows(base: Mapping[str, float], ratio: float, resources: tuple[str, ...]) -> tuple[list[float], list[float]]:
    """Prices by milli-unit, and ln of the ratio, in the cluster's order; checked."""
    from equipoise.place.prices import Fixed

    Fixed(base, ratio)
    for name in base:
        if name not in resources:
            raise InputError(f"prices: unknown resource {name[:40]!r}; this cluster has {', '.join(resources)}")
    return [float(base.get(r, 0.0)) / 1000.0 for r in resources], [math.log(ratio)] * len(resources)


def width_of(held: Held) -> int:
    """The width a job asked for, as far as the cluster holds it."""
    return min(held.job.requested or held.shape.widest, held.shape.widest)


def opening(
    floor: Floor, *, slot_seconds: float, horizon: int, start: float, clock: str, now: int = 0
) -> dict[str, Any]:
    """The data of the first event."""
    return {
        "format": FORMAT, "slot_seconds": float(slot_seconds), "horizon": horizon, "start": float(start),
        "clock": clock, "floor": floor.plain(),
    }  # fmt: skip


__all__ = ["DRAINING", "Conflict", "NotFound", "Scheduler", "Verdict", "opening"]
