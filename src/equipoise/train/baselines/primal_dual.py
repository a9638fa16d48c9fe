"""Primal-dual dynamics with proportional and integral coupling (PI) of the prices.

After Yi, Hong and Liu (2016) and Cherukuri and Cortés (2016), in rounds. Shares descend their own cost against the local
price, the price rises where the node takes more than an equal part, and v adds up the prices' disagreement:

    x_i = the box's nearest point to x_i - (step / a_i) (f_i'(x_i) - p_i)
    p_i = p_i - (L p)_i - v_i + gain a (b/n - x_i)
    v_i = v_i + integral (L p)_i

Of the two forms in use this is the one whose integral starts at 0 and travels in no message; it also stands under changing
neighbours. Bad at: the budget, and at being tuned: three gains that depend on one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.train.baselines._track import Demand, Recorder, Track, coupling
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.topology import edge_weights

STEP, GAIN, INTEGRAL = 1.0, 0.2, 0.3  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class PrimalDual:
    """`gain` in units of a, the harmonic mean of the curvatures, which every node is told for nothing."""

    step: float = STEP
    gain: float = GAIN
    integral: float = INTEGRAL
    name: ClassVar[str] = "PrimalDual"
    label: ClassVar[str] = "primal-dual (PI)"
    rank: ClassVar[int] = 7  # in tables
    colour: ClassVar[str] = "#0e7490"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "step": (0.3, 0.6, 1.0, 1.4),
        "gain": (0.1, 0.15, 0.2, 0.3),
        "integral": (0.1, 0.2, 0.3, 0.4),
    }

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        book = Recorder(self.name, problem, network, every)
        demand = Demand(book)
        gain = self.gain / float(np.mean(1 / demand.typical))
        x, p, v = book.start, demand.first_prices(), 0.0 * book.start
        for number in range(rounds):
            topology = network.topology(number)
            book.send(topology)
            disagreement = coupling(topology, edge_weights("metropolis", topology), p)
            with np.errstate(all="ignore"):
                descent = (book.cost.derivative(x) - p) / demand.steepest
            p = p - disagreement - v + gain * (book.budget / book.nodes - x)
            v = v + self.integral * disagreement
            x = np.clip(x - self.step * descent, book.lo, book.hi)
            if not book.record(x):
                break
        return book.track()
