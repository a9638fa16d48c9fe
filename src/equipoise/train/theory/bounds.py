"""Bounds that a run is held against, one equation each (docs/train.md, 3.2 to 3.6), and what they are made of.

In this order: steps and codes; the worst eigenvalue of a network that may change; one mode with momentum,
which no dynamics along edges has.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np
from scipy.optimize import brentq

from equipoise.kernels import Floats
from equipoise.train.network import Network
from equipoise.train.spectrum import lambda_2, lambda_max
from equipoise.train.topology import Topology, edge_weights

TOPOLOGIES_LOOKED_AT = 8  # of a periodic network, for exact eigenvalues; the rest and fresh ones by row sums


def sector(rho: float, rounding: Literal["nearest", "floor"] = "nearest") -> tuple[float, float]:
    """q(v)/v lies in [e^(-rho/2), e^(rho/2)] rounding to the nearest cell, in (e^-rho, 1] rounding down."""
    return (math.exp(-rho / 2), math.exp(rho / 2)) if rounding == "nearest" else (math.exp(-rho), 1.0)


def step_limit(top_eigenvalue: float, rho: float = 0.0) -> float:
    """CPU flows descend while step < 2 e^(-rho/2) / lambda_max(L H)."""
    return 2.0 * math.exp(-rho / 2) / top_eigenvalue if top_eigenvalue > 0 else math.inf


def delay_limit(delay: int, top_eigenvalue: float) -> float:
    """With prices `delay` rounds old at both ends: step < 2 cos(delay pi / (2 delay + 1)) / lambda_max(L H)."""
    return 2.0 * math.cos(delay * math.pi / (2 * delay + 1)) / top_eigenvalue if top_eigenvalue > 0 else math.inf


def alpha_limit(step: float, top_eigenvalue: float, smoothness: float) -> float:
    """Learning is stable (Euler, equal Hessians) iff step alpha h < (2 - step lambda_max)^2 / 2; 0 if mixing is not."""
    left = 2.0 - step * top_eigenvalue
    return left * left / (2.0 * step * smoothness) if left > 0 else 0.0


def paper_alpha(second_eigenvalue: float, smoothness: float) -> float:
    """|lambda_2| / L: the paper's sufficient bound, up to its factor; slow, not a boundary."""
    return abs(second_eigenvalue) / smoothness


def innovation_limit() -> float:
    """rho < 2 ln 2: beyond, e^(rho/2) > 2 and a log code of a change can overshoot by more than it corrects.

    Minifloats, which our dynamics send, never do (codec.py): no run is held against this.
    """
    return 2.0 * math.log(2.0)


def node_residual(rho: float, price: float, curvature: Floats) -> float:
    """The largest gap at which node-wise codes stand still: (price sinh(rho/2))^2 / 2 sum 1/a_i, quadratic costs, no box.

    Prices in one cell are one code, and nothing flows. The gap is half the variance of the prices with weights 1/a_i, whose
    mean is the optimal `price`: at most (price - low)(high - price) / 2, largest for the cell around price cosh(rho/2).
    """
    return float((price * math.sinh(rho / 2)) ** 2 / 2.0 * (1.0 / curvature).sum())


def meeting_limit(smoothness: float, momentum: float = 0.0) -> float:
    """Averages are stable on every graph that stays, convex losses, while alpha < (1 + beta) / (2 L).

    Complete graphs reach it. Without a momentum it is the value that is safe for all of them.
    """
    return 0.5 * (1.0 + momentum) / smoothness


# Eigenvalues of a network that may change: the worst over its graphs.


def graphs_looked_at(network: Network) -> list[Topology]:
    """Those of the first rounds, which stand for all."""
    return [network.topology(k) for k in range(min(network.period or TOPOLOGIES_LOOKED_AT, TOPOLOGIES_LOOKED_AT))]


def top_eigenvalue(network: Network, weights: str, curvature: Floats | None = None) -> float:
    """lambda_max(L), or of L H with the CPU costs' curvature, over every graph of the network."""

    def top(k: int) -> float:
        graph = network.topology(k)
        w = edge_weights(weights, graph, curvature)
        exact = network.period is not None and k < TOPOLOGIES_LOOKED_AT
        return lambda_max(graph, w, scale=curvature) if exact else _row_bound(graph, w, curvature)

    return max(map(top, range(network.period or TOPOLOGIES_LOOKED_AT)))


def smallest_connectivity(network: Network, weights: str) -> float:
    """lambda_2, the worst over (the first of) the network's graphs."""
    return min(lambda_2(graph, edge_weights(weights, graph)) for graph in graphs_looked_at(network))


def _row_bound(topology: Topology, w: Floats, curvature: Floats | None) -> float:
    """Gershgorin: lambda_max <= 2 max_i a_i sum_j w_ij. For curvature weights this is 2, whatever the graph."""
    rows = np.bincount(topology.tails, w, topology.n) + np.bincount(topology.heads, w, topology.n)
    return float(2.0 * (rows * (1.0 if curvature is None else curvature)).max(initial=0.0))


# The two-step (Nesterov) iteration of one mode, e+ = (1 - r)(e + beta (e - e_prev)) with rate r = step lambda.


@overload
def two_step_radius(rate: float, beta: float) -> float: ...
@overload
def two_step_radius(rate: Floats, beta: float) -> Floats: ...
def two_step_radius(rate: float | Floats, beta: float) -> float | Floats:
    """The larger |root| of s^2 - (1 - r)(1 + beta) s + (1 - r) beta: how an error shrinks per round, in the long run."""
    left = 1.0 - np.asarray(rate, dtype=np.float64)
    trace, product = left * (1.0 + beta), left * beta
    inside = trace * trace - 4.0 * product
    real = (np.abs(trace) + np.sqrt(np.maximum(inside, 0.0))) / 2.0
    radius = np.where(inside < 0.0, np.sqrt(np.maximum(product, 0.0)), real)
    return float(radius) if radius.ndim == 0 else radius


def momentum_limit(beta: float) -> float:
    """The largest stable rate, 2 (1 + beta) / (1 + 2 beta): 2 without momentum, 4/3 as beta nears 1."""
    return 2.0 * (1.0 + beta) / (1.0 + 2.0 * beta)


def best_beta(smallest: float, largest: float) -> float:
    """The beta in [0, 1) with the least radius over all rates between; 0 where no rate is positive.

    The smallest rate wants critical damping, (1 - sqrt r)/(1 + sqrt r). A largest rate above 1 becomes slower with
    beta; where it would be the slower one, the best is where the two are equally slow.
    """
    if not 0.0 < smallest < 1.0:
        return 0.0
    critical = (1.0 - math.sqrt(smallest)) / (1.0 + math.sqrt(smallest))

    def slower(beta: float) -> float:
        return two_step_radius(largest, beta) - two_step_radius(smallest, beta)

    if slower(critical) <= 0.0:
        return critical
    return float(brentq(slower, 0.0, critical)) if slower(0.0) < 0.0 else 0.0
