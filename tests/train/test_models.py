"""Models: losses and gradients against finite differences and scikit-learn, and the checker for a user's own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, Ridge

from equipoise.train import LeastSquares, Method, Model, Network, Problem, SmoothSVM, Softmax, check_model, solve
from equipoise.train.truth import optimal_model
from refusals import refused

RNG = np.random.default_rng(0)


def class_shards(nodes=4, rows=25, size=3, classes=3, seed=0):
    """Points around one centre per class, unevenly split."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((classes, size))
    shards = []
    for i in range(nodes):
        y = rng.integers(0, classes, rows + 5 * i)
        shards.append((centres[y] + rng.standard_normal((len(y), size)), y))
    return shards


def signed(shards):
    return [(X, 2 * (y > 0) - 1) for X, y in shards]


MODELS = {
    "least_squares": LeastSquares(class_shards(), reg=0.1),
    "smooth_svm": SmoothSVM(signed(class_shards()), mu=3.0),
    "softmax": Softmax(class_shards()),
}


@pytest.mark.parametrize("name", MODELS)
def test_shipped_models_pass_the_checker(name):
    """Gradients match finite differences, and the batched forms match node by node."""
    check_model(MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_totals_are_sums_over_nodes(name):
    """total(y) and totals(Y) are the plain sums of every node's loss and gradient."""
    model = MODELS[name]
    Y = RNG.standard_normal((5, model.size))
    losses = [sum(model.loss(i, y) for i in range(model.nodes)) for y in Y]
    assert_allclose(model.totals(Y), losses, rtol=1e-10)
    loss, gradient = model.total(Y[0])
    assert loss == pytest.approx(losses[0], rel=1e-10)
    assert_allclose(gradient, sum(model.gradient(i, Y[0]) for i in range(model.nodes)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_smoothness_bounds_every_curvature_found(name):
    """No pair of random points shows a steeper gradient than L_i, and the bound is not absurd (within 100x)."""
    model = MODELS[name]
    L = model.smoothness()
    for i in range(model.nodes):
        steepest = 0.0
        for _ in range(200):
            y, d = RNG.standard_normal((2, model.size)) * 0.1
            change = np.linalg.norm(model.gradient(i, y + d) - model.gradient(i, y))
            steepest = max(steepest, change / np.linalg.norm(d))
        assert steepest <= L[i] * (1 + 1e-9)
        assert L[i] <= 100 * steepest


def test_many_samples_have_the_gradient_of_their_parts():
    """9,000 samples of a node, more than are read at a time: the sum over nodes that hold 1,000 of them each."""
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(9000, 5)), rng.integers(0, 3, 9000)
    settings = {"classes": 3, "class_weight": [1.0, 2.0, 0.5]}
    whole = Softmax([(X, labels)], **settings)
    parts = Softmax([(X[a : a + 1000], labels[a : a + 1000]) for a in range(0, 9000, 1000)], **settings)
    y = rng.normal(size=whole.size)
    assert_allclose(whole.gradient(0, y), parts.gradients(np.tile(y, (9, 1))).sum(axis=0), rtol=1e-10, atol=1e-14)


def test_softmax_optimum_is_scikit_learns():
    """Pooled optimum against LogisticRegression with the same ridge (C = 1/(N reg), biases by a column of ones)."""
    shards = class_shards()
    model = Softmax(shards, reg=0.01)
    X, y = np.concatenate([X for X, _ in shards]), np.concatenate([y for _, y in shards])
    ones = np.column_stack([X, np.ones(len(X))])
    theirs = LogisticRegression(C=1 / (len(X) * 0.01), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(ones, y)
    ours = optimal_model(model).parameters.reshape(4, 3).T
    assert_allclose(ours - ours.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-5)
    assert model.accuracy(ours.T.ravel(), X, y) == pytest.approx(theirs.score(ones, y))


def test_ridge_optimum_is_scikit_learns():
    """Least squares with reg is ridge regression with alpha = N reg."""
    shards = class_shards()
    X, y = np.concatenate([X for X, _ in shards]), np.concatenate([y for _, y in shards])
    theirs = Ridge(alpha=0.1 * len(X), fit_intercept=False).fit(X, y).coef_
    assert_allclose(optimal_model(LeastSquares(shards, reg=0.1)).parameters, theirs, atol=1e-10)


def test_smooth_svm_optimum_by_cvxpy():
    """The smooth hinge is a logistic function of scaled margins: the conic solver finds the same parameters."""
    import cvxpy as cp

    shards = signed(class_shards())
    model = SmoothSVM(shards, mu=3.0, reg=0.05)
    X, labels = np.concatenate([X for X, _ in shards]), np.concatenate([y for _, y in shards])
    w, v = cp.Variable(3), cp.Variable()
    margins = 3.0 * (1 - cp.multiply(labels, X @ w - v))
    objective = cp.sum(cp.logistic(margins)) / (3.0 * len(X)) + 0.025 * cp.sum_squares(w)
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    found = optimal_model(model)
    assert_allclose(found.parameters, np.append(w.value, v.value), atol=1e-4)
    assert found.loss <= objective.value + 1e-9


class Huber:
    """A user's model with nothing but the four names: robust location of each node's numbers."""

    nodes, size = 6, 1

    def __init__(self):
        self.points = np.random.default_rng(3).standard_normal((6, 20)) + np.arange(6)[:, None]

    def loss(self, node, y):
        r = y[0] - self.points[node]
        return float(np.sum(np.sqrt(1 + r * r) - 1))

    def gradient(self, node, y):
        r = y[0] - self.points[node]
        return np.array([np.sum(r / np.sqrt(1 + r * r))])


def test_a_users_model_is_checked_and_trained():
    """Four names are enough: the run agrees with a scalar minimiser on the pooled points."""
    from scipy.optimize import minimize_scalar

    model = Huber()
    check_model(model)
    run = solve(Problem(model=model), Network.ring(6), Method(), rounds=2000, target=1e-12)
    best = minimize_scalar(lambda y: sum(model.loss(i, [y]) for i in range(6)), tol=1e-12).x
    assert_allclose(run.models[:, 0], best, atol=1e-4)
    assert run.status == "converged"


def test_a_wrong_gradient_is_explained():
    """The checker says at which node and by how much."""

    class Wrong(Huber):
        def gradient(self, node, y):
            return 2 * super().gradient(node, y)

    with refused("model.gradient", "Wrong.loss", "node 0"):
        check_model(Wrong())


def test_a_wrong_gradient_does_not_reach_a_run():
    """A user's model is looked at when the problem is made; a hill is refused too, for nothing could be certified on it."""

    class Hill(Huber):
        def loss(self, node, y):
            return float(np.cos(0.3 * y[0]))

        def gradient(self, node, y):
            return -0.3 * np.sin(0.3 * y)

    class Wrong(Huber):
        def gradient(self, node, y):
            return 2 * super().gradient(node, y)

    with refused("model.gradient"):
        Problem(model=Wrong())
    with refused("model.convex"):
        Problem(model=Hill())


def test_a_wrong_batch_is_explained():
    """A fast path that disagrees with the slow one is caught."""

    class Wrong(LeastSquares):
        def gradients(self, Y):
            return super().gradients(Y)[::-1]

    with refused("model.gradients"):
        check_model(Wrong(class_shards()))


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: LeastSquares([]), ("shards.none",)),
        (lambda: LeastSquares([(np.zeros((0, 2)), np.zeros(0))]), ("shards.empty", "shard 0")),
        (lambda: LeastSquares([(np.ones((2, 2)), np.ones(3))]), ("split.rows", 2)),
        (
            lambda: LeastSquares([(np.ones((2, 2)), np.ones(2)), (np.ones((2, 3)), np.ones(2))]),
            ("shards.features", "shard 1", 3),
        ),
        (lambda: LeastSquares([(np.full((2, 2), np.nan), np.ones(2))]), ("shards.finite",)),
        (lambda: LeastSquares([(np.ones(3), np.ones(3))]), ("shards.shape",)),
        (lambda: Softmax([(np.ones((2, 2)), np.array([0.5, 1]))]), ("model.labels", 0, 1, 2)),
        (lambda: Softmax([(np.ones((2, 2)), np.array([-1, 1]))]), ("model.labels", "shard 0", 1)),
        (lambda: Softmax([(np.ones((2, 2)), np.array([0, 5]))], classes=3), ("model.classes", 3, 5)),
        (lambda: Softmax(class_shards(), reg=0.0), ("model.reg", 0.0)),
        (lambda: SmoothSVM([(np.ones((2, 2)), np.array([0, 1]))]), ("model.labels", 1, "shard 0", 0)),
        (lambda: SmoothSVM(signed(class_shards()), mu=0.0), ("model.reg",)),
        (lambda: Problem(model=object()), ("model.method",)),
        (lambda: check_model(type("Bare", (Model,), {"nodes": 1})()), ("model.method",)),
    ],
)
def test_bad_shards_and_models_are_refused(make, refusal):
    """One line that names the shard and what is wrong."""
    with refused(*refusal):
        make()
