"""What would have helped: the least changes with which a job would have been promised, and what a machine lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equipoise.kernels import Ints
from equipoise.place import execution as says
from equipoise.place.cluster import Cluster
from equipoise.place.execution import fastest
from equipoise.place.job import MOST_WORTH, Job, utility
from equipoise.place.planner.job_arrays import arrays_of
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
class Change:
    """A change with which the job would have been promised on arrival (`job.but(**changes)`), or, under a policy that
    promises nothing, not refused."""

    words: str
    changes: Mapping[str, object]
    payoff: float | None  # worth at the promised slot less the cost; None where nothing is promised
    due: int | None  # the slot promised
    exact: bool  # no smaller one would do, to a step of 2 %; else the smaller ones that were tried did not


class Form(NamedTuple):
    """A job as it might have come."""

    words: str
    changes: Mapping[str, object]


class Way(NamedTuple):
    """One kind of change, the least first. `rising`: where one form is taken, so should those after it."""

    forms: Sequence[Form]
    rising: bool = False
    exact: bool = False


Ask = Callable[[Form], tuple[float | None, int | None] | None]  # payoff and slot promised of a form that is taken
WORTHS = 1.02 ** np.arange(1, 234)  # times the worth stated: to a hundredfold, in steps of 2 %
SLOTS = (*range(1, 65), *(round(64 * 1.05**n) for n in range(1, 200)))  # later: each to 64, from there in steps of 5 %
WIDTHS = 32  # up to so many workers each width is tried, beyond that every half
LATER = {
    "deadline": ("slots", "a deadline"),
    "linear": ("slots", "a worth that falls"),
    "sigmoid": ("middle", "a worth that falls"),
}


def ways_of(job: Job, cluster: Cluster, window: int) -> list[Way]:
    """What its owner could change: worth, time (at most `window` slots), width, type, work; a demand that fits nowhere."""
    arrays, types = arrays_of(job, cluster), [Way([form]) for form in _on_types(job, cluster)]
    less = [Form(f"{percent} % of the work", {"work": job.work * percent / 100}) for percent in range(99, 0, -1)]
    if fastest(cluster.capacity, cluster.counts, arrays) <= 0.0:
        fits = _fitting(cluster, job)
        if fits is None:
            return types
        both = [Form(f"{fits.words} and {words}", {**fits.changes, **new}) for words, new in less]
        return [*types, Way([fits, *both], rising=True)]
    stated, value = job.utility.as_dict(), getattr(job.utility, "value", 0.0)
    worths = [float(f"{min(value * times, MOST_WORTH):.4g}") for times in WORTHS if value > 0.0]
    higher = ((v, {"utility": utility(stated | {"value": v})}) for v in worths)
    more = [Form(f"a worth of at least {v:.4g} (now {value:.4g})", new) for v, new in higher]
    later = []
    if job.utility.name in LATER:
        name, what = LATER[job.utility.name]
        time = getattr(job.utility, name)
        forms = ((k, {"utility": utility(stated | {name: time + k})}) for k in SLOTS if k <= window)
        later = [Form(f"{what} {count(k, 'slot')} later", new) for k, new in forms]
    widest = arrays.widest
    widths = range(widest - 1, 0, -1) if widest <= WIDTHS else [widest >> k for k in range(1, widest.bit_length())]
    asked = job.requested or widest
    narrow = [Form(f"at most {count(w, 'worker')}", {"most": w, "requested": min(asked, w)}) for w in widths]
    return [Way(more, rising=True, exact=True), Way(later, rising=True), Way(narrow), *types, Way(less, rising=True)]


def _on_types(job: Job, cluster: Cluster) -> Iterator[Form]:
    """On one type alone of those it takes; or beside them on another, taken to be as fast as the slowest it states."""
    speeds = dict.fromkeys(cluster.types, 1.0) if job.speeds is None else dict(job.speeds)
    for name in speeds if len(speeds) > 1 else ():
        yield Form(f"type {name} alone", {"speeds": {name: speeds[name]}})
    slowest = min(speeds, key=lambda name: job.rate(1, together=True, type=name))
    for name in cluster.types:
        if name not in speeds:
            yield Form(f"type {name} too, if as fast as {slowest}", {"speeds": {**speeds, name: speeds[slowest]}})


def changes_of(ways: Iterable[Way], ask: Ask) -> tuple[Change, ...]:
    """Of each way the least change that is taken: found by halving where it is rising, else tried in order."""
    return tuple(change for way in ways if (change := _least(way, ask)) is not None)


def _least(way: Way, ask: Ask) -> Change | None:
    tried = ((form, ask(form)) for form in (way.forms[-1:] if way.rising else way.forms))
    found = next(((form, answer) for form, answer in tried if answer is not None), None)
    low, high = -1, len(way.forms) - 1  # the least that is taken lies between
    while way.rising and found is not None and high - low > 1:
        middle = (low + high) // 2
        if (answer := ask(way.forms[middle])) is None:
            low = middle
        else:
            high, found = middle, (way.forms[middle], answer)
    return None if found is None else Change(*found[0], *found[1], way.exact)


def _fitting(cluster: Cluster, job: Job) -> Form | None:
    """Demands cut to what a machine has: the machine that comes nearest, or else another."""
    need = cluster.demand(job.worker, job.id) + cluster.demand(job.server or {}, job.id)
    for k in _nearest(cluster, job, need):
        has = dict(zip(cluster.resources, cluster.capacity[k].tolist(), strict=True))
        for share in (False, True):
            worker, server = _cut(job, has, share)
            if worker is None:
                continue
            parts = ("worker", job.worker, worker), ("server", job.server, server)
            changes = {part: _units(now) for part, was, now in parts if was is not None and now != dict(was)}
            form = job.but(**changes)
            if changes and fastest(cluster.capacity, cluster.counts, arrays_of(form, cluster)) > 0.0:
                words = [f"a {part} of {_shown(getattr(form, part))}" for part in changes]
                return Form(" and ".join(words), changes)
    return None


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
    hopeless = e.reason in (says.INFEASIBLE_ALONE, says.BEYOND_HORIZON)
    why = _why_hopeless(e) if hopeless else [*_at_these_prices(e), _room(e)]
    lines = [_what_happened(e), _why_it_waited(e), *why, _changes(e)]
    return "\n".join(line for line in lines if line)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _what_happened(e: Explanation) -> str:
    told = "; ".join(f"{d.state}{f' ({d.reason})' if d.reason else ''} in slot {d.slot}" for d in e.told)
    end = "It did not finish." if e.finish is None else f"It finished in slot {e.finish}, worth {e.utility:.4g}."
    return f"Job {e.job} under {e.policy}: arrived in slot {e.arrival}; told {told or 'nothing'}. {end}"


def _why_it_waited(e: Explanation) -> str:
    if e.told and e.told[0].state == says.REFUSED:
        return ""
    if e.first_run is None:
        line = f"It waited {count(e.waited, 'slot')}, to the end, and never ran: {_crowd(e)}"
    elif e.waited == 0:
        line = f"It ran at once{_on_lent(e)}, {count(e.ran, 'slot')} in all"
    else:
        line = f"It waited {count(e.waited, 'slot')}: {_crowd(e)}; it ran{_on_lent(e)} from slot {e.first_run}"
    if e.pauses:
        line += f", and was put aside {'once' if e.pauses == 1 else f'{e.pauses} times'}"
        if e.finish is not None and e.first_run is not None:
            line += f", for {count(e.finish - e.first_run + 1 - e.ran, 'slot')} in all"
    if e.waited and e.ahead:
        line += (
            f". {count(e.ahead, 'job')} {'were' if e.ahead > 1 else 'was'} here before it, {e.running} of them running"
        )
        if e.overtook:
            line += f"; {e.overtook} that came later ran first"
    return line + "."


def _on_lent(e: Explanation) -> str:
    states = [d.state for d in e.told if e.first_run is not None and d.slot <= e.first_run]
    return " on lent slots" if states and states[-1] == says.LENT else ""


def _crowd(e: Explanation) -> str:
    """What held it up: the room others had, or its own plan."""
    resource, share = max(e.taken.items(), key=lambda item: item[1])
    held = [count(e.held_promised, "promised job")] if e.held_promised else []
    if e.held_others:
        held.append(f"{e.held_others:,} without promise" if held else count(e.held_others, "job"))
    by = f" by {' and '.join(held)}" if held else ""
    crowd = f"the cluster's {resource} was {_percent(share)} taken{by}"
    if e.told and e.told[0].state == says.ADMITTED and e.told[0].slot == e.arrival and e.earliest_start == e.arrival:
        return f"there was room, and later slots were cheaper ({crowd})"
    return crowd


def _why_hopeless(e: Explanation) -> list[str]:
    if e.reason == says.INFEASIBLE_ALONE:
        return [
            f"It does not fit even an empty cluster: {m.part} needs {show(round(m.needs * MILLI))} {m.resource}, and "
            f"{m.machine}, the machine that comes nearest, has {show(round(m.has * MILLI))}."
            for m in e.missing
        ] or ["It does not fit this cluster even when it is empty."]
    if e.window <= 0:
        return ["It came after the last slot of the run."]
    return [
        f"It needs {count(e.alone or 0, 'slot')} alone on an empty cluster at full width; it had {e.window:,} "
        "(the horizon, or what was left to the end)."
    ]


def _at_these_prices(e: Explanation) -> list[str]:
    full = ", ".join(f"{p.resource} {_percent(p.full)}" for p in e.prices)
    if e.best is None and e.reason == says.PRICED_OUT:
        few = (
            "Planned with a restart in every slot its work has no room; planned with few, it costs more than its worth."
        )
        room = "There was room for it by its date, but the machine-time of that costs more than it is worth."
        return [few if e.prices else room]
    if e.best is None:
        none = f"No room for all of its work within its {count(e.window, 'slot')}: taken are {full}."
        return [none] if e.prices else []
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
    if e.reason == says.NO_CAPACITY and b.worth <= 0.0:
        lines.append("There is room for its work only when finishing it is worth nothing any more.")
    elif e.reason and b.payoff > 0.0:
        lines.append("Planned with a restart in every slot it does not pay: that is how it was judged.")
    return lines


def _room(e: Explanation) -> str:
    if e.window <= 0:
        return ""
    if e.earliest_start is None:
        return "There was no slot with room for even one worker."
    line = f"The first slot with room for a worker was {e.earliest_start}"
    if e.earliest_finish is not None:
        line += f"; as fast as the room allowed, whatever the price, it could finish in slot {e.earliest_finish}"
    return line + "."


def _changes(e: Explanation) -> str:
    if not e.changes:
        nothing = "No other worth, time, width or work of it (down to 1 % of the work) would have been taken."
        return nothing if e.tried else ""
    told = [c.words + (f", done by slot {c.due}" if c.due is not None else "") for c in e.changes]
    taken = "not have been refused" if e.changes[0].due is None else "have been promised on arrival"
    return f"It would {taken} with {'one of: ' if len(told) > 1 else ''}{'; '.join(told)}."
