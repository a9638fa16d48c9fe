"""Coarser codes are shorter and say less: what rho buys, in bits per number, in rounds, and in all."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, between, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import LogQuantizer
from equipoise.train.instances import Instances
from equipoise.train.studies import RHOS, TARGET, rho_study

ROUNDS = 400
PRICE = 5.0  # optimal: far enough from 0 for node-wise codes to leave a residual
USUAL, NEAR = 0.125, 1.25  # our default rho, and how near the cheapest it should be
STATED = 9  # bits at rho = 0.125 over 1e-6 to 64
WORDS = {"Ours": "ours", "LaplacianLog": "the paper's node-wise code"}


@claim(
    "The quantisation level rho trades accuracy for bits: coarser messages are shorter, and it still converges.",
    source="arXiv 2510.25176",
    unread="where it is said",
    effort=30.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(3, 20)
    rows = rho_study(Instances(20, price=PRICE), rounds=ROUNDS, seeds=seeds).rows
    paper = [row for row in rows if row["entrant"] == "LaplacianLog"]
    ours = [row for row in rows if row["entrant"] == "Ours"]
    residuals = [row["distance"] for row in paper]
    falls = sum(later < earlier for earlier, later in pairwise(residuals))
    shorter = sum(later["bits_a_number"] >= row["bits_a_number"] for row, later in pairwise(paper))
    spent = {row["rho"]: row["bits"] or math.inf for row in ours}
    steps = f"of {len(RHOS) - 1} steps from rho = {RHOS[0]:g} to {RHOS[-1]:g}"
    stated = LogQuantizer(rho=0.125, mode="node", smallest=1e-6, largest=64.0).bits
    usual = f"bits to {TARGET:g} at rho = {USUAL:g}, the default, against the cheapest rho"
    worst, arrive = max(row["distance"] for row in ours), min(row["reached"] for row in ours)
    by_step, of_ours = partial(Finding, over=steps), partial(Finding, about="ours")
    findings = [
        by_step("steps at which a coarser code is not shorter", shorter, at_most(0), when="shorter messages"),
        by_step("steps at which a coarser code ends nearer", falls, at_most(0), when="coarser, less accurate"),
        by_step(
            "distance left at rho = 1",
            residuals[-1],
            at_most(TARGET),
            when="any rho converges",
            over=f"{seeds} instances",
        ),
        of_ours(
            "farthest of all rho from the optimum, ours", worst, at_most(TARGET), over=f"{len(RHOS)} values of rho"
        ),
        of_ours(usual, spent[USUAL] / min(spent.values()), at_most(NEAR), "times"),
        of_ours("share of runs that arrive, ours", arrive, at_least(1.0)),
        of_ours("bits per number at rho = 0.125, values from 1e-6 to 64", stated, between(STATED, STATED), "bits"),
    ]
    return Measured(
        protocol="Twenty centres on Erdős–Rényi graphs (p = 0.3), quadratic costs, optimal price "
        f"{PRICE:g}, {seeds} instances; rho from {RHOS[0]:g} to {RHOS[-1]:g}, {ROUNDS} rounds. Distances from the "
        "centralised optimum as a part of that at the start, medians over instances; every bit on every link is counted.",
        findings=findings,
        figures=(
            Figure(
                f"Distance left after {ROUNDS} rounds",
                x=Axis("rho", log=True),
                y=Axis("distance from the optimum", log=True),
                series=[
                    Series(WORDS[name], RHOS, [row["distance"] for row in chosen])
                    for name, chosen in (("LaplacianLog", paper), ("Ours", ours))
                ],
                caption="The paper's code leaves what its cells leave; innovations leave nothing at any rho.",
            ),
            Figure(
                f"Bits on all links to a distance of {TARGET:g}, ours",
                x=Axis("rho", log=True),
                y=Axis("bits"),
                series=[Series("ours", RHOS, [row["bits"] or math.nan for row in ours])],
                caption="Finer codes pay in bits per message; coarser ones cost hardly any rounds.",
            ),
        ),
    )
