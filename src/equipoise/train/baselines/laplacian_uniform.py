"""The Laplacian gradient over uniformly quantised prices, in as many bits as the log code takes.

What most work on quantised allocation assumes. Bad at: the end. Prices within one level look alike, so a residual
stays that does not shrink with the prices' differences; and somebody must know the range of prices beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.train.baselines._played import Laplacian
from equipoise.train.baselines._track import Recorder
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import LogQuantizer, Quantizer, UniformQuantizer

STEP, REACH = 0.9, 0.7  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class LaplacianUniform(Laplacian):
    """`reach`: the largest level, in units of the largest price at the start, which the coder is told for nothing."""

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
        "reach": (0.7, 1.0, 1.5),  # below, the best price may lie beyond the largest level, and the code sticks
    }

    def quantizer(self, problem: Problem, network: Network) -> Quantizer:
        book = Recorder(self.name, problem, network)
        prices = float(np.abs(book.cost.derivative(book.start)).max())
        bits = LogQuantizer(rho=self.rho, mode="node").bits
        return UniformQuantizer(bits=bits, largest=self.reach * max(prices, 1e-300))
