"""The Laplacian gradient over uniformly quantised prices, in as many bits as the log code takes.

What most work on quantised allocation assumes. Bad at: the end. Prices within one level look alike, so a residual
stays that does not shrink with the prices' differences; and somebody must know the range of prices beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.train.baselines._played import laplacian, played
from equipoise.train.baselines._track import Recorder, Track
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import LogQuantizer, UniformQuantizer

WEIGHTS, STEP, REACH = "curvature", 0.9, 0.7  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class LaplacianUniform:
    """`reach`: the largest level, in units of the largest price at the start, which the coder is told for nothing."""

    weights: str = WEIGHTS
    step: float = STEP
    reach: float = REACH
    rho: float = 0.125  # of the log code whose bits it gets
    name: ClassVar[str] = "LaplacianUniform"
    label: ClassVar[str] = "Laplacian (uniform)"
    rank: ClassVar[int] = 3  # in tables
    colour: ClassVar[str] = "#65a30d"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "weights": ("laplacian", "curvature"),
        "step": (0.3, 0.6, 0.9, 0.95),
        "reach": (
            0.7,
            1.0,
            1.5,
        ),  # below, the optimal price itself may lie beyond the largest level, and the code sticks
    }

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        book = Recorder(self.name, problem, network)
        prices = float(np.abs(book.cost.derivative(book.start)).max())
        bits = LogQuantizer(rho=self.rho, mode="node").bits
        quantizer = UniformQuantizer(bits=bits, largest=self.reach * max(prices, 1e-300))
        method = laplacian(problem, network, quantizer, self.weights, self.step)
        return played(self.name, problem, network, method, rounds, every)
