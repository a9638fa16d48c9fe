"""Utilities of traced jobs: drawn, in units of ten minutes from the job's own duration, growing with its size or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.place.traces._rows import UtilityModel, steepness
from refusals import refused

HALVES = np.full(4, 0.5)
unit = st.floats(0, 1, exclude_max=True)


def test_a_utility_by_hand():
    """All draws one half, two hours, four times the median's GPU-hours, slots of ten minutes.

    th1 = 50.5 x 2; th2 is gentle, .505 in ten minutes, which is a slot; th3 = 12 + 8 slots.
    """
    u = UtilityModel(slot=600, median=0.5)(7200, 2.0, HALVES)
    assert (u.value, u.steepness, u.middle) == pytest.approx((101, 0.505, 20))


def test_without_size_only_the_draw_counts():
    """The same job, `sized` off: 50.5."""
    assert UtilityModel(600, 0.5, sized=False)(7200, 2.0, HALVES).value == pytest.approx(50.5)


def test_size_multiplies_at_most_thirty_times():
    """A million medians would be a thousand times."""
    assert UtilityModel(600, 1.0)(7200, 1e6, HALVES).value == pytest.approx(50.5 * 30)


@given(unit, unit)
def test_steepness_is_none_gentle_or_steep(which, u):
    """10, 55 and 35% of the first draw."""
    th2 = steepness(which, u)
    if which < 0.1:
        assert th2 == 0
    elif which < 0.65:
        assert 0.01 <= th2 <= 1
    else:
        assert 4 <= th2 <= 6


@given(st.floats(60, 1e6), st.lists(unit, min_size=4, max_size=4))
def test_the_length_of_a_slot_does_not_change_the_worth_at_a_time_of_the_clock(seconds, draws):
    """Half an hour after the duration is worth the same in slots of 1 and of 10 minutes."""
    when = seconds + 1800
    one, ten = (UtilityModel(slot, 1.0)(seconds, 1.0, np.array(draws))(when / slot) for slot in (60, 600))
    assert one == pytest.approx(ten, rel=1e-6, abs=1e-12)


def test_the_note_says_what_was_drawn_and_how():
    """Seed and rule, for the table it is printed beside."""
    assert "seed 7" in UtilityModel(600, 1.0).describe(7) and "sqrt" in UtilityModel(600, 1.0).describe(7)
    assert "whatever the job's size" in UtilityModel(600, 1.0, sized=False).describe(7)


def test_a_model_without_a_median_is_refused():
    """Nothing to be relative to."""
    with refused("utility.range", "median 0.0"):
        UtilityModel(600, 0.0)
