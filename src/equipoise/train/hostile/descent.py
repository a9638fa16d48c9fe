"""How far a node may go down its tracker in a round, and when trackers are worth it (docs/train.md, 5).

With mixing eigenvalue mu and curvature h a mode of models and trackers obeys (l - mu)^2 + alpha h (l - 1) = 0. Nodes keep a
part k of what they mix: then for links that carry both ways alpha h < 2 k^2 is stable whatever the delay up to five rounds
(found numerically), and for one-way links the limit follows from the complex mu of the graphs. On a slow network, mu near 1,
a mode decays by (1 - mu)^2 / (alpha h) a round: there a smaller alpha is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import ArpackError, eigs

from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.hostile.faults import Faults
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.spectrum import adjacency_gap
from equipoise.train.topology import Arcs

LIMIT = 2.0  # of alpha h, times k^2
DESCENT = 0.5  # alpha as a part of its limit; with momentum near 1 that is 2/3 of it
KEPT = np.linspace(0.4, 0.85, 10)  # what a node may keep
HALF = 0.5  # what it keeps on one-way links
PARTS = np.geomspace(0.02, 1.0, 18)  # of the largest alpha that is taken
CAPS = np.array(
    [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995]
)  # momentum
FELT, FELT_SWITCHING = 0.5, 0.1  # of alpha h / (1 - b), by the network's slowest mode: found by trying
STRAGGLING = 4.0  # rounds that a straggler sleeps for each part by which alpha is less
MISSED = 1.0  # packets lost in a row that slow agreeing down; what is lost beyond them slows everything alike
SLOW, USUAL_CAP = 0.7, 0.7  # alpha h as a part of 1 - mu, and momentum, where no ridge tells the conditioning
DENSE = 400  # nodes up to which all eigenvalues are found
EXTREME = 12  # of a larger graph, those farthest from 0
HALVINGS = 40
PROBES, NUDGE = 24, 1e-4  # directions in which a node looks at its own curvature, and how far
WORTH = 2.0  # trackers cost twice the bits: they have to be this much faster


@dataclass(frozen=True)
class Descent:
    """What a node keeps when it mixes, alpha x h, the largest that every graph bears by itself, the momentum, and the
    part of the gap's root that a round is expected to take away."""

    kept: float
    rate: float
    limit: float
    cap: float = 0.0
    decay: float = 0.0


def choose_descent(network: Network, faults: Faults, model: Model, steepest: float) -> Descent:
    """What suits this network, how old its news is, and the conditioning where a ridge tells it."""
    kept, limits, gap = _one_way(network) if network.directed else _both_ways(network)
    asleep = 1.0 + (max(faults.straggle.values(), default=1) - 1) / STRAGGLING
    if model.convexity > 0:
        felt = FELT if network.period == 1 else FELT_SWITCHING
        found = _by_modes(kept, limits, gap, faults.age, model.nodes * steepest / model.convexity, felt)
        return replace(found, rate=found.rate / asleep, decay=found.decay / asleep)
    given_on = 1.0 - float(kept[0])
    rate = min(DESCENT * float(limits[0]), SLOW * given_on * gap / (1.0 + given_on * min(faults.missed, MISSED)))
    return Descent(float(kept[0]), rate / asleep, float(limits[0]), 0.0 if network.directed else USUAL_CAP)


def trackers_are_worth_it(chosen: Descent, model: Model, start: Floats, stiffness: float) -> bool:
    """Whether a model is so ill-conditioned that momentum, which links do not bear, outweighs what trackers cost."""
    if not model.convex:
        return True
    return chosen.decay > WORTH * flattest(model, start) / stiffness if model.convexity > 0 else False


def flattest(model: Model, start: Floats) -> float:
    """The least curvature, on average over nodes, in the directions into which its own loss leads each node first.

    Lanczos without reorthogonalisation on every node's Hessian, from its gradient, by differences of gradients.
    """
    here = model.gradients(start)
    directions = min(PROBES, model.size)
    v = here / np.maximum(np.linalg.norm(here, axis=1, keepdims=True), 1e-300)
    before, beta = np.zeros_like(v), np.zeros(len(v))
    matrices = np.zeros((len(v), directions, directions))
    alive = np.linalg.norm(here, axis=1) > 0
    count = np.zeros(len(v), dtype=np.int64)
    for k in range(directions):
        w = (model.gradients(start + NUDGE * v) - here) / NUDGE - beta[:, None] * before
        matrices[:, k, k] = alpha = np.einsum("ij,ij->i", w, v)
        count[alive] = k + 1
        w -= alpha[:, None] * v
        beta = np.linalg.norm(w, axis=1)
        alive &= beta > 1e-6 * np.abs(alpha)
        if k + 1 == directions or not alive.any():
            break
        matrices[:, k, k + 1] = matrices[:, k + 1, k] = np.where(alive, beta, 0.0)
        before, v = v, np.where(alive[:, None], w / np.maximum(beta, 1e-300)[:, None], 0.0)
    least = [np.linalg.eigvalsh(matrix[:c, :c])[0] if c else np.inf for matrix, c in zip(matrices, count, strict=True)]
    found = np.array(least)
    found = found[np.isfinite(found)]
    return max(float(found.mean()) if len(found) else np.inf, model.convexity / model.nodes)


def _by_modes(kept: Floats, limits: Floats, gap: float, age: float, conditioning: float, felt: float) -> Descent:
    """The fastest by the slower of two modes.

    Models downhill: while parts of trackers travel they follow only 1 / (1 + (1 - k) age)^2 of alpha, and momentum b helps
    as in heavy ball. The network: (g - e)^2 = alpha h e / (1 - b) for its decay e, where g = 1 - mu. Who keeps more bears a
    larger alpha and loses less to travel, but mixes more slowly.
    """
    index, part, cap = (axis.ravel() for axis in np.meshgrid(np.arange(len(kept)), PARTS, CAPS, indexing="ij"))
    k, limit = kept[index.astype(np.int64)], limits[index.astype(np.int64)]
    rate, travel = part * DESCENT * limit, 1.0 + (1.0 - k) * age
    slowest = rate / travel**2 / conditioning
    root = 1.0 - np.sqrt(cap)
    downhill = np.where(slowest >= root**2, root, slowest / (1.0 - cap))
    g, pull = (1.0 - k) * gap / travel, felt * rate / (1.0 - cap)
    agreeing = 2.0 * g**2 / (2.0 * g + pull + np.sqrt(pull * (4.0 * g + pull)))
    decay = np.minimum(downhill, agreeing)
    best = int(np.argmax(decay))
    return Descent(float(k[best]), float(rate[best]), float(limit[best]), float(cap[best]), float(decay[best]))


def _one_way(network: Network) -> tuple[Floats, Floats, float]:
    """What a node keeps, the limit of alpha h, and how far the slowest mode of agreeing moves per part not kept."""
    values = [
        _eigenvalues(arcs, ends)
        for arcs in map(network.arcs, range(network.period or 1))
        for ends in (arcs.receivers, arcs.senders)  # rows that are pulled by, columns that are pushed by
    ]
    limit = min(LIMIT * HALF**2, *map(_limit, values))
    gap = min(1.0 - float(np.abs(mu[np.abs(mu - 1.0) > 1e-9]).max(initial=0.0)) for mu in values) / HALF
    return np.array([HALF]), np.array([limit]), gap


def _both_ways(network: Network) -> tuple[Floats, Floats, float]:
    """The same for links that carry both ways, on average over the graphs."""
    assert network.period is not None
    arcs = [network.arcs(phase) for phase in range(network.period)]
    n, kept = network.n, float(KEPT[0])
    if n == 1 or (len(arcs) > 1 and n > DENSE):  # many nodes whose neighbours change: no mode lasts
        gap = 1.0
    elif n > DENSE:
        gap = adjacency_gap(n, arcs[0].senders, arcs[0].receivers)
    else:
        product = np.eye(n) - 1.0 / n
        for graph in arcs:
            degree = graph.out_degree
            weights = np.zeros((n, n))
            weights[graph.receivers, graph.senders] = (1.0 - kept) / np.maximum(
                degree[graph.senders], degree[graph.receivers]
            )
            product = (weights + np.diag(1.0 - weights.sum(axis=1))) @ product
        slowest = float(np.linalg.norm(product, 2)) ** (1.0 / len(arcs))
        gap = float(max(1.0 - slowest, 1.0 / n**2) / (1.0 - kept))
    return KEPT, LIMIT * KEPT**2, gap


def _eigenvalues(arcs: Arcs, ends: AnyArray) -> AnyArray:
    """Of the matrix that keeps HALF and mixes the rest, evenly over the links at each of these ends."""
    n = arcs.n
    weights: Floats = (1.0 - HALF) / np.bincount(ends, minlength=n)[ends]
    matrix = coo_array((weights, (arcs.receivers, arcs.senders)), shape=(n, n)).tocsr()
    if n <= DENSE:
        return np.linalg.eigvals(matrix.toarray() + HALF * np.eye(n))
    try:
        return np.asarray(eigs(matrix + diags_array(np.full(n, HALF)), k=EXTREME, return_eigenvectors=False))
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
