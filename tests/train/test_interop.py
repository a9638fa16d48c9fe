"""Networks to and from networkx, trained models to scikit-learn."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from equipoise.data import shards
from equipoise.train import LeastSquares, Network, Problem, Quadratic, SmoothSVM, Softmax, solve
from refusals import refused

NETWORKS = [
    Network.ring(7),
    Network.path(5),
    Network.star(6),
    Network.grid(12),
    Network.complete(5),
    Network.geometric(15, seed=2),
    Network.erdos_renyi(12, 0.4, seed=1),
    Network.erdos_renyi(9, 0.5, switching=3, seed=4),
    Network.ring(6, switching=2),
    Network.ring(5, directed=True),
    Network.grid(12, directed=True, seed=3),
    Network.complete(6, directed=True),
    Network.erdos_renyi(10, 0.4, directed=True, switching=3),
    Network.geometric(12, directed=True, seed=5),
    Network.from_edges([(0, 1, 2.0), (1, 2, 0.5)]),
    Network.erdos_renyi(8, 0.6, switching="fresh", seed=2),
]


def links(graph):
    """A graph of ours as a set of (from, to, weight)."""
    ends = (graph.senders, graph.receivers) if hasattr(graph, "senders") else (graph.tails, graph.heads)
    return set(zip(ends[0].tolist(), ends[1].tolist(), graph.weights.tolist(), strict=True))


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.description[:40])
def test_every_kind_of_network_comes_back_from_networkx(network):
    """All graphs of a network, out and in again, in turn: the same links with the same weights, directed or not."""
    turns = network.period or 3
    graphs = [network.to_networkx(k) for k in range(turns)]
    assert all(g.is_directed() == network.directed and g.number_of_nodes() == network.n for g in graphs)
    back = Network.from_networkx(graphs)
    assert back.period == turns and back.directed == network.directed
    for k in range(turns):
        assert links(back.graph(k)) == links(network.graph(k))
        assert {(i, j, d["weight"]) for i, j, d in graphs[k].edges(data=True)} == links(network.graph(k))


def test_labels_are_kept():
    """A path of cities is numbered in graph order and comes back with its names."""
    given = nx.path_graph(["Oslo", "Rome", "Lima"])
    network = Network.from_networkx(given)
    assert network.labels == ("Oslo", "Rome", "Lima")
    assert links(network.graph(0)) == {(0, 1, 1.0), (1, 2, 1.0)}
    assert list(network.to_networkx().nodes) == list(given.nodes)
    assert set(network.to_networkx().edges) == set(given.edges)
    assert Network.from_networkx(nx.path_graph(3)).labels is None


def test_graphs_that_take_turns_are_numbered_by_the_first():
    """Two graphs of the same three nodes in another order: node 0 is a in both."""
    one, other = nx.path_graph(["a", "b", "c"]), nx.path_graph(["c", "a", "b"])
    network = Network.from_networkx([one, other])
    assert network.period == 2
    assert links(network.graph(0)) == {(0, 1, 1.0), (1, 2, 1.0)}
    assert links(network.graph(1)) == {(0, 2, 1.0), (0, 1, 1.0)}


def test_one_directed_graph_makes_all_of_them_directed():
    """A cycle one way and an undirected path take turns: the path carries both ways, by hand."""
    network = Network.from_networkx([nx.cycle_graph(3, create_using=nx.DiGraph), nx.path_graph(3)])
    assert network.directed
    assert links(network.graph(1)) == {(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)}


def test_a_symmetric_digraph_can_be_kept_directed():
    """Two nodes that send to each other: one link, or two arcs if asked for."""
    both = nx.DiGraph([(0, 1), (1, 0)])
    assert not Network.from_networkx(both).directed
    assert links(Network.from_networkx(both, directed=True).graph(0)) == {(0, 1, 1.0), (1, 0, 1.0)}


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ([nx.path_graph(["a", "b"]), nx.path_graph(["a", "c"])], ("networkx.nodes", "graph 1", "'c'")),
        ([nx.path_graph(3), nx.path_graph(2)], ("networkx.nodes", "graph 1", "node 2")),
        ("path", ("networkx.type", "str")),
        (7, ("networkx.type", "int")),
        ([], ("networkx.type",)),
        (nx.Graph([(0, 1), (2, 3)]), ("network.disconnected",)),
        ([nx.path_graph(3), nx.empty_graph(3)], ("network.disconnected", "graph 1")),
    ],
)
def test_graphs_that_cannot_be_a_network_are_refused(given, refusal):
    """One line that names what is wrong."""
    with refused(*refusal):
        Network.from_networkx(given)


def trained(model, rounds=40):
    """A few rounds are enough: models need not be good, and those of the centres still differ."""
    return solve(Problem(model=model), Network.ring(model.nodes), rounds=rounds)


def test_softmax_becomes_logistic_regression():
    """Three irises: probabilities as by hand from the parameters, labels as the model's own accuracy says."""
    X, y = load_iris(return_X_y=True)
    model = Softmax(shards((X, y), 5, "dirichlet"))
    run = trained(model)
    fitted = run.to_sklearn(classes=["setosa", "versicolor", "virginica"])
    W = run.models.mean(axis=0).reshape(5, 3)
    scores = np.exp(X @ W[:-1] + W[-1])
    assert fitted.predict_proba(X) == pytest.approx(scores / scores.sum(axis=1, keepdims=True), abs=1e-12)
    assert fitted.predict(X).tolist() == np.array(fitted.classes_)[scores.argmax(axis=1)].tolist()
    own = run.to_sklearn(centre=3)
    assert np.mean(own.predict(X) == y) == model.accuracy(run.models[3], X, y)
    assert not np.array_equal(own.coef_, fitted.coef_)


def test_two_classes_of_softmax_are_one_row_of_scikit_learn():
    """Probabilities of the second class: a softmax of two is a sigmoid of their difference."""
    X, y = load_breast_cancer(return_X_y=True)
    model = Softmax(shards((X, y), 4, standardise=True))
    run = trained(model)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted, W = run.to_sklearn(centre=0), run.models[0].reshape(31, 2)
    scores = np.exp(X @ W[:-1] + W[-1])
    assert fitted.coef_.shape == (1, 30)
    assert fitted.predict_proba(X) == pytest.approx(scores / scores.sum(axis=1, keepdims=True), abs=1e-12)
    assert np.mean(fitted.predict(X) == y) == model.accuracy(run.models[0], X, y)


def test_smooth_svm_becomes_linear_svc():
    """Tumours: the same signs as the model's own rule, sample by sample."""
    data = load_breast_cancer()
    parts = shards(data, 4, standardise=True, signs=True)
    model = SmoothSVM(parts)
    run = trained(model)
    X, y = np.concatenate([x for x, _ in parts]), np.concatenate([t for _, t in parts])
    fitted = run.to_sklearn(centre=1)
    w, v = run.models[1][:-1], run.models[1][-1]
    assert fitted.predict(X).tolist() == np.where(X @ w - v > 0, 1, -1).tolist()
    assert np.mean(fitted.predict(X) == y) == model.accuracy(run.models[1], X, y) > 0.9


def test_least_squares_becomes_linear_regression():
    """Diabetes: predictions are X y, and the error is the model's own."""
    X, y = load_diabetes(return_X_y=True)
    model = LeastSquares(shards((X, y), 3), reg=1e-3)
    run = trained(model)
    fitted = run.to_sklearn(centre=2)
    assert fitted.predict(X) == pytest.approx(X @ run.models[2])
    assert np.sqrt(np.mean((fitted.predict(X) - y) ** 2)) == pytest.approx(model.error(run.models[2], X, y))


class Mean:
    """A user's model: the mean of one number per node."""

    nodes, size = 3, 1

    def loss(self, node, y):
        return 0.5 * float((y[0] - node) ** 2)

    def gradient(self, node, y):
        return np.array([y[0] - node])


def test_what_scikit_learn_has_no_estimator_for_is_refused():
    """A run without a model, a user's own model, a centre that is not there, classes of nothing."""
    cost = Quadratic(a=np.ones(3), c=np.arange(3.0), lo=0.0, hi=9.0)
    no_model = solve(Problem(cost=cost, budget=9.0), Network.ring(3), rounds=5)
    with refused("run.model"):
        no_model.to_sklearn()
    with refused("estimator.none"):
        trained(Mean()).to_sklearn()
    run = trained(LeastSquares(shards(load_diabetes(), 3), reg=1e-3), rounds=5)
    with refused("run.centre", 3):
        run.to_sklearn(centre=3)
    with refused("estimator.classes"):
        run.to_sklearn(classes=["a", "b"])
