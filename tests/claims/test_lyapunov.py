"""Which functions fall along a run, which do not, and by how much: each claim on a concrete run."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from equipoise.claims.train._continuous import flow_in_time
from equipoise.claims.train._lyapunov import (
    CHANNELS,
    LyapunovTrace,
    cpu_decrease,
    energy,
    energy_in_time,
    norm,
    summary,
    trace,
    traces,
    weighted,
)
from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, Quadratic, Softmax
from equipoise.train.steps import choose_steps
from equipoise.train.theory import step_limit
from equipoise.train.theory.closed_loop import ClosedLoop, hessians, mixing
from equipoise.train.truth import optimal_model
from refusals import refused

IDEAL = Method(quantizer=Exact(), momentum=False)


def regression(n: int, m: int, seed: int, spread: float = 1.0) -> LeastSquares:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(m)
    shards = []
    for _ in range(n):
        X = rng.standard_normal((12, m)) * math.exp(spread * rng.standard_normal())
        shards.append((X, X @ truth + rng.standard_normal(12)))
    return LeastSquares(shards)


def market(n: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(Quadratic(np.exp(0.5 * rng.standard_normal(n)), rng.uniform(10, 40, n)), 25.0 * n)


def loop_of(model: LeastSquares, network: Network) -> ClosedLoop:
    best = model.optimum()
    assert best is not None
    return ClosedLoop(mixing(network, "metropolis"), hessians(model, best))


def test_a_trace_counts_by_hand() -> None:
    """8 -> 4 -> 6 -> 3 -> nothing -> noise: four rounds count, three fell, the rise was half; one switch, where it rose."""
    switched = np.array([False, True, False, False, False])
    found = LyapunovTrace("x", np.array([8.0, 4.0, 6.0, 3.0, 1e-15, 2e-15]), switched)
    assert found.fell.tolist() == [True, False, True, True]
    assert (found.share_falling, found.largest_rise) == (0.75, 0.5)
    assert found.counted.sum() == 4


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cpu_costs_fall_in_every_ideal_round_by_what_the_formula_says(seed: int) -> None:
    """Round by round of a real run; the formula needs only prices, the run's values come from costs and the optimum."""
    network, problem = Network.erdos_renyi(10, 0.4, seed=seed), market(10, seed)
    cost = problem.cost
    assert isinstance(cost, Quadratic)
    L = network.topology(0).laplacian().toarray()
    step = 0.5 * step_limit(float(np.linalg.eigvals(L * cost.a).real.max()))
    method = Method(quantizer=Exact(), momentum=False, cpu_weights="laplacian", step=step)
    found = trace(problem, network, method, rounds=60)["cpu"]
    x = np.full(10, 25.0)
    for k in range(20):
        prices = cost.derivative(x)
        expected = cpu_decrease(L, cost.a, prices, step)
        assert expected > 0
        assert found.values[k] - found.values[k + 1] == pytest.approx(expected, rel=1e-6, abs=1e-9 * found.values[0])
        x = x - step * (L @ prices)
    assert found.share_falling == 1.0


def test_past_the_step_limit_cpu_costs_rise() -> None:
    """The other side: 1.05 of 2 / lambda_max(L H), and the fastest mode grows in the end."""
    network, problem = Network.erdos_renyi(10, 0.4), market(10, 0)
    L = network.topology(0).laplacian().toarray()
    step = 1.05 * step_limit(float(np.linalg.eigvals(L * problem.cost.a).real.max()))  # type: ignore[union-attr]
    method = Method(quantizer=Exact(), momentum=False, cpu_weights="laplacian", step=step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trace(problem, network, method, rounds=80)["cpu"]
    assert found.values[-1] > found.values[-2] > found.values[-3]


def test_the_plain_norm_rises_in_a_run_that_converges_and_better_ones_do_not() -> None:
    """Path of five, automatic steps: the norm rises by half in one round; weighted norm and energy fall in every round."""
    model, network = regression(5, 3, seed=4, spread=1.5), Network.path(5)
    steps = choose_steps(None, model, model.smoothness(), network, IDEAL)
    assert steps.alpha is not None
    loop = loop_of(model, network)
    found = trace(
        Problem(model=model),
        network,
        IDEAL,
        rounds=3000,
        start=np.random.default_rng(4).standard_normal((5, 3)),
        values={"weighted": weighted(loop, steps.alpha, steps.step), "energy": energy(loop, steps.alpha, steps.step)},
    )
    assert found["norm"].values[-1] < 1e-3 * found["norm"].values[0]
    assert found["norm"].share_falling < 1.0 and found["norm"].largest_rise > 0.3
    assert found["weighted"].share_falling == 1.0
    assert found["energy"].share_falling == 1.0


def test_the_plain_norm_can_rise_for_many_rounds() -> None:
    """Path of twenty, automatic steps, from zero: it rises in more than a tenth of the rounds, and the run converges."""
    model, network = regression(20, 3, seed=0, spread=1.5), Network.path(20)
    steps = choose_steps(None, model, model.smoothness(), network, IDEAL)
    assert steps.alpha is not None
    values = {"energy": energy(loop_of(model, network), steps.alpha, steps.step)}
    found = trace(Problem(model=model), network, IDEAL, rounds=300, values=values)
    assert found["norm"].share_falling < 0.9
    assert found["energy"].share_falling == 1.0


@pytest.mark.parametrize("part", [0.3, 0.99, 1.02])
def test_the_energy_is_positive_and_changes_exactly_as_derived(part: float) -> None:
    """Along M itself: E+ - E = -1/2 s'(2 eta L - (eta L)^2 + eta alpha H) s; below the crossing E > 0, above it is not."""
    model, network, step = regression(6, 2, seed=1), Network.erdos_renyi(6, 0.5), 0.6
    loop = loop_of(model, network)
    alpha = part * loop.crossing(step)
    value, M = energy(loop, alpha, step), loop.round_map(alpha, step)
    S = np.kron(step * loop.laplacian, np.eye(2))
    H = np.zeros((12, 12))
    for i, block in enumerate(loop.hessians):
        H[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    state = loop.consistent @ np.random.default_rng(0).standard_normal(22)
    energies = []
    for _ in range(300):
        one, two = M @ state, M @ M @ state
        two_moves = two[:12] - state[:12]
        energies.append(value(*state.reshape(2, 6, 2)))
        expected = -0.5 * two_moves @ (2 * S - S @ S + step * alpha * H) @ two_moves
        assert value(*one.reshape(2, 6, 2)) - energies[-1] == pytest.approx(expected, rel=1e-6, abs=1e-9)
        state = one
    assert bool(min(energies) > 0) is (part < 1)


def test_no_weighted_norm_past_the_crossing() -> None:
    """An unstable loop has no such P: refused by name."""
    model, network = regression(5, 2, seed=1), Network.path(5)
    loop = loop_of(model, network)
    with refused("loop.unstable"):
        weighted(loop, 1.01 * loop.crossing(0.6), 0.6)


@pytest.mark.parametrize("alpha", [0.5, 50.0])
def test_in_continuous_time_the_energy_falls_for_losses_that_are_not_quadratic(alpha: float) -> None:
    """Softmax, the paper's equations by an ODE solver, alpha far above |lambda_2| / L: energy falls, the norm need not."""
    rng = np.random.default_rng(0)
    model = Softmax([(rng.standard_normal((9, 2)), np.arange(9) % 3) for _ in range(4)], reg=0.1)
    network = Network.path(4)
    times = np.linspace(0.0, 10.0, 201)
    found = flow_in_time(
        Problem(model=model),
        network,
        times=times,
        alpha=alpha,
        start=rng.standard_normal((4, model.size)),
        tolerance=1e-11,
    )
    assert found.models is not None and found.trackers is not None
    best = optimal_model(model).parameters
    value = energy_in_time(mixing(network, "laplacian"), alpha)
    values = np.array([value(y - best, z) for y, z in zip(found.models, found.trackers, strict=True)])
    assert (np.diff(values) < 1e-9 * values[0]).all()
    assert values[-1] < 0.1 * values[0]


def test_on_the_ideal_channel_a_static_graph_of_random_links_lets_the_norm_fall() -> None:
    """The good news: ten random networks, automatic steps, ideal or innovation coded, and it falls in every round."""
    for quantizer in (Exact(), LogQuantizer()):
        method = Method(quantizer=quantizer, momentum=False)
        for seed in range(5):
            network = Network.erdos_renyi(10, 0.4, seed=seed)
            found = trace(Problem(model=regression(10, 3, seed)), network, method, rounds=200)
            assert found["norm"].share_falling == 1.0


def test_node_wise_codes_end_the_fall() -> None:
    """The paper's channel: both functions rise again and again once prices and models share cells."""
    method = Method(quantizer=LogQuantizer(mode="node"), momentum=False)
    network = Network.erdos_renyi(10, 0.4)
    learnt = trace(Problem(model=regression(10, 3, 0)), network, method, rounds=400)["norm"]
    shared = trace(market(10, 0), network, method, rounds=400)["cpu"]
    assert learnt.share_falling < 0.9 and shared.share_falling < 0.9
    assert shared.values[-1] > 1e-9 * shared.values[0]


def test_costs_fall_through_switches() -> None:
    """CPU, five graphs in turn: costs fall in every ideal round; coded, they may rise for a while, and still arrive."""
    network = Network.erdos_renyi(10, 0.4, switching=5)
    ideal = trace(market(10, 0), network, IDEAL, rounds=150)["cpu"]
    assert ideal.share_falling == 1.0 and ideal.switched.any()
    coded = trace(market(10, 0), network, Method(momentum=False), rounds=150)["cpu"]
    assert coded.values[-1] < 1e-6 * coded.values[0]


def test_a_graph_that_stays_never_switches() -> None:
    """Static: no round is after a switch."""
    found = trace(market(6, 0), Network.ring(6), IDEAL, rounds=20)["cpu"]
    assert not found.switched.any()


def test_norm_by_hand() -> None:
    """1/2 (3^2 + 4^2)."""
    assert norm(np.array([[3.0]]), np.array([[4.0]])) == 12.5


def test_the_survey_tells_channels_apart() -> None:
    """Two seeds of it: ideal CPU costs always fall, the paper's channel does not let them."""
    ideal, node = (summary(traces("cpu", 1, CHANNELS[name], seeds=2, rounds=150)) for name in ("ideal", "node"))
    assert ideal["fell"] == ideal["after_switch"] == 1.0 and ideal["worst_rise"] == 0.0
    assert node["fell"] < 0.9 and node["last"] > ideal["last"]
