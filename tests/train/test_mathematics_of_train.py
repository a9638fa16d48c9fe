"""The equations T of docs/mathematics.md, evaluated by hand and held against the code of train."""

import math

import numpy as np
import pytest
from scipy import optimize

from equipoise.claims.train._lyapunov import cpu_decrease
from equipoise.train import (
    Bursts,
    Coupled,
    Exact,
    Latency,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Problem,
    Quadratic,
    SmoothSVM,
    Softmax,
    UniformQuantizer,
    solve,
    theory,
)
from equipoise.train.audit import cpu_gap, kkt_violation
from equipoise.train.codec import bits_per_number, mantissa_bits, quantise, value
from equipoise.train.exchange.rows import Site, Voice
from equipoise.train.theory.closed_loop import ClosedLoop
from equipoise.train.theory.predict import link_radius, round_maps
from equipoise.train.truth import optimal_shares


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def laplacian(network):
    """Metropolis weights by hand."""
    n, graph = network.n, network.topology(0)
    L = np.zeros((n, n))
    degree = np.bincount(np.concatenate([graph.tails, graph.heads]), minlength=n)
    for i, j in zip(graph.tails, graph.heads, strict=True):
        w = 1 / (1 + max(degree[i], degree[j]))
        L[i, i] += w
        L[j, j] += w
        L[i, j] -= w
        L[j, i] -= w
    return L


def meetings(network):
    """A (the graph with each node itself) and degrees + 1."""
    n, graph = network.n, network.topology(0)
    A = np.eye(n)
    A[graph.tails, graph.heads] = A[graph.heads, graph.tails] = 1.0
    return A, A.sum(axis=1)


def test_costs(rng):
    """T2, T3: Both built-in costs, at random shares."""
    a, c, x = rng.uniform(1, 3, (3, 4))
    assert Quadratic(a, c).value(x) == pytest.approx(0.5 * a * (x - c) ** 2)
    assert Latency(a, c, 0.01, lo=0.1, hi=9.0).value(x) == pytest.approx(a / (c * x) + 0.01 * x**3)


def test_losses(rng):
    """T4, T5, T6: The three models at random parameters, sample by sample."""
    shards = [(rng.standard_normal((5, 3)), rng.integers(0, 2, 5)) for _ in range(3)]
    X, t = shards[1]
    y, W = rng.standard_normal(3), rng.standard_normal((4, 2))
    squares = ((X @ y - t) ** 2).sum() / (2 * 15) + 0.2 / 6 * (y @ y)
    assert LeastSquares(shards, reg=0.2).loss(1, y) == pytest.approx(squares)
    signed = [(X, 2 * t - 1) for X, t in shards]
    hinge = (
        sum(
            math.log(1 + math.exp(3 * (1 - (2 * label - 1) * (x @ y - 0.4)))) / 3 for x, label in zip(X, t, strict=True)
        )
        / 15
    )
    svm = SmoothSVM(signed, mu=3.0, reg=0.2)
    assert svm.loss(1, np.append(y, 0.4)) == pytest.approx(hinge + 0.2 / 6 * (y @ y))
    scores = X @ W[:-1] + W[-1]
    entropy = sum(math.log(sum(math.exp(v) for v in s)) - s[label] for s, label in zip(scores, t, strict=True)) / 15
    assert Softmax(shards, reg=0.2).loss(1, W.ravel()) == pytest.approx(entropy + 0.2 / 6 * (W**2).sum())


def test_a_round_of_the_papers_dynamics(rng):
    """T10, T11, T13: Ideal channel, one round: flows along edges, and gradient tracking, with matrices."""
    network = Network.erdos_renyi(6, 0.5, seed=1)
    L, c = laplacian(network), rng.uniform(0, 9, 6)
    shards = [(rng.standard_normal((4, 2)), rng.standard_normal(4)) for _ in range(6)]
    method = Method(quantizer=Exact(), momentum=False, step=0.3, alpha=0.2, cpu_weights="metropolis")
    model = LeastSquares(shards)
    run = solve(Problem(Quadratic(2.0, c), 12.0, model), network, method, rounds=2)
    x, y = np.full(6, 2.0), np.zeros((6, 2))
    z = np.stack([model.gradient(i, y[i]) for i in range(6)])
    for _ in range(2):
        x = x - 0.3 * L @ (2.0 * (x - c))
        before = np.stack([model.gradient(i, y[i]) for i in range(6)])
        y, z = y - 0.3 * L @ y - 0.3 * 0.2 * z, z - 0.3 * L @ z
        z = z + np.stack([model.gradient(i, y[i]) for i in range(6)]) - before
    assert run.shares == pytest.approx(x, abs=1e-9)
    assert run.models == pytest.approx(y, abs=1e-12)


def test_the_log_quantiser_its_sector_and_its_bits(rng):
    """T14, T15, T16: A hundred thousand values over twenty decades."""
    coder = LogQuantizer(rho=0.125, mode="node")
    v = np.exp(rng.uniform(np.log(2e-6), np.log(5e5), 100_000)) * rng.choice([-1, 1], 100_000)
    q = coder(v)
    nearest = np.sign(v) * np.exp(0.125 * np.round(np.log(np.abs(v)) / 0.125))
    assert np.abs(q / nearest - 1).max() < 1e-9
    assert math.exp(-0.0625) * (1 - 1e-12) <= (q / v).min() and (q / v).max() <= math.exp(0.0625) * (1 + 1e-12)
    assert (q / v).max() > 1 + 0.0625  # the published sector, 1 + rho/2, is broken
    cells = math.floor(math.log(1e6 / 1e-6) / 0.125)
    assert coder.bits == math.ceil(math.log2(2 * cells + 3))
    assert UniformQuantizer(bits=9, largest=10.0)(3.3) == pytest.approx(round(3.3 * 255 / 10) * 10 / 255)


def test_node_wise_codes_stand_still_at_the_residual(rng):
    """T18: Prices anywhere in one cell, at most as far from the optimum as the page says; two at its ends reach it."""
    rho, price = 0.5, 7.0
    low, high = price * math.cosh(rho / 2) * np.exp([-rho / 2, rho / 2])
    gaps = []
    for part in (price - low) / (high - low), *rng.uniform(0, 1, 200):  # of all elasticity that is at the upper end
        mean = part * high + (1 - part) * low
        scale = price / mean  # so that the optimal price, their mean, is `price`; the cell moves along
        gaps.append(0.5 * (part * (scale * high - price) ** 2 + (1 - part) * (scale * low - price) ** 2) * 2.0)
    assert max(gaps) == pytest.approx(theory.node_residual(rho, price, np.ones(2)))


def test_a_round_of_markets(rng):
    """T28, T29, T30, T31: Ideal channel, elasticities of 1: prices, answers, flows and the next price, by matrices."""
    network = Network.erdos_renyi(7, 0.4, seed=3)
    c = rng.uniform(0, 9, 7)
    run = solve(Problem(Quadratic(1.0, c), 21.0), network, Method(quantizer=Exact(), cpu="markets"), rounds=2)
    A, more = meetings(network)
    R, C = np.diag(1 / more), np.diag(1 / (A @ (1 / more)))
    tau = max(0.5, np.linalg.eigvalsh(R @ A @ C @ A @ R)[-2])
    theta = 1 / (2 * math.sqrt(tau * (1 - tau)))
    assert run.steps.inertia == pytest.approx(theta)
    rho, s = theta / more, np.full(7, 3.0)
    p = s - c
    for _ in range(2):
        zeta = (A @ (rho * p)) / (A @ rho)
        given = (
            rho * (more * p - A @ zeta) + zeta * (A @ rho) - A @ (rho * p)
        )  # in others' markets, less theirs in mine
        s = s - given
        level = s + rho * (A @ zeta)
        p = (level - (level + theta * c) / (1 + theta)) / theta
    assert run.shares == pytest.approx(s, abs=1e-9)


def test_a_round_of_averages(rng):
    """T33, T34, T35: Ideal channel, least squares: the mean of the answers, the tracker, and the automatic steps."""
    network = Network.erdos_renyi(6, 0.5, seed=2)
    model = LeastSquares([(rng.standard_normal((5, 2)), rng.standard_normal(5)) for _ in range(6)], reg=0.05)
    run = solve(Problem(model=model), network, Method(quantizer=Exact(), learning="averages"), rounds=3)
    A, more = meetings(network)
    R, C = np.diag(1 / more), np.diag(1 / (A @ (1 / more)))
    T = R @ A @ C @ A @ R
    gap = min(0.5, 1 - np.linalg.eigvalsh(T)[-2])
    steepest = max(np.linalg.eigvalsh(h)[-1] for h in model.hessian)
    alpha = 1 / (steepest * max(2.2, 0.15 / math.sqrt(gap)))
    usual = 0.7 if 0.15 / math.sqrt(gap) <= 2.2 else 0.5
    beta = max(usual, min(0.98, 1 - 2 / math.sqrt(max(6 / (alpha * 0.05), 4.0))))
    assert (run.steps.alpha, run.steps.momentum) == (pytest.approx(alpha), pytest.approx(beta))
    y, mean = np.zeros((6, 2)), np.zeros((6, 2))
    z = model.gradients(y)
    for _ in range(3):
        before, old, mean = mean, y, T @ y
        z = z - (1 - beta) / alpha * (mean - y)
        y = mean + beta * (mean - before) - alpha * z
        z = z + model.gradients(y) - model.gradients(old)
    assert run.models == pytest.approx(y, abs=1e-12)


def test_the_truth_and_the_gap(rng):
    """T39, T40, T41: Against SciPy's constrained solver; the price term of a gap is 0 in sum."""
    a, c = rng.uniform(0.5, 2, 5), rng.uniform(0, 9, 5)
    cost, lo, hi = Quadratic(a, c, lo=1.0, hi=5.0), np.ones(5), np.full(5, 5.0)
    best = optimal_shares(cost, 14.0, lo, hi)
    found = optimize.minimize(
        lambda x: (a * (x - c) ** 2).sum() / 2,
        np.full(5, 2.8),
        bounds=[(1, 5)] * 5,
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda x: x.sum() - 14.0},
        options={"ftol": 1e-14},
    )
    assert best.shares == pytest.approx(found.x, abs=1e-5)
    x = np.full(5, 2.8)
    assert cpu_gap(cost, x, best) == pytest.approx((a * (x - c) ** 2).sum() / 2 - found.fun)
    slope = a * (x - c)
    worst = [
        max(max(min(p - s, k * (5 - v)), min(s - p, k * (v - 1))) for s, k, v in zip(slope, a, x, strict=True))
        for p in np.linspace(slope.min(), slope.max(), 20_001)
    ]
    assert kkt_violation(x, slope, a, lo, hi) == pytest.approx(min(worst), abs=1e-3)


def test_limits_of_steps():
    """T44, T45, T46, T47: Each on its own iteration: stable just below, not just above."""
    top, h = 1.7, 0.9
    grows = lambda matrix: np.abs(np.linalg.eigvals(matrix)).max() > 1 + 1e-9  # noqa: E731
    for part in (0.99, 1.01):
        assert (abs(1 - part * theory.step_limit(top) * top) > 1) == (part > 1)
        step = part * theory.delay_limit(2, top)  # e+ = e - step top e two rounds ago
        assert grows(np.array([[1, 0, -step * top], [1, 0, 0], [0, 1, 0]])) == (part > 1)
        alpha = part * theory.alpha_limit(0.6, top, h)
        tracking = np.array([[-top, -alpha], [-h * top, -top - alpha * h]])
        assert grows(np.eye(2) + 0.6 * tracking) == (part > 1)
        eps, beta, delta = part * theory.meeting_limit(h, 0.3) * h, 0.3, 1.0
        cubic = [1, 2 * delta + eps - 2 - beta, (1 + 2 * beta) * (1 - delta) - eps, -beta * (1 - delta)]
        assert (np.abs(np.roots(cubic)).max() > 1 + 1e-9) == (part > 1)


def test_where_convex_rounds_cross(rng):
    """T50: From the matrices as the page writes them."""
    L = laplacian(Network.ring(5))
    rows = rng.standard_normal((5, 3, 1))
    H = np.diag((rows**2).sum(axis=1).ravel())
    R = np.linalg.inv(2 * np.eye(5) - 0.6 * L)
    by_hand = 1 / (2 * 0.6 * np.linalg.eigvalsh(R @ H @ R)[-1])
    loop = ClosedLoop(L, np.diag(H)[:, None, None])
    assert loop.crossing(step=0.6) == pytest.approx(by_hand, rel=1e-6)


def test_the_cost_falls_by_what_the_page_says(rng):
    """T54: An ideal round of flows on quadratic costs: the fall of the sum, from the shares themselves."""
    L, a, c, x = laplacian(Network.ring(6)), *rng.uniform(1, 2, (3, 6))
    after = x - 0.4 * L @ (a * (x - c))
    fall = (a * (x - c) ** 2).sum() / 2 - (a * (after - c) ** 2).sum() / 2
    assert cpu_decrease(L, a, a * (x - c), 0.4) == pytest.approx(fall)


def test_a_round_of_the_push_form(rng):
    """T66: One-way ring with nothing lost: x + eta (C - I)(v o phi), where v is 1 for ever."""
    c = rng.uniform(0, 9, 5)
    run = solve(Problem(Quadratic(1.0, c), 15.0), Network.ring(5, directed=True), Method(quantizer=Exact()), rounds=1)
    C = 0.5 * (np.eye(5) + np.roll(np.eye(5), 1, axis=0))  # keeps half, gives half to the next
    eta = 0.9 / (0.5 * 1.0 * 1.0)
    assert run.shares == pytest.approx(3.0 + eta * (C - np.eye(5)) @ (3.0 - c), abs=1e-9)


def test_coupling_is_neymans_allocation(rng):
    """T71, T72: Noise alone, known sigma: shares in proportion to p sigma / sqrt(speed). And sigma as batches show it."""
    speed, sizes, sigma = rng.uniform(1, 3, 4), np.array([50, 80, 20, 60]), rng.uniform(0.5, 2, 4)
    cost = Coupled(speed, sizes=sizes, lo=0.01, hi=500.0, sigma=sigma)
    run = solve(Problem(cost, 40.0), Network.ring(4), target=1e-10)
    wish = sizes * sigma / np.sqrt(speed)
    assert run.shares == pytest.approx(40 * wish / wish.sum(), rel=1e-4)
    learns = Coupled(speed, sizes=sizes, lo=0.01, hi=500.0)
    top, weight = np.zeros(4), np.zeros(4)
    for _ in range(3):
        shown, batch = rng.uniform(1, 2, 4), rng.integers(2, 9, 4)
        learns.observe(shown, batch)
        top, weight = 39 / 40 * top + (batch - 1) / 40 * shown, 39 / 40 * weight + (batch - 1) / 40
    assert learns.sigma == pytest.approx(np.sqrt(top / weight))


def test_bursts_and_the_variance_of_a_batch(rng):
    """T67, T70: The long run of a two-state chain, and the variance of gradients, by hand."""
    chain = np.array([[0.9, 0.1], [0.4, 0.6]])  # good, bad
    share = np.linalg.matrix_power(chain, 200)[0]
    assert Bursts(enter=0.1, leave=0.4, bad=0.8, good=0.05).mean == pytest.approx(share @ [0.05, 0.8])
    X, t, y = rng.standard_normal((6, 2)), rng.standard_normal(6), rng.standard_normal(2)
    each = (X @ y - t)[:, None] * X
    _, spread = LeastSquares([(X, t)]).sampled(y[None, :], [np.arange(6)])
    assert spread[0] == pytest.approx(((each - each.mean(axis=0)) ** 2).sum() / 5)


def links(network):
    """Adjacency, and 1 - the second eigenvalue of it normalised, by hand."""
    A = meetings(network)[0] - np.eye(network.n)
    d = A.sum(axis=1)
    return A, d, 1 - np.linalg.eigvalsh(A / np.sqrt(np.outer(d, d)))[-2]


def test_a_round_of_prices_over_links(rng):
    """T78, T79, T80: Ideal channel, no boxes, curvatures that eighths of an octave round: six rounds by matrices."""
    network = Network.erdos_renyi(7, 0.4, seed=3)
    a, c = rng.uniform(0.5, 3, 7), rng.uniform(0, 9, 7)
    run = solve(Problem(Quadratic(a, c), 21.0), network, Method(quantizer=Exact()), rounds=6)
    A, d, gap = links(network)
    sigma = min(0.5, gap / 2)
    theta, r = 1 / (2 * math.sqrt(sigma * (1 - sigma))), 0.95 - 0.7 * sigma
    assert run.steps.links == pytest.approx({"cpu_theta": theta, "cpu_relax": r})
    e = 2 ** (np.round(8 * np.log2(1 / a / d)) / 8)
    rho = theta * A * np.maximum.outer(e, e) ** 0.7 * np.minimum.outer(e, e) ** 0.3
    D = rho.sum(axis=1)
    s, h, p = np.full(7, 3.0), np.zeros(7), a * (3.0 - c)
    for number in range(6):
        apart = D * p - rho @ p
        s = s - r * apart
        keep = 0.0 if number == 0 else 1 - 2 * r
        h = keep * h + (1 - keep) * (D * p - apart / 2)
        level = s + h
        p = (level - (level + D * a * c) / (1 + D * a)) / D
    assert run.shares == pytest.approx(s, abs=1e-7)  # gifts are whole multiples of 1024 units


def test_a_round_of_models_over_links(rng):
    """T81, T82: Ideal channel, least squares with a ridge and without: six rounds by matrices."""
    network = Network.erdos_renyi(6, 0.5, seed=2)
    A, d, gap = links(network)
    for reg in (0.0, 0.05):
        model = LeastSquares([(rng.standard_normal((5, 2)), rng.standard_normal(5)) for _ in range(6)], reg=reg)
        run = solve(Problem(model=model), network, Method(quantizer=Exact()), rounds=6)
        steepest = max(np.linalg.eigvalsh(h)[-1] for h in model.hessian)
        theta = max(0.5, 0.13 / math.sqrt(gap))
        theta = min(theta, 1 / math.sqrt(6 * steepest / reg * gap)) if reg else theta
        assert run.steps.links["model_theta"] == pytest.approx(theta)
        w = np.sqrt(theta * steepest / d)
        R = np.diag(w * (A @ w)) - np.outer(w, w) * A
        D = np.diag(R)[:, None]
        y, V, S = np.zeros((3, 6, 2))
        for number in range(6):
            apart = R @ y
            V = V - 0.8 * apart
            keep = 0.0 if number == 0 else -0.6
            S = keep * S + (1 - keep) * (D * y - apart / 2)
            pull = model.slope + V + S
            y = np.stack([np.linalg.solve(model.hessian[i] + D[i] * np.eye(2), pull[i]) for i in range(6)])
        assert run.models == pytest.approx(y, abs=1e-12)


def test_digits_of_a_code_over_links():
    """T83: The fewest digits whose rounding is at most e^(rho/2) - 1, and seven bits beside them."""
    for rho in (0.05, 0.125, 0.4, 1.0):
        digits = next(b for b in range(20) if 2.0 ** -(b + 1) <= math.expm1(rho / 2))
        assert math.ceil(-math.log2(math.exp(rho / 2) - 1) - 1) == digits
        assert bits_per_number(mantissa_bits(LogQuantizer(rho=rho))) == 7 + digits


def test_what_a_code_leaves_and_how_long_an_answer_is(rng):
    """T19, T20: Random changes against the bound, which the middle of two codes reaches; answers on stars of 3 to 200."""
    for b in (0, 1, 3, 6):
        floor = (1023 - 30) << b
        for change in (*np.exp(rng.uniform(-9, 9, 500)), 1 + 0.5 / 2**b):
            left = abs(change - value(quantise(change, floor, b), floor, b, change)) / change
            assert left <= (1 + 1e-12) / (2 ** (b + 1) + 1)
        assert left == pytest.approx(1 / (2 ** (b + 1) + 1))
    for n in (3, 20, 200):
        sent = Voice(Site(Network.star(n)), LogQuantizer(rho=1.0), 1, finest=1 / n).code_bits  # degree n - 1
        assert sent == 7 + max(mantissa_bits(LogQuantizer(rho=1.0)), math.ceil(math.log2(n) - 1))


def test_modes_over_links(rng):
    """T84, T85: The matrix on the page, and a network of equal curvatures, whose map has the modes' eigenvalues."""
    for u, elastic, weight, r in rng.uniform(0.1, 0.9, (5, 4)):
        q = weight / (elastic + weight)
        mode = np.array([[1 - r * q * u, -r * q * u], [r * q * (2 - u), 1 - 2 * r + r * q * (2 - u)]])
        assert link_radius(u, elastic, weight, r) == pytest.approx(np.abs(np.linalg.eigvals(mode)).max())
    A = links(Network.ring(6))[0]
    R, E, r = 1.4 * (np.eye(6) - A / 2), 0.7, 0.8
    answer = np.eye(6) / (E + 1.4)
    page = np.block(
        [
            [np.eye(6) - r * R @ answer, -r * R @ answer],
            [
                2 * r * (1.4 * np.eye(6) - R / 2) @ answer,
                (1 - 2 * r) * np.eye(6) + 2 * r * (1.4 * np.eye(6) - R / 2) @ answer,
            ],
        ]
    )
    assert round_maps([R], np.full(6, E), r)[0] == pytest.approx(page)
