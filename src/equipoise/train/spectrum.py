"""The two eigenvalues of a graph's Laplacian that set the steps: the largest, and the second smallest.

Small graphs are solved densely. Above, Lanczos serves wherever the spectrum is not too wide. The second eigenvalue of a
ring of 1e5 nodes is 1e-9 of the largest, out of reach for Lanczos; but such graphs are thin, so a sparse factorisation
is cheap and Lanczos runs on the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from equipoise.train.arrays import Floats, Ints
from equipoise.train.topology import Topology

DENSE_NODES = 400
TOLERANCE = 2e-7  # relative, on the eigenvalue
TOP_STEPS = 4000  # a top without a gap (a path's) converges as 1 / steps^2: 4000 leave about 1e-7
BOTTOM_STEPS = 20_000
GAP_STEPS, GAP_WORK = 1000, 2e8  # steps, and edges visited: too few leave the gap too large, which is slow but safe
THIN = 1.5  # mean envelope width, in units of sqrt(n): a square grid has 2/3, an expander 0.4 sqrt(n)
ROUNDING = 1e-7  # of the largest diagonal entry: below, Lanczos has fewer than 6 digits left
LARGEST_ENVELOPE = 1e8  # entries; beyond it a Lanczos value good to 1e-13 lambda_max has to do

Apply = Callable[[Floats], Floats]


def lambda_max(topology: Topology, weights: Floats | None = None, scale: Floats | None = None) -> float:
    """The largest eigenvalue of the Laplacian L, or of H^(1/2) L H^(1/2) with H = diag(scale)."""
    if topology.edges == 0:
        return 0.0
    laplacian = topology.laplacian(weights)
    gain = np.ones(topology.n) if scale is None else np.asarray(scale, dtype=np.float64)
    if scale is not None:
        root = diags_array(np.sqrt(gain))
        laplacian = (root @ laplacian @ root).tocsr()
    if topology.n <= DENSE_NODES:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    # Gershgorin over edges: lambda_max <= max over edges of h_i D_i + h_j D_j (the diagonal is h_i D_i); met by rings.
    diagonal = laplacian.diagonal()
    bound = float((diagonal[topology.tails] + diagonal[topology.heads]).max())
    value, _ = _lanczos(laplacian.__matmul__, topology.n, top=True, steps=TOP_STEPS, bound=bound)
    return min(value, bound)


def lambda_2(topology: Topology, weights: Floats | None = None) -> float:
    """The second smallest eigenvalue of the Laplacian: how fast the nodes can agree."""
    if topology.n == 1:
        return 0.0
    laplacian = topology.laplacian(weights)
    if topology.n <= DENSE_NODES:
        return _rayleigh(topology, weights, eigh(laplacian.toarray(), subset_by_index=(1, 1))[1][:, 0])
    width = _mean_width(laplacian)
    if width > THIN * np.sqrt(topology.n):
        value, converged = _lanczos(laplacian.__matmul__, topology.n, top=False, steps=BOTTOM_STEPS)
        resolved = converged and value > ROUNDING * laplacian.diagonal().max()
        if resolved or width * topology.n > LARGEST_ENVELOPE:
            return max(value, 0.0)
    return _rayleigh(topology, weights, _slowest_mode(laplacian, topology.n))


def market_gap(topology: Topology) -> float:
    """1 - tau: how far the slowest mode of prices moves in a round of markets (docs/train.md, 3.7).

    T = R A C A' R with A the adjacency and each node itself, R = 1 / (degree + 1), C = 1 / (A R 1): symmetric, with
    eigenvalues between 0 and 1; the largest, 1, belongs to equal prices.
    """
    if topology.n == 1:
        return 1.0
    ones = np.ones(topology.edges)
    meets = (diags_array(topology.degree + 1.0) - topology.laplacian(ones)).tocsr() if topology.edges else None
    if meets is None:
        return 1.0
    own = 1.0 / (topology.degree + 1.0)
    volume = 1.0 / (meets @ own)
    if topology.n <= DENSE_NODES:
        half = own[:, None] * meets.toarray() * np.sqrt(volume)
        return max(0.0, 1.0 - float(np.linalg.eigvalsh(half @ half.T)[-2]))

    def apply(v: Floats) -> Floats:
        return np.asarray(v - own * (meets @ (volume * (meets @ (own * v)))))

    steps = int(min(GAP_STEPS, max(30.0, GAP_WORK / topology.edges)))
    return max(0.0, _lanczos(apply, topology.n, top=False, steps=steps)[0])


def _lanczos(apply: Apply, n: int, *, top: bool, steps: int, bound: float = np.inf) -> tuple[float, bool]:
    """One end of the spectrum orthogonal to the constant vector (top: of all), and whether its residual is small.

    No reorthogonalisation: it would only remove copies of eigenvalues already found, and the ends are right without.
    """
    v = np.random.default_rng(0).standard_normal(n)
    v -= 0.0 if top else v.mean()
    v /= math.sqrt(_dot(v, v))
    previous, beta = np.zeros(n), 0.0
    diagonal, off_diagonal = np.zeros(steps), np.zeros(steps)
    value, due = 0.0, 10
    for k in range(1, steps + 1):
        w = apply(v)
        w -= beta * previous
        diagonal[k - 1] = alpha = _dot(w, v)
        w -= alpha * v
        w -= 0.0 if top else w.mean()
        off_diagonal[k - 1] = beta = math.sqrt(_dot(w, w))
        exhausted = beta <= 1e-12 * abs(alpha)  # an invariant subspace: stars and complete graphs have few eigenvalues
        if k >= due or exhausted or k == steps:
            value, last = _ritz(diagonal[:k], off_diagonal[: k - 1], top)
            if exhausted or beta * last <= TOLERANCE * value or value >= (1 - TOLERANCE) * bound:
                return value, True
            due = max(k + 10, int(1.15 * k))
        previous, v = v, w / beta
    return value, False


def _dot(a: Floats, b: Floats) -> float:
    """The inner product without BLAS: the same bits on any number of threads, and no waiting for busy cores."""
    return float(np.einsum("i,i->", a, b))


def _ritz(diagonal: Floats, off_diagonal: Floats, top: bool) -> tuple[float, float]:
    """The end of a tridiagonal matrix's spectrum and the last entry of its eigenvector, which scales the residual."""
    end = len(diagonal) - 1 if top else 0
    values, vectors = eigh_tridiagonal(diagonal, off_diagonal, select="i", select_range=(end, end))
    return float(values[0]), float(abs(vectors[-1, 0]))


def _mean_width(laplacian: Any) -> float:
    """Mean row width of the envelope in reverse Cuthill-McKee order: what bounds the fill of a factorisation."""
    order = reverse_cuthill_mckee(laplacian, symmetric_mode=True)
    place: Ints = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    links = laplacian.tocoo()
    leftmost = np.arange(len(order))
    np.minimum.at(leftmost, place[links.row], place[links.col])
    return float((np.arange(len(order)) - leftmost).mean())


def _slowest_mode(laplacian: Any, n: int) -> Floats:
    """The eigenvector of lambda_2, by Lanczos on the pseudo-inverse: factorise with the busiest node held at zero."""
    free = np.arange(n) != laplacian.diagonal().argmax()
    factor = splu(
        laplacian[free][:, free].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def pseudo_inverse(b: Floats) -> Floats:
        x = np.zeros(n)
        x[free] = factor.solve((b - b.mean())[free])
        return np.asarray(x - x.mean())

    operator = LinearOperator((n, n), matvec=pseudo_inverse, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    mode: Floats = eigsh(operator, k=1, which="LA", v0=start, tol=1e-9)[1][:, 0]
    return mode


def _rayleigh(topology: Topology, weights: Floats | None, v: Floats) -> float:
    """sum w (v_i - v_j)^2 / sum v^2, by differences: keeps its digits where v' L v would cancel."""
    w = topology.weights if weights is None else weights
    v = v - v.mean()
    return float(w @ (v[topology.tails] - v[topology.heads]) ** 2 / (v @ v))


def adjacency_gap(n: int, senders: Ints, receivers: Ints) -> float:
    """1 - the second eigenvalue of D^(-1/2) A D^(-1/2), for directed links that go both ways; at most 1 where n is large."""
    degree = np.maximum(np.bincount(senders, minlength=n), 1)
    if n < 3:
        return 1.0
    each = 1.0 / np.sqrt(degree[senders] * degree[receivers])
    matrix = coo_array((each, (senders, receivers)), shape=(n, n)).tocsr()
    if n <= DENSE_NODES:
        return max(float(1.0 - np.linalg.eigvalsh(matrix.toarray())[-2]), 0.0)
    top = np.sqrt(degree / degree.sum())  # of eigenvalue 1

    def apply(v: Floats) -> Floats:
        return np.asarray(matrix @ v - top * _dot(top, v))

    steps = int(min(GAP_STEPS, max(30.0, GAP_WORK / max(len(senders), 1))))
    return max(0.0, 1.0 - _lanczos(apply, n, top=True, steps=steps, bound=1.0)[0])
