"""The paper's node-wise log quantisation (arXiv 2510.25176): each node broadcasts its price to the nearest power of e^rho.

Bad at: prices far from 0. All prices of one cell, a part rho of the price itself, look alike, so a residual of the order
of (rho price)^2 stays; only where the optimal price is near 0 do the cells shrink with the differences.
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
class LaplacianLog:
    """`step` is a part of the largest stable one."""

    weights: str = WEIGHTS
    step: float = STEP
    rho: float = 0.125
    name: ClassVar[str] = "LaplacianLog"
    label: ClassVar[str] = "paper (node-wise log)"
    rank: ClassVar[int] = 2  # in tables
    colour: ClassVar[str] = "#dc2626"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "weights": ("laplacian", "curvature"),
        "step": (0.3, 0.6, 0.8, 0.9, 0.95, 0.99),
    }

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        quantizer = LogQuantizer(rho=self.rho, mode="node")
        method = laplacian(problem, network, quantizer, self.weights, self.step)
        return played(self.name, problem, network, method, rounds, every)
