"""The exact optimum of the fluid site, for few tasks: whole tasks, and nobody computes before all of its data is there.

An integer program:

    u_i(s) = 1 if the last of task i's data is sent in slot s;  U_i(s) its running sum, so U_i at the end says "accepted"

    maximise sum_i U_i,   U_i <= 1,   W_i U_i <= X_i,   x_i(t) <= cap U_i(t - 1 - delay_i),   sum_i x_i(t) <= capacity,
    sum over arrivals from r on of D_i U_i(e) <= bandwidth (e - r + 1)  for all r <= e: the uplink, by Hall's theorem
"""

from typing import Any

import numpy as np

from equipoise.errors import refuse_if
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
    limits = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.5, "mip_feasibility_tolerance": 1e-9}
    solver: Any = solver_of(highspy.HighsLp(), **limits)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    _write(solver, jobs, highspy.HighsVarType.kInteger)
    run(solver)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS could not solve the exact oracle: {solver.getModelStatus()}")
    return round(float(solver.getObjectiveValue()))


def _write(solver: Any, jobs: OracleTasks, whole: object) -> None:
    """Columns u (when sending ends; each is worth 1) and x (what is computed), and all rows."""
    ends, slots = _ends(jobs), [range(a, b) for a, b in zip(jobs.ready, jobs.end, strict=True)]
    u = [{s: solver.addVariable(0.0, 1.0, 1.0, whole) for s in span} for span in ends]
    x = [{t: solver.addVariable(0.0, jobs.cap) for t in span} for span in slots]

    def ended(i: int, s: int) -> Any:
        """U_i(s)."""
        return solver.qsum(u[i][q] for q in ends[i] if q <= s)

    for i, span in enumerate(ends):
        solver.addConstr(ended(i, span[-1]) <= 1.0)
        solver.addConstr(float(jobs.work[i]) * ended(i, span[-1]) - solver.qsum(x[i].values()) <= 0.0)
        for t in slots[i]:
            solver.addConstr(x[i][t] - float(jobs.most[i]) * ended(i, t - 1 - int(jobs.delay[i])) <= 0.0)
    for t in range(jobs.slots):
        open_ = [column[t] for column in x if t in column]
        if len(open_) * jobs.cap > jobs.capacity:
            solver.addConstr(solver.qsum(open_) <= jobs.capacity)
    dues = sorted({s for span in ends for s in span}) if np.isfinite(jobs.bandwidth) else []
    for release in np.unique(jobs.arrival).tolist():
        late = [i for i in range(jobs.count) if jobs.arrival[i] >= release and jobs.data[i] > 0.0]
        for due in dues:
            sent = [float(jobs.data[i]) * ended(i, due) for i in late if ends[i][0] <= due]
            if sent:
                solver.addConstr(solver.qsum(sent) <= jobs.bandwidth * (due - release + 1))


def _ends(jobs: OracleTasks) -> list[range]:
    """Slots in which each task's sending may end so that its work still fits. Without data: just before it arrives."""
    first = jobs.ready - jobs.delay - 1
    last = jobs.end - np.ceil(jobs.work / jobs.most - 1e-9).astype(np.int64) - jobs.delay - 1
    last = np.where(jobs.data > 0.0, np.maximum(last, first), first)
    return [range(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
