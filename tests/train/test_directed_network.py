"""Directed networks: every graph strongly connected, by networkx's word; undirected ones just as they were before."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.train import graphs
from equipoise.train.network import Network
from equipoise.train.topology import Arcs
from refusals import refused


def arc_set(arcs: Arcs) -> frozenset[tuple[int, int]]:
    return frozenset(zip(arcs.senders.tolist(), arcs.receivers.tolist(), strict=True))


def as_networkx(arcs: Arcs) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(arcs.n))
    graph.add_edges_from(arc_set(arcs))
    return graph


def assert_well_formed(arcs: Arcs) -> None:
    assert (arcs.senders != arcs.receivers).all()
    assert (np.diff(arcs.key) > 0).all()
    assert np.array_equal(arcs.key, arcs.senders * arcs.n + arcs.receivers)
    for ints in (arcs.senders, arcs.receivers, arcs.out_degree, arcs.in_degree, arcs.key):
        assert ints.dtype == np.int64
    assert arcs.weights.dtype == np.float64
    assert arcs.weights.shape == arcs.senders.shape == arcs.receivers.shape
    assert arcs.out_degree.shape == arcs.in_degree.shape == (arcs.n,)


DIRECTED = ["erdos_renyi", "geometric", "ring", "grid"]  # and complete, which cannot switch


@pytest.mark.parametrize("kind", DIRECTED)
@pytest.mark.parametrize("switching", [0, 4, "fresh"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [6, 24])
def test_every_graph_is_strongly_connected(kind: str, switching: int | str, seed: int, n: int) -> None:
    """Every kind, seed and way of switching: networkx can get from anywhere to anywhere, and counts the same degrees."""
    network = Network.by_name(kind, n, switching=switching, seed=seed, directed=True)
    assert network.directed
    assert network.period == {0: 1, 4: 4, "fresh": None}[switching]
    assert network.static == (switching == 0)
    for k in range(5):
        arcs = network.arcs(k)
        assert_well_formed(arcs)
        graph = as_networkx(arcs)
        assert nx.is_strongly_connected(graph)
        assert arcs.out_degree.tolist() == [graph.out_degree(i) for i in range(n)]
        assert arcs.in_degree.tolist() == [graph.in_degree(i) for i in range(n)]


@given(n=st.integers(1, 30), seed=st.integers(0, 10**6), density=st.floats(0.02, 0.4))
@settings(max_examples=100, deadline=None)
def test_strongly_connected_means_what_networkx_means(n: int, seed: int, density: float) -> None:
    """Sparse random graphs, connected or not: the answer, and the number of components, are those of networkx."""
    arcs = Arcs.unweighted(n, *graphs.erdos_renyi_arcs(n, density, np.random.default_rng(seed)))
    assert_well_formed(arcs)
    pieces = list(nx.strongly_connected_components(as_networkx(arcs)))
    assert arcs.strongly_connected == (len(pieces) == 1)
    if len(pieces) > 1:
        smallest = min(map(len, pieces))
        with refused("network.disconnected", f" {len(pieces)} ", f"({smallest} of {n})"):
            arcs.require_strongly_connected("test")


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_directed_ring_goes_one_way(n: int) -> None:
    """The arcs of networkx's own directed cycle (which has a loop for one node, where ours has nothing)."""
    expected = set(nx.cycle_graph(n, create_using=nx.DiGraph).edges()) - {(0, 0)}
    assert arc_set(Network.ring(n, directed=True).arcs(0)) == expected


def test_erdos_renyi_draws_every_ordered_pair_equally_often() -> None:
    """4000 graphs on 8 nodes: each of the 56 ordered pairs has frequency p, and i -> j says nothing of j -> i."""
    rng = np.random.default_rng(5)
    count, both, p, draws = np.zeros((8, 8)), np.zeros((8, 8)), 0.3, 4000
    for _ in range(draws):
        matrix = np.zeros((8, 8))
        matrix[graphs.erdos_renyi_arcs(8, p, rng)] = 1
        count += matrix
        both += matrix * matrix.T
    pairs = ~np.eye(8, dtype=bool)
    assert np.abs(count[pairs] / draws - p).max() < 5 * np.sqrt(p * (1 - p) / draws)
    assert np.abs(both[pairs] / draws - p**2).max() < 5 * np.sqrt(p**2 * (1 - p**2) / draws)
    assert np.trace(count) == 0


def test_erdos_renyi_of_a_hundred_thousand_nodes_is_drawn_without_looking_at_pairs() -> None:
    """1e10 ordered pairs, mean degree 20: the number of arcs is Binomial(pairs, p) within five standard deviations."""
    n, p = 100_000, 2e-4
    arcs = Network.erdos_renyi(n, p, directed=True).arcs(0)
    assert_well_formed(arcs)
    assert abs(len(arcs.senders) - n * (n - 1) * p) < 5 * np.sqrt(n * (n - 1) * p)


def test_geometric_sends_to_all_within_its_own_reach() -> None:
    """All pairs compared one by one; reaches lie between 0.7 and 1.3 radii and differ."""
    rng = np.random.default_rng(3)
    points, reach = rng.random((80, 2)), 0.2 * rng.uniform(0.7, 1.3, 80)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    expected = np.argwhere((distance <= reach[:, None]) & ~np.eye(80, dtype=bool))
    found = np.stack(graphs.geometric_arcs(80, 0.2, np.random.default_rng(3)), axis=1)
    assert np.array_equal(found, expected)
    assert {(i, j) for i, j in found.tolist()} != {(j, i) for i, j in found.tolist()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("kind", "truth"),
    [("grid", nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5))), ("complete", nx.complete_graph(20))],
)
def test_at_most_half_of_the_links_carry_one_way(kind: str, truth: nx.Graph, seed: int) -> None:
    """The links are those of the undirected shape; in a complete graph there is always a way around, so half it is."""
    arcs = arc_set(Network.by_name(kind, 20, seed=seed, directed=True).arcs(0))
    assert {(min(a), max(a)) for a in arcs} == {(min(e), max(e)) for e in truth.edges()}
    one_way = sum((j, i) not in arcs for i, j in arcs)
    half = truth.number_of_edges() // 2
    assert one_way == half if kind == "complete" else 0 < one_way <= half


@given(n=st.integers(1, 14), seed=st.integers(0, 10**6), density=st.floats(0.1, 1.0))
@settings(max_examples=60, deadline=None)
def test_a_link_stays_both_ways_only_if_it_must(n: int, seed: int, density: float) -> None:
    """The same choices replayed one by one, with networkx asked after each whether the graph is still strong."""
    tree = {((7 + seed) % k, k) for k in range(1, n)}  # connected, whatever the draw adds
    tails, heads = graphs.erdos_renyi(n, density, np.random.default_rng(seed))
    edges = np.array(sorted(tree | set(zip(tails.tolist(), heads.tolist(), strict=True))), dtype=np.int64).reshape(
        -1, 2
    )
    found = graphs.half_one_way(n, (edges[:, 0], edges[:, 1]), np.random.default_rng(seed))
    rng, graph = np.random.default_rng(seed), nx.Graph(edges.tolist()).to_directed()
    graph.add_nodes_from(range(n))
    order = rng.permutation(edges)[: len(edges) // 2]
    for (i, j), forwards in zip(order.tolist(), rng.random(len(order)) < 0.5, strict=True):
        arc = (i, j) if forwards else (j, i)
        graph.remove_edge(*arc)
        if not nx.is_strongly_connected(graph):
            graph.add_edge(*arc)
    assert set(zip(found[0].tolist(), found[1].tolist(), strict=True)) == set(graph.edges())


def test_a_switching_grid_is_one_directed_grid_with_its_nodes_elsewhere() -> None:
    """Also the one-way links keep their places in the shape."""
    truth = as_networkx(Network.grid(12, seed=3, directed=True).arcs(0))
    network = Network.grid(12, seed=3, switching="fresh", directed=True)
    assert all(nx.is_isomorphic(as_networkx(network.arcs(k)), truth) for k in range(5))
    assert len({arc_set(network.arcs(k)) for k in range(5)}) == 5


@pytest.mark.parametrize("kind", DIRECTED)
@pytest.mark.parametrize("switching", [4, "fresh"])
def test_a_round_depends_on_seed_and_number_alone(kind: str, switching: int | str) -> None:
    """Asked backwards, forwards, twice, or after pickling: the same graph; with another seed: another."""
    network = Network.by_name(kind, 30, switching=switching, seed=7, directed=True)
    again = pickle.loads(pickle.dumps(Network.by_name(kind, 30, switching=switching, seed=7, directed=True)))
    other = Network.by_name(kind, 30, switching=switching, seed=8, directed=True)
    forwards = [arc_set(network.arcs(k)) for k in range(4)]
    assert [arc_set(again.arcs(k)) for k in (3, 2, 1, 0)][::-1] == forwards
    assert arc_set(network.arcs(2)) == forwards[2]
    assert len(set(forwards)) == 4
    assert [arc_set(other.arcs(k)) for k in range(4)] != forwards


@pytest.mark.parametrize("kind", ["grid", "complete"])
def test_the_seed_chooses_the_one_way_links(kind: str) -> None:
    """Static shapes too: the same seed gives the same links, another seed others."""
    first, again, other = (arc_set(Network.by_name(kind, 12, seed=s, directed=True).arcs(0)) for s in (1, 1, 2))
    assert first == again != other


def test_one_node_alone_is_a_directed_network() -> None:
    """n = 1 has no arcs and is strongly connected."""
    alone = [Network.by_name(kind, 1, directed=True) for kind in [*DIRECTED, "complete"]]
    for network in [*alone, Network.from_edges([], n=1, directed=True)]:
        assert network.arcs(0).strongly_connected and len(network.arcs(0).senders) == 0


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (Network.erdos_renyi(9, 0.5, directed=True), "directed Erdős–Rényi, p=0.5, 9 nodes, static, seed 0"),
        (Network.ring(9, directed=True), "directed ring, 9 nodes, static"),
        (Network.ring(9, switching=2, directed=True), "directed ring, 9 nodes, 2 graphs in turn, seed 0"),
        (Network.grid(9, seed=4, directed=True), "directed grid 3 x 3, 9 nodes, static, seed 4"),
        (Network.complete(9, seed=4, directed=True), "directed complete, 9 nodes, static, seed 4"),
        (Network.from_edges([(0, 1), (1, 0)], directed=True), "edges, 2 nodes, 2 directed links, static"),
        (Network.sequence([Network.ring(4, directed=True)] * 2), "given directed graphs, 4 nodes, 2 graphs in turn"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.description,
)
def test_descriptions_say_directed(network: Network, text: str) -> None:
    """What it is, in one line."""
    assert network.description == text


@pytest.mark.parametrize("switching", [0, 3, "fresh"])
def test_arcs_of_an_undirected_network_go_both_ways(switching: int | str) -> None:
    """Each link twice, once from either end; kept as long as the graph is."""
    network = Network.erdos_renyi(20, 0.3, switching=switching, seed=2)
    assert not network.directed
    for k in (0, 1, 4):
        arcs, topology = network.arcs(k), network.topology(k)
        assert_well_formed(arcs)
        links = set(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
        assert arc_set(arcs) == links | {(j, i) for i, j in links}
        assert np.array_equal(arcs.out_degree, topology.degree)
        assert network.arcs(k) is arcs
    if network.period:
        assert network.arcs(network.period + 1) is network.arcs(1)
    assert arc_set(pickle.loads(pickle.dumps(network)).arcs(1)) == arc_set(network.arcs(1))


def test_weights_follow_their_link_both_ways() -> None:
    """By hand, on a weighted path of three."""
    arcs = Network.from_edges([(1, 2, 0.5), (0, 1, 2.0)]).arcs(0)
    assert list(zip(arcs.senders, arcs.receivers, arcs.weights, strict=True)) == [
        (0, 1, 2.0),
        (1, 0, 2.0),
        (1, 2, 0.5),
        (2, 1, 0.5),
    ]


def test_a_directed_edge_list_keeps_each_direction_and_its_weight(tmp_path: Path) -> None:
    """From a list, from an array and from a file; a repetition counts once, the two directions are two links."""
    rows = [(2, 0, 4.0), (0, 1, 1.0), (1, 0, 3.0), (1, 2, 2.0), (0, 1, 1.0)]
    file = tmp_path / "links.txt"
    file.write_text("".join(f"{i} {j} {w}\n" for i, j, w in rows))
    for network in (
        Network.from_edges(rows, directed=True),
        Network.from_edges(np.array(rows), directed=True),
        Network.from_edges([row[:2] for row in rows], weights=[row[2] for row in rows], directed=True),
        Network.from_file(file, directed=True),
    ):
        arcs = network.arcs(0)
        assert_well_formed(arcs)
        found = list(zip(arcs.senders.tolist(), arcs.receivers.tolist(), arcs.weights.tolist(), strict=True))
        assert found == sorted(set(rows))


def test_a_networkx_digraph_comes_back_as_it_went() -> None:
    """Links and weights of a random strongly connected DiGraph, its nodes numbered in graph order."""
    graph = nx.relabel_nodes(nx.gnp_random_graph(12, 0.4, seed=1, directed=True), lambda k: f"node {k}")
    for k, (i, j) in enumerate(graph.edges()):
        graph[i][j]["weight"] = 0.5 + k
    network = Network.from_networkx(graph)
    arcs = network.arcs(0)
    back = nx.DiGraph()
    names = list(graph)
    back.add_weighted_edges_from(
        (names[i], names[j], w) for i, j, w in zip(arcs.senders, arcs.receivers, arcs.weights, strict=True)
    )
    assert network.directed
    assert nx.utils.graphs_equal(back, graph)


def test_a_digraph_with_unequal_weights_is_directed() -> None:
    """0 -> 1 and 1 -> 0 may differ."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 1), (1, 0, 2)])
    assert Network.from_networkx(graph).arcs(0).weights.tolist() == [1.0, 2.0]


def test_a_directed_sequence_takes_turns() -> None:
    """Ring one way, ring the other way, and so on."""
    ring = Network.ring(5, directed=True)
    other = Arcs.from_edges(5, [((k + 1) % 5, k) for k in range(5)])
    network = Network.sequence([ring, other])
    assert (network.directed, network.period) == (True, 2)
    assert arc_set(network.arcs(6)) == arc_set(ring.arcs(0))
    assert network.arcs(7) is other


def chain(n: int) -> list[tuple[int, int]]:
    return [(k, k + 1) for k in range(n - 1)]


BAD: dict[str, tuple[Any, str]] = {
    "directed path": (lambda: Network.path(5, directed=True), ("network.one_way", "directed=True")),
    "directed star": (lambda: Network.star(5, directed=True), ("network.one_way", "directed=True")),
    "grid of one row": (lambda: Network.grid(7, 1, directed=True), ("network.one_way", "1 x 7")),
    "grid of one column": (lambda: Network.grid(7, 7, directed=True), ("network.one_way", "7 x 1")),
    "by name": (lambda: Network.by_name("star", 5, directed=True), ("network.one_way", "directed=True")),
    "topology": (lambda: Network.ring(5, directed=True).topology(0), ("network.directed", 5)),
    "one way out": (
        lambda: Network.from_edges([*chain(4), (2, 0)], directed=True),
        ("network.disconnected", 2, 1, 4, 3),
    ),
    "many without a way back": (
        lambda: Network.from_edges(
            [*chain(7), (6, 0), (6, 7), *[(k + 7, (k + 1) % 8 + 7) for k in range(8)]], directed=True
        ),
        ("network.disconnected", 2, 7, 15, 0, 1, 3, 4),
    ),
    "counted from one": (
        lambda: Network.from_edges([(1, 2), (2, 1)], directed=True),
        ("network.disconnected", 1, 3, 0),
    ),
    "two weights": (
        lambda: Network.from_edges([(0, 1, 1), (1, 0), (0, 1, 2)], directed=True),
        ("edge.twice", "edge 0 -> 1", 1, 2),
    ),
    "negative weight": (
        lambda: Network.from_edges([(0, 1, -1)], directed=True),
        ("weights.range", "edge 0 - 1", "weight -1"),
    ),
    "self-loop": (lambda: Network.from_edges([(0, 1), (1, 1)], directed=True), ("edge.loop", "node 1")),
    "node outside": (lambda: Network.from_edges([(0, 9)], n=3, directed=True), ("edge.node", "node 9", "0..2")),
    "p too small": (
        lambda: Network.erdos_renyi(100, 0.01, directed=True),
        ("network.draws", "p=0.01", "n=100", 200, 0.0461),
    ),
    "radius too small": (
        lambda: Network.geometric(100, 0.02, directed=True),
        ("network.draws", "radius=0.02", "n=100"),
    ),
    "more graphs than exist": (
        lambda: Network.ring(3, switching=5, directed=True),
        ("switching.draws", 2, "switching=2"),  # clockwise and the other way
    ),
    "negative seed": (lambda: Network.complete(5, seed=-1, directed=True), ("seed.range", "seed=-1")),
    "switching complete": (
        lambda: Network.by_name("complete", 5, switching=3, directed=True),
        ("switching.graphs", "'complete'"),
    ),
    "mixed sequence": (
        lambda: Network.sequence([Network.ring(5), Network.ring(5, directed=True)]),
        ("sequence.directed", "network 1"),
    ),
    "mixed the other way": (
        lambda: Network.sequence([Network.ring(5, directed=True), Network.ring(5)]),
        ("sequence.directed", "network 1"),
    ),
    "weak sequence": (
        lambda: Network.sequence([Arcs.unweighted(2, np.array([0]), np.array([1]))]),
        ("network.disconnected", "network 0"),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_line(case: str) -> None:
    """Each mistake gets its own message, which names the value and the way out."""
    build, refusal = BAD[case]
    with refused(*refusal):
        build()


def test_a_bad_directed_file_is_refused_with_its_line(tmp_path: Path) -> None:
    """The line of the second weight; the whole file where no line is to blame."""
    file = tmp_path / "links.txt"
    file.write_text("0 1 1\n1 0 5\n\n0 1 2\n")
    with refused("edge.twice", "links.txt:4", "edge 0 -> 1", 1, 2):
        Network.from_file(file, directed=True)
    file.write_text("0 1\n")
    with refused("network.disconnected", "links.txt", 2):
        Network.from_file(file, directed=True)


BEFORE = {  # (kind, switching, seed), n = 30: taken from the code at 87dd985, which knew no directed networks
    ("erdos_renyi", 0, 7): ("b57e8223b89a3185", "Erdős–Rényi, p=0.3, 30 nodes, static, seed 7"),
    ("erdos_renyi", 3, 7): ("d5715b67eeda5c5e", "Erdős–Rényi, p=0.3, 30 nodes, 3 graphs in turn, seed 7"),
    ("erdos_renyi", "fresh", 7): ("52b6eb53786aec3c", "Erdős–Rényi, p=0.3, 30 nodes, a new graph every round, seed 7"),
    ("geometric", 0, 7): ("1edff90e75d36736", "random geometric, radius=0.3224, 30 nodes, static, seed 7"),
    ("geometric", 3, 7): ("88b3dbbbecfd9b6f", "random geometric, radius=0.3224, 30 nodes, 3 graphs in turn, seed 7"),
    ("geometric", "fresh", 7): (
        "8cd1cd3d5f4632d8",
        "random geometric, radius=0.3224, 30 nodes, a new graph every round, seed 7",
    ),
    ("ring", 0, 7): ("f062f105921fc98c", "ring, 30 nodes, static"),
    ("ring", 3, 7): ("6e3989c1c4a30800", "ring, 30 nodes, 3 graphs in turn, seed 7"),
    ("ring", "fresh", 7): ("b9e11d8cbced5c9d", "ring, 30 nodes, a new graph every round, seed 7"),
    ("path", 0, 7): ("f90a96e50ff2398e", "path, 30 nodes, static"),
    ("path", 3, 7): ("98a2486c59600549", "path, 30 nodes, 3 graphs in turn, seed 7"),
    ("path", "fresh", 7): ("5c73d534c845fb73", "path, 30 nodes, a new graph every round, seed 7"),
    ("star", 0, 7): ("806a54235f24673d", "star, 30 nodes, static"),
    ("star", 3, 7): ("183652b1d23e3db0", "star, 30 nodes, 3 graphs in turn, seed 7"),
    ("star", "fresh", 7): ("7715f187d3c61bab", "star, 30 nodes, a new graph every round, seed 7"),
    ("grid", 0, 7): ("eb18f01e56840434", "grid 5 x 6, 30 nodes, static"),
    ("grid", 3, 7): ("5f0f33f925260e7e", "grid 5 x 6, 30 nodes, 3 graphs in turn, seed 7"),
    ("grid", "fresh", 7): ("260776476f0549df", "grid 5 x 6, 30 nodes, a new graph every round, seed 7"),
    ("complete", 0, 0): ("ae9f89000ecdd41d", "complete, 30 nodes, static"),
    ("complete", 0, 7): ("ae9f89000ecdd41d", "complete, 30 nodes, static"),
}


@pytest.mark.parametrize("case", BEFORE, ids=str)
def test_undirected_networks_are_what_they_were(case: tuple[str, int | str, int]) -> None:
    """Six rounds, every bit of every array and the description, as before there were directed ones."""
    kind, switching, seed = case
    network = Network.by_name(kind, 30, switching=switching, seed=seed, directed=False)
    digest = hashlib.blake2b(digest_size=8)
    for k in range(6):
        topology = network.topology(k)
        for array in (topology.tails, topology.heads, topology.weights):
            digest.update(str(array.dtype).encode())
            digest.update(array.tobytes())
    assert (digest.hexdigest(), network.description) == BEFORE[case]
