"""DecentralisedClassifier and DecentralisedRegressor: scikit-learn's own checks, and its models of the pooled rows."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import equipoise
from equipoise.train import (
    DecentralisedClassifier,
    DecentralisedRegressor,
    Exact,
    LeastSquares,
    Method,
    Network,
    Quadratic,
    Softmax,
    check_model,
)
from equipoise.train.rescaled import Rescaled
from refusals import refused

TOL = 1e-8
BOTH = (DecentralisedClassifier, DecentralisedRegressor)


@parametrize_with_checks([DecentralisedClassifier(), DecentralisedRegressor()])
def test_scikit_learn_takes_them_for_its_own(estimator, check):
    """Every check of scikit-learn, with no exception. That of other arrays needs SciPy to be told of them when it is loaded,
    so it runs in a process of its own."""
    if check.func.__name__ == "check_array_api_input":
        _in_a_process_with_array_api(estimator)
    else:
        check(estimator)


def _in_a_process_with_array_api(estimator):
    name = type(estimator).__name__
    code = f"""
from sklearn.utils.estimator_checks import estimator_checks_generator
from equipoise.train import {name}
done = 0
for estimator, check in estimator_checks_generator({name}()):
    if check.func.__name__ == "check_array_api_input":
        check(estimator)
        done += 1
print(done, "done")
"""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.startswith("1 done"), done.stdout + done.stderr


def two_or_more(classes, seed=0):
    return make_classification(120, 6, n_informative=4, n_classes=classes, flip_y=0.1, random_state=seed)


# the same optimum as on pooled rows


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("classes", "settings"),
    [
        (2, {}),
        (3, {}),
        (2, {"C": 0.01}),
        (3, {"C": 0.1, "fit_intercept": False}),
        (2, {"C": 0.1, "class_weight": "balanced"}),
        (3, {"C": 0.1, "class_weight": {0: 1.0, 1: 3.0, 2: 0.5}}),
    ],
)
def test_the_classifier_is_logistic_regression_on_the_pooled_rows(classes, settings, sparse):
    """A gap of tol log(K), times the heaviest weight, allows |w - w*|^2 = 2 C N gap: the penalty alone bends that much."""
    X, y = two_or_more(classes)
    ours = DecentralisedClassifier(tol=TOL, random_state=0, **settings).fit(csr_array(X) if sparse else X, y)
    pooled = LogisticRegression(tol=1e-10, max_iter=10_000, **settings).fit(X, y)
    room = np.sqrt(2 * ours.C * len(y) * TOL * 3 * np.log(classes))
    assert ours.coef_.shape == pooled.coef_.shape
    assert np.linalg.norm(ours.coef_ - pooled.coef_) <= room
    # The best intercept moves at most as the scores do; nothing else holds it.
    assert np.abs(ours.intercept_ - pooled.intercept_).max() <= room * (1 + np.abs(X).max() * np.sqrt(X.shape[1]))
    assert np.abs(ours.predict_proba(X) - pooled.predict_proba(X)).max() <= 0.01
    assert (ours.decision_function(X) - pooled.decision_function(X)).max() <= 0.05
    assert ours.certificate_.passed


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("settings", [{}, {"alpha": 30.0}, {"fit_intercept": False}, {"alpha": 0.0}])
def test_the_regressor_is_ridge_on_the_pooled_rows(settings, sparse):
    """A gap of tol times the mean square of y allows |w - w*|^2 = tol |y|^2 / (alpha + the flattest eigenvalue of X'X)."""
    X, y = make_regression(90, 6, noise=5.0, bias=40.0, random_state=1)
    X = X * np.array([1e-3, 0.1, 1.0, 1.0, 10.0, 1e3])
    ours = DecentralisedRegressor(tol=TOL, random_state=0, **settings).fit(csr_array(X) if sparse else X, y)
    pooled = Ridge(**settings).fit(X, y)
    middle = X.mean(axis=0) if ours.fit_intercept else np.zeros(6)
    flattest = np.linalg.eigvalsh((X - middle).T @ (X - middle))[0]
    assert np.linalg.norm(ours.coef_ - pooled.coef_) <= np.sqrt(TOL * (y @ y) / (ours.alpha + flattest))
    assert ours.predict(X) == pytest.approx(pooled.predict(X), abs=1e-3 * y.std())
    assert ours.certificate_.passed


def test_columns_of_any_scale_and_offset_keep_the_optimum():
    """Grams, milligrams, years since 0: the penalty is that of the columns as given, and so are the probabilities."""
    X, y = two_or_more(2)
    X = X * np.logspace(-3, 3, 6) + np.array([0, 5, -5, 2000, 0, 1e5])
    ours = DecentralisedClassifier(random_state=0, tol=1e-6).fit(X, y)
    scaler = StandardScaler().fit(X)  # only so that the solver arrives: a penalty for each column undoes it
    pooled = LogisticRegression(tol=1e-10, max_iter=100_000, solver="newton-cholesky").fit(X - scaler.mean_, y)
    assert ours.predict_proba(X) == pytest.approx(pooled.predict_proba(X - scaler.mean_), abs=0.01)


def test_a_column_that_says_nothing_gets_nothing():
    """By hand: y = 2 x; a column of sevens, and one of zeros without any penalty, have the coefficient 0."""
    X = np.column_stack([np.arange(12.0), np.full(12, 7.0), np.zeros(12)])
    fitted = DecentralisedRegressor(alpha=0.0, tol=1e-12, random_state=0).fit(X, 2 * X[:, 0])
    assert fitted.coef_ == pytest.approx([2.0, 0.0, 0.0], abs=1e-4)
    assert DecentralisedRegressor(random_state=0).fit(X[:, 1:], np.full(12, 3.5)).predict(X[:, 1:]) == pytest.approx(
        3.5
    )


# who holds which rows


def test_centres_by_name_are_the_centres_of_the_run():
    """Rows stay with whom they are: shares come by name, and a list of (X, y) is the same fit, to rounding."""
    X, y = two_or_more(3)
    city = np.array(["Rome", "Oslo", "Lima"])[np.arange(len(y)) % 7 % 3]
    fitted = DecentralisedClassifier(random_state=3).fit(X, y, centres=city)
    assert fitted.centres_.tolist() == ["Lima", "Oslo", "Rome"]
    assert fitted.run_.network.n == 3
    assert fitted.run_.problem.cost.work.tolist() == [float((city == name).sum()) for name in fitted.centres_]
    parts = [(X[city == name], y[city == name]) for name in fitted.centres_]
    assert DecentralisedClassifier(random_state=3).fit(parts).coef_ == pytest.approx(fitted.coef_, abs=1e-6)


def test_a_centre_may_hold_one_class_and_classes_are_those_of_all():
    """Sorted by class, five centres of three text classes: the pooled model all the same."""
    X, y = two_or_more(3)
    names = np.array(["blue", "green", "red"])[y]
    order = np.argsort(names)
    parts = [(X[rows], names[rows]) for rows in np.array_split(order, 5)]
    assert min(len(set(labels)) for _, labels in parts) == 1
    fitted = DecentralisedClassifier(random_state=0, tol=1e-6).fit(parts)
    assert fitted.classes_.tolist() == ["blue", "green", "red"]
    assert (fitted.predict(X) == LogisticRegression().fit(X, names).predict(X)).mean() >= 0.98
    assert fitted.certificate_.passed


@pytest.mark.parametrize("kind", BOTH)
def test_rows_that_nobody_names_are_dealt_evenly_by_seed(kind):
    """13 rows over 5 centres: three hold 3 and two hold 2; the same seed deals the same, another another."""
    X, y = two_or_more(2)
    X, y = X[:13], y[:13]
    one, again, other = (kind(random_state=seed, tol=0.01).fit(X, y) for seed in (1, 1, 2))
    assert sorted(one.run_.problem.cost.work) == [2, 2, 3, 3, 3]
    assert (one.coef_ == again.coef_).all() and (one.shares_ == again.shares_).all()
    assert not (one.coef_ == other.coef_).all()
    assert len(kind(n_centres=50, tol=0.01).fit(X, y).shares_) == 13


# what a fit leaves behind


@pytest.mark.parametrize("kind", BOTH)
def test_shares_are_the_budget_and_the_certificate_is_the_runs(kind):
    """25 CPUs a centre unless told, to the last bit; another budget and another cost are taken as they are."""
    X, y = two_or_more(2)
    fitted = kind(random_state=0).fit(X, y)
    assert fitted.shares_.sum() == 125.0 and ((fitted.shares_ >= 10) & (fitted.shares_ <= 40)).all()
    assert fitted.certificate_.passed and {"budget", "kkt", "gap", "consensus"} <= {c.name for c in fitted.certificate_}
    assert fitted.n_iter_ == fitted.run_.rounds
    cost = Quadratic(a=np.ones(5), c=np.arange(5.0), lo=0.0, hi=9.0)  # by hand: equal prices are shares of c plus 2
    told = kind(cost=cost, budget=20.0, tol=1e-10, random_state=0).fit(X, y)
    assert told.shares_ == pytest.approx(np.arange(5.0) + 2, abs=1e-3)


@pytest.mark.parametrize("kind", BOTH)
def test_a_pickle_predicts_and_holds_no_rows(kind):
    """Whoever is sent the model is not sent the data: the run, which has it, stays behind."""
    X, y = two_or_more(2)
    fitted = kind(random_state=0).fit(X, y)
    sent = pickle.dumps(fitted)
    there = pickle.loads(sent)
    assert (there.predict(X) == fitted.predict(X)).all() and there.certificate_.passed
    assert len(sent) < X.nbytes and X[3].tobytes() not in sent
    assert hasattr(fitted, "run_") and not hasattr(there, "run_")


def test_what_has_converged_has_a_certificate_that_passes():
    """8,000 sparse columns: the gap is met five rounds before gradients cancel as far as the certificate asks."""
    X = csr_array(random_array((2000, 8000), density=0.001, rng=np.random.RandomState(1)))
    y = X @ np.random.default_rng(1).normal(size=8000) > 0
    fitted = DecentralisedClassifier(random_state=1, max_iter=300).fit(X, y)
    assert fitted.run_.status == "converged" and fitted.certificate_.passed
    met = fitted.run_.history["relative_gap"] <= fitted.tol
    assert fitted.run_.history["gradient"][met][0] > np.sqrt(fitted.tol)  # stopping there would not have passed


def test_rounds_that_are_too_few_are_warned_about():
    """Two rounds reach nothing, a model is there all the same, and the certificate says that it is not the best."""
    X, y = two_or_more(2)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        fitted = DecentralisedClassifier(max_iter=2, random_state=0).fit(X, y)
    assert fitted.n_iter_ == 2 and not fitted.certificate_.passed and fitted.coef_.shape == (1, 6)


@pytest.mark.parametrize(
    "network", ["ring", "erdos_renyi", Network.path(5), Network.ring(5, directed=True), Network.star(5)], ids=str
)
def test_any_network_and_method_makes_the_same_model(network):
    """Who talks to whom changes the rounds, not what is learnt."""
    X, y = make_regression(60, 4, noise=1.0, random_state=0)
    fitted = DecentralisedRegressor(network=network, method=Method(quantizer=Exact()), random_state=0).fit(X, y)
    assert fitted.predict(X) == pytest.approx(Ridge().fit(X, y).predict(X), abs=0.05 * y.std())


def test_a_run_of_rescaled_columns_does_not_pass_for_a_model_of_the_rows():
    """`run_.to_sklearn()` would predict from columns that nobody has: it is refused."""
    X, y = two_or_more(2)
    with refused("estimator.none"):
        DecentralisedClassifier(random_state=0).fit(X, y).run_.to_sklearn()


# inside scikit-learn's own tools


def test_a_grid_search_chooses_as_with_logistic_regression():
    """80 rows of 40 columns, 3 of which matter: a weak penalty learns the noise. Both choose the strong one."""
    X, y = make_classification(80, 40, n_informative=3, n_redundant=0, flip_y=0.2, random_state=4)
    grid, how = {"C": [0.01, 1.0]}, {"scoring": "neg_log_loss"}
    ours = GridSearchCV(DecentralisedClassifier(random_state=0), grid, **how).fit(X, y)
    pooled = GridSearchCV(LogisticRegression(max_iter=1000), grid, **how).fit(X, y)
    means = pooled.cv_results_["mean_test_score"]
    assert means[0] > means[1] + 0.2  # the choice is clear
    assert ours.best_params_ == pooled.best_params_
    assert ours.cv_results_["mean_test_score"] == pytest.approx(means, abs=0.01)


def test_cross_validation_slices_the_centres():
    """`params` and `groups` of scikit-learn: every fold trains on the rows of its own centres."""
    X, y = two_or_more(2)
    place = np.arange(len(y)) % 4
    estimator = DecentralisedClassifier(random_state=0)
    scores = cross_val_score(estimator, X, y, params={"centres": place})
    assert scores == pytest.approx(cross_val_score(LogisticRegression(), X, y), abs=0.05)
    left_out = cross_val_score(estimator, X, y, groups=place, cv=GroupKFold(4), params={"centres": place})
    assert left_out == pytest.approx(
        cross_val_score(LogisticRegression(), X, y, groups=place, cv=GroupKFold(4)), abs=0.05
    )


def test_a_frame_goes_through_a_pipeline():
    """Text one-hot and sparse, numbers scaled, a centre for each row; the pooled pipeline predicts the same."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["Lima", "Oslo", "Rome"], 150), "age": rng.normal(50, 10, 150)})
    ill = np.where((frame["city"] == "Oslo") ^ (frame["age"] > 55), "ill", "well")
    columns = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["age"]), sparse_threshold=1.0)
    ours = make_pipeline(clone(columns), DecentralisedClassifier(random_state=0, tol=1e-6))
    ours.fit(frame, ill, decentralisedclassifier__centres=rng.integers(0, 4, 150))
    pooled = make_pipeline(clone(columns), LogisticRegression()).fit(frame, ill)
    assert (ours.predict(frame) == pooled.predict(frame)).mean() >= 0.99
    assert ours.predict_proba(frame) == pytest.approx(pooled.predict_proba(frame), abs=0.01)


def test_names_of_columns_are_kept_and_asked_for():
    """A frame's columns are `feature_names_in_`; shards with other columns are refused by number."""
    frame = pd.DataFrame({"a": np.arange(8.0), "b": np.ones(8)})
    y = np.arange(8) % 2
    assert DecentralisedRegressor().fit([(frame, y), (frame, y)]).feature_names_in_.tolist() == ["a", "b"]
    with refused("shards.form", "shard 1"):
        DecentralisedRegressor().fit([(frame, y), (frame[["b", "a"]], y)])


# mistakes


@pytest.mark.parametrize(
    ("code", "settings", "given"),
    [
        ("number.range", {"C": 0.0}, {}),
        ("centres.range", {"n_centres": 0}, {}),
        ("rounds.range", {"max_iter": 0}, {}),
        ("target.range", {"tol": 0.0}, {}),
        ("network.type", {"network": 3}, {}),
        ("unknown", {"network": "rign"}, {}),
        ("problem.nodes", {"network": Network.ring(4)}, {}),
        ("problem.cost", {"cost": Quadratic(a=np.ones(5), c=1.0, lo=0.0, hi=1.0)}, {}),
        ("budget.high", {"budget": 1e6}, {}),
        ("centres.shape", {}, {"centres": [1, 2]}),
        ("centres.empty", {}, {"centres": [None, *"abcdefghi"]}),
        ("centres.empty", {}, {"centres": [np.nan, *range(9)]}),
        ("centres.empty", {}, {"centres": pd.array([pd.NA, *"abcdefghi"], dtype="string")}),
        ("data.one_class", {}, {"y": ["ill"] * 10}),
    ],
)
def test_what_cannot_be_fitted_is_refused(code, settings, given):
    """By its code; every refusal is a ValueError, as scikit-learn expects."""
    parts = {"X": np.arange(20.0).reshape(10, 2), "y": np.arange(10) % 2} | given
    with refused(code) as caught:
        DecentralisedClassifier(**settings).fit(**parts)
    assert isinstance(caught.value, ValueError)


def test_shards_that_do_not_fit_together_are_refused():
    """Numbers in one and text in another are no one dictionary; centres are named once."""
    X = np.arange(8.0).reshape(4, 2)
    with refused("shards.labels"):
        DecentralisedClassifier().fit([(X, [0, 1, 0, 1]), (X, ["0", "1", "0", "1"])])
    with refused("centres.twice"):
        DecentralisedClassifier().fit([(X, [0, 1, 0, 1])], centres=[1, 1, 1, 1])
    with refused("shards.form", "shard 1"):
        DecentralisedClassifier().fit([(X, [0, 1, 0, 1]), (X[:, :1], [0, 1, 0, 1])])
    with refused("number.range", "-1"):
        DecentralisedRegressor(alpha=-1).fit(X, [0, 1, 0, 1])


# what they stand on


def test_rescaled_models_are_models():
    """Gradients are those of the losses and totals add up, with penalties of any size and an intercept that is frozen."""
    X, y = two_or_more(3)
    parts = [(X[k::4], y[k::4]) for k in range(4)]
    rng = np.random.default_rng(0)
    soft, square = Softmax(parts, reg=0.1), LeastSquares(parts, reg=0.1)
    uneven = [(X[:70], y[:70]), *((X[k::3], y[k::3]) for k in range(70, 73))]
    frozen = np.arange(soft.size) >= soft.size - 3
    for model in (
        Rescaled(soft, rng.uniform(0, 1, soft.size)),
        Rescaled(soft, rng.uniform(0, 1, soft.size), frozen),
        Rescaled(Softmax(uneven, reg=0.1, class_weight=[1, 2, 3]), rng.uniform(0, 1, soft.size)),
        Rescaled(Softmax(parts, reg=0.1, class_weight=[1, 2, 3]), rng.uniform(0, 1, soft.size)),
        Rescaled(square, rng.uniform(0, 1, square.size)),
    ):
        check_model(model)
        rows = rng.normal(size=(3, model.size))
        assert model.totals(rows) == pytest.approx([sum(model.loss(i, row) for i in range(4)) for row in rows])
        assert model.total(rows[0])[0] == pytest.approx(model.totals(rows[:1])[0])


def test_the_rescaled_optimum_has_a_gradient_of_zero():
    """By the gradient of the sum, computed from the losses' own."""
    X, y = make_regression(50, 5, random_state=0)
    model = Rescaled(LeastSquares([(X[:20], y[:20]), (X[20:], y[20:])], reg=0.1), np.array([0, 0.1, 1, 10, 100.0]))
    assert np.abs(model.total(model.optimum())[1]).max() <= 1e-9


def test_they_are_loaded_when_they_are_asked_for():
    """`import equipoise.train` loads no scikit-learn; the top package has both names."""
    assert equipoise.DecentralisedClassifier is DecentralisedClassifier
    assert equipoise.DecentralisedRegressor is DecentralisedRegressor
    code = "import sys, equipoise.train; assert 'sklearn' not in sys.modules and 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_real_data():
    """Tumours, scaled, sorted by label over five centres: as accurate as the pooled model to half a point."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    fitted = DecentralisedClassifier(random_state=0).fit(
        X, y, centres=np.arange(len(y))[np.argsort(np.argsort(y))] // 114
    )
    assert fitted.certificate_.passed and len(fitted.centres_) == 5
    assert fitted.score(X, y) == pytest.approx(LogisticRegression().fit(X, y).score(X, y), abs=0.005)
