"""How far a node may go down its tracker in a round (docs/train.md, 5).

With mixing eigenvalue mu and curvature h a mode of models and trackers obeys (l - mu)^2 + alpha h (l - 1) = 0. Nodes keep a
part k of what they mix: then for links that carry both ways alpha h < 2 k^2 is stable whatever the delay up to five rounds
(found numerically), and for one-way links the limit follows from the complex mu of the graphs. On a slow network, mu near 1,
a mode decays by (1 - mu)^2 / (alpha h) a round: there a smaller alpha is faster.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import ArpackError, eigs, eigsh

from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.hostile.traffic import Roads, Traffic
from equipoise.train.models.model import Model

KEPT = 0.4  # of a node's own model and tracker, in every mixing
BOTH_WAYS = 2.0 * KEPT**2  # limit of alpha h
DESCENT = 0.5  # alpha as a part of its limit
SLOW = 0.7  # alpha h as a part of 1 - mu, where that is less
DENSE = 400  # nodes up to which all eigenvalues are found
EXTREME = 12  # of a larger graph, those farthest from 0
HALVINGS = 40
USUAL_CAP, LARGEST_CAP = 0.7, 0.995


def mixing(traffic: Traffic, directed: bool) -> tuple[Floats, Floats]:
    """Weights of pulling (rows) and of pushing (columns) per entry: each sums to at most 1 - KEPT at a node."""
    if directed:
        pull, push = traffic.in_degree[traffic.receivers], traffic.degree[traffic.senders]
        return np.asarray((1.0 - KEPT) / pull), np.asarray((1.0 - KEPT) / push)
    both = (1.0 - KEPT) / np.maximum(traffic.degree[traffic.senders], traffic.degree[traffic.receivers])
    return both, both


def descent(roads: Roads, period: int | None, directed: bool) -> tuple[float, float]:
    """alpha x h, and the largest that every graph bears by itself."""
    if not directed:
        slowest = _slowest(roads.traffic(0)) if period == 1 else 1.0  # where neighbours change no mode lasts
        return min(DESCENT * BOTH_WAYS, SLOW * slowest), BOTH_WAYS
    limits = [
        _limit(_eigenvalues(traffic, weights))
        for traffic in map(roads.traffic, range(period or 1))
        for weights in mixing(traffic, directed)
    ]
    limit = min([BOTH_WAYS, *limits])
    return DESCENT * limit, limit


def _slowest(traffic: Traffic) -> float:
    """1 - mu of the slowest mode of a graph whose links carry both ways."""
    weights, _ = mixing(traffic, directed=False)
    n = traffic.n
    sums = np.bincount(traffic.receivers, weights, n)
    matrix = coo_array((weights, (traffic.receivers, traffic.senders)), shape=(n, n)).tocsr() - diags_array(sums)
    if n <= DENSE:
        return float(-np.sort(np.linalg.eigvalsh(matrix.toarray()))[-2]) if n > 1 else 1.0
    try:
        top = eigsh(matrix, k=2, which="LA", return_eigenvectors=False, tol=1e-2, maxiter=20 * n)
        return max(float(-top.min()), 1.0 / n**2)
    except ArpackError:
        return 0.05


def _eigenvalues(traffic: Traffic, weights: Floats) -> AnyArray:
    n = traffic.n
    matrix = coo_array((weights, (traffic.receivers, traffic.senders)), shape=(n, n)).tocsr()
    rest = 1.0 - KEPT - np.asarray(matrix.sum(axis=1)).ravel()
    columns = 1.0 - KEPT - np.asarray(matrix.sum(axis=0)).ravel()
    kept = KEPT + (rest if np.abs(rest).max() < np.abs(columns).max() else columns)
    if n <= DENSE:
        return np.linalg.eigvals(matrix.toarray() + np.diag(kept))
    try:
        return np.asarray(
            eigs(
                matrix + coo_array((kept, (np.arange(n), np.arange(n))), shape=(n, n)),
                k=EXTREME,
                return_eigenvectors=False,
            )
        )
    except ArpackError:
        return np.array([1.0 - 1.0 / n + 0j])


def _limit(mu: AnyArray) -> float:
    """The smallest over all mu but 1 of the largest alpha h at which both roots lie inside the unit circle."""
    mu = mu[np.abs(mu - 1.0) > 1e-9].astype(np.complex128)
    if not len(mu):
        return BOTH_WAYS
    low, high = np.zeros(len(mu)), np.full(len(mu), BOTH_WAYS)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        linear, constant = middle - 2.0 * mu, mu**2 - middle  # l^2 + linear l + constant
        root = np.sqrt(linear**2 - 4.0 * constant)
        stable = np.maximum(np.abs(-linear + root), np.abs(-linear - root)) < 2.0
        low, high = np.where(stable, middle, low), np.where(stable, high, middle)
    return float(low.min())


def momentum(model: Model, alpha: float, directed: bool) -> float:
    """Of a node's descent: a usual one, more for the conditioning that a ridge guarantees; none where modes turn."""
    if directed:
        return 0.0
    conditioning = model.nodes / (alpha * model.convexity) if model.convexity > 0 else 0.0
    return max(USUAL_CAP, min(LARGEST_CAP, 1.0 - 2.0 / math.sqrt(max(conditioning, 4.0))))
