"""Finite-time ratio consensus for quadratic costs: whole numbers are split and passed on until all ratios agree.

In the manner of Rikos, Grammenos, Kalyvianaki, Hadjicostis, Charalambous and Johansson (2021). The optimal price of
quadratic costs is a ratio of two sums, sum (b/n - c_i) / sum (1/a_i). Each node turns its two terms into whole numbers,
keeps a part and passes equal parts to its neighbours (rounding stays with the sender, so both sums are exact). Beside them
the largest and smallest ratio travel; every D rounds, D the diameter, all know whether the ratios agree, and stop together.

Bad at: costs that are not quadratic (refused), and boxes, of which it knows nothing (the violation is reported); until it
stops the budget is broken, and after it by as much as the numbers are coarse. Sums and D are told to the nodes for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.baselines._track import FLOAT_BITS, Recorder, Track
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.topology import Topology

BITS = 48  # python benchmarks/train/tune.py
SLACK_BITS = 12  # ratios agree when they differ by 2^(SLACK_BITS - bits) of their difference at the start


@dataclass(frozen=True)
class RatioConsensus:
    """`bits` of each whole number; a message holds two of them and two floats, the largest and smallest ratio heard of."""

    bits: int = BITS
    name: ClassVar[str] = "RatioConsensus"
    label: ClassVar[str] = "ratio consensus"
    rank: ClassVar[int] = 8  # in tables
    colour: ClassVar[str] = "#be185d"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"bits": (16, 20, 24, 32, 40, 48)}

    def refuses(self, problem: Problem, network: Network) -> str | None:
        """Why it cannot play, if it cannot."""
        if isinstance(problem.cost, Quadratic):
            return None
        given = type(problem.cost).__name__
        return f"RatioConsensus needs Quadratic costs, whose price is a ratio of two sums; this problem has {given}"

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track:
        reason = self.refuses(problem, network)
        if reason:
            raise InputError(f"{reason}: leave it out, or use Quadratic", code="entrant.cost")
        book = Recorder(self.name, problem, network, every)
        cost = book.cost
        assert isinstance(cost, Quadratic)
        top, bottom = book.start - cost.c, np.broadcast_to(1 / cost.a, book.start.shape)
        top_unit, bottom_unit = (float(np.abs(part).sum()) / 2 ** (self.bits - 1) for part in (top, bottom))
        tops, bottoms = _whole(top, top_unit), np.maximum(_whole(bottom, bottom_unit), 1)
        unit = top_unit / bottom_unit
        window, stopped = _diameter(network), False
        ratio = unit * tops / bottoms
        largest, smallest, apart = ratio, ratio, 0.0
        for number in range(rounds):
            if not stopped:
                topology = network.topology(number)
                book.send(topology, 2 * self.bits + 2 * FLOAT_BITS)
                tops, bottoms = _split(topology, tops), _split(topology, bottoms)
                largest = _spread(topology, largest, np.maximum)
                smallest = _spread(topology, smallest, np.minimum)
                ratio = unit * tops / bottoms
                if (number + 1) % window == 0:
                    agreed = float((largest - smallest).max())
                    apart = apart or agreed  # what the first window tells: how far apart they were at the start
                    stopped = agreed <= apart * 2.0 ** (SLACK_BITS - self.bits)
                    largest = smallest = ratio
            if not book.record(np.asarray(cost.c + ratio / cost.a)):
                break
        return book.track()


def _whole(values: Floats, unit: float) -> Ints:
    return np.round(values / max(unit, 1e-300)).astype(np.int64)


def _split(topology: Topology, amounts: Ints) -> Ints:
    """Every node keeps one part of d + 1, rounded up, and passes the others on; the sum cannot change."""
    parts = np.trunc(amounts / (topology.degree + 1)).astype(np.int64)
    kept = amounts - parts * topology.degree
    np.add.at(kept, topology.heads, parts[topology.tails])
    np.add.at(kept, topology.tails, parts[topology.heads])
    return kept


def _spread(topology: Topology, values: Floats, better: np.ufunc) -> Floats:
    """Everybody takes over the best of what neighbours know."""
    known = values.copy()
    better.at(known, topology.heads, values[topology.tails])
    better.at(known, topology.tails, values[topology.heads])
    return known


def _diameter(network: Network) -> int:
    """Rounds until everybody has heard of everybody; n - 1 always suffice, also where neighbours change."""
    if not network.static:
        return max(1, network.n - 1)
    return max(1, network.topology(0).diameter)
