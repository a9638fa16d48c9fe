"""Coupling: what a noisy gradient costs, shares that follow it, and batches that follow shares."""

from itertools import pairwise

import numpy as np
import pytest

from equipoise.train import Coupled, LeastSquares, Method, Network, Problem, Quadratic, Softmax, check_cost, solve
from equipoise.train.coupling.instance import Perceptron, draw
from equipoise.train.coupling.study import RIVALS, SETTINGS, Pace, play, softmax
from refusals import refused

SIZES = np.array([40, 10, 90, 25, 60])
SPEED = np.array([1.0, 2.0, 0.5, 1.5, 3.0])
SIGMA = np.array([1.0, 3.0, 0.4, 2.0, 0.7])


def _cost(**changes):
    return Coupled(SPEED, **({"sizes": SIZES, "lo": 0.01, "hi": 100.0, "sigma": SIGMA} | changes))


def _shards(seed=0, sizes=SIZES, noise=SIGMA, features=3):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(features)
    return [
        (X := rng.standard_normal((n, features)), X @ truth + s * rng.standard_normal(n))
        for n, s in zip(sizes, noise, strict=True)
    ]


@pytest.mark.parametrize("own", [None, Quadratic([0.1, 0.2, 0.1, 0.3, 0.2], 2.0, lo=0.5, hi=9.0)])
def test_derivatives_match_finite_differences(own):
    """value, derivative, second and curvature agree with differences of each other, with and without another cost."""
    cost = _cost(lo=0.5, hi=9.0, tau=2.0, beta=3.0, cost=own)
    check_cost(cost)
    x, h = np.array([0.7, 1.3, 8.0, 2.0, 5.0]), 1e-5
    np.testing.assert_allclose(
        cost.derivative(x), (cost.value(x + h) - cost.value(x - h)) / (2 * h), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(cost.second(x), (cost.derivative(x + h) - cost.derivative(x - h)) / (2 * h), rtol=1e-6)
    smallest, largest = cost.curvature()
    assert (smallest <= cost.second(x) * (1 + 1e-12)).all() and (cost.second(x) <= largest * (1 + 1e-12)).all()
    p = SIZES / 225
    alone = 3.0 * p**2 * SIGMA**2 / (2.0 * SPEED * x)
    np.testing.assert_allclose(cost.value(x) - (0 if own is None else own.value(x)), alone, rtol=1e-12)


def test_response_solves_its_equation():
    """x + weight f'(x) = level, for levels on both sides of 0 and far apart in size."""
    cost = _cost()
    for weight in (1e-6, 1.0, 1e6):
        for level in (-1e4, -1.0, 0.0, 1e-3, 1.0, 1e4):
            w, to = np.full(5, weight), np.full(5, level)
            x = cost.response(w, to, np.ones(5))
            assert (x > 0).all()
            np.testing.assert_allclose(x - w * cost.noise / x**2, to, atol=1e-9 * (abs(level) + (w * cost.noise).max()))


def test_solved_shares_are_neymans():
    """With noise alone and open boxes, shares are in proportion to p sigma / sqrt(speed): Neyman (1934)."""
    run = solve(Problem(cost=_cost(), budget=30.0), Network.ring(5), rounds=400)
    wish = SIZES * SIGMA / np.sqrt(SPEED)
    np.testing.assert_allclose(run.shares, 30.0 * wish / wish.sum(), rtol=1e-6)


def test_boxed_shares_agree_with_cvxpy():
    """With tight boxes and another cost of CPU, the shares that CVXPY finds."""
    cp = pytest.importorskip("cvxpy")
    own = Quadratic(0.02, 5.0)
    cost = _cost(lo=1.0, hi=9.0, cost=own, beta=40.0)
    run = solve(Problem(cost=cost, budget=30.0), Network.ring(5), rounds=800)
    x = cp.Variable(5)
    each = cp.multiply(40.0 * (SIZES / 225) ** 2 * SIGMA**2 / SPEED, cp.inv_pos(x))
    cp.Problem(cp.Minimize(cp.sum(each) + 0.01 * cp.sum_squares(x - 5.0)), [cp.sum(x) == 30, x >= 1, x <= 9]).solve()
    np.testing.assert_allclose(run.shares, x.value, atol=2e-3)
    assert run.worst.box == 0.0 and run.worst.budget == 0.0


def test_batches_are_what_shares_buy():
    """floor(tau speed x), at least one sample and at most the shard."""
    cost = _cost(tau=2.0)
    shares = np.array([3.0, 0.01, 50.0, 1.99, 100.0])
    assert cost.batches(shares).tolist() == [6, 1, 50, 5, 60]
    learning = _cost(tau=2.0, sigma=None)
    assert learning.batches(shares, 0).tolist() == [6, 2, 50, 5, 60]  # one sample shows no variance
    assert learning.batches(shares, 7).tolist() == [6, 1, 50, 5, 60]


def test_sigma_is_unbiased_from_the_first_round_on():
    """The mean of spreads, each with its degrees of freedom; lone samples and their NaN change nothing."""
    cost = _cost(sigma=None)
    cost.observe(np.array([4.0, np.nan, 9.0, 0.0, 1.0]), np.array([5, 1, 2, 3, 2]))
    np.testing.assert_allclose(cost.sigma[[0, 2, 4]], [2.0, 3.0, 1.0], rtol=1e-12)
    assert cost.sigma[1] == 1.0 and cost.sigma[3] > 0  # nothing seen, and a variance of 0: still a number above 0
    cost.observe(np.array([np.nan, 4.0, 16.0, 0.0, 1.0]), np.array([1, 2, 2, 3, 2]))
    assert cost.sigma[0] == pytest.approx(2.0) and cost.sigma[1] == pytest.approx(2.0)
    assert 3.0 < cost.sigma[2] < 4.0
    for _ in range(2000):
        cost.observe(np.zeros(5), np.full(5, 4))
    assert (cost.sigma > 0).all() and np.isfinite(cost.derivative(np.ones(5))).all()
    cost.forget()
    assert (cost.sigma == 1.0).all()


def test_a_coupled_run_keeps_budget_and_box_and_finds_neyman():
    """Over a switching network: the budget and boxes to the last bit in every round, sigma within 15% of whole shards' and
    shares within 5% of what bisection gives for the sigma in force."""
    sizes = np.array([400, 100, 900, 250, 600, 300, 150, 500])
    noise = np.array([0.3, 2.0, 0.5, 1.0, 0.2, 3.0, 1.5, 0.4])
    speed = np.array([1.0, 2.0, 0.7, 1.5, 1.0, 0.8, 1.2, 2.5])
    model = LeastSquares(_shards(1, sizes, noise), reg=1e-3)
    cost = Coupled(speed, sizes=sizes, lo=2.0, hi=30.0)
    seen = []
    run = solve(
        Problem(cost=cost, budget=80.0, model=model),
        Network.erdos_renyi(8, 0.5, switching=5, seed=1),
        Method(fade=100.0),
        rounds=400,
        seed=2,
        callback=lambda moment: seen.append(moment.shares),
    )
    seen = np.array(seen)
    assert (seen.sum(axis=1) == 80.0).all() and (seen >= 2.0).all() and (seen <= 30.0).all()
    X = [np.asarray(X) for X, _ in _shards(1, sizes, noise)]
    t = [np.asarray(t) for _, t in _shards(1, sizes, noise)]
    each = [(a @ y - b)[:, None] * a for a, b, y in zip(X, t, run.models, strict=True)]
    truth = np.sqrt([g.var(axis=0, ddof=1).sum() for g in each])
    assert np.abs(cost.sigma / truth - 1).max() < 0.15
    wish = sizes * cost.sigma / np.sqrt(speed)
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(middle * wish, 2, 30).sum() < 80 else (low, middle)
    assert np.abs(run.shares / np.clip(low * wish, 2, 30) - 1).max() < 0.05
    assert run.history["cpu_seconds"][-1] == 80.0 * 400
    assert run.history["samples"][-1] <= 401 * (speed * 30).sum()


def test_a_run_repeats_and_resumes_bit_for_bit(tmp_path):
    """The same problem solved twice, and one taken up from a checkpoint, end in the same bits; sigma is kept."""
    model = LeastSquares(_shards(2), reg=1e-3)
    problem = Problem(cost=Coupled(SPEED, sizes=SIZES, lo=0.5, hi=20.0), budget=20.0, model=model)
    given = {"network": Network.ring(5), "method": Method(fade=50.0), "seed": 3}
    whole = solve(problem, rounds=60, **given)
    sigma = problem.cost.sigma.copy()
    again = solve(problem, rounds=60, **given)
    file = tmp_path / "run.npz"
    solve(problem, rounds=60, checkpoint=file, callback=lambda moment: moment.number == 25, **given)
    problem.cost.forget()
    resumed = solve(problem, rounds=60, resume=file, **given)
    for other in (again, resumed):
        assert np.array_equal(whole.shares, other.shares) and np.array_equal(whole.models, other.models)
        assert whole.history["cpu_seconds"][-1] == other.history["cpu_seconds"][-1]
        assert whole.history["samples"][-1] == other.history["samples"][-1]
    assert np.array_equal(sigma, problem.cost.sigma)


def test_rivals_divide_the_budget_exactly():
    """Sums to the last bit, inside boxes, and in the proportions they promise wherever no box binds."""
    instance = draw(softmax, 100, copies=2)
    promised = {
        "equal": np.ones(20),
        "data": instance.sizes,
        "finish": instance.sizes / instance.speed,
        "neyman": instance.sizes * instance.sigma / np.sqrt(instance.speed),
    }
    for name, rival in RIVALS.items():
        x = rival(instance)
        assert x.sum() == instance.budget
        assert (x >= instance.lo).all() and (x <= instance.hi).all()
        inside = (x > instance.lo * 1.001) & (x < instance.hi * 0.999)
        ratio = (x / promised[name])[inside]
        assert inside.sum() > 5 and ratio.max() / ratio.min() < 1 + 1e-6
    noise = {name: instance.noise(rival(instance)) for name, rival in RIVALS.items()}
    assert noise["neyman"] == min(noise.values())


def test_instances_are_as_unequal_as_they_say():
    """log sigma_i has a standard deviation of about 0.7 at the optimum, and far less where centres are alike."""
    assert 0.5 < draw(softmax, 101, copies=3).spread < 0.9
    assert draw(softmax, 101, equal=True, copies=3).spread < 0.15
    net = SETTINGS["mlp"]
    assert 0.5 < draw(net.factory, 101, noise=net.blur, copies=3).spread < 0.9
    assert draw(net.factory, 101, equal=True, noise=net.blur, copies=3).spread < 0.3


def test_coupled_needs_less_cpu_than_equal_shares():
    """benchmarks/train/coupling.py in short, on a tuning seed: at least 25% fewer CPU-seconds to the same accuracy."""
    instance = draw(softmax, 103, copies=2)
    target = 0.93 * instance.model.accuracy(instance.reference, instance.X_test, instance.y_test)
    times = {
        name: play(instance, name, Pace(cap=0.65), 250, until=target).seconds_to(target)
        for name in ("coupled", "equal")
    }
    assert times["coupled"] < 0.75 * min(times["equal"], 25_000.0)


def test_the_net_matches_its_gradient():
    """Perceptron: finite differences, whole-shard samples, and the variance of single gradients."""
    rng = np.random.default_rng(0)
    model = Perceptron([(rng.standard_normal((n, 4)), rng.integers(0, 3, n)) for n in (7, 5)], classes=3, hidden=3)
    y, direction, h = model.start(1), rng.standard_normal(model.size), 1e-6
    for node in (0, 1):
        found = (model.loss(node, y + h * direction) - model.loss(node, y - h * direction)) / (2 * h)
        assert model.gradient(node, y) @ direction == pytest.approx(found, rel=1e-6)
    Y = np.stack([y, -y])
    gradients, spread = model.sampled(Y, [np.arange(7), np.arange(5)])
    np.testing.assert_allclose(gradients, model.gradients(Y), atol=1e-14)
    each = np.array([model.sampled(Y, [np.array([k]), np.array([0])])[0][0] for k in range(7)]) * 12 / 7
    assert spread[0] == pytest.approx(each.var(axis=0, ddof=1).sum())
    total = model.total(y)
    assert total[0] == pytest.approx(model.loss(0, y) + model.loss(1, y))
    np.testing.assert_allclose(total[1], model.gradient(0, y) + model.gradient(1, y), atol=1e-14)


def test_what_cannot_work_is_refused():
    """Each with the reason: no share at all, no end of the box, a batch besides, other sizes, steps along edges."""
    model = LeastSquares(_shards())
    problem = Problem(cost=Coupled(SPEED, sizes=SIZES, lo=0.5, hi=20.0), budget=20.0, model=model)
    with refused("cost.lo", 0):
        _cost(lo=0.0)
    with refused("cost.unbounded"):
        _cost(hi=np.inf)
    with refused("cost.sizes", 1.5):
        _cost(sizes=[1.5] * 5)
    with refused("cost.sigma", 0):
        _cost(sigma=[1, 1, 0, 1, 1])
    with refused("coupled.batch"):
        solve(problem, Network.ring(5), rounds=1, batch=3)
    with refused("coupled.steps"):
        solve(problem, Network.ring(5), Method(momentum=False), rounds=1)
    wrong = Problem(cost=Coupled(SPEED, sizes=SIZES + 1, lo=0.5, hi=20.0), budget=20.0, model=model)
    with refused("coupled.sizes", 230, 225):
        solve(wrong, Network.ring(5), rounds=1)


def test_the_gap_is_against_the_optimum_of_the_moment():
    """sigma moves and so does the best share: the gap of history is never negative, and small once sigma has settled."""
    rng = np.random.default_rng(4)
    shards = [(rng.standard_normal((n, 4)) * (1 + i), rng.integers(0, 3, n)) for i, n in enumerate(SIZES)]
    cost = Coupled(SPEED, sizes=SIZES, lo=0.5, hi=20.0)
    problem = Problem(cost=cost, budget=30.0, model=Softmax(shards, classes=3, reg=0.1))
    run = solve(problem, Network.ring(5), Method(fade=50.0), rounds=300, every=10, seed=1)
    gaps = run.history["cpu_gap"]
    value = cost.value(run.shares).sum()
    assert (gaps >= -1e-9 * value).all() and gaps[-1] < 0.01 * value
    assert all(a < b for a, b in pairwise(run.history["cpu_seconds"]))
