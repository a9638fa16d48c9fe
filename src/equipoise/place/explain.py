"""Why a job was treated as it was: the run is replayed to its arrival, and the policy's own planner is asked.

What its owner could change so that it would have been promised: the changed job arrives on a copy of the run. Of PDORS also
the prices met, the best schedule at them though it was refused, and the earliest start and finish that had room.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from equipoise._moved import old_attribute
from equipoise.document import plain
from equipoise.errors import InputError, unknown_name
from equipoise.kernels import Int32s, Ints
from equipoise.place.cluster import Cluster
from equipoise.place.execution import ADMITTED, REASONS, REFUSED, Decision, Execution
from equipoise.place.explanation import Ask, Change, Form, Missing, changes_of, missing, ways_of, words_of
from equipoise.place.placers.pdors import PDORSSession
from equipoise.place.planner import Plan, Planner
from equipoise.place.planner.job_arrays import JobArrays
from equipoise.place.planner.packing import MACHINE, SERVERS, SLOT, WORKERS
from equipoise.place.simulate import Result, Session, simulate
from equipoise.units import MILLI

JOB = 0  # column of a schedule; those of a cell follow


@dataclass(frozen=True)
class Price:
    """A resource as the job met it: utility per unit and slot, what it would cost in all, how full the cluster was."""

    resource: str
    price: float
    cost: float
    full: float  # of the whole cluster, 0 to 1, in the slots of the best schedule, or of its window when there is none


@dataclass(frozen=True)
class Stretch:
    """Slots first..last (included) with the same workers and servers on the same machines."""

    first: int
    last: int
    workers: int
    servers: int
    machines: tuple[str, ...]


@dataclass(frozen=True)
class Schedule:
    """The best schedule at the prices of the moment, whether it paid or not."""

    first: int
    last: int
    slots: int  # in which it runs
    worth: float
    cost: float
    payoff: float
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Explanation:
    """One job of one run. Slots are counted from 0; None where there is nothing to say."""

    job: str
    policy: str
    arrival: int
    told: tuple[Decision, ...]
    reason: str  # why it was not promised on arrival: one of REASONS, or ""
    finish: int | None
    utility: float
    # What happened, from the schedule.
    first_run: int | None
    waited: int  # slots from its arrival to its first, or to the end
    ran: int  # slots
    pauses: int  # times it was put aside: ran in a slot, not in the next, and was not done
    ahead: int  # unfinished jobs that were here before it
    running: int  # of them, those that ran in the slot of its arrival
    overtook: int  # jobs that came later and ran while it waited
    taken: Mapping[str, float]  # share of the cluster held while it waited, or in its first slot when it did not
    held_promised: int  # by so many promised jobs
    held_others: int  # and so many without promise
    # What could have been.
    alone: int | None  # slots it needs on an empty cluster; None: it does not fit
    window: int  # slots it had
    missing: tuple[Missing, ...]
    earliest_start: int | None = None  # the first slot with room for a worker (and its server)
    earliest_finish: int | None = None  # as fast as the room allowed on arrival, prices aside; promising policies only
    prices: tuple[Price, ...] = ()
    best: Schedule | None = None
    changes: tuple[Change, ...] = ()  # of each kind the least with which it would have been promised
    tried: bool = False  # whether any were looked for

    @property
    def smaller(self) -> Change | None:
        """The first of `changes`: the name of 0.1.0."""
        old_attribute("Explanation.smaller", "Explanation.changes")
        return self.changes[0] if self.changes else None

    def as_dict(self) -> dict[str, object]:
        """Plain values, as JSON has them."""
        return cast("dict[str, object]", plain(asdict(self)))

    def text(self) -> str:
        """A few lines for the terminal."""
        return words_of(self)


def explain(result: Result, job_id: str) -> Explanation:
    """Why a job was admitted, lent to, kept waiting or refused, and what would have helped.

    Parameters
    ----------
    result
        The run; it is played again up to the job's arrival.
    job_id
        The job's id.
    """
    index = {job.id: j for j, job in enumerate(result.jobs)}
    if str(job_id) not in index:
        near = difflib.get_close_matches(str(job_id), index, n=5, cutoff=0.5) if len(index) < 100_000 else []
        raise unknown_name("job", str(job_id), near or list(index)[:5])  # not all: a trace has tens of thousands
    j = index[str(job_id)]
    job, log = result.jobs[j], result.decisions[j]
    alone = Execution(result.cluster, result.jobs[j : j + 1], result.end, result.horizon, result.calendar)
    speed = float(alone.fastest[0])
    window = max(0, min(result.end - job.arrival, result.horizon or result.end))
    seen = _replay(result, j, window)
    if "best" not in seen:  # no planner could be asked
        seen["earliest_start"] = _hindsight(result, j, alone)
    finish = int(result.finish[j])
    return Explanation(
        job=job.id,
        policy=result.policy.label,
        arrival=job.arrival,
        told=tuple(log),
        reason=log[0].reason if log and log[0].reason in REASONS else "",
        finish=finish if finish >= 0 else None,
        utility=float(result.utilities[j]),
        **_happened(result, j),
        alone=math.ceil(job.work / speed * (1 - 1e-9)) if speed > 0.0 else None,
        window=window,
        missing=missing(job, result.cluster) if speed <= 0.0 else (),
        **seen,
    )


# The replay.


class _Stop(Exception):
    """All is seen."""


def _replay(result: Result, j: int, window: int) -> dict[str, Any]:
    """The run again, up to the moment just before job j arrived: fields of an Explanation. Its other forms are in the
    workload beside it, so that any policy knows them; they arrive on copies only."""
    job, log = result.jobs[j], result.decisions[j]
    promises = getattr(result.policy, "promises", False)
    told = log[0].state if log else ""
    tried = window > 0 and (told != ADMITTED if promises else told == REFUSED)
    seen: dict[str, Any] = {"tried": tried}
    if window <= 0 or not (promises or tried):
        return seen
    ways = ways_of(job, result.cluster, window) if tried else []
    forms = [form for way in ways for form in way.forms]
    others = [job.but(**form.changes, id=f"{job.id}, form {k}") for k, form in enumerate(forms)]
    jobs = replace(result.jobs, jobs=(*result.jobs[: j + 1], *others, *result.jobs[j + 1 :]))

    def watch(run: Execution, session: Session, arriving: int) -> None:
        if arriving == j:
            _same_run(result, run, j)
            number = {id(form): j + 1 + k for k, form in enumerate(forms)}
            seen["changes"] = changes_of(ways, _by_arrival(result, run, session, number))
            if isinstance(session, PDORSSession):
                seen.update(_planned(run, session, j))
            raise _Stop

    with contextlib.suppress(_Stop):
        ends: dict[str, Any] = {"slots": result.slots, "horizon": result.horizon, "seed": result.seed}
        simulate(result.cluster, jobs, result.policy, **ends, watch=watch, calendar=result.calendar, pace=result.pace)
    return seen


def _by_arrival(result: Result, run: Execution, session: Session, number: dict[int, int]) -> Ask:
    """Let a form of the job (its number in the run, by the form's id) arrive on a copy, and read what it is told."""
    kept = [result.policy, run.cluster, run.jobs, *run.arrays, *run.cells, *(d for log in run.decisions for d in log)]
    promises = getattr(result.policy, "promises", False)

    def ask(form: Form) -> tuple[float | None, int | None] | None:
        memo: dict[int, object] = {id(one): one for one in kept}  # nobody changes these: not copied
        memo[id(run._archive)] = list(run._archive)  # its rows neither
        j, why = number[id(form)], ""
        try:
            there, asked = copy.deepcopy((run, session), memo)
        except TypeError as error:
            why = str(error)
        else:
            asked.arrive(j)
            why = "what it does reaches the run it was copied from" if run.decisions[j] else ""
        if why:
            raise InputError(
                f"{result.policy.label}: its session cannot be copied ({why}), and explain tries other forms of the job "
                "on copies; give it a __deepcopy__",
                code="policy.copy",
            )
        if not there.decisions[j]:
            asked.slot()
        told = there.decisions[j][-1] if there.decisions[j] else None
        if not promises:
            return None if told is not None and told.state == REFUSED else (None, None)
        return (told.worth - told.cost, told.due) if told is not None and told.state == ADMITTED else None

    return ask


def _same_run(result: Result, run: Execution, j: int) -> None:
    for i in range(j):
        log = run.decisions[i]
        if tuple(log) != result.decisions[i][: len(log)]:
            raise InputError(
                f"this run does not repeat: job {result.jobs[i].id!r} is told something else. explain needs a policy that "
                "decides the same from the same seed",
                code="policy.repeat",
            )


def _planned(run: Execution, session: PDORSSession, j: int) -> dict[str, Any]:
    """What its own planner says: the first room, the prices, and the best schedule though it may not pay."""
    start, end = int(run.arrival[j]), run.deadline(j)
    session._tick()
    planner, arrays = session.planner, session.run.arrays[j]
    soonest = quickest(planner, arrays, float(run.work[j]), start, end)
    _, plan = session.best(j, floor=-math.inf)
    return {
        "earliest_start": next((t for t in range(start, end) if fits_one(planner, t, arrays)), None),
        "earliest_finish": soonest.last if soonest is not None else None,
        "best": schedule_of(plan, run.cluster) if plan is not None else None,
        "prices": prices_met(planner, arrays, plan, start, end),
    }


def fits_one(planner: Planner, t: int, arrays: JobArrays) -> bool:
    cluster = planner.cluster
    return _room_for_one(cluster.capacity[cluster.type_of] - planner.used(t), arrays)


def _room_for_one(free: Ints, arrays: JobArrays) -> bool:
    """Whether one worker, with a server if it needs one, finds room: on one machine or on two of a type."""
    for on in arrays.taken:
        own = free[arrays.within[on]]
        worker = np.all(own >= arrays.worker, axis=1)
        server = np.all(own >= arrays.server, axis=1)
        both = worker & (not arrays.per_server) | np.all(own >= arrays.worker + arrays.server, axis=1)
        if both.any() or (worker.any() and server.any() and (worker | server).sum() > 1):
            return True
    return False


def quickest(planner: Planner, arrays: JobArrays, work: float, start: int, end: int) -> Plan | None:
    """The schedule that ends first with all room for the taking."""
    if end <= start or arrays.widest == 0:
        return None
    free = copy.copy(planner)
    free.occupancy = planner.occupancy._replace(base=np.zeros_like(planner.occupancy.base))
    sooner = np.arange(end - start, 0, -1, dtype=float)
    return free.plan(arrays, sooner, work, start, end, floor=-math.inf)[1]


def schedule_of(plan: Plan, cluster: Cluster) -> Schedule:
    cells = plan.cells
    slots = np.unique(cells[:, SLOT])
    stretches: list[Stretch] = []
    for t in slots.tolist():
        here = cells[cells[:, SLOT] == t]
        machines = tuple(cluster.names[h] for h in sorted(here[:, MACHINE].tolist()))
        one = Stretch(t, t, int(here[:, WORKERS].sum()), int(here[:, SERVERS].sum()), machines)
        same = stretches and stretches[-1].last == t - 1 and replace(stretches[-1], first=t, last=t) == one
        stretches.append(replace(one, first=stretches.pop().first) if same else one)
    return Schedule(
        int(slots[0]), plan.last, len(slots), float(plan.worth), float(plan.cost), float(plan.payoff), tuple(stretches)
    )


def prices_met(planner: Planner, arrays: JobArrays, plan: Plan | None, start: int, end: int) -> tuple[Price, ...]:
    """Over the cells of the schedule, by amount; without one, over all machines and slots of the window."""
    cluster, occupancy = planner.cluster, planner.occupancy
    capacity = cluster.capacity[cluster.type_of]
    slots = np.unique(plan.cells[:, SLOT]).tolist() if plan is not None else list(range(start, end))
    count = len(cluster.resources)
    full, paid, amount = np.zeros(count), np.zeros(count), np.zeros(count)
    total = np.where(cluster.total > 0, cluster.total, 1.0)
    for t in slots:
        used = planner.used(t)
        full += used.sum(axis=0) / total / len(slots)
        share = np.divide(used, capacity, out=np.zeros(capacity.shape), where=capacity > 0)
        price = occupancy.base[t % planner.window] * np.exp(occupancy.growth * share)
        if plan is None:
            paid += np.where(capacity > 0, price * capacity, 0.0).sum(axis=0)
            amount += cluster.total
            continue
        for _, h, w, s in plan.cells[plan.cells[:, SLOT] == t].tolist():
            need = w * arrays.worker + s * arrays.server
            paid += need * price[h]
            amount += need
    asked = arrays.worker + arrays.server > 0
    return tuple(
        Price(name, float(paid[r] / amount[r] * MILLI), float(paid[r]) if plan is not None else 0.0, float(full[r]))
        for r, name in enumerate(cluster.resources)
        if asked[r] and amount[r] > 0
    )


# What happened, from the schedule alone.


def _happened(result: Result, j: int) -> dict[str, Any]:
    job, rows = result.jobs[j], result.schedule
    slots = np.unique(rows[rows[:, JOB] == j, 1 + SLOT])
    first = int(slots[0]) if len(slots) else None
    refused = bool(result.decisions[j]) and result.states[j] == REFUSED
    until = first if first is not None else (job.arrival if refused else result.end)
    finish = int(result.finish[j])
    pauses = int((np.diff(slots) > 1).sum()) + int(len(slots) > 0 and finish < 0 and slots[-1] < result.end - 1)
    here = [
        i
        for i in range(j)
        if not (result.decisions[i] and result.decisions[i][0].state == REFUSED)
        and (result.finish[i] < 0 or result.finish[i] >= job.arrival)
    ]
    at_arrival = set(rows[rows[:, 1 + SLOT] == job.arrival, JOB].tolist())
    last = max(until, job.arrival + 1)  # the slot of arrival where there was no wait
    meanwhile = rows[(rows[:, 1 + SLOT] >= job.arrival) & (rows[:, 1 + SLOT] < last) & (rows[:, JOB] != j)]
    holders = sorted(set(meanwhile[:, JOB].tolist()))
    promised = sum(any(d.state == ADMITTED and d.slot < last for d in result.decisions[i]) for i in holders)
    return {
        "first_run": first,
        "waited": max(0, until - job.arrival),
        "ran": len(slots),
        "pauses": pauses,
        "ahead": len(here),
        "running": len(at_arrival & set(here)),
        "overtook": sum(i > j for i in holders) if until > job.arrival else 0,
        "taken": _taken(result, meanwhile, last - job.arrival),
        "held_promised": promised,
        "held_others": len(holders) - promised,
    }


def _taken(result: Result, rows: Int32s, slots: int) -> dict[str, float]:
    """The mean share of every resource that some rows hold."""
    held, total = result.jobs.held(rows, result.cluster.resources, int).sum(axis=0, dtype=float), result.cluster.total
    share = np.divide(held, total * slots, out=np.zeros(len(total)), where=total > 0)
    return dict(zip(result.cluster.resources, share.tolist(), strict=True))


def _hindsight(result: Result, j: int, alone: Execution) -> int | None:
    """The first slot from its arrival in which what the others really held, and the calendar, left room for one worker."""
    arrays, arrival, rows = alone.arrays[0], result.jobs[j].arrival, result.schedule
    alone.known = alone.calendar
    rows = rows[(rows[:, 1 + SLOT] >= arrival) & (rows[:, JOB] != j)]
    rows = rows[np.argsort(rows[:, 1 + SLOT], kind="stable")]
    held = result.jobs.held(rows, result.cluster.resources, int)
    bounds = np.searchsorted(rows[:, 1 + SLOT], np.arange(arrival, result.end + 1))
    for slot, first, last in zip(range(arrival, result.end if arrays.widest else 0), bounds, bounds[1:], strict=False):
        free = alone.capacity(slot).copy()
        np.subtract.at(free, rows[first:last, 1 + MACHINE], held[first:last])
        if _room_for_one(free, arrays):
            return slot
    return None
