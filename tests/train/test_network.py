"""Networks: what a user can build, what is refused and how, and that every round's graph depends on nothing but seed."""

from __future__ import annotations

import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.train import graphs
from equipoise.train.network import Network
from equipoise.train.topology import Topology, edge_weights
from refusals import refused


def edge_set(topology: Topology) -> frozenset[tuple[int, int]]:
    return frozenset(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))


def as_networkx(topology: Topology) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(topology.n))
    graph.add_edges_from(edge_set(topology))
    return graph


def assert_well_formed(topology: Topology) -> None:
    key = topology.tails * topology.n + topology.heads
    assert (topology.tails < topology.heads).all()
    assert (np.diff(key) > 0).all()
    assert topology.tails.dtype == topology.heads.dtype == topology.degree.dtype == np.int64
    assert topology.weights.dtype == np.float64


KINDS = ["erdos_renyi", "geometric", "ring", "path", "star", "grid", "complete"]


@pytest.mark.parametrize(
    ("network", "truth"),
    [
        (Network.ring(7), nx.cycle_graph(7)),
        (Network.ring(2), nx.path_graph(2)),
        (Network.path(6), nx.path_graph(6)),
        (Network.star(6), nx.star_graph(5)),
        (Network.complete(6), nx.complete_graph(6)),
        (Network.grid(12), nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))),
        (Network.grid(12, rows=2), nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 6))),
        (Network.grid(7, rows=1), nx.path_graph(7)),
    ],
    ids=lambda value: value.description if isinstance(value, Network) else "",
)
def test_shapes_are_the_textbook_graphs(network: Network, truth: nx.Graph) -> None:
    """Every fixed shape has exactly the edges of networkx's own generator."""
    topology = network.topology(0)
    assert_well_formed(topology)
    assert edge_set(topology) == {(min(e), max(e)) for e in truth.edges()}


@given(n=st.integers(1, 60), p=st.floats(0.3, 1.0), seed=st.integers(0, 1000), switching=st.sampled_from([0, "fresh"]))
@settings(max_examples=60, deadline=None)
def test_random_graphs_are_connected(n: int, p: float, seed: int, switching: int) -> None:
    """Whatever the draw, networkx finds one component and counts the same degrees."""
    for network in (
        Network.erdos_renyi(n, max(p, 4 / n if n > 4 else 1.0), switching=switching, seed=seed),
        Network.geometric(n, switching=switching, seed=seed),
    ):
        topology = network.topology(3)
        assert_well_formed(topology)
        graph = as_networkx(topology)
        assert nx.is_connected(graph)
        assert topology.degree.tolist() == [graph.degree(i) for i in range(n)]


@given(n=st.integers(1, 30), seed=st.integers(0, 10**6), density=st.floats(0.02, 0.3))
@settings(max_examples=100, deadline=None)
def test_connected_means_what_networkx_means(n: int, seed: int, density: float) -> None:
    """Sparse random graphs, most of them in pieces: the answer is that of networkx."""
    topology = Topology.unweighted(n, *graphs.erdos_renyi(n, density, np.random.default_rng(seed)))
    assert topology.connected == nx.is_connected(as_networkx(topology))


def test_erdos_renyi_links_every_pair_equally_often() -> None:
    """4000 graphs on 12 nodes: each of the 66 pairs appears with frequency p within five standard errors."""
    rng = np.random.default_rng(5)
    count, p, draws = np.zeros((12, 12)), 0.3, 4000
    for _ in range(draws):
        tails, heads = graphs.erdos_renyi(12, p, rng)
        count[tails, heads] += 1
    frequency = count[np.triu_indices(12, 1)] / draws
    assert np.abs(frequency - p).max() < 5 * np.sqrt(p * (1 - p) / draws)
    assert count[np.tril_indices(12)].sum() == 0


def test_erdos_renyi_of_a_hundred_thousand_nodes_is_drawn_without_looking_at_pairs() -> None:
    """5e9 pairs, mean degree 8: the number of edges is Binomial(pairs, p) within five standard deviations."""
    n, p = 100_000, 8e-5
    tails, heads = graphs.erdos_renyi(n, p, np.random.default_rng(0))
    pairs = n * (n - 1) // 2
    assert abs(len(tails) - pairs * p) < 5 * np.sqrt(pairs * p)
    assert_well_formed(Topology.unweighted(n, tails, heads))


def test_geometric_links_exactly_the_near_points() -> None:
    """All pairs compared one by one: linked if and only if at most the radius apart."""
    points = np.random.default_rng(3).random((80, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    tails, heads = graphs.geometric(80, 0.2, np.random.default_rng(3))
    expected = np.argwhere(np.triu(distance <= 0.2, 1))
    assert np.array_equal(np.stack([tails, heads], axis=1), expected)


@pytest.mark.parametrize("kind", ["erdos_renyi", "geometric", "ring", "path", "star", "grid"])
@pytest.mark.parametrize("switching", [4, "fresh"])
def test_a_round_depends_on_seed_and_number_alone(kind: str, switching: int | str) -> None:
    """Asked backwards, forwards, twice, or after pickling: the same graph; with another seed: another."""
    network = Network.by_name(kind, 30, switching=switching, seed=7)
    again = pickle.loads(pickle.dumps(Network.by_name(kind, 30, switching=switching, seed=7)))
    other = Network.by_name(kind, 30, switching=switching, seed=8)
    forwards = [edge_set(network.topology(k)) for k in range(4)]
    backwards = [edge_set(again.topology(k)) for k in (3, 2, 1, 0)][::-1]
    assert forwards == backwards
    assert edge_set(network.topology(2)) == forwards[2]
    assert [edge_set(other.topology(k)) for k in range(4)] != forwards


def test_a_fresh_network_never_repeats() -> None:
    """200 rounds of Erdős–Rényi(20, .3) are 200 different graphs."""
    network = Network.erdos_renyi(20, 0.3, switching="fresh")
    assert network.period is None
    assert not network.static
    assert len({edge_set(network.topology(k)) for k in range(200)}) == 200


@pytest.mark.parametrize("kind", ["erdos_renyi", "geometric", "ring", "path", "star", "grid"])
def test_a_periodic_network_cycles_through_different_graphs(kind: str) -> None:
    """Five graphs in turn, all different (a star on 8 nodes has only 8), then the very same objects again."""
    network = Network.by_name(kind, 8, switching=5, p=0.5 if kind == "erdos_renyi" else None)
    assert (network.period, network.static) == (5, False)
    assert len({edge_set(network.topology(k)) for k in range(5)}) == 5
    assert all(network.topology(k) is network.topology(k + 5) for k in range(5))


def test_switching_relabels_a_fixed_shape() -> None:
    """A switching grid is always the same grid with its nodes elsewhere."""
    network = Network.grid(12, switching="fresh")
    truth = nx.grid_2d_graph(3, 4)
    assert all(nx.is_isomorphic(as_networkx(network.topology(k)), truth) for k in range(5))


@pytest.mark.parametrize("switching", [0, 1])
def test_static_is_one_graph_for_ever(switching: int) -> None:
    """0 and 1 both mean: one graph, and it is the first that a switching network would draw."""
    network = Network.erdos_renyi(20, 0.3, switching=switching, seed=3)
    assert (network.period, network.static) == (1, True)
    assert network.topology(0) is network.topology(999)
    assert edge_set(network.topology(0)) == edge_set(Network.erdos_renyi(20, 0.3, switching=3, seed=3).topology(0))


def test_edges_may_come_twice_and_in_any_order() -> None:
    """The same link in both directions, or repeated, counts once; weights follow their edge when it is sorted."""
    network = Network.from_edges([(2, 1, 5.0), (1, 0), (1, 2, 5.0), (0, 1, 1.0)])
    topology = network.topology(0)
    assert edge_set(topology) == {(0, 1), (1, 2)}
    assert topology.weights.tolist() == [1.0, 5.0]
    assert_well_formed(topology)


def test_edges_may_be_an_array() -> None:
    """An (E, 2) or (E, 3) array is read like a list; weights may also come apart."""
    plain = Network.from_edges(np.array([[0, 1], [1, 2]])).topology(0)
    weighted = Network.from_edges(np.array([[1, 2, 0.5], [0, 1, 2.0]])).topology(0)
    apart = Network.from_edges([(1, 2), (0, 1)], weights=[0.5, 2.0]).topology(0)
    assert edge_set(plain) == edge_set(weighted) == edge_set(apart)
    assert weighted.weights.tolist() == apart.weights.tolist() == [2.0, 0.5]


def test_one_node_alone_is_a_network() -> None:
    """n = 1 has no edges, and is connected in every constructor."""
    alone = [Network.by_name(kind, 1) for kind in KINDS] + [Network.from_edges([], n=1)]
    assert all(network.topology(0).edges == 0 and network.topology(0).connected for network in alone)


def test_laplacian_is_that_of_networkx() -> None:
    """Weighted and by hand from another library: the same matrix."""
    graph = nx.gnp_random_graph(30, 0.3, seed=1)
    for k, (i, j) in enumerate(graph.edges()):
        graph[i][j]["weight"] = 0.5 + k
    ours = Network.from_networkx(graph).topology(0).laplacian().toarray()
    assert np.allclose(ours, nx.laplacian_matrix(graph).toarray())


def test_networkx_nodes_are_numbered_in_graph_order() -> None:
    """Names become numbers in the order in which the graph lists them."""
    graph = nx.Graph([("c", "a"), ("a", "b")])
    assert edge_set(Network.from_networkx(graph).topology(0)) == {(0, 1), (1, 2)}


def test_a_symmetric_digraph_is_accepted() -> None:
    """Both directions with equal weights are one undirected edge."""
    network = Network.from_networkx(nx.DiGraph(nx.cycle_graph(5)))
    assert not network.directed
    assert edge_set(network.topology(0)) == edge_set(Network.ring(5).topology(0))


def test_an_edge_list_is_read_from_a_file(tmp_path: Path) -> None:
    """Spaces, tabs, commas, comments and blank lines; the weight is optional."""
    file = tmp_path / "links.txt"
    file.write_text("# a path\n0 1\n\n1\t2 2.5   # heavy\n3, 2, 0.5\n")
    topology = Network.from_file(file).topology(0)
    assert edge_set(topology) == {(0, 1), (1, 2), (2, 3)}
    assert topology.weights.tolist() == [1.0, 2.5, 0.5]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("0 1\n1 two\n", ("edge.form", "links.txt:2", "'1 two'")),
        ("0 1\n# fine\n1 2 3 4\n", ("edge.form", "links.txt:3")),
        ("0 1\n1\n", ("edge.form", "links.txt:2", "'1'")),
        ("0 1\n1 2 heavy\n", ("edge.form", "links.txt:2")),
        ("0 1\n\n2 2\n", ("edge.loop", "links.txt:3", "node 2")),
        ("0 1\n1 2 -4\n", ("weights.range", "links.txt:2", "edge 1 - 2", "weight -4")),
        ("0 1\n-1 2\n", ("edge.node", "links.txt:2", "edge -1 - 2", "node -1", "0..2")),
        ("0 1 1\n1 0 2\n", ("edge.asymmetric", "links.txt:2", "0 -> 1", "weight 1", "1 -> 0", "weight 2")),
        ("1 2\n2 3\n", ("network.disconnected", "links.txt", 0)),
        ("# nothing\n", ("edge.none", "links.txt")),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, refusal: tuple[object, ...]) -> None:
    """The error names the file, the line and what was expected there."""
    file = tmp_path / "links.txt"
    file.write_text(text)
    with refused(*refusal):
        Network.from_file(file)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a directory and bytes that are no text: one line each, with the reason."""
    noise = tmp_path / "noise"
    noise.write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "none", tmp_path, noise):
        with refused("file.read", file):
            Network.from_file(file)


def from_two_way(*links: tuple[int, int, float]) -> Network:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(links)
    return Network.from_networkx(graph)


BAD = {
    "no nodes": (lambda: Network.ring(0), ("network.nodes", "n=0")),
    "half a node": (lambda: Network.ring(2.5), ("network.nodes", "n=2.5")),  # type: ignore[arg-type]
    "node outside": (
        lambda: Network.from_edges([(0, 1), (1, 9)], n=3),
        ("edge.node", "edge 1 - 9", "node 9", "0..2", "n=3"),
    ),
    "self-loop": (lambda: Network.from_edges([(0, 1), (1, 1)]), ("edge.loop", "node 1")),
    "negative weight": (
        lambda: Network.from_edges([(3, 7, -0.5)], n=8),
        ("weights.range", "edge 3 - 7", "weight -0.5"),
    ),
    "NaN weight": (lambda: Network.from_edges([(3, 7, float("nan"))], n=8), ("weights.range", "edge 3 - 7")),
    "infinite weight": (lambda: Network.from_edges([(3, 7, float("inf"))], n=8), ("weights.range", "edge 3 - 7")),
    "zero weight": (lambda: Network.from_edges([(3, 7, 0.0)], n=8), ("weights.range", "edge 3 - 7", "weight 0")),
    "asymmetric": (
        lambda: Network.from_edges([(3, 7, 1), (7, 3, 2)], n=8),
        ("edge.asymmetric", "3 -> 7", "weight 1", "7 -> 3", "weight 2", "directed=True"),
    ),
    "two weights": (lambda: Network.from_edges([(0, 1, 1), (0, 1, 2)]), ("edge.twice", 0, 1, 2)),
    "in pieces": (
        lambda: Network.from_edges([(0, 1), (1, 2), (2, 3), (4, 5)], n=7),
        ("network.disconnected", 3, 1, 7, 6),
    ),
    "many cut off": (
        lambda: Network.from_edges([(0, 1), *[(k, k + 1) for k in range(2, 8)], *[(k, k + 1) for k in range(9, 20)]]),
        ("network.disconnected", 3, 2, 21, 0, 1),
    ),
    "half cut off": (
        lambda: Network.from_edges([(k, k + 2) for k in range(14)]),
        ("network.disconnected", 8, 16, 0, 2, 4, 6),
    ),
    "no edges": (lambda: Network.from_edges([]), ("edge.none",)),
    "edge of one": (lambda: Network.from_edges([(0, 1), (1,)]), ("edge.form", "(1,)")),
    "edge of words": (lambda: Network.from_edges([("a", "b")]), ("edge.form",)),
    "half an index": (lambda: Network.from_edges([(0, 1.5)], n=3), ("edge.form", "edge 0 - 1.5")),
    "weights twice": (lambda: Network.from_edges([(0, 1, 2)], weights=[1]), ("weights.twice",)),
    "too few weights": (lambda: Network.from_edges([(0, 1), (1, 2)], weights=[1]), ("weights.count", 1, 2)),
    "word for weight": (lambda: Network.from_edges([(0, 1)], weights=["a"]), ("weights.number",)),
    "one-way link": (lambda: from_two_way((3, 7, 1), (7, 8, 1), (8, 7, 1)), ("network.disconnected", 2, 1, 3, 0)),
    "p zero": (lambda: Network.erdos_renyi(20, 0.0), ("network.p", "p=0.0")),
    "p NaN": (lambda: Network.erdos_renyi(20, float("nan")), ("network.p", "p=nan")),
    "p above one": (lambda: Network.erdos_renyi(20, 1.5), ("network.p", "p=1.5")),
    "p too small": (lambda: Network.erdos_renyi(100, 0.01), ("network.draws", "p=0.01", "n=100", 0.0461)),
    "radius zero": (lambda: Network.geometric(20, 0.0), ("network.radius", "radius=0.0")),
    "radius too small": (lambda: Network.geometric(100, 0.02), ("network.draws", "radius=0.02", "n=100", 0.121)),
    "prime grid": (lambda: Network.grid(13), ("grid.rows", "n=13", "n=10", 12, 14, 15, 16, "rows=1")),
    "rows that do not divide": (lambda: Network.grid(10, rows=4), ("grid.rows", "rows=4", "n=10", "n=8", 12)),
    "no rows": (lambda: Network.grid(10, rows=0), ("grid.rows", "rows=0")),
    "negative switching": (lambda: Network.ring(5, switching=-2), ("switching.range", "switching=-2")),
    "switching by word": (lambda: Network.ring(5, switching="often"), ("switching.range", "switching='often'")),  # type: ignore[arg-type]
    "more graphs than exist": (lambda: Network.star(3, switching=5), ("switching.draws", 3, "switching=3")),
    "negative seed": (lambda: Network.erdos_renyi(5, seed=-1), ("seed.range", "seed=-1")),
    "unknown kind": (lambda: Network.by_name("rng", 5), ("unknown", "'rng'", "'ring'")),
    "unknown option": (lambda: Network.by_name("ring", 5, p=0.3), ("network.option", "'ring'", "'p'")),
    "switching complete": (lambda: Network.by_name("complete", 5, switching=3), ("switching.graphs", "'complete'")),
    "empty sequence": (lambda: Network.sequence([]), ("sequence.empty",)),
    "unequal sequence": (
        lambda: Network.sequence([Network.ring(5), Network.ring(6)]),
        ("sequence.nodes", "network 1", 6, 5),
    ),
    "switching in a sequence": (
        lambda: Network.sequence([Network.ring(5, switching=2)]),
        ("sequence.switching", "network 0"),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_line(case: str) -> None:
    """Each mistake gets its own message, which names the value and the way out."""
    build, refusal = BAD[case]
    with refused(*refusal):
        build()


def test_a_sequence_takes_turns() -> None:
    """Ring, star, ring, star, ..."""
    network = Network.sequence([Network.ring(6), Network.star(6).topology(0)])
    assert network.period == 2
    assert edge_set(network.topology(7)) == edge_set(Network.star(6).topology(0))
    assert edge_set(network.topology(8)) == edge_set(Network.ring(6).topology(0))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_known_by_name(kind: str) -> None:
    """The command line's way in gives what the constructor gives; unset options and hyphens do not disturb it."""
    network = Network.by_name(kind.replace("_", "-"), 12, seed=0, switching=0, p=None, radius=None, rows=None)
    assert edge_set(network.topology(0)) == edge_set(getattr(Network, kind)(12).topology(0))
    assert "12" in network.description
    assert "\n" not in network.description


def test_metropolis_weights_leave_something_for_the_node_itself() -> None:
    """By hand on a path of three, and on a random graph every row sums to less than 1."""
    assert edge_weights("metropolis", Network.path(3).topology(0)).tolist() == [1 / 3, 1 / 3]
    topology = Network.erdos_renyi(50, 0.2).topology(0)
    w = edge_weights("metropolis", topology)
    rows = np.bincount(topology.tails, w, 50) + np.bincount(topology.heads, w, 50)
    assert rows.max() < 1


def test_curvature_weights_follow_the_steeper_end() -> None:
    """Path of three, d = (1, 2, 1), a = (10, 1, 3): 1/max(10, 2) and 1/max(2, 3)."""
    w = edge_weights("curvature", Network.path(3).topology(0), np.array([10.0, 1.0, 3.0]))
    assert w.tolist() == [1 / 10, 1 / 3]


def test_laplacian_weights_are_the_graphs_own() -> None:
    """What the user gave is what is used."""
    assert edge_weights("laplacian", Network.from_edges([(0, 1, 4.0)]).topology(0)).tolist() == [4.0]


@pytest.mark.parametrize(
    ("kind", "curvature", "refusal"),
    [
        ("metropols", None, ("unknown", "'metropols'", "'metropolis'")),
        ("curvature", None, ("curvature.missing",)),
        ("curvature", [1.0, 0.0, 1.0], ("curvature.range", "node 1", 0)),
        ("curvature", [1.0, 1.0], ("curvature.shape", "(2,)", 3)),
    ],
)
def test_bad_weights_are_refused(kind: str, curvature: list[float] | None, refusal: tuple[object, ...]) -> None:
    """An unknown kind, no curvature, and a flat or missing one are named."""
    with refused(*refusal):
        edge_weights(kind, Network.path(3).topology(0), None if curvature is None else np.array(curvature))
