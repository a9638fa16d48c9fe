"""Dual gradient tracking: prices follow the average of what all nodes would take too much or too little.

DIGing (Nedić, Olshevsky, Shi 2017) on the dual; its gradient at node i is x_i(p_i) - b/n, and t_i tracks the average of it:

    p_i = sum_j w_ij p_j - step t_i
    t_i = sum_j w_ij t_j + x_i(p_i) - x_i(p_i before)

Bad at: the budget, kept only in the limit; two floats per message; and one step for all, set by the flattest cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from equipoise.train.baselines._track import FLOAT_BITS, Demand, Recorder, Track, coupling
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.topology import edge_weights

STEP = 0.4  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class DualTracking:
    """`step` in units of the smallest curvature of all costs, which every node is told for nothing."""

    step: float = STEP
    name: ClassVar[str] = "DualTracking"
    label: ClassVar[str] = "dual gradient tracking"
    rank: ClassVar[int] = 6  # in tables
    colour: ClassVar[str] = "#7c3aed"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"step": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)}

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        book = Recorder(self.name, problem, network, every)
        demand = Demand(book)
        step = self.step * float(demand.flattest.min())
        p, x = demand.first_prices(), book.start
        tracker = x - book.budget / book.nodes
        for number in range(rounds):
            topology = network.topology(number)
            w = edge_weights("metropolis", topology)
            book.send(topology, 2 * FLOAT_BITS)
            p = p - coupling(topology, w, p) - step * tracker
            before, x = x, demand.at(p)
            tracker = tracker - coupling(topology, w, tracker) + x - before
            if not book.record(x):
                break
        return book.track()
