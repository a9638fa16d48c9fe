"""Sums without any rounding, against Python's fractions."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from equipoise.data.exact_sums import ExactSum

any_floats = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30)
some_floats = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30)
LARGEST = sys.float_info.max
LEAST = 5e-324


def of(values):
    return ExactSum.of(np.array(values, dtype=np.float64))


def moments(values):
    """The exact mean and variance."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return mean, sum((value - mean) ** 2 for value in exact) / len(exact)


def rounded(exact):
    """The nearest float; infinite where there is none."""
    try:
        return float(exact)  # a Fraction is rounded once
    except OverflowError:
        return math.inf


def is_nearest_root(root, square):
    """Whether no float is nearer to the root of this fraction: by the squares of the middles between floats."""
    below, above = (Fraction(math.nextafter(root, to)) for to in (-math.inf, math.inf))
    low, high = (Fraction(root) + below) / 2, (Fraction(root) + above) / 2
    return (low <= 0 or low**2 <= square) and square <= high**2


@given(any_floats)
@example([LARGEST, LARGEST, -LARGEST, LEAST])
@example([-0.0, LEAST, -LEAST, 2.2250738585072014e-308])
def test_sums_and_squares_are_those_of_fractions(values):
    """Of any finite floats: subnormal, huge, of both signs, none at all."""
    found = of(values)
    exact = [Fraction(value) for value in values]
    assert found.count == len(values)
    assert Fraction(found.total, 2**1074) == sum(exact)
    assert Fraction(found.squares, 2**2148) == sum(value**2 for value in exact)


@given(some_floats)
@example([LARGEST, -LARGEST])
@example([LEAST, 2 * LEAST, -LEAST])
@example([1e-200, 2e-200])
@example([1e8 + 0.1, 1e8 + 0.2, 1e8 + 0.3])
@example([LARGEST] * 3)
def test_mean_variance_and_deviation_are_rounded_once(values):
    """The floats nearest to the exact ones; a variance beyond the largest float is infinite, its root is not."""
    mean, variance = moments(values)
    found = of(values)
    assert found.mean == rounded(mean)
    assert found.variance == rounded(variance)
    if variance == 0:
        assert found.deviation == 0.0
    elif found.deviation < LARGEST:
        assert is_nearest_root(found.deviation, variance)
    else:
        assert Fraction(LARGEST) ** 2 == variance


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_deviation_is_the_nearest_float_to_the_root(values):
    """A root of the rounded variance misses it in one case of nine."""
    variance = moments(values)[1]
    root = of(values).deviation
    assert root == 0.0 if variance == 0 else is_nearest_root(root, variance)


@given(any_floats, st.randoms(use_true_random=False), st.integers(1, 5))
def test_neither_order_nor_grouping_changes_anything(values, random, groups):
    """Shuffled and added up in groups, also by way of messages: the same whole numbers."""
    shuffled = values[:]
    random.shuffle(shuffled)
    total = ExactSum()
    for first in range(groups):
        total = ExactSum.unpacked(total.packed()) + of(shuffled[first::groups])
    assert total == of(values)


@given(any_floats)
def test_a_message_brings_back_the_same_sum(values):
    """Packed and unpacked."""
    assert ExactSum.unpacked(of(values).packed()) == of(values)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 50))
def test_one_value_many_times(value, count):
    """The same as an array of it."""
    assert ExactSum.repeated(value, count) == of([value] * count)


def test_a_float_sum_would_depend_on_the_order():
    """What exact sums are for: floats added up in another order give another mean."""
    values = [1e16, 1.0, -1e16, 1.0]
    assert sum(values) != sum(sorted(values))
    assert of(values).mean == of(sorted(values)).mean == 0.5


@pytest.mark.parametrize("rows", [0, 1, 100_000])
def test_arrays_of_any_length_and_step(rows):
    """Also a view that is not contiguous, and more rows than a limb has room for without carries."""
    values = np.random.default_rng(rows).normal(size=2 * rows) * 1e3
    found = ExactSum.of(values[::2])
    assert found.count == rows
    assert Fraction(found.total, 2**1074) == sum(map(Fraction, values[::2].tolist()))


def test_carries_are_cleared_in_time(monkeypatch):
    """Taken in parts of three values, the sum is the same."""
    values = np.random.default_rng(1).normal(size=100)
    whole = ExactSum.of(values)
    monkeypatch.setattr("equipoise.data.exact_sums.AT_ONCE", 3)
    assert ExactSum.of(values) == whole


def test_carries_do_not_run_over():
    """As many of the largest mantissa as are added before carries are cleared would fill no more than its place."""
    from equipoise.data.exact_sums import AT_ONCE, LIMB

    # three products of a square, three limbs each, may all fall into one place
    assert 9 * AT_ONCE * (2**LIMB - 1) * 2 < 2**63
