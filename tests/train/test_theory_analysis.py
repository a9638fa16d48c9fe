"""Predictions against runs, and the numbers of an analysis against textbooks and numpy."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, Quadratic, solve
from equipoise.train.theory.analysis import analyse, sweep
from equipoise.train.theory.predict import cpu_spectrum, rounds_to, slow_mixing
from equipoise.train.topology import edge_weights
from refusals import refused

IDEAL = Method(quantizer=Exact(), momentum=False)
STATIC = [
    Network.ring(12),
    Network.path(8),
    Network.erdos_renyi(15, 0.3),
    Network.grid(16),
    Network.star(9),
    Network.complete(8),
]
IN_TURN = [Network.ring(12, switching=3), Network.erdos_renyi(15, 0.3, switching=5)]


def regression(n: int, m: int, seed: int = 2) -> LeastSquares:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(m)
    shards = []
    for _ in range(n):
        X = rng.standard_normal((12, m)) * math.exp(0.7 * rng.standard_normal())
        shards.append((X, X @ truth + rng.standard_normal(12)))
    return LeastSquares(shards)


def market(n: int, seed: int = 1) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(Quadratic(np.exp(0.5 * rng.standard_normal(n)), rng.uniform(10, 40, n)), 25.0 * n)


@pytest.mark.parametrize("network", STATIC + IN_TURN, ids=repr)
def test_predicted_rounds_are_those_of_the_run(network: Network) -> None:
    """No boxes, ideal channel, no momentum: both halves within a factor of 2.5, to 1e-8."""
    problem, model = market(network.n), regression(network.n, 3)
    for half, guess in (
        (problem, analyse(problem, network, IDEAL, target=1e-8).cpu_rounds),
        (Problem(model=model), analyse(Problem(model=model), network, IDEAL, target=1e-8).learning_rounds),
    ):
        run = solve(half, network, IDEAL, rounds=12_000, target=1e-8, every=1)
        assert run.status == "converged" and guess is not None
        assert run.rounds / 2.5 < guess < 2.5 * run.rounds


@pytest.mark.parametrize("network", [STATIC[0], IN_TURN[1]], ids=repr)
def test_a_step_of_ones_own_is_predicted_as_it_is_played(network: Network) -> None:
    """Along edges nothing has momentum: `Method(step=...)` with it on or off is one run, and one prediction."""
    for problem in (market(network.n), Problem(model=regression(network.n, 3))):
        on, off = (Method(quantizer=Exact(), step=0.5, momentum=momentum) for momentum in (True, False))
        runs = [solve(problem, network, method, rounds=5000, target=1e-8, every=1) for method in (on, off)]
        found = [analyse(problem, network, method, target=1e-8) for method in (on, off)]
        assert runs[0].rounds == runs[1].rounds and found[0].as_dict() == found[1].as_dict()
        guess = found[0].cpu_rounds or found[0].learning_rounds
        assert guess is not None and guess / 2.5 < runs[0].rounds < 2.5 * guess


@pytest.mark.parametrize("network", [Network.ring(500), Network.erdos_renyi(350, 0.03)], ids=repr)
def test_the_spectrum_of_prices_agrees_with_dense_algebra(network: Network) -> None:
    """Too large for the dense way, small enough to check it."""
    graph = network.topology(0)
    h = np.exp(np.random.default_rng(0).standard_normal(network.n))
    w = edge_weights("curvature", graph, h)
    values = np.linalg.eigvalsh(np.sqrt(h)[:, None] * graph.laplacian(w).toarray() * np.sqrt(h))
    assert cpu_spectrum(graph, w, h) == pytest.approx((values[1], values[-1]), rel=1e-6)


def test_rounds_by_hand() -> None:
    """An error that halves each round needs ln(1e-6)/ln(1/4) = 9.97 rounds for a gap of 1e-6; one that stays, for ever."""
    assert rounds_to(1e-6, 0.5) == pytest.approx(9.966, abs=1e-3)
    assert rounds_to(1e-6, 1.0) == math.inf


@pytest.mark.parametrize("pull", [0.01, 1.0, 30.0])
def test_a_strong_pull_slows_agreement(pull: float) -> None:
    """The slower root of u^2 - (2 l + pull) u + l^2, by numpy; far above l it is l^2 / pull."""
    assert slow_mixing(0.3, pull) == pytest.approx(np.roots([1.0, -(0.6 + pull), 0.09]).min(), rel=1e-9)
    assert slow_mixing(0.01, 100.0) == pytest.approx(1e-6, rel=1e-3)


def test_a_ring_in_numbers() -> None:
    """Ten nodes: every number that a textbook has. Metropolis weights are 1/3, so lambda_k = (2 - 2 cos(2 pi k/10))/3."""
    model = LeastSquares([(np.eye(2), np.ones(2))] * 10)  # X'X / N = I / 20 at every node
    rng = np.random.default_rng(0)
    cost = Quadratic(2.0, rng.uniform(0, 50, 10))
    method = Method(quantizer=LogQuantizer(rho=0.5), momentum=False)
    found = analyse(Problem(cost, 250.0, model), Network.ring(10), method)
    assert (found.nodes, found.edges, found.smallest_degree, found.largest_degree, found.diameter) == (10, 10, 2, 2, 5)
    assert found.mixing_second == pytest.approx((2 - 2 * math.cos(math.pi / 5)) / 3)
    assert found.mixing_top == pytest.approx(4 / 3)
    assert found.cpu_top == pytest.approx(2.0)  # weights 1/(2 a): a w 4
    assert found.cpu_step_limit == pytest.approx(math.exp(-0.25))
    assert found.delay_limits[1] == pytest.approx(0.5)  # 2 cos(60 degrees) / 2
    assert (found.smoothness, found.convexity) == pytest.approx((1 / 20, 0.5))
    assert found.conditioning == pytest.approx(1.0, abs=1e-6)
    assert found.bits_a_round == 20 * (1 + 4) * found.bits_a_number
    assert found.crossing_alpha == pytest.approx(found.alpha_limit, rel=1e-4)  # equal Hessians
    assert (found.tracking_limit, found.tracking_crossing) == (found.alpha_limit, found.crossing_alpha)
    assert found.momentum is None and found.inertia is None
    assert found.crossing_alpha_in_time == math.inf
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["crossing_alpha_in_time"] is None


def test_unequal_shards_cross_later_than_the_safe_limit() -> None:
    """The limit with the largest L is a lower bound of the crossing, and the chosen alpha is below both."""
    found = analyse(Problem(model=regression(10, 3)), Network.erdos_renyi(10, 0.4), IDEAL)
    assert found.alpha is not None and found.alpha_limit is not None and found.crossing_alpha is not None
    assert found.alpha < found.alpha_limit < found.crossing_alpha
    ours = analyse(Problem(model=regression(10, 3)), Network.erdos_renyi(10, 0.4), Method(quantizer=Exact()))
    assert ours.alpha is None and ours.tracking_crossing == pytest.approx(found.crossing_alpha, rel=1e-6)


class Saddle(LeastSquares):
    """Two nodes, one parameter, curvatures 1 and -1/2: a sum that is convex of losses that are not."""

    def __init__(self) -> None:
        super().__init__([(np.ones((1, 1)), np.zeros(1))] * 2)
        self.hessian = np.array([[[1.0]], [[-0.5]]])

    def smoothness(self) -> np.ndarray:
        return np.array([1.0, 0.5])


def test_losses_that_are_not_convex_cross_in_continuous_time_too() -> None:
    """The eigenvalues are asked, not the formula for convex losses."""
    for method in (IDEAL, Method()):
        found = analyse(Problem(model=Saddle()), Network.path(2), method)
        assert found.crossing_alpha_in_time is not None and found.crossing_alpha_in_time < math.inf


@pytest.mark.parametrize("method", [IDEAL, Method()], ids=["edges", "links, so of the paper's"])
def test_a_sweep_passes_the_crossing_once(method: Method) -> None:
    """Below it every radius is below 1, above it above; in continuous time nothing crosses."""
    problem, network = Problem(model=regression(8, 2)), Network.erdos_renyi(8, 0.4, switching=2)
    found = analyse(problem, network, method)
    crossing = found.tracking_crossing if found.crossing_alpha is None else found.crossing_alpha
    assert crossing is not None
    rows = sweep(problem, network, method)
    for row in rows:
        if not math.isclose(row["alpha"], crossing, rel_tol=1e-4):
            assert (row["radius"] < 1.0) is (row["alpha"] < crossing)
        assert row["abscissa"] < 0
    assert rows[0]["alpha"] < 0.02 * crossing and rows[-1]["alpha"] > 1.2 * crossing


@pytest.mark.parametrize(
    ("problem", "network", "refusal"),
    [
        (market(4), Network.ring(4), ("problem.model",)),
        (Problem(model=regression(80, 4)), Network.ring(80), ("sweep.size", "80 x 4")),
    ],
    ids=["no model", "too large"],
)
def test_a_sweep_that_cannot_be_made_says_why(problem: Problem, network: Network, refusal: tuple[object, ...]) -> None:
    """No model, or too many eigenvalues."""
    with refused(*refusal):
        sweep(problem, network, IDEAL)


def test_large_networks_skip_what_is_too_large_and_say_so() -> None:
    """1e5 nodes on a ring: lambda_max is there, what needs dense algebra is not."""
    n = 100_000
    found = analyse(market(n), Network.ring(n), IDEAL)
    assert found.nodes == n and found.cpu_top is not None
    assert found.cpu_rounds is None and found.diameter is None
    assert found.notes["cpu_rounds"] == found.notes["diameter"] == "not computed: too large"


def test_either_half_may_be_absent() -> None:
    """What a half would say is None, and nothing fails; a node alone has nobody to negotiate with."""
    only_cpu, only_model = (
        analyse(market(5), Network.ring(5)),
        analyse(Problem(model=regression(5, 2)), Network.ring(5)),
    )
    assert only_cpu.alpha is None and only_cpu.cpu_rounds is not None
    assert only_model.cpu_top is None and only_model.learning_rounds is not None
    alone = analyse(market(1), Network.path(1)), analyse(Problem(model=regression(1, 2)), Network.path(1))
    assert alone[0].cpu_rounds is alone[1].learning_rounds is None
    assert (
        alone[0].notes["cpu_rounds"] == alone[1].notes["learning_rounds"] == "a node alone has nobody to negotiate with"
    )
