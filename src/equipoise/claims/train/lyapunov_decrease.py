"""The paper's two Lyapunov functions in real runs: in which part of the rounds do they fall?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.train._lyapunov import CHANNELS, LASTING, LyapunovTrace, energy, trace, traces, weighted
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import Exact, LeastSquares, Method, Network, Problem
from equipoise.train.steps import choose_steps, known_smoothness
from equipoise.train.theory.closed_loop import ClosedLoop, hessians, mixing

ALWAYS = 1.0  # in every round
IDEAL, INNOVATION, NODE = "ideal", "innovation, rho 0.125", "node"
NAMES = {"cpu": "cost of CPU", "norm": "norm of models and trackers"}
HARD = 5  # nodes of a path whose one shard is much larger than the others


def _finding(half: str, found: Sequence[LyapunovTrace], when: str, about: str = "paper") -> Finding:
    fell = np.concatenate([each.fell for each in found])
    over = f"of {len(fell):,} rounds in {len(found)} run{'s' * (len(found) > 1)}"
    quantity = f"rounds in which the {NAMES[half]} falls"
    return Finding(quantity, float(fell.mean()), at_least(ALWAYS), over=over, when=when, about=about)


def hard_case() -> tuple[Problem, Network, Method]:
    """A path with shards of very unequal scale, started at random models: it converges, ideal channel."""
    rng = np.random.default_rng(1)
    X = [rng.standard_normal((8, 2)) * scale for scale in (4.0, 0.3, 0.3, 0.3, 0.3)]
    model = LeastSquares([(rows, rows @ [1.0, -2.0] + 0.3 * rng.standard_normal(8)) for rows in X])
    return Problem(model=model), Network.path(HARD), Method(quantizer=Exact(), momentum=False)


def _hard_traces(rounds: int) -> dict[str, LyapunovTrace]:
    """On the hard case: the paper's norm, the norm weighted by the loop's own Lyapunov equation, and the energy."""
    problem, network, method = hard_case()
    model = problem.model
    assert model is not None
    steps = choose_steps(None, model, known_smoothness(model), network, method)
    assert steps.alpha is not None
    loop = ClosedLoop(mixing(network, "metropolis"), hessians(model, np.zeros(model.size)))
    values = {build.__name__: build(loop, steps.alpha, steps.step) for build in (weighted, energy)}
    start = 3.0 * np.random.default_rng(0).standard_normal((HARD, model.size))
    return trace(problem, network, method, rounds=rounds, start=start, values=values)


@claim(
    "Two functions fall all along a run: the cost of the shares, and the norm of the models' and trackers' errors.",
    source="arXiv 2510.25176",
    effort=6.0,
)
def measure(scale: Scale) -> Measured:
    seeds, rounds = scale.pick(3, 20), scale.pick(200, 400)
    findings, shown = [], {}
    for half in NAMES:
        for when, channel, lasting, about in (
            ("ideal channel, one graph", IDEAL, "static", "paper"),
            ("ideal channel, a new graph every round", IDEAL, "each round", "paper"),
            ("node-wise codes, one graph", NODE, "static", "paper"),
            ("innovation codes, one graph", INNOVATION, "static", "ours"),
            ("innovation codes, a new graph every round", INNOVATION, "each round", "ours"),
        ):
            found = traces(half, LASTING[lasting], CHANNELS[channel], seeds, rounds)
            shown[half, channel, lasting] = found[0].values
            words = f"{half if half == 'norm' else 'CPU'}: {when}".replace(",", " and")
            findings.append(_finding(half, found, words, about))
    hard = _hard_traces(scale.pick(3000, 6000))
    last = float(hard["norm"].values[-1] / hard["norm"].values[0])
    findings.append(_finding("norm", [hard["norm"]], "norm: a path with one large shard"))
    path = "a path with one large shard"
    for name in ("weighted", "energy"):
        quantity, over = f"rounds in which our {name} function falls", f"of {len(hard[name].fell):,} rounds"
        value = hard[name].share_falling
        findings.append(Finding(quantity, value, at_least(ALWAYS), over=over, when=path, about="ours"))
    findings.append(Finding("norm at the end", last, at_most(1e-6), "of the start", when=path, about="ours"))
    drawn = {"ideal": IDEAL, "innovation codes": INNOVATION, "node-wise codes": NODE}
    costs = {name: shown["cpu", channel, "static"] for name, channel in drawn.items()}
    return Measured(
        protocol=f"{seeds} instances, ten centres on Erdős–Rényi graphs (p = 0.4), {rounds} rounds of the paper's "
        "flows and gradient tracking with automatic steps; a round counts while the function is above 1e-12 of "
        f"its start. And a path of {HARD} centres whose first shard is much larger than the others, ideal channel.",
        findings=findings,
        figures=(
            Figure(
                "Cost of CPU above the optimum",
                x=Axis("round"),
                y=Axis("of the start", log=True),
                series=[Series(name, np.arange(101), cost[:101] / cost[0]) for name, cost in costs.items()],
                caption="Node-wise codes end the fall at their residual.",
            ),
            Figure(
                "A path with one large shard",
                x=Axis("round"),
                y=Axis("of the start", log=True),
                series=[Series(name, np.arange(61), each.values[:61] / each.values[0]) for name, each in hard.items()],
                caption="The plain norm rises on the way to 0; the weighted norm and the energy fall in every round.",
            ),
        ),
    )
