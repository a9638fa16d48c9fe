"""Splits over nodes: each sample once, no node empty, skewed only where asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

from equipoise.data import SPLITS, split
from refusals import refused

how_to_split = st.sampled_from(SPLITS)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def samples(draw):
    """Rows that can be told apart only by value (duplicates allowed), with labels or targets, and a number of nodes."""
    count = draw(st.integers(1, 40))
    X = np.array(draw(st.lists(st.integers(0, 9), min_size=2 * count, max_size=2 * count)), dtype=float)
    if draw(st.booleans()):
        y = np.array(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)), dtype=np.int64)
    else:
        y = np.array(draw(st.lists(st.floats(-9, 9), min_size=count, max_size=count)))
    return X.reshape(count, 2), y, draw(st.integers(1, count))


def multiset(X, y):
    """Rows with their targets, in an order that depends on values only."""
    return sorted([*map(float, row), float(target)] for row, target in zip(X, y, strict=True))


def ten_classes(each=100):
    """Row i holds the number i, in shuffled order of labels."""
    y = np.random.default_rng(7).permutation(np.repeat(np.arange(10), each))
    return np.arange(len(y), dtype=float)[:, None], y


@given(samples(), how_to_split, st.floats(0.01, 100), seeds)
def test_every_split_is_a_partition(data, how, concentration, seed):
    """Put together again, the shards hold every row with its own target exactly as often as before."""
    X, y, n = data
    shards = split(X, y, n, how, concentration, seed)
    assert multiset(np.concatenate([X_i for X_i, _ in shards]), np.concatenate([y_i for _, y_i in shards])) == multiset(
        X, y
    )


@given(samples(), how_to_split, st.floats(0.01, 100), seeds)
def test_every_node_gets_a_sample(data, how, concentration, seed):
    """There are n shards and none is empty, however skewed and however few samples there are."""
    X, y, n = data
    shards = split(X, y, n, how, concentration, seed)
    assert len(shards) == n
    assert min(len(y_i) for _, y_i in shards) >= 1


@given(samples(), st.sampled_from(["even", "label"]), seeds)
def test_even_and_label_shards_differ_by_at_most_one(data, how, seed):
    """Both cut in near-equal pieces."""
    X, y, n = data
    sizes = [len(y_i) for _, y_i in split(X, y, n, how, seed=seed)]
    assert max(sizes) - min(sizes) <= 1


@given(samples(), how_to_split, seeds)
def test_the_seed_decides_the_split(data, how, seed):
    """Two calls with one seed return the same shards, to the bit."""
    X, y, n = data
    for (X_a, y_a), (X_b, y_b) in zip(split(X, y, n, how, seed=seed), split(X, y, n, how, seed=seed), strict=True):
        assert_array_equal(X_a, X_b)
        assert_array_equal(y_a, y_b)


@pytest.mark.parametrize("how", ["even", "dirichlet"])
def test_another_seed_is_another_split(how):
    """With 1,000 samples the chance that two seeds agree is nil."""
    X, y = ten_classes()
    assert not np.array_equal(split(X, y, 1, how, seed=1)[0][0], split(X, y, 1, how, seed=2)[0][0])


@given(samples())
def test_label_shards_are_sorted_throughout(data):
    """End to end, the shards of a label split run through the labels (or targets) in ascending order."""
    X, y, n = data
    assert_array_equal(np.concatenate([y_i for _, y_i in split(X, y, n, "label")]), np.sort(y))


def test_label_shards_hold_few_classes():
    """Ten classes of 100 over 20 nodes: one class each. Over 8 nodes: 125 samples span at most 3 classes."""
    X, y = ten_classes()
    assert [len(np.unique(y_i)) for _, y_i in split(X, y, 20, "label")] == [1] * 20
    assert max(len(np.unique(y_i)) for _, y_i in split(X, y, 8, "label")) <= 3


def test_label_sorting_is_stable():
    """Within a class the rows keep the order they came in, so the split does not depend on the platform's sort."""
    X, y = ten_classes()
    rows = np.concatenate([X_i for X_i, _ in split(X, y, 4, "label")])[:, 0]
    for label in range(10):
        assert_array_equal(rows[label * 100 : (label + 1) * 100], np.flatnonzero(y == label))


def test_even_shards_mix_the_classes():
    """Sorted input over ten nodes: every shard still sees most of the classes."""
    y = np.repeat(np.arange(10), 100)
    assert min(len(np.unique(y_i)) for _, y_i in split(np.zeros((1000, 1)), y, 10, "even")) >= 8


def test_concentration_sets_the_skew():
    """Large: each node has a tenth of each class, to within a sample. Small: a class is nearly all on one node."""
    X, y = ten_classes()

    def largest_part_of_a_class(concentration):
        counts = [np.bincount(y_i, minlength=10) for _, y_i in split(X, y, 10, "dirichlet", concentration)]
        return np.max(counts, axis=0) / 100

    assert largest_part_of_a_class(1e8).max() <= 0.11
    assert np.median(largest_part_of_a_class(1e-3)) >= 0.95


def test_dirichlet_proportions_have_the_right_spread():
    """A node's part p of one class has variance (n - 1) / (n^2 (n a + 1)) by the Dirichlet law; 2,000 draws agree."""
    n, a, X, y = 4, 0.5, np.zeros((400, 1)), np.zeros(400, dtype=np.int64)
    parts = np.array([len(split(X, y, n, "dirichlet", a, seed)[0][1]) / 400 for seed in range(2000)])
    assert parts.mean() == pytest.approx(1 / n, abs=0.02)
    assert parts.var() == pytest.approx((n - 1) / (n**2 * (n * a + 1)), rel=0.1)


def test_a_regression_target_skews_sizes_only():
    """Float targets have no classes: Dirichlet draws the shard sizes, and each shard sees the whole range."""
    y = np.linspace(0, 1, 3000)
    shards = [y_i for _, y_i in split(np.zeros((3000, 1)), y, 3, "dirichlet", 1.0, seed=3)]
    assert len({len(y_i) for y_i in shards}) > 1
    assert all(y_i.mean() == pytest.approx(0.5, abs=0.1) for y_i in shards)


@pytest.mark.parametrize("how", SPLITS)
def test_shards_share_one_array(how):
    """No copy for each node: all shards are contiguous views of one reordered array, and the input is not touched."""
    X, y = ten_classes()
    before = X.copy(), y.copy()
    shards = split(X, y, 7, how)
    assert len({id(X_i.base) for X_i, _ in shards} | {id(y_i.base) for _, y_i in shards}) == 2
    assert all(X_i.flags.c_contiguous for X_i, _ in shards)
    assert not np.shares_memory(shards[0][0].base, X)
    assert_array_equal(X, before[0])
    assert_array_equal(y, before[1])


@pytest.mark.parametrize("n", [0, -1, 6])
def test_a_number_of_nodes_that_cannot_be_served(n):
    """Fewer than one node, or more nodes than samples."""
    with refused("split.nodes", 5, n):
        split(np.zeros((5, 1)), np.arange(5), n)


def test_an_unknown_split_names_the_nearest():
    """A typing error in `how` is answered with the right word."""
    with refused("unknown", "'dirichelt'", "'dirichlet'"):
        split(np.zeros((5, 1)), np.arange(5), 2, "dirichelt")


@pytest.mark.parametrize("concentration", [0.0, -1.0, float("nan"), float("inf")])
def test_a_concentration_that_is_no_parameter(concentration):
    """Dirichlet needs a finite parameter above zero."""
    with refused("split.concentration", f"{concentration:g}"):
        split(np.zeros((5, 1)), np.arange(5), 2, "dirichlet", concentration)


def test_rows_without_targets():
    """X and y of different lengths are refused."""
    with refused("split.rows", 5, 4):
        split(np.zeros((5, 1)), np.arange(4), 2)
