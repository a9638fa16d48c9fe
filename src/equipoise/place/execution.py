"""The execution: where a placer's decisions are written down and carried out, under one rate law for all of them.

A placer assigns cells (slot, machine, workers, servers) to a job. The execution alone knows how much work a job truly is, so
it alone says when a job finishes, or that its cells ran out before it did.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from equipoise._moved import old_attribute
from equipoise.errors import InputError, unknown_name, whole_number
from equipoise.kernels import Floats, Int32s, Ints, inner, kernel
from equipoise.place.calendar import Blocked, Calendar
from equipoise.place.cluster import Cluster
from equipoise.place.job import Workload, worth_over
from equipoise.place.planner.job_arrays import JobArrays, arrays_of, fits_together
from equipoise.place.planner.packing import MACHINE, NO_CELLS, ROUNDING, SLOT, same, works
from equipoise.place.spec import PACES, SEEN

PENDING, ADMITTED, LENT, REFUSED = "pending", "admitted", "lent", "refused"
INFEASIBLE_ALONE, BEYOND_HORIZON = "infeasible_alone", "beyond_horizon"
NO_CAPACITY, PRICED_OUT = "no_capacity", "priced_out"
MACHINE_LOST = "machine_lost"  # a promise that machines that went away left no room for
STATES = (PENDING, ADMITTED, LENT, REFUSED)
MOST_SLOTS = 10_000_000
MOST_AHEAD = 200_000_000  # slots times machines in view: several GB
REASONS = (INFEASIBLE_ALONE, BEYOND_HORIZON, NO_CAPACITY, PRICED_OUT, MACHINE_LOST)
HALF_LIFE = 7 * 86400.0  # seconds after which usage counts half
NOWHERE = np.empty((0, 5), np.int32)  # no rows of a schedule


@dataclass(frozen=True)
class Decision:
    """What was decided about a job, when, and why. A promise has the slot by whose end the job is finished (`due`), what
    finishing then is worth, and what the schedule cost."""

    slot: int
    state: str
    reason: str = ""
    worth: float = 0.0
    cost: float = 0.0
    due: int | None = None


@kernel
def carry_out(cells: Int32s, first: int, arrays: JobArrays, left: float, enough: float) -> tuple[int, float]:
    """Work through cells[first:]; cells[:first] are the slot before. Returns the slot of finish (-1: not), and the work
    still left, which is none when it is at most `enough`."""
    before, n = 0, first
    while n < cells.shape[0]:
        end = n + 1
        while end < cells.shape[0] and cells[end, SLOT] == cells[n, SLOT]:
            end += 1
        gain = works(cells, n, end, arrays)
        if arrays.restart > 0.0:
            stays = before < n and cells[before, SLOT] == cells[n, SLOT] - 1 and same(cells, before, n, n, end)
            if not stays:
                gain *= max(0.0, 1.0 - arrays.restart)
        left -= gain
        if left <= enough:
            return cells[n, SLOT], 0.0
        before, n = n, end
    return -1, left


@inner
def _covers(has: Ints, need: Ints) -> bool:
    for r in range(has.shape[0]):  # noqa: SIM110  # numba compiles no generator
        if has[r] < need[r]:
            return False
    return True


@kernel
def fastest(capacity: Ints, counts: Ints, arrays: JobArrays) -> float:
    """Samples per slot of the job alone on the empty cluster; 0 when it does not fit at all."""
    best, widest = 0.0, arrays.together.shape[1] - 1
    for on in range(arrays.together.shape[0]):
        one, machine, workers, servers, either = 0, 0, False, False, 0
        for e in range(capacity.shape[0]):
            if arrays.within[on, machine]:
                one = max(one, fits_together(capacity[e], arrays.worker, arrays.server, arrays.per_server, widest))
                worker, server = _covers(capacity[e], arrays.worker), _covers(capacity[e], arrays.server)
                workers, servers = workers or worker, servers or server
                either += counts[e] if worker or server else 0
            machine += counts[e]
        for w in range(1, one + 1):
            best = max(best, arrays.together[on, w])
        if arrays.per_server == 0 or (workers and servers and either > 1):
            for w in range(1 if arrays.per_server > 0 else 2, widest + 1):
                best = max(best, arrays.apart[on, w])
    return best


def end_of(jobs: Workload, slots: int | None, horizon: int | None) -> int:
    """The first slot in which nothing runs: `slots`, or the horizon after the last arrival."""
    return int(slots) if slots is not None else max((job.arrival for job in jobs), default=0) + int(horizon or 0)


class Execution:
    """Progress of every job, the archive of what was carried out, and the events that come."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: Workload,
        slots: int | None,
        horizon: int | None,
        calendar: Calendar | None = None,
        pace: str = SEEN,
    ) -> None:
        if slots is None and horizon is None:
            raise InputError(
                "say how far ahead is planned: slots=T (a fixed end) or horizon=N (rolling)", code="slots.missing"
            )
        for name, value in (("slots", slots), ("horizon", horizon)):
            if value is not None:
                whole_number(value, name, 1, MOST_SLOTS, code="slots.range")
        self.cluster, self.jobs, self.slots = cluster, jobs, slots
        self.end = end_of(jobs, slots, horizon)
        self.horizon = min(int(horizon or self.end), self.end)
        if self.end > MOST_SLOTS:
            latest = max(job.arrival for job in jobs)
            raise InputError(f"the last job arrives in slot {latest:,}; expected arrivals before slot {MOST_SLOTS:,}")
        if self.horizon * cluster.size > MOST_AHEAD:
            raise InputError(
                f"{self.horizon:,} slots ahead on {cluster.size:,} machines are too many to plan;"
                f" expected at most {MOST_AHEAD:,} slots times machines: a shorter horizon, or longer slots"
            )
        if pace not in PACES:
            raise unknown_name("pace", str(pace), PACES)
        if calendar is not None and not isinstance(calendar, Calendar):
            raise InputError(
                f"calendar is {calendar!r}; expected Calendar((Window(...), ...))", code="calendar.windows"
            )
        self.now, self.pace = 0, pace
        self.calendar: tuple[Blocked, ...] = () if calendar is None else calendar.on(cluster, self.end)
        self.known: tuple[Blocked, ...] = ()  # windows that policies know of
        n = len(jobs)
        self.arrays = [arrays_of(job, cluster) for job in jobs]
        self.arrival = np.array([job.arrival for job in jobs], dtype=np.int64)
        self.work = np.array([job.work for job in jobs], dtype=float)
        self.fastest = np.array([fastest(cluster.capacity, cluster.counts, arrays) for arrays in self.arrays])
        self.worth_kind = np.array([job.utility.kind for job in jobs], dtype=np.int64)
        self.worth_parameters = np.array([job.utility.parameters for job in jobs], dtype=float).reshape(n, 3)
        self.done = np.zeros(n)  # samples carried out
        self.finish = np.full(n, -1, dtype=np.int64)
        self.decisions: list[list[Decision]] = [[] for _ in jobs]
        self.cells: list[Int32s] = [NO_CELLS] * n  # not yet settled, in order of slots
        self._true = self.work * np.array([job.actual for job in jobs])
        self._last: list[Int32s] = [NO_CELLS] * n  # the placement in the last slot carried out
        self._version = np.zeros(n, dtype=np.int64)
        self._events: list[tuple[int, int, int]] = []
        self._archive: list[tuple[int, Int32s]] = []
        self._only: list[int] = []  # jobs that have cells in this slot and none after
        self.measured = np.zeros(n, dtype=bool)  # whether `work` is the true one by now
        self._starts: list[tuple[int, int]] = []  # when jobs that never ran are to begin
        self.taken: dict[int, Int32s] = {}  # job-slots that jobs lost as this slot began
        self.lost: list[Int32s] = []  # rows of a schedule: cells on machines that went away
        self.full: Ints = cluster.capacity[cluster.type_of]  # [machine, r] milli-units without a calendar
        self._usable: dict[tuple[int, ...], Ints] = {}  # by the windows that take something
        self._used: dict[str, float] = defaultdict(float)  # usage by user, as of `_used_at`
        self._used_at, self._counted = 0, 0
        self.begin()

    @property
    def shapes(self) -> list[JobArrays]:
        """The name of `arrays` in 0.1.0."""
        old_attribute("Execution.shapes", "arrays")
        return self.arrays

    # What a policy may ask.

    def left(self, j: int) -> float:
        """Samples a job still needs as far as anyone can tell, by what it stated."""
        return float(max(self.work[j] - self.done[j], 0.0))

    def value(self, j: int, start: int, end: int) -> Floats:
        """The worth of finishing job j in slots start..end-1."""
        a, b, c = self.worth_parameters[j]
        return worth_over(int(self.worth_kind[j]), a, b, c, start - int(self.arrival[j]), max(0, end - start))

    def deadline(self, j: int) -> int:
        """The first slot in which job j may no longer run by plan: its arrival and the horizon, or the end."""
        return int(min(self.end, self.arrival[j] + self.horizon))

    def hopeless(self, j: int) -> str:
        """Why a job cannot finish even alone on an empty cluster; "" when it can."""
        if self.fastest[j] <= 0.0:
            return INFEASIBLE_ALONE
        slots = self.deadline(j) - max(int(self.arrival[j]), self.now)
        return BEYOND_HORIZON if self.left(j) > slots * self.fastest[j] * (1 + ROUNDING) else ""

    def capacity(self, slot: int) -> Ints:
        """[machine, r] milli-units that jobs may have in a slot, as far as is known now; not to be written to."""
        active = tuple(k for k, window in enumerate(self.known) if window.first <= slot < window.last)
        if not active:
            return self.full
        if active not in self._usable:
            left = self.full.copy()
            for window in (self.known[k] for k in active):
                left[window.machines] -= window.amounts
            self._usable[active] = np.maximum(left, 0)
        return self._usable[active]

    def usage(self, user: str) -> float:
        """The share of what all users held until now that was this one's: dominant share x slots, half after a week."""
        half = HALF_LIFE / self.jobs.slot
        if self._used_at < self.now:
            for j in {j for _, j, version in self._events if version == self._version[j]}:
                self._settle(j)
            fade = math.exp2((self._used_at - self.now) / half)
            self._used = defaultdict(float, {name: fade * used for name, used in self._used.items()})
            for j, cells in self._archive[self._counted :]:
                held = cells[:, [2]] * self.arrays[j].worker + cells[:, [3]] * self.arrays[j].server
                first = np.flatnonzero(np.diff(cells[:, SLOT], prepend=-1))
                share = (np.add.reduceat(held, first) / np.maximum(self.cluster.total, 1.0)).max(axis=1)
                self._used[self.jobs[j].user] += float(share @ np.exp2((cells[first, SLOT] - (self.now - 1)) / half))
            self._used_at, self._counted = self.now, len(self._archive)
        everyone = sum(self._used.values())
        return self._used[user] / everyone if everyone > 0.0 else 0.0

    def before(self, j: int) -> Int32s:
        """The cells of job j in the slot just carried out, if it ran in it."""
        self._settle(j)
        last = self._last[j]
        return last if len(last) and last[0, SLOT] == self.now - 1 else NO_CELLS

    # What a policy may do.

    def assign(self, j: int, cells: Int32s) -> None:
        """Replace whatever job j had from now on: rows of slot, machine, workers and servers, in order of slots."""
        self._check(j, cells)
        self._settle(j)
        self.cells[j] = cells
        self._version[j] += 1
        if not len(cells):
            return
        if self.pace == SEEN and not self.measured[j]:
            heapq.heappush(self._starts, (int(cells[0, SLOT]), j))
        before = self.before(j)
        both = np.concatenate((before, cells)) if len(before) else cells
        left, enough = float(self._true[j] - self.done[j]), ROUNDING * float(self._true[j])
        finish, _ = carry_out(both, len(before), self.arrays[j], left, enough)
        slot = finish if finish >= 0 else int(cells[-1, SLOT])
        heapq.heappush(self._events, (slot, j, int(self._version[j])))

    def assign_now(self, jobs: Ints, cells: Int32s, first: Ints, last: Ints) -> None:
        """Give several jobs, which have nothing from now on, cells in this slot only: job k has first[k]..last[k]-1."""
        cells = cells.copy()
        cells[:, SLOT] = self.now
        several = len(self.cluster.types) > 1
        for j, start, end in zip(jobs.tolist(), first.tolist(), last.tolist(), strict=True):
            self._settle(j)
            self.cells[j] = cells[start:end]
            if several:
                self._check(j, self.cells[j])
            if self.pace == SEEN and not self.measured[j]:
                heapq.heappush(self._starts, (self.now, j))
        self._version[jobs] += 1
        self._only += jobs.tolist()

    def _check(self, j: int, cells: Int32s) -> None:
        """Refuse what cannot be carried out; what a machine cannot hold is for the certificate to find."""
        who = f"slot {self.now}: assign to job {self.jobs[j].id!r}"
        if not isinstance(cells, np.ndarray) or cells.ndim != 2 or cells.shape[1] != 4 or cells.dtype != np.int32:
            given = f"{cells.dtype} of shape {cells.shape}" if isinstance(cells, np.ndarray) else type(cells).__name__
            raise InputError(
                f"{who}: cells are {given}; expected an int32 array, a row of slot, machine, workers, servers",
                code="cells.form",
            )
        if len(cells):
            slots = cells[:, SLOT]
            if slots[0] < self.now or slots[-1] >= self.end or (slots[1:] < slots[:-1]).any():
                raise InputError(
                    f"{who}: slots {slots[0]} to {slots[-1]}; expected them in order, {self.now} to {self.end - 1}",
                    code="cells.slots",
                )
            if len(self.cluster.types) > 1:
                self._check_types(j, cells, who)

    def _check_types(self, j: int, cells: Int32s, who: str) -> None:
        """Refuse types that the job does not take, and two at once."""
        types, slots = self.cluster.machine_types.take(cells[:, MACHINE], mode="clip"), cells[:, SLOT]
        mixed = np.flatnonzero((slots[1:] == slots[:-1]) & (types[1:] != types[:-1]))
        untaken = [name for on in np.unique(types) if not self.jobs[j].takes(name := self.cluster.types[on])]
        if untaken:
            raise InputError(f"{who}: it does not take machines of type {untaken[0]!r}", code="cells.types")
        if len(mixed):
            said = f"several types of machines in slot {slots[mixed[0]]}; expected one"
            raise InputError(f"{who}: {said}", code="cells.types")

    def decide(
        self, j: int, state: str, reason: str = "", worth: float = 0.0, cost: float = 0.0, due: int | None = None
    ) -> None:
        """Write a decision down, unless it says what the last one said. `due` is the promised slot of finish."""
        if state not in STATES:
            raise unknown_name("state of a job", str(state), STATES)
        log = self.decisions[j]
        if not log or (log[-1].state, log[-1].reason) != (state, reason) or state == ADMITTED:
            log.append(Decision(self.now, state, reason, worth, cost, due))

    def state(self, j: int) -> str:
        return self.decisions[j][-1].state if self.decisions[j] else PENDING

    # What the clock does.

    def begin(self) -> list[int]:
        """The slot `now` begins. Machines that go away, as is known from now on, take whole job-slots with them; returns
        the jobs that lost some (`taken`)."""
        self.taken.clear()
        news = [window for window in self.calendar if window.known == self.now]
        self.known += tuple(news)
        gone = [window for window in news if window.sudden]
        for j in [j for j, cells in enumerate(self.cells) if len(cells)] if gone else ():
            self._settle(j)
            cells, hit = self.cells[j], np.zeros(len(self.cells[j]), dtype=bool)
            for window in gone:
                within = (cells[:, SLOT] >= window.first) & (cells[:, SLOT] < window.last)
                hit |= within & (cells[:, MACHINE] == window.machines[0])
            if hit.any():
                rest = ~np.isin(cells[:, SLOT], cells[hit, SLOT])
                self.lost.append(np.column_stack((np.full(int(hit.sum()), j, np.int32), cells[hit])))
                self.taken[j] = cells[~rest]
                self.assign(j, cells[rest])
        return list(self.taken)

    def measure(self) -> list[int]:
        """Jobs that ran for the first time in the slot just over: what they truly need is known from now on."""
        found = []
        while self._starts and self._starts[0][0] < self.now:
            slot, j = heapq.heappop(self._starts)
            cells = self.cells[j]
            ran = (len(cells) and cells[0, SLOT] == slot) or len(self._last[j])
            if ran and not self.measured[j]:
                self._settle(j)
                self.measured[j], self.work[j] = True, self._true[j]
                found.append(j)
        return found

    def close(self) -> tuple[list[int], list[int]]:
        """The slot `now` is over, and the next is now: jobs that finished in it, and jobs whose cells ran out in it."""
        ended = sorted(self._only)
        for j in ended:
            cells, self.cells[j] = self.cells[j], NO_CELLS
            self._count(j, cells, cells)
        self._only.clear()
        self.now += 1
        while self._events and self._events[0][0] < self.now:
            _, j, version = heapq.heappop(self._events)
            if version == self._version[j]:
                self._settle(j)
                ended.append(j)
        finished: list[int] = []
        unfinished: list[int] = []
        for j in ended:
            (finished if self.done[j] >= self._true[j] else unfinished).append(j)
        self.finish[finished] = self.now - 1
        return finished, unfinished

    def _settle(self, j: int) -> None:
        """Move cells of slots before now to the archive, and count their work."""
        cells = self.cells[j]
        if not len(cells) or cells[0, SLOT] >= self.now:
            return
        cut = int(np.searchsorted(cells[:, SLOT], self.now))
        past, self.cells[j] = cells[:cut], cells[cut:]
        self._count(j, past, past[past[:, SLOT] == past[-1, SLOT]])

    def _count(self, j: int, past: Int32s, last: Int32s) -> None:
        """The work of cells that were carried out, of which `last` are those of the last slot."""
        arrays, both, first = self.arrays[j], past, 0
        if arrays.restart > 0.0 and len(before := self._last[j]) and before[0, SLOT] == past[0, SLOT] - 1:
            both, first = np.concatenate((before, past)), len(before)
        missing = float(self._true[j] - self.done[j])
        _, left = carry_out(both, first, arrays, missing, ROUNDING * float(self._true[j]))
        self.done[j] = self._true[j] if left <= 0.0 else self.done[j] + (missing - left)
        self._archive.append((j, past))
        self._last[j] = last

    def over(self) -> bool:
        """Whether all have arrived and nobody is left who could still run."""
        if (self.arrival[-1:] >= self.now).any():  # of the last to come
            return False
        return all(self.finish[j] >= 0 or self.state(j) == REFUSED for j in range(len(self.jobs)))

    def schedule(self) -> Int32s:
        """All that was carried out: job, slot, machine, workers, servers; in order of job and slot."""
        for j in range(len(self.jobs)):
            self._settle(j)
        rows = (np.column_stack((np.full(len(cells), j, np.int32), cells)) for j, cells in self._archive)
        table = np.concatenate([NOWHERE, *rows])
        return table[np.lexsort((table[:, 1 + MACHINE], table[:, 1 + SLOT], table[:, 0]))]
