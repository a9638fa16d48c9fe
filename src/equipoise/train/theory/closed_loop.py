"""The closed loop of the learning half, linearised at the optimum, on the ideal channel and without momentum.

With W = I - eta L (each entry times I_m), H the block diagonal of the nodes' Hessians, and errors (y - y*, z):

    continuous time   y' = -L y - alpha z            z' = -L z + H y'            A = [[-L, -alpha I], [-H L, -L - alpha H]]
    rounds            y+ = W y - eta alpha z         z+ = W z + H (y+ - y)       M = I + eta A

sum (z - H y) never changes: m eigenvalues are exactly 0 (of A) or 1 (of M), whatever alpha. A run starts with z = grad g, so
its errors have sum (z - H y) = 0 and stay there. `consistent` is an orthonormal basis of that subspace, dimension 2nm - m;
everything below is restricted to it, so stable means all eigenvalues left of 0 or inside the circle.

Without z the loop is a damped oscillator, y'' + (2 L + alpha H) y' + L^2 y = 0: an eigenvalue u with unit vector y has
u^2 + d u + k = 0 with d = y*(2 L + alpha H) y and k = |L y|^2. Where every H_i is convex, d > 0: stable for every alpha in
continuous time. Rounds are then stable iff eta lambda_max < 2 and 2 eta alpha H < (2 I - eta L)^2 as matrices, which is
what `convex_crossing` solves; `crossing` asks the eigenvalues themselves and needs no convexity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag, qr
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg, eigsh

from equipoise.kernels import Floats
from equipoise.parallel import one_thread
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.spectrum import lambda_max
from equipoise.train.topology import edge_weights

Bend = Callable[[Floats], Floats]

DENSE = 300  # nodes up to which a matrix is inverted as a whole
LANCZOS = 1e-9  # relative, on the eigenvalue, unless less is asked for
DIFFERENCE = 1e-5  # half the distance of a finite difference of gradients, relative to the parameters' size
WIDER = 1.5  # factor from one alpha to the next in the search for an unstable one
WIDEST = 1e6  # alpha L / lambda_max: stable up to here counts as stable for ever
FLAT = 1e-7  # of the largest curvature: a negative one this small is that of a finite difference
MARGIN = 1e-9  # a real part, or a radius - 1, below this in units of the loop's own size counts as zero


def hessians(model: Model, at: Floats) -> Floats:
    """H_i at one parameter vector, shape (nodes, size, size), by central differences of all gradients at once."""
    offered: Any = getattr(model, "hessians", None)
    if callable(offered):
        return np.asarray(offered(at), dtype=np.float64)
    bend = bend_at(model, at)
    found = np.stack([bend(np.tile(one, (model.nodes, 1))) for one in np.eye(model.size)], axis=2)
    return np.asarray((found + found.transpose(0, 2, 1)) / 2.0)


def bend_at(model: Model, at: Floats) -> Bend:
    """v -> H v at one parameter vector, from two gradients of every node."""
    origin = np.tile(at, (model.nodes, 1))
    size = max(1.0, float(np.abs(at).max(initial=0.0)))

    def apply(V: Floats) -> Floats:
        reach = DIFFERENCE * size / max(float(np.abs(V).max()), 1e-300)
        return np.asarray((model.gradients(origin + reach * V) - model.gradients(origin - reach * V)) / (2.0 * reach))

    return apply


def mixing(network: Network, weights: str, round: int = 0) -> Floats:
    """The dense Laplacian of one round's graph."""
    topology = network.topology(round)
    return np.asarray(topology.laplacian(edge_weights(weights, topology)).toarray(), dtype=np.float64)


def convex_crossing(
    network: Network, weights: str, bend: Bend, size: int, step: float, *, round: int = 0, tolerance: float = LANCZOS
) -> float:
    """The alpha at which rounds become unstable, convex H_i: 1 / (2 step lambda_max(R H R)) with R = (2 I - step L)^-1.

    `bend` applies the Hessians: row i of bend(V) is H_i V_i. Lanczos, so it serves far beyond what is solved densely.
    """
    topology = network.topology(round)
    w = edge_weights(weights, topology)
    if step * lambda_max(topology, w) >= 2.0:
        return 0.0
    n, laplacian = topology.n, topology.laplacian(w)
    if n <= DENSE:
        inverse = np.linalg.inv(2.0 * np.eye(n) - step * laplacian.toarray())

    def spread(V: Floats) -> Floats:
        """R V, by conjugate gradients where R would be too large to keep; 2 I - step L is well conditioned."""
        if n <= DENSE:
            return np.asarray(inverse @ V)
        rows = LinearOperator((V.size, V.size), dtype=np.float64, matvec=lambda v: 2.0 * v - step * mixed(v))
        return np.asarray(cg(rows, V.ravel(), rtol=tolerance)[0]).reshape(V.shape)

    def mixed(v: Floats) -> Floats:
        return np.asarray(laplacian @ v.reshape(n, size)).ravel()

    def apply(v: Floats) -> Floats:
        return spread(bend(spread(v.reshape(n, size)))).ravel()

    if n * size <= 2:  # too small for Lanczos
        return 1.0 / (2.0 * step * float(np.linalg.eigvalsh(np.stack([apply(e) for e in np.eye(n * size)]))[-1]))
    operator = LinearOperator((n * size, n * size), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n * size)
    top = eigsh(operator, k=1, which="LA", v0=start, tol=tolerance, return_eigenvectors=False)[0]
    return float(1.0 / (2.0 * step * top))


def first_unstable(excess: Callable[[float], float], usual: float) -> float:
    """The alpha at which excess becomes positive, sought upwards from far below a `usual` one in factors of WIDER."""
    stable, alpha = 0.0, 1e-3 * usual
    while excess(alpha) < MARGIN:
        stable, alpha = alpha, WIDER * alpha
        if alpha > WIDEST * usual:
            return math.inf
    if stable == 0.0:
        while excess(alpha) >= MARGIN:
            alpha /= 4.0
            if alpha < usual / WIDEST**2:
                return 0.0
        stable, alpha = alpha, 4.0 * alpha
    if excess(stable) >= 0.0:  # within rounding of the border already
        return stable
    return float(brentq(excess, stable, alpha, xtol=1e-10 * stable, rtol=1e-14))


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A Laplacian (n, n) and Hessians (n, m, m); matrices and eigenvalues as functions of alpha and step."""

    laplacian: Floats
    hessians: Floats

    def generator(self, alpha: float) -> Floats:
        """A(alpha), acting on (y, z) with nodes in order and each node's m numbers together."""
        still, driven = self._parts
        return still + alpha * driven

    def round_map(self, alpha: float, step: float) -> Floats:
        """M(alpha) = I + step A(alpha)."""
        return np.asarray(np.eye(len(self.consistent)) + step * self.generator(alpha))

    @cached_property
    def consistent(self) -> Floats:
        """Columns: an orthonormal basis of the states with sum (z - H y) = 0."""
        nodes, m = self.hessians.shape[:2]
        kept = np.concatenate([-self.hessians.reshape(nodes * m, m), np.tile(np.eye(m), (nodes, 1))])  # (2nm, m)
        return np.asarray(qr(kept)[0][:, m:])

    def eigenvalues(self, alpha: float) -> Floats:
        """Of A on the consistent subspace (complex); those of the round map are 1 + step of these."""
        with one_thread():
            still, driven = self._reduced
            return np.asarray(np.linalg.eigvals(still + alpha * driven))

    def abscissa(self, alpha: float) -> float:
        """The largest real part in continuous time: errors behave as e^(abscissa t)."""
        return float(self.eigenvalues(alpha).real.max())

    def radius(self, alpha: float, step: float) -> float:
        """The largest |eigenvalue| of a round: errors behave as radius^rounds."""
        return float(np.abs(1.0 + step * self.eigenvalues(alpha)).max())

    def crossing(self, step: float | None = None) -> float:
        """The smallest alpha at which the loop is no longer stable, with this step or (None) in continuous time.

        Infinity where none is found up to a huge alpha: in continuous time with convex Hessians there is none. 0 where no
        alpha is stable. Sought upwards in factors of 1.5, so an unstable window narrower than that can be missed.
        """
        top = float(np.linalg.eigvalsh(self.laplacian)[-1])
        steepest = float(np.abs(np.linalg.eigvalsh(self.hessians)).max())
        pace = max(top, 1.0 / step if step is not None else 0.0)

        def excess(alpha: float) -> float:
            return self.abscissa(alpha) / pace if step is None else self.radius(alpha, step) - 1.0

        return first_unstable(excess, pace / steepest)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """A(0), and what alpha adds."""
        L, H = np.kron(self.laplacian, np.eye(self.hessians.shape[1])), block_diag(*self.hessians)
        none = np.zeros_like(L)
        return np.block([[-L, none], [-H @ L, -L]]), np.block([[none, -np.eye(len(L))], [none, -H]])

    @cached_property
    def _reduced(self) -> list[Floats]:
        return [np.asarray(self.consistent.T @ part @ self.consistent) for part in self._parts]
