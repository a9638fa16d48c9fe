"""PDORS: admit a job when the cheapest schedule at posted prices costs less than finishing it is worth; promise it.

Beyond the paper: each slot the promised schedules and the waiting jobs are re-planned by large-neighbourhood search, and
what is idle is lent to waiting jobs without promise. Bad at jobs whose stated work is far off: it promises by it.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from equipoise._moved import old_attribute
from equipoise.errors import InputError, refuse_words, unknown_name, whole_number
from equipoise.kernels import Floats, Int32s
from equipoise.place.execution import ADMITTED, NO_CAPACITY, PENDING, PRICED_OUT, REFUSED, Execution, carry_out
from equipoise.place.placers._replanning import lend, search
from equipoise.place.planner import METHODS, Plan, Planner
from equipoise.place.planner.job_arrays import alone
from equipoise.place.planner.packing import NO_CELLS, ROUNDING, SLOT
from equipoise.place.prices import Fixed, Prices
from equipoise.place.prices._posted import EVERY
from equipoise.place.spec import PACKINGS

MOST_TRIES = 1_000_000
OVERTIME = 0.1  # of its stated work: what a job that should be done is thought to need yet


@dataclass(frozen=True)
class PDORS:
    """Prices and promises.

    Parameters
    ----------
    prices
        What it posts; nothing costs anything unless stated.
    packing
        How the workers of a slot are put on machines: "greedy", or "rounding", the paper's.
    replan
        Tries of re-planning in each slot.
    backfill
        Whether idle machines are lent to waiting jobs, without promise.
    label
        What it is called.
    method
        How the slots of a job are chosen: "hull", or "dynamic", the paper's.
    caution
        Plan for so many times the stated work: for jobs that often take longer than they say.
    slack
        The date promised is the latest slot that is worth at least 1 - slack of the slot planned. Re-planning may delay a
        job to its date, never beyond.
    placer
        The name of `packing` in 0.1.0.
    """

    prices: Prices = field(default_factory=Fixed)
    packing: str = "greedy"
    replan: int = 0
    backfill: bool = True
    label: str = "PDORS"
    method: str = "hull"
    caution: float = 1.0
    slack: float = 0.0
    placer: InitVar[str | None] = None
    colour: ClassVar[str] = "#2563eb"
    rank: ClassVar[int] = 1
    promises: ClassVar[bool] = True
    family: ClassVar[str] = "pdors"
    settings: ClassVar[tuple[str, ...]] = ("prices", "packing", "replan", "backfill", "caution", "slack")

    def __post_init__(self, placer: str | None) -> None:
        if placer is not None:
            old_attribute("PDORS(placer=)", "PDORS(packing=)")
            object.__setattr__(self, "packing", placer)
        for what, given, known in (("packing", self.packing, PACKINGS), ("method", self.method, METHODS)):
            if given not in known:
                raise unknown_name(what, str(given), known)
        whole_number(self.replan, "PDORS: replan", 0, MOST_TRIES, code="replan.range")
        refuse_words("PDORS", caution=self.caution, slack=self.slack)
        if not 0.0 <= self.slack <= 1.0:
            raise InputError(
                f"PDORS: slack is {self.slack!r}; expected a part of a job's worth, 0 to 1", code="slack.range"
            )
        if not 0.1 <= self.caution <= 10.0:
            raise InputError(
                f"PDORS: caution is {self.caution!r}; expected times the stated work, 0.1 to 10", code="caution.range"
            )
        if not hasattr(self.prices, "post"):
            raise InputError(
                f"PDORS: prices is {self.prices!r}; expected prices.Replay(history), prices.Fixed(...) or the like",
                code="prices.type",
            )

    def start(self, run: Execution, seed: int) -> PDORSSession:
        return PDORSSession(self, run, seed)


class PDORSSession:
    def __init__(self, policy: PDORS, run: Execution, seed: int) -> None:
        self.policy, self.run = policy, run
        self.posted = policy.prices.post(run, policy)
        self.window = run.horizon
        self.level, self.looked = 1.0, 0  # of prices that follow the load, and when they last did
        if self.posted.load is not None:
            self.level = self.posted.load.at(0)
        base = self.level * self.posted.rows(0, self.window)
        self.planner = _planner(policy, run, seed, self.posted.growth, base)
        self.random = np.random.default_rng([seed, 7])
        self.promised: dict[int, Plan] = {}  # unfinished, with their schedules
        self.due: dict[int, int] = {}  # of every job ever promised: the slot it is finished by
        self.waiting: dict[int, None] = {}  # in order of arrival
        self._blocked = -1, 0  # the last slot, and the windows known, of the calendar as the planner has it
        both = zip(run.jobs, run.arrays, strict=True)
        self.width = np.array([min(job.requested or arrays.widest, arrays.widest) for job, arrays in both])
        workers = [arrays.worker for arrays in run.arrays]
        self.demand = np.array(workers, dtype=np.int64).reshape(len(workers), len(run.cluster.resources))
        pairs = list(zip(run.arrays, self.width.tolist(), strict=True))
        rates = [alone(arrays, run.cluster)[1][width] for arrays, width in pairs]
        self.speed = np.array([rate or 1e-300 for rate in rates])  # samples per slot, on one machine if it can be
        total = np.maximum(run.cluster.total, 1.0)
        shares = [float((arrays.held(width) / total).max()) for arrays, width in pairs]
        self.share = np.array([share or 1.0 for share in shares])  # dominant, of the cluster
        self.detail: dict[str, Any] = {
            "prices": self.posted.note,
            "posted": {"base": self.posted.base.tolist(), "growth": self.posted.growth.tolist()},
        }

    def _tick(self) -> None:
        """Bring the planner's ring to this slot."""
        now, planner = self.run.now, self.planner
        if planner.now < now:
            planner.advance(now)
            if self.posted.load is not None and now - self.looked >= EVERY:
                self.level, self.looked = self.posted.load.at(now), now
                planner.occupancy.base[:] = self.level * self.posted.rows(now, self.window)
            if len(self.posted.base) > 1 or len(self.posted.lead) > 1:
                rows = self.level * self.posted.rows(now, self.window)
                planner.occupancy.base[np.arange(now, now + self.window) % self.window] = rows
        if self.run.calendar:
            self._block()

    def _block(self) -> None:
        """Keep from the planner what the calendar takes: in slots that came into view, and in all when there is news."""
        run, (until, known) = self.run, self._blocked
        self._blocked = run.now + self.window - 1, len(run.known)
        for t in range(run.now if known < len(run.known) else max(run.now, until + 1), self._blocked[0] + 1):
            if (usable := run.capacity(t)) is not run.full:
                self.planner.block(t, run.full - usable)

    def arrive(self, job: int) -> None:
        self._tick()
        why = self.run.hopeless(job)
        if why:
            self.run.decide(job, REFUSED, why)
            return
        why = self.offer(job)
        if why:
            waits = self.policy.backfill or self.policy.replan > 0
            self.run.decide(job, PENDING if waits else REFUSED, why)
            if waits:
                self.waiting[job] = None

    def offer(self, job: int, *, floor: float = 0.0) -> str:
        """Admit the job if it pays; else why not."""
        covered, plan = self.best(job, floor=floor)
        if plan is None:
            return PRICED_OUT if covered else NO_CAPACITY
        self.admit(job, plan)
        return ""

    def best(self, job: int, *, floor: float = 0.0) -> tuple[bool, Plan | None]:
        """The best schedule of a job from now on that pays more than `floor`; of a promised one, in time for its date."""
        run = self.run
        start, end = run.now, self.due[job] + 1 if job in self.promised else run.deadline(job)
        if end <= start:
            return False, None
        before = run.before(job)  # counts what was carried out: first, or more would be planned than is left
        stated = float(run.work[job])
        work = (1.0 if run.measured[job] else self.policy.caution) * stated - float(run.done[job])
        if work <= 0.0:
            work = OVERTIME * stated
        value = run.value(job, start, end)
        return self.planner.plan(run.arrays[job], value, work, start, end, floor=floor, before=before)

    def worth_trying(self, job: int) -> bool:
        """Whether a waiting job could still finish in time by plan."""
        run = self.run
        return bool(run.left(job) <= (run.deadline(job) - run.now) * run.fastest[job])

    def admit(self, job: int, plan: Plan) -> None:
        self.planner.take(self.run.arrays[job], plan.cells)
        self.settle(job, plan)

    def settle(self, job: int, plan: Plan) -> None:
        """Promise a schedule whose cells are taken."""
        self.run.assign(job, plan.cells)
        if job not in self.promised:
            date = self.due.setdefault(job, self.date(job, plan))  # a date once given is not taken back
            worth = self.run.jobs[job].utility(date - int(self.run.arrival[job]))
            self.run.decide(job, ADMITTED, worth=worth, cost=plan.cost, due=date)
        self.promised[job] = plan
        self.waiting.pop(job, None)

    def date(self, job: int, plan: Plan) -> int:
        """The latest slot that is worth what the slot planned is, less the slack."""
        value = self.run.value(job, plan.last, self.run.deadline(job))
        return plan.last + int(np.flatnonzero(value >= (1.0 - self.policy.slack) * value[0])[-1])

    def ahead(self, job: int) -> Int32s:
        """Cells of a job from this slot on."""
        cells = self.run.cells[job]
        return cells[np.searchsorted(cells[:, SLOT], self.run.now) :] if len(cells) else NO_CELLS

    def slot(self) -> None:
        self._tick()
        if self.policy.replan:
            search(self, self.policy.replan)
        if self.policy.backfill:
            lend(self)

    def finished(self, job: int) -> None:
        self._tick()
        self.planner.release(self.run.arrays[job], self.ahead(job))
        self.run.assign(job, NO_CELLS)
        self.promised.pop(job, None)
        self.waiting.pop(job, None)

    def unfinished(self, job: int) -> None:
        """A promised job that took longer than stated is planned on."""
        self._tick()
        if job in self.promised:
            self._plan_on(job, beyond=0.0 if self.run.measured[job] else -math.inf)

    def lost(self, jobs: list[int]) -> None:
        """Promised jobs that lost cells to a machine are planned on, the earliest date first."""
        for job in jobs:
            self.planner.release(self.run.arrays[job], self.run.taken[job])
        self._tick()
        jobs = sorted((job for job in jobs if job in self.promised), key=lambda job: self.due[job])
        for job in jobs:
            self._give_back(job, NO_CELLS)
        for job in jobs:
            self._plan_on(job, beyond=-math.inf)

    def measured(self, job: int) -> None:
        """A promised job that is shorter than planned gives back what it does not need; a longer one is planned on."""
        self._tick()
        run, cells = self.run, self.ahead(job)
        if job not in self.promised or run.work[job] == self.policy.caution * run.jobs[job].work:
            return
        before = run.before(job)
        both = np.concatenate((before, cells)) if len(before) else cells
        finish, _ = carry_out(both, len(before), run.arrays[job], run.left(job), ROUNDING * run.work[job])
        if finish < 0:
            self._give_back(job, NO_CELLS)
            self._plan_on(job, beyond=0.0)
            return
        kept = cells[cells[:, SLOT] <= finish]
        self._give_back(job, kept)
        worth = run.jobs[job].utility(finish - int(run.arrival[job]))
        self.promised[job] = replace(self.promised[job], cells=kept, worth=worth)

    def _give_back(self, job: int, kept: Int32s) -> None:
        """Release what a job has ahead, but for some of it."""
        arrays = self.run.arrays[job]
        self.planner.release(arrays, self.ahead(job))
        self.planner.take(arrays, kept)
        self.run.assign(job, kept)

    def _plan_on(self, job: int, beyond: float) -> None:
        """Plan a promised job that has nothing: to its date at any cost, else beyond if that pays more than `beyond`."""
        _, plan = self.best(job, floor=-math.inf)
        if plan is None:
            del self.promised[job]
            covered, plan = self.best(job, floor=beyond)
        if plan is not None:
            self.admit(job, plan)
        else:
            self.run.decide(job, PENDING, PRICED_OUT if covered else NO_CAPACITY)
            self.waiting[job] = None


def _planner(policy: PDORS, run: Execution, seed: int, growth: Floats, base: Floats) -> Planner:
    """The planner with the policy's way of placing."""
    if policy.packing == "rounding":
        from equipoise.place.planner.rounding import RoundingPlanner

        return RoundingPlanner(run.cluster, run.horizon, growth, base, seed=seed)
    return Planner(run.cluster, run.horizon, growth, base, method=policy.method)
