"""Averages over neighbourhoods: the linear map against rounds of the code, its stability to both sides, and predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.claims.train._lyapunov import averages_distance, averages_energy
from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, Softmax, solve
from equipoise.train.average import Averaging
from equipoise.train.links import Links
from equipoise.train.models._base import Model
from equipoise.train.sampler import Sampler
from equipoise.train.steps import Steps
from equipoise.train.theory import meeting_limit
from equipoise.train.theory.analysis import analyse
from equipoise.train.theory.averages import (
    AveragesLoop,
    averages_crossing,
    averages_limit,
    averages_loop,
    averages_radius,
    meeting_operator,
    slowest_delta,
)
from equipoise.train.theory.closed_loop import MARGIN, first_unstable, hessians
from equipoise.train.theory.predict import DENSE_STATE
from equipoise.train.truth import optimal_model

IDEAL = Method(quantizer=Exact(), learning="averages")
CODED = Method(learning="averages")
NETWORK = Network.erdos_renyi(7, 0.4, seed=3)


def regression(n: int, m: int, seed: int = 2, spread: float = 0.7) -> LeastSquares:
    """Shards of different scale: unequal Hessians."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(m)
    shards = []
    for _ in range(n):
        X = rng.standard_normal((12, m)) * math.exp(spread * rng.standard_normal())
        shards.append((X, X @ truth + rng.standard_normal(12)))
    return LeastSquares(shards)


def rows(n: int, m: int, seed: int) -> np.ndarray:
    """Hessians of rank one and of very different size."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m, 1)) * np.exp(rng.standard_normal((n, 1, 1)))
    return np.asarray(x @ x.transpose(0, 2, 1))


def played(
    model: Model, network: Network, alpha: float, beta: float, rounds: int, start: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Models, trackers and averages after every round of the code itself on the ideal channel, until they run away."""
    links = Links(network)
    half = Averaging(Sampler(model), IDEAL, Steps(0.6, None, alpha, None, beta), slots=links.slots, start=start)
    for number in range(rounds):
        if not half.advance(links.round(number), number):
            return
        yield half.models.copy(), half.trackers.copy(), half.average.copy()


@pytest.mark.parametrize("beta", [0.0, 0.6])
def test_the_map_is_what_rounds_do(beta: float) -> None:
    """Six rounds from a random start, unequal Hessians, number by number; the average of a round ago begins as y."""
    model, alpha = regression(7, 2), 0.3
    best = optimal_model(model).parameters
    start = np.random.default_rng(1).standard_normal((7, 2))
    M = averages_loop(NETWORK.topology(0), hessians(model, best), beta).round_map(alpha)
    state = np.concatenate([(start - best).ravel(), model.gradients(start).ravel(), (start - best).ravel()])
    for y, z, average in played(model, NETWORK, alpha, beta, 6, start):
        state = M @ state
        found = np.concatenate([(y - best).ravel(), z.ravel(), (average - best).ravel()])
        assert found == pytest.approx(state, abs=1e-8)


@pytest.mark.parametrize("network", [NETWORK, Network.star(6), Network.path(5), Network.complete(4)], ids=repr)
def test_the_operator_is_symmetric_and_averages(network: Network) -> None:
    """Rows sum to 1, eigenvalues lie in [0, 1], and the second is the network's gap; a complete graph agrees at once."""
    T = meeting_operator(network.topology(0)).toarray()
    values = np.linalg.eigvalsh(T)
    assert pytest.approx(T.T) == T and T.sum(axis=1) == pytest.approx(1.0)
    assert values.min() > -1e-12 and values.max() == pytest.approx(1.0)
    assert slowest_delta([network.topology(0)]) == pytest.approx(1 - values[-2])
    assert slowest_delta([network.topology(0)] * 2) == pytest.approx(1 - values[-2])
    if network.n == 4:
        assert pytest.approx(0.25) == T


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.95])
def test_the_radius_of_a_mode_is_that_of_its_three_by_three(beta: float) -> None:
    """(y, z, average) with alpha = 1 and h = eps, by numpy; for equal models the heavy ball of the textbook."""
    deltas, bends = np.meshgrid([0.05, 0.4, 1.0], [0.01, 0.4, 1.9])
    for delta, eps, radius in zip(
        deltas.ravel(), bends.ravel(), averages_radius(deltas, bends, beta).ravel(), strict=True
    ):
        move = np.array([(1 + beta) * (1 - delta) - (1 - beta) * delta, -1.0, -beta])
        track = np.array([(1 - beta) * delta - eps, 1.0, 0.0]) + eps * move
        by_hand = np.abs(np.linalg.eigvals(np.stack([move, track, [1 - delta, 0, 0]]))).max()
        assert radius == pytest.approx(by_hand, abs=1e-6)
        assert isinstance(averages_radius(float(delta), float(eps), beta), float)
    heavy_ball = np.abs(np.linalg.eigvals([[1 + beta - 0.2, -beta], [1.0, 0.0]])).max()
    assert averages_radius(0.0, 0.2, beta) == pytest.approx(heavy_ball, abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.0, 0.97), st.floats(0.001, 0.999))
def test_a_mode_is_stable_up_to_its_limit_and_not_beyond(delta: float, beta: float, part: float) -> None:
    """eps < (1 + beta)(2 - 3/2 delta): any part of it is stable, a hundredth more is not."""
    limit = averages_limit(delta, beta)
    assert averages_radius(delta, part * limit, beta) < 1.0 < averages_radius(delta, 1.01 * limit, beta)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_a_complete_graph_converges_just_below_the_limit_and_diverges_just_above(beta: float) -> None:
    """The code itself at 0.98 and 1.02 of (1 + beta)/(2 L), equal Hessians 3/18 with answers that differ."""
    rng = np.random.default_rng(0)
    model = LeastSquares([(np.sqrt(3.0) * np.eye(3), rng.standard_normal(3)) for _ in range(6)])
    best, start = optimal_model(model).parameters, rng.standard_normal((6, 3))
    limit = meeting_limit(float(model.smoothness().max()), beta)
    assert limit == pytest.approx(3 * (1 + beta))
    near, far = (
        [np.abs(y - best).max() for y, _, _ in played(model, Network.complete(6), part * limit, beta, 1500, start)]
        for part in (0.98, 1.02)
    )
    assert near[-1] < 1e-6
    assert max(far) > 1e6


@pytest.mark.parametrize("seed", range(12))
def test_no_graph_no_shards_and_no_momentum_are_unstable_below_half_of_one_over_l(seed: int) -> None:
    """Random of everything at 0.999 of meeting_limit(L), with or without its momentum: all eigenvalues are inside."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    graph = [Network.star(n), Network.complete(n), Network.path(n), Network.erdos_renyi(n, 0.5, seed=seed)][seed % 4]
    bent = rows(n, 2, seed) + rng.choice([0.0, 0.1]) * np.eye(2)
    L = float(np.linalg.eigvalsh(bent).max())
    for beta in (0.0, float(rng.uniform(0, 0.9)), 0.95):
        loop = averages_loop(graph.topology(0), bent, beta)
        assert loop.radius(0.999 * meeting_limit(L)) < 1.0
        assert loop.radius(0.999 * meeting_limit(L, beta)) < 1.0
        assert loop.crossing() > (1 - 1e-9) * meeting_limit(L, beta)


@pytest.mark.parametrize("seed", range(4))
def test_the_matrix_inequality_is_where_eigenvalues_cross(seed: int) -> None:
    """Unequal Hessians: dense, by Lanczos, and by a search on all eigenvalues of the round."""
    network, bent, beta = Network.erdos_renyi(8, 0.4, seed=seed), rows(8, 3, seed), 0.3 * seed
    loop = averages_loop(network.topology(0), bent, beta)
    searched = first_unstable(lambda alpha: loop.radius(alpha) - 1.0, 1.0 / np.linalg.eigvalsh(bent).max())
    assert loop.crossing() == pytest.approx(searched, rel=1e-6)
    found = averages_crossing(network, lambda V: np.einsum("ijk,ik->ij", bent, V), 3, beta)
    assert found == pytest.approx(searched, rel=1e-6)


def test_large_networks_are_solved_without_an_inverse() -> None:
    """A ring of 400, Hessians 2: tau_k = ((1 + 2 cos(2 pi k / 400))/3)^2, the smallest by hand."""
    tau = min(((1 + 2 * math.cos(2 * math.pi * k / 400)) / 3) ** 2 for k in range(400))
    found = averages_crossing(Network.ring(400), lambda V: 2.0 * V, 1, 0.5)
    assert found == pytest.approx(1.5 * (0.5 + 1.5 * tau) / 2.0, rel=1e-6)
    assert averages_crossing(Network.path(2), lambda V: 2.0 * V, 1, 0.0) == pytest.approx(0.25)


def test_losses_that_are_not_convex_are_searched() -> None:
    """Curvatures 1 and -1/5, whose sum is convex: eigenvalues are inside just below and outside just above."""
    loop = AveragesLoop(np.full((2, 2), 0.5), np.array([[[1.0]], [[-0.2]]]), 0.3)
    crossing = loop.crossing()
    assert 0 < crossing < math.inf
    assert loop.radius(0.99 * crossing) < 1.0 < loop.radius(1.01 * crossing)


@pytest.mark.parametrize("part", [0.3, 0.99, 1.02])
def test_the_energy_is_positive_and_changes_exactly_as_derived(part: float) -> None:
    """Along the map, no momentum: E+ - E = -1/2 s'(D + alpha H) s; below the crossing E > 0, above it is not."""
    network, bent = Network.erdos_renyi(6, 0.5), rows(6, 2, 1)
    loop = averages_loop(network.topology(0), bent, 0.0)
    alpha = part * loop.crossing()
    value, M = averages_energy(loop, alpha), loop.round_map(alpha)
    D = np.kron(np.eye(6) - loop.meetings, np.eye(2))
    H = np.zeros((12, 12))
    for i, block in enumerate(bent):
        H[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    state = loop.consistent @ np.random.default_rng(0).standard_normal(34)
    energies = []
    for _ in range(300):
        one = M @ state
        two_moves = (M @ one - state)[:12]
        before, after = (value(*s[:24].reshape(2, 6, 2)) for s in (state, one))
        expected = -0.5 * two_moves @ (D + alpha * H) @ two_moves
        assert after - before == pytest.approx(expected, rel=1e-6, abs=1e-9 * max(1.0, abs(before)))
        energies.append(before)
        state = one
    assert bool(min(energies) > 0) is (part < 1)


@pytest.mark.parametrize("network", [Network.complete(5), Network.path(5), Network.star(5)], ids=repr)
def test_for_any_convex_losses_the_distance_falls_by_what_is_derived(network: Network) -> None:
    """Softmax, far from quadratic, no momentum, at 0.98 of 1/(2 L): by at least d'(I - 3/4 D - alpha L/2) d + m'D m."""
    rng = np.random.default_rng(0)
    model = Softmax([(3.0 * rng.standard_normal((9, 2)), np.arange(9) % 3) for _ in range(5)], reg=0.05)
    best, start = optimal_model(model).parameters, 3.0 * rng.standard_normal((5, model.size))
    L = float(model.smoothness().max())
    alpha = 0.98 * meeting_limit(L)
    T = meeting_operator(network.topology(0)).toarray()
    D, value = np.eye(5) - T, averages_distance(model, T, best, alpha)
    y, z = start, model.gradients(start)
    first = last = value(y - best, z)
    for after, trackers, _ in played(model, network, alpha, 0.0, 200, start):
        move, middle = after - y, (y + after) / 2.0
        least = (move * (move - 0.75 * (D @ move) - alpha * L / 2.0 * move)).sum() + (middle * (D @ middle)).sum()
        now = value(after - best, trackers)
        assert least >= 0 and last - now >= least - 1e-9 * first
        y, last = after, now
    assert last < 0.5 * first


@pytest.mark.parametrize(
    "network",
    [
        Network.ring(12),
        Network.path(8),
        Network.erdos_renyi(15, 0.3),
        Network.grid(16),
        Network.star(9),
        Network.complete(8),
        Network.ring(12, switching=3),
        Network.erdos_renyi(15, 0.3, switching=5),
        Network.ring(120),
        Network.grid(144),
        Network.erdos_renyi(150, 0.05, switching=4),
    ],
    ids=repr,
)
def test_predicted_rounds_are_those_of_the_run(network: Network) -> None:
    """Averages with the default channel and the ideal one, to 1e-8: within a factor of 2.5; large ones mode by mode."""
    problem = Problem(model=regression(network.n, 3))
    for method in (CODED, IDEAL):
        found = analyse(problem, network, method, target=1e-8)
        run = solve(problem, network, method, rounds=6000, target=1e-8, every=1)
        assert run.status == "converged" and found.learning_rounds is not None
        assert run.rounds / 2.5 < found.learning_rounds < 2.5 * run.rounds
        assert found.notes["learning_rounds"].startswith("modes" if 3 * network.n > DENSE_STATE else "eigenvalues")


def test_an_analysis_says_what_the_averages_do() -> None:
    """A ring of ten: tau_1 = ((1 + 2 cos 36)/3)^2 by hand; alpha below 1/(2 L), which is the crossing at most."""
    model = LeastSquares([(np.eye(2), np.ones(2))] * 10)  # X'X / N = I / 20 at every node
    found = analyse(Problem(model=model), Network.ring(10), CODED)
    tau = [((1 + 2 * math.cos(2 * math.pi * k / 10)) / 3) ** 2 for k in range(10)]
    assert found.market_gap == pytest.approx(1 - tau[1])
    assert found.alpha_limit == pytest.approx(10.0)
    assert found.momentum is not None and found.alpha is not None and found.alpha < 10.0
    assert found.crossing_alpha == pytest.approx((1 + found.momentum) * (0.5 + 1.5 * min(tau)) * 20)
    step, top = found.step, 4 / 3
    assert found.tracking_limit == pytest.approx((2 - step * top) ** 2 / (2 * step / 20))
    assert found.tracking_crossing == pytest.approx(found.tracking_limit, rel=1e-4)
    assert found.paper_alpha == pytest.approx((2 - 2 * math.cos(math.pi / 5)) / 3 * 20)


@pytest.mark.parametrize("rho", [0.125, 0.5])
def test_bits_a_round_are_those_of_a_run(rho: float) -> None:
    """A star, whose hub answers with more codes a number than its leaves: two rounds more cost twice as many bits."""
    problem, network = Problem(model=regression(9, 3)), Network.star(9)
    method = Method(quantizer=LogQuantizer(rho=rho), learning="averages")
    bits = [solve(problem, network, method, rounds=rounds).bit_parts["models"] for rounds in (5, 7)]
    assert bits[1] - bits[0] == 2 * analyse(problem, network, method).bits_a_round


def test_a_loop_that_is_at_its_border_all_along_has_a_crossing():
    """An excess within rounding of 0 changes no sign: the crossing is where it last was that small, not an error."""
    found = first_unstable(lambda alpha: 0.5 * MARGIN if alpha < 0.7 else 1.0, 1.0)
    assert 0.0 < found <= 0.7
