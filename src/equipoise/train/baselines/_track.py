"""What every entrant of a comparison leaves behind: how far it was from the optimum, and what that cost in messages.

And what every dual method is made of: what a node takes at a price, and the coupling of neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.audit import cpu_gap
from equipoise.train.costs._base import curvature
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.topology import Topology
from equipoise.train.truth import CpuOptimum, optimal_shares

FLOAT_BITS = 64
COLUMNS = ("round", "gap", "distance", "relative_gap", "bits", "messages", "violation", "box_violation")
ROUNDING = 1e-9  # of the optimum: a start nearer than this counts as this far away
RUNAWAY = 1e6  # shares this many times farther from the optimum than at the start: a divergence


class Entrant(Protocol):
    """A method that can be compared. A user's own needs no more than this."""

    @property
    def name(self) -> str: ...

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track: ...


class Rival(Protocol):
    """An entrant of our own, with its look and the grid that its defaults were chosen from."""

    name: ClassVar[str]
    label: ClassVar[str]
    colour: ClassVar[str]
    grid: ClassVar[dict[str, tuple[Any, ...]]]

    def __init__(self, **parameters: Any) -> None: ...

    def play(self, problem: Problem, network: Network, rounds: int, every: int = 1) -> Track: ...


@dataclass(frozen=True, eq=False)
class Track:
    """One entrant on one instance: arrays with a row per recorded round, round 0 being the start.

    `distance` |x - x*| / |x(0) - x*| is what to judge by: a method that breaks the budget can make its gap small, zero
    or negative, but not its distance. Bits and messages are sums since the start; a message is one transmission
    over one directed link in one round.
    """

    name: str
    round: Floats
    gap: Floats  # F(x) - F*, negative where the constraints are broken
    distance: Floats
    relative_gap: Floats  # |F - F*| as a part of that at the start
    bits: Floats
    messages: Floats
    violation: Floats  # |sum x - b| in this round, CPUs
    box_violation: Floats  # farthest share outside its box in this round, CPUs
    largest_violation: float  # over all rounds, recorded or not
    largest_box_violation: float
    diverged: bool
    start: Floats
    shares: Floats  # in the last round
    optimum: CpuOptimum

    def at_round(self, number: float, measure: str = "distance") -> float:
        """The measure in the last recorded round up to this one; infinite once the entrant has diverged."""
        return self._at(self.round, number, measure)

    def at_bits(self, bits: float, measure: str = "distance") -> float:
        """The measure in the last recorded round that this many bits pay for."""
        return self._at(self.bits, bits, measure)

    def _at(self, axis: Floats, most: float, measure: str) -> float:
        row = int(np.searchsorted(axis, most, side="right")) - 1
        if self.diverged and measure in ("distance", "relative_gap") and most > axis[-1]:
            return math.inf
        return float(getattr(self, measure)[max(row, 0)])

    def first(self, target: float, column: str = "round") -> float:
        """Rounds (or bits, or messages) after which the distance stays at or below the target; infinite if it never does."""
        above = np.flatnonzero(~(self.distance <= target))
        row = int(above[-1]) + 1 if len(above) else 0
        if self.diverged or row >= len(self.distance):
            return math.inf
        return float(getattr(self, column)[row])


class Recorder:
    """Keeps the book of a play: the instance in numbers, what was sent, and a row per recorded round.

    A play reads `start`, `budget`, `lo`, `hi` and `cost`; calls `send` for every exchange and `record` after each round.
    """

    def __init__(self, name: str, problem: Problem, network: Network, every: int = 1) -> None:
        market = problem.market(problem.sized(network.n))
        if market is None:
            raise InputError(f"{name} shares out CPU: give the problem a cost and a budget", code="problem.cost")
        grid = market.grid
        self.name, self.every, self.nodes = name, every, network.n
        self.cost, self.budget = market.cost, market.budget * grid.unit
        self.lo = np.where(np.isfinite(market.lo), grid.floats(market.low), -np.inf)
        self.hi = np.where(np.isfinite(market.hi), grid.floats(market.high), np.inf)
        self.boxed = market.boxed
        self.start: Floats = grid.floats(market.start())  # equal shares, as far as the boxes allow
        self.optimum = optimal_shares(self.cost, self.budget, self.lo, self.hi)
        self.round = self.bits = self.messages = 0
        self.worst = self.worst_box = 0.0
        best = self.optimum.shares
        self._reach = max(float(np.linalg.norm(self.start - best)), ROUNDING * float(np.linalg.norm(best)), 1e-300)
        self._first = max(abs(self._gap(self.start)), ROUNDING * abs(float(np.sum(self.cost.value(best)))), 1e-300)
        self._rows: list[tuple[float, ...]] = []
        self._diverged = False
        self._latest = self.start
        self._write(self.start)

    def send(self, topology: Topology, bits: int = FLOAT_BITS) -> None:
        """Every directed link of the graph carries a message of so many bits."""
        self.messages += 2 * topology.edges
        self.bits += 2 * topology.edges * bits

    def record(self, x: Floats) -> bool:
        """The shares after a round. False once they have run away: stop playing."""
        self.round += 1
        with np.errstate(all="ignore"):
            distance = float(np.linalg.norm(x - self.optimum.shares)) / self._reach
        if not distance <= RUNAWAY:
            self._diverged = True
            return False
        self._latest = x.copy()
        self.worst = max(self.worst, self._violation(x))
        self.worst_box = max(self.worst_box, self._box_violation(x))
        if self.round % self.every == 0:
            self._write(x)
        return True

    def give_up(self) -> None:
        """The entrant says itself that it has diverged."""
        self._diverged = True

    def track(self) -> Track:
        """The play so far; its last round is always there."""
        if self._rows[-1][0] != self.round and not self._diverged:
            self._write(self._latest)
        columns: dict[str, Any] = dict(zip(COLUMNS, np.array(self._rows).T, strict=True))
        return Track(
            name=self.name,
            largest_violation=self.worst,
            largest_box_violation=self.worst_box,
            diverged=self._diverged,
            start=self.start,
            shares=self._latest,
            optimum=self.optimum,
            **columns,
        )

    def _write(self, x: Floats) -> None:
        gap = self._gap(x)
        distance = float(np.linalg.norm(x - self.optimum.shares)) / self._reach
        row = (self.round, gap, distance, abs(gap) / self._first, self.bits, self.messages)
        self._rows.append((*row, self._violation(x), self._box_violation(x)))

    def _gap(self, x: Floats) -> float:
        """F(x) - F*, summed around the optimal price so that the leading digits do not cancel."""
        gap = cpu_gap(self.cost, x, self.optimum)
        return gap + self.optimum.price * (math.fsum(x.tolist()) - self.budget) if math.isfinite(gap) else gap

    def _violation(self, x: Floats) -> float:
        return abs(math.fsum(x.tolist()) - self.budget)

    def _box_violation(self, x: Floats) -> float:
        return max(0.0, float(np.maximum(self.lo - x, x - self.hi).max()))


FLAT = 1e-9  # of the largest curvature: less is none
HALVINGS = 48  # of the interval that holds the answer: 1e-13 of a box of 30 CPUs


class Demand:
    """Solves f_i'(x) + slope_i x = price_i within the box, every node by itself and exactly."""

    def __init__(self, book: Recorder) -> None:
        self.cost, self.lo, self.hi, self.start = book.cost, book.lo, book.hi, book.start
        self.flattest, self.steepest = curvature(book.cost, book.lo, book.hi)
        curved = self.flattest > FLAT * self.steepest
        if not curved.all():
            node = int(np.flatnonzero(~curved)[0])
            raise InputError(
                f"{book.name} needs strictly convex costs; f'' reaches {self.flattest[node]:g} at node {node}: "
                "narrow its box or leave this rival out",
                code="cost.convex",
            )
        # One number per node for scaling steps: f'' itself for quadratic costs.
        self.typical: Floats = np.sqrt(self.flattest * self.steepest)

    def first_prices(self) -> Floats:
        """f'(x(0)): the prices at which every node takes its share at the start."""
        return np.asarray(self.cost.derivative(self.start))

    def at(self, price: Floats, slope: Floats | float = 0.0) -> Floats:
        """In closed form for quadratic costs, else by bisection between bounds that the smallest curvature gives."""
        if isinstance(self.cost, Quadratic):
            a, c = self.cost.a, self.cost.c
            return np.clip((price + a * c) / (a + slope), self.lo, self.hi)
        here = price - self.cost.derivative(self.start) - slope * self.start
        far = self.start + here / (self.flattest + slope)
        left, right = np.minimum(self.start, far), np.maximum(self.start, far)
        left, right = np.clip(left, self.lo, self.hi), np.clip(right, self.lo, self.hi)
        for _ in range(HALVINGS):
            middle = 0.5 * (left + right)
            short = self.cost.derivative(middle) + slope * middle < price
            left, right = np.where(short, middle, left), np.where(short, right, middle)
        return np.asarray(0.5 * (left + right))


def coupling(topology: Topology, weights: Floats, values: Floats) -> Floats:
    """(L v)_i = sum_j w_ij (v_i - v_j)."""
    flow = weights * (values[topology.tails] - values[topology.heads])
    leaving, entering = (np.bincount(ends, flow, topology.n) for ends in (topology.tails, topology.heads))
    return np.asarray(leaving - entering, dtype=np.float64)


def total_weight(topology: Topology, weights: Floats) -> Floats:
    """sum_j w_ij."""
    ends, both = np.concatenate([topology.tails, topology.heads]), np.concatenate([weights, weights])
    return np.asarray(np.bincount(ends, both, topology.n), dtype=np.float64)
