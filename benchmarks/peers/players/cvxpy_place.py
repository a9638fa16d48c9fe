"""The programs of highs_place written in CVXPY, solved by HiGHS: what modelling costs. Imports nothing of ours."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from highs_place import GAP, cells_of
from line import Request, listen, timed

SOLVED = ("optimal", "optimal_inaccurate", "user_limit")


def slot_problem(given: Request, whole: bool) -> tuple[Any, Any]:
    """One slot, one width: the problem, and nothing more to read from it."""
    free, worker, server = (np.array(given[name], float) for name in ("free", "worker", "server"))
    w, s = (cp.Variable(len(free), integer=whole, nonneg=True) for _ in range(2))
    cost = np.array(given["price_worker"]) @ w + np.array(given["price_server"]) @ s
    room = [w * worker[r] + s * server[r] <= free[:, r] for r in range(len(worker))]
    return cp.Problem(cp.Minimize(cost), [*room, cp.sum(w) == given["workers"], cp.sum(s) == given["servers"]]), None


def plan_problem(given: Request, whole: bool) -> tuple[Any, Any]:
    """The whole plan of an arrival: the problem, and its variables in the order of highs_place's columns."""
    free = np.array(given["free"], float)
    slots, machines, _ = free.shape
    widest, gamma = float(given["widest"]), float(given["per_server"])
    price_worker, price_server = np.array(given["price_worker"], float), np.array(given["price_server"], float)
    end, apart = (cp.Variable(slots, integer=whole, bounds=[0, 1]) for _ in range(2))
    on = cp.Variable((slots, machines), integer=whole, bounds=[0, 1])
    wt, st, wa, sa = (cp.Variable((slots, machines), integer=whole, bounds=[0, widest]) for _ in range(4))
    cost = cp.sum(cp.multiply(price_worker, wt + wa) + cp.multiply(price_server, st + sa))
    work = (given["together"] * cp.sum(wt) + given["apart"] * cp.sum(wa)) / given["work"]
    limits = [
        cp.sum(end) <= 1,
        apart + cp.sum(on, axis=1) <= np.triu(np.ones((slots, slots))) @ end,
        wt <= widest * on,
        wt <= gamma * st,
        cp.sum(wa, axis=1) <= widest * apart,
        cp.sum(wa, axis=1) <= gamma * cp.sum(sa, axis=1),
        work >= cp.sum(end),
    ]
    for r, (a, b) in enumerate(zip(given["worker"], given["server"], strict=True)):
        limits.append(a * (wt + wa) + b * (st + sa) <= free[:, :, r])
    return cp.Problem(cp.Minimize(cost - np.array(given["value"]) @ end), limits), (end, apart, on, wt, st, wa, sa)


def play(request: Request) -> Request:
    """As highs_place's; modelling counts."""
    whole, plan = request["whole"], request["kind"] == "plan"

    def one(given: Request) -> Request:
        problem, variables = (plan_problem if plan else slot_problem)(given, whole)
        settings = {"mip_rel_gap": GAP} if whole else {}
        problem.solve(solver=cp.HIGHS, threads=1, time_limit=request["limit"], **settings)
        found = problem.status in SOLVED and problem.value is not None and np.isfinite(problem.value)
        said: Request = {
            "cost": float(problem.value) if found else None,
            "bound": None,
            "late": problem.status == "user_limit",
        }
        if found and plan and whole:
            point = np.concatenate([np.asarray(one.value).ravel() for one in variables])
            said["cells"] = cells_of(point, len(given["free"]), len(given["free"][0]))
        return said

    answers, spent = timed(lambda: [one(given) for given in request["questions"]])
    return {**spent, "answers": answers}


if __name__ == "__main__":
    listen(play)
