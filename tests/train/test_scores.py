"""How useful a model is: scores against scikit-learn's, and who passes as better than the constant answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn import metrics

from equipoise.train.scores import HeldOut


def classes(truth, constant=0, count=None):
    truth = np.asarray(truth)
    return HeldOut(np.zeros((len(truth), 1)), truth, constant, count or len(np.unique(truth)))


def numbers(truth, constant):
    truth = np.asarray(truth, dtype=float)
    return HeldOut(np.zeros((len(truth), 1)), truth, constant, 0)


def saying(said, count=2):
    """Scores whose largest is the class that is said."""
    return np.eye(count)[np.asarray(said, dtype=int)]


def passes(held, *scores):
    return held.check(scores).passed


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_classification_is_scored_as_scikit_learn_does(seed, count):
    """Accuracy, balanced accuracy, recalls, and the mean area under the curve of each class against the rest."""
    rng = np.random.default_rng(seed)
    truth, scores = rng.integers(0, count, 40), rng.normal(size=(40, count))
    assume(len(np.unique(truth)) == count)
    row, said = classes(truth, count=count).score(scores), scores.argmax(axis=1)
    assert row["accuracy"] == pytest.approx(metrics.accuracy_score(truth, said))
    assert row["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    assert row["recall"] == pytest.approx(metrics.recall_score(truth, said, average=None).tolist())
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    auc = (
        metrics.roc_auc_score(truth, chances[:, 1])
        if count == 2
        else metrics.roc_auc_score(truth, chances, multi_class="ovr")
    )
    assert row["auc"] == pytest.approx(auc)


@given(st.integers(0, 10**6))
def test_margins_are_scored_as_scikit_learn_does(seed):
    """Labels -1 and +1, as a support vector machine has them."""
    rng = np.random.default_rng(seed)
    truth, margins = rng.choice([-1, 1], 30), rng.normal(size=30)
    assume(len(np.unique(truth)) == 2)
    row, said = classes(truth, constant=-1).score(margins), np.where(margins > 0, 1, -1)
    assert row["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    assert row["recall"] == pytest.approx(metrics.recall_score(truth, said, labels=[-1, 1], average=None).tolist())
    assert row["auc"] == pytest.approx(metrics.roc_auc_score(truth, margins))


@given(st.integers(0, 10**6))
def test_regression_is_scored_as_scikit_learn_does(seed):
    """R2, mean absolute error, root mean square error."""
    rng = np.random.default_rng(seed)
    truth, said = rng.normal(size=30), rng.normal(size=30)
    row = numbers(truth, 0.0).score(said)
    assert row["r2"] == pytest.approx(metrics.r2_score(truth, said))
    assert row["mean_absolute_error"] == pytest.approx(metrics.mean_absolute_error(truth, said))
    assert row["root_mean_square_error"] == pytest.approx(math.sqrt(metrics.mean_squared_error(truth, said)))


def test_a_class_that_nobody_held_out_has_no_recall():
    """Its recall is not known; the others are, and balanced accuracy is their mean."""
    row = classes([0, 0, 2, 2], count=3).score(saying([0, 1, 2, 2], 3))
    assert row["recall"] == [0.5, None, 1.0]
    assert row["balanced_accuracy"] == 0.75


@pytest.mark.parametrize("centres", [1, 2, 3, 4, 5])
def test_the_table_has_the_best_the_median_and_the_worst_centre(centres):
    """Also where one centre is two or all of these; and the constant answer last."""
    held = classes([0] * 8 + [1] * 8, constant=0)
    right = [saying([0] * 8 + [1] * hits + [0] * (8 - hits)) for hits in range(3, 3 + centres)]
    rows = held.table(right, None, ["no", "yes"])
    assert [row["model"] for row in rows] == ["best centre", "median centre", "worst centre", "always no"]
    recalls = [(2 + centres) / 8, (3 + (centres - 1) // 2) / 8, 3 / 8, 0.0]
    assert [row["recall of yes"] for row in rows] == recalls
    assert [row["recall of no"] for row in rows] == [1.0] * 4
    assert [row["balanced_accuracy"] for row in rows] == [(1 + recall) / 2 for recall in recalls]


def test_always_the_majority_fails():
    """At any share of positives, also where it is right in 98.4 % of rows."""
    for positives in (1, 16, 100, 500):
        truth = np.repeat([0, 1], [1000 - positives, positives])
        assert not passes(classes(truth), saying(np.zeros(1000, int)))
        assert not passes(classes(truth), saying(np.ones(1000, int)))
        assert not passes(classes(2 * truth - 1, constant=-1), np.full(1000, -1.0))


def test_98_percent_accuracy_on_rare_positives_fails():
    """16 positives of 1,000, three other rows called positive in their place: 98.1 % accuracy, no positive found."""
    truth = np.repeat([0, 1], [984, 16])
    said = np.zeros(1000, int)
    said[:3] = 1
    held = classes(truth)
    assert held.score(saying(said))["accuracy"] == 0.981
    assert not passes(held, saying(said))


@pytest.mark.parametrize("positives", [1, 2, 5, 16, 100])
def test_one_lucky_hit_does_not_pass(positives):
    """One row called positive, and it is one."""
    truth = np.repeat([0, 1], [1000 - positives, positives])
    said = np.zeros(1000, int)
    said[-1] = 1
    assert not passes(classes(truth), saying(said))


def test_a_useful_model_passes():
    """Half of the rare positives found, one row in fifty called so wrongly."""
    truth = np.repeat([0, 1], [960, 40])
    said = np.zeros(1000, int)
    said[:20], said[-20:] = 1, 1
    check = classes(truth).check([saying(said)])
    assert check.passed
    assert check.value == pytest.approx(1 - (940 / 960 + 0.5) / 2)
    assert check.value < check.limit < 0.5


def test_random_answers_pass_seldom():
    """Of 400 models that draw their answers, no more than the one-sided part beyond two standard errors, 2.3 %, and some."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], [900, 100])
    lucky = sum(bool(passes(classes(truth), saying(rng.random(1000) < 0.1))) for _ in range(400))
    assert lucky <= 400 * 0.04


def test_random_answers_of_one_to_three_rows_pass_seldom():
    """Where normal spreads mislead: models that call one to three rows of 1,000 positive, of which 5 % are."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], [950, 50])
    lucky = 0
    for _ in range(400):
        said = np.zeros(1000, int)
        said[rng.choice(1000, rng.integers(1, 4), replace=False)] = 1
        lucky += bool(passes(classes(truth), saying(said)))
    assert lucky <= 400 * 0.04


def test_the_worst_centre_counts():
    """One centre that learnt nothing fails the check, wherever it stands."""
    truth = np.repeat([0, 1], [80, 20])
    good, bad = saying(truth), saying(np.zeros(100, int))
    assert passes(classes(truth), good, good)
    assert not passes(classes(truth), good, bad)
    assert not passes(classes(truth), bad, good)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_model_that_is_not_finite_fails(place, kind):
    """Wherever it stands among good ones."""
    truth = np.repeat([0, 1], [80, 20])
    held = classes(truth) if kind == "classes" else numbers(truth, truth.mean())
    good = saying(truth) if kind == "classes" else truth + 0.01
    models = [good, good, good]
    models[place] = good * np.nan
    assert passes(held, good)
    assert not passes(held, *models)


def test_regression_like_the_mean_fails():
    """The mean itself, the mean with noise, and the mean of other rows; a model that follows the rows passes."""
    rng = np.random.default_rng(0)
    truth = rng.normal(5.0, 2.0, 200)
    held = numbers(truth, 5.0)
    assert not passes(held, np.full(200, 5.0))
    assert not passes(held, 5.0 + 0.1 * rng.normal(size=200))
    assert not passes(held, np.full(200, 5.3))
    assert not passes(held, rng.permutation(truth))
    check = held.check([truth + rng.normal(size=200)])
    assert check.passed
    assert check.value == pytest.approx(1 / 4, rel=0.3)


def test_one_good_row_is_no_regression():
    """Better than the mean in one row of 100 only."""
    truth = np.arange(100.0)
    said = np.full(100, truth.mean())
    said[0] = 0.0
    assert not passes(numbers(truth, truth.mean()), said)


def test_held_out_rows_that_are_all_alike_show_nothing():
    """The check is not made, and says so: it neither passes nor fails."""
    assert classes([1, 1, 1], count=2).check([saying([1, 1, 1])]).passed is None
    assert numbers([2.0, 2.0], 1.0).check([np.array([2.0, 2.0])]).passed is None


@pytest.mark.parametrize(("truth", "made"), [([0, 0, 1, 1], False), ([0] * 9 + [1], False), ([0] * 98 + [1] * 2, True)])
def test_rows_that_nobody_could_pass_on_are_too_few(truth, made):
    """By hand, for who is always right: 1/2 - 1/4 - 2 sqrt(1/4)/2 < 0 with two rows of each class, and with one row of a
    class 1/2 - 1/2 < 0; with 98 and 2 rows, 1/2 - 1/4 - 2 sqrt(0.0196 (1/98 + 1/2))/2 = 0.15. The verification agrees."""
    from equipoise.train.verify_anew import can_show

    check = classes(truth).check([saying(truth)])
    assert check.passed is (True if made else None)
    assert check.limit == (pytest.approx(0.15) if made else None)
    assert can_show(np.array(truth), None) is made


def test_numbers_that_nobody_could_pass_on_are_too_few():
    """One far value among four: its square error is nearly all of the mean's, and one row shows nothing. Without it, the
    squares are all 1."""
    from equipoise.train.verify_anew import can_show

    far, near = np.array([0.0] * 3 + [100.0]), np.array([-1.0, 1.0] * 2)
    assert numbers(far, 0.0).check([far]).passed is None and not can_show(far, 0.0)
    assert numbers(near, 0.0).check([near]).passed and can_show(near, 0.0)


def test_the_constant_answer_comes_from_the_rows_trained_on():
    """The most frequent class, or the mean, of what centres trained on, not of what was held out."""
    X = np.zeros((3, 1))
    assert HeldOut.of(X, np.array([1, 1, 0]), [np.array([0, 0]), np.array([0, 1])], 2).constant == 0
    assert HeldOut.of(X, np.array([9.0, 9.0, 9.0]), [np.array([1.0]), np.array([2.0, 6.0])], 0).constant == 3.0


@given(st.integers(0, 10**6), st.integers(2, 4))
def test_the_certificate_and_its_verification_find_the_same(seed, count):
    """Value and limit of the check, and those that `train verify` computes with a model and code of its own."""
    from equipoise.train.models import Softmax
    from equipoise.train.verify_anew import worst_beside_constant

    rng = np.random.default_rng(seed)
    X, truth = rng.normal(size=(60, 3)), rng.integers(0, count, 60)
    assume(len(np.unique(truth)) == count)
    model = Softmax([(X, truth)], classes=count)
    models = rng.normal(size=(3, model.size))
    held = HeldOut(X, truth, 0, count)
    check = held.check([X @ y.reshape(4, -1)[:-1] + y.reshape(4, -1)[-1] for y in models])
    assert worst_beside_constant(model, models, X, truth, None) == pytest.approx((check.value, check.limit))
