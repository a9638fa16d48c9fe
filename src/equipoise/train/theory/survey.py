"""Do the paper's two Lyapunov functions fall in real runs? `python -m equipoise.train.theory.survey` prints the table of
docs/train-theory.md: the part of rounds in which V fell, and the worst rise in a round as a part of V.
"""

from __future__ import annotations

import warnings

import numpy as np

from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.method import Method
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact, LogQuantizer
from equipoise.train.theory.lyapunov import LyapunovTrace, trace

NO_MOMENTUM = 1e-9
CHANNELS = {  # the paper's flows and gradient tracking with each channel, and our markets and averages
    "ideal": Method(quantizer=Exact(), momentum=False),
    "innovation, rho 0.125": Method(momentum=False),
    "innovation, rho 1": Method(quantizer=LogQuantizer(rho=1.0), momentum=False),
    "node": Method(quantizer=LogQuantizer(mode="node"), momentum=False),
    "ours, ideal": Method(quantizer=Exact()),
    "ours, rho 0.125": Method(),
    "ours, rho 1": Method(quantizer=LogQuantizer(rho=1.0)),
    "ours, no momentum": Method(cap=NO_MOMENTUM),
}
LASTING = {"static": 0, "each round": 1, "each 10": 10}  # rounds that a graph lasts
HALVES = ("cpu", "norm")
NODES, SIZE, ROWS, GRAPHS = 10, 3, 12, 5


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
