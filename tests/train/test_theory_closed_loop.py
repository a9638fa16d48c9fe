"""The linearised closed loop: against a round of the code, the ODE, closed forms, and runs beside the crossing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.linalg import expm

from equipoise.claims.train._continuous import flow_in_time
from equipoise.train import Exact, LeastSquares, Method, Network, Problem, Softmax, solve
from equipoise.train.solve import Moment
from equipoise.train.theory import alpha_limit
from equipoise.train.theory.closed_loop import ClosedLoop, bend_at, convex_crossing, hessians, mixing

NETWORK = Network.erdos_renyi(7, 0.4, seed=3)


def regression(n: int, m: int, seed: int = 0, spread: float = 1.0) -> LeastSquares:
    """Shards of very different scale: unequal Hessians."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(m)
    shards = []
    for _ in range(n):
        X = rng.standard_normal((6, m)) * math.exp(spread * rng.standard_normal())
        shards.append((X, X @ truth + rng.standard_normal(6)))
    return LeastSquares(shards)


def loop_of(model: LeastSquares, network: Network, weights: str = "metropolis") -> ClosedLoop:
    best = model.optimum()
    assert best is not None
    return ClosedLoop(mixing(network, weights), hessians(model, best))


def played(
    model: LeastSquares, network: Network, alpha: float, step: float, rounds: int, start: np.ndarray
) -> np.ndarray:
    """(y, z) after some rounds of the code itself on the ideal channel."""
    kept: list[np.ndarray] = []

    def look(moment: Moment) -> None:
        learning = moment.state.learning
        assert learning is not None
        kept.append(np.concatenate([learning.models.ravel(), learning.trackers.ravel()]))

    method = Method(quantizer=Exact(), momentum=False, alpha=alpha, step=step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve(Problem(model=model), network, method, rounds=rounds, start=start, callback=look, every=rounds)
    return kept[-1]


def test_hessians_of_least_squares_are_sums_of_rows() -> None:
    """X'X / N by hand for every shard, from data drawn again."""
    rng = np.random.default_rng(5)
    data = [(rng.standard_normal((4, 3)), rng.standard_normal(4)) for _ in range(3)]
    found = hessians(LeastSquares(data), np.zeros(3))
    assert found == pytest.approx(np.stack([X.T @ X / 12 for X, _ in data]), abs=1e-9)


def test_bending_is_multiplying_by_the_hessians() -> None:
    """A softmax at some point: one product from two gradients, against the full Hessians."""
    rng = np.random.default_rng(0)
    model = Softmax([(rng.standard_normal((8, 2)), np.array([0, 1, 2, 0, 1, 2, 0, 1])) for _ in range(3)])
    at, V = rng.standard_normal(model.size), rng.standard_normal((3, model.size))
    assert bend_at(model, at)(V) == pytest.approx(np.einsum("ijk,ik->ij", hessians(model, at), V), abs=1e-7)


def test_the_round_map_is_what_one_round_does() -> None:
    """One round from a random start, minus the optimum, equals M times the start; unequal Hessians."""
    model = regression(7, 2)
    best = model.optimum()
    assert best is not None
    start = np.random.default_rng(1).standard_normal((7, 2))
    alpha, step = 0.4, 0.5
    before = np.concatenate([(start - best).ravel(), model.gradients(start).ravel()])
    after = played(model, NETWORK, alpha, step, 1, start)
    after[:14] -= np.tile(best, 7)
    assert after == pytest.approx(loop_of(model, NETWORK).round_map(alpha, step) @ before, abs=1e-8)


def test_the_generator_is_what_the_ode_does() -> None:
    """expm(A t) against an adaptive solver of the paper's equations."""
    model, alpha, time = regression(7, 2), 0.7, 3.0
    best = model.optimum()
    assert best is not None
    start = np.random.default_rng(1).standard_normal((7, 2))
    found = flow_in_time(Problem(model=model), NETWORK, times=[0.0, time], alpha=alpha, start=start)
    assert found.models is not None and found.trackers is not None
    before = np.concatenate([(start - best).ravel(), model.gradients(start).ravel()])
    after = expm(loop_of(model, NETWORK, "laplacian").generator(alpha) * time) @ before
    assert after == pytest.approx(
        np.concatenate([(found.models[1] - best).ravel(), found.trackers[1].ravel()]), abs=1e-7
    )


def test_the_consistent_subspace_holds_runs_and_hides_the_trivial_eigenvalues() -> None:
    """m eigenvalues of A are 0 for any alpha; the subspace of z = grad g is invariant and has the others."""
    model = regression(7, 2)
    loop = loop_of(model, NETWORK)
    for alpha in (0.1, 2.0):
        everything = np.linalg.eigvals(loop.generator(alpha))
        assert (np.abs(everything) < 1e-6).sum() == 2
        found = loop.eigenvalues(alpha)
        assert len(found) == 2 * 14 - 2 and np.abs(found).min() > 1e-6
        moved = loop.generator(alpha) @ loop.consistent
        assert moved == pytest.approx(loop.consistent @ (loop.consistent.T @ moved), abs=1e-9)
    best = model.optimum()
    assert best is not None
    start = np.random.default_rng(1).standard_normal((7, 2))
    run = np.concatenate([(start - best).ravel(), model.gradients(start).ravel()])
    assert run == pytest.approx(loop.consistent @ (loop.consistent.T @ run), abs=1e-8)


@pytest.mark.parametrize("step", [0.2, 0.6, 1.1])
def test_equal_hessians_cross_where_the_closed_form_says(step: float) -> None:
    """(2 - step lambda_max)^2 / (2 step h), with a second, flatter coordinate that must not matter."""
    L = mixing(NETWORK, "metropolis")
    loop = ClosedLoop(L, np.tile(np.diag([2.0, 0.3]), (7, 1, 1)))
    expected = alpha_limit(step, float(np.linalg.eigvalsh(L)[-1]), 2.0)
    assert loop.crossing(step) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_runs_converge_just_below_the_crossing_and_diverge_just_above(seed: int) -> None:
    """Unequal Hessians, the code itself at 0.97 and 1.03 of where the eigenvalues cross."""
    model, step = regression(7, 2, seed), 0.6
    loop = loop_of(model, NETWORK)
    crossing = loop.crossing(step)
    start = np.random.default_rng(1).standard_normal((7, 2))
    best = model.optimum()
    assert best is not None
    first = np.abs(start - best).max()
    near, far = (
        np.abs(played(model, NETWORK, part * crossing, step, 1200, start)[:14] - np.tile(best, 7)).max()
        for part in (0.97, 1.03)
    )
    assert near < 1e-2 * first
    assert far > 1e3 * first
    assert loop.radius(0.97 * crossing, step) < 1.0 < loop.radius(1.03 * crossing, step)


@pytest.mark.parametrize("seed", range(5))
def test_the_symmetric_form_finds_the_same_crossing(seed: int) -> None:
    """1 / (2 step lambda_max(R H R)) against bisection on all eigenvalues; rank-one Hessians, random graphs and steps."""
    rng = np.random.default_rng(seed)
    network = Network.erdos_renyi(8, 0.4, seed=seed)
    rows = rng.standard_normal((8, 3, 1)) * np.exp(rng.standard_normal((8, 1, 1)))
    bent = rows @ rows.transpose(0, 2, 1)
    step = float(rng.uniform(0.1, 1.2))
    found = convex_crossing(network, "metropolis", lambda V: np.einsum("ijk,ik->ij", bent, V), 3, step)
    assert found == pytest.approx(ClosedLoop(mixing(network, "metropolis"), bent).crossing(step), rel=1e-6)


def test_large_networks_are_solved_without_an_inverse() -> None:
    """A ring of 400 with equal Hessians 2: lambda_max of Metropolis weights 1/3 is 4/3; the closed form again."""
    found = convex_crossing(Network.ring(400), "metropolis", lambda V: 2.0 * V, 1, 0.6)
    assert found == pytest.approx((2 - 0.6 * 4 / 3) ** 2 / (2 * 0.6 * 2.0), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_convex_losses_never_cross_in_continuous_time(seed: int) -> None:
    """y'' + (2 L + alpha H) y' + L^2 y = 0 is damped whatever alpha: no eigenvalue crosses up to a huge one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 2, 1)) * np.exp(2 * rng.standard_normal((6, 1, 1)))
    loop = ClosedLoop(mixing(Network.path(6), "laplacian"), X @ X.transpose(0, 2, 1))
    assert loop.crossing() == math.inf
    assert all(loop.abscissa(alpha) < 0 for alpha in (1e-2, 1.0, 1e2, 1e4))


def test_a_non_convex_loss_does_cross_in_continuous_time() -> None:
    """Two nodes, curvatures 1 and -1/2 (their sum is convex): the ODE decays below the crossing and grows above."""
    loop = ClosedLoop(mixing(Network.path(2), "laplacian"), np.array([[[1.0]], [[-0.5]]]))
    crossing = loop.crossing()
    assert 0 < crossing < math.inf
    start = loop.consistent @ np.ones(3)
    sizes = [np.abs(expm(loop.generator(part * crossing) * 4000.0) @ start).max() for part in (0.98, 1.02)]
    assert sizes[0] < 1e-6 and sizes[1] > 1e6


def test_a_step_past_mixing_leaves_no_alpha() -> None:
    """step lambda_max > 2: both ways say 0."""
    top = float(np.linalg.eigvalsh(mixing(NETWORK, "metropolis"))[-1])
    step = 2.01 / top
    assert ClosedLoop(mixing(NETWORK, "metropolis"), np.ones((7, 1, 1))).crossing(step) == 0.0
    assert convex_crossing(NETWORK, "metropolis", lambda V: V, 1, step) == 0.0
