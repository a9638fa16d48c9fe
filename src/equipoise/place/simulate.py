"""Run one policy over the arrivals of a workload: the main loop, and what came out of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from equipoise import result as results
from equipoise._moved import old_attribute
from equipoise.certificate import Certificate
from equipoise.document import Document, look_of
from equipoise.errors import InputError, whole_number
from equipoise.kernels import Floats, Int32s, Ints
from equipoise.place.calendar import Calendar
from equipoise.place.cluster import Cluster
from equipoise.place.execution import ADMITTED, BEYOND_HORIZON, LENT, NOWHERE, PENDING, REFUSED, Decision, Execution
from equipoise.place.job import Job, Workload
from equipoise.place.slowdown import Alone, Waits, stated
from equipoise.place.spec import SEEN

Progress = Callable[[int, int], None]  # slots passed, slots in all
Watch = Callable[[Execution, "Session", int], None]  # sees the run and the policy at work just before a job arrives


class Session(Protocol):
    """A policy at work on one run."""

    def arrive(self, job: int) -> None:
        """A job is here; decide about it (`run.decide`), and if it may run give it cells (`run.assign`)."""

    def slot(self) -> None:
        """All arrivals of this slot are in: last changes before it is carried out."""

    def finished(self, job: int) -> None:
        """A job is done; what it still had is free from the next slot on (`run.cells[job]`)."""

    def unfinished(self, job: int) -> None:
        """A job's cells ran out and it is not done: it was more work than it said, or was only lent to."""

    # A session may have two more methods: lost(jobs), before the arrivals of a slot in which a machine went away and took
    # what they had on it (`run.taken`), and measured(job), after the first slot in which a job ran (`run.work` is true).


class Placer(Protocol):
    """Anything that can be simulated."""

    @property
    def label(self) -> str: ...

    @property
    def colour(self) -> str: ...

    def start(self, run: Execution, seed: int) -> Session: ...


@dataclass(frozen=True)
class Result(results.Result):
    """One policy on one workload. `schedule` rows: job index, slot, machine, workers, servers."""

    policy: Placer
    cluster: Cluster
    jobs: Workload
    slots: int | None
    horizon: int | None
    seed: int
    end: int
    schedule: Int32s
    finish: Ints  # slot, -1: not finished
    decisions: tuple[tuple[Decision, ...], ...]
    seconds: float = field(compare=False)  # of deciding, in all
    detail: dict[str, Any] = field(default_factory=dict)
    calendar: Calendar | None = None
    pace: str = SEEN
    lost: Int32s = field(default_factory=lambda: NOWHERE)  # rows as of a schedule: what machines that went away took

    @cached_property
    def utilities(self) -> Floats:
        """What each job earned."""
        both = zip(self.jobs, self.finish, strict=True)
        return np.array([job.utility(slot - job.arrival) if slot >= 0 else 0.0 for job, slot in both])

    @property
    def utility(self) -> float:
        return float(self.utilities.sum())

    @property
    def completed(self) -> int:
        return int((self.finish >= 0).sum())

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The last thing each job was told: admitted, lent, pending or refused."""
        return tuple(log[-1].state if log else PENDING for log in self.decisions)

    @property
    def admitted(self) -> int:
        """Jobs that were promised completion at some time."""
        return sum(any(d.state == ADMITTED for d in log) for log in self.decisions)

    def due(self, j: int) -> int | None:
        """The slot by which a job was first promised to be finished; None: it was promised no date."""
        return next((d.due for d in self.decisions[j] if d.state == ADMITTED), None)

    @cached_property
    def broken(self) -> dict[int, str]:
        """By whom the promise of each job that was told a date was broken: "" (kept), statement, machine or us."""
        from equipoise.place.verify_promises import broken

        return broken(self)

    @cached_property
    def waits(self) -> Waits:
        """What the jobs went through: slowdown, in time or not, finish-time fairness."""
        alone = self.detail.get("alone")
        if alone is None:
            alone = Alone.of(Execution(self.cluster, self.jobs, self.slots, self.horizon))
        return Waits.of(self.jobs, self.finish, self.end, alone)

    @cached_property
    def users(self) -> list[dict[str, Any]]:
        """A row for each user that jobs state, as `row`, with the jobs of each; empty where none does."""
        users = np.array([job.user for job in self.jobs])
        rows = []
        for user in sorted({*users.tolist()} - {""}):
            which = users == user
            counts = {"jobs": int(which.sum()), "completed": int((self.finish[which] >= 0).sum())}
            rows.append({"policy": self.policy.label, "user": user} | counts | self.waits.row(which))
        return rows

    @cached_property
    def reasons(self) -> dict[str, int]:
        """Why jobs that never finished did not: the last reason each was told, counted."""
        unfinished = np.flatnonzero(self.finish < 0).tolist()
        return dict(Counter(self.outcome(j)["reason"] or "unfinished" for j in unfinished))

    @cached_property
    def completion(self) -> Floats:
        """Hours from arrival to the end of the slot of finish, of the completed jobs."""
        arrival = np.array([job.arrival for job in self.jobs])
        done = self.finish >= 0
        return np.asarray((self.finish[done] - arrival[done] + 1) * self.jobs.slot / 3600.0)

    def hours(self, resource: str) -> float:
        """Unit-hours of a resource that the schedule held."""
        if resource not in self.cluster.resources:
            return 0.0
        held = self.jobs.held(self.schedule, (resource,))[:, 0]
        return float(held.sum() / 1000.0 * self.jobs.slot / 3600.0)

    def outcome(self, j: int) -> dict[str, Any]:
        """What became of a job; finish is a slot, None if it was never done, and then `reason` the last it was told. `due`
        is the slot promised, `broken` by whom it was not kept: statement (its own), machine or us."""
        job, finish = self.jobs[j], int(self.finish[j])
        reason = "" if finish >= 0 else next((d.reason for d in reversed(self.decisions[j]) if d.reason), "")
        told = {"job": job.id, "arrival": job.arrival, "state": self.states[j], "reason": reason}
        told |= {"finish": None if finish < 0 else finish, "utility": float(self.utilities[j])}
        told |= {"due": self.due(j), "broken": self.broken.get(j) or None}
        return told | {"user": job.user or None, "priority": job.priority}

    @cached_property
    def bound(self) -> float | None:
        """The LP bound on the utility, when it was asked for (`with_bound`)."""
        return self.detail.get("bound")

    @property
    def row(self) -> dict[str, Any]:
        """Plain numbers of the run; completion times in hours, `unfair` the share of jobs above 1."""
        hours = self.completion
        some = len(hours) > 0
        told = ((log, job.arrival) for log, job in zip(self.decisions, self.jobs, strict=True))
        by = list(self.broken.values())
        return {
            "policy": self.policy.label,
            "completed": self.completed,
            **self.waits.row(),
            "promised_on_arrival": sum(any(d.state == ADMITTED and d.slot == at for d in log) for log, at in told),
            **{f"broken_by_{who}": by.count(who) for who in ("us", "machine", "statement")},
            "utility": self.utility,
            "admitted": self.admitted,
            "bound": self.bound,
            "mean_completion": float(hours.mean()) if some else None,
            "median_completion": float(np.median(hours)) if some else None,
            "p99_completion": float(np.percentile(hours, 99)) if some else None,
            "gpu_hours": self.hours("gpu"),
            "seconds_per_decision": self.seconds / max(1, len(self.jobs)),
        }

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: the row, every job's outcome, every slot, and who sat where."""
        from equipoise.place.tables import allocation_rows, machine_rows, outcome_rows, slot_rows

        label = self.policy.label
        result = {"policy": label, "jobs": len(self.jobs), "slot": float(self.jobs.slot), "end": self.end}
        result |= {"stated": stated(self.jobs), "rows": [self.row], "users": self.users, "reasons": self.reasons}
        tables = {"outcomes": outcome_rows(self), "history": slot_rows(self), "allocations": allocation_rows(self)}
        tables["machines"] = machine_rows(self.cluster)
        config = {"policy": label, "slots": self.slots, "horizon": self.horizon, "seed": self.seed}
        certificate = self.certificate() if certify else None
        return Document("place run", result, certificate, config, tables, looks={label: look_of(self.policy)})

    def certificate(self) -> Certificate:
        """Everything recomputed from the schedule alone."""
        from equipoise.place.verify import verify

        return verify(self)


def simulate(
    cluster: Cluster,
    jobs: Iterable[Job],
    policy: Placer,
    *,
    slots: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    watch: Watch | None = None,
    calendar: Calendar | None = None,
    pace: str = SEEN,
) -> Result:
    """Let the policy decide, arrival by arrival and slot by slot; carry out what it decides.

    Parameters
    ----------
    cluster
        The machines.
    jobs
        A Workload, or jobs in any order.
    policy
        Who decides: a placer.
    slots
        A fixed end. One of `slots` and `horizon` is needed.
    horizon
        A rolling one: a job is planned within so many slots of its arrival, and the run ends so many slots after the
        last arrival.
    seed
        Of what a placer draws.
    progress
        Called with slots passed and slots in all.
    watch
        Called with the execution, the session and the job just before a job arrives.
    calendar
        What jobs may not have, and when: reservations, maintenance, machines that end or fail.
    pace
        "seen": the true work of a job is known after the first slot in which it ran; "unseen": when it is done.
    """
    if not isinstance(cluster, Cluster):
        raise InputError(f"simulate: cluster is {type(cluster).__name__}; expected simulate(cluster, jobs, policy)")
    if isinstance(policy, type) or not callable(getattr(policy, "start", None)):
        name = policy.__name__ if isinstance(policy, type) else repr(policy)
        raise InputError(f"simulate: policy is {name}; expected a policy object, as placers.SRTF()")
    whole_number(seed, "simulate: seed", 0)
    workload = Workload.of(jobs)
    run = Execution(cluster, workload, slots, horizon, calendar, pace)
    if workload.durations is not None:
        run.work *= workload.durations.planned(workload, promises=getattr(policy, "promises", False))
    session = _session_of(policy, run, seed)
    over, seconds = False, 0.0
    while run.now < run.end and not over:
        began = time.perf_counter()
        _admit(run, session, watch)
        session.slot()
        seconds += time.perf_counter() - began
        over = _execute(run, session)
        if progress is not None:
            progress(run.now, run.end)
    run.now = run.end
    for job in np.flatnonzero(run.arrival >= run.end).tolist():
        run.decide(job, REFUSED, BEYOND_HORIZON)
    return Result(
        policy=policy,
        cluster=cluster,
        jobs=workload,
        slots=slots,
        horizon=horizon,
        seed=seed,
        end=run.end,
        schedule=run.schedule(),
        finish=run.finish.copy(),
        decisions=tuple(tuple(log) for log in run.decisions),
        seconds=seconds,
        detail=getattr(session, "detail", {}),
        calendar=calendar,
        pace=pace,
        lost=np.concatenate([NOWHERE, *run.lost]),
    )


def _session_of(policy: Placer, run: Execution, seed: int) -> Session:
    """The policy at work, refused if it lacks a method."""
    session = policy.start(run, seed)
    if not hasattr(session, "unfinished") and hasattr(session, "stranded"):
        old_attribute("Session.stranded", "unfinished")
        session.unfinished = session.stranded  # type: ignore[method-assign]
    for method in ("arrive", "slot", "finished", "unfinished"):
        if not callable(getattr(session, method, None)):
            given = type(session).__name__
            raise InputError(f"{type(policy).__name__}.start gave {given}, which has no method {method}")
    return session


def _admit(run: Execution, session: Session, watch: Watch | None) -> None:
    """A slot begins: machines go away, then jobs arrive."""
    if run.now and run.calendar and (lost := run.begin()):
        getattr(session, "lost", lambda _: None)(lost)
    for job in range(*np.searchsorted(run.arrival, (run.now, run.now + 1)).tolist()):
        if watch is not None:
            watch(run, session, job)
        session.arrive(job)


def _execute(run: Execution, session: Session) -> bool:
    """The slot is carried out: jobs finish, are measured or run out of cells. Whether nobody is left who could still run."""
    finished, unfinished = run.close()
    for job in finished:
        session.finished(job)
    for job in run.measure():
        if job not in finished and job not in unfinished:
            getattr(session, "measured", lambda _: None)(job)
    for job in unfinished:
        session.unfinished(job)
    return bool(finished) and run.over()


__all__ = ["ADMITTED", "LENT", "PENDING", "REFUSED", "Placer", "Result", "Session", "simulate"]
