"""The paper's node-wise log quantisation (arXiv 2510.25176): each node broadcasts its price to the nearest power of e^rho.

Bad at: prices far from 0. All prices of one cell, a part rho of the price itself, look alike, so a residual of the order
of (rho price)^2 stays; only where the optimal price is near 0 do the cells shrink with the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from equipoise.train.baselines._played import Laplacian
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import LogQuantizer, Quantizer


@dataclass(frozen=True)
class LaplacianLog(Laplacian):
    """`step` is a part of the largest stable one."""

    rho: float = 0.125
    name: ClassVar[str] = "LaplacianLog"
    label: ClassVar[str] = "paper (node-wise log)"
    rank: ClassVar[int] = 2  # in tables
    colour: ClassVar[str] = "#dc2626"

    def quantizer(self, problem: Problem, network: Network) -> Quantizer:
        return LogQuantizer(rho=self.rho, mode="node")
