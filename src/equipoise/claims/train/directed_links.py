"""One-way links: what the paper's flows do to the budget there, and what the push form does instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.claims import Finding, Interval, Measured, Scale, at_least, at_most, claim
from equipoise.claims.train._watched import off_budget
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import LeastSquares, Moment, Network, Problem, Quadratic, solve
from equipoise.train.arrays import Floats

NODES, SHARE = 20, 25.0  # CPUs per centre
LOST = 1.0  # CPUs: more than rounding, by far
ARRIVED = 1e-10  # relative gap
PULL_STEP = 0.5  # of the step at which the busiest centre would overshoot by itself
DRAWN, MOST = 150, 4000  # rounds of the paper's flows, and at most of the push form
ROUNDING = 1e-9  # CPUs


def _cost(seed: int, *, boxes: bool = False) -> Quadratic:
    rng = np.random.default_rng(seed)
    ends = {"lo": 0.0, "hi": 32.0} if boxes else {}
    return Quadratic(rng.uniform(0.5, 3.0, NODES), rng.uniform(10.0, 60.0, NODES), **ends)


def _regression(seed: int) -> LeastSquares:
    rng = np.random.default_rng([seed, 1])
    return LeastSquares([(rng.standard_normal((12, 3)), rng.standard_normal(12)) for _ in range(NODES)], reg=0.1)


def pulled(network: Network, cost: Quadratic, rounds: int) -> Floats:
    """|sum of shares - budget| after each round of the paper's flows, each centre hearing whom it can; ideal channel."""
    x = np.full(NODES, SHARE)
    busiest = max(int(np.bincount(network.arcs(k).receivers).max()) for k in range(network.period or 1))
    step = PULL_STEP / (busiest * cost.a.max())
    off = []
    for number in range(rounds):
        arcs, price = network.arcs(number), cost.derivative(x)
        change = np.zeros(NODES)
        np.add.at(change, arcs.receivers, step * (price[arcs.senders] - price[arcs.receivers]))
        x = x + change
        off.append(off_budget(x, SHARE * NODES))
    return np.array(off)


@dataclass(frozen=True, eq=False)
class Pushed:
    """Our default on one-way links: what every round showed, in CPUs, and the relative gap at the end."""

    off: Floats  # |shares + in flight - budget|
    overdraft: float  # the most by which shares alone exceeded the budget
    gap: float


def _pushed(network: Network, seed: int, *, boxes: bool) -> Pushed:
    off: list[float] = []
    overdraft = 0.0

    def look(moment: Moment) -> None:
        nonlocal overdraft
        shares, state = moment.shares, moment.state
        assert shares is not None
        off.append(off_budget([*shares, state.in_flight * state.market.grid.unit], SHARE * NODES))
        overdraft = max(overdraft, float(np.sum(shares)) - SHARE * NODES)

    problem = Problem(_cost(seed, boxes=boxes), SHARE * NODES, _regression(seed))
    run = solve(problem, network, rounds=MOST, target=0.1 * ARRIVED, every=10, callback=look)
    return Pushed(np.array(off), overdraft, run.relative_gap)


@claim(
    "The guarantees are for links that carry both ways with equal weights; one-way links are left open.",
    source="arXiv 2510.25176",
    effort=7.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(2, 10)
    kinds = {
        "static": [Network.erdos_renyi(NODES, 0.2, directed=True, seed=s) for s in range(seeds)],
        "switching": [Network.erdos_renyi(NODES, 0.2, directed=True, seed=s, switching=4) for s in range(seeds)],
    }
    findings = []

    def find(quantity: str, value: float, bound: Interval, unit: str, over: str, when: str) -> None:
        findings.append(Finding(quantity, value, bound, unit, over=over, when=when, about="ours"))

    worst, least = f"worst round of {seeds} instances", f"least of {seeds} instances after {DRAWN} rounds"
    for kind, networks in kinds.items():
        lost = [float(pulled(network, _cost(s), DRAWN)[-1]) for s, network in enumerate(networks)]
        find("CPUs lost or made", min(lost), at_least(LOST), "CPUs", least, f"the paper's flows, {kind} one-way links")
    ring = max(float(pulled(Network.ring(NODES, directed=True), _cost(s), DRAWN).max()) for s in range(seeds))
    find("CPUs lost or made", ring, at_most(ROUNDING), "CPUs", worst, "the paper's flows, a one-way ring: balanced")
    for kind, networks in kinds.items():
        for boxes in (False, True):
            runs = [_pushed(network, s, boxes=boxes) for s, network in enumerate(networks)]
            when = f"push form, {kind}" + (", boxes" if boxes else "")
            off = max(float(run.off.max()) for run in runs)
            find("largest |shares + in flight - budget|", off, at_most(0.0), "CPUs", worst, when)
            if boxes:  # without them nothing is ever in flight
                find("shares beyond the budget", max(r.overdraft for r in runs), at_most(0.0), "CPUs", worst, when)
            find("gap, CPU and model", max(r.gap for r in runs), at_most(ARRIVED), "of the start", worst, when)
    shown = pulled(kinds["static"][0], _cost(0), DRAWN)
    held = _pushed(kinds["static"][0], 0, boxes=False).off[:DRAWN]
    figure = Figure(
        "|sum of shares - budget| on one-way links",
        x=Axis("round"),
        y=Axis("CPUs"),
        series=(
            Series("the paper's flows", np.arange(1, len(shown) + 1), shown),
            Series("push form", np.arange(1, len(held) + 1), held),
        ),
        caption="Rows of weights sum to zero and columns do not: the paper's flows lose the budget where "
        "links are one-way.",
    )
    return Measured(
        protocol=f"{NODES} centres on strongly connected Erdős–Rényi digraphs (p = 0.2), one or four in turn; "
        f"quadratic costs, {SHARE * NODES:g} CPUs, least squares. {seeds} instances: {DRAWN} rounds of the "
        f"paper's flows as each centre hears them, on the ideal channel; up to {MOST:,} rounds of the push form "
        "with 10-bit codes.",
        findings=findings,
        figures=(figure,),
        notes=(
            "`equipoise` refuses the paper's flows on one-way links; here they are played by a few lines of their own.",
        ),
    )
