"""Logarithm, exponential and sine without branches, against the ones of the C library."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.kernels import kernel
from equipoise.share import _arithmetic

# Kernels call them; Python has no way in.
inner_ln, inner_exp, inner_sin = _arithmetic.ln, _arithmetic.exp, _arithmetic.sin


@kernel
def ln(x):
    return inner_ln(x)


@kernel
def exp(x):
    return inner_exp(x)


@kernel
def sin(x):
    return inner_sin(x)


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_the_logarithm_is_the_c_librarys(x):
    """Any positive number: to the last bits of the answer, or of one where the answer is near zero."""
    assert ln(x) == pytest.approx(math.log(x), rel=4e-16, abs=4e-16)


@given(st.floats(min_value=-700, max_value=700))
def test_the_exponential_is_the_c_librarys(x):
    """Wherever e^x is a normal number: to its last bits."""
    assert exp(x) == pytest.approx(math.exp(x), rel=6e-16)


@given(st.floats(min_value=-math.pi / 2, max_value=math.pi / 2))
def test_the_sine_is_the_c_librarys(x):
    """A quarter turn either way."""
    assert sin(x) == pytest.approx(math.sin(x), rel=1e-15, abs=4e-16)


def test_beyond_what_a_number_can_show_the_exponential_stays_finite():
    """Huge and tiny arguments give huge and tiny numbers, not infinities."""
    assert 0.0 < exp(-1e6) < 1e-300 and 1e300 < exp(1e6) < math.inf
    assert math.isnan(exp(math.nan))


@kernel
def of_all(x, logs, exps):
    for i in range(len(x)):
        logs[i] = inner_ln(x[i])
    for i in range(len(x)):
        exps[i] = inner_exp(x[i])


def test_many_at_a_time_give_the_bits_of_one():
    """A compiled loop computes several at a time: at every place of it the answer has the bits of a single call."""
    x = np.random.default_rng(0).uniform(0.01, 20.0, 101)
    logs, exps = np.empty(101), np.empty(101)
    of_all(x, logs, exps)
    assert logs.tolist() == [ln(value) for value in x]
    assert exps.tolist() == [exp(value) for value in x]
