"""Every bound driven to both sides: it holds, or converges, just below; it is broken just above."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from equipoise.train import Exact, LogQuantizer, Method, Network, Problem, Quadratic, solve
from equipoise.train.theory import (
    alpha_limit,
    delay_limit,
    innovation_limit,
    node_residual,
    paper_alpha,
    sector,
    step_limit,
)

RHOS = (0.01, 0.125, 0.5, 1.0)


@pytest.mark.parametrize("rho", RHOS)
def test_the_sector_holds_and_is_reached(rho: float) -> None:
    """1e5 values over ten decades: every q(v)/v is inside, and some come within 1e-3 of rho of either end."""
    values = np.exp(np.random.default_rng(0).uniform(math.log(1e-5), math.log(1e5), 100_000))
    ratio = LogQuantizer(rho=rho, mode="node")(values) / values
    low, high = sector(rho)
    assert low * (1 - 1e-12) <= ratio.min() <= low * math.exp(1e-3 * rho)
    assert high * math.exp(-1e-3 * rho) <= ratio.max() <= high * (1 + 1e-12)


@pytest.mark.parametrize("rho", RHOS)
def test_published_forms_of_the_sector_are_broken(rho: float) -> None:
    """A value at the lower border of its cell is heard e^(rho/2) times larger, more than 1 + rho/2 or 1 + rho^2/4."""
    value = math.exp(rho * (3 - 0.5) + 1e-9 * rho)
    ratio = float(LogQuantizer(rho=rho, mode="node")(value)) / value
    assert ratio > max(1 + rho / 2, 1 + rho**2 / 4)
    assert ratio <= sector(rho)[1]


@pytest.mark.parametrize("rho", RHOS)
def test_rounding_down_never_says_more_than_the_truth(rho: float) -> None:
    """The floor variant: ratios in (e^-rho, 1], both ends reached."""
    values = np.exp(np.random.default_rng(0).uniform(math.log(1e-5), math.log(1e5), 100_000))
    ratio = LogQuantizer(rho=rho, mode="node", rounding="floor")(values) / values
    low, high = sector(rho, "floor")
    assert low * (1 - 1e-12) <= ratio.min() <= low * math.exp(1e-3 * rho)
    assert math.exp(-1e-3 * rho) <= ratio.max() <= high * (1 + 1e-12)


def market(seed: int, n: int, spread: float = 1.0) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(Quadratic(np.exp(spread * rng.normal(size=n)), rng.uniform(10, 40, n)), 25.0 * n)


def top_of(problem: Problem, network: Network) -> float:
    """lambda_max(L H) by numpy, of the matrix itself, which is not symmetric."""
    laplacian = network.topology(0).laplacian().toarray()
    return float(np.linalg.eigvals(laplacian * problem.cost.a).real.max())  # type: ignore[union-attr]


@pytest.mark.parametrize("network", [Network.ring(8), Network.erdos_renyi(12, 0.3), Network.star(7)], ids=repr)
def test_cpu_converges_just_below_the_step_limit_and_diverges_just_above(network: Network) -> None:
    """The run itself at 0.98 and 1.02 of 2 / lambda_max(L H), on the ideal channel."""
    problem = market(1, network.n)
    limit = step_limit(top_of(problem, network))
    ends = {}
    for part in (0.98, 1.02):
        method = Method(quantizer=Exact(), momentum=False, cpu_weights="laplacian", step=part * limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = solve(problem, network, method, rounds=1500)
        ends[part] = run.history["relative_gap"][-1] if run.status != "diverged" else math.inf
    assert ends[0.98] < 1e-6
    assert ends[1.02] > 1.0


@pytest.mark.parametrize("rho", [0.125, 1.0])
def test_the_step_limit_pays_for_the_loudest_channel(rho: float) -> None:
    """A channel that always overstates by e^(rho/2), the end of the sector: errors shrink below the limit, grow above."""
    network, problem = Network.erdos_renyi(10, 0.4), market(2, 10)
    LH = network.topology(0).laplacian().toarray() * problem.cost.a  # type: ignore[union-attr]
    limit = step_limit(top_of(problem, network), rho)
    for part, grows in ((0.99, False), (1.01, True)):
        moves = np.eye(10) - part * limit * math.exp(rho / 2) * LH
        sizes = np.sort(np.abs(np.linalg.eigvals(moves)))  # one is the budget's, exactly 1
        assert bool(sizes[-1] > 1.0 + 1e-6) is grows


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_old_prices_need_smaller_steps(delay: int) -> None:
    """x+ = x - step L f'(x some rounds ago), played as it stands: 0.95 of the limit settles, 1.05 does not."""
    network, problem = Network.erdos_renyi(10, 0.4), market(3, 10, spread=0.2)
    cost = problem.cost
    assert isinstance(cost, Quadratic)
    L = network.topology(0).laplacian().toarray()
    best = (25.0 * 10 - cost.c.sum()) / (1 / cost.a).sum() / cost.a + cost.c
    left = {}
    for part in (0.95, 1.05):
        step = part * delay_limit(delay, top_of(problem, network))
        past = [np.full(10, 25.0)] * (delay + 1)
        for _ in range(4000):
            past = [*past[1:], past[-1] - step * (L @ cost.derivative(past[0]))]
        left[part] = np.abs(past[-1] - best).max()
    assert left[0.95] < 1e-3
    assert left[1.05] > 1e3


@pytest.mark.parametrize("step", [0.2, 0.5, 0.9])
def test_equal_hessians_cross_at_the_alpha_limit(step: float) -> None:
    """Mode by mode, 2 x 2 by hand: y+ = (1-r) y - e z, z+ = (1-r) z + h (y+ - y) with r = step lambda, e = step alpha."""
    values = np.linalg.eigvalsh(Network.erdos_renyi(9, 0.4).topology(0).laplacian().toarray())
    step, h = step / values[-1], 3.0
    limit = alpha_limit(step, float(values[-1]), h)
    for part, grows in ((0.99, False), (1.01, True)):
        e = part * limit * step
        rates = step * values
        loops = [np.array([[1 - r, -e], [-h * r, 1 - r - h * e]]) for r in rates[1:]]
        assert bool(max(np.abs(np.linalg.eigvals(M)).max() for M in loops) > 1.0) is grows


def test_mixing_that_is_unstable_by_itself_allows_no_alpha() -> None:
    """step lambda_max > 2: consensus alone diverges."""
    assert alpha_limit(1.0, 2.1, 1.0) == 0.0


def test_the_papers_alpha_is_safe_and_no_boundary() -> None:
    """In continuous time, equal h: roots of u^2 + (2 l + a h) u + l^2 are negative at the bound, and at 100 times it."""
    values = np.linalg.eigvalsh(Network.erdos_renyi(9, 0.4).topology(0).laplacian().toarray())
    for times in (1.0, 100.0):
        a = times * paper_alpha(float(values[1]), 3.0)
        assert max(np.roots([1.0, 2 * x + 3.0 * a, x**2]).real.max() for x in values[1:]) < 0.0


@pytest.mark.parametrize(("part", "contracts"), [(0.99, True), (1.01, False)])
def test_innovation_codes_mend_errors_below_their_limit_only(part: float, contracts: bool) -> None:
    """|v - q(v)| / |v| over all values: below 1 for rho < 2 ln 2, above 1 somewhere beyond."""
    quantizer = LogQuantizer(rho=part * innovation_limit(), mode="node")
    values = np.exp(np.linspace(-4, 4, 200_001))
    worst = (np.abs(values - quantizer(values)) / values).max()
    assert bool(worst < 1.0) is contracts


def stuck(prices: np.ndarray, a: np.ndarray, rho: float) -> tuple[bool, float, float]:
    """Start with these prices at equal shares, node-wise codes: (did nothing move, the gap, the optimal price)."""
    n = len(a)
    problem = Problem(Quadratic(a, 25.0 - prices / a), 25.0 * n)
    method = Method(quantizer=LogQuantizer(rho=rho, mode="node"), momentum=False)
    run = solve(problem, Network.complete(n), method, rounds=30)
    assert run.shares is not None and run.cpu_optimum is not None
    return bool((run.shares == 25.0).all()), float(run.history["cpu_gap"][0]), run.cpu_optimum.price


@pytest.mark.parametrize("rho", [0.125, 0.5])
def test_node_wise_codes_stand_still_with_a_gap_up_to_the_residual(rho: float) -> None:
    """Any prices in one cell: nothing moves. The worst two, by hand: the bound to 1e-6. Past the border: it moves."""
    low, high = math.exp(rho * 9.5), math.exp(rho * 10.5)  # the borders of cell 10
    a = np.random.default_rng(0).uniform(0.5, 2.0, 6)
    still, gap, price = stuck(np.random.default_rng(1).uniform(low, high, 6), a, rho)
    assert still and 0 < gap <= node_residual(rho, price, a)
    upper = (1 / math.cosh(rho / 2) - math.exp(-rho / 2)) / (2 * math.sinh(rho / 2))  # weight that puts the mean there
    a = np.array([1 / (1 - upper), 1 / upper])
    still, gap, price = stuck(np.array([low * (1 + 1e-9), high * (1 - 1e-9)]), a, rho)
    assert still and gap == pytest.approx(node_residual(rho, price, a), rel=1e-6)
    assert not stuck(np.array([low * (1 - 1e-3), high * (1 - 1e-9)]), a, rho)[0]
