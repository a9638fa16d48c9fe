"""What would have helped: the least change with which a job would have been promised, and what a machine lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.place.cluster import Cluster
from equipoise.place.desk import REFUSED, Desk, fastest
from equipoise.place.job import Job, Workload
from equipoise.place.planner.shape import shape_of
from equipoise.place.policies.oasis import Apart
from equipoise.place.policies.pdors import Session as Promising
from equipoise.place.simulate import Result
from equipoise.units import MILLI, show

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Missing:
    """What the machine that comes nearest lacks, in units."""

    part: str  # a worker, a server, a worker and its server
    machine: str
    resource: str
    needs: float
    has: float


@dataclass(frozen=True)
class Smaller:
    """The least change with which the job would have been promised: `job.but(**changes)`."""

    words: str
    changes: Mapping[str, Any]
    payoff: float | None  # None under a policy that promises nothing: it would not have been refused
    finish: int | None


Ask = Callable[[Job], tuple[float | None, int | None] | None]  # payoff and finish of a form that is taken, or None


def least_change(job: Job, cluster: Cluster, ask: Ask) -> Smaller | None:
    """The first of: a smaller demand where it fits no machine, fewer workers, less work; None when nothing helps."""

    def tried(words: str, changes: dict[str, Any]) -> Smaller | None:
        taken = ask(job.but(**changes))
        return None if taken is None else Smaller(words, changes, *taken)

    for form in _forms(cluster, job):
        found = tried(*form)
        if found is not None:
            return found
    for words, changes in _bases(cluster, job):
        low, high = 1, 100  # percent: the most work that is taken lies between
        found = tried(*_part(job, low, words, changes))
        if found is None:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            more = tried(*_part(job, middle, words, changes))
            if more is None:
                high = middle
            else:
                low, found = middle, more
        return found
    return None


def by_promise(desk: Desk, session: Promising, j: int) -> Ask:
    """Ask the session's planner, as if job j had come in another form."""

    def ask(form: Job) -> tuple[float | None, int | None] | None:
        shape, seen = shape_of(form, desk.cluster), session.desk
        was = desk.shapes[j], seen.shapes[j], float(desk.work[j]), float(desk.fastest[j])
        desk.shapes[j], desk.work[j] = shape, form.work
        desk.fastest[j] = fastest(desk.cluster.capacity, desk.cluster.counts, shape)
        seen.shapes[j] = shape._replace(together=shape.apart) if isinstance(seen, Apart) and shape.per_server else shape
        try:
            plan = None if desk.hopeless(j) else session.best(j)[1]
            return None if plan is None else (float(plan.payoff), plan.last)
        finally:
            desk.shapes[j], seen.shapes[j], desk.work[j], desk.fastest[j] = was

    return ask


def by_refusal(result: Result) -> Ask:
    """Ask a policy that promises nothing whether it would refuse this form outright."""

    def ask(form: Job) -> tuple[float | None, int | None] | None:
        desk = Desk(result.cluster, Workload((form,), slot=result.jobs.slot), result.slots, result.horizon)
        session = result.policy.start(desk, result.seed)
        desk.now = form.arrival
        session.arrive(0)
        return None if desk.state(0) == REFUSED else (None, None)

    return ask


def _part(job: Job, percent: int, words: str, changes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    less = f"{percent} % of the work"
    return f"{words} and {less}" if words else less, {**changes, "work": job.work * percent / 100}


def _bases(cluster: Cluster, job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    """The job as it is, or the demands that fit a machine when it fits none."""
    if fastest(cluster.capacity, cluster.counts, shape_of(job, cluster)) > 0.0:
        yield "", {}
    else:
        yield from _fitting(cluster, job)


def _forms(cluster: Cluster, job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    """Smaller demands and fewer workers, the least change first."""
    for words, changes in _bases(cluster, job):
        if changes:
            yield words, changes
        most = shape_of(job.but(**changes), cluster).widest // 2
        while most >= 1:
            fewer = f"at most {most} worker{'s' if most > 1 else ''}"
            narrow = {**changes, "most": most}
            if job.requested is not None:
                narrow["requested"] = min(job.requested, most)
            yield f"{words} and {fewer}" if words else fewer, narrow
            most //= 2


def _fitting(cluster: Cluster, job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    """Demands cut to what a machine has: the machine that comes nearest, then the others."""
    for k in _nearest(cluster, cluster.demand(job.worker, job.id) + cluster.demand(job.server or {}, job.id)):
        has = dict(zip(cluster.resources, cluster.capacity[k].tolist(), strict=True))
        for share in (False, True):
            worker, server = _cut(job, has, share)
            if worker is None:
                continue
            changes: dict[str, Any] = {}
            if worker != dict(job.worker):
                changes["worker"] = _units(worker)
            if job.server is not None and server != dict(job.server):
                changes["server"] = _units(server)
            form = job.but(**changes)
            if changes and fastest(cluster.capacity, cluster.counts, shape_of(form, cluster)) > 0.0:
                parts = [f"a {part} of {_shown(getattr(form, part))}" for part in changes]
                yield " and ".join(parts), changes
                return


def _cut(job: Job, has: Mapping[str, int], share: bool) -> tuple[dict[str, int] | None, dict[str, int]]:
    """A worker and a server that fit a machine each alone, or sharing it; None when a part would be left without."""
    worker, server = dict(job.worker), dict(job.server or {})
    for r in {**worker, **server}:
        w, s, room = worker.get(r, 0), server.get(r, 0), has.get(r, 0)
        shared = share and w + s > room
        cut = (w * room // (w + s), s * room // (w + s)) if shared else (min(w, room), min(s, room))
        for part, was, now in ((worker, w, cut[0]), (server, s, cut[1])):
            if was and not now:
                return None, {}
            if now != was:
                part[r] = now - now % MILLI if was % MILLI == 0 and now >= MILLI else now
    return worker, server


def _units(demand: Mapping[str, int]) -> dict[str, float]:
    """Units, as a Job reads them."""
    return {r: milli // MILLI if milli % MILLI == 0 else milli / MILLI for r, milli in demand.items()}


def _shown(demand: Mapping[str, int]) -> str:
    return ", ".join(f"{show(milli)} {r}" for r, milli in demand.items() if milli)


def _nearest(cluster: Cluster, need: Ints) -> list[int]:
    """Machine types, by how little they lack."""
    asked = need > 0
    share = np.minimum(1.0, cluster.capacity[:, asked] / need[asked])
    return sorted(range(len(share)), key=lambda k: (-share[k].min(), -share[k].sum(), k))


def missing(job: Job, cluster: Cluster) -> tuple[Missing, ...]:
    """What stops even one worker on an empty cluster."""
    worker, server = cluster.demand(job.worker, job.id), cluster.demand(job.server or {}, job.id)
    parts = (("a worker", worker), ("a server", server), ("a worker and its server", worker + server))
    for part, need in parts:
        if not need.any() or np.all(cluster.capacity >= need, axis=1).any():
            continue
        k = _nearest(cluster, need)[0]
        name = cluster.names[int(np.flatnonzero(cluster.type_of == k)[0])]
        return tuple(
            Missing(part, name, r, int(need[i]) / MILLI, int(cluster.capacity[k, i]) / MILLI)
            for i, r in enumerate(cluster.resources)
            if need[i] > cluster.capacity[k, i]
        )
    return ()
