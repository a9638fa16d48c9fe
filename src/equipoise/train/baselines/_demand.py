"""What a node takes at a price, and the coupling of neighbours: the two sums that every dual method is made of."""

from __future__ import annotations

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.baselines._track import Recorder
from equipoise.train.costs._base import curvature
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.topology import Topology

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
