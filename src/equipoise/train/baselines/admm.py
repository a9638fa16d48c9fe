"""ADMM on the dual: every node holds a price of its own, and multipliers pull the prices of neighbours together.

Consensus ADMM of Shi, Ling, Yuan, Wu and Yin (2014), applied to the dual of the allocation problem as in Chang, Hong and
Wang (2015). In each round node i hears p_j, adds up the disagreement, and solves its own small problem exactly:

    l_i += sum_j c_ij (p_i - p_j)
    (x_i, p_i) = the point with f_i'(x) = p in the box and x - b/n + l_i + 2 sum_j c_ij (p - (p_i + p_j)/2) = 0

Bad at: the budget. Prices differ until the end, and the shares taken at different prices do not sum to b; floats of 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from equipoise.train.baselines._track import Demand, Recorder, Track, coupling, total_weight
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.topology import edge_weights

PENALTY = 2.0  # python benchmarks/train/tune.py


@dataclass(frozen=True)
class ADMM:
    """c_ij = penalty / max(d_i a_i, d_j a_j), with the degrees and curvatures of both ends told for nothing."""

    penalty: float = PENALTY
    name: ClassVar[str] = "ADMM"
    label: ClassVar[str] = "ADMM on the dual"
    rank: ClassVar[int] = 5  # in tables
    colour: ClassVar[str] = "#b45309"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"penalty": (0.12, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)}

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        book = Recorder(self.name, problem, network, every)
        demand = Demand(book)
        p, multiplier = demand.first_prices(), 0.0 * book.start
        for number in range(rounds):
            topology = network.topology(number)
            c = self.penalty * edge_weights("curvature", topology, demand.typical)
            book.send(topology)
            disagreement, C = coupling(topology, c, p), total_weight(topology, c)
            multiplier = multiplier + disagreement
            aim = p - 0.5 * disagreement / C + (book.budget / book.nodes - multiplier) / (2 * C)
            x = demand.at(aim, slope=1 / (2 * C))
            p = aim - x / (2 * C)
            if not book.record(x):
                break
        return book.track()
