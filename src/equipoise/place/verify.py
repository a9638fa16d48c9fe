"""Certify a schedule from its rows, the jobs and the cluster alone: nothing that the planner or the loop counted is trusted.

`schedule` reads and certifies one made by anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.certificate import Certificate, Check
from equipoise.kernels import Bools, Floats, Int32s, Ints, kernel
from equipoise.place.calendar import Calendar
from equipoise.place.cluster import PARTS, Cluster, is_device
from equipoise.place.job import DEADLINE, JOB, MACHINE, SERVERS, SIGMOID, SLOT, UNSTATED, WORKERS, Job, Workload
from equipoise.place.verify_promises import SAME_UTILITY, SHORT, finish_of, named, promises
from equipoise.units import MILLI, count

if TYPE_CHECKING:
    from equipoise.place.bound import Bound
    from equipoise.place.simulate import Result

EXACT = 1e-12  # of a job's work: a job this close to done a slot earlier was done there
OVER_BOUND = 1e-6  # relative
ONE_MACHINE, ONE_RACK, RACKS = range(3)  # localities of a job-slot
NEVER = np.iinfo(np.int64).max


def verify(result: Result, *, bound: Bound | float | None = None) -> Certificate:
    """Check every claim of a run against its schedule: capacity, ratio, work, arrival, locality, utility, promises.

    Parameters
    ----------
    result
        The run.
    bound
        An upper bound on the utility; the run's own, if one was computed, unless stated.
    """
    seen = _Seen(result.cluster, result.jobs, np.asarray(result.schedule), result.end, result.calendar)
    claimed = np.asarray(result.finish, dtype=np.int64)
    finish = seen.finish(claimed)
    utility = _earned(result.jobs, finish)
    checks = [*_physical(seen, claimed), _utility(utility, float(result.utility), finish), *promises(result, finish)]
    known = result.bound if bound is None else bound
    if known is not None:
        checks.append(_bound(utility, float(known) if isinstance(known, float | int) else known.utility))
    return Certificate(tuple(checks))


def measure(
    cluster: Cluster, jobs: Workload, rows: Int32s, end: int, claimed: Ints | None, calendar: Calendar | None = None
) -> tuple[Certificate, Ints, float, Int32s]:
    """What rows of nobody's run come to: a certificate, the slots of finish, the utility, and the rows in order.

    Without claimed finishes there is nothing to compare with: capacity, ratio and arrival alone are certified.
    """
    seen = _Seen(cluster, jobs, rows, end, calendar)
    found = seen.finish(claimed)
    return Certificate(tuple(_physical(seen, claimed))), found, _earned(jobs, found), seen.rows


def _physical(seen: _Seen, claimed: Ints | None) -> list[Check]:
    """What machines and jobs allow; and what the claimed finishes say of both."""
    checks = [_capacity(seen), *_devices(seen), _ratio(seen)]
    if claimed is None:
        return [*checks, _arrival(seen)]
    return [*checks, _work(seen, claimed), _arrival(seen), _locality(seen, claimed)]


class _Seen:
    """What the rows say, job-slot by job-slot: cells in order of job, slot and machine, and where each job-slot begins."""

    def __init__(
        self, cluster: Cluster, jobs: Workload, schedule: NDArray[Any], end: int, calendar: Calendar | None = None
    ) -> None:
        self.cluster, self.jobs, self.end = cluster, jobs, end
        self.blocked = () if calendar is None else calendar.on(cluster, end)
        n = len(jobs)
        self.arrival = np.array([job.arrival for job in jobs], dtype=np.int64)
        self.need = np.array([job.work * job.actual for job in jobs], dtype=float)
        rows = schedule.reshape(-1, 5)
        sound = (rows[:, JOB] >= 0) & (rows[:, JOB] < n) & (rows[:, MACHINE] >= 0) & (rows[:, MACHINE] < cluster.size)
        sound &= (rows[:, SLOT] >= 0) & (rows[:, WORKERS] >= 0) & (rows[:, SERVERS] >= 0)
        sound &= (rows[:, WORKERS] > 0) | (rows[:, SERVERS] > 0)
        self.unsound = len(rows) - int(sound.sum())
        rows = rows[sound]
        self.rows = rows = rows[np.lexsort((rows[:, MACHINE], rows[:, SLOT], rows[:, JOB]))]
        self.jobs_of, self.slots_of = rows[:, JOB], rows[:, SLOT]
        new = np.ones(len(rows), dtype=bool)
        new[1:] = (self.jobs_of[1:] != self.jobs_of[:-1]) | (self.slots_of[1:] != self.slots_of[:-1])
        self.twice = int((~new[1:] & (rows[1:, MACHINE] == rows[:-1, MACHINE])).sum())
        self.start = np.flatnonzero(new)
        self.cells = np.diff(np.append(self.start, len(rows)))
        self.job = self.jobs_of[self.start].astype(np.int64)
        self.slot = self.slots_of[self.start].astype(np.int64)
        self.width = self._total(rows[:, WORKERS])
        self.servers = self._total(rows[:, SERVERS])
        self.lawful = (self.slot >= self.arrival[self.job]) & (self.slot < end)

    def _total(self, column: NDArray[Any]) -> Ints:
        return np.add.reduceat(column, self.start, dtype=np.int64)

    def _alike(self, column: NDArray[Any]) -> Bools:
        """Of each job-slot, whether its cells have the same value."""
        return np.asarray(np.minimum.reduceat(column, self.start) == np.maximum.reduceat(column, self.start))

    @cached_property
    def together(self) -> Bools:
        """Whether a job-slot is on one machine."""
        return self._alike(self.rows[:, MACHINE])

    @cached_property
    def kept(self) -> Floats:
        """The part of each job-slot that works: all, less the job's restart where width or placement are not the last
        slot's; nothing where the job may not run."""
        restart = np.array([min(1.0, job.restart) for job in self.jobs])
        part = np.where(self.lawful, 1.0, 0.0)
        if not len(part) or not restart.any():
            return part
        stays = np.zeros(len(part), dtype=bool)
        stays[1:] = (
            (self.job[1:] == self.job[:-1])
            & (self.slot[1:] == self.slot[:-1] + 1)
            & (self.cells[1:] == self.cells[:-1])
            & self.lawful[:-1]
        )
        one = np.repeat(np.where(stays, self.cells, 0), self.cells)  # how far back the same cell stood a slot before
        here = np.arange(len(one))
        equal = np.ones(len(one), dtype=bool)
        for column in (MACHINE, WORKERS, SERVERS):
            equal &= self.rows[here - one, column] == self.rows[:, column]
        stays &= np.logical_and.reduceat(equal, self.start)
        return np.asarray(part * np.where(stays, 1.0, 1.0 - restart[self.job]))

    @cached_property
    def gains(self) -> Floats:
        """The part of its job's true work that each job-slot does, by the closed form of the rate law."""
        jobs, j, w = self.jobs, self.job, self.width.astype(float)
        tau, batch, gradient, inside, between = (
            np.array([getattr(job, name) for job in jobs], dtype=float)
            for name in ("time_per_sample", "batch", "gradient", "inside", "between")
        )
        across = np.array([job.between if job.across is None else job.across for job in jobs])
        gamma = np.array([0.0 if job.server is None else job.workers_per_server for job in jobs])
        bandwidth = np.where(self.together, inside[j], np.where(self.racks, across[j], between[j]))
        # sigma = tau + (gamma / F)(2 g / b) and w / sigma, or F w / (tau F + 2 (w - 1) g / b)
        with np.errstate(over="ignore"):  # a bandwidth of next to nothing: a rate of nothing
            exchange = np.where(gamma[j] > 0, gamma[j], np.maximum(w - 1.0, 0.0)) * 2.0 * gradient[j] / bandwidth
        gains = batch[j] * w / (tau[j] * batch[j] + exchange) / self.need[j] * self.kept
        return np.asarray(gains * self._asked(_factor))

    @cached_property
    def law(self) -> Floats:
        """The same a second way: `Job.rate`, asked once for every job, width, locality and type there is."""
        return self.kept * self._asked(
            lambda job, width, at, type: job.rate(width, together=at == ONE_MACHINE, type=type, across=at == RACKS)
        )

    @cached_property
    def racks(self) -> Bools:
        """Whether a job-slot is in several racks."""
        return ~self._alike(self.cluster.machine_racks[self.rows[:, MACHINE]])

    def _asked(self, rate: Callable[[Job, int, int, str], float]) -> Floats:
        """A function of job, width, locality and type for every job-slot; nothing over several types."""
        types, own = self.cluster.types, self.cluster.machine_types[self.rows[:, MACHINE]]
        locality = np.where(self.together, ONE_MACHINE, np.where(self.racks, RACKS, ONE_RACK))
        shape = len(self.jobs), int(self.width.max(initial=0)) + 1, 3, len(types)
        keys = np.ravel_multi_index((self.job, self.width, locality, own[self.start]), shape)
        keys, which = np.unique(keys, return_inverse=True)
        asked = zip(*(part.tolist() for part in np.unravel_index(keys, shape)), strict=True)
        rates = np.array([rate(self.jobs[j], width, at, types[on]) for j, width, at, on in asked])
        return np.asarray(np.where(self._alike(own), rates[which.reshape(-1)], 0.0))

    @cached_property
    def window(self) -> tuple[Ints, Ints]:
        """The first slot in which each job may be, and the first in which it must be, called done (NEVER: none)."""
        early, late = np.full(len(self.jobs), NEVER), np.full(len(self.jobs), NEVER)
        _done(self.job, self.slot, self.law, self.need, early, late)
        return early, late

    def agrees(self, claimed: Ints) -> Bools:
        """Whether a claimed finish (-1: none) is the slot in which the work is done, to rounding."""
        early, late = self.window
        when = np.where(claimed < 0, NEVER, claimed)
        return np.asarray((early <= when) & (when <= late))

    def finish(self, claimed: Ints | None = None) -> Ints:
        """The slot in which each job is done (-1: never); where rounding leaves a choice, the claimed one."""
        early, _ = self.window
        own = np.where(early == NEVER, -1, early)
        return own if claimed is None else np.where(self.agrees(claimed), claimed, own)


def _factor(job: Job, width: int, locality: int, type: str) -> float:
    """What a type makes of the rate law: a factor, or what a table says over what the law says of one machine."""
    speed = 1.0 if job.speeds is None else job.speeds.get(type, 0.0)
    if not isinstance(speed, Sequence):
        return speed
    if width == 0:
        return 0.0
    if job.server is None:
        slots = job.time_per_sample / width + 2.0 * (width - 1) / width * job.gradient / job.inside / job.batch
    else:
        slots = (job.time_per_sample + 2.0 * job.workers_per_server * job.gradient / job.inside / job.batch) / width
    return (*speed, *[speed[-1]] * width)[width - 1] * slots


@kernel
def _done(job: Ints, slot: Ints, gain: Floats, need: Floats, early: Ints, late: Ints) -> None:
    total = 0.0
    for k in range(job.shape[0]):
        j = job[k]
        if k == 0 or job[k - 1] != j:
            total = 0.0
        total += gain[k]
        if total >= need[j] * (1.0 - SHORT):
            early[j] = min(early[j], slot[k])
        if total >= need[j] * (1.0 - EXACT):
            late[j] = min(late[j], slot[k])


def _earned(jobs: Workload, finish: Ints) -> float:
    """The worth of all finished jobs, from the formulas of spec section 1."""
    done = finish >= 0
    if not done.any():
        return 0.0
    kind = np.array([job.utility.kind for job in jobs])[done]
    value, rate, when = np.array([job.utility.parameters for job in jobs], dtype=float)[done].T
    late = (finish - np.array([job.arrival for job in jobs], dtype=np.int64))[done].astype(float)
    exponent = rate * (late - when)
    sigmoid = np.where(exponent < 700.0, value / (1.0 + np.exp(np.minimum(exponent, 700.0))), 0.0)
    step = np.where(late <= when, value, 0.0)
    with np.errstate(over="ignore"):
        line = value * np.maximum(0.0, 1.0 - late / np.where(when > 0, when, 1.0))
    return float(np.select([kind == SIGMOID, kind == DEADLINE, kind == UNSTATED], [sigmoid, step, 1.0], line).sum())


def _capacity(seen: _Seen) -> Check:
    """Exact whole milli-units, summed over the jobs on a machine in a slot."""
    cluster, rows = seen.cluster, seen.rows
    kinds = count(len(cluster.resources), "resource")
    checked = f"{count(cluster.size, 'machine')} x {count(seen.end, 'slot')} x {kinds}"
    meaning = "The most that any machine holds over its capacity in any slot, in units"
    if not len(rows):
        return Check.at_most("capacity", 0.0, 0.0, meaning, f"{checked}; the schedule is empty")
    place = rows[:, SLOT].astype(np.int64) * cluster.size + rows[:, MACHINE]
    order = np.argsort(place, kind="stable")
    start = np.flatnonzero(np.diff(place[order], prepend=-1))
    slot, machine = np.divmod(place[order][start], cluster.size)
    largest = max(max((*job.worker.values(), *(job.server or {}).values())) for job in seen.jobs)
    most = largest * int(rows[:, [WORKERS, SERVERS]].max(axis=0).sum()) * int(np.diff(start, append=len(rows)).max())
    whole: Any = np.int64 if most < 2**63 else object  # Python's integers where 64 bits do not hold it
    held = np.add.reduceat(seen.jobs.held(rows[order], cluster.resources, whole), start)
    over = (held - _room(seen, slot, machine)).T
    r, k = np.unravel_index(over.argmax(), over.shape)
    excess, where = max(0, int(over[r, k])), ""
    if excess:
        where = f"; the worst: {cluster.resources[r]} of {cluster.names[machine[k]]} in slot {slot[k]}"
    return Check.at_most("capacity", excess / MILLI, 0.0, meaning, f"{checked}{where}")


def _room(seen: _Seen, slot: Ints, machine: Ints) -> Ints:
    """What machines have in some slots, less what the calendar takes of it."""
    room = seen.cluster.capacity[seen.cluster.type_of[machine]]
    for window in seen.blocked:
        row = np.full(seen.cluster.size, -1)
        row[window.machines] = np.arange(len(window.machines))
        hit = (window.first <= slot) & (slot < window.last) & (row[machine] >= 0)
        room[hit] -= window.amounts[row[machine[hit]]]
    return np.maximum(room, 0)


def _devices(seen: _Seen) -> list[Check]:
    """Where workers ask for a part of a device: whether each fits on one, machine by machine, by packing the true parts."""
    cluster, rows, checks = seen.cluster, seen.rows, []
    for name in filter(is_device, cluster.resources):
        parts = [(job.worker.get(name, 0), (job.server or {}).get(name, 0)) for job in seen.jobs]
        shared = np.array([any(part % MILLI for part in both) for both in parts], dtype=bool)
        if not shared.any():
            continue
        most = int(cluster.capacity[:, cluster.resources.index(name)].max())
        place = rows[:, SLOT].astype(np.int64) * cluster.size + rows[:, MACHINE]
        mine = np.isin(place, place[shared[rows[:, JOB]]])
        held: dict[int, list[int]] = defaultdict(list)
        for at, (j, _, _, workers, servers) in zip(place[mine].tolist(), rows[mine].tolist(), strict=True):
            for part, number in zip(parts[j], (workers, servers), strict=True):  # any number may be claimed: beyond
                held[at] += [part] * min(number, most // part + 1) if part else []  # this nothing fits
        slots, machines = np.divmod(np.array(list(held), dtype=np.int64), cluster.size)
        rooms = _room(seen, slots, machines)[:, cluster.resources.index(name)].tolist()
        asked = [tuple(sorted(filter(None, some), reverse=True)) for some in held.values()]
        fits = {key: on_devices(*key) for key in {*zip(rooms, asked, strict=True)}}
        wrong = [k for k, key in enumerate(zip(rooms, asked, strict=True)) if not fits[key]]
        where = f"; the first: {cluster.names[machines[wrong[0]]]} in slot {slots[wrong[0]]}" if wrong else ""
        meaning = f"Machines in a slot whose parts of a {name} do not fit with each part on one {name}"
        checks.append(Check.at_most("devices", len(wrong), 0.0, meaning, f"{count(len(held), 'machine-slot')}{where}"))
    return checks


def on_devices(room: int, asked: Sequence[int]) -> bool:
    """Whether parts, the largest first, fit on the devices of a machine; more than one device is a number of whole ones."""
    free = [MILLI] * (room // MILLI) + [room % MILLI]
    whole = sum(-(-part // MILLI) for part in asked if part >= MILLI)
    if whole > room // MILLI:
        return False
    free, parts = free[whole:], [part for part in asked if part < MILLI]
    rounded = [next(one for one in PARTS if one >= part) for part in parts]  # what fits so fits, and plans do
    return _first_fit(free, parts) or _first_fit(free, rounded) or _any_fit(free, parts)


def _first_fit(free: Sequence[int], parts: Sequence[int]) -> bool:
    rooms = list(free)
    for part in parts:
        k = next((k for k, room in enumerate(rooms) if room >= part), None)
        if k is None:
            return False
        rooms[k] -= part
    return True


def _any_fit(free: Sequence[int], parts: Sequence[int]) -> bool:
    """All ways, part by part: the sets of rooms that can be left, where less than the least part is nothing."""
    left, after = {tuple(free)}, sum(parts)
    for part in parts:
        after -= part
        tried = {
            (*rooms[:k], room - part, *rooms[k + 1 :]) for rooms in left for k, room in enumerate(rooms) if room >= part
        }
        useful = {tuple(sorted(room for room in rooms if room >= parts[-1])) for rooms in tried}
        left = {rooms for rooms in useful if sum(rooms) >= after}
    return bool(left)


def _ratio(seen: _Seen) -> Check:
    jobs, j, w = seen.jobs, seen.job, seen.width
    gamma = np.array([0 if job.server is None else job.workers_per_server for job in jobs], dtype=np.int64)[j]
    widest = np.array([job.widest for job in jobs], dtype=np.int64)[j]
    wanted = np.where(gamma > 0, -(-w // np.maximum(gamma, 1)), 0)
    wrong = (seen.servers != wanted) | (w > widest) | (w == 0)
    meaning = "Job-slots without workers, with more than the job may have, or with servers other than ceil(w / gamma)"
    return Check.at_most("ratio", wrong.sum(), 0.0, meaning, f"{count(len(w), 'job-slot')}{_first(seen, wrong)}")


def _first(seen: _Seen, wrong: Bools) -> str:
    """Where the first wrong job-slot is."""
    if not wrong.any():
        return ""
    k = int(wrong.argmax())
    return f"; the first: {named(seen.jobs[int(seen.job[k])])} in slot {int(seen.slot[k])}"


def _work(seen: _Seen, claimed: Ints) -> Check:
    """Sums of the closed form, job by job, up to and after the finish."""
    n, done = len(seen.jobs), claimed >= 0
    by_finish = seen.slot <= claimed[seen.job]
    through = np.bincount(seen.job[by_finish], seen.gains[by_finish], n)
    total = np.bincount(seen.job, seen.gains, n)
    truly = np.where(seen.agrees(claimed), np.where(done, claimed, NEVER), seen.window[0])
    beyond = seen.slot > truly[seen.job]  # cells held when the job was already done
    idle = np.bincount(seen.job[beyond], seen.gains[beyond], n)
    wrong = np.where(done, np.maximum(1.0 - through, idle), np.where(total >= 1.0 - EXACT, 1.0, 0.0))
    wrong = np.maximum(wrong, 0.0)
    worst = float(wrong.max(initial=0.0))
    where = f"; the worst: {named(seen.jobs[int(wrong.argmax())])}" if worst > SHORT else ""
    meaning = (
        "The largest part of a finished job's true work missing at its finish or done after it (1: done, and not called "
        "finished)"
    )
    return Check.at_most("work", worst, SHORT, meaning, f"{count(int(done.sum()), 'finished job')} of {n:,}{where}")


def _arrival(seen: _Seen) -> Check:
    wrong = int(seen.cells[~seen.lawful].sum()) + seen.unsound + seen.twice
    meaning = (
        f"Cells before their job arrived, at or after the end (slot {seen.end:,}), on a machine or of a job there is not, "
        "empty, negative or given twice"
    )
    about = f"{count(len(seen.rows) + seen.unsound, 'cell')}{_first(seen, ~seen.lawful)}"
    return Check.at_most("arrival", wrong, 0.0, meaning, about)


def _locality(seen: _Seen, claimed: Ints) -> Check:
    wrong = ~seen.agrees(claimed)
    together, where = int(seen.together.sum()), ""
    if wrong.any():
        j = int(wrong.argmax())
        found = finish_of(seen.finish()[j])
        where = f"; the first: {named(seen.jobs[j])}, {finish_of(claimed[j])} claimed, {found} found"
    meaning = "Jobs whose finish is another when rates follow the machines they were on"
    about = f"{count(together, 'job-slot')} on one machine, {len(seen.job) - together:,} spread{where}"
    return Check.at_most("locality", wrong.sum(), 0.0, meaning, about)


def _utility(found: float, claimed: float, finish: Ints) -> Check:
    scale = max(abs(found), abs(claimed))
    off = abs(found - claimed) / scale if scale else 0.0
    many = count(int((finish >= 0).sum()), "job")
    told = (
        f"The worth of the finish slots found, {found:.6g} from {many}, against the {claimed:.6g} claimed (relative)."
    )
    return Check.at_most("utility", off, SAME_UTILITY, told)


def _bound(utility: float, bound: float) -> Check:
    over = (utility - bound) / bound if bound > 0 else utility
    told = f"Utility {utility:.6g} over the upper bound {bound:.6g}, relative: no schedule may be worth more."
    return Check.at_most("bound", over, OVER_BOUND, told)
