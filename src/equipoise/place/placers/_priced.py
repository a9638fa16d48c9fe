"""Dates and order where worth is stated: a promise must be worth more than a price for the machine-time that it holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.place.execution import NO_CAPACITY, PRICED_OUT
from equipoise.place.job import DEADLINE, worth
from equipoise.place.placers._pool import NO_PLAN, Levels, Pool, earliest
from equipoise.place.placers._seats import slots_left
from equipoise.place.prices._posted import EVERY, LoadIndex, clearing, history_of

if TYPE_CHECKING:
    from equipoise.place.placers.dated import DatedSession

SLACKS = (0.02, 0.1, 0.3, 0.6)  # a date may cost so much of the worth of the earliest finish
REMADE = 0.1  # and so much where room for it is made by planning all promises anew
NEAR = 1.5  # slots: nearer ones cost less, for few can still come who would want them
WAITS = 0.75  # of what a job would be worth if it waited as long as it needs: so much counts against it in the order
DONE = 0.05  # of the mean worth of jobs so far: what being done counts in the order, also when it is worth nothing
STEEP = 10.0  # times as much costs room in a slot that plans fill as in one that is free
COARSE, FINE = (0.0, 2.0, 4.0, 6.0), (1.0, 0.5, 0.25)  # log2 of the prices tried on history, in clearing prices
AS_GOOD = 0.01  # of the worth: of the prices this near the best the middle one is taken
UNPROMISED = 0.98  # of its worth: what a job counts there that was not promised on arrival


@kernel
def losses_by_waiting(
    jobs: Ints,
    now: int,
    arrival: Ints,
    kind: Ints,
    parameters: Floats,
    left: Floats,
    share: Floats,
    widest: Floats,
    done: float,
) -> Floats:
    """What is lost if a job has to wait, for each slot and share of the cluster that the width asked for takes: the worth of
    finishing from now on at the widest, less most of what it is after a wait, and `done`. `left` in slots at the width
    asked for, `widest` what of that the widest takes."""
    out = np.empty(jobs.shape[0])
    for k in range(jobs.shape[0]):
        j, (a, b, c) = jobs[k], parameters[jobs[k]]
        soon = now + max(1.0, np.ceil(left[k] * widest[j] - 1e-9)) - 1.0 - arrival[j]
        lost = worth(kind[j], a, b, c, soon) - WAITS * worth(kind[j], a, b, c, soon + max(1.0, left[k]))
        out[k] = (lost + done) / (max(1.0, np.ceil(left[k] - 1e-9)) * share[j])
    return out


def cost(cells: Ints, levels: Levels, pool: Pool, now: int) -> float:
    """What a plan takes: share of the cluster times slots, of which near ones count less and crowded ones more."""
    rows = cells[:, 0] % len(pool.room)
    free = pool.room[rows, 0] / np.maximum(1, pool.full[rows, 0])
    return float(levels.share[cells[:, 1]] @ (-np.expm1((now - 1 - cells[:, 0]) / NEAR) * STEEP**-free))


def earned(session: DatedSession) -> float:
    """The worth of what was finished, less where it was not promised on arrival."""
    run, total = session.run, 0.0
    for j in np.flatnonzero(run.finish >= 0).tolist():
        value = run.jobs[j].utility(int(run.finish[j] - run.arrival[j]))
        total += value if session.at_once[j] else UNPROMISED * value
    return total


class Priced:
    """The price of the cluster for a slot is `times` the clearing price: history's, or where worth fades the geometric mean
    of that and the last horizon's. Without history nothing costs anything."""

    def __init__(self, session: DatedSession) -> None:
        self.session, run, policy = session, session.run, session.policy
        self.load: LoadIndex | None = None
        self.base, self.price, self.looked = 0.0, 0.0, -EVERY
        self.jobs, self.worths = 0, 0.0
        if policy.history is None:
            return
        pasts = history_of(policy.history, policy.label)
        anchor = clearing(run, pasts)
        self.base = self.price = anchor * (self.searched() if policy.times is None else policy.times)
        if anchor > 0.0 and run.slots is None and (run.worth_kind != DEADLINE).any():
            self.load = LoadIndex(run, pasts[-1], anchor, run.horizon)

    def searched(self) -> float:
        """The multiple of the clearing price that earns most on history."""
        policy, run = self.session.policy, self.session.run
        key = (run.cluster, run.slots, run.horizon, run.pace, "price")
        if key not in policy.found:
            pasts = history_of(policy.history, policy.label)

            def score(log: float) -> float:
                return sum(
                    earned(self.session.played(past, replace(policy, times=2.0**log, history=past))) for past in pasts
                )

            policy.found[key] = 2.0 ** searched_best(score)
        return float(policy.found[key])

    def came(self, j: int) -> None:
        """How much jobs are worth so far."""
        self.jobs, self.worths = self.jobs + 1, self.worths + float(self.session.run.worth_parameters[j, 0])

    def binding(self, jobs: Ints) -> None:
        """Nothing is learnt of who is held by a promise."""

    def went(self, j: int) -> None:
        """Nor of who is done."""

    def offer(self, j: int) -> str:
        """Promise the date that is worth most beyond the price of its plan; "" or why there is none."""
        session, run = self.session, self.session.run
        if self.load is not None and run.now - self.looked >= EVERY:
            self.price, self.looked = self.base * math.sqrt(self.load.at(run.now)), run.now
        end, left = run.deadline(j) - 1, session.left(j)
        best, date, chosen, why = 0.0, -1, (-1, NO_PLAN), NO_CAPACITY
        for p, pool in enumerate(session.pools):
            levels = session.levels_in(j, p)
            first = earliest(pool.room, run.now, end, levels, left)
            for due, value in self.dates(j, first, SLACKS) if first >= 0 else ():
                cells = session.planned(j, p, due)
                if len(cells):
                    why, gain = PRICED_OUT, value - self.price * cost(cells, levels, pool, run.now)
                    if gain > best:
                        best, date, chosen = gain, due, (p, cells)
        if date >= 0:
            session.hold(j, *chosen)
            session.promise(j, date)
            return ""
        if why == NO_CAPACITY and session.fastest[j] > 0.0:
            soon = run.now + max(0, math.ceil(left / session.fastest[j] - 1e-9) - 1)
            for due, value in self.dates(j, soon, (REMADE,)) if soon <= end else ():
                if session.remake(j, due, value / self.price if self.price > 0.0 else math.inf):
                    session.promise(j, due)
                    return ""
        return why

    def dates(self, j: int, first: int, slacks: tuple[float, ...]) -> list[tuple[int, float]]:
        """(slot, worth): the latest slots that cost these parts of what finishing in slot `first` is worth."""
        value = self.session.run.value(j, first, self.session.run.deadline(j))
        if not len(value) or value[0] <= 0.0:
            return []
        ends = dict.fromkeys(int(np.flatnonzero(value >= (1.0 - slack) * value[0])[-1]) for slack in slacks)
        return [(first + k, float(value[k])) for k in ends]

    def order(self, queue: Ints) -> tuple[Ints, Ints]:
        """The promised by date; and after them, in what they leave, who loses most by waiting."""
        session, run = self.session, self.session.run
        session.remake()
        left = slots_left(queue, run.work - run.done, session.speed)
        facts = (run.arrival, run.worth_kind, run.worth_parameters)
        done = DONE * self.worths / max(1, self.jobs)
        losses = losses_by_waiting(queue, run.now, *facts, left, session.share, session.widest, done)
        promised = session.promised[queue]
        by_date = queue[promised][np.argsort(session.due[queue[promised]], kind="stable")]
        order = np.lexsort((left * session.share[queue], -losses * session.weights(queue)))
        return by_date, queue[order][~promised[order]]


def searched_best(score: Callable[[float], float]) -> float:
    """Of the points that are tried, the coarse ones and then nearer ones, the middle one of those as good as the best."""
    seen = {x: score(x) for x in COARSE}
    for step in FINE:
        best = max(seen, key=lambda x: seen[x])
        seen |= {x: score(x) for x in (best - step, best + step) if x not in seen}
    near = sorted(x for x in seen if seen[x] >= max(seen.values()) * (1.0 - AS_GOOD))
    return near[len(near) // 2]
