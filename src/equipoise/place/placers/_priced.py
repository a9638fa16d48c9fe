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
from equipoise.place.placers._pool import area, earliest
from equipoise.place.placers._seats import slots_left
from equipoise.place.prices._posted import EVERY, LoadIndex, clearing, history_of

if TYPE_CHECKING:
    from equipoise.place.placers.dated import DatedSession

SLACKS = (0.02, 0.1, 0.3, 0.6)  # a date may cost so much of the worth of the earliest finish
REMADE = 0.1  # and so much where room for it is made by planning all promises anew
LATE = 0.02  # of its worth: a job that cannot have so much any more comes last
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
TRIED, REPLAYS = (-3.0, 5.0), 7  # log2 of the price, in clearing prices; and how many are tried on history
AS_GOOD = 1e-3  # of the worth: the lowest price this near the best is taken


@kernel
def densities_left(
    jobs: Ints, now: int, arrival: Ints, kind: Ints, parameters: Floats, left: Floats, share: Floats, widest: Floats
) -> Floats:
    """Worth of finishing from now on at the widest, for each slot and share of the cluster that the width asked for takes; 0
    where next to nothing is left. `left` in slots at the width asked for, `widest` what of that the widest takes."""
    out = np.zeros(jobs.shape[0])
    for k in range(jobs.shape[0]):
        j, (a, b, c) = jobs[k], parameters[jobs[k]]
        soon = max(1.0, np.ceil(left[k] * widest[j] - 1e-9))
        found = worth(kind[j], a, b, c, now + soon - 1.0 - arrival[j])
        if found > LATE * a:
            out[k] = found / (max(1.0, np.ceil(left[k] - 1e-9)) * share[j])
    return out


class Priced:
    """The price of the cluster for a slot is `times` the clearing price: history's, or where worth fades the geometric mean
    of that and the last horizon's. Without history nothing costs anything."""

    def __init__(self, session: DatedSession) -> None:
        self.session, run, policy = session, session.run, session.policy
        self.load: LoadIndex | None = None
        self.base, self.price, self.looked = 0.0, 0.0, -EVERY
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
                    self.session.played(past, replace(policy, times=2.0**log, history=past)).earned() for past in pasts
                )

            policy.found[key] = 2.0 ** lowest_best(score)
        return float(policy.found[key])

    def came(self, j: int) -> None:
        """Nothing is learnt of a job that comes."""

    def binding(self, jobs: Ints) -> None:
        """Nor of who is held by a promise."""

    def went(self, j: int) -> None:
        """Nor of who is done."""

    def offer(self, j: int) -> str:
        """Promise the date that is worth most beyond the price of its plan; "" or why there is none."""
        session, run = self.session, self.session.run
        if self.load is not None and run.now - self.looked >= EVERY:
            self.price, self.looked = self.base * math.sqrt(self.load.at(run.now)), run.now
        end, left = run.deadline(j) - 1, session.left(j)
        best, date, why = 0.0, -1, NO_CAPACITY
        for p, pool in enumerate(session.pools):
            levels = session.levels_in(j, p)
            first = earliest(pool.room, run.now, end, levels, left)
            for due, value in self.dates(j, first, SLACKS) if first >= 0 else ():
                cells = session.planned(j, p, due)
                if len(cells):
                    why, gain = PRICED_OUT, value - self.price * area(cells, levels)
                    if gain > best:
                        best, date = gain, due
        if date >= 0 and session.take(j, date):
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
        """The promised by date; and after them, in what they leave, the densest first."""
        session, run = self.session, self.session.run
        session.remake()
        left = slots_left(queue, run.work - run.done, session.speed)
        facts = (run.arrival, run.worth_kind, run.worth_parameters)
        dense = densities_left(queue, run.now, *facts, left, session.share, session.widest) * session.weights(queue)
        promised = session.promised[queue]
        rest = np.where(dense > 0.0, -dense, left * session.share[queue])[~promised]
        by_date = queue[promised][np.argsort(session.due[queue[promised]], kind="stable")]
        return by_date, queue[~promised][np.lexsort((rest, dense[~promised] <= 0.0))]


def lowest_best(score: Callable[[float], float]) -> float:
    """The lowest of the points that a golden section tries whose score is as good as the best."""
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in seen:
            seen[x] = score(x)
        return seen[x]

    low, high = TRIED
    while len(seen) < REPLAYS:
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if at(left) >= at(right):
            high = right
        else:
            low = left
    return min(x for x in seen if seen[x] >= max(seen.values()) * (1.0 - AS_GOOD))
