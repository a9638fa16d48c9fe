"""The minifloat of changes: its error is that of a log code, its range moves by itself, and both ends read the same."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.train import Exact, LogQuantizer, UniformQuantizer
from equipoise.train.codec import (
    FALL,
    FIRST,
    HEADROOM,
    OCTAVES,
    RISE,
    SMALL,
    bits_per_number,
    first_floor,
    largest_code,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from refusals import refused

RHOS = (0.05, 0.125, 0.25, 0.5, 1.0)
MIDDLE = 1023 - 30  # an exponent: codes reach from 2^-30 to 2^33


@pytest.mark.parametrize("rho", RHOS)
def test_the_error_of_a_code_is_at_most_that_of_a_log_code(rho):
    """Sizes over sixty octaves, both signs: |heard - said| <= (e^(rho/2) - 1) |said|, and one bit less would not do."""
    mantissa = mantissa_bits(LogQuantizer(rho=rho))
    rng = np.random.default_rng(0)
    said = 2.0 ** rng.uniform(-29, 31, 20_000) * rng.choice([-1.0, 1.0], 20_000)
    floor = MIDDLE << mantissa
    heard = np.array([value(quantise(v, floor, mantissa), floor, mantissa, v) for v in said.tolist()])
    worst = np.abs(heard / said - 1.0).max()
    assert worst <= math.expm1(rho / 2)
    assert worst <= 2.0 ** -(mantissa + 1)
    assert mantissa == 0 or 2.0**-mantissa > math.expm1(rho / 2)


@pytest.mark.parametrize(("rho", "bits"), [(0.05, 12), (0.125, 10), (1.0, 7)])
def test_bits_of_a_code(rho, bits):
    """Sign, six bits of exponent and the mantissa; numbers as they are have 64."""
    assert bits_per_number(mantissa_bits(LogQuantizer(rho=rho))) == bits
    assert bits_per_number(mantissa_bits(Exact())) == 64
    with refused("quantizer.type"):
        mantissa_bits(UniformQuantizer(bits=8, largest=1.0))


@given(st.floats(-1e300, 1e300), st.integers(30, 1900), st.sampled_from(RHOS))
def test_a_code_of_what_was_heard_is_the_same_code(v, exponent, rho):
    """Round trip: reading a code and coding it again gives the code; it fits its bits, and 0 is what is too small."""
    mantissa = mantissa_bits(LogQuantizer(rho=rho))
    floor = exponent << mantissa
    code = quantise(v, floor, mantissa)
    assert 0 <= code <= largest_code(mantissa) < 2 ** (6 + mantissa)
    heard = value(code, floor, mantissa, v)
    assert quantise(heard, floor, mantissa) == code
    assert heard == 0.0 or math.copysign(1.0, heard) == math.copysign(1.0, v)
    smallest, largest = (math.ldexp(1.0, e - 1023) for e in (exponent, min(exponent + OCTAVES - 1, 2046)))
    if abs(v) < smallest * (1 - 2.0 ** -(mantissa + 1)):
        assert heard == 0.0
    if abs(v) > 2 * largest:
        assert code == largest_code(mantissa)


def test_the_range_moves_after_what_was_sent():
    """Up by 16 octaves after a saturated code, down by 8 after a small one, not at all after an ordinary one or after 0."""
    for mantissa in (0, 3, 5):
        floor = 900 << mantissa
        assert moved_floor(floor, largest_code(mantissa), mantissa) == (900 + RISE) << mantissa
        assert moved_floor(floor, (SMALL << mantissa) - 1, mantissa) == (900 - FALL) << mantissa
        assert moved_floor(floor, SMALL << mantissa, mantissa) == floor
        assert moved_floor(floor, 0, mantissa) == floor
        assert moved_floor(RISE << mantissa, 1, mantissa) == RISE << mantissa  # never below the smallest float


def test_a_range_that_moves_meets_any_jump():
    """Nothing was said, then a change of 2^200, then one 40 octaves smaller: 16 messages follow the first, 30 the second."""
    mantissa, floor, held = 3, FIRST << 3, 0.0
    for goal, messages in ((2.0**200, 16), (2.0**200 + 2.0**160, 30)):
        for _ in range(messages):
            code = quantise(goal - held, floor, mantissa)
            held += value(code, floor, mantissa, goal - held)
            floor = moved_floor(floor, code, mantissa)
        assert abs(held - goal) <= 2.0**-4 * 2.0**160
    assert (floor >> mantissa) - 1023 < 160


@given(st.lists(st.floats(-1e100, 1e100).filter(lambda v: v == 0 or abs(v) > 1e-100), min_size=1, max_size=5))
def test_the_first_range_holds_the_first_numbers(row):
    """After numbers sent as they are: the largest is inside the range with five octaves above it; without any, 2^-40 up."""
    floor = first_floor(np.array(row), 3)
    top = max(map(abs, row))
    if top == 0:
        assert floor == FIRST << 3
    else:
        exponent = math.frexp(top)[1] - 1
        assert (floor >> 3) - 1023 + OCTAVES - 1 == pytest.approx(exponent + HEADROOM, abs=1)
        assert 0 < quantise(top, floor, 3) < largest_code(3)
