"""Dated: a promise is a date with a feasible plan; nothing stated, the plan is late and binds when it is now or never.

Where nothing is stated, each slot runs the jobs that delay others least, and a date is a quantile of what jobs like it
took, learnt from history and from the run. Where worth is stated, a date must be worth more than a price for the
machine-time of its plan, found by replaying history; plans are as narrow as may be, made anew by date each slot, and what
they leave goes to who loses most by waiting. A plan holds parts of machines by count, so that everybody may move. Bad at
few large jobs of many resources, whose parts are rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from equipoise.errors import refuse_negative
from equipoise.kernels import Bools, Floats, Int32s, Ints
from equipoise.place.cluster import is_device
from equipoise.place.execution import ADMITTED, INFEASIBLE_ALONE, MACHINE_LOST, NO_CAPACITY, PENDING, REFUSED, Execution
from equipoise.place.job import UNSTATED, Workload
from equipoise.place.placers._pool import (
    NO_PLAN,
    Levels,
    area,
    book,
    by_size,
    levels_of,
    needed,
    plan,
    pools_of,
    usable,
)
from equipoise.place.placers._priced import Priced, cost
from equipoise.place.placers._seats import Due, LevelTable, Rates, grown, seat_all, seat_due, widen
from equipoise.place.placers._slotwise import JOB, NO_SEATS, Slotwise, dominant
from equipoise.place.placers._waits import Waits
from equipoise.place.prices._posted import replayed
from equipoise.units import MILLI

OFFERS = 4  # waiting jobs that have begun and are offered a date, each slot
OVERTIME = 0.1  # of its stated work: what a job that should be done is thought to need yet
MOST_REMADE = 300  # promises that are planned anew together: with more, plans stay as they are


@dataclass(frozen=True)
class Dated:
    """Dates as promises.

    Parameters
    ----------
    history
        Past jobs, one workload or several: waits, or the price of machine-time, are learnt from them. None: waits are
        learnt in the run, and machine-time costs nothing.
    times
        The price, in clearing prices of history. None: the best on history.
    dates
        False: nobody is promised anything.
    fair
        A job counts the less in the order the more of the cluster its user has had, half forgotten after a week.
    label
        What it is called.
    """

    history: Workload | Sequence[Workload] | None = None
    times: float | None = None
    dates: bool = True
    fair: bool = False
    label: str = "Dated"
    colour: ClassVar[str] = "#7c3aed"
    rank: ClassVar[int] = 0
    promises: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = ("history", "fair")
    found: dict[object, Any] = field(init=False, default_factory=dict, repr=False, compare=False)  # in history

    def __post_init__(self) -> None:
        refuse_negative("Dated", times=0.0 if self.times is None else self.times)

    def undated(self) -> Dated:
        """The same order, without promises."""
        return replace(self, history=None, dates=False)

    def start(self, run: Execution, seed: int) -> DatedSession:
        return DatedSession(self, run)


@dataclass(frozen=True)
class Kept:
    """A policy whose sessions are kept, to be asked when the run is over."""

    policy: Dated
    sessions: list[DatedSession] = field(default_factory=list)
    label: ClassVar[str] = "Dated, kept"
    promises: ClassVar[bool] = True  # so that durations are planned as for the policy itself
    colour: ClassVar[str] = "#7c3aed"

    def start(self, run: Execution, seed: int) -> DatedSession:
        self.sessions.append(self.policy.start(run, seed))
        return self.sessions[-1]


class DatedSession(Slotwise):
    def __init__(self, policy: Dated, run: Execution) -> None:
        super().__init__(run)
        self.policy = policy
        count, cluster = len(run.jobs), run.cluster
        devices = [r for r, name in enumerate(cluster.resources) if is_device(name)]
        self.pools = pools_of(cluster, run.horizon, bool((self.jobs.worker[:, devices] % MILLI != 0).any()))
        self.whole = [by_size(pool.units) for pool in self.pools]
        self.share = np.array([dominant(self.jobs, j, max(1, int(w))) for j, w in enumerate(self.width)])
        self.own = np.maximum(run.work / self.speed, 1e-3)  # slots alone, at the width asked for
        self.rates = Rates(
            np.concatenate([one.together.ravel() for one in run.arrays] or [np.zeros(1)]),
            np.concatenate([one.apart.ravel() for one in run.arrays] or [np.zeros(1)]),
            np.concatenate(([0], np.cumsum([one.together.size for one in run.arrays])))[:-1].astype(np.int64),
            np.array([one.widest + 1 for one in run.arrays], dtype=np.int64),
            self.jobs.whole[cluster.within.argmax(axis=0)],
        )
        self.levels: dict[object, Levels] = {}  # by all that they follow from
        self.level = [[self._levels(j, p) for p in range(len(self.pools))] for j in range(count)]
        most = [[levels.rate[-1] if len(levels.rate) else 0.0 for levels in one] for one in self.level]
        self.fastest = np.array([max(one) for one in most])  # samples per slot at the widest level
        self.widest = self.speed / np.where(self.fastest > 0.0, self.fastest, self.speed)
        self.table = table_of([one[0] for one in self.level])
        self.plans: dict[int, Ints] = {}  # of promised, unfinished jobs: rows (slot, level), from now on
        self.pool_of: dict[int, int] = {}
        self.promised: Bools = np.zeros(count, dtype=bool)  # who has a plan
        self.head = np.full(count, -1, dtype=np.int64)  # the first slot of its plan
        self.planned_work, self.edge = (
            np.zeros(count),
            np.zeros(count),
        )  # samples of its plan, and of the cell to go first
        self.booked = 0.0  # by all plans: cluster x slots, at the widths asked for
        self.due = np.full(count, -1, dtype=np.int64)  # the slot promised
        self.at_once: Bools = np.zeros(count, dtype=bool)  # who was promised on arrival
        self.waiting: dict[int, None] = {}
        self.begin, self.end = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.cells = np.empty((run.horizon + 1, 2), dtype=np.int64)
        self.seen = 0  # the slot that the pools stand at
        self.known = len(run.known)  # windows of the calendar that the pools count
        self.open(range(run.horizon))
        self.ran: Ints = np.empty(0, dtype=np.int64)
        self.stated = bool((run.worth_kind != UNSTATED).any())
        self.waits = Waits(self)
        self.dates: Waits | Priced = Priced(self) if self.stated else self.waits
        self.detail: dict[str, Any] = {}

    def played(self, past: Workload, policy: Dated) -> DatedSession:
        """A run of past jobs on these machines, as it ended."""
        kept = Kept(policy)
        replayed(self.run, kept, [past])
        return kept.sessions[0]

    def _levels(self, j: int, p: int) -> Levels:
        """The levels of a job in a pool; jobs that are alike share them."""
        arrays, wide, asked = self.run.arrays[j], int(self.jobs.widest[j]), int(self.width[j])
        facts = (arrays.together.tobytes(), arrays.apart.tobytes(), arrays.worker.tobytes(), arrays.server.tobytes())
        key = (p, asked, wide, arrays.per_server, arrays.restart, *facts)
        if key not in self.levels:
            kinds = np.unique(self.run.cluster.type_of[self.pools[p].machines])
            capacity, total = self.run.cluster.capacity[kinds], self.run.cluster.total
            self.levels[key] = levels_of(arrays, self.pools[p], self.whole[p], capacity, total, asked, wide)
        return self.levels[key]

    def levels_in(self, j: int, p: int) -> Levels:
        return self.level[j][p]

    # Time.

    def tick(self) -> None:
        """Bring pools and plans to this slot."""
        run, now = self.run, self.run.now
        if self.seen < now:
            self.open(range(self.seen + run.horizon, now + run.horizon))
            self.seen = now
        ran = self.ran[self.promised[self.ran] & (run.finish[self.ran] < 0)]
        left = run.work[ran] - run.done[ran]
        spare = self.planned_work[ran] - left
        for j in ran[(spare >= self.edge[ran]) | (spare < 0.0) | (left <= 0.0) | (self.head[ran] < now)].tolist():
            self.trim(j)
        self.ran = self.ran[:0]
        if self.known < len(run.known):
            self.known = len(run.known)
            self.shrunk()

    def open(self, slots: range) -> None:
        """Slots come into view: what may be used in them is free."""
        for p, pool in enumerate(self.pools):
            for slot in slots:
                capacity = self.run.capacity(slot)
                pool.full[slot % self.run.horizon] = (
                    self.whole[p] if capacity is self.run.full else by_size(usable(pool, capacity))
                )
                pool.room[slot % self.run.horizon] = pool.full[slot % self.run.horizon]

    def shrunk(self) -> None:
        """There is news of machines. If plans do not fit any more, all are made anew by date; who finds no room is told."""
        view = range(self.run.now, self.run.now + self.run.horizon)
        self.open(view)
        for j in self.plans:
            book(self.pools[self.pool_of[j]].room, self.ahead(j), self.level[j][self.pool_of[j]], 1)
        if all((pool.room >= 0).all() for pool in self.pools):
            return
        self.open(view)
        promised = sorted(self.plans, key=lambda j: (int(self.due[j]), j))
        self.plans.clear()  # the pools have just been emptied
        self.booked = 0.0
        for j in promised:
            self.drop(j)
            if not self.take(j, int(self.due[j])):
                self.run.decide(j, PENDING, MACHINE_LOST)
                self.again(j)

    def ahead(self, j: int) -> Ints:
        """What is left of a plan."""
        return self.plans[j][self.plans[j][:, 0] >= self.run.now]

    def here(self) -> Ints:
        """Unfinished jobs that have arrived."""
        jobs = np.concatenate((self.queue, np.array(self._new, dtype=np.int64)))
        return jobs[self.run.finish[jobs] < 0]

    def left(self, j: int) -> float:
        """Samples it still needs, as far as anyone can tell."""
        left = float(self.run.work[j] - self.run.done[j])
        return left if left > 0.0 else OVERTIME * float(self.run.work[j])

    def weights(self, jobs: Ints) -> Floats:
        """By how much a job counts more than others in the order."""
        priority = np.array([self.run.jobs[j].priority for j in jobs.tolist()])
        if not self.policy.fair:
            return priority
        users = [self.run.jobs[j].user for j in jobs.tolist()]
        used = {user: self.run.usage(user) for user in set(users)}
        return priority / (1.0 + np.array([used[user] for user in users]))

    # Plans.

    def planned(self, j: int, p: int, due: int, part: float = 1.0) -> Ints:
        """A plan in a pool, beside all others: rows (slot, level), empty if there is none. `part` of it is for promises.

        Where worth is stated as narrow as may be, and from now on; else at the width asked for if it can be, and late.
        """
        pool, levels = self.pools[p], self.level[j][p]
        reserve = int((1.0 - part) * self.whole[p][0])
        asked = 0 if self.stated else min(int(np.searchsorted(levels.workers, self.width[j])), len(levels.rate) - 1)
        rows = 0
        for least in dict.fromkeys((max(asked, 0), 0)):
            rows = rows or plan(
                pool.room, self.run.now, due, levels, self.left(j), self.cells, least, reserve, self.stated
            )
        return self.cells[:rows].copy()

    def take(self, j: int, due: int, part: float = 1.0) -> bool:
        """Plan a job to be done by the end of slot `due`, in the pool in which that takes least; whether it can be."""
        best, where, least = NO_PLAN, -1, np.inf
        for p in range(len(self.pools)):
            cells = self.planned(j, p, due, part)
            if len(cells) and (taken := area(cells, self.level[j][p])) < least:
                best, where, least = cells, p, taken
        if where >= 0:
            self.hold(j, where, best)
        return where >= 0

    def hold(self, j: int, where: int, cells: Ints) -> None:
        """Take the room of a plan."""
        book(self.pools[where].room, cells, self.level[j][where], 1)
        self.keep(j, where, cells)

    def keep(self, j: int, where: int, cells: Ints) -> None:
        """Write down the plan of a job, whose room is taken."""
        self.booked += (len(cells) - len(self.plans.get(j, ()))) * self.share[j]
        self.plans[j], self.pool_of[j], self.promised[j] = cells, where, True
        self.head[j] = cells[0, 0] if len(cells) else -1
        rates = self.level[j][where].rate[cells[:, 1]]
        self.planned_work[j], self.edge[j] = rates.sum(), rates[-1 if self.stated else 0] if len(cells) else 0.0

    def drop(self, j: int) -> None:
        """Give the room of a plan back."""
        if j in self.plans:
            cells, where = self.plans.pop(j), self.pool_of.pop(j)
            self.booked -= len(cells) * self.share[j]
            book(self.pools[where].room, cells[cells[:, 0] >= self.run.now], self.level[j][where], -1)
        self.promised[j], self.head[j] = False, -1

    def trim(self, j: int) -> None:
        """After a slot: give back what the plan does not need any more."""
        where = self.pool_of[j]
        room, levels = self.pools[where].room, self.level[j][where]
        ahead = self.ahead(j)
        count = needed(ahead, levels, self.left(j), self.stated)
        if count >= 0:
            cut = count if self.stated else len(ahead) - count
            kept, free = (ahead[:cut], ahead[cut:]) if self.stated else (ahead[cut:], ahead[:cut])
            book(room, free, levels, -1)
            self.keep(j, where, kept)
        else:
            self.drop(j)
            self.again(j)

    def again(self, j: int) -> None:
        """Plan a promised job that has no plan: to its date, else as soon as may be, else it waits."""
        if not any(due >= self.run.now and self.take(j, due) for due in (int(self.due[j]), self.run.deadline(j) - 1)):
            self.waiting[j] = None

    def remake(self, j: int = -1, due: int = -1, most: float = 0.0) -> bool:
        """Plan all promises anew in order of date, with job j if that costs at most `most` (cluster x slots). If one finds
        no room, plans stay as they were."""
        if not self.plans or len(self.plans) > MOST_REMADE:
            return False
        rooms = [pool.room.copy() for pool in self.pools]
        for i in self.plans:
            book(self.pools[self.pool_of[i]].room, self.ahead(i), self.level[i][self.pool_of[i]], -1)
        dates = {i: int(self.due[i]) for i in self.plans} | ({j: due} if j >= 0 else {})
        old = {i: (self.pool_of[i], cells) for i, cells in self.plans.items()}
        fits = all(self.take(i, dates[i]) for i in sorted(dates, key=lambda i: (dates[i], i)))
        if fits and (j < 0 or self.cost(j) <= most):
            return True
        for pool, room in zip(self.pools, rooms, strict=True):
            pool.room[:] = room
        for i, (where, cells) in old.items():
            self.keep(i, where, cells)
        if j in self.plans:  # its room is given back already
            self.booked -= len(self.plans.pop(j)) * self.share[j]
            self.promised[j], self.head[j] = False, -1
        return False

    def cost(self, j: int) -> float:
        """What a plan just made takes beside all others, as it is priced where worth is stated."""
        where = self.pool_of[j]
        pool, levels, cells = self.pools[where], self.level[j][where], self.plans[j]
        book(pool.room, cells, levels, -1)
        found = cost(cells, levels, pool, self.run.now)
        book(pool.room, cells, levels, 1)
        return found

    def promise(self, j: int, due: int) -> None:
        """Tell a job, which has a plan, its date."""
        self.due[j] = due
        self.waiting.pop(j, None)
        self.begun[j] = True  # what it runs on is not lent
        worth = self.run.jobs[j].utility(due - int(self.run.arrival[j]))
        self.run.decide(j, ADMITTED, worth=worth, due=due)

    # What the loop calls.

    def arrive(self, job: int) -> None:
        self.tick()
        why = self.run.hopeless(job) or ("" if self.width[job] else INFEASIBLE_ALONE)
        if why:
            self.run.decide(job, REFUSED, why)
            return
        self.dates.came(job)
        why = self.dates.offer(job) if self.policy.dates else NO_CAPACITY
        self.at_once[job] = not why
        self._new.append(job)
        if why:
            self.run.decide(job, PENDING, why)
            self.waiting[job] = None

    def slot(self) -> None:
        self.tick()
        super().slot()
        self.ran = np.unique(self.was[:, JOB]).astype(np.int64)

    def seats(self, queue: Ints) -> Int32s:
        first, rest = self.dates.order(queue)
        if self.policy.dates:
            both = (*first.tolist(), *rest.tolist())
            for j in [j for j in both if j in self.waiting and self.run.done[j] > 0.0][:OFFERS]:
                self.dates.offer(j)
        if self.stated:  # those who have just been promised come with the others
            first, rest = np.concatenate((first, rest[self.promised[rest]])), rest[~self.promised[rest]]
        free = self.capacity.copy()
        held = self.seats_due(queue, free)
        rows = self.seated(first, free, held)
        if len(rest):
            rows = np.concatenate((rows, self.seated(rest, free, NO_SEATS)))
        self.begin[held[:, JOB]] = self.end[held[:, JOB]] = 0
        return rows

    def seated(self, order: Ints, free: Ints, held: Int32s) -> Int32s:
        """Seats in order, and wider on what is left."""
        widths = self.width
        if len(self.pools) == 1 and not self.jobs.restart[order].any():
            free_units = int(self.pools[0].full[self.run.now % self.run.horizon, 0])
            widths = grown(order, widths, self.table, self.run.work - self.run.done, free_units)
        seats = (self.was, self.first, self.last)
        rows = seat_all(order, widths, self.jobs, self.rates, free, *seats, held, self.begin, self.end)
        widen(rows, self.jobs, self.rates, free, *seats)
        return rows

    def seats_due(self, queue: Ints, free: Ints) -> Int32s:
        """Seats for what plans hold in this slot, taken from `free`."""
        jobs = queue[self.head[queue] == self.run.now]
        self.dates.binding(jobs)
        if not len(jobs):
            return NO_SEATS
        rows = []
        for j in jobs.tolist():
            where, level = self.pool_of[j], int(self.plans[j][0, 1])
            levels = self.level[j][where]
            parts = int(levels.parts[level])
            rows.append((where, -(1 << int(levels.size[level])), j, parts, int(levels.workers[level]) // parts))
        found, units = [], np.zeros(len(free), dtype=np.int64)
        for p, pool in enumerate(self.pools):
            mine = np.array(sorted(row for row in rows if row[0] == p), dtype=np.int64).reshape(-1, 5).T.copy()
            units[:] = 0
            units[pool.machines] = usable(pool, self.run.capacity(self.run.now))
            out = np.empty((int(mine[3].sum()), 4), dtype=np.int32)
            due = Due(mine[2], -mine[1], mine[3], mine[4])
            found.append(out[: seat_due(due, units, self.jobs, free, self.was, self.first, self.last, out)])
        held = np.concatenate(found)
        starts = np.flatnonzero(np.diff(held[:, JOB], prepend=-1))
        self.begin[held[starts, JOB]], self.end[held[starts, JOB]] = starts, np.append(starts[1:], len(held))
        return held

    def measured(self, job: int) -> None:
        """What a job truly needs is known: its plan follows."""
        self.tick()
        if self.promised[job]:
            self.trim(job)

    def finished(self, job: int) -> None:
        self.tick()
        self.drop(job)
        self.waiting.pop(job, None)
        self.dates.went(job)


def table_of(every: list[Levels]) -> LevelTable:
    """The levels of all jobs in one row."""
    return LevelTable(
        np.concatenate(([0], np.cumsum([len(one.rate) for one in every]))).astype(np.int64),
        np.concatenate([one.workers for one in every] or [np.zeros(0, np.int64)]),
        np.concatenate([one.parts << one.size for one in every] or [np.zeros(0, np.int64)]),
        np.concatenate([one.rate for one in every] or [np.zeros(0)]),
    )
