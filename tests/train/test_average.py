"""The learning half by averages over neighbourhoods: its equations, its invariant, and slow networks."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, solve
from equipoise.train.exchange.rows import adjacency
from equipoise.train.state import State


def regression(nodes, size=3, rows=8, seed=0, reg=0.0):
    """Each centre sees the same law through its own rows and noise."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(size)
    shards = [(X, X @ truth + rng.standard_normal(rows)) for X in rng.standard_normal((nodes, rows, size))]
    return LeastSquares(shards, reg=reg)


@pytest.mark.parametrize("switching", [0, 5, "fresh"])
@pytest.mark.parametrize("quantizer", [Exact(), LogQuantizer(), LogQuantizer(rho=1.0)], ids=["exact", "log", "coarse"])
def test_trackers_sum_to_the_gradients_in_every_round(switching, quantizer):
    """Whatever codes lose: what leaves one tracker enters another, so sum z = sum grad g to rounding, and not by chance."""
    model = regression(15)
    worst, size, spread = 0.0, 0.0, 0.0

    def look(moment):
        nonlocal worst, size, spread
        y, z = moment.models, moment.state.learning.trackers
        size = max(size, float(np.abs(z).sum(axis=0).max()))
        worst = max(worst, float(np.abs(z.sum(axis=0) - model.gradients(y).sum(axis=0)).max()))
        spread = max(spread, float(np.abs(z - model.gradients(y)).max()))

    network = Network.erdos_renyi(15, 0.25, switching=switching, seed=2)
    method = Method(quantizer=quantizer, learning="averages")
    solve(Problem(model=model), network, method, rounds=300, start="random", callback=look)
    assert worst <= 1e-13 * size
    assert spread > 1e-3 * size  # each tracker by itself is far from its own gradient


@pytest.mark.parametrize(
    "network",
    [
        Network.path(100),
        Network.star(30, switching="fresh", seed=1),
        Network.star(30, switching=30, seed=2),
        Network.star(30),
    ],
    ids=["path", "star, fresh", "star, in turn", "star"],
)
def test_slow_and_restless_networks_reach_1e_8(network):
    """A path of 100, and stars whose hub moves every round: every node's own model within 1500 rounds."""
    for seed in range(2):
        run = solve(Problem(model=regression(network.n, seed=seed)), network, rounds=1500, target=1e-8)
        assert run.status == "converged"
        assert run.certificate().passed


@pytest.mark.parametrize("cap", ["auto", 0.3])
@pytest.mark.parametrize("switching", [0, 4, "fresh"])
def test_a_round_is_this_formula(switching, cap):
    """Ideal codes, thirty rounds: models and trackers equal the equations in dense NumPy, to rounding."""
    model, network = regression(9, reg=0.1), Network.erdos_renyi(9, 0.4, switching=switching, seed=3)
    state = State(
        Problem(model=model), network, Method(quantizer=Exact(), cap=cap, learning="averages"), seed=5, start="random"
    )
    alpha, beta = state.steps.alpha, state.steps.momentum
    assert cap == "auto" or beta == cap
    y = state.models.copy()
    gradient = model.gradients(y)
    z, before = gradient.copy(), y.copy()
    for number in range(30):
        graph = network.topology(number)
        A = np.eye(9)
        A[graph.tails, graph.heads] = A[graph.heads, graph.tails] = 1.0
        r = 1 / A.sum(axis=1)
        means = A @ (r[:, None] * y) / (A @ r)[:, None]  # what each meeting answers
        average = r[:, None] * (A @ means)
        z = z - (1 - beta) / alpha * (average - y)
        y = average + beta * (average - before) - alpha * z
        before = average
        gradient, old = model.gradients(y), gradient
        z = z + gradient - old
        assert state.advance(state.meet(number), number) is None
        assert_allclose(state.models, y, rtol=0, atol=1e-12 * np.abs(y).max())
        assert_allclose(state.learning.trackers, z, rtol=0, atol=1e-12 * max(1.0, np.abs(z).max()))


def test_agreement_at_the_optimum_is_a_fixed_point():
    """Every node at the pooled optimum: models stay there while trackers, which begin at each one's own gradient, mix."""
    model = regression(12)
    best = solve(Problem(model=model), Network.complete(12), rounds=1).model_optimum.parameters
    run = solve(Problem(model=model), Network.ring(12), Method(quantizer=Exact()), rounds=2000, start=best)
    assert_allclose(run.models, np.tile(best, (12, 1)), atol=1e-9)
    assert run.worst.tracker < 1e-13


def test_one_node_alone_descends():
    """Nobody to talk to: plain descent with momentum, no bits of models."""
    run = solve(Problem(model=regression(1, rows=20)), Network.complete(1), rounds=500, target=1e-10)
    assert run.status == "converged"
    assert run.bits == 0


@given(st.integers(1, 12), st.floats(0.0, 1.0), st.integers(0, 2**32))
def test_adjacency_lists_are_those_of_networkx(nodes, density, seed):
    """Every node's neighbours in ascending order, each with its edge and the place where it is listed in return."""
    graph = nx.gnp_random_graph(nodes, density, seed=seed)
    edges = sorted((min(e), max(e)) for e in graph.edges)
    tails, heads = (np.array([e[k] for e in edges], dtype=np.int64) for k in (0, 1))
    first, node, edge, back = adjacency(nodes, tails, heads)
    assert first[0] == 0
    assert first[-1] == len(node) == 2 * len(edges)
    for i in range(nodes):
        mine = range(first[i], first[i + 1])
        assert [node[e] for e in mine] == sorted(graph.neighbors(i))
        for e in mine:
            assert edges[edge[e]] == (min(i, node[e]), max(i, node[e]))
            assert node[back[e]] == i
            assert first[node[e]] <= back[e] < first[node[e] + 1]
