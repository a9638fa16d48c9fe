"""The unquantised Laplacian gradient: neighbours exchange prices as they are, and CPU flows from high to low.

Cherukuri and Cortés (2015) and many others. The budget holds in every round. Bad at: bits, 64 a number; boxes, which a
penalty keeps only roughly; and thin networks, where without momentum prices travel slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from equipoise.train.baselines._played import laplacian, played
from equipoise.train.baselines._track import Track
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact

WEIGHTS, STEP = "curvature", 0.9  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class LaplacianExact:
    """`step` is a part of the largest stable one."""

    weights: str = WEIGHTS
    step: float = STEP
    name: ClassVar[str] = "LaplacianExact"
    label: ClassVar[str] = "Laplacian (floats)"
    rank: ClassVar[int] = 4  # in tables
    colour: ClassVar[str] = "#475569"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "weights": ("laplacian", "curvature"),
        "step": (0.3, 0.6, 0.8, 0.9, 0.95, 0.99),
    }

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        method = laplacian(problem, network, Exact(), self.weights, self.step)
        return played(self.name, problem, network, method, rounds, every)
