"""The paper's SVM example: 20 centres, its equations integrated by solve_ivp, and its quantised rounds at rho = 0.125."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_most, claim
from equipoise.claims.train._continuous import flow_in_time
from equipoise.claims.train._watched import off_budget, watched
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import LogQuantizer, Method, Network, Problem, Quadratic, SmoothSVM
from equipoise.train.arrays import Floats
from equipoise.train.truth import optimal_model

NODES, BUDGET, SAMPLES = 20, 500.0, 15  # centres, CPUs, samples per centre
RHO = 0.125  # the paper's
ALPHA, DWELL = 12.0, 5.0  # of the descent; how long a graph lasts
END, TOLERANCE = 100.0, 1e-8
AGREES = 1e-3  # of the size of the parameters: three digits
HELD = 1e-9  # CPUs: adaptive solvers keep sums to rounding
SAME_PRICE = 1e-3


@dataclass(frozen=True, eq=False)
class Ends:
    """Where the centres ended: apart from each other and from the pooled SVM, parameters and bias, of the size of its w."""

    weights: float
    bias: float


def _instance(seed: int) -> tuple[Problem, SmoothSVM, Network]:
    rng = np.random.default_rng([seed, 12])
    shards = []
    for _ in range(NODES):
        labels = np.where(rng.random(SAMPLES) < 0.5, -1, 1)
        shards.append((labels[:, None] * [1.0, 0.5] + 0.3 + rng.standard_normal((SAMPLES, 2)), labels))
    model = SmoothSVM(shards, mu=3.0, reg=1.0)
    cost = Quadratic(rng.uniform(0.5, 3.0, NODES), rng.uniform(0.0, 40.0, NODES))
    return Problem(cost, BUDGET, model), model, Network.erdos_renyi(NODES, 0.3, switching=4, seed=seed)


def _ends(models: Floats, best: Floats) -> Ends:
    off, size = np.abs(models - best), float(np.linalg.norm(best))
    return Ends(float(off[:, :-1].max()) / size, float(off[:, -1].max()) / size)


@claim(
    "On an SVM over 20 centres with rho = 0.125 all centres' parameters and bias agree, and the CPU budget is held.",
    source="arXiv 2510.25176, abstract for the SVM",
    effort=40.0,
)
def measure(scale: Scale) -> Measured:
    seeds, rounds = scale.pick(1, 5), 1500
    times = np.linspace(0.0, END, 101)
    in_time: list[Ends] = []
    in_rounds: list[Ends] = []
    ours: list[Ends] = []
    off = spread = coded = 0.0
    figures: list[Figure] = []
    for seed in range(seeds):
        problem, model, network = _instance(seed)
        best = optimal_model(model).parameters
        path = flow_in_time(problem, network, times=times, alpha=ALPHA, dwell=DWELL, tolerance=TOLERANCE)
        assert path.shares is not None and path.models is not None and problem.cost is not None
        in_time.append(_ends(path.models[-1], best))
        off = float(np.max([off, *(off_budget(row, BUDGET) for row in path.shares)]))
        spread = float(np.max([spread, np.ptp(problem.cost.derivative(path.shares[-1]))]))
        codes = LogQuantizer(rho=RHO, mode="node")
        for method, kept in ((Method(quantizer=codes, momentum=False), in_rounds), (Method(), ours)):
            seen = watched(problem, network, method, rounds=rounds, budget=BUDGET)
            assert seen.run.models is not None
            kept.append(_ends(seen.run.models, best))
            if kept is in_rounds:
                coded = float(np.max([coded, seen.off.max()]))
        if not figures:
            figures.append(_figure(times, path.models, best))
    over = f"worst centre of {seeds} instance{'s' * (seeds > 1)}"
    findings = []
    ideal, node_wise = "solve_ivp on the ideal channel", f"rounds with node-wise codes of rho = {RHO:g}"
    for when, ends, about in (
        (ideal, in_time, "paper"),
        (node_wise, in_rounds, "paper"),
        (f"our rounds with innovation codes of rho = {RHO:g}", ours, "ours"),
    ):
        for part in ("weights", "bias"):
            worst = max(getattr(each, part) for each in ends)
            quantity = f"{part}: distance from the pooled SVM"
            findings.append(Finding(quantity, worst, at_most(AGREES), "of its size", over=over, when=when, about=about))
    largest = "largest |sum of shares - budget|"
    findings += [
        Finding(largest, off, at_most(HELD), "CPUs", over="worst of 101 times", when=ideal),
        Finding(largest, coded, at_most(0.0), "CPUs", over=f"worst of {rounds:,} rounds", when=node_wise),
        Finding("prices apart at the end", spread, at_most(SAME_PRICE), over=over, when=ideal),
    ]
    return Measured(
        protocol=f"Smooth SVM of two features and a bias on {NODES} centres with {SAMPLES} samples each, {BUDGET:g} "
        f"CPUs, four Erdős–Rényi graphs (p = 0.3) of {DWELL:g} units of time each; the paper's equations by RK45 "
        f"to t = {END:g} at alpha = {ALPHA:g}. And {rounds:,} rounds with codes of rho = {RHO:g}: node-wise as in "
        f"the paper, and ours. {seeds} instance{'s' * (seeds > 1)}; the truth is L-BFGS on the pooled data.",
        findings=findings,
        figures=figures,
        notes=("Adaptive solvers stall on quantised right-hand sides, so the quantised form is played in rounds.",),
    )


def _figure(times: Floats, models: Floats, best: Floats) -> Figure:
    spread = {"weights": models[:, :, :-1], "bias": models[:, :, -1:]}
    return Figure(
        "Centres' parameters in continuous time",
        x=Axis("time"),
        y=Axis("farthest centre from the pooled SVM", log=True),
        series=[
            Series(name, times[1:], np.abs(part - (best[:-1] if name == "weights" else best[-1:])).max(axis=(1, 2))[1:])
            for name, part in spread.items()
        ],
        caption="All 20 centres meet at the centralised SVM, parameters and bias.",
    )
