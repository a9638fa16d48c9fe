"""Problems and networks drawn by seed, for comparisons: the same seed gives every entrant the same instance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError, unknown_name
from equipoise.train.costs import Latency, Quadratic
from equipoise.train.network import Network, Switching
from equipoise.train.problem import Problem

CURVATURES, WISHES = (0.5, 3.0), (10.0, 60.0)  # of quadratic costs
ROOM = (0.8, 1.6)  # hi as a part of the share a node would take without boxes: about a quarter of the nodes end full
LATENCY_BOX = (10.0, 40.0)  # CPUs
SHARE = 25.0  # CPUs per node, unless a budget or a price is given


@dataclass(frozen=True)
class Instances:
    """A family of instances; call it with a seed. `price` sets the budget so that the optimal price is this."""

    nodes: int = 20
    network: str = "erdos_renyi"
    p: float = 0.3
    radius: float | None = None
    switching: Switching = 0
    cost: str = "quadratic"
    budget: float | None = None  # CPUs
    price: float | None = None
    boxes: bool = False  # Latency always has them

    def __post_init__(self) -> None:
        if self.cost not in ("quadratic", "latency"):
            raise unknown_name("cost", self.cost, ("quadratic", "latency"))
        if self.budget is not None and self.price is not None:
            raise InputError("budget and price both say how many CPUs there are: give one", code="budget.twice")
        if self.price is not None and self.cost != "quadratic":
            raise InputError(
                f"price sets the budget of quadratic costs; cost is {self.cost}: give a budget", code="budget.price"
            )

    def __call__(self, seed: int) -> tuple[Problem, Network]:
        options = {"p": self.p if self.network == "erdos_renyi" else None, "radius": self.radius}
        network = Network.by_name(self.network, self.nodes, switching=self.switching, seed=seed, **options)
        rng = np.random.default_rng([seed, 7])
        return (self._quadratic(rng) if self.cost == "quadratic" else self._latency(rng)), network

    def _quadratic(self, rng: np.random.Generator) -> Problem:
        a, c = rng.uniform(*CURVATURES, self.nodes), rng.uniform(*WISHES, self.nodes)
        budget = SHARE * self.nodes if self.budget is None else self.budget
        price = (budget - c.sum()) / (1 / a).sum() if self.price is None else self.price
        wished = c + price / a
        if not self.boxes:
            return Problem(Quadratic(a, c), budget if self.price is None else float(wished.sum()))
        hi = np.maximum(wished, 0.2 * SHARE) * rng.uniform(*ROOM, self.nodes)
        if self.price is not None:
            budget = float(np.clip(wished, 0.0, hi).sum())
        hi *= max(1.0, 1.05 * budget / hi.sum())
        return Problem(Quadratic(a, c, lo=0.0, hi=hi), budget)

    def _latency(self, rng: np.random.Generator) -> Problem:
        speed = 2.0 * np.exp(0.5 * rng.standard_normal(self.nodes))
        cost = Latency(1000.0, speed, 1e-4, lo=LATENCY_BOX[0], hi=LATENCY_BOX[1])
        return Problem(cost, SHARE * self.nodes if self.budget is None else self.budget)
