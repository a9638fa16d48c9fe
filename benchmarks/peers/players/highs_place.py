"""Placement as linear and integer programs for HiGHS: one slot of one width, or the whole plan of an arrival.

Both are written by a competent user: matrices built with SciPy, passed in one call, one thread. `whole` false gives the
relaxation. The whole plan chooses the slot it ends in, and in every slot whether all is on one machine (workers there
talk faster) or spread. Imports nothing of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from line import Request, listen, timed
from scipy import sparse

GAP = 1e-4  # relative, at which an integer program is called solved


@dataclass(frozen=True)
class Program:
    """Minimise cost x, lower <= A x <= upper, 0 <= x <= most."""

    cost: Any
    A: Any
    lower: Any
    upper: Any
    most: Any


def slot_program(given: Request) -> Program:
    """Workers and servers on machines of one slot, exactly so many of each, as cheaply as can be."""
    free, worker, server = (np.array(given[name], float) for name in ("free", "worker", "server"))
    machines = len(free)
    price = np.concatenate([given["price_worker"], given["price_server"]])
    room = sparse.hstack([sparse.kron(sparse.eye(machines), amount[:, None]) for amount in (worker, server)])
    sums = sparse.kron(sparse.eye(2), np.ones((1, machines)))
    need = np.array([given["workers"], given["servers"]], float)
    return Program(
        cost=price,
        A=sparse.vstack([room, sums]).tocsc(),
        lower=np.concatenate([np.full(free.size, -np.inf), need]),
        upper=np.concatenate([free.ravel(), need]),
        most=np.repeat(need, machines),
    )


def plan_program(given: Request) -> Program:
    """Columns: end in slot (T), spread in slot (T), together on (T M), then workers and servers together and spread."""
    free = np.array(given["free"], float)  # [slot, machine, resource]
    slots, machines, resources = free.shape
    cells, widest, gamma = slots * machines, float(given["widest"]), float(given["per_server"])
    price_worker, price_server = (np.array(given[name], float).ravel() for name in ("price_worker", "price_server"))
    worker, server = np.array(given["worker"], float), np.array(given["server"], float)
    blank = {"end": slots, "apart": slots, "on": cells, "wt": cells, "st": cells, "wa": cells, "sa": cells}
    one, by_slot = sparse.eye(cells), sparse.kron(sparse.eye(slots), np.ones((1, machines)))
    until = sparse.csr_array(np.triu(np.ones((slots, slots))))  # slots from t on
    rows: list[Any] = []
    lower: list[Any] = []
    upper: list[Any] = []

    def add(low: Any, high: Any, **blocks: Any) -> None:
        height = next(iter(blocks.values())).shape[0]
        rows.append([blocks.get(name, sparse.csr_array((height, width))) for name, width in blank.items()])
        lower.append(np.broadcast_to(low, height))
        upper.append(np.broadcast_to(high, height))

    add(-np.inf, 1.0, end=sparse.csr_array(np.ones((1, slots))))
    add(-np.inf, 0.0, end=-until, apart=sparse.eye(slots), on=by_slot)
    add(-np.inf, 0.0, wt=one, on=-widest * one)
    add(-np.inf, 0.0, wt=one, st=-gamma * one)
    add(-np.inf, 0.0, wa=by_slot, apart=-widest * sparse.eye(slots))
    add(-np.inf, 0.0, wa=by_slot, sa=-gamma * by_slot)
    for r in range(resources):
        add(
            -np.inf,
            free[:, :, r].ravel(),
            wt=worker[r] * one,
            wa=worker[r] * one,
            st=server[r] * one,
            sa=server[r] * one,
        )
    ones, work = np.ones((1, cells)), given["work"]
    add(
        0.0,
        np.inf,
        wt=sparse.csr_array(given["together"] / work * ones),
        wa=sparse.csr_array(given["apart"] / work * ones),
        end=sparse.csr_array(-np.ones((1, slots))),
    )
    binary = np.ones(2 * slots + cells)
    return Program(
        cost=np.concatenate(
            [
                -np.array(given["value"], float),
                np.zeros(slots + cells),
                price_worker,
                price_server,
                price_worker,
                price_server,
            ]
        ),
        A=sparse.vstack([sparse.hstack(row) for row in rows]).tocsc(),
        lower=np.concatenate(lower),
        upper=np.concatenate(upper),
        most=np.concatenate([binary, np.full(4 * cells, widest)]),
    )


def solve(program: Program, whole: bool, limit: float) -> tuple[Any, float, bool]:
    """The best point found (None: there is none), the proven bound on the cost, and whether the limit was hit."""
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = program.A.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, np.zeros(lp.num_col_), program.most
    lp.row_lower_, lp.row_upper_ = program.lower, program.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = program.A.indptr, program.A.indices, program.A.data
    if whole:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * lp.num_col_
    highs = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", GAP), ("time_limit", limit)):
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    highs.run()
    info = highs.getInfo()
    late = highs.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
    if info.primal_solution_status != 2:  # feasible
        return None, float(info.mip_dual_bound) if whole else np.nan, late
    bound = float(info.mip_dual_bound) if whole else float(info.objective_function_value)
    return np.array(highs.getSolution().col_value), bound, late


def cells_of(point: Any, slots: int, machines: int) -> list[list[int]]:
    """(slot, machine, workers, servers) of a whole plan, where there are any."""
    counts = np.rint(point[2 * slots + slots * machines :]).astype(int).reshape(4, slots, machines)
    workers, servers = counts[0] + counts[2], counts[1] + counts[3]
    return [[int(t), int(h), int(workers[t, h]), int(servers[t, h])] for t, h in np.argwhere(workers + servers > 0)]


def answer(given: Request, program: Program, point: Any, bound: float, late: bool) -> Request:
    """What a program gave, in the words of its question."""
    said: Request = {"cost": None, "bound": bound, "late": late}
    if point is not None:
        said["cost"] = float(program.cost @ point)
        if given["kind"] == "plan" and given["whole"]:
            said["cells"] = cells_of(point, len(given["free"]), len(given["free"][0]))
    return said


def play(request: Request) -> Request:
    """All questions of a file of JSON lines, one after the other; building the program counts."""
    build = slot_program if request["kind"] == "slot" else plan_program

    def one(given: Request) -> Request:
        given = {**given, "kind": request["kind"], "whole": request["whole"]}
        program = build(given)
        return answer(given, program, *solve(program, request["whole"], request["limit"]))

    answers, spent = timed(lambda: [one(given) for given in request["questions"]])
    return {**spent, "answers": answers}


if __name__ == "__main__":
    listen(play)
