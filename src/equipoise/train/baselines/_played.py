"""Entrants that are a Method of our own `solve`: the run becomes a Track, and the family shares its published form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.baselines._track import Recorder, Track
from equipoise.train.method import PENALTY, Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Quantizer
from equipoise.train.solve import solve
from equipoise.train.spectrum import lambda_max
from equipoise.train.topology import edge_weights

# Exchanges of a round beside the prices': markets answer with prices of their own; a limiter says factors and amounts.
MARKET_EXCHANGES, LIMITER_EXCHANGES = 1, 2


def played(name: str, problem: Problem, network: Network, method: Method, rounds: int, every: int = 1) -> Track:
    """Solve with this method; every recorded round is measured as any other entrant's."""
    if problem.model is not None:
        problem = Problem(problem.cost, problem.budget)
    book = Recorder(name, problem, network)
    run = solve(problem, network, method, rounds=rounds, every=every)
    if run.share_history is None:
        raise InputError(f"a comparison keeps every share of every round: {network.n:,} nodes are too many")
    limited = method.limits_boxes and book.boxed
    exchanges = 1 + MARKET_EXCHANGES * method.by_markets + LIMITER_EXCHANGES * limited
    links = np.cumsum([0] + [2 * network.topology(k).edges for k in range(run.rounds)])
    for number, bits, x in zip(run.history["round"], run.history["bits"], run.share_history, strict=True):
        if number > 0:
            book.round, book.bits = int(number) - 1, int(bits)
            book.messages = exchanges * int(links[int(number)])
            book.record(x)
    book.worst = max(book.worst, run.worst.budget)
    book.worst_box = max(book.worst_box, run.worst.box)
    if run.status == "diverged":
        book.give_up()
    return book.track()


@dataclass(frozen=True)
class Laplacian:
    """The Laplacian gradient as published: no momentum, a penalty in place of boxes; `step` is a part of its limit.

    The family differs in its `quantizer`.
    """

    weights: str = "curvature"
    step: float = 0.95  # tuned, as all of these: python benchmarks/train/tune.py
    name: ClassVar[str]
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "weights": ("laplacian", "curvature"),
        "step": (0.3, 0.6, 0.8, 0.9, 0.95, 0.99),
    }

    def quantizer(self, problem: Problem, network: Network) -> Quantizer:
        """What prices are coded by."""
        raise NotImplementedError

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        market = problem.market(problem.sized(network.n))
        if market is None:
            raise InputError("a Laplacian gradient shares out CPU: give the problem a cost and a budget")
        quantizer, penalty = self.quantizer(problem, network), PENALTY if market.boxed else 0.0
        top = _largest_eigenvalue(network, self.weights, market.curvature * (1.0 + penalty))
        method = Method(
            quantizer=quantizer,
            step=self.step * math.exp(-quantizer.rho / 2) * 2.0 / top,
            momentum=False,
            box="penalty" if market.boxed else "limit",  # without boxes there is nothing to limit, nor to penalise
            cpu_weights=self.weights,
            name="laplacian",
        )
        return played(self.name, problem, network, method, rounds, every)


def _largest_eigenvalue(network: Network, weights: str, curvature: Floats) -> float:
    """Of L H over all graphs; where they never repeat, what no graph can exceed (of the first round's weights)."""
    if network.period is None:
        return 2.0 if weights == "curvature" else float(network.n * network.topology(0).weights.max() * curvature.max())
    graphs = [network.topology(k) for k in range(network.period)]
    return max(lambda_max(graph, edge_weights(weights, graph, curvature), curvature) for graph in graphs)
