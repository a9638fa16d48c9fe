"""Datasets: what they refuse, quick subsamples, and the held-out part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.data import Dataset
from equipoise.data.dataset import standardised
from equipoise.data.split import hold_out
from refusals import refused

NOTHING = np.zeros((0, 1))


def labelled(counts):
    """A data set with so many samples of each class; row i holds the number i."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.arange(len(y), dtype=float)[:, None]
    return Dataset("toy", X, y, NOTHING, np.zeros(0, dtype=np.int64), classes=len(counts))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 200), st.integers(0, 99))
def test_limited_keeps_the_proportions(counts, samples, seed):
    """The size is exact and no class loses its place; without rare classes each quota is within one of proportional."""
    data = labelled(counts)
    small = data.limited(samples, seed)
    size = min(samples, len(data.y))
    kept = np.bincount(small.y, minlength=len(counts))
    quotas = size * np.array(counts) / len(data.y)
    assert kept.sum() == size
    assert all(kept >= 1) or size < len(counts)
    assert all(abs(kept - quotas) < 1) or min(quotas) < 1


def test_limited_takes_rows_with_their_labels_and_none_twice():
    """Row i of the toy set has the number i, so rows and labels can be matched after the pick."""
    data = labelled([50, 30, 20])
    small = data.limited(25, seed=1)
    rows = small.X[:, 0].astype(int)
    assert len(set(rows)) == 25
    assert_array_equal(small.y, data.y[rows])


def test_limited_is_decided_by_the_seed():
    """One seed, one subsample; another seed, another."""
    data = labelled([500, 500])
    assert_array_equal(data.limited(50, 3).X, data.limited(50, 3).X)
    assert not np.array_equal(data.limited(50, 3).X, data.limited(50, 4).X)


def test_limited_beyond_the_size_is_the_data_set_itself():
    """Nothing to leave out, nothing to copy."""
    data = labelled([3, 3])
    assert data.limited(6, seed=0) is data


def test_limited_regression_picks_at_random():
    """Float targets: the right number of distinct samples, and the held-out part untouched."""
    y = np.linspace(0, 1, 40)
    data = Dataset("line", y[:, None], y, y[:5, None], y[:5], classes=0)
    small = data.limited(10, seed=0)
    assert len(np.unique(small.y)) == 10
    assert small.X_test is data.X_test


def test_limited_to_nothing_is_refused():
    """Zero samples cannot be trained on."""
    with refused("dataset.limit", "'toy'", 0):
        labelled([2]).limited(0, seed=0)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.floats(0, 0.99), st.integers(0, 99))
def test_hold_out_is_a_partition_that_trains_on_every_class(counts, fraction, seed):
    """Each row is in one part; a class goes missing from training only when there is no room for all of them."""
    y = np.repeat(np.arange(len(counts)), counts)
    train, test = hold_out(y, fraction, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert len(train) >= 1
    assert set(y[train]) == set(y) or len(train) < len(counts)


@pytest.mark.parametrize("fraction", [1.0, -0.1, float("nan")])
def test_a_held_out_part_that_leaves_nothing(fraction):
    """The fraction is at least 0 and below 1."""
    with refused("split.held_out", "test_fraction="):
        hold_out(np.arange(5), fraction, seed=0)


def test_a_constant_feature_becomes_zero():
    """0.1 repeated has a deviation of rounding errors; the held-out part must not be divided by it."""
    X = np.column_stack([np.full(1000, 0.1), np.arange(1000.0)])
    scaled, scaled_test = standardised(X, np.array([[0.1, 0.0], [0.2, 999.0]]))
    assert_array_equal(scaled[:, 0], 0.0)
    assert_allclose(scaled_test[:, 0], [0.0, 0.1])
    assert_allclose([scaled[:, 1].mean(), scaled[:, 1].std()], [0, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"y": np.arange(3)}, ("dataset.shape", "(4, 1)", "(3,)")),
        ({"X": np.zeros(4)}, ("dataset.shape", "(4,)")),
        ({"X_test": np.zeros((0, 2))}, ("dataset.features", 2, 1)),
        ({"y": np.zeros(4)}, ("dataset.type", "classes=2", "int64")),
        ({"classes": 0}, ("dataset.type", "classes=0", "int64")),
        ({"y": np.array([0, 1, 2, 1])}, ("dataset.labels", "classes=2", 2)),
        ({"y": np.array([0, -1, 1, 1])}, ("dataset.labels", "classes=2", -1)),
    ],
)
def test_parts_that_do_not_fit_together(change, refusal):
    """A data set made by hand is checked: shapes, types and the range of labels."""
    good = {
        "X": np.zeros((4, 1)),
        "y": np.array([0, 1, 0, 1]),
        "X_test": NOTHING,
        "y_test": np.zeros(0, dtype=np.int64),
        "classes": 2,
    }
    Dataset("mine", **good)
    with refused(*refusal, "'mine'"):
        Dataset("mine", **(good | change))
