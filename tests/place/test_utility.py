"""What finishing is worth: values by hand, and the laws every utility keeps."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.place.job import Deadline, Linear, Sigmoid, Unstated, utility, worth_over
from refusals import refused

amounts = st.floats(0, 1e6)
utilities = st.one_of(
    st.builds(Sigmoid, amounts, st.floats(0, 100), amounts),
    st.builds(Deadline, amounts, amounts),
    st.builds(Linear, amounts, st.floats(1e-3, 1e6)),
    st.just(Unstated()),
)


def test_the_sigmoid_by_hand():
    """th = (80, .5, 6): half at 6 slots, 80 / (1 + e^-3) = 76.206 at once."""
    worth = Sigmoid(80, 0.5, 6)
    assert worth(6) == 40
    assert worth(0) == pytest.approx(76.206, abs=5e-4)
    assert worth(0) == pytest.approx(80 / (1 + math.exp(-3)), rel=1e-14)


@pytest.mark.parametrize("slots", [0, 1, 6, 1000, 10**9])
def test_no_steepness_is_half_for_ever(slots):
    """th2 = 0 does not mean "always th1": it is th1 / 2 for every d."""
    assert Sigmoid(80, 0, 6)(slots) == 40


def test_a_very_late_finish_is_worth_nothing_without_overflow():
    """e^(1e6) is no float; the worth is plainly 0."""
    assert Sigmoid(80, 1, 6)(1e6) == 0


def test_a_deadline_counts_its_last_slot():
    """All until slot 5, that one included; nothing at 6."""
    assert [Deadline(10, 5)(d) for d in (0, 5, 6)] == [10, 10, 0]


def test_a_line_falls_to_nothing():
    """By hand: 10 over 4 slots is 10, 7.5, 5, 2.5, 0, and 0 after."""
    assert [Linear(10, 4)(d) for d in range(6)] == [10, 7.5, 5, 2.5, 0, 0]


def test_nothing_stated_is_worth_one_whenever_it_finishes():
    """At once or after a year of slots; written and read it is the same, and it takes no value."""
    assert [Unstated()(d) for d in (0, 1, 52_560)] == [1, 1, 1]
    assert utility({"kind": "unstated"}) == Unstated()
    with refused("unknown", "value"):
        utility({"kind": "unstated", "value": 3})


@given(utilities, st.floats(0, 1e6), st.floats(0, 1e6))
def test_later_is_never_worth_more(worth, one, other):
    """Non-increasing in d, never negative, never above the stated value."""
    early, late = sorted((one, other))
    assert worth.parameters[0] >= worth(early) >= worth(late) >= 0


@given(utilities, st.integers(0, 1000), st.integers(0, 20))
def test_many_at_once_are_the_same(worth, first, count):
    """The array of u(first), u(first + 1), ... is the function, bit for bit."""
    many = worth_over(worth.kind, *worth.parameters, first, count)
    assert np.array_equal(many, [worth(first + k) for k in range(count)])


@given(utilities)
def test_plain_values_read_back(worth):
    """utility(as_dict) is the same utility."""
    assert utility(worth.as_dict()) == worth


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "5", None, True, 1e13, [5]])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: Sigmoid(x, 0.5, 6), "value"),
        (lambda x: Sigmoid(80, x, 6), "steepness"),
        (lambda x: Sigmoid(80, 0.5, x), "middle"),
        (lambda x: Deadline(x, 5), "value"),
        (lambda x: Deadline(10, x), "slots"),
        (lambda x: Linear(x, 5), "value"),
        (lambda x: Linear(10, x), "slots"),
    ],
)
def test_bad_numbers_are_refused(make, name, bad):
    """Each parameter on its own, named with its value in one line."""
    number = isinstance(bad, int | float) and not isinstance(bad, bool)
    with refused("number.range" if number else "number.form", f"{name} is {bad!r}"):
        make(bad)


def test_a_line_needs_a_length():
    """A line that reaches nothing at once would divide by zero."""
    with refused("number.range", "slots is 0"):
        Linear(10, 0)


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"kind": "sigmoyd", "value": 1}, ("unknown", "'sigmoid'")),
        ({"value": 1}, ("job.utility", "sigmoid, deadline, linear")),
        ({"kind": ["linear"]}, ("unknown", "linear")),
        ({"kind": "linear", "value": 1}, ("utility.form", "linear", "value, slots")),
        ({"kind": "linear", "value": 1, "slots": 2, "middle": 3}, ("unknown", "linear", "'middle'")),
        ({"kind": "sigmoid"}, ("utility.form", "value, steepness, middle")),
    ],
)
def test_plain_values_that_are_no_utility(values, refusal):
    """An unknown kind has its nearest name; missing or foreign parameters have the right ones listed."""
    with refused(*refusal):
        utility(values)
