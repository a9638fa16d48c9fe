"""Bounds that a run is held against, one equation each (docs/train.md, 3.2 to 3.6), and what they are made of.

In this order: steps and codes; the worst eigenvalue of a network that may change; one mode with momentum; one mode of the
markets.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np

from equipoise.train.arrays import Floats
from equipoise.train.network import Network
from equipoise.train.spectrum import lambda_2, lambda_max
from equipoise.train.topology import Topology
from equipoise.train.weights import edge_weights

TOPOLOGIES_LOOKED_AT = 8  # of a periodic network, for exact eigenvalues; the rest and fresh ones by row sums
HALVINGS = 60  # of [0, 1]: down to rounding


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
    """rho < 2 ln 2: beyond, e^(rho/2) > 2 and an innovation code can overshoot by more than the error it corrects."""
    return 2.0 * math.log(2.0)


def node_residual(rho: float, price: float, curvature: Floats) -> float:
    """The largest gap at which node-wise codes stand still: (price sinh(rho/2))^2 / 2 sum 1/a_i, quadratic costs, no box.

    Prices in one cell are one code, and nothing flows. The gap is half the variance of the prices with weights 1/a_i, whose
    mean is the optimal `price`: at most (price - low)(high - price) / 2, largest for the cell around price cosh(rho/2).
    """
    return float((price * math.sinh(rho / 2)) ** 2 / 2.0 * (1.0 / curvature).sum())


def meeting_limit(smoothness: float, momentum: float = 0.0) -> float:
    """Averages are stable on every graph, convex losses, while alpha < (1 + beta) / (2 L) (theory/averages.py).

    Complete graphs reach it. Without a momentum it is the value that is safe for all of them.
    """
    return 0.5 * (1.0 + momentum) / smoothness


# Eigenvalues of a network that may change: the worst over its graphs.


def top_eigenvalue(network: Network, weights: str, curvature: Floats | None = None) -> float:
    """lambda_max(L), or of L H with the CPU costs' curvature, over every graph of the network."""
    if network.period is None:
        return max(_row_bound(network.topology(k), weights, curvature) for k in range(TOPOLOGIES_LOOKED_AT))
    found = 0.0
    for k in range(network.period):
        topology = network.topology(k)
        if k < TOPOLOGIES_LOOKED_AT:
            found = max(found, lambda_max(topology, edge_weights(weights, topology, curvature), scale=curvature))
        else:
            found = max(found, _row_bound(topology, weights, curvature))
    return found


def smallest_connectivity(network: Network, weights: str) -> float:
    """lambda_2, the worst over (the first of) the network's graphs."""
    count = min(network.period or TOPOLOGIES_LOOKED_AT, TOPOLOGIES_LOOKED_AT)
    graphs = (network.topology(k) for k in range(count))
    return min(lambda_2(topology, edge_weights(weights, topology)) for topology in graphs)


def _row_bound(topology: Topology, weights: str, curvature: Floats | None) -> float:
    """Gershgorin: lambda_max <= 2 max_i a_i sum_j w_ij. For curvature weights this is 2, whatever the graph."""
    w = edge_weights(weights, topology, curvature)
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
    if two_step_radius(largest, critical) <= two_step_radius(smallest, critical):
        return critical
    low, high = 0.0, critical
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if two_step_radius(largest, middle) <= two_step_radius(smallest, middle):
            low = middle
        else:
            high = middle
    return low


# The CPU half by markets, linearised: planned shares s and prices p, errors from the optimum, on the ideal channel.
# A the graph with each node itself, E the elasticities 1/f'', D = theta E, R = D / (degree + 1), C = 1 / (A R 1), K = RACAR:
#
#     s+ = s - D p + K p          (D + E) p+ = s+ + K p
#
# In units of E^(1/2), K is theta T with T symmetric and eigenvalues in [0, 1]. A mode t of T obeys a 2 x 2 matrix with trace
# 1 + theta (2 t - 1)/(1 + theta) and determinant theta t/(1 + theta): stable for every theta > 0 and t < 1. t = 1 belongs to
# the budget, which has no error, and to a common price, which settles as theta/(1 + theta).


def mode_radius(mode: float, inertia: float) -> float:
    """The larger |eigenvalue| of mode t < 1 of T; for t = 1 that of a common price."""
    if mode >= 1.0:
        return inertia / (1.0 + inertia)
    trace = 1.0 + inertia * (2.0 * mode - 1.0) / (1.0 + inertia)
    product = inertia * mode / (1.0 + inertia)
    inside = trace * trace - 4.0 * product
    return float(np.sqrt(product) if inside < 0 else (abs(trace) + np.sqrt(inside)) / 2.0)


def market_map(graph: Topology, elasticity: Floats, response: Floats, inertia: float) -> Floats:
    """One round of (s, p) as a matrix; `elasticity` is what nodes say, `response` how x follows the price (0 at a bound)."""
    n = graph.n
    meets = np.eye(n)
    meets[graph.tails, graph.heads] = meets[graph.heads, graph.tails] = 1.0
    D = inertia * elasticity
    R = D / (graph.degree + 1.0)
    K = R[:, None] * (meets @ (meets / (meets @ R)[:, None])) * R
    ahead = 1.0 / (D + response)
    return np.block([[np.eye(n), K - np.diag(D)], [np.diag(ahead), ahead[:, None] * (2.0 * K - np.diag(D))]])


def budgeted(n: int) -> Floats:
    """Columns: an orthonormal basis of the states whose planned shares sum to 0; a market map does not leave it."""
    shares = np.linalg.qr(np.ones((n, 1)), mode="complete")[0][:, 1:]
    return np.block([[shares, np.zeros((n, n))], [np.zeros((n, n - 1)), np.eye(n)]])
