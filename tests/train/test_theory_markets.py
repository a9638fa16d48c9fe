"""The markets' linear map: against rounds of the code, and its predictions against runs."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.train import Exact, Method, Network, Problem, Quadratic, solve
from equipoise.train.solve import Moment
from equipoise.train.steps import market_inertia, slowest_gap
from equipoise.train.theory.analysis import analyse
from equipoise.train.theory.bounds import budgeted, market_map, mode_radius

IDEAL = Method(quantizer=Exact(), cpu="markets")


def market(n: int, seed: int = 1) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(Quadratic(np.exp(0.5 * rng.standard_normal(n)), rng.uniform(10, 40, n)), 25.0 * n)


def test_the_map_is_what_rounds_do() -> None:
    """Curvatures that are powers of two, which the codes of elasticities hold exactly: six rounds, share by share."""
    network, rng = Network.erdos_renyi(9, 0.4), np.random.default_rng(0)
    a, c = 2.0 ** rng.integers(-2, 3, 9), rng.uniform(10, 40, 9)
    seen: list[np.ndarray] = []

    def look(moment: Moment) -> None:
        assert moment.shares is not None
        seen.append(moment.shares)

    solve(Problem(Quadratic(a, c), 225.0), network, IDEAL, rounds=6, callback=look)
    price = (225.0 - c.sum()) / (1 / a).sum()  # by hand: sum (c + price/a) = 225
    best = c + price / a
    M = market_map(network.topology(0), 1 / a, 1 / a, market_inertia(slowest_gap(network)))
    state = np.concatenate([25.0 - best, a * (25.0 - c) - price])
    for shares in seen:
        state = M @ state
        assert shares - best == pytest.approx(state[:9], abs=1e-6)


def test_every_inertia_is_stable_on_the_budget() -> None:
    """A map with any theta, any elasticities, two nodes at their bounds: all eigenvalues inside the circle."""
    rng = np.random.default_rng(0)
    graph, kept = Network.erdos_renyi(9, 0.4).topology(0), budgeted(9)
    for inertia in (1e-2, 0.5, 1.0, 10.0, 1e3):
        elasticity = np.exp(rng.standard_normal(9))
        M = market_map(graph, elasticity, elasticity * (np.arange(9) > 1), inertia)
        assert np.abs(np.linalg.eigvals(kept.T @ M @ kept)).max() < 1.0
        assert M @ kept == pytest.approx(kept @ (kept.T @ M @ kept), abs=1e-9)


@pytest.mark.parametrize("inertia", [0.3, 1.0, 7.0])
def test_modes_have_the_radius_of_their_two_by_two(inertia: float) -> None:
    """s+ = s - th (1 - t) p, (1 + th) p+ = s+ + th t p, by numpy; a path of two has the modes t = 0 and 1."""
    for t in (0.0, 0.4, 0.9, 0.999):
        by_hand = np.array([[1.0, -inertia * (1 - t)], [1.0, inertia * (2 * t - 1)]])
        by_hand[1] /= 1 + inertia
        assert mode_radius(t, inertia) == pytest.approx(np.abs(np.linalg.eigvals(by_hand)).max(), abs=1e-7)
    kept = budgeted(2)
    M = market_map(Network.path(2).topology(0), np.ones(2), np.ones(2), inertia)
    expected = max(mode_radius(0.0, inertia), mode_radius(1.0, inertia))
    assert np.abs(np.linalg.eigvals(kept.T @ M @ kept)).max() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    "network",
    [
        Network.ring(12),
        Network.path(10),
        Network.erdos_renyi(15, 0.3),
        Network.grid(16),
        Network.star(9),
        Network.complete(8),
        Network.ring(12, switching=3),
        Network.erdos_renyi(15, 0.3, switching=5),
        Network.grid(400),
    ],
    ids=repr,
)
def test_predicted_rounds_are_those_of_the_run(network: Network) -> None:
    """No boxes, ideal channel: within a factor of 2 to 1e-8; a grid of 400 by its slowest mode alone."""
    problem = market(network.n)
    guess = analyse(problem, network, IDEAL, target=1e-8).cpu_rounds
    run = solve(problem, network, IDEAL, rounds=3000, target=1e-8, every=1)
    assert run.status == "converged" and guess is not None
    assert run.rounds / 2 < guess < 2 * run.rounds
