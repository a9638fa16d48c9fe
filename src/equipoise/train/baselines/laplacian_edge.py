"""Log quantisation of the difference of two prices, edge by edge: a tool of analysis, not a channel.

Exact in the limit, but both ends of a link would have to know the exact difference before they could quantise it. It shows
what the log code loses by itself, without the loss of coding each node's price apart. Bad at: existing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from equipoise.train.baselines._played import Laplacian
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import LogQuantizer, Quantizer


@dataclass(frozen=True)
class LaplacianEdge(Laplacian):
    """`step` is a part of the largest stable one."""

    rho: float = 0.125
    name: ClassVar[str] = "LaplacianEdge"
    label: ClassVar[str] = "edge-wise log (analysis)"
    rank: ClassVar[int] = 9  # in tables
    colour: ClassVar[str] = "#a8a29e"
    analysis: ClassVar[bool] = True  # no channel can do this: it is shown, but is nobody's best rival

    def quantizer(self, problem: Problem, network: Network) -> Quantizer:
        return LogQuantizer(rho=self.rho, mode="edge")
