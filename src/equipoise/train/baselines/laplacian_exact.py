"""The unquantised Laplacian gradient: neighbours exchange prices as they are, and CPU flows from high to low.

Cherukuri and Cortés (2015) and many others. The budget holds in every round. Bad at: bits, 64 a number; boxes, which a
penalty keeps only roughly; and thin networks, where without momentum prices travel slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from equipoise.train.baselines._played import Laplacian
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact, Quantizer

STEP = 0.9  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class LaplacianExact(Laplacian):
    """`step` is a part of the largest stable one."""

    step: float = STEP
    name: ClassVar[str] = "LaplacianExact"
    label: ClassVar[str] = "Laplacian (floats)"
    rank: ClassVar[int] = 4  # in tables
    colour: ClassVar[str] = "#475569"

    def quantizer(self, problem: Problem, network: Network) -> Quantizer:
        return Exact()
