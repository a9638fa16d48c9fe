"""The exact optimum of the fluid site, for few tasks: whole tasks, and nobody computes before all of its data is there.

An integer program:

    u_i(s) = 1 if the last of task i's data is sent in slot s;  U_i(s) its running sum, so U_i at the end says "accepted"

    maximise sum_i U_i,   U_i <= 1,   W_i U_i <= X_i,   x_i(t) <= cap U_i(t - 1 - delay_i),   sum_i x_i(t) <= capacity,
    sum over arrivals from r on of D_i U_i(e) <= bandwidth (e - r + 1)  for all r <= e: the uplink, by Hall's theorem
"""

import numpy as np

from equipoise.errors import refuse_if
from equipoise.kernels import Floats, Ints
from equipoise.linear_program import run, solver_of
from equipoise.share.oracle import OracleTasks

MOST_TASKS = 20  # well under a second at 8, some seconds at 20, minutes beyond


def exact_optimum(jobs: OracleTasks) -> int:
    """The most tasks that can be finished in time, by a schedule that exists."""
    import highspy

    why = f"oracle: exact=True with {jobs.count} tasks; it is for {MOST_TASKS} at most. Use exact=False, the bound"
    refuse_if(jobs.count > MOST_TASKS, why, code="oracle.size")
    if not jobs.count:
        return 0
    rows = Rows(jobs)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = rows.columns, len(rows.room)
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_, model.col_lower_ = rows.is_end.astype(float), np.zeros(rows.columns)
    model.col_upper_ = np.where(rows.is_end, 1.0, jobs.cap)  # own limits are rows
    kinds = highspy.HighsVarType
    model.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in rows.is_end]
    model.row_lower_, model.row_upper_ = np.full(len(rows.room), -np.inf), np.array(rows.room)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0] + [len(row) for row in rows.index])
    model.a_matrix_.index_ = np.concatenate(rows.index)
    model.a_matrix_.value_ = np.concatenate(rows.value)
    solver = solver_of(model, mip_rel_gap=0.0, mip_abs_gap=0.5, mip_feasibility_tolerance=1e-9)
    run(solver)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS could not solve the exact oracle: {solver.getModelStatus()}")
    return round(solver.getObjectiveValue())


class Rows:
    """The rows `value @ columns[index] <= room`, over columns u (when sending ends) and x (what is computed)."""

    def __init__(self, jobs: OracleTasks) -> None:
        self.jobs = jobs
        self.index: list[Ints] = []
        self.value: list[Floats] = []
        self.room: list[float] = []
        ends, slots = self._ends(), [range(a, b) for a, b in zip(jobs.ready, jobs.end, strict=True)]
        keys = [("u", i, s) for i, span in enumerate(ends) for s in span]
        keys += [("x", i, t) for i, span in enumerate(slots) for t in span]
        self.column = {key: k for k, key in enumerate(keys)}
        self.columns = len(keys)
        self.is_end = np.array([kind == "u" for kind, _, _ in keys])
        self.ended = [
            {s: [self.column["u", i, q] for q in span if q <= s] for s in span} for i, span in enumerate(ends)
        ]
        for i in range(jobs.count):
            self._whole_tasks(i, slots[i], ends[i])
        self._servers(slots)
        self._uplink(ends)

    def _ends(self) -> list[range]:
        """Slots in which each task's sending may end so that its work still fits. Without data: just before it arrives."""
        jobs = self.jobs
        first = jobs.ready - jobs.delay - 1
        last = jobs.end - np.ceil(jobs.work / jobs.most - 1e-9).astype(np.int64) - jobs.delay - 1
        last = np.where(jobs.data > 0.0, np.maximum(last, first), first)
        return [range(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True)]

    def _row(self, index: list[int], value: list[float], room: float) -> None:
        self.index.append(np.array(index, np.int64))
        self.value.append(np.array(value, float))
        self.room.append(room)

    def _whole_tasks(self, i: int, slots: range, ends: range) -> None:
        """U_i <= 1, W_i U_i <= X_i, and x_i(t) <= cap U_i(t - 1 - delay_i)."""
        jobs, ended = self.jobs, self.ended[i][ends[-1]]
        computed = [self.column["x", i, t] for t in slots]
        self._row(ended, [1.0] * len(ended), 1.0)
        self._row(ended + computed, [float(jobs.work[i])] * len(ended) + [-1.0] * len(computed), 0.0)
        for t, x in zip(slots, computed, strict=True):
            there = self.ended[i][min(t - 1 - int(jobs.delay[i]), ends[-1])]
            self._row([x, *there], [1.0] + [-float(jobs.most[i])] * len(there), 0.0)

    def _servers(self, slots: list[range]) -> None:
        for t in range(self.jobs.slots):
            open_ = [self.column["x", i, t] for i, span in enumerate(slots) if t in span]
            if len(open_) * self.jobs.cap > self.jobs.capacity:
                self._row(open_, [1.0] * len(open_), self.jobs.capacity)

    def _uplink(self, ends: list[range]) -> None:
        """One row an interval from an arrival to a slot in which some sending may end."""
        jobs = self.jobs
        if not np.isfinite(jobs.bandwidth):
            return
        dues = sorted({s for span in ends for s in span})
        for release in np.unique(jobs.arrival).tolist():
            for due in dues:
                inside = [
                    (u, float(jobs.data[i]))
                    for i, span in enumerate(ends)
                    if jobs.arrival[i] >= release and jobs.data[i] > 0.0 and span[0] <= due
                    for u in self.ended[i][min(due, span[-1])]
                ]
                if inside:
                    columns, data = zip(*inside, strict=True)
                    self._row(list(columns), list(data), jobs.bandwidth * (due - release + 1))
