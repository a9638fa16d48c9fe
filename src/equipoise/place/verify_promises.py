"""Certify what was promised and told of jobs: who broke a promise, what a lost machine excuses, what tables claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equipoise.certificate import Check
from equipoise.kernels import Int32s, Ints
from equipoise.place.calendar import Blocked
from equipoise.place.cluster import Cluster
from equipoise.place.job import JOB, MACHINE, SLOT, Job, Workload
from equipoise.units import count

if TYPE_CHECKING:
    from equipoise.place.simulate import Result

SHORT = 1e-8  # of a job's work: what may be missing at its finish, since sums of rates are not exact
SAME_UTILITY = 1e-9  # relative
PROMISED = "admitted"
MACHINE_LOST = "machine_lost"
STATEMENT, BY_MACHINE, US = "statement", "machine", "us"  # by whom a promise is broken


class Promise(NamedTuple):
    """What a job was promised in slot `since`: to finish by slot `due`, which is worth so much (0: nothing was said)."""

    since: int
    due: int
    worth: float = 0.0


def promises(result: Result, finish: Ints) -> list[Check]:
    """The promises of a run against the slots of finish found, and the cells that it calls lost to machines."""
    first, excused, strange = _promised(result)
    checks = [_lost(len(result.lost), strange)] if len(result.lost) else []
    return [*checks, _kept(result.jobs, first, finish, excused)] if first else checks


def broken(result: Result) -> dict[int, str]:
    """By whom each promise of a run was broken, by its own finishes."""
    first, excused, _ = _promised(result)
    return {j: _blame(result.jobs[j], one, int(result.finish[j]), j in excused) for j, one in first.items()}


def _promised(result: Result) -> tuple[dict[int, Promise], set[int], int]:
    """The first promise of each job, without a slot one to finish by the end; and of lost cells what `_excused` says."""
    first = {j: d for j, log in enumerate(result.decisions) for d in reversed(log) if d.state == PROMISED}
    made = {
        j: Promise(d.slot, result.end - 1) if d.due is None else Promise(d.slot, d.due, d.worth)
        for j, d in first.items()
    }
    blocked = () if result.calendar is None else result.calendar.on(result.cluster, result.end)
    excused, strange = _excused(blocked, np.asarray(result.lost)[:, [JOB, SLOT, MACHINE]].tolist(), made)
    # A plan that holds no machine loses no cells: the placer says when it found no room, and what went away must be of use.
    for j, one in made.items():
        said = {d.slot for d in result.decisions[j] if d.reason == MACHINE_LOST and one.since < d.slot <= one.due}
        news = [b for b in blocked if b.sudden and b.known in said and b.first <= one.due] if said else []
        if any(_matters(result.jobs[j], b, result.cluster) for b in news):
            excused.add(j)
    return made, excused, strange


def _excused(
    blocked: Sequence[Blocked], lost: Iterable[Sequence[int]], made: Mapping[int, Promise]
) -> tuple[set[int], int]:
    """Of rows job, slot, machine: jobs that lost cells, up to the slot they were promised, to a machine that went away after
    their promise; and how many rows no such machine explains."""
    excused, strange = set(), 0
    for job, slot, machine in lost:
        windows = (b for b in blocked if b.sudden and b.machines[0] == machine and b.first <= slot < b.last)
        known = max((b.known for b in windows), default=-1)
        strange += known < 0
        if job in made and known > made[job].since and slot <= made[job].due:
            excused.add(job)
    return excused, strange


def _matters(job: Job, window: Blocked, cluster: Cluster) -> bool:
    """Whether the job could have used what went away."""
    machine = cluster.machines[int(cluster.type_of[window.machines[0]])]
    wants = {r for r, amount in (*job.worker.items(), *(job.server or {}).items()) if amount}
    return job.takes(machine.type) and any(machine.capacity.get(r, 0) for r in wants)


def _lost(rows: int, strange: int) -> Check:
    meaning = "Cells called lost to a machine in a slot in which it had not gone away"
    return Check.at_most("lost", strange, 0.0, meaning, count(rows, "lost cell"))


def _blame(job: Job, promise: Promise, finish: int, excused: bool) -> str:
    """By whom a promise was broken: "" (kept), the job's own statement, a machine it was on, or us."""
    if 0 <= finish <= promise.due:
        return ""
    return STATEMENT if job.actual > 1.0 + SHORT else BY_MACHINE if excused else US


def _kept(jobs: Workload, made: Mapping[int, Promise], finish: Ints, excused: Collection[int]) -> Check:
    """Promises by job; `excused` are jobs that lost cells to a machine after theirs."""
    by, first = Counter[str](), ""
    for j, promise in made.items():
        job, found = jobs[j], int(finish[j])
        who = _blame(job, promise, found, j in excused)
        if promise.worth > job.utility(promise.due - job.arrival) * (1.0 + SAME_UTILITY):
            who = US
        if who == US:
            first = first or f"; the first: {named(job)}, promised slot {promise.due:,}, {finish_of(found)} found"
        by[who] += 1
    meaning = (
        "Promises broken by us: of jobs no longer than stated, on machines that stayed, not finished by the slot promised, "
        "or promised more worth than that slot has"
    )
    about = (
        f"{count(len(made), 'promise')}: {by['']:,} kept, {by[STATEMENT]:,} broken by the job's own wrong statement, "
        f"{by[BY_MACHINE]:,} by a machine, {by[US]:,} by us{first}"
    )
    return Check.at_most("promise", by[US], 0.0, meaning, about)


def named(job: Job) -> str:
    return f"job {job.id!r}"


def finish_of(slot: int) -> str:
    """A slot of finish, -1 for none, as it is told."""
    return "no finish" if slot < 0 else f"slot {int(slot):,}"


def claims(
    jobs: Workload,
    rows: Int32s,
    finish: Ints,
    told: Mapping[str, Mapping[str, Any]],
    blocked: Sequence[Blocked] = (),
    lost: Sequence[Sequence[int]] = (),
) -> list[Check]:
    """What a table says of jobs, by id, against the finishes found: utility, due (a slot) and state, where it has them.

    `lost` are rows job, slot, machine, that windows of the calendar, `blocked`, must explain.
    """
    index = {job.id: j for j, job in enumerate(jobs)}
    by_job = {index[name]: row for name, row in told.items()}
    columns = {name for row in told.values() for name in row}
    made = {j: Promise(-1, int(row["due"])) for j, row in by_job.items() if row.get("due") is not None}
    excused, strange = _excused(blocked, lost, made)
    checks = [_lost(len(lost), strange)] if lost else []
    if "utility" in columns:
        earned = np.array([float(by_job.get(j, {}).get("utility") or 0.0) for j in range(len(jobs))])
        found = np.array([job.utility(f - job.arrival) if f >= 0 else 0.0 for job, f in zip(jobs, finish, strict=True)])
        off = np.abs(found - earned) / np.maximum(np.maximum(np.abs(found), np.abs(earned)), 1e-300)
        most = float(off.max(initial=0.0))
        meaning = "The most that a job's utility differs from the worth of the finish found (relative)"
        worst = f"; the worst: {named(jobs[int(off.argmax())])}" if most > SAME_UTILITY else ""
        checks.append(Check.at_most("utility", most, SAME_UTILITY, meaning, f"{count(len(told), 'job')}{worst}"))
    if made:
        checks.append(_kept(jobs, made, finish, excused))
    if "state" in columns:
        refused = {j for j, row in by_job.items() if row.get("state") == "refused"}
        wrong = refused.intersection(rows[:, JOB].tolist())
        meaning = "Jobs that are called refused and have machines in the schedule"
        checks.append(Check.at_most("state", len(wrong), 0.0, meaning, count(len(refused), "refused job")))
    return checks
