"""Distributed linear regression over switching networks with log codes, against least squares on the pooled data."""

from __future__ import annotations

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_most, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, Run, solve
from equipoise.train.arrays import Floats

NODES, SIZE, ROWS = 20, 4, 20
RHO = 0.125
AGREES = 1e-3  # relative distance of the worst centre's parameters from the pooled ones: three digits
CHANNELS = {
    "the ideal channel": ("paper", Method(quantizer=Exact(), momentum=False)),
    "node-wise log codes": ("paper", Method(quantizer=LogQuantizer(rho=RHO, mode="node"), momentum=False)),
    "innovation codes": ("ours", Method(quantizer=LogQuantizer(rho=RHO))),
}


def _shards(seed: int) -> list[tuple[Floats, Floats]]:
    rng = np.random.default_rng([seed, 10])
    truth = rng.uniform(-3.0, 3.0, SIZE)
    X = [rng.standard_normal((ROWS, SIZE)) for _ in range(NODES)]
    return [(rows, rows @ truth + 0.5 * rng.standard_normal(ROWS)) for rows in X]


def pooled(shards: list[tuple[Floats, Floats]]) -> Floats:
    """The normal equations of all data, solved at one place."""
    X, y = np.concatenate([rows for rows, _ in shards]), np.concatenate([answers for _, answers in shards])
    return np.asarray(np.linalg.solve(X.T @ X, X.T @ y))


def _play(seed: int, method: Method, rounds: int) -> tuple[Run, float]:
    """The run, and how far the worst centre's own parameters are from the pooled ones, relative."""
    shards = _shards(seed)
    network = Network.erdos_renyi(NODES, 0.3, switching=5, seed=seed)
    run = solve(Problem(model=LeastSquares(shards)), network, method, rounds=rounds, every=5)
    best = pooled(shards)
    assert run.models is not None
    return run, float(np.linalg.norm(run.models - best, axis=1).max() / np.linalg.norm(best))


@claim(
    "Linear regression over a switching network with log-quantised links converges to the centralised solution.",
    source="arXiv 2510.25176",
    effort=8.0,
)
def measure(scale: Scale) -> Measured:
    seeds, rounds = scale.pick(3, 20), 1500
    findings, curves = [], []
    for name, (about, method) in CHANNELS.items():
        found = [_play(seed, method, rounds) for seed in range(seeds)]
        far = max(distance for _, distance in found)
        quantity, over = "distance from the pooled parameters", f"worst centre of {seeds} instances"
        findings.append(Finding(quantity, far, at_most(AGREES), "of their size", over=over, when=name, about=about))
        history = found[0][0].history
        curves.append(Series(name, history["round"][:160], np.maximum(np.abs(history["relative_gap"][:160]), 1e-18)))
    figure = Figure(
        "Gap of the worst centre's model",
        x=Axis("round"),
        y=Axis("gap, of the start", log=True),
        series=curves,
        caption="Node-wise codes stop where neighbouring parameters fall into one cell.",
    )
    return Measured(
        protocol=f"{SIZE} parameters, {NODES} centres with {ROWS} samples each, five Erdős–Rényi graphs (p = 0.3) "
        f"in turn, {seeds} instances of {rounds:,} rounds, codes of rho = {RHO:g}: gradient tracking as in the "
        "paper, and ours. Every centre's own parameters are held against the normal equations of all data.",
        findings=findings,
        figures=(figure,),
    )
