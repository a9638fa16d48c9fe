"""Dates and order where nothing is stated: who delays others least runs first, and waits are learnt for the dates.

How long a job takes from arrival is guessed from the work before it and the load of the last week; a date is the guess times
a factor. Factors are quantiles of what really happened on history, by size of the guess, and they follow the run: a date
that becomes binding is a miss. Small jobs may miss more often than large ones, so that misses hold little of the cluster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equipoise.kernels import Floats, Ints
from equipoise.place.execution import NO_CAPACITY
from equipoise.place.placers._seats import slots_left
from equipoise.place.prices._posted import history_of

if TYPE_CHECKING:
    from equipoise.place.placers.dated import DatedSession

WEEK = 7 * 86400.0  # seconds: the load of so long is what a guess goes by
IN_TIME, HOPELESS = (
    2.5,
    10.0,
)  # times its own duration: a job later than the first, not yet than the second, has to wait
LATE = 1.4  # a late job is put back as if it were so much longer
BINS = 12  # sizes of guess
QUANTILES = (0.75, 0.98)  # of small and of large jobs
BUDGET = 0.1  # of the work of history: what misses may hold
STEP = 0.3  # how fast factors follow the run (in ln)
LOOSE = 5.0  # times the median: a date looser than this is not given ...
AIM, CLOSER = (
    2.8,
    0.02,
)  # ... at first; this bound follows the run until dates are so many times the time that was taken
HELD, AHEAD = 0.25, 0.02  # of the cluster: what promises may hold in a slot, and of all slots of the horizon together
FEWEST, FIRST = 20, (4.0, 1.5)  # jobs to learn from at least; with fewer, the factor and the median to begin with
NEVER = 1e9  # a factor beyond this promises nothing anyway
LIGHTEST = 0.05  # of the cluster: what a crowd leaves to a job at least, in a guess


class Learnt(NamedTuple):
    """What history tells: bounds of ln guess, and for each bin the factor, the median, and which quantile the factor is."""

    edges: Floats
    factor: Floats
    middle: Floats
    quantile: Floats


def learnt(guess: Floats, took: Floats, area: Floats) -> Learnt:
    """From guesses, slots from arrival to finish (inf: never), and areas (cluster x slots) of past jobs."""
    if len(guess) < FEWEST:
        return Learnt(np.empty(0), np.array([FIRST[0]]), np.array([FIRST[1]]), np.array([QUANTILES[1]]))
    edges = np.quantile(np.log(guess), np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    which = np.digitize(np.log(guess), edges)
    rows = []
    for b in range(BINS):
        mine = which == b
        misses = BUDGET * area.sum() / BINS / max(float(area[mine].sum()), 1e-9)
        quantile = float(np.clip(1.0 - misses, *QUANTILES))
        ratio = took[mine] / guess[mine] if mine.any() else np.array([math.inf])
        rows.append((*(float(np.quantile(ratio, q, method="higher")) for q in (quantile, 0.5)), quantile))
    return Learnt(edges, *(np.array(column) for column in zip(*rows, strict=True)))


class Waits:
    def __init__(self, session: DatedSession) -> None:
        self.session, run = session, session.run
        count = len(run.jobs)
        own, fits = session.own, session.own <= run.horizon
        self.key = own * session.share * np.maximum(1.0, own)
        self.guessed = np.full(count, np.nan)
        self.until = np.full(count, np.inf)  # the date it would have, until it is known whether that binds
        # Loads, in order of arrival: of history, before slot 0, and of this run, which is looked at only when it has come.
        self.arrival: Ints = run.arrival[fits]
        self.keys, self.area = self.key[fits], (own * session.share)[fits]
        self.span = 0
        self.learnt = learnt(np.empty(0), np.empty(0), np.empty(0))
        self.loose = LOOSE
        if session.policy.history is not None and session.policy.dates and not session.stated:
            self.learn()

    def learn(self) -> None:
        """Play history by the order alone, and see what became of the guesses."""
        policy, run = self.session.policy, self.session.run
        key = (run.cluster, run.slots, run.horizon, run.pace)
        if key not in policy.found:
            pasts = history_of(policy.history, policy.label)
            plays = [self.session.played(past, policy.undated()) for past in pasts]
            guess, took, area = (
                np.concatenate(column) for column in zip(*(play.waits.taken() for play in plays), strict=True)
            )
            last = plays[-1].waits
            span = int(plays[-1].run.arrival.max()) + 1
            policy.found[key] = learnt(guess, took, area), last.arrival - span, last.keys, last.area, span
        found, arrival, keys, area, self.span = policy.found[key]
        self.learnt = found._replace(factor=found.factor.copy())
        if run.slots is None:
            self.arrival = np.concatenate((arrival, self.arrival))
            self.keys, self.area = np.concatenate((keys, self.keys)), np.concatenate((area, self.area))

    def taken(self) -> tuple[Floats, Floats, Floats]:
        """Of jobs that had a guess: the guess, the slots they took, and their area."""
        session, run = self.session, self.session.run
        had = np.isfinite(self.guessed)
        took = np.where(run.finish >= 0, run.finish - run.arrival + 1.0, np.inf)
        return self.guessed[had], took[had], (session.own * session.share)[had]

    def guess(self, j: int) -> float:
        """Slots until the job is done: its own and those of the work before it, in what the load before it leaves."""
        session, run = self.session, self.session.run
        span = max(1, min(int(WEEK / run.jobs.slot), run.now + self.span))
        first, last = np.searchsorted(self.arrival, (run.now - span, run.now))
        load = float(self.area[first:last][self.keys[first:last] < self.key[j]].sum()) / span
        others = session.here()
        left = slots_left(others, run.work - run.done, session.speed)
        before = left * session.share[others] * np.maximum(1.0, session.own[others]) < self.key[j]
        ahead = float((left * session.share[others])[before & (others != j)].sum())
        mine = session.left(j) / session.speed[j]
        return float(max(1.0, (ahead + mine * session.share[j]) / max(LIGHTEST, 1.0 - load) + mine))

    def came(self, j: int) -> None:
        self.guessed[j] = self.guess(j)
        if self.session.policy.dates:
            self.until[j] = self.session.run.now - 1 + self.learnt.factor[self.bin(j)] * self.guessed[j]

    def bin(self, j: int) -> int:
        return int(np.digitize(math.log(self.guessed[j]), self.learnt.edges))

    def offer(self, j: int) -> str:
        """Promise the date that the guess comes to, if it is tight enough and promises hold little; "" or why not."""
        session, run = self.session, self.session.run
        b = self.bin(j)
        factor = float(self.learnt.factor[b])
        if not factor <= self.loose * self.learnt.middle[b] < math.inf:
            return NO_CAPACITY
        if session.booked + session.own[j] * session.share[j] > AHEAD * run.horizon:
            return NO_CAPACITY
        guess = self.guessed[j] if run.done[j] == 0.0 else self.guess(j)
        due = run.now - 1 + max(1, math.ceil(factor * guess - 1e-9))
        if due >= run.deadline(j) or not session.take(j, due, part=HELD):
            return NO_CAPACITY
        session.promise(j, due)
        return ""

    def order(self, queue: Ints) -> tuple[Ints, Ints]:
        """Least first: slots left x share x own duration, in which a late job is put back."""
        session, run = self.session, self.session.run
        left, own = slots_left(queue, run.work - run.done, session.speed), np.maximum(1.0, session.own[queue])
        slots = run.now - run.arrival[queue] + left
        late = (slots > IN_TIME * own) & (slots <= HOPELESS * own)
        key = left * session.share[queue] * own * np.where(late, LATE, 1.0) / session.weights(queue)
        for j in queue[self.until[queue] < run.now].tolist():
            self.missed(j, True)
        return queue[np.argsort(key, kind="stable")], queue[:0]

    def binding(self, jobs: Ints) -> None:
        """These are held by a promise in this slot."""
        for j in jobs[np.isfinite(self.until[jobs])].tolist():
            self.missed(j, True)

    def missed(self, j: int, missed: bool) -> None:
        b = self.bin(j)
        quantile = self.learnt.quantile[b]
        change = math.exp(STEP * (quantile if missed else quantile - 1.0))
        self.learnt.factor[b] = min(NEVER, self.learnt.factor[b] * change)
        self.until[j] = np.inf

    def went(self, j: int) -> None:
        """A job is done: its date was kept easily unless it was binding; and was it tight?"""
        session, run = self.session, self.session.run
        if np.isfinite(self.until[j]):
            self.missed(j, False)
        if session.due[j] >= 0:
            ratio = (session.due[j] - run.arrival[j] + 1) / (run.finish[j] - run.arrival[j] + 1)
            self.loose = float(np.clip(self.loose * math.exp(-CLOSER if ratio > AIM else CLOSER), 1.5, 20.0))
