"""The learning half by averages, linearised at the optimum, on the ideal channel and a graph that stays.

With T the average over meetings (each node with its neighbours, 1 / (degree + 1) to each), D = I - T, H the block diagonal
of the nodes' Hessians, p the average of a round ago, and errors (y - y*, z, p - y*), a round is

    z1 = z + (1 - beta)/alpha D y      y+ = (1 + beta) T y - beta p - alpha z1      z+ = z1 + H (y+ - y)      p+ = T y

T is symmetric with eigenvalues in [0, 1]. An eigenvalue s of a round with unit vector y is a root of

    s^3 + (2 delta + eps - 2 - beta) s^2 + ((1 + 2 beta)(1 - delta) - eps) s - beta (1 - delta)

with delta = y*D y in [0, 1] and eps = alpha y*H y >= 0. Jury: the value at 1 is delta (1 - beta), that at -1 is negative iff
eps < (1 + beta)(2 - 3/2 delta), and the third condition then holds by itself. So rounds are stable iff, as matrices,

    alpha H < (1 + beta)(2 I - 3/2 D)          whatever the graph: alpha < (1 + beta) / (2 L)

(only if: at s = -1 the pencil is no longer negative, far left of it it is, so a root lies between). Equal models, delta = 0,
have the root 1 that sum z = sum grad g excludes, and those of the heavy ball.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from scipy.linalg import block_diag, eigh, qr
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg, eigsh

from equipoise.parallel import one_thread
from equipoise.train.arrays import Floats
from equipoise.train.network import Network
from equipoise.train.spectrum import market_gap
from equipoise.train.theory.closed_loop import DENSE, FLAT, LANCZOS, Bend, first_unstable
from equipoise.train.topology import Topology

MANY_GRAPHS = 1e-3  # relative tolerance on the modes of an average of graphs


def averages_limit(delta: float, beta: float) -> float:
    """The largest stable eps = alpha h of one mode: (1 + beta)(2 - 3/2 delta)."""
    return (1.0 + beta) * (2.0 - 1.5 * delta)


@overload
def averages_radius(delta: float, eps: float, beta: float) -> float: ...
@overload
def averages_radius(delta: Floats, eps: Floats, beta: float) -> Floats: ...
def averages_radius(delta: float | Floats, eps: float | Floats, beta: float) -> float | Floats:
    """The largest |root| of a mode's polynomial: how its error shrinks a round. delta = 0 is the heavy ball's."""
    d, e = np.broadcast_arrays(np.asarray(delta, np.float64), np.asarray(eps, np.float64))
    companion = np.zeros((*d.shape, 3, 3))
    companion[..., 1, 0] = companion[..., 2, 1] = 1.0
    alike = d <= 0.0  # without the root 1: s^2 - (1 + beta - eps) s + beta
    companion[..., 0, 0] = np.where(alike, 1.0 + beta - e, 2.0 + beta - 2.0 * d - e)
    companion[..., 0, 1] = np.where(alike, -beta, e - (1.0 + 2.0 * beta) * (1.0 - d))
    companion[..., 0, 2] = np.where(alike, 0.0, beta * (1.0 - d))
    radius = np.abs(np.linalg.eigvals(companion)).max(axis=-1)
    return float(radius) if radius.ndim == 0 else np.asarray(radius)


def meeting_operator(graph: Topology) -> Any:
    """T as a sparse matrix: R A C A R with A the adjacency and each node itself, R = 1 / (degree + 1), C = 1 / (A R 1)."""
    own = np.arange(graph.n)
    rows, columns = np.concatenate([graph.tails, graph.heads, own]), np.concatenate([graph.heads, graph.tails, own])
    meets = coo_array((np.ones(len(rows)), (rows, columns)), shape=(graph.n, graph.n)).tocsr()
    gives = diags_array(1.0 / (graph.degree + 1.0))
    hosts = diags_array(1.0 / (meets @ (1.0 / (graph.degree + 1.0))))
    return (gives @ meets @ hosts @ meets @ gives).tocsr()


def slowest_delta(graphs: list[Topology]) -> float:
    """The smallest delta but 0: of the one graph, or of the average of several, which is what quick changes amount to."""
    if len(graphs) == 1:
        return market_gap(graphs[0])
    n = graphs[0].n
    together = sum(meeting_operator(graph) for graph in graphs) / len(graphs)
    if n <= DENSE:
        return float(max(0.0, 1.0 - np.linalg.eigvalsh(together.toarray())[-2]))
    operator = LinearOperator((n, n), dtype=np.float64, matvec=lambda v: together @ v - v.mean())
    start = np.random.default_rng(0).standard_normal(n)
    top = eigsh(operator, k=1, which="LA", v0=start, tol=MANY_GRAPHS, return_eigenvectors=False)[0]
    return float(max(0.0, 1.0 - top))


def averages_crossing(
    network: Network, bend: Bend, size: int, momentum: float, *, round: int = 0, tolerance: float = LANCZOS
) -> float:
    """The alpha at which rounds become unstable, convex H_i: (1 + beta) / 2 over the top of H v = t (I + 3 T) v.

    `bend` applies the Hessians: row i of bend(V) is H_i V_i. Lanczos, so it serves far beyond what is solved densely.
    """
    T = meeting_operator(network.topology(round))
    n = T.shape[0]
    inverse = np.linalg.inv(np.eye(n) + 3.0 * T.toarray()) if n <= DENSE else None

    def spread(v: Floats) -> Floats:
        V = v.reshape(n, size)
        return np.asarray(V + 3.0 * (T @ V)).ravel()

    def gather(v: Floats) -> Floats:
        """(I + 3 T)^-1 v, by conjugate gradients where the inverse would be too large to keep; its conditioning is 4."""
        if inverse is not None:
            return np.asarray(inverse @ v.reshape(n, size)).ravel()
        rows = LinearOperator((v.size, v.size), dtype=np.float64, matvec=spread)
        return np.asarray(cg(rows, v, rtol=min(tolerance, 1e-8))[0])

    def bent(v: Floats) -> Floats:
        return np.asarray(bend(v.reshape(n, size))).ravel()

    if n * size <= 2:  # too small for Lanczos
        each = np.eye(n * size)
        top = eigh(np.stack(list(map(bent, each))), np.stack(list(map(spread, each))), eigvals_only=True)[-1]
        return float((1.0 + momentum) / (2.0 * top))
    shape, start = (n * size, n * size), np.random.default_rng(0).standard_normal(n * size)
    whole, metric, inverted = (LinearOperator(shape, matvec=f, dtype=np.float64) for f in (bent, spread, gather))
    top = eigsh(whole, k=1, M=metric, Minv=inverted, which="LA", v0=start, tol=tolerance, return_eigenvectors=False)[0]
    return float((1.0 + momentum) / (2.0 * top))


@dataclass(frozen=True, eq=False)
class AveragesLoop:
    """A meeting operator (n, n), Hessians (n, m, m) and beta; matrices and eigenvalues as functions of alpha."""

    meetings: Floats
    hessians: Floats
    momentum: float

    @property
    def size(self) -> int:
        """n m: a third of the length of the state."""
        return int(self.hessians.shape[0] * self.hessians.shape[1])

    def round_map(self, alpha: float) -> Floats:
        """One round of (y, z, p), nodes in order and each node's m numbers together."""
        T, H, beta = *self._blocks, self.momentum
        one, none = np.eye(len(T)), np.zeros_like(T)
        move = np.hstack([(1.0 + beta) * T - (1.0 - beta) * (one - T), -alpha * one, -beta * one])
        track = np.hstack([(1.0 - beta) / alpha * (one - T) - H, one, none]) + H @ move
        return np.vstack([move, track, np.hstack([T, none, none])])

    @cached_property
    def consistent(self) -> Floats:
        """Columns: an orthonormal basis of the states with sum (z - H y) = 0, which a round does not leave."""
        nodes, m = self.hessians.shape[:2]
        kept = np.concatenate([-self.hessians.reshape(nodes * m, m), np.tile(np.eye(m), (nodes, 1))])
        return np.asarray(block_diag(qr(kept)[0][:, m:], np.eye(nodes * m)))

    def radius(self, alpha: float) -> float:
        """The largest |eigenvalue| of a round: errors behave as radius^rounds."""
        Q = self.consistent
        with one_thread():
            return float(np.abs(np.linalg.eigvals(Q.T @ self.round_map(alpha) @ Q)).max())

    def crossing(self) -> float:
        """The smallest alpha at which rounds are not stable: from the matrix inequality, or, not convex, by search."""
        T, H = self._blocks
        if np.linalg.eigvalsh(self.hessians).min() >= -FLAT * np.abs(H).max():
            return float((1.0 + self.momentum) / (2.0 * eigh(H, np.eye(len(T)) + 3.0 * T, eigvals_only=True)[-1]))
        return first_unstable(lambda alpha: self.radius(alpha) - 1.0, 1.0 / float(np.abs(H).max()))

    @cached_property
    def _blocks(self) -> tuple[Floats, Floats]:
        m = self.hessians.shape[1]
        return np.asarray(np.kron(self.meetings, np.eye(m))), np.asarray(block_diag(*self.hessians))


def averages_loop(graph: Topology, hessians: Floats, momentum: float) -> AveragesLoop:
    """The loop of one graph."""
    return AveragesLoop(np.asarray(meeting_operator(graph).toarray()), hessians, momentum)
