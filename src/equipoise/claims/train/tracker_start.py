"""Where the gradient trackers start decides which model the centres agree on."""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import Exact, LeastSquares, Method, Network, Problem, Run, solve
from equipoise.train.truth import optimal_model

NODES, SIZE, ROWS = 20, 4, 12
ROUNDS = 6000
RIGHT = 1e-9  # gap F - F*, absolute: losses here are of the order of 1
WRONG = 0.1
AGREED = 1e-6  # farthest model from the mean one, of its size


def _model(seed: int) -> LeastSquares:
    rng = np.random.default_rng([seed, 3])
    truth = rng.standard_normal(SIZE)
    X = [rng.standard_normal((ROWS, SIZE)) for _ in range(NODES)]
    return LeastSquares([(rows, rows @ truth + 0.5 * rng.standard_normal(ROWS)) for rows in X])


def _play(seed: int, tracker_start: str) -> tuple[Run, float, float]:
    """The run, the mean model's gap by the pooled loss, and how far models are apart."""
    model = _model(seed)
    start = 3.0 * np.random.default_rng([seed, 4]).standard_normal((NODES, SIZE))
    method = Method(quantizer=Exact(), momentum=False, tracker_start=tracker_start)  # type: ignore[arg-type]
    network = Network.erdos_renyi(NODES, 0.3, seed=seed)
    run = solve(Problem(model=model), network, method, rounds=ROUNDS, every=50, start=start)
    assert run.models is not None
    mean = run.models.mean(axis=0)
    gap = abs(model.total(mean)[0] - optimal_model(model).loss)
    apart = float(np.linalg.norm(run.models - mean, axis=1).max() / np.linalg.norm(mean))
    return run, gap, apart


@claim(
    "From any initial models the centres agree on the minimiser of the summed loss.",
    source="arXiv 2510.25176",
    effort=9.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(4, 20)
    runs = {start: [_play(seed, start) for seed in range(seeds)] for start in ("gradient", "zero")}
    first = {start: found[0][0].history for start, found in runs.items()}
    apart, together = (max(each[2] for each in runs[start]) for start in ("zero", "gradient"))
    right, farthest = (max(each[1] for each in runs[start]) for start in ("gradient", "zero"))
    nearest = min(each[1] for each in runs["zero"])
    gap = partial(Finding, "gap of the common model", unit="loss")
    models = partial(Finding, "models apart", unit="of their size", over=f"worst of {seeds} instances")
    worst, least = f"worst of {seeds} instances", f"least of {seeds} instances"
    findings = [
        gap(right, at_most(RIGHT), over=worst, when="z(0) = the gradient"),
        models(together, at_most(AGREED), when="z(0) = the gradient"),
        gap(farthest, at_most(RIGHT), over=worst, when="z(0) = 0"),
        gap(nearest, at_least(WRONG), over=least, when="z(0) = 0", about="ours"),
        models(apart, at_most(AGREED), when="z(0) = 0: they do agree", about="ours"),
    ]
    figure = Figure(
        "Gap of the worst centre's model",
        x=Axis("round"),
        y=Axis("F - F*", log=True),
        series=tuple(
            Series(f"z(0) = {name}", history["round"], np.abs(history["model_gap"]))
            for name, history in (("gradient", first["gradient"]), ("0", first["zero"]))
        ),
        caption="From zero the sum of trackers is off by a constant for ever, and all agree on a wrong model.",
    )
    return Measured(
        protocol=f"Least squares of {SIZE} parameters on {NODES} centres, Erdős–Rényi graphs (p = 0.3), ideal "
        f"channel, the paper's gradient tracking for {ROUNDS:,} rounds from random models; {seeds} instances, "
        "each with z(0) = grad g(y(0)) and with z(0) = 0. Losses are held against QR on the pooled data.",
        findings=findings,
        figures=(figure,),
    )
