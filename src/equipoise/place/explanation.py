"""What would have helped: the least change with which a job would have been promised, and what a machine lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equipoise.kernels import Ints
from equipoise.place.cluster import Cluster
from equipoise.place.execution import (
    ADMITTED,
    BEYOND_HORIZON,
    INFEASIBLE_ALONE,
    LENT,
    NO_CAPACITY,
    PRICED_OUT,
    REFUSED,
    Execution,
    fastest,
)
from equipoise.place.job import Job, Workload
from equipoise.place.placers.oasis import Apart
from equipoise.place.placers.pdors import PDORSSession
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.simulate import Result
from equipoise.units import MILLI, count, show

if TYPE_CHECKING:
    from equipoise.place.explain import Explanation


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
    changes: Mapping[str, object]
    payoff: float | None  # None under a policy that promises nothing: it would not have been refused
    finish: int | None


Ask = Callable[[Job], tuple[float | None, int | None] | None]  # payoff and finish of a form that is taken, or None


def least_change(job: Job, cluster: Cluster, ask: Ask) -> Smaller | None:
    """The first of: a smaller demand where it fits no machine, fewer workers, less work; None when nothing helps."""

    def tried(words: str, changes: dict[str, object]) -> Smaller | None:
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


def by_promise(run: Execution, session: PDORSSession, j: int) -> Ask:
    """Ask the session's planner, as if job j had come in another form."""

    def ask(form: Job) -> tuple[float | None, int | None] | None:
        arrays, seen = arrays_of(form, run.cluster), session.run
        was = run.arrays[j], seen.arrays[j], float(run.work[j]), float(run.fastest[j])
        run.arrays[j], run.work[j] = arrays, form.work
        run.fastest[j] = fastest(run.cluster.capacity, run.cluster.counts, arrays)
        apart = isinstance(seen, Apart) and arrays.per_server
        seen.arrays[j] = arrays._replace(together=arrays.apart) if apart else arrays
        try:
            plan = None if run.hopeless(j) else session.best(j)[1]
            return None if plan is None else (float(plan.payoff), plan.last)
        finally:
            run.arrays[j], seen.arrays[j], run.work[j], run.fastest[j] = was

    return ask


def by_refusal(result: Result) -> Ask:
    """Ask a policy that promises nothing whether it would refuse this form outright."""

    def ask(form: Job) -> tuple[float | None, int | None] | None:
        run = Execution(result.cluster, Workload((form,), slot=result.jobs.slot), result.slots, result.horizon)
        session = result.policy.start(run, result.seed)
        run.now = form.arrival
        session.arrive(0)
        return None if run.state(0) == REFUSED else (None, None)

    return ask


def _part(job: Job, percent: int, words: str, changes: dict[str, object]) -> tuple[str, dict[str, object]]:
    less = f"{percent} % of the work"
    return f"{words} and {less}" if words else less, {**changes, "work": job.work * percent / 100}


def _bases(cluster: Cluster, job: Job) -> Iterator[tuple[str, dict[str, object]]]:
    """The job as it is, or the demands that fit a machine when it fits none."""
    if fastest(cluster.capacity, cluster.counts, arrays_of(job, cluster)) > 0.0:
        yield "", {}
    else:
        yield from _fitting(cluster, job)


def _forms(cluster: Cluster, job: Job) -> Iterator[tuple[str, dict[str, object]]]:
    """Smaller demands and fewer workers, the least change first."""
    for words, changes in _bases(cluster, job):
        if changes:
            yield words, changes
        most = arrays_of(job.but(**changes), cluster).widest // 2
        while most >= 1:
            fewer = f"at most {most} worker{'s' if most > 1 else ''}"
            narrow = {**changes, "most": most}
            if job.requested is not None:
                narrow["requested"] = min(job.requested, most)
            yield f"{words} and {fewer}" if words else fewer, narrow
            most //= 2


def _fitting(cluster: Cluster, job: Job) -> Iterator[tuple[str, dict[str, object]]]:
    """Demands cut to what a machine has: the machine that comes nearest, then the others."""
    need = cluster.demand(job.worker, job.id) + cluster.demand(job.server or {}, job.id)
    for k in _nearest(cluster, job, need):
        has = dict(zip(cluster.resources, cluster.capacity[k].tolist(), strict=True))
        for share in (False, True):
            worker, server = _cut(job, has, share)
            if worker is None:
                continue
            changes: dict[str, object] = {}
            if worker != dict(job.worker):
                changes["worker"] = _units(worker)
            if job.server is not None and server != dict(job.server):
                changes["server"] = _units(server)
            form = job.but(**changes)
            if changes and fastest(cluster.capacity, cluster.counts, arrays_of(form, cluster)) > 0.0:
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


def _nearest(cluster: Cluster, job: Job, need: Ints) -> list[int]:
    """Entries of machines that the job takes, by how little they lack."""
    asked = need > 0
    share = np.minimum(1.0, cluster.capacity[:, asked] / need[asked])
    taken = [k for k, machine in enumerate(cluster.machines) if job.takes(machine.type)]
    return sorted(taken, key=lambda k: (-share[k].min(), -share[k].sum(), k))


def missing(job: Job, cluster: Cluster) -> tuple[Missing, ...]:
    """What stops even one worker on an empty cluster."""
    worker, server = (cluster.packed(cluster.demand(part or {}, job.id)) for part in (job.worker, job.server))
    parts = (("a worker", worker), ("a server", server), ("a worker and its server", worker + server))
    for part, need in parts:
        if not need.any() or np.all(cluster.capacity[(k := _nearest(cluster, job, need)[0])] >= need):
            continue
        name = cluster.names[int(np.flatnonzero(cluster.type_of == k)[0])]
        return tuple(
            Missing(part, name, r, int(need[i]) / MILLI, int(cluster.capacity[k, i]) / MILLI)
            for i, r in enumerate(cluster.resources)
            if need[i] > cluster.capacity[k, i]
        )
    return ()


def words_of(e: Explanation) -> str:
    """What happened, why it waited or was refused, the prices, the room, and what would have helped."""
    lines = [_what_happened(e), _why_it_waited(e), *_why_refused(e), *_at_these_prices(e), *_room(e), _change(e)]
    return "\n".join(line for line in lines if line)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _what_happened(e: Explanation) -> str:
    told = "; ".join(f"{d.state}{f' ({d.reason})' if d.reason else ''} in slot {d.slot}" for d in e.told)
    end = "It did not finish." if e.finish is None else f"It finished in slot {e.finish}, worth {e.utility:.4g}."
    return f"Job {e.job} under {e.policy}: arrived in slot {e.arrival}; told {told or 'nothing'}. {end}"


def _why_it_waited(e: Explanation) -> str:
    if e.told and e.told[0].state == REFUSED:
        return ""
    if e.first_run is None:
        line = f"It waited {count(e.waited, 'slot')}, to the end, and never ran: {_crowd(e)}"
    elif e.waited == 0:
        line = f"It ran at once{_on_lent(e)}, {count(e.ran, 'slot')} in all"
    else:
        line = f"It waited {count(e.waited, 'slot')}: {_crowd(e)}; it ran{_on_lent(e)} from slot {e.first_run}"
    if e.pauses:
        line += f", and was put aside {'once' if e.pauses == 1 else f'{e.pauses} times'}"
    if e.waited and e.ahead:
        line += (
            f". {count(e.ahead, 'job')} {'were' if e.ahead > 1 else 'was'} here before it, {e.running} of them running"
        )
        if e.overtook:
            line += f"; {e.overtook} that came later ran first"
    return line + "."


def _on_lent(e: Explanation) -> str:
    states = [d.state for d in e.told if e.first_run is not None and d.slot <= e.first_run]
    return " on lent slots" if states and states[-1] == LENT else ""


def _crowd(e: Explanation) -> str:
    """What held it up: the room others had, or its own plan."""
    resource, share = max(e.taken.items(), key=lambda item: item[1])
    held = [count(e.held_promised, "promised job")] if e.held_promised else []
    held += [f"{e.held_others:,} without promise"] if e.held_others and held else []
    held += [count(e.held_others, "job")] if e.held_others and not e.held_promised else []
    by = f" by {' and '.join(held)}" if held else ""
    crowd = f"the cluster's {resource} was {_percent(share)} taken{by}"
    if e.told and e.told[0].state == ADMITTED and e.told[0].slot == e.arrival and e.earliest_start == e.arrival:
        return f"there was room, and later slots were cheaper ({crowd})"
    return crowd


def _why_refused(e: Explanation) -> list[str]:
    if e.reason == INFEASIBLE_ALONE:
        if not e.missing:
            return ["It does not fit this cluster even when it is empty."]
        return [
            f"It does not fit even an empty cluster: {m.part} needs {show(round(m.needs * MILLI))} {m.resource}, and "
            f"{m.machine}, the machine that comes nearest, has {show(round(m.has * MILLI))}."
            for m in e.missing
        ]
    if e.reason == BEYOND_HORIZON:
        if e.window <= 0:
            return ["It came after the last slot of the run."]
        return [
            f"It needs {count(e.alone or 0, 'slot')} alone on an empty cluster at full width; it had {e.window:,} "
            "(the horizon, or what was left to the end)."
        ]
    return []


def _at_these_prices(e: Explanation) -> list[str]:
    full = ", ".join(f"{p.resource} {_percent(p.full)}" for p in e.prices)
    if e.reason in (INFEASIBLE_ALONE, BEYOND_HORIZON):
        return []
    if e.best is None and e.reason == PRICED_OUT:
        return [
            "Planned with a restart in every slot its work has no room; planned with few, it costs more than its worth."
        ]
    if e.best is None:
        return (
            [f"No room for all of its work within its {count(e.window, 'slot')}: taken are {full}."] if e.prices else []
        )
    b = e.best
    widths = sorted({s.workers for s in b.stretches})
    wide = f"{widths[0]}" if len(widths) == 1 else f"{widths[0]}-{widths[-1]}"
    machines = sorted({name for s in b.stretches for name in s.machines}, key=lambda name: (len(name), name))
    where = ", ".join(machines[:4]) + (f" and {len(machines) - 4} more" if len(machines) > 4 else "")
    costs = ", ".join(f"{p.resource} {p.cost:.4g}" for p in e.prices if p.cost > 0.0)
    lines = [
        f"The best schedule at the prices it met: {count(b.slots, 'slot')} from {b.first} to {b.last}, "
        f"{wide} worker{'s' if wide != '1' else ''} on {where}; worth {b.worth:.4g}, cost {b.cost:.4g}"
        f"{f' ({costs})' if costs else ''}: payoff {b.payoff:.4g}. Taken there: {full}."
    ]
    if e.reason == NO_CAPACITY and b.worth <= 0.0:
        lines.append("There is room for its work only when finishing it is worth nothing any more.")
    elif e.reason and b.payoff > 0.0:
        lines.append("Planned with a restart in every slot it does not pay: that is how it was judged.")
    return lines


def _room(e: Explanation) -> list[str]:
    if e.reason in (INFEASIBLE_ALONE, BEYOND_HORIZON) or e.window <= 0:
        return []
    if e.earliest_start is None:
        return ["There was no slot with room for even one worker."]
    line = f"The first slot with room for a worker was {e.earliest_start}"
    if e.earliest_finish is not None:
        line += f"; as fast as the room allowed, whatever the price, it could finish in slot {e.earliest_finish}"
    return [line + "."]


def _change(e: Explanation) -> str:
    if e.smaller is None:
        nothing = "No narrower, smaller or shorter form of it (down to 1 % of the work) would have been taken."
        return nothing if e.reason and e.window > 0 else ""
    if e.smaller.payoff is None:
        return f"It would not have been refused with {e.smaller.words}."
    finish = f"payoff {e.smaller.payoff:.4g}, finished in slot {e.smaller.finish}"
    return f"It would have been promised on arrival with {e.smaller.words}: {finish}."
