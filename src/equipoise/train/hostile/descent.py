"""How far a node may go down its tracker in a round on one-way links (docs/train.md, 5).

With mixing eigenvalue mu and curvature h a mode of models and trackers obeys (l - mu)^2 + alpha h (l - 1) = 0; the limit of
alpha follows from the complex mu of the graphs. On a slow network, mu near 1, a mode decays by (1 - mu)^2 / (alpha h) a
round: there a smaller alpha is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import ArpackError, eigs

from equipoise.train.arcs import Arcs
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.hostile.faults import Faults
from equipoise.train.models._base import Model
from equipoise.train.network import Network

LIMIT = 0.5  # of alpha h, at most
DESCENT = 0.5  # alpha as a part of its limit; with momentum near 1 that is 2/3 of it
PARTS = np.geomspace(0.02, 1.0, 18)  # of the largest alpha that is taken
CAPS = np.array(
    [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995]
)  # momentum
FELT, FELT_SWITCHING = 0.5, 0.1  # of alpha h / (1 - b), by the network's slowest mode: found by trying
KEPT = 0.5  # what a node keeps of what it mixes
STRAGGLING = 4.0  # rounds that a straggler sleeps for each part by which alpha is less
MISSED = 1.0  # packets lost in a row that slow agreeing down; what is lost beyond them slows everything alike
SLOW = 0.7  # alpha h as a part of 1 - mu, where no ridge tells the conditioning
DENSE = 400  # nodes up to which all eigenvalues are found
EXTREME = 12  # of a larger graph, those farthest from 0
HALVINGS = 40


@dataclass(frozen=True)
class Descent:
    """alpha x h, the largest that every graph bears by itself, and the momentum."""

    rate: float
    limit: float
    cap: float = 0.0


def choose_descent(network: Network, faults: Faults, model: Model, steepest: float) -> Descent:
    """What suits this network, how old its news is, and the conditioning where a ridge tells it."""
    values = [
        _eigenvalues(arcs, ends)
        for arcs in map(network.arcs, range(network.period or 1))
        for ends in (arcs.receivers, arcs.senders)  # rows that are pulled by, columns that are pushed by
    ]
    limit = min(LIMIT, *map(_limit, values))
    gap = min(1.0 - float(np.abs(mu[np.abs(mu - 1.0) > 1e-9]).max(initial=0.0)) for mu in values) / (1.0 - KEPT)
    asleep = 1.0 + (max(faults.straggle.values(), default=1) - 1) / STRAGGLING
    if model.convexity > 0:
        felt = FELT if network.period == 1 else FELT_SWITCHING
        found = _by_modes(limit, gap, faults.age, model.nodes * steepest / model.convexity, felt)
        return replace(found, rate=found.rate / asleep)
    given_on = 1.0 - KEPT
    rate = min(DESCENT * limit, SLOW * given_on * gap / (1.0 + given_on * min(faults.missed, MISSED)))
    return Descent(rate / asleep, limit)


def _by_modes(limit: float, gap: float, age: float, conditioning: float, felt: float) -> Descent:
    """The fastest by the slower of two modes.

    Models downhill: while parts of trackers travel they follow only 1 / (1 + (1 - k) age)^2 of alpha, and momentum b helps
    as in heavy ball. The network: (g - e)^2 = alpha h e / (1 - b) for its decay e, where g = 1 - mu.
    """
    part, cap = (axis.ravel() for axis in np.meshgrid(PARTS, CAPS, indexing="ij"))
    rate, travel = part * DESCENT * limit, 1.0 + (1.0 - KEPT) * age
    flattest = rate / travel**2 / conditioning
    root = 1.0 - np.sqrt(cap)
    downhill = np.where(flattest >= root**2, root, flattest / (1.0 - cap))
    g, pull = (1.0 - KEPT) * gap / travel, felt * rate / (1.0 - cap)
    agreeing = 2.0 * g**2 / (2.0 * g + pull + np.sqrt(pull * (4.0 * g + pull)))
    best = int(np.argmax(np.minimum(downhill, agreeing)))
    return Descent(float(rate[best]), limit, float(cap[best]))


def _eigenvalues(arcs: Arcs, ends: AnyArray) -> AnyArray:
    """Of the matrix that keeps KEPT and mixes the rest, evenly over the links at each of these ends."""
    n = arcs.n
    weights: Floats = (1.0 - KEPT) / np.bincount(ends, minlength=n)[ends]
    matrix = coo_array((weights, (arcs.receivers, arcs.senders)), shape=(n, n)).tocsr()
    if n <= DENSE:
        return np.linalg.eigvals(matrix.toarray() + KEPT * np.eye(n))
    try:
        return np.asarray(eigs(matrix + diags_array(np.full(n, KEPT)), k=EXTREME, return_eigenvectors=False))
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
