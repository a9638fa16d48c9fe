"""Stop at any round: what is there then keeps the budget and costs no more than what was there before."""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import baselines
from equipoise.train.baselines._track import Track
from equipoise.train.comparison import compare
from equipoise.train.instances import Instances

FLOWS, NODE, OURS = "LaplacianExact", "LaplacianLog", "Ours"
DUALS = ("ADMM", "DualTracking")
NAMES = {FLOWS: "the paper's flows", OURS: "ours", "ADMM": "ADMM", "DualTracking": "dual gradient tracking"}
ROUNDS = 150
SMALL = 1e-9  # of the gap at the start: rounding


def rise(track: Track) -> float:
    """The largest rise of the cost from one round to the next, as a part of the gap at the start."""
    gaps = track.gap
    return float(np.max([0.0, np.diff(gaps).max() / gaps[0]]))


@claim(
    "It can be stopped at any time: every intermediate allocation is feasible, and later ones are no worse.",
    source="arXiv 2510.25176, abstract for the budget; that the cost never rises is from its Lyapunov function",
    effort=15.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(4, 20)
    found = compare(
        Instances(20, switching=5),
        entrants=[baselines.named(name) for name in (FLOWS, NODE, OURS, *DUALS)],
        rounds=ROUNDS,
        seeds=seeds,
    )
    over = f"worst of {seeds} x {ROUNDS} rounds"

    def broken(name: str) -> float:
        return max(track.largest_violation for track in found.tracks[name])

    def risen(name: str) -> float:
        return float(np.max([rise(track) for track in found.tracks[name]]))

    def least(name: str) -> float:
        return min(track.largest_violation for track in found.tracks[name])

    height = max(float((track.gap[1:] / track.gap[0]).max()) for track in found.tracks[OURS])
    off, rising = "largest |sum of shares - budget|", "largest rise of the cost"
    find, ours = partial(Finding, over=over), partial(Finding, about="ours")
    findings = [
        find(off, broken(FLOWS), at_most(0.0), "CPUs", when="the paper's flows"),
        find(rising, risen(FLOWS), at_most(SMALL), when="flows over floats"),
        find(rising, risen(NODE), at_most(SMALL), when="flows over node-wise codes"),
        ours(f"{off}, ours", broken(OURS), at_most(0.0), "CPUs", over=over),
        ours("highest gap after the start, ours", height, at_most(1.0), "of that at the start", over=over),
    ]
    for name in DUALS:
        worst = f"least |sum of shares - budget| of {NAMES[name]} in its worst round"
        findings.append(ours(worst, least(name), at_least(1.0), "CPUs", over=f"of {seeds} instances"))
    first = {name: found.tracks[name][0] for name in (FLOWS, OURS, *DUALS)}
    figure = Figure(
        "CPUs that are not there, or not used, if one stops now",
        x=Axis("round"),
        y=Axis("|sum of shares - budget|, CPUs", log=True),
        series=[Series(NAMES[name], one.round, one.violation) for name, one in first.items()],
        caption="Flows keep the budget to the last bit and have no line; dual methods reach it only in the end.",
    )
    return Measured(
        protocol=f"Twenty centres on five Erdős–Rényi graphs in turn (p = 0.3), quadratic costs, {seeds} "
        f"instances, {ROUNDS} rounds. After every round: the shares' exact sum, and their cost against the round before. "
        "ADMM and dual gradient tracking beside them.",
        findings=findings,
        figures=(figure,),
    )
