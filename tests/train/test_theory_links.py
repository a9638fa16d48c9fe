"""Prices and models over links: the linear maps against rounds of the code, their stability, and predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, Quadratic, Softmax, solve
from equipoise.train.state import State
from equipoise.train.theory.analysis import analyse
from equipoise.train.theory.closed_loop import hessians
from equipoise.train.theory.predict import (
    DENSE_STATE,
    elasticity_weights,
    kept_sum,
    laplacians,
    link_radius,
    product_weights,
    round_maps,
    slowest_radius,
)

IDEAL = Method(quantizer=Exact())
NETWORKS = [
    Network.ring(12),
    Network.path(10),
    Network.erdos_renyi(15, 0.3),
    Network.grid(16),
    Network.star(9),
    Network.complete(8),
    Network.ring(12, switching=3),
    Network.erdos_renyi(15, 0.3, switching=5),
    Network.star(30, switching=6),
    Network.grid(400),
]


def market(n: int, seed: int = 1) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(Quadratic(np.exp(0.5 * rng.standard_normal(n)), rng.uniform(10, 40, n)), 25.0 * n)


def regression(n: int, m: int, seed: int = 2, spread: float = 0.7) -> LeastSquares:
    """Shards of different scale: unequal Hessians."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(m)
    shards = []
    for _ in range(n):
        X = rng.standard_normal((12, m)) * math.exp(spread * rng.standard_normal())
        shards.append((X, X @ truth + rng.standard_normal(12)))
    return LeastSquares(shards)


@pytest.mark.parametrize("graphs", [0, 3])
def test_the_map_is_what_rounds_of_prices_do(graphs: int) -> None:
    """Open boxes: shares and pulls node by node over twelve rounds, from the second meeting of each graph on."""
    network, rng = Network.erdos_renyi(9, 0.4, switching=graphs, seed=1), np.random.default_rng(0)
    a, c = 2.0 ** rng.uniform(-2, 3, 9), rng.uniform(10, 40, 9)
    state = State(Problem(Quadratic(a, c), 225.0), network, IDEAL)
    half = state.allocation
    assert half is not None
    price = (225.0 - c.sum()) / (1 / a).sum()  # by hand: sum (c + price/a) = 225
    told = half.layout.keep(half.node.told)
    weights = elasticity_weights(state.table, told, half.rule.theta, half.rule.lean, np.zeros(9, dtype=np.bool_))
    R = laplacians(state.table, weights)
    maps, first = round_maps(R, 1 / a, half.rule.relax), len(R)
    expected = np.zeros(0)
    for number in range(first + 12):
        state.advance(state.meet(number), number)
        pulls = half.layout.keep(half.node.pull) - [np.diag(one) * price for one in R]
        found = np.concatenate([half.units * half.rule.unit - (c + price / a), *pulls])
        expected = found if number < first else maps[number % first] @ expected
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("graphs", [0, 3])
def test_the_map_is_what_rounds_of_models_do(graphs: int) -> None:
    """Least squares: flows and means of every parameter over twelve rounds."""
    network, model = Network.erdos_renyi(7, 0.4, switching=graphs, seed=3), regression(7, 2)
    start = np.random.default_rng(1).standard_normal((7, 2))
    state = State(Problem(model=model), network, IDEAL, start=start)
    half = state.learning
    assert half is not None
    best = model.optimum()
    assert best is not None
    R = laplacians(state.table, product_weights(state.table, half.theta * half.L))
    maps, first = round_maps(R, hessians(model, best), half.pulls.relax), len(R)
    expected = np.zeros(0)
    for number in range(first + 12):
        state.advance(state.meet(number), number)
        flow = half.layout.keep(half.pulls.flow, axis=-2) - model.gradients(np.tile(best, (7, 1)))
        mean = half.layout.keep(half.pulls.mean, axis=-2) - np.array([np.diag(one)[:, None] * best for one in R])
        found = np.concatenate([flow.ravel(), mean.ravel()])
        expected = found if number < first else maps[number % first] @ expected
        assert found == pytest.approx(expected, abs=1e-8)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 2.0), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0.05, 0.99))
def test_every_weight_is_stable(u: float, bent: float, weight: float, relax: float) -> None:
    """A mode of any network, any curvature, any theta, any relaxation below 1: its error shrinks."""
    assert link_radius(u, bent, weight, relax) < 1.0
    assert link_radius(0.0, bent, weight, relax) < 1.0


def test_a_mode_by_hand() -> None:
    """e = 1, D = 2, u = 1/2, r = 0.9: p = (v + s)/3; v+ = v - 0.9 p; s+ = -0.8 s + 2.7 p."""
    by_hand = np.array([[1 - 0.3, -0.3], [0.9, -0.8 + 0.9]])
    assert link_radius(0.5, 1.0, 2.0, 0.9) == pytest.approx(np.abs(np.linalg.eigvals(by_hand)).max())
    assert link_radius(0.0, 1.0, 2.0, 0.9) == pytest.approx(abs(-0.8 + 1.8 * 2 / 3))


def test_modes_are_eigenvalues_of_the_whole() -> None:
    """A ring with equal curvatures: u = 1 - cos(2 pi k / 8), and the largest of the modes is that of all numbers."""
    n, weight, relax = 8, 1.7, 0.85
    A = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    kept = kept_sum(n, 1, 1)
    (M,) = round_maps([weight * (np.eye(n) - A / 2)], np.ones(n), relax)
    assert M @ kept == pytest.approx(kept @ (kept.T @ M @ kept), abs=1e-12)
    modes = [link_radius(1 - math.cos(2 * math.pi * k / n), 1.0, weight, relax) for k in range(n)]
    assert np.abs(np.linalg.eigvals(kept.T @ M @ kept)).max() == pytest.approx(max(modes))
    bound = slowest_radius(1 - math.cos(2 * math.pi / n), np.ones(1), weight, relax, 1, common=True)
    assert bound >= max(modes) - 1e-12


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_predicted_rounds_of_prices_are_those_of_the_run(network: Network) -> None:
    """No boxes, ideal channel and the default one: within a factor of 2 to 1e-8; a grid of 400 by its slowest mode."""
    problem = market(network.n)
    for method in (IDEAL, Method()):
        found = analyse(problem, network, method, target=1e-8)
        run = solve(problem, network, method, rounds=3000, target=1e-8, every=1)
        assert run.status == "converged" and run.method.cpu == found.cpu == "links" and found.cpu_rounds is not None
        assert run.rounds / 2 < found.cpu_rounds < 2 * run.rounds
        few = (1 + (network.period or 0)) * network.n <= DENSE_STATE
        assert found.notes["cpu_rounds"].startswith("eigenvalues" if few else "slowest mode")


@pytest.mark.parametrize(
    "network", [*NETWORKS, Network.ring(120), Network.erdos_renyi(150, 0.05, switching=4)], ids=repr
)
def test_predicted_rounds_of_models_are_those_of_the_run(network: Network) -> None:
    """The default channel and the ideal one, to 1e-8: within a factor of 2.5; large ones mode by mode."""
    problem = Problem(model=regression(network.n, 3))
    for method in (Method(), IDEAL):
        found = analyse(problem, network, method, target=1e-8)
        run = solve(problem, network, method, rounds=6000, target=1e-8, every=1)
        assert run.status == "converged" and found.learning == "links" and found.learning_rounds is not None
        assert run.rounds / 2.5 < found.learning_rounds < 2.5 * run.rounds
        few = (1 + (network.period or 0)) * network.n * 3 <= DENSE_STATE
        assert found.notes["learning_rounds"].startswith("eigenvalues" if few else "modes")


def test_predicted_rounds_where_boxes_are_at_work() -> None:
    """Half of the nodes end at a bound, where they pass prices on and give nothing: within a factor of 2.5."""
    rng = np.random.default_rng(3)
    problem = Problem(Quadratic(rng.uniform(0.5, 3, 14), rng.uniform(10, 40, 14), lo=20.0, hi=30.0), 14 * 25.0)
    network = Network.erdos_renyi(14, 0.3)
    guess, run = analyse(problem, network, target=1e-8).cpu_rounds, solve(problem, network, target=1e-8, every=1)
    assert run.status == "converged" and guess is not None
    assert run.shares is not None and (np.abs(run.shares - 25.0) > 4.999).sum() >= 5
    assert run.rounds / 2.5 < guess < 2.5 * run.rounds


def test_local_steps_are_about_as_good_as_exact_answers() -> None:
    """Softmax answers by a few steps of its gradient; the prediction takes them to be exact: within a factor of 2.5."""
    rng = np.random.default_rng(0)
    model = Softmax([(rng.standard_normal((9, 2)), np.arange(9) % 3) for _ in range(6)], reg=0.05)
    found = analyse(Problem(model=model), Network.ring(6), target=1e-8)
    run = solve(Problem(model=model), Network.ring(6), rounds=3000, target=1e-8, every=1)
    assert found.local_steps is not None and found.learning_rounds is not None
    assert run.status == "converged" and found.local_steps > 1
    assert run.rounds / 2.5 < found.learning_rounds < 2.5 * run.rounds


@pytest.mark.parametrize("rho", [0.125, 1.0])
@pytest.mark.parametrize("boxed", [False, True])
def test_bits_a_round_are_those_of_a_run(rho: float, boxed: bool) -> None:
    """Equal curvatures, boxes that bind nobody, both halves, two graphs in turn: two rounds more cost just twice as much."""
    box = {"lo": -1e3, "hi": 1e3} if boxed else {}
    problem = Problem(Quadratic(1.0, np.linspace(20.0, 30.0, 9), **box), 225.0, regression(9, 3))
    network = Network.sequence([Network.star(9), Network.ring(9)])
    method = Method(quantizer=LogQuantizer(rho=rho))
    bits = [solve(problem, network, method, rounds=rounds).bits for rounds in (30, 32)]
    found = analyse(problem, network, method)
    assert bits[1] - bits[0] == 2 * found.bits_a_round
    assert found.bits_a_number == {0.125: 10, 1.0: 7}[rho]


def test_an_analysis_names_what_would_be_played() -> None:
    """Links where they return, markets and averages where they do not, and what each has chosen."""
    problem = Problem(market(10).cost, 250.0, regression(10, 2))
    here, fresh = (analyse(problem, Network.erdos_renyi(10, 0.4, switching=s)) for s in (0, "fresh"))
    assert (here.cpu, here.learning, fresh.cpu, fresh.learning) == ("links", "links", "markets", "averages")
    run = solve(problem, Network.erdos_renyi(10, 0.4), rounds=1)
    used = {"cpu_theta": here.cpu_theta, "cpu_relax": here.cpu_relax, "model_theta": here.model_theta}
    assert {name: run.steps.links[name] for name in used} == used
    assert (here.alpha, here.momentum, here.inertia, here.crossing_alpha) == (None,) * 4
    assert here.tracking_crossing is not None
    assert fresh.alpha is not None and fresh.inertia is not None and fresh.link_gap is None and fresh.cpu_theta is None


def test_where_graphs_never_repeat_there_is_no_theory_and_it_says_so() -> None:
    """Markets and averages: chosen steps and bits, no rounds and no crossing but the paper's."""
    problem = Problem(market(10).cost, 250.0, regression(10, 2))
    found = analyse(problem, Network.erdos_renyi(10, 0.4, switching="fresh"))
    assert (found.cpu_rounds, found.learning_rounds, found.crossing_alpha) == (None,) * 3
    assert all(
        found.notes[name].startswith("no theory") for name in ("cpu_rounds", "learning_rounds", "crossing_alpha")
    )
    assert found.tracking_crossing is not None and found.bits_a_round > 0


def test_a_large_network_is_predicted_by_its_slowest_mode() -> None:
    """1e5 nodes on a ring: no dense algebra, and a number."""
    found = analyse(market(100_000), Network.ring(100_000))
    assert found.cpu_rounds is not None and found.notes["cpu_rounds"].startswith("slowest mode")
