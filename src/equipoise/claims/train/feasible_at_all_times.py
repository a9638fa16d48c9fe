"""The budget in every round: the paper's flows and ours, on graphs that stay and switch, with costs that move; and boxes."""

from __future__ import annotations

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.train._watched import Watched, watched
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import Method, Network, Problem
from equipoise.train.arrays import Floats
from equipoise.train.instances import Instances

NODES, BUDGET = 20, 512.0  # CPUs; a power of two, so that no grid needs to snap it
TIDE = 200  # rounds from one high water to the next
PAPER, OURS = Method.paper(), Method()
OUT = 0.1  # CPUs: this far out is out
FIRST = 100  # rounds of boxes that are drawn


class Tide:
    """Quadratic costs whose wished-for shares rise and fall all the time, so that nothing ever settles."""

    nodes = NODES
    lo, hi = np.full(NODES, -np.inf), np.full(NODES, np.inf)

    def __init__(self, seed: int) -> None:
        self.now = 0
        self.a = np.random.default_rng(seed).uniform(0.5, 3.0, NODES)

    def _wish(self) -> Floats:
        return np.asarray(25.0 + 20.0 * np.sin(2 * np.pi / TIDE * self.now + np.arange(NODES)))

    def value(self, x: Floats) -> Floats:
        return np.asarray(0.5 * self.a * (x - self._wish()) ** 2)

    def derivative(self, x: Floats) -> Floats:
        return np.asarray(self.a * (x - self._wish()))

    def second(self, x: Floats) -> Floats:
        return self.a

    def curvature(self) -> tuple[Floats, Floats]:
        return self.a, self.a

    def response(self, weight: Floats, level: Floats, guess: Floats) -> Floats:
        """x with x + weight f'(x) = level."""
        return np.asarray((level + weight * self.a * self._wish()) / (1.0 + weight * self.a))

    def wait(self) -> None:
        """A round later."""
        self.now += 1


def _still(method: Method, switching: int, seeds: int, rounds: int, *, boxes: bool = False) -> list[Watched]:
    kind = Instances(NODES, switching=switching, budget=BUDGET, boxes=boxes)
    return [watched(*kind(seed), method, rounds=rounds, budget=BUDGET) for seed in range(seeds)]


def _moving(method: Method, seeds: int, rounds: int) -> list[Watched]:
    found = []
    for seed in range(seeds):
        cost, network = Tide(seed), Network.erdos_renyi(NODES, 0.3, switching=7, seed=seed)
        found.append(
            watched(Problem(cost, BUDGET), network, method, rounds=rounds, budget=BUDGET, each_round=cost.wait)
        )
    return found


@claim(
    "Shares satisfy the resource constraint at all times, not only in the limit.",
    source="arXiv 2510.25176, abstract",
    effort=50.0,
)
def measure(scale: Scale) -> Measured:
    seeds, rounds, long = scale.pick(3, 20), scale.pick(300, 1000), scale.pick(1000, 10_000)
    findings = []
    for about, method, whose in (("paper", PAPER, "the paper's flows"), ("ours", OURS, "ours")):
        for when, runs in (
            ("a graph that stays", _still(method, 0, seeds, rounds)),
            ("graphs that switch", _still(method, 5, seeds, rounds)),
            ("moving costs", _moving(method, seeds, long)),
        ):
            worst = max(float(found.off.max()) for found in runs)
            over = f"worst of {sum(len(found.off) for found in runs):,} rounds"
            quantity = f"largest |sum of shares - budget|, {whose}"
            findings.append(Finding(quantity, worst, at_most(0.0), "CPUs", over=over, when=when, about=about))
    boxed = {
        whose: _still(method, 0, seeds, rounds, boxes=True) for whose, method in (("penalty", PAPER), ("ours", OURS))
    }
    for whose, when, bound in (
        ("penalty", "boxes by the paper's penalty", at_least(OUT)),
        ("ours", "boxes by a limiter", at_most(0.0)),
    ):
        worst = float(np.max([found.outside.max() for found in boxed[whose]]))
        over = f"worst of {seeds * rounds:,} rounds"
        quantity = "farthest share outside its box"
        findings.append(Finding(quantity, worst, bound, "CPUs", over=over, when=when, about="ours"))
    numbers = np.arange(1, FIRST + 1)
    figure = Figure(
        "Farthest share outside its box",
        x=Axis("round"),
        y=Axis("CPUs"),
        series=tuple(Series(name, numbers, runs[0].outside[:FIRST]) for name, runs in boxed.items()),
        caption="A penalty gives way and settles outside; the limiter never does.",
    )
    return Measured(
        protocol=f"{NODES} centres on Erdős–Rényi graphs (p = 0.3), quadratic costs, {BUDGET:g} CPUs, log codes of "
        f"rho = 0.125. {seeds} instances of {rounds:,} rounds on one graph and on five in turn, without and with "
        f"boxes; {seeds} of {long:,} rounds in which wishes move by up to 20 CPUs over {TIDE} rounds. The shares "
        "of every round are summed exactly.",
        findings=findings,
        figures=(figure,),
        notes=(
            "Shares are whole numbers of a unit 2^-k, in the paper's form too, and flows are rounded to whole "
            "units: in plain floating point the sum would drift by rounding.",
        ),
    )
