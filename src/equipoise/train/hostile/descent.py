"""How far a node may go down its tracker in a round (docs/train.md, 5).

With mixing eigenvalue mu and curvature h a mode of models and trackers obeys (l - mu)^2 + alpha h (l - 1) = 0. Nodes keep a
part k of what they mix: then for links that carry both ways alpha h < 2 k^2 is stable whatever the delay up to five rounds
(found numerically), and for one-way links the limit follows from the complex mu of the graphs. On a slow network, mu near 1,
a mode decays by (1 - mu)^2 / (alpha h) a round: there a smaller alpha is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import ArpackError, eigs, eigsh

from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.traffic import Roads, Traffic
from equipoise.train.models._base import Model

LIMIT = 2.0  # of alpha h, times k^2
DESCENT = 0.5  # alpha as a part of its limit; with momentum near 1 that is 2/3 of it
KEPT = np.linspace(0.4, 0.85, 10)  # what a node may keep
PARTS = np.geomspace(0.02, 1.0, 18)  # of the largest alpha that is taken
CAPS = np.array(
    [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995]
)  # momentum
FELT, FELT_SWITCHING = 0.5, 0.1  # of alpha h / (1 - b), by the network's slowest mode: found by trying
HALF = 0.5  # what a node keeps on one-way links
STRAGGLING = 4.0  # rounds that a straggler sleeps for each part by which alpha is less
MISSED = 1.0  # packets lost in a row that slow agreeing down; what is lost beyond them slows everything alike
SLOW, USUAL_CAP = 0.7, 0.7  # alpha h as a part of 1 - mu, and momentum, where no ridge tells the conditioning
FRESH = 8  # graphs of a network that never repeats that stand for it
DENSE = 400  # nodes up to which all eigenvalues are found
EXTREME = 12  # of a larger graph, those farthest from 0
HALVINGS = 40


@dataclass(frozen=True)
class Descent:
    """What a node keeps when it mixes, alpha x h, the largest that every graph bears by itself, and the momentum."""

    kept: float
    rate: float
    limit: float
    cap: float = 0.0


def mixing(traffic: Traffic, directed: bool, kept: float) -> tuple[Floats, Floats]:
    """Weights of pulling (rows) and of pushing (columns) per entry: each sums to at most 1 - kept at a node."""
    if directed:
        pull, push = traffic.in_degree[traffic.receivers], traffic.degree[traffic.senders]
        return np.asarray((1.0 - kept) / pull), np.asarray((1.0 - kept) / push)
    both = (1.0 - kept) / np.maximum(traffic.degree[traffic.senders], traffic.degree[traffic.receivers])
    return both, both


def choose_descent(
    roads: Roads, period: int | None, directed: bool, faults: Faults, model: Model, steepest: float
) -> Descent:
    """What suits this network, how old its news is, and the conditioning where a ridge tells it."""
    kept = np.array([HALF]) if directed else KEPT
    limits = LIMIT * kept**2
    if directed:
        values = [
            _eigenvalues(traffic, weights, HALF)
            for traffic in map(roads.traffic, range(period or 1))
            for weights in mixing(traffic, directed, HALF)
        ]
        limits = np.minimum(limits, min(map(_limit, values)))
        gap = min(1.0 - float(np.abs(mu[np.abs(mu - 1.0) > 1e-9]).max(initial=0.0)) for mu in values) / HALF
    else:
        gap = _slowest(roads, period)
    asleep = 1.0 + (max(faults.straggle.values(), default=1) - 1) / STRAGGLING
    if model.convexity > 0:
        felt = FELT if period == 1 else FELT_SWITCHING
        found = _by_modes(kept, limits, gap, faults.age, model.nodes * steepest / model.convexity, felt)
        return replace(found, rate=found.rate / asleep)
    given_on = 1.0 - float(kept[0])
    rate = min(DESCENT * float(limits[0]), SLOW * given_on * gap / (1.0 + given_on * min(faults.missed, MISSED)))
    return Descent(float(kept[0]), rate / asleep, float(limits[0]), 0.0 if directed else USUAL_CAP)


def _by_modes(kept: Floats, limits: Floats, gap: float, age: float, conditioning: float, felt: float) -> Descent:
    """The fastest by the slower of two modes.

    Models downhill: while parts of trackers travel they follow only 1 / (1 + (1 - k) age)^2 of alpha, and momentum b helps
    as in heavy ball. The network: (g - e)^2 = alpha h e / (1 - b) for its decay e, where g = 1 - mu. Who keeps more bears a
    larger alpha and loses less to travel, but mixes more slowly.
    """
    index, part, cap = (axis.ravel() for axis in np.meshgrid(np.arange(len(kept)), PARTS, CAPS, indexing="ij"))
    k, limit = kept[index.astype(np.int64)], limits[index.astype(np.int64)]
    rate, travel = part * DESCENT * limit, 1.0 + (1.0 - k) * age
    flattest = rate / travel**2 / conditioning
    root = 1.0 - np.sqrt(cap)
    downhill = np.where(flattest >= root**2, root, flattest / (1.0 - cap))
    g, pull = (1.0 - k) * gap / travel, felt * rate / (1.0 - cap)
    agreeing = 2.0 * g**2 / (2.0 * g + pull + np.sqrt(pull * (4.0 * g + pull)))
    best = int(np.argmax(np.minimum(downhill, agreeing)))
    return Descent(float(k[best]), float(rate[best]), float(limit[best]), float(cap[best]))


def _slowest(roads: Roads, period: int | None) -> float:
    """How far the slowest mode of agreeing moves a round, on average over the graphs, per part that nodes do not keep."""
    graphs = [roads.traffic(k) for k in range(min(period or FRESH, FRESH))]
    n, kept = graphs[0].n, float(KEPT[0])
    if n == 1:
        return 1.0
    if len(graphs) > 1 and n > DENSE:
        return 1.0  # many nodes whose neighbours change: no mode lasts
    if n <= DENSE:
        product = np.eye(n) - 1.0 / n
        for traffic in graphs:
            product = _matrix(traffic, kept) @ product
        slowest = float(np.linalg.norm(product, 2)) ** (1.0 / len(graphs))
    else:
        try:
            top = eigsh(_matrix(graphs[0], kept), k=2, which="LA", return_eigenvectors=False, tol=1e-3, maxiter=20 * n)
            slowest = float(top.min())
        except ArpackError:
            slowest = 0.97
    return float(max(1.0 - slowest, 1.0 / n**2) / (1.0 - kept))


def _matrix(traffic: Traffic, kept: float) -> Any:
    """What links that carry both ways do to models in a round."""
    weights, _ = mixing(traffic, directed=False, kept=kept)
    n = traffic.n
    own = 1.0 - np.bincount(traffic.receivers, weights, n)
    return coo_array((weights, (traffic.receivers, traffic.senders)), shape=(n, n)).tocsr() + diags_array(own)


def _eigenvalues(traffic: Traffic, weights: Floats, kept: float) -> AnyArray:
    n = traffic.n
    matrix = coo_array((weights, (traffic.receivers, traffic.senders)), shape=(n, n)).tocsr()
    rest = 1.0 - kept - np.asarray(matrix.sum(axis=1)).ravel()
    columns = 1.0 - kept - np.asarray(matrix.sum(axis=0)).ravel()
    own = kept + (rest if np.abs(rest).max() < np.abs(columns).max() else columns)
    if n <= DENSE:
        return np.linalg.eigvals(matrix.toarray() + np.diag(own))
    try:
        return np.asarray(
            eigs(
                matrix + coo_array((own, (np.arange(n), np.arange(n))), shape=(n, n)),
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
        return LIMIT
    low, high = np.zeros(len(mu)), np.full(len(mu), LIMIT)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        linear, constant = middle - 2.0 * mu, mu**2 - middle  # l^2 + linear l + constant
        root = np.sqrt(linear**2 - 4.0 * constant)
        stable = np.maximum(np.abs(-linear + root), np.abs(-linear - root)) < 2.0
        low, high = np.where(stable, middle, low), np.where(stable, high, middle)
    return float(low.min())
