"""Eigenvalues against closed forms and against dense algebra of the same matrix."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from equipoise.train.network import Network
from equipoise.train.spectrum import lambda_2, lambda_max
from equipoise.train.topology import edge_weights


def below(count: int, part: float) -> float:
    """2 - 2 cos(2 pi part / count), without cancellation."""
    return 4.0 * math.sin(math.pi * part / count) ** 2


def ring_ends(n: int) -> tuple[float, float]:
    return below(n, 1), below(n, n // 2)


def path_ends(n: int) -> tuple[float, float]:
    return below(2 * n, 1), below(2 * n, n - 1)


def grid_ends(rows: int, cols: int) -> tuple[float, float]:
    return below(2 * max(rows, cols), 1), below(2 * rows, rows - 1) + below(2 * cols, cols - 1)


CLOSED_FORMS = [
    *[pytest.param(Network.ring(n), *ring_ends(n), id=f"ring {n}") for n in (3, 10, 401, 5000, 100_000)],
    *[pytest.param(Network.path(n), *path_ends(n), id=f"path {n}") for n in (2, 10, 399, 3000)],
    *[pytest.param(Network.star(n), 1.0, float(n), id=f"star {n}") for n in (3, 400, 401, 100_000)],
    *[pytest.param(Network.complete(n), float(n), float(n), id=f"complete {n}") for n in (2, 40, 1500)],
    pytest.param(Network.grid(20), *grid_ends(4, 5), id="grid 4 x 5"),
    pytest.param(Network.grid(1200, rows=3), *grid_ends(3, 400), id="grid 3 x 400"),
    pytest.param(Network.grid(100_000), *grid_ends(250, 400), id="grid 250 x 400"),
]


@pytest.mark.parametrize(("network", "second", "largest"), CLOSED_FORMS)
def test_closed_forms(network: Network, second: float, largest: float) -> None:
    """Rings, paths, stars, complete graphs and grids have spectra in any textbook; a ring of 1e5 goes down to 4e-9."""
    topology = network.topology(0)
    assert lambda_2(topology) == pytest.approx(second, rel=1e-6)
    assert lambda_max(topology) == pytest.approx(largest, rel=1e-6)


HYPERCUBE = nx.convert_node_labels_to_integers(nx.hypercube_graph(10))
TWO_CROWDS = nx.disjoint_union(nx.random_regular_graph(6, 400, seed=1), nx.random_regular_graph(6, 400, seed=2))
TWO_CROWDS.add_edge(0, 799)


@pytest.mark.parametrize("kind", ["laplacian", "metropolis", "curvature"])
@pytest.mark.parametrize(
    "network",
    [
        Network.erdos_renyi(900, 0.02),
        Network.erdos_renyi(450, 0.5),
        Network.geometric(900),
        Network.grid(900),
        Network.from_networkx(HYPERCUBE),
        Network.from_networkx(TWO_CROWDS),
        Network.from_networkx(nx.barbell_graph(100, 300)),
        Network.from_networkx(nx.random_labeled_tree(900, seed=3)),
        Network.from_networkx(nx.random_regular_graph(3, 900, seed=4)),
    ],
    ids=["er", "dense er", "geometric", "grid", "hypercube", "two crowds", "barbell", "tree", "cubic"],
)
def test_sparse_ways_agree_with_dense_algebra(network: Network, kind: str) -> None:
    """Too large for the dense way, small enough to check it: numpy's eigenvalues of the same matrix."""
    topology = network.topology(0)
    curvature = np.random.default_rng(0).uniform(0.1, 10.0, topology.n)
    w = edge_weights(kind, topology, curvature)
    dense = topology.laplacian(w).toarray()
    values = np.linalg.eigvalsh(dense)
    root = np.sqrt(curvature)
    assert lambda_2(topology, w) == pytest.approx(values[1], rel=1e-6, abs=1e-13)
    assert lambda_max(topology, w) == pytest.approx(values[-1], rel=1e-6)
    scaled = np.linalg.eigvalsh(root[:, None] * dense * root)[-1]
    assert lambda_max(topology, w, scale=curvature) == pytest.approx(scaled, rel=1e-6)


def test_scaling_by_hand() -> None:
    """Two nodes, L = [[1, -1], [-1, 1]], H = diag(2, 3): the only eigenvalue besides 0 is 2 + 3."""
    assert lambda_max(Network.path(2).topology(0), scale=np.array([2.0, 3.0])) == pytest.approx(5.0)


def test_curvature_weights_keep_the_top_below_two() -> None:
    """With w = 1/max(d_i a_i, d_j a_j) Gershgorin gives lambda_max(L H) <= 2 on any graph: any step below 1 is safe."""
    topology = Network.erdos_renyi(1000, 0.02).topology(0)
    curvature = np.exp(np.random.default_rng(1).normal(size=1000))
    assert lambda_max(topology, edge_weights("curvature", topology, curvature), scale=curvature) <= 2.0


def test_a_weak_bridge_is_seen() -> None:
    """Two cliques of 300 joined by a link of weight 1e-6: by first-order perturbation lambda_2 = 1e-6 (1/300 + 1/300)."""
    clique = [(i, j, 1.0) for i in range(300) for j in range(i)]
    links = [*clique, *[(i + 300, j + 300, w) for i, j, w in clique], (0, 300, 1e-6)]
    assert lambda_2(Network.from_edges(links).topology(0)) == pytest.approx(2e-6 / 300, rel=1e-5)


def test_a_node_alone_has_no_spectrum() -> None:
    """n = 1: both are 0."""
    alone = Network.path(1).topology(0)
    assert (lambda_2(alone), lambda_max(alone)) == (0.0, 0.0)


@pytest.mark.parametrize("network", [Network.erdos_renyi(2000, 0.01), Network.ring(2000)], ids=["er", "ring"])
def test_the_same_graph_gives_the_same_bits(network: Network) -> None:
    """Start vectors are seeded: two calls agree exactly."""
    topology = network.topology(0)
    assert lambda_2(topology) == lambda_2(topology)
    assert lambda_max(topology) == lambda_max(topology)
