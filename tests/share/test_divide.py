"""Dividing a resource: one after the other, or in proportion. Laws for any numbers, truths by hand and by brute force."""

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.share import count, equal, first, greedy, share_out
from refusals import refused

AMOUNT = st.floats(1e-3, 100) | st.just(0.0)


@st.composite
def divisions(draw):
    """Keys or weights, who takes part, the most each may get, and the total: one seed, up to nine tasks."""
    n = draw(st.integers(1, 9))
    values = draw(st.lists(st.one_of(st.integers(0, 3).map(float), AMOUNT), min_size=n, max_size=n))
    who = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    most = draw(st.lists(AMOUNT, min_size=n, max_size=n))
    return np.array([values]), np.array([who]), np.array([most]), draw(st.floats(0, 300))


def plain_greedy(key, who, most, total):
    """Ascending key, ties to the first: sorted is stable."""
    parts = [0.0] * len(key)
    for i in sorted((i for i in range(len(key)) if who[i]), key=lambda i: key[i]):
        parts[i] = min(most[i], total)
        total -= parts[i]
    return parts


def water_level(weight, who, most, total):
    """Parts min(most, weight x level) with the level found by bisection."""
    weight = np.where(who, weight, 0.0)
    wanted = min(total, most[weight > 0].sum())
    low, high = 0.0, 1.0
    while np.minimum(most, weight * high).sum() < wanted and high < 1e300:
        high *= 2
    for _ in range(2200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(most, weight * middle).sum() < wanted else (low, middle)
        if high - low <= 1e-15 * high:
            break
    return np.minimum(most, weight * high)


@given(divisions())
def test_greedy_is_the_plain_loop(case):
    """The batched kernel gives what sorting and a loop give, ties included."""
    key, who, most, total = case
    assert_allclose(greedy(key, who, most, total)[0], plain_greedy(key[0], who[0], most[0], total), atol=1e-12)


@given(divisions())
def test_share_out_is_the_water_level(case):
    """Parts are min(most, weight x level) for one level: the definition, solved by bisection."""
    weight, who, most, total = case
    assert_allclose(
        share_out(weight, who, most, total)[0], water_level(weight[0], who[0], most[0], total), atol=1e-9, rtol=1e-9
    )


@pytest.mark.parametrize("divide", [greedy, share_out])
@given(divisions())
def test_nobody_gets_too_much_and_nothing_is_left_that_somebody_wants(divide, case):
    """Within the total and each one's most, nothing to those outside, and all is given out or everyone is full."""
    values, who, most, total = case
    given_out = divide(values, who, most, total)
    takes = who if divide is greedy else who & (values > 0)
    assert given_out.min() >= 0 and (given_out <= most).all()
    assert not given_out[~takes].any()
    assert given_out.sum() <= total * (1 + 1e-12)
    assert given_out.sum() == pytest.approx(min(total, most[takes].sum()), rel=1e-9, abs=1e-9)


@given(divisions())
def test_equal_is_max_min_fair(case):
    """Whoever gets less than another gets all it wants: nobody can have more without someone poorer having less."""
    _, who, most, total = case
    parts = equal(who, most, total)[0]
    for i in np.flatnonzero(who[0]):
        for j in np.flatnonzero(who[0]):
            assert parts[i] >= parts[j] - 1e-9 or parts[i] == most[0, i]


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6), st.floats(0, 1e6))
@example([3.7e-158], 3.7e-158)
@example([5e-324], 0.6)
def test_extreme_weights_never_give_more_than_there_is(weights, total):
    """Weights of any size, the smallest floats included: the sum stays within the total."""
    weight = np.array([weights])
    parts = share_out(weight, np.ones(weight.shape, bool), 30.0, total)
    assert np.isfinite(parts).all() and parts.sum() <= total * (1 + 1e-9) + 1e-300 and parts.max() <= 30.0


def test_greedy_by_hand():
    """100 among keys 3, 1, 2, 1 that want 40 each: both ones first, the first of them first; 20 remain for key 2."""
    key, who = np.array([[3.0, 1.0, 2.0, 1.0]]), np.ones((1, 4), bool)
    assert greedy(key, who, 40.0, 100.0).tolist() == [[0.0, 40.0, 20.0, 40.0]]
    assert greedy(key, who, 40.0, 60.0).tolist() == [[0.0, 40.0, 0.0, 20.0]]


def test_share_out_by_hand():
    """60 by weights 1, 2, 3 with the last capped at 20: it leaves 40, which the others divide 1 : 2."""
    who = np.ones((1, 3), bool)
    assert_allclose(share_out([[1.0, 2.0, 3.0]], who, [[99.0, 99.0, 20.0]], 60.0), [[40 / 3, 80 / 3, 20.0]])


def test_equal_by_hand():
    """100 among wishes of 10, 50 and 90: 10, then 45 each."""
    assert_allclose(equal(np.ones((1, 3), bool), [[10.0, 50.0, 90.0]], 100.0), [[10.0, 45.0, 45.0]])


def test_without_limit_everyone_gets_what_they_want():
    """An infinite total."""
    assert equal(np.ones((1, 2), bool), [[10.0, 50.0]], np.inf).tolist() == [[10.0, 50.0]]


@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 1000))
def test_first_takes_the_n_smallest(tasks, n, seed):
    """The n smallest keys among who takes part, ties to the first; all of them if there are fewer."""
    rng = np.random.default_rng(seed)
    key, who = rng.integers(0, 4, (2, tasks)), rng.random((2, tasks)) < 0.6
    for row, taken in enumerate(first(n, key, who)):
        order = sorted(np.flatnonzero(who[row]), key=lambda i: key[row, i])
        assert_array_equal(np.flatnonzero(taken), sorted(order[:n]))


def test_rows_are_divided_one_by_one():
    """A total for each seed, as a vector or a column; a single number is for all; any other count is refused."""
    who = np.ones((3, 2), bool)
    totals = np.array([2.0, 4.0, 6.0])
    assert_array_equal(equal(who, 9.0, totals), [[1, 1], [2, 2], [3, 3]])
    assert_array_equal(equal(who, 9.0, totals[:, None]), equal(who, 9.0, totals))
    assert_array_equal(equal(who, 9.0, 2.0), np.ones((3, 2)))
    with refused("total.shape", 2, 3):
        equal(who, 9.0, [1.0, 2.0])


def test_count_is_at_least_one():
    """So that one can divide by it."""
    assert count(np.array([[True, True], [False, False]])).tolist() == [[2.0], [1.0]]
