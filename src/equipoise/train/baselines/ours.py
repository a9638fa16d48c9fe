"""Ours: `Method()` as it stands - innovation codes, sums to the last bit, boxes kept exactly (docs/train.md, 3).

Automatic: nothing is tuned, per instance or on a grid; where links return it is told the slowest mode's gap for nothing. Bad
at: first contact, where every link carries whole floats, so with few bits to spend a coarse code is ahead at first; and at
graphs that never return, where numbers are short floats and a market answers each message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from equipoise.train.baselines._played import played
from equipoise.train.baselines._track import Track
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import LogQuantizer


@dataclass(frozen=True)
class Ours:
    """`rho` is the coarseness of the code: 10 bits per number at 0.125, where links return."""

    rho: float = 0.125
    name: ClassVar[str] = "Ours"
    label: ClassVar[str] = "ours (innovation)"
    rank: ClassVar[int] = 1  # in tables
    colour: ClassVar[str] = "#1d4ed8"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        method = Method(quantizer=LogQuantizer(rho=self.rho))
        return played(self.name, problem, network, method, rounds, every)
