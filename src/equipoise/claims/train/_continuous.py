"""The paper's dynamics in continuous time on the ideal channel, by an adaptive ODE solver: the check of the discretisation.

    x' = -L f'(x)        y' = -L y - alpha z        z = grad g(y) + v,  v' = -L z        (docs/train.md, 2 and 3.8)

Writing z through v spares the Hessian: z' = -L z + d/dt grad g(y) as in the paper. Boxes are not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.topology import edge_weights


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The solution at the times asked for. Rows are times."""

    times: Floats
    shares: Floats | None  # [times, nodes], CPUs
    models: Floats | None  # [times, nodes, size]
    trackers: Floats | None


def flow_in_time(
    problem: Problem,
    network: Network,
    *,
    times: ArrayLike,
    alpha: float = 0.1,
    weights: str = "laplacian",
    dwell: float | None = None,
    start: ArrayLike | None = None,
    solver: str = "RK45",
    tolerance: float = 1e-10,
) -> Trajectory:
    """Integrate from x(0) (equal shares) and y(0) (`start`, or zeros). A switching network changes every `dwell` of time."""
    from scipy.integrate import solve_ivp

    at = np.asarray(times, dtype=np.float64)
    if not network.static and dwell is None:
        raise InputError("a switching network needs dwell: how long each graph lasts", code="switching.dwell")
    nodes = problem.sized(network.n)
    market, model = problem.market(nodes), problem.model
    size = 0 if model is None else model.size
    x0 = np.empty(0) if market is None else market.grid.floats(market.start())
    y0 = np.zeros((nodes, size)) if start is None else np.array(np.broadcast_to(start, (nodes, size)), dtype=np.float64)
    cut = len(x0)
    state = np.concatenate([x0, y0.ravel(), np.zeros(nodes * size)])
    kept: list[Floats] = []
    now, number = 0.0, 0
    while True:
        topology = network.topology(number)
        L = topology.laplacian(edge_weights(weights, topology, None if market is None else market.curvature))

        def slope(_: float, s: Floats, L: object = L) -> Floats:
            x_dot = np.empty(0) if market is None else -(L @ market.cost.derivative(s[:cut]))  # type: ignore[operator]
            if model is None:
                return x_dot
            y, v = s[cut:].reshape(2, nodes, size)
            z = model.gradients(y) + v
            return np.concatenate([x_dot, (-(L @ y) - alpha * z).ravel(), (-(L @ z)).ravel()])  # type: ignore[operator]

        until = float(at[-1]) if dwell is None else min(float(at[-1]), now + dwell)
        wanted = at[(at >= now) & (at < until)] if until < at[-1] else at[at >= now]
        found = solve_ivp(
            slope,
            (now, until),
            state,
            method=solver,
            t_eval=np.append(wanted, until) if until < at[-1] else wanted,
            rtol=tolerance,
            atol=tolerance,
        )
        if not found.success:
            raise RuntimeError(f"the ODE solver {solver} stopped at t = {found.t[-1]:g}: {found.message}")
        kept += list(found.y.T[: len(wanted)])
        if until >= at[-1]:
            break
        now, number, state = until, number + 1, found.y[:, -1]
    rows = np.array(kept)
    Y = rows[:, cut:].reshape(len(rows), 2, nodes, size)
    return Trajectory(
        at,
        None if market is None else rows[:, :cut],
        None if model is None else Y[:, 0],
        None if model is None else np.stack([model.gradients(y) + v for y, v in zip(Y[:, 0], Y[:, 1], strict=True)]),
    )
