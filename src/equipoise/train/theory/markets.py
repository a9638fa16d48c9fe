"""The CPU half by markets, linearised: planned shares s and prices p, errors from the optimum, on the ideal channel.

A the graph with each node itself, E the elasticities 1/f'', D = theta E, R = D / (degree + 1), C = 1 / (A R 1), K = RACAR:

    s+ = s - D p + K p          (D + E) p+ = s+ + K p

In units of E^(1/2), K is theta T with T symmetric and eigenvalues in [0, 1]. A mode t of T obeys a 2 x 2 matrix with trace
1 + theta (2 t - 1)/(1 + theta) and determinant theta t/(1 + theta): stable for every theta > 0 and t < 1. t = 1 belongs to
the budget, which has no error, and to a common price, which settles as theta/(1 + theta).
"""

from __future__ import annotations

import numpy as np

from equipoise.train.arrays import Floats
from equipoise.train.topology import Topology


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
