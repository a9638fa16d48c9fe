"""The ODE of the paper, and that small Euler steps follow it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from equipoise.claims.train._continuous import flow_in_time
from equipoise.train import Exact, LeastSquares, Method, Network, Problem, Quadratic, SmoothSVM, solve
from refusals import refused


def small_problem(seed=0):
    rng = np.random.default_rng(seed)
    shards = [(rng.standard_normal((6, 2)), rng.standard_normal(6)) for _ in range(5)]
    return Problem(Quadratic(rng.uniform(0.5, 3, 5), rng.uniform(0, 20, 5)), 50.0, LeastSquares(shards))


def test_euler_steps_approach_the_continuous_solution():
    """Halving the step halves the distance to the ODE at t = 2: first order, as Euler must be."""
    problem, network, alpha = small_problem(), Network.ring(5), 0.5
    exact = flow_in_time(problem, network, times=[0.0, 2.0], alpha=alpha)
    errors = []
    for step in (0.02, 0.01, 0.005):
        method = Method.paper(quantizer=Exact(), step=step, alpha=alpha, box="price")
        run = solve(problem, network, method, rounds=round(2 / step))
        errors.append((np.abs(run.shares - exact.shares[-1]).max(), np.abs(run.models - exact.models[-1]).max()))
    for half in (0, 1):
        first, second, third = (e[half] for e in errors)
        assert second / first == pytest.approx(0.5, abs=0.1)
        assert third / second == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("solver", ["RK45", "LSODA", "Radau", "BDF"])
def test_adaptive_solvers_keep_the_invariants(solver):
    """sum x = b and sum z = sum grad g at every time, to 2e-13 of their size or better than 1e-11 in all."""
    problem = small_problem()
    path = flow_in_time(
        problem, Network.ring(5), times=np.linspace(0, 20, 30), alpha=0.5, solver=solver, tolerance=1e-8
    )
    assert_allclose(path.shares.sum(axis=1), 50.0, atol=1e-11)
    for y, z in zip(path.models, path.trackers, strict=True):
        assert_allclose(z.sum(axis=0), problem.model.gradients(y).sum(axis=0), atol=1e-11)


def test_the_svm_of_20_centres_agrees_in_continuous_time():
    """Switching network, smooth SVM: parameters and bias of all nodes meet at the pooled optimum, the budget held."""
    from equipoise.train.truth import optimal_model

    rng = np.random.default_rng(1)
    shards = []
    for _ in range(20):
        labels = np.where(rng.random(15) < 0.5, -1, 1)
        shards.append((labels[:, None] * [1.0, 0.5] + rng.standard_normal((15, 2)), labels))
    model = SmoothSVM(shards, mu=3.0, reg=1.0)
    problem = Problem(Quadratic(rng.uniform(0.5, 3, 20), rng.uniform(0, 40, 20)), 500.0, model)
    network = Network.erdos_renyi(20, 0.3, switching=4, seed=2)
    path = flow_in_time(problem, network, times=[0, 10, 100.0], alpha=12.0, dwell=5.0, tolerance=1e-7)
    best = optimal_model(model).parameters
    assert_allclose(path.models[-1], np.tile(best, (20, 1)), atol=1e-8)
    assert_allclose(path.shares.sum(axis=1), 500.0, atol=1e-10)
    prices = problem.cost.derivative(path.shares[-1])
    assert np.ptp(prices) < 1e-4


def test_a_switching_network_needs_a_dwell_time():
    """How long each graph lasts is not known in continuous time."""
    with refused("switching.dwell"):
        flow_in_time(small_problem(), Network.ring(5, switching=2), times=[0, 1.0])
