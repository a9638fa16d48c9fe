"""Sparse shards stay sparse and say what dense ones say; weights of classes are what repeated rows are."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from equipoise.data import split
from equipoise.engine import Workers
from equipoise.train import Faults, LeastSquares, Method, Network, Problem, SmoothSVM, Softmax, check_model, solve
from equipoise.train.coupling.instance import Perceptron
from equipoise.train.models import least_squares
from equipoise.train.models._base import read_shards
from equipoise.train.problem import Subset
from equipoise.train.truth import optimal_model
from refusals import refused

NODES, COLUMNS = 4, 150  # more than the 128 up to which least squares keeps X'X


def one_hot(nodes=NODES, rows=60, texts=3, values=COLUMNS // 3, classes=2, seed=0):
    """Shards of one-hot rows, as the rare values of text columns make them, and of one dense-looking column each."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(1, values + 1)
    weights = rng.standard_normal((texts * values, classes))
    shards = []
    for node in range(nodes):
        many = rows + 7 * node
        places = np.stack([k * values + rng.choice(values, many, p=often / often.sum()) for k in range(texts)], axis=1)
        entries = rng.uniform(0.5, 2.0, places.size)
        X = sparse.csr_array((entries, places.ravel(), np.arange(0, places.size + 1, texts)), (many, texts * values))
        shards.append((X, (X @ weights + 0.5 * rng.standard_normal((many, classes))).argmax(axis=1)))
    return shards


def dense(shards):
    return [(X.toarray(), y) for X, y in shards]


def signed(shards):
    return [(X, 2 * y - 1) for X, y in shards]


def numbers(shards):
    """Answers that are no classes."""
    return [(X, np.asarray(X.sum(axis=1)) + np.sin(np.arange(X.shape[0]))) for X, _ in shards]


def pooled(shards):
    return np.concatenate([X.toarray() for X, _ in shards]), np.concatenate([y for _, y in shards])


CASES = {
    "least_squares": (lambda shards: LeastSquares(shards, reg=0.05), numbers(one_hot())),
    "smooth_svm": (lambda shards: SmoothSVM(shards, reg=0.05), signed(one_hot())),
    "weighted_svm": (lambda shards: SmoothSVM(shards, reg=0.05, class_weight=[0.5, 3.0]), signed(one_hot())),
    "softmax": (lambda shards: Softmax(shards, reg=0.05), one_hot(classes=3)),
    "weighted_softmax": (lambda shards: Softmax(shards, reg=0.05, class_weight=[0.5, 1.0, 3.0]), one_hot(classes=3)),
}


@pytest.fixture(params=CASES)
def case(request):
    """The same model on sparse and on dense shards, and the sparse shards."""
    make, shards = CASES[request.param]
    return make(shards), make(dense(shards)), shards


def test_sparse_shards_say_what_dense_ones_say(case):
    """Losses, gradients, totals and samples of all nodes agree with the same data in arrays, to rounding."""
    thin, full, shards = case
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((NODES, thin.size))
    rows = [rng.choice(len(y), 9, replace=False) for _, y in shards]
    assert_allclose([thin.loss(i, Y[i]) for i in range(NODES)], [full.loss(i, Y[i]) for i in range(NODES)], rtol=1e-11)
    assert_allclose(thin.gradients(Y), full.gradients(Y), rtol=1e-10, atol=1e-13)
    assert_allclose(thin.totals(Y), full.totals(Y), rtol=1e-11)
    for mine, same in zip(thin.total(Y[0]), full.total(Y[0]), strict=True):
        assert_allclose(mine, same, rtol=1e-10, atol=1e-13)
    for mine, same in zip(thin.sampled(Y, rows), full.sampled(Y, rows), strict=True):
        assert_allclose(mine, same, rtol=1e-10, atol=1e-13)
    part = np.array([0, 2])
    assert_array_equal(thin.part(part).gradients(Y[part]), thin.gradients(Y)[part])
    left = Subset(thin, part)
    assert_allclose(left.totals(Y), Subset(full, part).totals(Y), rtol=1e-10)
    assert_allclose(left.total(Y[0])[1], thin.gradient(0, Y[0]) + thin.gradient(2, Y[0]), rtol=1e-10, atol=1e-13)


def test_sparse_models_pass_the_checker(case):
    """Gradients are those of the losses by finite differences, with weights and without."""
    check_model(case[0])


def test_smoothness_bounds_the_largest_singular_value(case):
    """L_i is at least the curvature that numpy's own SVD gives to the weighted data, and at most a tenth above it."""
    model, _, shards = case
    N = sum(len(y) for _, y in shards)
    for node, (X, y) in enumerate(shards):
        weights = np.ones(len(y))
        if getattr(model, "class_weight", None) is not None:
            weights = model.class_weight[np.searchsorted(np.unique(y), y)]
        rows = X.toarray() if isinstance(model, LeastSquares) else np.column_stack([X.toarray(), np.ones(len(y))])
        top = np.linalg.svd(np.sqrt(weights)[:, None] * rows, compute_uv=False)[0] ** 2
        steep = {LeastSquares: 1.0, Softmax: 0.5, SmoothSVM: 0.75}[type(model)]  # mu / 4 of mu = 3
        least = steep * top / N + 0.05 / NODES
        assert least <= model.smoothness()[node] <= 1.1 * least


def test_the_optimum_of_a_sparse_model_is_that_of_the_dense_one(case):
    """Both are trusted, and of the same loss; least squares takes LSMR here and QR there."""
    thin, full, _ = case
    mine, same = optimal_model(thin), optimal_model(full)
    assert mine.trusted and same.trusted
    assert mine.loss == pytest.approx(same.loss, rel=1e-11)
    assert_allclose(mine.parameters, same.parameters, atol=1e-5)


def test_sparse_ridge_is_scikit_learns():
    """Least squares on sparse rows against Ridge, for all nodes and for some of them."""
    shards = numbers(one_hot())
    model, N = LeastSquares(shards, reg=0.02), sum(len(y) for _, y in shards)
    theirs = Ridge(alpha=0.02 * N, fit_intercept=False).fit(*pooled(shards)).coef_
    assert_allclose(model.optimum(), theirs, atol=1e-10)
    theirs = Ridge(alpha=0.02 * N / 2, fit_intercept=False).fit(*pooled(shards[:2])).coef_
    assert_allclose(model.optimum_of(np.array([0, 1])), theirs, atol=1e-10)


def test_least_squares_without_a_ridge_fits_as_numpy_does():
    """Columns that never occur, and one-hot blocks that add up to the same, leave many best models: one of least loss."""
    shards = numbers(one_hot(rows=30))
    X, y = pooled(shards)
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    found = optimal_model(LeastSquares(shards))
    assert found.trusted
    assert found.loss == pytest.approx(np.sum((X @ best - y) ** 2) / (2 * len(y)), rel=1e-10)


def test_scores_are_the_same_on_sparse_rows(case):
    """accuracy and error take sparse rows of any format."""
    thin, full, shards = case
    X, y = pooled(shards)
    parameters = np.random.default_rng(2).standard_normal(thin.size)
    for rows in (sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_array(X)):
        if isinstance(thin, LeastSquares):
            assert thin.error(parameters, rows, y) == pytest.approx(np.sqrt(np.mean((X @ parameters - y) ** 2)))
        else:
            assert thin.accuracy(parameters, rows, y) == full.accuracy(parameters, X, y)


# how shards are read


def test_any_sparse_format_becomes_rows():
    """Formats, types and repeated entries make no difference; arrays among sparse shards become sparse."""
    X = np.array([[0, 2, 0], [1, 0, 3]])
    twice = sparse.coo_array(([1.0, 1.0, 1.0, 3.0], ([0, 0, 1, 1], [1, 1, 0, 2])), shape=(2, 3))
    formats = [sparse.csr_matrix(X), sparse.csc_array(X), sparse.lil_array(X), sparse.dok_array(X), twice, X]
    data = read_shards([(given, [0, 1]) for given in formats], sparse=True)
    assert data.sparse and data.features == 3
    for rows in data.X:
        assert isinstance(rows, sparse.csr_array) and rows.dtype == np.float64 and rows.nnz == 3
        assert_array_equal(rows.toarray(), X)
    assert twice.nnz == 4  # what was given stays as it was
    loose = sparse.csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 3))
    assert read_shards([(loose, [1])], sparse=True).X[0].nnz == 1 and loose.nnz == 2


def test_sparse_shards_are_checked_like_dense_ones():
    """Not finite, empty, of other widths or of too few answers: the same codes as for arrays."""
    good = sparse.eye_array(3, format="csr")
    holes = good.copy()
    holes.data[1] = np.nan
    with refused("shards.finite", "shard 1"):
        Softmax([(good, [0, 1, 0]), (holes, [0, 1, 0])])
    with refused("shards.empty", "shard 0"):
        LeastSquares([(sparse.csr_array((0, 3)), [])])
    with refused("shards.features", "shard 1", 4, 3):
        LeastSquares([(good, [1, 2, 3]), (sparse.eye_array(4), [1, 2, 3, 4])])
    with refused("split.rows", 3):
        SmoothSVM([(good, [1, -1])])
    with refused("shards.shape", "(3,)"):
        LeastSquares([(sparse.coo_array(np.ones(3)), [1.0, 2.0, 3.0])])


@pytest.mark.parametrize("how", ["even", "label", "dirichlet"])
def test_splits_deal_out_sparse_rows(how):
    """Every node gets the rows that it would get of an array, still sparse."""
    X, y = pooled(one_hot())
    for given in (sparse.csr_array(X), sparse.csc_matrix(X)):
        for (mine, labels), (same, meant) in zip(split(given, y, 5, how), split(X, y, 5, how), strict=True):
            assert sparse.issparse(mine)
            assert_array_equal(mine.toarray(), same)
            assert_array_equal(labels, meant)


def test_models_that_cannot_stay_sparse_say_so():
    """A net refuses sparse rows by name, instead of making them dense."""
    with refused("shards.sparse", "shard 0"):
        Perceptron([(sparse.eye_array(3), [0, 1, 1])], classes=2)


def test_a_matrix_free_model_refuses_its_hessian():
    """Nobody gets a matrix of columns x columns by accident; up to 128 columns it is there as ever."""
    wide, narrow = numbers(one_hot()), numbers(one_hot(values=20))
    with refused("model.hessian", COLUMNS):
        LeastSquares(wide).hessian  # noqa: B018
    kept, given = LeastSquares(narrow, reg=0.1), LeastSquares(dense(narrow), reg=0.1)
    assert_allclose(kept.hessian, given.hessian, atol=1e-14)
    assert_allclose(kept.optimum(), given.optimum(), atol=1e-10)
    assert not hasattr(LeastSquares(wide), "nothing")


def test_arrays_of_many_columns_and_few_rows_keep_no_hessians(monkeypatch):
    """Where matrices of columns x columns would be large, and larger than the data, arrays are trained without them too."""
    shards = dense(numbers(one_hot()))
    usual = LeastSquares(shards, reg=0.1)
    monkeypatch.setattr(least_squares, "LARGE", 0.0)
    free = LeastSquares(shards, reg=0.1)
    assert free.matrix_free and not usual.matrix_free
    Y = np.random.default_rng(6).standard_normal((NODES, COLUMNS))
    assert_allclose(free.gradients(Y), usual.gradients(Y), rtol=1e-10, atol=1e-13)
    assert_allclose(free.totals(Y), usual.totals(Y), rtol=1e-11)
    assert_allclose(free.optimum(), usual.optimum(), atol=1e-10)
    many = [(np.tile(X, (5, 1)), np.tile(y, 5)) for X, y in shards]
    assert not LeastSquares(many, reg=0.1).matrix_free  # more data than matrices


def test_no_dense_copy_is_made(monkeypatch):
    """20,000 columns: all a model does takes a hundredth of what its rows would as arrays, and never calls toarray."""

    def watched(original):
        def call(self, *given, **named):
            assert self.shape[1] < 20_000, "a dense copy"
            return original(self, *given, **named)

        return call

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, watched(getattr(kind, name)))
    shards = one_hot(rows=2000, texts=4, values=5000)
    size_dense = 8 * sum(y.size for _, y in shards) * 20_000
    models = [LeastSquares(numbers(shards), reg=0.1), Softmax(shards, reg=0.1), SmoothSVM(signed(shards), reg=0.1)]
    for model in models:
        tracemalloc.start()
        run = solve(Problem(model=model), Network.complete(NODES), Method(), rounds=4, batch=50)
        run.certificate()
        solve(Problem(model=model), Network.complete(NODES), Method(), rounds=4).certificate()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size_dense / 20, f"{type(model).__name__}: {peak / 1e6:.0f} MB of {size_dense / 1e6:.0f}"


# runs


@pytest.mark.parametrize("name", ["least_squares", "weighted_svm", "weighted_softmax"])
@pytest.mark.parametrize("faults", [None, Faults(loss=0.1)], ids=["reliable", "lossy"])
def test_a_run_on_sparse_data_passes(name, faults):
    """The certificate of a sparse run passes, and its models are those of the dense run."""
    make, shards = CASES[name]
    runs = [
        solve(Problem(model=make(given)), Network.ring(NODES), rounds=4000, target=1e-7, faults=faults)
        for given in (shards, dense(shards))
    ]
    for run in runs:
        assert run.status == "converged" and run.certificate().passed, run.certificate()
    assert_allclose(runs[0].models, runs[1].models, atol=0.02 * np.abs(runs[1].models).max())


def test_a_sparse_svm_follows_its_ridge():
    """Many rare columns are as flat as the ridge: steps that reckon with it need less than half of the rounds."""
    shards = signed(one_hot())
    models = SmoothSVM(shards, reg=2e-3), SmoothSVM(shards, reg=2e-3)
    models[1].flattest = 0.0
    runs = [solve(Problem(model=m), Network.complete(NODES), rounds=8000, target=1e-6, every=5) for m in models]
    assert all(run.certificate().passed for run in runs)
    assert 2 * runs[0].rounds < runs[1].rounds


@pytest.mark.parametrize("name", ["least_squares", "weighted_svm", "weighted_softmax"])
@pytest.mark.parametrize("batch", [None, 40], ids=["whole", "batch"])
def test_workers_play_sparse_data_to_the_bit(name, batch):
    """Two processes with half of the sparse shards each, weights and all, come to the bits of one process."""
    make, shards = CASES[name]
    problem, options = Problem(model=make(shards)), {"rounds": 40, "batch": batch}
    alone = solve(problem, Network.ring(NODES), **options)
    crew = solve(problem, Network.ring(NODES), engine=Workers(2, on="processes"), **options)
    assert_array_equal(crew.models, alone.models)
    assert_array_equal(crew.history["gap"], alone.history["gap"])


@pytest.mark.parametrize("name", CASES)
def test_mini_batches_of_sparse_rows_pass(name):
    """Batches of most of a shard: the gap is within what their noise allows, and the certificate says so."""
    make, shards = CASES[name]
    run = solve(Problem(model=make(shards)), Network.ring(NODES), rounds=200, batch=55)
    assert run.certificate().passed, run.certificate()


def test_a_crash_leaves_the_survivors_optimum():
    """A centre that crashes takes its sparse rows along: the others end at Ridge on theirs."""
    shards = numbers(one_hot())
    problem = Problem(model=LeastSquares(shards, reg=0.05))
    run = solve(problem, Network.complete(NODES), rounds=3000, target=1e-9, faults=Faults(crash={3: 20}))
    assert run.certificate().passed, run.certificate()
    N = sum(len(y) for _, y in shards)
    theirs = Ridge(alpha=0.05 * N * 3 / NODES, fit_intercept=False).fit(*pooled(shards[:3])).coef_
    assert_allclose(run.models[0], theirs, atol=2e-3 * np.abs(theirs).max())


# weights of classes


def repeated(shards, times):
    """Each row as often as its class is heavy."""
    return [(np.repeat(X, times[y], axis=0), np.repeat(y, times[y])) for X, y in shards]


@pytest.mark.parametrize("kind", ["softmax", "svm"])
def test_a_weight_is_what_repeated_rows_are(kind):
    """Weight 2 for a class is each of its rows twice: the losses differ by the number of samples they are divided by."""
    shards = dense(one_hot(classes=2, values=4))
    times = np.array([1, 2])
    again = repeated(shards, times)
    N, more = (sum(len(y) for _, y in part) for part in (shards, again))
    reg = 0.03
    if kind == "softmax":
        weighted, twice = Softmax(shards, reg=reg, class_weight=[1, 2]), Softmax(again, reg=reg * N / more)
    else:
        weighted = SmoothSVM(signed(shards), reg=reg, class_weight=[1, 2])
        twice = SmoothSVM(signed(again), reg=reg * N / more)
    Y = np.random.default_rng(4).standard_normal((NODES, weighted.size))
    scale = more / N
    for i in range(NODES):
        assert weighted.loss(i, Y[i]) == pytest.approx(scale * twice.loss(i, Y[i]), rel=1e-12)
    assert_allclose(weighted.gradients(Y), scale * twice.gradients(Y), rtol=1e-10, atol=1e-13)
    assert_allclose(weighted.totals(Y), scale * twice.totals(Y), rtol=1e-12)
    assert_allclose(weighted.total(Y[0])[1], scale * twice.total(Y[0])[1], rtol=1e-10, atol=1e-13)
    assert_allclose(weighted.smoothness(), scale * twice.smoothness(), rtol=1e-3)
    everything = [np.arange(len(y)) for _, y in shards]
    assert_allclose(weighted.sampled(Y, everything)[0], weighted.gradients(Y), rtol=1e-10, atol=1e-13)


def test_a_weighted_optimum_is_scikit_learns():
    """Softmax with class weights against LogisticRegression with class_weight, and the same ridge."""
    shards = one_hot(classes=3, values=6)
    weights = {0: 0.5, 1: 1.0, 2: 4.0}
    X, y = pooled(shards)
    ones = np.column_stack([X, np.ones(len(X))])
    theirs = LogisticRegression(
        C=1 / (len(X) * 0.01), fit_intercept=False, tol=1e-10, max_iter=10_000, class_weight=weights
    ).fit(ones, y)
    found = optimal_model(Softmax(shards, reg=0.01, class_weight=list(weights.values()))).parameters
    ours = found.reshape(-1, 3).T
    assert_allclose(ours - ours.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-5)


def test_equal_weights_of_one_are_no_weights():
    """A weight of 1 for every class changes nothing."""
    shards = one_hot(classes=2)
    Y = np.random.default_rng(5).standard_normal((NODES, 2 * (COLUMNS + 1)))
    plain, ones = Softmax(shards), Softmax(shards, class_weight=[1, 1])
    assert_allclose(ones.gradients(Y), plain.gradients(Y), rtol=1e-14)
    assert plain.class_weight is None


@pytest.mark.parametrize("wrong", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], [1.0, np.inf], "balanced", 2.0])
def test_weights_that_are_none_are_refused(wrong):
    """One finite number above 0 for each class, and nothing else."""
    with refused("model.class_weight", repr(wrong)):
        Softmax(one_hot(classes=2), class_weight=wrong)
    with refused("model.class_weight", "-1, +1"):
        SmoothSVM(signed(one_hot(classes=2)), class_weight=wrong)
