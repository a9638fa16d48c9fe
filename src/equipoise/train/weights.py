"""How much a node trusts each neighbour: weights on the edges of one round's graph."""

from __future__ import annotations

import numpy as np

from equipoise.errors import InputError, unknown_name
from equipoise.train.arrays import Floats
from equipoise.train.topology import Topology

KINDS = ("laplacian", "metropolis", "curvature")


def edge_weights(kind: str, topology: Topology, curvature: Floats | None = None) -> Floats:
    """Weights of one kind, one per edge.

    "laplacian" are the graph's own. "metropolis", 1 / (1 + max(d_i, d_j)), mix stably whatever the graph.
    "curvature", 1 / max(d_i a_i, d_j a_j), need no constant for a safe CPU step; a_i = f_i'' > 0 is the curvature.
    """
    if kind not in KINDS:
        raise unknown_name("weights", kind, KINDS)
    if kind == "laplacian":
        return topology.weights
    tails, heads = topology.tails, topology.heads
    degree = topology.degree.astype(np.float64)
    if kind == "metropolis":
        return 1.0 / (1.0 + np.maximum(degree[tails], degree[heads]))
    if curvature is None:
        raise InputError(
            'weights "curvature" need the curvature of every cost; use "metropolis" where there is none',
            code="curvature.missing",
        )
    steepness = degree * _checked(curvature, topology.n)
    return np.asarray(1.0 / np.maximum(steepness[tails], steepness[heads]))


def _checked(curvature: Floats, n: int) -> Floats:
    curvature = np.asarray(curvature, dtype=np.float64)
    if curvature.shape != (n,):
        raise InputError(
            f"curvature has shape {curvature.shape}; expected one number for each of {n} nodes", code="curvature.shape"
        )
    bad = np.flatnonzero(~(np.isfinite(curvature) & (curvature > 0)))
    if bad.size:
        raise InputError(
            f"curvature of node {bad[0]} is {curvature[bad[0]]:g}; it must be positive and finite",
            code="curvature.range",
        )
    return curvature
