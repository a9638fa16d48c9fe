"""The message code of our own dynamics: a minifloat of the change since the row that sender and receiver both hold.

Sign, 6 bits of exponent, as many bits of mantissa as rho asks for. The exponent counts from a floor that each row keeps:
after a saturated code the floor rises, after a small one it falls, and both ends see the codes, so nobody tells it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from equipoise.errors import InputError
from equipoise.kernels import Floats, bits_float, float_bits, inlined, kernel
from equipoise.train.quantize import FLOAT_BITS, Exact, Quantizer

MANTISSA = 52  # bits of a float
OCTAVES = 63  # that a code spans
EXPONENT_BITS = 6
FINEST = 20  # bits of mantissa; finer than that is what Exact() is for
SIGN, SIZE = -(1 << 63), (1 << 63) - 1
FIRST = 1023 - 40  # exponent of the first floor where nothing was said yet: sizes from 2^-40 to 2^22
RISE, FALL, SMALL, HEADROOM = (
    16,
    8,
    20,
    5,
)  # octaves: after a saturated code; after one below SMALL; above a first value

SATURATED, UNDERFLOWED, NUMBERS = 0, 1, 2  # what a tally counts


class Tally(NamedTuple):
    """How often the range of codes was left: numbers sent, clipped at the top, lost below the smallest level."""

    sent: int
    saturated: int
    underflowed: int


def mantissa_bits(quantizer: Quantizer) -> int:
    """The fewest bits whose rounding error is at most that of a log code of this rho, e^(rho/2) - 1; 52 if exact."""
    if isinstance(quantizer, Exact):
        return MANTISSA
    if not quantizer.rho > 0:
        raise InputError(
            f"{quantizer!r} has no relative precision that a minifloat could keep: use LogQuantizer(rho) or Exact()",
            code="quantizer.type",
        )
    return min(FINEST, max(0, math.ceil(-math.log2(math.expm1(quantizer.rho / 2)) - 1.0)))


def bits_per_number(mantissa: int) -> int:
    """Bits of one code: 10 at rho 0.125."""
    return FLOAT_BITS if mantissa == MANTISSA else 1 + EXPONENT_BITS + mantissa


@inlined
def largest_code(mantissa: int) -> int:
    return (OCTAVES << mantissa) - 1


@inlined
def quantise(change: float, floor: int, mantissa: int) -> int:
    """The nearest code of |change| above this floor, 0 where it is below; its sign is that of the change."""
    drop = MANTISSA - mantissa
    code: int = (((float_bits(change) & SIZE) + ((1 << drop) >> 1)) >> drop) - floor
    return min(max(code, 0), (OCTAVES << mantissa) - 1)


@inlined
def value(code: int, floor: int, mantissa: int, sign: float) -> float:
    """What a code stands for, with the sign of `sign`."""
    size = bits_float((code + floor) << (MANTISSA - mantissa)) if code > 0 else 0.0
    return size if sign >= 0.0 else -size


@inlined
def moved_floor(floor: int, largest: int, mantissa: int) -> int:
    """The floor of a row after a message whose largest code was this."""
    if largest >= (OCTAVES << mantissa) - 1:
        return floor + (RISE << mantissa)
    if 0 < largest < (SMALL << mantissa) and floor > (RISE << mantissa):
        return floor - (FALL << mantissa)
    return floor


@kernel
def first_floor(row: Floats, mantissa: int) -> int:
    """After numbers that were sent as they are: the largest of them is near the top of the range."""
    largest = 0.0
    for c in range(len(row)):
        largest = max(largest, abs(row[c]))
    if largest == 0.0:
        return FIRST << mantissa
    top: int = float_bits(largest) >> (MANTISSA - mantissa)
    return max(top - (OCTAVES << mantissa) + 1 + (HEADROOM << mantissa), 1 << mantissa)
