"""What is asked of the service, answered with events: jobs, reports, machines, prices. Only here is anything decided.

Admitted jobs are promised their cells; the others wait, are lent what is idle slot by slot, and are offered a promise
again whenever room comes back.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from equipoise.errors import InputError
from equipoise.place.execution import ADMITTED, PENDING, REFUSED, carry_out
from equipoise.place.job_spec import JobSpec, machine_from, plain_job, plain_machine
from equipoise.place.planner import NO_CELLS
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.planner.packing import MACHINE, ROUNDING, SLOT, works
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.events import Body, Event
from equipoise.serve.plan.machines import DOWN, UP, Machines
from equipoise.serve.plan.planning import (
    EARLY,
    EXPIRED,
    LATE,
    MACHINE_DOWN,
    OVERDUE,
    REPORTED,
    TOLD,
    UNREPORTED,
    VIRTUAL,
    Conflict,
    NotFound,
    Planning,
    Verdict,
)
from equipoise.serve.plan.state import FORMAT, Held

Wanted = Mapping[str, object] | JobSpec  # a job as it is asked for
SLOWEST, FASTEST = 0.01, 4.0  # of the rate law: a pace below is not believed; above, it is a jump and no pace
RETRIES = 16  # waiting jobs offered a promise whenever room comes back
LEAST = 0.1  # of a slot: over less than this no pace is measured; over less than a slot it counts in part
__all__ = ["Conflict", "NotFound", "Scheduler", "Verdict", "opening", "price_rows"]


class Scheduler(Planning):
    """All that can be asked."""

    def submit(self, body: Wanted, tenant: str) -> Held:
        """Store a job and decide about it."""
        state = self.state
        id = f"j{state.count + 1}"
        spec = body if isinstance(body, JobSpec) else JobSpec.of(body)
        job = spec.build(state.cluster, id=id, slot=state.slot_seconds, now=state.now, horizon=state.horizon)
        shape = arrays_of(job, state.cluster)
        name = spec.name or ""
        data = {"name": name, "job": plain_job(job)}
        verdict = self.consider(Held(state.count + 1, id, name, tenant, job, shape, 0.0))
        event = Event(state.seq + 1, state.now, self.time(), kinds.SUBMITTED, id, tenant, data)
        state.submit(event, job, shape)
        self.fresh.append(event)
        held = state.jobs[id]
        self.decide(held, verdict)
        return held

    def imagine(self, body: Wanted, tenant: str) -> tuple[Held, Verdict]:
        """What `submit` would decide now; nothing changes."""
        state = self.state
        spec = body if isinstance(body, JobSpec) else JobSpec.of(body)
        job = spec.build(state.cluster, id="new", slot=state.slot_seconds, now=state.now, horizon=state.horizon)
        held = Held(0, "", spec.name or "", tenant, job, arrays_of(job, state.cluster), self.time())
        verdict = self.consider(held)
        held.state, held.reason, held.worth, held.cost = verdict.state, verdict.reason, verdict.worth, verdict.cost
        held.cells, held.decided = verdict.cells, state.now
        return held, verdict

    # What users report.

    def job(self, id: str) -> Held:
        if id not in self.state.jobs:
            raise NotFound(f"no job {id[:80]!r} is running or waiting")
        return self.state.jobs[id]

    def cancel(self, id: str) -> Held:
        held = self.job(id)
        had = len(held.cells) > 0
        self.record(kinds.CANCELLED, held, first=self.first)
        if had:
            self.room_again()
        return held

    def finished(self, id: str) -> Held:
        """A job is done, early or late."""
        held = self.job(id)
        had = len(held.cells) > 0
        reason = LATE if held.reason in (LATE, OVERDUE) else TOLD if held.complete else EARLY
        self.record(kinds.FINISHED, held, slot=self.state.now, reason=reason, first=self.first)
        if had:
            self.room_again()
        return held

    def progress(self, id: str, done: float, elapsed: float) -> Held:
        """So many samples are done, `elapsed` (0 to 1) of this slot in. A late promise is re-planned at its pace."""
        held = self.job(id)
        if not 0.0 <= done <= held.job.work:
            raise InputError(f"done is {done:g}; expected samples from 0 to the job's {held.job.work:g}")
        gain = self._gain_now(held)
        part = gain * elapsed
        pace, mark, since = self._measured(held, done, part, gain)
        at_start = min(max(0.0, done - part * pace), held.job.work)
        told = {"done": at_start, "pace": pace, "reported": done, "mark": mark, "since": since}
        self.record(kinds.PROGRESS, held, **{name: float(value) for name, value in told.items()})
        if held.state == ADMITTED and not self._on_time(held):
            plan = self.best(held, above=-math.inf)[1]
            if plan is not None:
                self.decide(held, Verdict(ADMITTED, LATE, plan.worth, plan.cost, plan.cells))
            else:
                self._decided(held, ADMITTED, LATE, held.worth, held.cost, None)
        return held

    def _measured(self, held: Held, done: float, part: float, gain: float) -> tuple[float, float, float]:
        """Its pace, and from where the next is measured: samples, and the rate law's since, up to this slot's beginning."""
        gained, nominal = done - held.mark, held.since + part
        if gained < 0.0 or gained > FASTEST * nominal:  # it fell back, or came with work done elsewhere
            return held.pace, done, -part
        if nominal <= LEAST * gain:
            return held.pace, held.mark, held.since
        weight = min(1.0, nominal / gain) if gain > 0.0 else 1.0
        return max(SLOWEST, held.pace + weight * (gained / nominal - held.pace)), done, -part

    def _gain_now(self, held: Held) -> float:
        """Samples by the rate law in this slot."""
        here = held.cells[held.cells[:, SLOT] == self.state.now] if len(held.cells) else NO_CELLS
        return works(here, 0, len(here), held.shape)

    def _on_time(self, held: Held) -> bool:
        left, enough = held.left / held.pace, ROUNDING * held.job.work / held.pace
        if left <= enough:
            return True
        return bool(len(held.cells) and carry_out(held.cells, 0, held.shape, left, enough)[0] >= 0)

    # Machines and prices.

    def add_machines(self, values: Mapping[str, object]) -> list[str]:
        machine = machine_from(dict(values))
        names = list(self.state.machines.grown(machine).names[self.state.cluster.size :])
        self.record(kinds.MACHINE, status="added", machine=plain_machine(machine), names=names)
        self.room_again()
        return names

    def set_machine(self, name: str, status: str) -> tuple[list[str], list[tuple[str, str]]]:
        """Drain, down or up. Returns jobs that were planned anew, and those that found no room with the reason."""
        state = self.state
        if name not in state.machines.index:
            raise NotFound(f"no machine {name[:80]!r}")
        h = state.machines.index[name]
        if state.machines.status[h] == status:
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
            reason, plan = self.best(held, above=-math.inf if held.id in promised else 0.0)
            if plan is not None:
                self.decide(held, Verdict(ADMITTED, MACHINE_DOWN, plan.worth, plan.cost, plan.cells))
                kept.append(held.id)
            else:
                self._decided(held, PENDING, reason, 0.0, 0.0, None)
                lost.append((held.id, reason))
        if lost:  # what they had on other machines is free
            self.room_again()
        return kept, [(id, why) for id, why in lost if id in self.state.waiting]

    def _fall_back(self, held: Held) -> None:
        """What was not reported was not saved; a job that never reports is taken to save at the end of every slot."""
        if held.reported >= 0.0 or self.finish == REPORTED:
            saved = max(held.reported, 0.0)
            if saved != held.done or held.since != 0.0:
                told = {"done": saved, "pace": held.pace, "reported": saved, "mark": saved, "since": 0.0}
                self.record(kinds.PROGRESS, held, **told)

    def set_prices(self, base: Mapping[str, float], ratio: float) -> None:
        """Utility per unit and slot on an empty machine, and a full machine's price over that."""
        rows = price_rows(base, ratio, self.state.cluster.resources)
        self.record(kinds.PRICES, base=rows[0], growth=rows[1])
        self.room_again()

    # The clock: in a slot that passed the plan counts as done; waiting jobs are considered again; idle machines are lent.

    def tick(self, slot: int) -> None:
        """Slots pass, one by one: what was planned counts as done, and idle machines of the new slot are lent."""
        state = self.state
        if slot <= state.now:
            raise Conflict(f"it is slot {state.now} already; time does not go back to slot {slot}")
        while state.now < slot:
            self.record(kinds.TICK, slot=self._next_slot(slot), finish=self.finish)
            self._end_of_slot()
            if state.waiting and (state.clock == VIRTUAL or state.now == slot):  # slots slept through are gone
                self._expire()
                self._offer()
                self._lend()

    def _next_slot(self, slot: int) -> int:
        """The next slot; or at once the last one, where no job runs and none could be lent a machine in between."""
        state = self.state
        busy = any(len(held.cells) for held in state.jobs.values()) or (state.waiting and state.clock == VIRTUAL)
        return state.now + 1 if busy else slot

    def _end_of_slot(self) -> None:
        """Jobs whose work is done finish; promised ones whose cells ran out are planned on, as long as their horizon."""
        for held in list(self.state.jobs.values()):
            given_up = held.complete and self.first >= self.deadline(held.job.arrival)
            if given_up or (held.complete and self.finish != REPORTED):
                reason = UNREPORTED if self.finish == REPORTED else ""
                self.record(kinds.FINISHED, held, slot=self.state.now - 1, reason=reason, first=self.state.now)
            elif held.state == ADMITTED and not len(held.cells):
                self._overdue(held)

    def _overdue(self, held: Held) -> None:
        late = OVERDUE if held.complete else LATE
        reason, plan = self.best(held, above=-math.inf)
        if plan is not None:
            self.decide(held, Verdict(ADMITTED, late, plan.worth, plan.cost, plan.cells))
        else:
            self._decided(held, PENDING, late if held.complete else reason, 0.0, 0.0, NO_CELLS)

    def _expire(self) -> None:
        """Waiting jobs that can no longer finish within their horizon."""
        for held in list(self.state.waiting.values()):
            if not held.complete and self.hopeless(held):
                self._decided(held, REFUSED, EXPIRED, 0.0, 0.0, NO_CELLS)

    def _offer(self) -> None:
        """Promise cells, if it pays, to the densest waiting jobs (begun ones first) and those not considered for longest."""
        order = self.by_density(self.state.waiting.values())
        order.sort(key=lambda held: held.done == 0.0)
        half = RETRIES // 2
        longest_untried = heapq.nsmallest(RETRIES - half, order[half:], key=lambda held: held.tried)
        for held in (*order[:half], *longest_untried):
            self._tries += 1
            held.tried = self._tries
            plan = self.best(held)[1]
            if plan is not None:
                self.decide(held, Verdict(ADMITTED, "", plan.worth, plan.cost, plan.cells))

    def _lend(self) -> None:
        """Lend idle machines of this slot to waiting jobs, the densest first; without promise."""
        now, machines = self.state.now, self.state.machines
        room = machines.planner.roomiest(now)
        for held in self.by_density(self.state.waiting.values()):
            if (held.shape.worker > room).any() or (len(held.cells) and held.cells[0, SLOT] <= now):
                continue
            if self._lend_to(held, now):
                room = machines.planner.roomiest(now)

    def room_again(self) -> None:
        """Room came back: waiting jobs are considered again, and are lent idle machines before a new job is."""
        self._offer()
        if self.state.clock == VIRTUAL:  # on a real clock this slot has begun
            self._lend()


def price_rows(base: Mapping[str, float], ratio: float, resources: tuple[str, ...]) -> tuple[list[float], list[float]]:
    """Prices by milli-unit, and ln of the ratio, in the cluster's order; checked."""
    from equipoise.place.prices import Fixed

    Fixed(base, ratio)
    for name in base:
        if name not in resources:
            raise InputError(f"prices: unknown resource {name[:40]!r}; this cluster has {', '.join(resources)}")
    return [float(base.get(r, 0.0)) / 1000.0 for r in resources], [math.log(ratio)] * len(resources)


def opening(machines: Machines, slot_seconds: float, horizon: int, start: float, clock: str) -> Body:
    """The data of the first event."""
    return {
        "format": FORMAT,
        "slot_seconds": float(slot_seconds),
        "horizon": horizon,
        "start": float(start),
        "clock": clock,
        "floor": machines.plain(),
    }
