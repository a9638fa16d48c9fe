"""Log codes and uniform codes of the same bits: do prices and models end at the optimum, or is a residual left?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import LeastSquares, LogQuantizer, Method, Network, Problem, UniformQuantizer, compare, solve
from equipoise.train.comparison import MethodComparison
from equipoise.train.instances import Instances

NODES = 20
PRICES = (0.0, 36.0)  # optimal price: codes shrink with the differences at 0, and are as coarse as the price at 36
RHO = 0.125  # the paper's
CONVERGED = 1e-6  # relative gap: no residual
CODES = {
    "LaplacianLog": "node-wise codes",
    "LaplacianEdge": "edge-wise codes",
    "Ours": "innovation codes",
    "LaplacianUniform": "uniform codes",
}
SIZE, ROWS = 4, 12  # of the least squares


def settled(found: MethodComparison, name: str) -> list[float]:
    """The relative gap that is left, per instance: the median over the last quarter of the rounds."""
    return [float(np.median(track.relative_gap[-found.rounds // 4 :])) for track in found.tracks[name]]


def models_settled(method: Method, seeds: int, rounds: int) -> list[float]:
    """The same of the worst centre's model, least squares on a graph that stays."""
    left = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        truth = 3.0 * rng.standard_normal(SIZE)
        X = [rng.standard_normal((ROWS, SIZE)) for _ in range(NODES)]
        model = LeastSquares([(rows, rows @ truth + 0.5 * rng.standard_normal(ROWS)) for rows in X])
        run = solve(Problem(model=model), Network.erdos_renyi(NODES, 0.3, seed=seed), method, rounds=rounds, every=10)
        gaps = np.abs(run.history["relative_gap"])
        left.append(float(np.median(gaps[-len(gaps) // 4 :])))
    return left


def _judged(left: Sequence[float], code: str, when: str, about: str) -> Finding:
    """Converged in every instance; of uniform codes the paper says that it does in none."""
    uniform = code == "uniform codes"
    value, bound, which = (
        (min(left), at_least(CONVERGED), "least") if uniform else (max(left), at_most(CONVERGED), "worst")
    )
    over = f"{which} of {len(left)} instances"
    return Finding("gap that is left", value, bound, "of the start", over=over, when=f"{code} {when}", about=about)


@claim(
    "With log-scale quantisation the centres converge to the exact optimum; uniform quantisation leaves a residual.",
    source="arXiv 2510.25176",
    effort=50.0,
)
def measure(scale: Scale) -> Measured:
    seeds, rounds = scale.pick(3, 20), scale.pick(600, 2000)
    findings, figures = [], []
    for price in PRICES:
        found = compare(Instances(NODES, price=price), entrants=list(CODES), seeds=seeds, rounds=rounds)
        when = f"at price {price:g}"
        for name, code in CODES.items():
            about = "paper" if name in ("LaplacianLog", "LaplacianUniform") else "ours"
            findings.append(_judged(settled(found, name), code, when, about))
        shown = np.unique(np.geomspace(1, 300, 80).astype(int))
        figures.append(
            Figure(
                f"Relative gap at an optimal price of {price:g}",
                x=Axis("round"),
                y=Axis("gap, of the start", log=True),
                series=[
                    Series(code, shown, np.maximum(found.tracks[name][0].relative_gap[shown], 1e-20))
                    for name, code in CODES.items()
                ],
                caption="Node-wise codes are as coarse as the price itself, so they converge only where it is 0."
                if price
                else "Where the optimal price is 0 every log code shrinks with the differences.",
            )
        )
    uniform = UniformQuantizer(bits=LogQuantizer(rho=RHO, mode="node").bits, largest=16.0)
    for quantizer, code, about in (
        (LogQuantizer(rho=RHO, mode="node"), "node-wise codes", "paper"),
        (LogQuantizer(rho=RHO), "innovation codes", "ours"),
        (uniform, "uniform codes", "paper"),
    ):
        left = models_settled(Method(quantizer=quantizer, momentum=False), seeds, rounds)
        findings.append(_judged(left, code, "of models", about))
    return Measured(
        protocol=f"{seeds} instances of {NODES} centres on Erdős–Rényi graphs (p = 0.3), {rounds:,} rounds; log "
        f"codes of rho = {RHO:g} and uniform ones of the same {uniform.bits} bits, told the largest price. CPU: "
        "quadratic costs at two optimal prices. Models: least squares by the paper's gradient tracking. What is "
        "left is the median relative gap of the last quarter, against a centralised solver.",
        findings=findings,
        figures=figures,
        notes=("Edge by edge is a tool of analysis: both ends would have to know the exact difference they code.",),
    )
