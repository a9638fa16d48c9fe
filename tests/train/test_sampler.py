"""Gradients from mini-batches: unbiased, with the variance they claim, drawn by (seed, round, node)."""

import numpy as np
import pytest

from equipoise.train import LeastSquares, Method, Network, Problem, SmoothSVM, Softmax, solve
from equipoise.train.models._base import Model
from equipoise.train.sampler import Sampler
from refusals import refused

SIZES = (9, 3, 14)


def _shards(kind, features=4):
    rng = np.random.default_rng(3)
    answers = {
        "regression": lambda n: rng.standard_normal(n),
        "signs": lambda n: rng.choice([-1, 1], n),
        "classes": lambda n: rng.integers(0, 3, n),
    }[kind]
    return [(rng.standard_normal((n, features)) * (1 + i), answers(n)) for i, n in enumerate(SIZES)]


MODELS = {
    "LeastSquares": (lambda shards: LeastSquares(shards, reg=0.3), "regression"),
    "SmoothSVM": (lambda shards: SmoothSVM(shards, mu=2.0, reg=0.3), "signs"),
    "Softmax": (lambda shards: Softmax(shards, classes=3, reg=0.3), "classes"),
}


@pytest.fixture(params=MODELS)
def made(request):
    build, kind = MODELS[request.param]
    shards = _shards(kind)
    model = build(shards)
    Y = np.random.default_rng(5).standard_normal((model.nodes, model.size))
    return build, shards, model, Y


def _one_by_one(build, shards, node, y):
    """Gradients of single samples without the ridge: a model of one shard with one sample has g = its loss + ridge."""
    X, answers = shards[node]
    ridge = build([(X, answers)])
    singles = [build([(X[k : k + 1], answers[k : k + 1])]) for k in range(len(X))]
    pull = np.append(0.3 * y[:-1], 0.0) if isinstance(ridge, SmoothSVM) else 0.3 * y
    return np.array([single.gradient(0, y) - pull for single in singles])


def test_whole_shard_is_the_full_gradient(made):
    """Drawing every row gives the exact gradient, in any order of rows."""
    _, _, model, Y = made
    rows = [np.random.default_rng(0).permutation(size) for size in model.sizes]
    np.testing.assert_allclose(model.sampled(Y, rows)[0], model.gradients(Y), rtol=1e-12, atol=1e-13)


def test_spread_is_the_variance_of_single_gradients(made):
    """sigma^2 of whole shards equals the variance of gradients computed sample by sample."""
    build, shards, model, Y = made
    if isinstance(model, Softmax):
        build = lambda part: Softmax(part, classes=3, reg=0.3)  # noqa: E731
    _, spread = model.sampled(Y, [np.arange(size) for size in model.sizes])
    for node in range(model.nodes):
        each = _one_by_one(build, shards, node, Y[node])
        assert spread[node] == pytest.approx(each.var(axis=0, ddof=1).sum(), rel=1e-10)


def test_batches_are_unbiased(made):
    """The mean over many draws is the full gradient, within four standard errors; so is the mean spread."""
    _, _, model, Y = made
    sampler = Sampler(model, 2, seed=1)
    draws, spreads = [], []
    for number in range(3000):
        draws.append(sampler.at(Y, number))
        spreads.append(sampler.spread)
    draws, spreads = np.array(draws), np.array(spreads)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - model.gradients(Y)) <= 4 * error + 1e-12).all()
    truth = model.sampled(Y, [np.arange(size) for size in model.sizes])[1]
    error = spreads.std(axis=0) / np.sqrt(len(spreads))
    assert (np.abs(spreads.mean(axis=0) - truth) <= 4 * error).all()
    assert sampler.samples == 3000 * 6


def test_variance_of_a_batch_is_sigma_over_b(made):
    """Without repetition a batch's gradient has variance p^2 sigma^2 (1/B - 1/N): what Coupled's cost counts."""
    _, _, model, Y = made
    sampler = Sampler(model, 3, seed=2)
    draws = np.array([sampler.at(Y, number) for number in range(3000)])
    sigma2 = model.sampled(Y, [np.arange(size) for size in model.sizes])[1]
    sizes = np.array(SIZES)
    expected = (sizes / sizes.sum()) ** 2 * sigma2 * (1 / 3 - 1 / sizes)
    np.testing.assert_allclose(draws.var(axis=0).sum(axis=1), expected, rtol=0.1, atol=1e-12)


def test_one_sample_shows_no_variance(made):
    """A batch of one has a gradient and no spread."""
    _, _, model, Y = made
    gradients, spread = model.sampled(Y, [np.array([0])] * model.nodes)
    assert np.isfinite(gradients).all() and np.isnan(spread).all()


def test_draws_depend_on_seed_round_and_node_alone():
    """The same draw again, whatever was drawn before; another seed or round draws otherwise."""
    model = LeastSquares(_shards("regression"))
    Y = np.ones((3, 4))
    one, other = Sampler(model, 2, seed=1), Sampler(model, 2, seed=1)
    for number in range(5):
        one.at(Y, number)
    late = one.at(Y, 5)
    assert np.array_equal(late, other.at(Y, 5))
    assert np.array_equal(late, one.again(Y))
    assert not np.array_equal(late, Sampler(model, 2, seed=2).at(Y, 5))
    assert not np.array_equal(late, other.at(Y, 6))


def test_batches_train_least_squares():
    """Mini-batches with a fading alpha come near the optimum found by least squares on pooled data."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(3)
    shards = [(X := rng.standard_normal((40, 3)), X @ truth + 0.01 * rng.standard_normal(40)) for _ in range(5)]
    run = solve(Problem(model=LeastSquares(shards)), Network.ring(5), Method(fade=200.0), rounds=600, seed=1, batch=8)
    pooled = np.linalg.lstsq(
        np.concatenate([X for X, _ in shards]), np.concatenate([t for _, t in shards]), rcond=None
    )[0]
    assert np.abs(run.models - pooled).max() < 0.01
    assert run.history["samples"][-1] == 601 * 5 * 8


def test_a_model_without_samples_is_refused():
    """batch needs sampled(Y, rows), and whole numbers."""

    class Bowl(Model):
        nodes, size = 3, 2

        def loss(self, node, y):
            return float(y @ y)

        def gradient(self, node, y):
            return 2 * y

    with refused("batch.model", "Bowl"):
        Sampler(Bowl(), 4)
    with refused("batch.range", 0):
        Sampler(LeastSquares(_shards("regression")), 0)
