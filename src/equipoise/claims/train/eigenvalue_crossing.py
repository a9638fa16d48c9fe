"""Eigenvalues of the closed loop over alpha: where they cross, in continuous time and in rounds, against runs."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Mark, Series
from equipoise.train import Exact, LeastSquares, Method, Network, Problem, solve
from equipoise.train.arrays import Floats
from equipoise.train.theory import paper_alpha
from equipoise.train.theory.closed_loop import ClosedLoop, mixing

NODES, SIZE, ROWS, STEP = 8, 2, 10, 0.6
FAR = 1e4  # times the paper's bound
BESIDE = 0.01  # of the crossing: runs just below and just above it
ROUNDS = 4000
ROUNDING = 1e-12  # of the gap at the start


def _instance(seed: int) -> tuple[LeastSquares, Network, ClosedLoop, float]:
    """Least squares on shards of unequal scale, its loop with curvatures computed from the rows, and |lambda_2| / L."""
    rng = np.random.default_rng([seed, 8])
    X = [rng.standard_normal((ROWS, SIZE)) * np.exp(0.5 * rng.standard_normal()) for _ in range(NODES)]
    model = LeastSquares([(rows, rows @ [1.0, -1.0] + 0.3 * rng.standard_normal(ROWS)) for rows in X])
    bent = np.array([rows.T @ rows for rows in X]) / (NODES * ROWS)
    network = Network.erdos_renyi(NODES, 0.4, seed=seed)
    laplacian = mixing(network, "metropolis")
    bound = paper_alpha(float(np.linalg.eigvalsh(laplacian)[1]), float(np.linalg.eigvalsh(bent).max()))
    return model, network, ClosedLoop(laplacian, bent), bound


def _went(model: LeastSquares, network: Network, alpha: float) -> str:
    """What a run does at this alpha: "came" if its gap still falls in the second half (or has nothing left), else "left"."""
    method = Method(quantizer=Exact(), momentum=False, step=STEP, alpha=alpha)
    start = np.random.default_rng(0).standard_normal((NODES, SIZE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a step past its limit is the point
        run = solve(Problem(model=model), network, method, rounds=ROUNDS, every=ROUNDS // 2, start=start)
    if run.status == "diverged":
        return "left"
    _, half, whole = np.abs(run.history["relative_gap"])
    return "came" if whole < max(half, ROUNDING) else "left"


def dented(loop: ClosedLoop) -> ClosedLoop:
    """One centre's loss bent downwards, the sum still convex."""
    bent = loop.hessians.copy()
    bent[0] = -0.5 * np.eye(SIZE) * np.linalg.eigvalsh(bent[1:].sum(axis=0)).min()
    return ClosedLoop(loop.laplacian, bent)


def _abscissae(loop: ClosedLoop, alphas: Floats) -> Floats:
    return np.array([loop.abscissa(float(alpha)) for alpha in alphas])


@claim(
    "For alpha up to |lambda_2|/L all eigenvalues of the closed loop but those at zero are in the left half-plane.",
    source="arXiv 2510.25176",
    unread="the factor that |lambda_2|/L is divided by",
    effort=5.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(4, 20)
    cases = [_instance(seed) for seed in range(seeds)]
    below = max(float(_abscissae(loop, np.geomspace(0.01, 1.0, 10) * bound).max()) for *_, loop, bound in cases)
    beyond = max(float(_abscissae(loop, np.geomspace(1.0, FAR, 20) * bound).max()) for *_, loop, bound in cases)
    crossings = [loop.crossing(STEP) for *_, loop, _ in cases]
    bent_down = [dented(loop).crossing() / bound for *_, loop, bound in cases]
    wrong = sum(
        _went(model, network, (1.0 + side * BESIDE) * crossing) != wanted
        for (model, network, *_), crossing in zip(cases, crossings, strict=True)
        for side, wanted in ((-1, "came"), (1, "left"))
    )
    _, _, loop, bound = cases[0]
    parts = np.geomspace(0.01, 30.0, 60)
    over, cross, bounds = f"worst of {seeds} instances", "alpha at which they cross", "times |lambda_2|/L"
    least = min(c / b for c, (*_, b) in zip(crossings, cases, strict=True))
    real = partial(Finding, "largest real part", bound=at_most(-1e-9), over=over)
    ours = partial(Finding, about="ours")
    findings = [
        real(below, when="continuous time, alpha up to |lambda_2|/L"),
        real(beyond, when=f"continuous time, alpha up to {FAR:g} times it", about="ours"),
        ours(cross, max(bent_down), at_most(FAR), bounds, over=over, when="continuous time, one loss bent downwards"),
        ours(cross, least, at_least(1.0), bounds, over=f"least of {seeds} instances", when="rounds"),
        ours(
            "runs that do not do as predicted",
            wrong,
            at_most(0),
            over=f"of {2 * seeds} runs",
            when="1% below and above the crossing of the rounds",
        ),
    ]
    figure = Figure(
        "Do the eigenvalues cross?",
        x=Axis("alpha, times |lambda_2|/L", log=True),
        y=Axis("largest real part (time); radius - 1 (rounds)"),
        series=(
            Series("continuous time", parts, _abscissae(loop, parts * bound)),
            Series("rounds", parts, [loop.radius(float(part * bound), STEP) - 1.0 for part in parts]),
        ),
        marks=(Mark("x", 1.0, "the paper's bound"), Mark("x", crossings[0] / bound, "crossing"), Mark("y", 0.0, "")),
        caption="In continuous time convex losses are stable for every alpha; rounds cross, well past the bound.",
    )
    return Measured(
        protocol=f"Least squares of {SIZE} parameters on {NODES} centres, Erdős–Rényi graphs (p = 0.4), {seeds} "
        f"instances; all eigenvalues of the closed loop over alpha, without the {SIZE} that never move. Runs of "
        f"{ROUNDS:,} rounds of step {STEP:g} at {1 - BESIDE:g} and {1 + BESIDE:g} of the predicted crossing, "
        "ideal channel.",
        findings=findings,
        figures=(figure,),
    )
