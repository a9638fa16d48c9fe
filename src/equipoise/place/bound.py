"""The most utility any schedule could reach, with everything known in advance: a linear program, or the optimum itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from equipoise.errors import refuse_if, said_of
from equipoise.kernels import Floats
from equipoise.linear_program import model_of, run, solver_of
from equipoise.place.bound_lp import Program, Window, apart, demands, fitting, pools_of, together, windows_of
from equipoise.place.cluster import Cluster, is_device
from equipoise.place.job import Job, Workload
from equipoise.units import MILLI


@dataclass(frozen=True)
class Bound:
    """An upper bound on the total utility. `completion` is the part of each job it completes, in order of arrival."""

    utility: float
    kind: str  # "lp", "milp" (the optimum itself), or "trivial": no job can complete
    status: str  # "optimal"; "inexact", "time_limit": still a bound, not the tightest of its kind
    completion: Floats = field(compare=False, repr=False)
    coarsen: int = 1  # slots to a period
    note: str = ""
    seconds: float = field(default=0.0, compare=False)


@said_of("bound")
def bound(
    cluster: Cluster,
    jobs: Iterable[Job],
    *,
    slots: int | None = None,
    horizon: int | None = None,
    exact: bool = False,
    time_limit: float | None = None,
    coarsen: int | None = None,
) -> Bound:
    """No schedule whose jobs finish in time is worth more than this.

    Parameters
    ----------
    cluster, jobs
        As for `simulate`.
    slots
        Jobs finish before this slot.
    horizon
        Jobs finish within so many slots of their arrival.
    exact
        The optimum itself, for a handful of jobs.
    time_limit
        Stop after so many seconds; what is found by then is still a bound.
    coarsen
        Merge so many slots into one: looser, smaller. As few as fit unless stated.
    """
    began = time.perf_counter()
    workload = Workload.of(jobs)
    windows = windows_of(cluster, workload, slots, horizon)
    if not windows:
        return Bound(0.0, "trivial", "optimal", np.zeros(len(workload)), seconds=time.perf_counter() - began)
    if exact:
        why = f"coarsen is {coarsen!r} with exact=True; the optimum has slots of one. Leave it out"
        refuse_if(coarsen not in (None, 1), why, code="coarsen.exact")
        utility, status, completion = optimum(cluster, workload, windows, time_limit)
        return Bound(utility, "milp", status, completion, seconds=time.perf_counter() - began)
    period = fitting(cluster, windows, coarsen)
    program = Program(cluster, windows, period, pools_of(cluster, windows))
    solved = program.solve(time_limit)
    completion = np.zeros(len(workload))
    completion[[w.index for w in windows]] = solved.completion
    note = "" if period == 1 else f"slots merged by {period}: looser than slot by slot"
    seconds = time.perf_counter() - began
    return Bound(solved.utility, "lp", solved.status, completion, period, note, seconds)


# The true optimum of a few jobs on a few machines, as an integer program.
#
# For job j in slot t, on machine h: w, s workers and servers kept together there, allowed by the binary m; v, x workers and
# servers apart, allowed by the binary o of the machine's type; e the part of the work done; y_c = 1 if it completes in c.
#
#     maximise sum u_jc y_jc,   sum_c y_jc <= 1,   sum_h m_jht + sum o_jt <= sum_{c >= t} y_jc
#     w_jht <= (widest together on h) m_jht,   w_jht <= gamma s_jht
#     sum_h v_jht <= (widest) o_jt,   sum_h v_jht <= gamma sum_h x_jht
#     e_jt <= rate of the width used, by the lines through neighbouring widths: exact, for a rate is concave where it rises
#     sum_{t <= c} e_jt >= sum_{c' <= c} y_jc',   capacity of every (slot, machine, resource)
#
# A server too many only costs, so s = ceil(w / gamma) at an optimum.

MOST_INTEGERS = 20_000
Mode = tuple[
    list[int], int, int
]  # the columns of its workers by machine, the binary that allows it, the type of machines


def optimum(
    cluster: Cluster, workload: Workload, windows: Sequence[Window], time_limit: float | None
) -> tuple[float, str, Floats]:
    """The utility, "optimal" or "time_limit" (then the best bound known), and which jobs complete."""
    import highspy

    for w in windows:
        _refuse(w.job)
    integers = sum(len(w.worth) * (5 * cluster.size + 2) for w in windows)
    way_out = "Give fewer jobs, machines or slots, or exact=False"
    why = f"exact=True needs about {integers:,} whole numbers, over {MOST_INTEGERS:,}. {way_out}"
    refuse_if(integers > MOST_INTEGERS, why, code="bound.size")
    rows = ProgramRows(cluster, windows)
    row, column, value = (np.array(part) for part in zip(*rows.entries, strict=True))
    matrix = sparse.csc_matrix((value, (row, column)), shape=(len(rows.room), len(rows.cost)))
    model = model_of(
        np.array(rows.cost), np.array(rows.most), matrix, -np.inf, np.array(rows.room), np.array(rows.whole)
    )
    model.sense_ = highspy.ObjSense.kMaximize
    limit = {} if time_limit is None else {"time_limit": float(time_limit)}
    solver = solver_of(model, mip_rel_gap=0.0, mip_abs_gap=1e-9, mip_feasibility_tolerance=1e-9, **limit)
    run(solver)
    faint = sum(w.faint for w in windows)
    completion = np.zeros(len(workload))
    status = solver.getModelStatus()
    solution = solver.getSolution()
    if solution.value_valid:
        values = np.asarray(solution.col_value)
        for w, chosen in zip(windows, rows.completing, strict=True):
            completion[w.index] = round(values[list(chosen.values())].sum())
    if status == highspy.HighsModelStatus.kOptimal:
        return float(solver.getObjectiveValue()) + faint, "optimal", completion
    if status != highspy.HighsModelStatus.kTimeLimit:
        raise RuntimeError(f"HiGHS could not solve the exact bound: {status}")
    trivial = sum(float(w.worth[w.earliest]) for w in windows)
    return min(float(solver.getInfo().mip_dual_bound), trivial) + faint, "time_limit", completion


def _refuse(job: Job) -> None:
    """What the integer program does not model."""
    why = f"job {job.id!r} is faster between machines than inside one; exact=True assumes not. Use exact=False"
    refuse_if(job.inside < job.between, why, code="bound.between")
    asked = [*job.worker.items(), *(job.server or {}).items()]
    beyond = {
        "states a table of rates": any(isinstance(speed, tuple) for speed in (job.speeds or {}).values()),
        "is slower across racks": job.across is not None and job.across < job.between,
        "asks for a part of a device": any(is_device(name) and amount % MILLI for name, amount in asked),
    }
    for what, has in beyond.items():
        refuse_if(has, f"job {job.id!r} {what}; exact=True does not model it. Use exact=False", code="bound.exact")


class ProgramRows:
    """Columns, and rows `entries @ columns <= room`. Resources are counted in parts of a machine's capacity."""

    def __init__(self, cluster: Cluster, windows: Sequence[Window]) -> None:
        self.cost: list[float] = []
        self.most: list[float] = []
        self.whole: list[bool] = []
        self.entries: list[tuple[int, int, float]] = []  # row, column, value
        self.room: list[float] = []
        self.cluster, self.size = cluster, cluster.size
        # By slot, machine and resource: columns, and the milli-units they take.
        self.used: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        # The column y of every slot that each job may complete in.
        self.completing = [
            {w.job.arrival + d: self._column(1.0, cost=float(w.worth[d])) for d in range(w.earliest, len(w.worth))}
            for w in windows
        ]
        for w, completing in zip(windows, self.completing, strict=True):
            self._job(w, completing)
        for (_, h, r), taken in self.used.items():
            capacity = int(cluster.capacity[cluster.type_of[h], r])
            scale = float(max(capacity, 1))
            self._row([(column, amount / scale) for column, amount in taken], capacity / scale)

    def _column(self, most: float, *, whole: bool = True, cost: float = 0.0) -> int:
        self.cost.append(cost)
        self.most.append(most)
        self.whole.append(whole)
        return len(self.cost) - 1

    def _row(self, entries: list[tuple[int, float]], room: float) -> None:
        self.entries += [(len(self.room), column, value) for column, value in entries]
        self.room.append(room)

    def _job(self, w: Window, completing: dict[int, int]) -> None:
        job, demand = w.job, demands(self.cluster, w.job)
        types = self.cluster.types
        taken = [job.takes(name) for name in types]
        inner = together(self.cluster, job) * np.array(taken)[self.cluster.entry_types]
        outer = np.array([apart(self.cluster, job, on) if takes else 0 for on, takes in enumerate(taken)])
        if job.server is None:  # alone or slower apart: a single worker is together already
            outer[outer < 2] = 0
            if job.rate(2, together=False) <= job.rate(1, together=False):
                outer[:] = 0
        if job.server is None and job.rate(2, together=True) <= job.rate(1, together=True):
            inner = np.minimum(inner, 1)
        self._row([(y, 1.0) for y in completing.values()], 1.0)
        alone = [([h], most) for h, most in enumerate(inner[self.cluster.type_of].tolist()) if most]
        own = self.cluster.machine_types
        spread = [(np.flatnonzero(own == on).tolist(), most) for on, most in enumerate(outer.tolist()) if most]
        done: list[int] = []
        for t in range(job.arrival, w.end):
            inside, outside = ([self._mode(job, t, *one, demand) for one in some] for some in (alone, spread))
            modes = [(allowed, 1.0) for _, allowed, _ in inside + outside]
            self._row(modes + [(y, -1.0) for c, y in completing.items() if c >= t], 0.0)
            done.append(self._column(float("inf"), whole=False))
            self._rate(w, done[-1], inside, outside, int(max(inner.max(), outer.max())))
            if t in completing:
                finished = [(y, 1.0) for c, y in completing.items() if c <= t]
                self._row(finished + [(e, -1.0) for e in done], 0.0)

    def _mode(
        self, job: Job, t: int, machines: list[int], widest: int, demand: tuple[list[int], list[int] | None]
    ) -> Mode:
        """Up to `widest` workers over some machines in a slot, with servers enough."""
        allowed = self._column(1.0)
        workers = [self._column(widest) for _ in machines]
        self._row([(v, 1.0) for v in workers] + [(allowed, -float(widest))], 0.0)
        self._take(t, machines, workers, demand[0])
        if demand[1] is not None:
            servers = [self._column(job.servers(widest)) for _ in machines]
            self._row([(v, 1.0) for v in workers] + [(x, -float(job.workers_per_server)) for x in servers], 0.0)
            self._take(t, machines, servers, demand[1])
        return workers, allowed, int(self.cluster.machine_types[machines[0]])

    def _take(self, t: int, machines: list[int], columns: list[int], demand: Sequence[int]) -> None:
        for h, column in zip(machines, columns, strict=True):
            for r, amount in enumerate(demand):
                if amount:
                    self.used.setdefault((t, h, r), []).append((column, amount))

    def _rate(self, w: Window, done: int, inside: list[Mode], outside: list[Mode], widest: int) -> None:
        """done <= slope * workers + level * mode, for the line through widths k and k + 1, of the one mode in use."""
        for k in [0] if w.job.server is not None else range(max(widest, 1)):
            entries = [(done, 1.0)]
            for near, modes in ((True, inside), (False, outside)):
                for workers, allowed, on in modes:
                    name = self.cluster.types[on]
                    low, high = (w.job.rate(n, together=near, type=name) / w.need for n in (k, k + 1))
                    entries += [(v, low - high) for v in workers] + [(allowed, (high - low) * k - low)]
            self._row(entries, 0.0)
