"""Log quantisation of the difference of two prices, edge by edge: a tool of analysis, not a channel.

Exact in the limit, but both ends of a link would have to know the exact difference before they could quantise it. It shows
what the log code loses by itself, without the loss of coding each node's price apart. Bad at: existing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from equipoise.train.baselines._played import laplacian, played
from equipoise.train.baselines._track import Track
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import LogQuantizer

WEIGHTS, STEP = "curvature", 0.95  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class LaplacianEdge:
    """`step` is a part of the largest stable one."""

    weights: str = WEIGHTS
    step: float = STEP
    rho: float = 0.125
    name: ClassVar[str] = "LaplacianEdge"
    label: ClassVar[str] = "edge-wise log (analysis)"
    rank: ClassVar[int] = 9  # in tables
    colour: ClassVar[str] = "#a8a29e"
    analysis: ClassVar[bool] = True  # no channel can do this: it is shown, but is nobody's best rival
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "weights": ("laplacian", "curvature"),
        "step": (0.3, 0.6, 0.8, 0.9, 0.95, 0.99),
    }

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        quantizer = LogQuantizer(rho=self.rho, mode="edge")
        method = laplacian(problem, network, quantizer, self.weights, self.step)
        return played(self.name, problem, network, method, rounds, every)
