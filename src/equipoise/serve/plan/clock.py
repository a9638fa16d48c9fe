"""The clock: in a slot that passed the plan counts as done; waiting jobs are considered again; idle machines are lent."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from equipoise.place.execution import ADMITTED, PENDING, REFUSED
from equipoise.place.planner import NO_CELLS
from equipoise.place.planner.packing import SLOT
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.planning import (
    EXPIRED,
    LATE,
    OVERDUE,
    REPORTED,
    UNREPORTED,
    VIRTUAL,
    Conflict,
    Planning,
    Verdict,
)
from equipoise.serve.plan.state import Held

RETRIES = 16  # waiting jobs offered a promise whenever room comes back


class Clock(Planning):
    """The clock of a service."""

    def tick(self, slot: int) -> None:
        """Slots pass, one by one: what was planned counts as done, and idle machines of the new slot are lent."""
        state = self.state
        if slot <= state.now:
            raise Conflict(f"it is slot {state.now} already; time does not go back to slot {slot}")
        while state.now < slot:
            self.record(kinds.TICK, slot=self._next_slot(slot), finish=self.finish)
            self._end_of_slot()
            if state.waiting and (
                state.clock == VIRTUAL or state.now == slot
            ):  # slots that were slept through are gone
                self._expire()
                self._offer(self._waiting(), RETRIES)
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
        for held in self._waiting():
            if not held.complete and self.hopeless(held):
                self._decided(held, REFUSED, EXPIRED, 0.0, 0.0, NO_CELLS)

    def _waiting(self) -> list[Held]:
        return list(self.state.waiting.values())

    def _offer(self, waiting: Iterable[Held], most: int) -> None:
        """Promise cells, if it pays, to the densest waiting jobs (begun ones first) and those not considered for longest."""
        order = self.by_density(waiting)
        order.sort(key=lambda held: held.done == 0.0)
        half = most // 2
        longest_untried = heapq.nsmallest(most - half, order[half:], key=lambda held: held.tried)
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
        for held in self.by_density(self._waiting()):
            if (held.shape.worker > room).any() or (len(held.cells) and held.cells[0, SLOT] <= now):
                continue
            if self._lend_to(held, now):
                room = machines.planner.roomiest(now)

    def room_again(self) -> None:
        """Room came back: waiting jobs are considered again, and are lent idle machines before a new job is."""
        self._offer(self._waiting(), RETRIES)
        if self.state.clock == VIRTUAL:  # on a real clock this slot has begun
            self._lend()
