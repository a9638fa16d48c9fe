"""Functions that should fall along a run, and whether they do.

`python -m equipoise.claims.train._lyapunov` prints the table of docs/train-theory.md: the part of rounds in which V fell,
and the worst rise in a round as a part of V.

    cpu      V = sum f(x) - sum f(x*)                                  the paper's, for the CPU half
    norm     V = 1/2 |(y - y*, z)|^2                                   the paper's, for the learning half
    weighted V = delta' P delta with M' P M - P = -I                   falls in every ideal round below the crossing
    energy   V = 1/4 d'((2 - eta L)^2 - 2 eta alpha H) d + |eta L (y + d/2)|^2,  d = -eta (L y + alpha z), the next move of y

The energy is that of the oscillator the loop is (closed_loop.py). For quadratic losses and a fixed graph it changes in a
round by exactly -1/2 s'(2 eta L - (eta L)^2 + eta alpha H) s, s the sum of two successive moves; its first term is
positive for every d exactly where the rounds are stable.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov

from equipoise.errors import InputError
from equipoise.parallel import one_thread
from equipoise.train.arrays import Floats
from equipoise.train.audit import cpu_gap
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.method import Method
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact, LogQuantizer
from equipoise.train.solve import Moment, solve
from equipoise.train.theory.closed_loop import ClosedLoop
from equipoise.train.truth import optimal_model, optimal_shares

FLOOR = 1e-12  # of V at the start: below, rounding decides whether it falls

CHANNELS = {  # the paper's flows and gradient tracking with each channel
    "ideal": Method(quantizer=Exact(), momentum=False),
    "innovation, rho 0.125": Method(momentum=False),
    "innovation, rho 1": Method(quantizer=LogQuantizer(rho=1.0), momentum=False),
    "node": Method(quantizer=LogQuantizer(mode="node"), momentum=False),
}
LASTING = {"static": 0, "each round": 1, "each 10": 10}  # rounds that a graph lasts
HALVES = ("cpu", "norm")
NODES, SIZE, ROWS, GRAPHS = 10, 3, 12, 5

Value = Callable[[Floats, Floats], float]  # of y - y* and z, each (nodes, size)


@dataclass(frozen=True, eq=False)
class LyapunovTrace:
    """V after every round, round 0 being the start, and which rounds met another graph than the one before."""

    name: str
    values: Floats  # [rounds + 1]
    switched: Any  # [rounds], bool

    @property
    def counted(self) -> Any:
        """Rounds, as bool, that begin above rounding: those before V first came within FLOOR of nothing."""
        above = self.values[:-1] > FLOOR * self.values[0]
        return np.logical_and.accumulate(above)

    @property
    def fell(self) -> Any:
        """For each counted round, whether V fell."""
        return (np.diff(self.values) < 0)[self.counted]

    @property
    def share_falling(self) -> float:
        """The part of counted rounds in which V fell."""
        return float(np.mean(self.fell)) if self.fell.size else 1.0

    @property
    def largest_rise(self) -> float:
        """The largest rise of V in a counted round, as a part of V before it; 0 where it never rose."""
        before, after = self.values[:-1][self.counted], self.values[1:][self.counted]
        return float(max(0.0, (after / before - 1.0).max(initial=0.0)))


def norm(y: Floats, z: Floats) -> float:
    """1/2 |(y - y*, z)|^2, the paper's function; y is the error."""
    return float(0.5 * ((y**2).sum() + (z**2).sum()))


def weighted(loop: ClosedLoop, alpha: float, step: float) -> Value:
    """delta' P delta with P the solution of M' P M - P = -I on the consistent subspace; needs a stable loop."""
    if not loop.radius(alpha, step) < 1.0:
        raise InputError(
            f"no weighted norm falls at alpha {alpha:g}, step {step:g}: the rounds are not stable there",
            code="loop.unstable",
        )
    Q = loop.consistent
    with one_thread():
        P = solve_discrete_lyapunov((Q.T @ loop.round_map(alpha, step) @ Q).T, np.eye(Q.shape[1]))

    def value(y: Floats, z: Floats) -> float:
        inside = Q.T @ np.concatenate([y.ravel(), z.ravel()])
        return float(inside @ P @ inside)

    return value


def energy(loop: ClosedLoop, alpha: float, step: float) -> Value:
    """The energy of the rounds (this module's docstring): falls in every ideal round, and is positive below the crossing."""
    S = step * loop.laplacian
    wide = 2.0 * np.eye(len(S)) - S

    def value(y: Floats, z: Floats) -> float:
        move = -(S @ y + step * alpha * z)
        bent = np.einsum("ijk,ik->ij", loop.hessians, move)
        moving = ((wide @ move) ** 2).sum() / 4.0 - step * alpha / 2.0 * (move * bent).sum()
        return float(moving + ((S @ (y + move / 2.0)) ** 2).sum())

    return value


def energy_in_time(laplacian: Floats, alpha: float) -> Value:
    """1/2 |y'|^2 + 1/2 |L y|^2 with y' = -(L y + alpha z): falls along the paper's equations, whatever alpha.

    Its rate is -v'(2 L + alpha H) v with v = y', at most 0 for any convex losses, quadratic or not, on a fixed graph.
    """

    def value(y: Floats, z: Floats) -> float:
        agreeing = laplacian @ y
        return float(0.5 * ((agreeing + alpha * z) ** 2).sum() + 0.5 * (agreeing**2).sum())

    return value


def cpu_decrease(laplacian: Any, curvature: Floats, prices: Floats, step: float) -> float:
    """By how much the cost falls in an ideal round, exactly for quadratic costs without boxes or momentum.

    step p'Lp - step^2/2 p'L H L p with prices p: positive whenever step < 2 / lambda_max(L H) and prices differ.
    """
    flow = laplacian @ prices
    return float(step * (prices @ flow) - step**2 / 2.0 * (flow @ (curvature * flow)))


def trace(
    problem: Problem,
    network: Network,
    method: Method,
    *,
    rounds: int,
    start: ArrayLike | None = None,
    values: dict[str, Value] | None = None,
) -> dict[str, LyapunovTrace]:
    """Run, and evaluate after every round: "cpu" and "norm" where that half is there, and `values` by their names.

    `start` is y(0), zeros unless given. Costs and models are held against the centralised optima.
    """
    nodes = problem.sized(network.n)
    market, model = problem.market(nodes), problem.model
    seen: dict[str, list[float]] = {}
    x: Floats | None = None
    y: Floats | None = None
    z: Floats | None = None
    if market is not None:
        x = market.grid.floats(market.start())
        best = optimal_shares(market.cost, market.budget * market.grid.unit, market.lo, market.hi)
    if model is not None:
        y = np.broadcast_to(0.0 if start is None else np.asarray(start, np.float64), (nodes, model.size)).copy()
        z = model.gradients(y)
        optimum = optimal_model(model).parameters

    def look(x: Floats | None, y: Floats | None, z: Floats | None) -> None:
        if market is not None and x is not None:
            seen.setdefault("cpu", []).append(cpu_gap(market.cost, x, best))
        if y is not None and z is not None:
            for name, value in ({"norm": norm} | (values or {})).items():
                seen.setdefault(name, []).append(value(y - optimum, z))

    def after(moment: Moment) -> None:
        learning = moment.state.learning
        look(moment.shares, moment.models, None if learning is None else learning.trackers)

    look(x, y, z)
    begin = "zeros" if start is None else start
    solve(problem, network, method, rounds=rounds, callback=after, every=rounds, start=begin)
    played = max((len(column) for column in seen.values()), default=1) - 1
    switched = np.array(
        [k > 0 and network.topology(k) is not network.topology(k - 1) for k in range(played)], dtype=bool
    )
    return {name: LyapunovTrace(name, np.array(column), switched) for name, column in seen.items()}


def instance(half: str, seed: int) -> Problem:
    """Quadratic costs of unequal curvature, or least squares on shards of unequal scale; by seed."""
    rng = np.random.default_rng(seed)
    if half == "cpu":
        cost = Quadratic(np.exp(0.5 * rng.standard_normal(NODES)), rng.uniform(10.0, 40.0, NODES))
        return Problem(cost, 25.0 * NODES)
    truth = rng.standard_normal(SIZE)
    X = [rng.standard_normal((ROWS, SIZE)) * np.exp(rng.standard_normal()) for _ in range(NODES)]
    return Problem(model=LeastSquares([(rows, rows @ truth + rng.standard_normal(ROWS)) for rows in X]))


def network(lasting: int, seed: int) -> Network:
    """One random graph, or five in turn, each for so many rounds."""
    if lasting == 0:
        return Network.erdos_renyi(NODES, 0.4, seed=seed)
    base = Network.erdos_renyi(NODES, 0.4, seed=seed, switching=GRAPHS)
    return Network(NODES, f"each {lasting}", [base.topology(k) for k in range(GRAPHS) for _ in range(lasting)])


def traces(half: str, lasting: int, method: Method, seeds: int, rounds: int) -> list[LyapunovTrace]:
    """One run a seed."""
    return [trace(instance(half, s), network(lasting, s), method, rounds=rounds)[half] for s in range(seeds)]


def summary(found: list[LyapunovTrace]) -> dict[str, float]:
    """Over all runs: the part of rounds in which V fell, that after a switch (nan: none), and the worst rise."""
    fell = np.concatenate([t.fell for t in found])
    switched = np.concatenate([t.switched[t.counted] for t in found])
    return {
        "fell": float(fell.mean()),
        "after_switch": float(fell[switched].mean()) if switched.any() else float("nan"),
        "worst_rise": max(t.largest_rise for t in found),
        "last": float(np.median([t.values[-1] / t.values[0] for t in found])),
    }


def main(seeds: int = 20, rounds: int = 400) -> None:
    """Print a row for each half, network and channel."""
    print(
        f"{'':5s}{'network':11s}{'channel':23s}{'fell':>8s}{'after a switch':>16s}{'worst rise':>12s}{'last V/V(0)':>13s}"
    )
    for half in HALVES:
        for label, lasting in LASTING.items():
            for channel, method in CHANNELS.items():
                s = summary(traces(half, lasting, method, seeds, rounds))
                after = f"{s['after_switch']:.2%}" if lasting else "-"
                print(
                    f"{half:5s}{label:11s}{channel:23s}{s['fell']:8.2%}{after:>16s}{s['worst_rise']:12.2g}"
                    f"{s['last']:13.0e}"
                )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
