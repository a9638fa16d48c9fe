"""Networks and shards for the benchmarks of train, drawn quickly at any size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from bare import Floats, mixing_matrix
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from equipoise.train import LeastSquares, Network, Problem, Quadratic

MEAN_DEGREE = 8
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Instance:
    """Least squares on a network, with a quadratic CPU half, and the same in plain arrays for the peers."""

    network: Network
    model: LeastSquares
    cost: Quadratic
    boxed: Quadratic  # the same with boxes so wide that they never bind
    budget: float
    X: Floats  # [n, samples, m]
    t: Floats  # [n, samples]

    @property
    def hessians(self) -> Floats:
        return np.einsum("nki,nkj->nij", self.X, self.X) / self.t.size

    @property
    def slopes(self) -> Floats:
        return np.einsum("nki,nk->ni", self.X, self.t) / self.t.size

    def problem(self, *, boxes: bool) -> Problem:
        return Problem(cost=self.boxed if boxes else self.cost, budget=self.budget, model=self.model)

    def mixing_matrices(self, step: float) -> list[object]:
        """One CSR matrix for each graph of the network."""
        turns = [self.network.topology(k) for k in range(self.network.period or 1)]
        return [mixing_matrix(g.n, g.tails, g.heads, step) for g in turns]


def instance(n: int, m: int, *, switching: int = 0, samples: int | None = None, seed: int = 0) -> Instance:
    """Every node has a few noisy samples of one linear law."""
    rng = np.random.default_rng(seed)
    k = samples or m + 2
    X = rng.standard_normal((n, k, m))
    t = X @ rng.standard_normal(m) + 0.1 * rng.standard_normal((n, k))
    a, c = rng.uniform(0.5, 2.0, n), rng.uniform(5.0, 15.0, n)
    return Instance(
        network=sparse_network(n, switching=switching, seed=seed),
        model=LeastSquares(list(zip(X, t, strict=True))),
        cost=Quadratic(a, c),
        boxed=Quadratic(a, c, lo=-1000.0, hi=1000.0),
        budget=9.0 * n,
        X=X,
        t=t,
    )


def sparse_network(n: int, *, switching: int = 0, seed: int = 0) -> Network:
    """Erdős–Rényi of mean degree 8. Above a few thousand nodes such a graph leaves some out: these get one link each."""
    p = min(1.0, MEAN_DEGREE / max(n - 1, 1))
    if n <= 2000:
        return Network.erdos_renyi(n, p, switching=switching, seed=seed)
    turns = [random_pairs(n, np.random.default_rng([seed, turn])) for turn in range(max(1, switching))]
    networks = [Network.from_edges(pairs, n=n) for pairs in turns]
    return networks[0] if len(networks) == 1 else Network.sequence(networks)


def random_pairs(n: int, rng: np.random.Generator) -> Ints:
    """Edges of an Erdős–Rényi graph of mean degree 8, every smaller piece linked to a random node of the largest."""
    pairs = rng.integers(0, n, (n * MEAN_DEGREE // 2, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    name, largest = _pieces(n, pairs)
    strays = np.unique(name, return_index=True)[1]
    strays = strays[name[strays] != largest]
    anchors = rng.choice(np.flatnonzero(name == largest), len(strays))
    return _distinct(n, np.concatenate([pairs, np.column_stack([strays, anchors])]))


def geometric_pairs(n: int, rng: np.random.Generator, *, along_a_curve: bool) -> Ints:
    """Points in the unit square linked within the radius of mean degree 8; smaller pieces join the nearest of the largest.

    Nodes are numbered at random, or along a curve through the square that keeps neighbours near in memory.
    """
    points = rng.random((n, 2))
    if along_a_curve:
        points = points[np.argsort(_curve(points), kind="stable")]
    tree = cKDTree(points)
    pairs = tree.query_pairs(math.sqrt(MEAN_DEGREE / (math.pi * n)), output_type="ndarray").astype(np.int64)
    name, largest = _pieces(n, pairs)
    strays = np.unique(name, return_index=True)[1]
    strays = strays[name[strays] != largest]
    main = np.flatnonzero(name == largest)
    anchors = main[cKDTree(points[main]).query(points[strays])[1]]
    return _distinct(n, np.concatenate([pairs, np.column_stack([strays, anchors])]))


def _pieces(n: int, pairs: Ints) -> tuple[Ints, int]:
    ones = np.ones(len(pairs), dtype=np.int8)
    _, name = connected_components(coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n)), directed=False)
    return name, int(np.bincount(name).argmax())


def _distinct(n: int, pairs: Ints) -> Ints:
    key = np.unique(pairs.min(axis=1) * n + pairs.max(axis=1))
    return np.column_stack([key // n, key % n])


def _curve(points: Floats, bits: int = 10) -> Ints:
    """Z-order: the bits of both coordinates in turn."""
    x, y = (points.T * (1 << bits)).astype(np.int64)
    order = np.zeros(len(points), dtype=np.int64)
    for bit in range(bits):
        order |= ((x >> bit) & 1) << (2 * bit) | ((y >> bit) & 1) << (2 * bit + 1)
    return order
