"""One-way links: the budget holds, prices and models agree, and what cannot be sound is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.train import (
    Exact,
    Faults,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Partition,
    Problem,
    Quadratic,
    UniformQuantizer,
    solve,
)
from equipoise.train.dynamics.pushed import Pushed, stationary
from equipoise.train.exchange.relayed import Relay
from equipoise.train.hostile.descent import _limit
from equipoise.train.hostile.state import HostileState
from refusals import refused

NETWORKS = {
    "random": lambda: Network.erdos_renyi(20, 0.2, directed=True, seed=1),
    "switching": lambda: Network.erdos_renyi(20, 0.2, directed=True, seed=1, switching=4),
    "ring": lambda: Network.ring(8, directed=True),
    "unbalanced": lambda: Network.from_edges(
        [(0, 1), (1, 2), (2, 0), (3, 0), (4, 0), (0, 3), (0, 4), (2, 5), (5, 0)], directed=True
    ),
}


def quadratic(n, boxed, seed=0):
    rng = np.random.default_rng(seed)
    ends = {"lo": 0.0, "hi": 32.0} if boxed else {}
    return Quadratic(rng.uniform(0.5, 3.0, n), rng.uniform(10.0, 60.0, n), **ends)


def regression(n, seed=0):
    rng = np.random.default_rng(seed)
    return LeastSquares([(rng.normal(size=(12, 3)), rng.normal(size=12)) for _ in range(n)], reg=0.1)


def best_shares(cost, budget):
    """By bisection on the price, written out."""
    low, high = -1e4, 1e4
    for _ in range(200):
        price = (low + high) / 2
        total = np.clip(cost.c + price / cost.a, cost.lo, cost.hi).sum()
        low, high = (price, high) if total < budget else (low, price)
    return np.clip(cost.c + price / cost.a, cost.lo, cost.hi)


def watched(problem, network, method=None, rounds=4000, target=1e-11, faults=None):
    """A run in which every round's books were added up in Python integers."""

    def look(moment):
        state = moment.state
        ledger, alive = state.allocation, state.members.alive
        shares = [int(x) for x in ledger.shares[alive]]
        links = sum(int(s) - int(g) for s, g in zip(ledger.sent, ledger.received, strict=True))
        if alive.all():
            assert sum(shares) + links + int(ledger.escrow.sum()) == state.budget
        assert sum(shares) <= state.budget
        if state.market.boxed:
            low, high = state.market.low[alive], state.market.high[alive]
            assert (ledger.collecting[alive] | ((low <= ledger.shares[alive]) & (ledger.shares[alive] <= high))).all()

    return solve(problem, network, method, rounds=rounds, target=target, faults=faults, callback=look)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_both_halves_reach_the_optimum_and_the_budget_is_exact(name, boxed):
    network = NETWORKS[name]()
    n = network.n
    problem = Problem(quadratic(n, boxed), 25.0 * n, regression(n))
    run = watched(problem, network)
    assert run.certificate().passed
    assert run.worst.budget == 0.0
    assert_allclose(run.shares, best_shares(problem.cost, 25.0 * n), atol=1e-3)
    assert_allclose(run.models, np.tile(problem.model.optimum(), (n, 1)), atol=1e-4)
    gaps = run.history["cpu_gap"][-1], run.history["model_gap"][-1]
    assert max(gaps) < 1e-7  # absolute; relative to the start it is 1e-11


def test_gap_below_1e_10_on_a_switching_digraph():
    network = NETWORKS["switching"]()
    run = watched(Problem(quadratic(20, False), 500.0), network, rounds=2000, target=1e-15)
    assert abs(run.gap) < 1e-10
    assert float(np.sum(run.shares)) == 500.0


def test_weights_are_learnt_one_for_each_graph():
    """v = C v, against an eigenvector found by numpy."""
    network = NETWORKS["switching"]()
    state = HostileState(Problem(quadratic(20, False), 500.0), network, Method(), Faults(), rounds=500)
    for number in range(400):
        state.advance(state.meet(number), number)
    assert isinstance(state.allocation, Pushed)
    for phase in range(4):
        arcs = network.arcs(phase)
        C = np.zeros((20, 20))
        C[arcs.receivers, arcs.senders] = 1.0
        C += np.eye(20)
        C /= C.sum(axis=0)
        values, vectors = np.linalg.eig(C)
        v = np.real(vectors[:, np.argmax(np.real(values))])
        assert_allclose(state.allocation.weights[phase], v * 20 / v.sum(), rtol=1e-8)
        assert_allclose(stationary(network.arcs(phase)), v * 20 / v.sum(), rtol=1e-8)


def test_plain_pull_would_lose_the_budget():
    """A test of the refusal: what rows instead of columns do to the sum (7 units in the spec's run)."""
    network, cost = NETWORKS["unbalanced"](), quadratic(6, False)
    arcs, x = network.arcs(0), np.full(6, 25.0)
    for _ in range(100):
        price = cost.derivative(x)
        change = np.zeros(6)
        np.add.at(change, arcs.receivers, 0.05 * (price[arcs.senders] - price[arcs.receivers]))
        x = x + change
    assert abs(x.sum() - 150.0) > 1.0


@pytest.mark.parametrize(
    ("method", "refusal"),
    [
        (Method(quantizer=LogQuantizer(mode="edge")), ("unsound.quantizer",)),
        (Method.paper(), ("unsound.flows",)),
        (Method(quantizer=LogQuantizer(mode="node")), ("unsound.quantizer", "Exact()")),
        (Method(quantizer=UniformQuantizer()), ("unsound.quantizer", "Exact()")),
        (Method(step=0.1), ("unsound.flows",)),
        (Method(momentum=False), ("unsound.flows",)),
    ],
)
def test_what_is_not_sound_is_refused_with_the_reason(method, refusal):
    with refused(*refusal):
        solve(Problem(quadratic(20, False), 500.0), NETWORKS["random"](), method, rounds=10)


def test_a_new_digraph_every_round_is_refused_for_cpu_and_learns_models():
    network = Network.erdos_renyi(10, 0.4, directed=True, switching="fresh")
    with refused("unsound.fresh"):
        solve(Problem(quadratic(10, False), 250.0), network, rounds=10)
    run = solve(Problem(model=regression(10)), network, rounds=3000, target=1e-9)
    assert run.certificate().passed


@pytest.mark.parametrize(("quantizer", "reaches"), [(Exact(), 1e-11), (LogQuantizer(rho=0.5), 1e-11)])
def test_quantisers_that_are_sound(quantizer, reaches):
    """Codes of changes are exact."""
    problem = Problem(quadratic(20, False), 500.0)
    run = watched(problem, NETWORKS["random"](), Method(quantizer=quantizer), rounds=1500, target=None)
    assert run.worst.budget == 0.0
    assert abs(run.relative_gap) < reaches


def test_one_way_lossy_and_tight_boxes_together():
    """The way back is lossy as well; a centre crashes on the way, one joins, the network splits and heals."""
    faults = Faults(loss=0.2, delay=2, crash={7: 137}, join={9: 250}, partition=Partition(range(10), 300, 380))
    network = Network.erdos_renyi(20, 0.3, directed=True, seed=3)
    run = watched(Problem(quadratic(20, True), 500.0, regression(20)), network, rounds=6000, target=1e-9, faults=faults)
    assert run.certificate().passed
    assert run.worst.budget == 0.0 and run.worst.over <= 0.0
    assert run.shares[7] == 0.0
    there = run.present
    cost = Quadratic(*(part[there] for part in (problem_cost(20).a, problem_cost(20).c)), lo=0.0, hi=32.0)
    assert_allclose(run.shares[there], best_shares(cost, 500.0), atol=1e-2)


def problem_cost(n):
    return quadratic(n, True)


def test_the_way_back_on_a_ring_goes_all_around():
    relay = Relay(Network.ring(6, directed=True))
    everybody, nobody = np.ones(6, dtype=bool), np.zeros(6, dtype=bool)
    hops, rounds = relay.ways(np.array([0, 1]), np.array([1, 0]), everybody, nobody)
    assert_array_equal(hops, [1, 5])
    assert_array_equal(rounds, [[1, 5]])
    without = everybody.copy()
    without[3] = False
    hops, _ = relay.ways(np.array([0, 1]), np.array([1, 0]), without, nobody)
    assert_array_equal(hops, [1, 0])  # the ring is cut: no way back


def test_ways_wait_for_links_that_come_in_turn():
    """0 -> 1 only in even rounds, 1 -> 0 only in odd ones."""
    turns = [[(0, 1), (1, 2), (2, 0)], [(1, 0), (0, 2), (2, 1)]]
    network = Network.sequence([Network.from_edges(edges, directed=True) for edges in turns])
    hops, rounds = Relay(network).ways(np.array([0, 1]), np.array([1, 0]), np.ones(3, bool), np.zeros(3, bool))
    assert_array_equal(hops, [1, 1])
    assert_array_equal(rounds, [[1, 2], [2, 1]])


def test_descent_limit_is_where_modes_turn_unstable():
    """Against the roots that numpy finds, on both sides of the limit."""
    for mu in (0.3, 0.8, 0.4 + 0.4j, 0.7 + 0.3j, 0.95 + 0.05j):
        limit = _limit(np.array([mu]))
        for part, stable in ((0.99, True), (1.01, False)):
            h = part * limit
            roots = np.roots([1.0, h - 2 * mu, mu**2 - h])
            if limit < 0.319 or stable:
                assert (np.abs(roots).max() < 1.0) == stable


def test_resume_repeats_bit_for_bit(tmp_path):
    problem, network = Problem(quadratic(20, True), 500.0, regression(20)), NETWORKS["random"]()
    faults, kept = Faults(loss=0.2, crash={3: 40}), tmp_path / "checkpoint.npz"
    whole = solve(problem, network, rounds=120, faults=faults)
    solve(
        problem,
        network,
        rounds=120,
        faults=faults,
        checkpoint=kept,
        checkpoint_every=60,
        callback=lambda moment: moment.number == 60,
    )
    again = solve(problem, network, rounds=120, faults=faults, resume=kept)
    assert_array_equal(whole.shares, again.shares)
    assert_array_equal(whole.models, again.models)
    assert whole.bits == again.bits
