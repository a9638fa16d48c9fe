"""Eigenvalues of a network that may change: the worst over its graphs."""

from __future__ import annotations

import numpy as np

from equipoise.train.arrays import Floats
from equipoise.train.network import Network
from equipoise.train.spectrum import lambda_2, lambda_max
from equipoise.train.topology import Topology
from equipoise.train.weights import edge_weights

TOPOLOGIES_LOOKED_AT = 8  # of a periodic network, for exact eigenvalues; the rest and fresh ones by row sums


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
