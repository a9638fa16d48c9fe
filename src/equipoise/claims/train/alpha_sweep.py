"""Alpha from 0.01 of the paper's bound to far past it: how many rounds it takes, and where it diverges."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Mark, Series, bars
from equipoise.train.instances import Instances
from equipoise.train.studies import ALPHA_ROUNDS, ALPHAS, TARGET, alpha_study

NODES = 20
BOUND = "|lambda_2|/L"  # the paper's, in words


@claim(
    "Over a sweep of alpha from 0.01 to |lambda_2|/L all runs are stable, and larger alphas converge faster.",
    source="arXiv 2510.25176",
    unread="the factor that |lambda_2|/L is divided by",
    effort=8.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(3, 20)
    rows = alpha_study(Instances(NODES), seeds=seeds).rows
    below = [row for row in rows if row["part"] <= 1.0]
    first = min((row["part"] for row in rows if row["diverged"]), default=math.inf)
    rounds = {row["part"]: math.inf if row["round"] is None else row["round"] for row in rows}
    best = min(rounds, key=lambda part: rounds[part])
    steps = [
        pair
        for pair in pairwise(part for part in ALPHAS if part <= 1.0)
        if min(rounds[part] for part in pair) < math.inf
    ]
    slower = sum(not rounds[large] < rounds[small] for small, large in steps)
    limit = rows[0]["limit_part"]
    median, neighbours = f"median of {seeds} instances", f"of {len(steps)} neighbours of which one arrives, medians"
    ours = partial(Finding, about="ours", over=f"of {seeds} instances")
    diverged, survivors = sum(row["diverged"] for row in below), sum(row["survivors"] for row in rows)
    past, unit = "runs past twice the limit of the rounds which do not diverge", f"times {BOUND}"
    findings = [
        Finding(
            "runs that diverge", diverged, at_most(0), over=f"of {seeds * len(below)} runs", when=f"alpha up to {BOUND}"
        ),
        Finding(
            "smaller alphas that are no slower", slower, at_most(0), over=neighbours, when=f"0.01 to 1 times {BOUND}"
        ),
        Finding(
            "rounds to 1e-6 at the bound", rounds[1.0], at_most(ALPHA_ROUNDS), over=median, when=f"alpha = {BOUND}"
        ),
        ours("smallest alpha that diverges", first, at_least(1.5), unit, when="past the bound: it is no boundary"),
        ours(past, survivors, at_most(0), when="past (2 - step lambda_max)^2 / (step L)"),
        ours("fastest alpha", best, at_least(1.5), unit, over=median, when="fastest past the bound"),
    ]
    return Measured(
        protocol=f"Least squares on {NODES} centres, Erdős–Rényi graphs (p = 0.3), {seeds} instances; gradient "
        f"tracking with innovation codes of rho = 0.125, at most {ALPHA_ROUNDS:,} rounds to a relative gap of "
        f"{TARGET:g}; alpha at {len(ALPHAS)} values from {ALPHAS[0]:g} to {ALPHAS[-1]:g} times |lambda_2|/L.",
        findings=findings,
        figures=(
            Figure(
                "Rounds to 1e-6 over alpha",
                x=Axis("alpha, times |lambda_2|/L", log=True),
                y=Axis("rounds, median", log=True),
                series=(Series("gradient tracking", ALPHAS, [rounds[part] for part in ALPHAS]),),
                marks=(Mark("x", 1.0, "the paper's bound"), Mark("x", limit, "limit of the rounds")),
                caption="Up to the bound rounds fall with alpha; the fastest lie past it, and divergence beyond "
                "the limit.",
            ),
            Figure(
                "What became of the runs",
                x=Axis("alpha, times |lambda_2|/L", groups=[f"{part:g}" for part in ALPHAS]),
                y=Axis("runs"),
                series=tuple(bars(name, [row[name] for row in rows]) for name in ("converged", "slow", "diverged")),
                caption=f"Slow: not there after {ALPHA_ROUNDS:,} rounds.",
            ),
        ),
    )
