"""Both halves over links that return, linearised at the optimum, on the ideal channel: relaxed ADMM in summed form.

With R_t the Laplacian of graph t with the weights rho of its links, D_t its diagonal, D their sum, r the relaxation, v what
moves along links (the plan, or the flow of gradients) and s_t what a node keeps of each graph, a round in graph t is

    p = (E + D)^-1 (v + sum s)      v+ = v - r R_t p      s_t+ = (1 - 2 r) s_t + 2 r (D_t - R_t / 2) p

E is what a node gives way by itself: its elasticity 1/f'' for prices (0 at a bound), its Hessian for models. A round keeps
the sum of v. Equal E = e and a graph whose R has the eigenvalue D u, u in [0, 2], make a mode of 1 + graphs numbers.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from equipoise.kernels import Bools, Floats, Ints
from equipoise.train.region import LinkTable

FASTEST = 2.0  # the largest eigenvalue of a normalised Laplacian
MODES = 60  # of the network, between the slowest and the fastest
MANY_GRAPHS = 64  # graphs of a mode: more take turns hardly slower


def elasticity_weights(table: LinkTable, told: Ints, theta: float, lean: int, pinned: Bools) -> list[Floats]:
    """rho of the links of each graph, from elasticities as they are said: eighths of an octave per contact."""
    one, other = told[table.senders], told[table.receivers]
    octaves = (lean * np.maximum(one, other) + (10 - lean) * np.minimum(one, other)) / 80.0
    stuck = pinned[table.senders] & pinned[table.receivers]
    rho = np.where(stuck, 0.0, theta * 2.0**octaves)
    return [np.where(turn, rho, 0.0) for turn in table.turns]


def product_weights(table: LinkTable, pull: float) -> list[Floats]:
    """rho = w_i w_j of the links of each graph, w^2 = pull / contacts: models."""
    contacts = np.bincount(table.senders, np.sum(table.turns, axis=0), table.n)
    w = np.sqrt(pull / np.maximum(contacts, 1.0))
    return [np.where(turn, w[table.senders] * w[table.receivers], 0.0) for turn in table.turns]


def laplacians(table: LinkTable, weights: list[Floats]) -> list[Floats]:
    """R_t of every graph, dense."""
    found = []
    for rho in weights:
        R = np.zeros((table.n, table.n))
        np.add.at(R, (table.senders, table.receivers), -rho)
        np.fill_diagonal(R, -R.sum(axis=1))
        found.append(R)
    return found


def round_maps(R: list[Floats], bent: Floats, relax: float) -> list[Floats]:
    """A round of errors (v, s_1, .. s_T) in each graph; `bent` is E, (n,) for prices or (n, m, m) for models."""
    graphs, n = len(R), len(bent)
    m = 1 if bent.ndim == 1 else bent.shape[1]
    E = np.diag(bent) if bent.ndim == 1 else np.asarray(block_diag(*bent))
    spread = [np.asarray(np.kron(one, np.eye(m)), dtype=np.float64) for one in R]
    D = sum(np.diag(np.diag(one)) for one in spread)
    answer = np.hstack([np.linalg.inv(E + D)] * (1 + graphs))  # p, from the state
    maps = []
    for t, one in enumerate(spread):
        M = np.eye((1 + graphs) * n * m)
        own = slice((1 + t) * n * m, (2 + t) * n * m)
        M[: n * m] -= relax * one @ answer
        M[own] = (1.0 - 2.0 * relax) * M[own] + 2.0 * relax * (np.diag(np.diag(one)) - 0.5 * one) @ answer
        maps.append(M)
    return maps


def kept_sum(n: int, m: int, graphs: int) -> Floats:
    """Columns: an orthonormal basis of the states whose v sums to 0 over nodes, which a round does not leave."""
    inside = np.linalg.qr(np.ones((n, 1)), mode="complete")[0][:, 1:]
    return np.asarray(block_diag(np.kron(inside, np.eye(m)), np.eye(graphs * n * m)))


def link_radius(u: float, bent: float, weight: float, relax: float, graphs: int = 1) -> float:
    """How the error of a mode shrinks a round: R_t = D_t u, D_t = weight / graphs; u = 0 is common to all nodes."""
    graphs = min(graphs, MANY_GRAPHS)
    each, product = weight / graphs, np.eye(1 + graphs)
    answer = np.full(1 + graphs, 1.0 / (bent + weight))
    for t in range(graphs):
        M = np.eye(1 + graphs)
        M[0] -= relax * each * u * answer
        M[1 + t] = (1.0 - 2.0 * relax) * M[1 + t] + 2.0 * relax * each * (1.0 - 0.5 * u) * answer
        product = M @ product
    if u == 0.0:
        product = product[1:, 1:]  # v of all together does not change
    return float(np.abs(np.linalg.eigvals(product)).max() ** (1.0 / graphs))


def slowest_radius(gap: float, bends: Floats, weight: float, relax: float, graphs: int, common: bool) -> float:
    """The largest radius over the modes of a network with this gap, and over these e; `common` adds u = 0."""
    modes = [0.0] * common + np.geomspace(max(gap, 1e-12), FASTEST, MODES).tolist()
    return max(link_radius(u, float(e), weight, relax, graphs) for u in modes for e in bends)
