"""Exact sums of floats and of their squares: whole numbers of a unit, so that neither order nor grouping changes them.

A float is a whole number of 2^-1074, its square one of 2^-2148. Sums are kept as such whole numbers, and rounded once, when
a mean or a deviation is read from them: as from one sum over the rows of all centres.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from equipoise.kernels import Floats, Ints, inner, kernel

UNIT = 1074  # the least positive float is 2^-1074
LIMB = 32  # bits of a sum that one place of its array holds; the rest of its 64 bits is room for carries
PLACES = 2 * (2 * (2046 + 53) // LIMB + 4)  # for sums and, behind them, squares
AT_ONCE = 1 << 24  # values after which carries are cleared


@dataclass(frozen=True)
class ExactSum:
    """How many values there are, their sum in units of 2^-1074, and the sum of their squares in units of 2^-2148."""

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: Floats) -> ExactSum:
        """Of an array of finite numbers."""
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
        total = squares = 0
        for first in range(0, len(bits), AT_ONCE):
            limbs = np.zeros(PLACES, dtype=np.int64)
            _add(bits[first : first + AT_ONCE], limbs)
            total += _whole(limbs[: PLACES // 2])
            squares += _whole(limbs[PLACES // 2 :])
        return cls(len(bits), total, squares)

    @classmethod
    def repeated(cls, value: float, count: int) -> ExactSum:
        """Of one value, so many times."""
        one = cls.of(np.array([value]))
        return cls(count, count * one.total, count * one.squares)

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """The mean, rounded once (Python divides whole numbers so)."""
        return self.total / (self.count << UNIT)

    @property
    def variance(self) -> float:
        """The mean square distance from the exact mean, rounded once; infinite beyond the largest float."""
        try:
            return self._spread / (self.count**2 << 2 * UNIT)
        except OverflowError:
            return math.inf

    @property
    def deviation(self) -> float:
        """The root of the exact variance, rounded once: never beyond the largest float."""
        root = math.isqrt(self._spread << 2)
        rest = root * root != self._spread << 2  # half a step more: on the right side of where floats round
        return (2 * root + rest) / (self.count << UNIT + 2)

    @property
    def _spread(self) -> int:
        """The variance, in units of 2^-2148 / count^2."""
        return self.count * self.squares - self.total**2

    def packed(self) -> list[int]:
        """Whole numbers for a message, without the zeros at their ends."""
        return [self.count, *_short(self.total), *_short(self.squares)]

    @classmethod
    def unpacked(cls, numbers: Iterable[int]) -> ExactSum:
        """From a message."""
        count, total, zeros, squares, more = numbers
        return cls(count, total << zeros, squares << more)


def _short(number: int) -> tuple[int, int]:
    zeros = (number & -number).bit_length() - 1 if number else 0
    return number >> zeros, zeros


def _whole(limbs: Ints) -> int:
    return sum(limb << LIMB * place for place, limb in enumerate(limbs.tolist()) if limb)


@kernel
def _add(bits: Ints, limbs: Ints) -> None:
    """Sums in the first half of `limbs`, squares in the second."""
    half = len(limbs) // 2
    for k in range(len(bits)):
        exponent = (bits[k] >> 52) & 0x7FF
        mantissa = bits[k] & 0xFFFFFFFFFFFFF
        if exponent == 0:
            exponent = 1
        else:
            mantissa |= 1 << 52
        place = exponent - 1
        _put(limbs, 0, place, mantissa, -1 if bits[k] < 0 else 1)
        high, low = mantissa >> 27, mantissa & 0x7FFFFFF
        _put(limbs, half, 2 * place + 54, high * high, 1)
        _put(limbs, half, 2 * place + 27, 2 * high * low, 1)
        _put(limbs, half, 2 * place, low * low, 1)


@inner
def _put(limbs: Ints, first: int, place: int, value: int, sign: int) -> None:
    """Add sign x value x 2^place, for a value below 2^62."""
    at, shift = first + (place >> 5), place & 31
    low, high = (value & 0xFFFFFFFF) << shift, (value >> 32) << shift
    limbs[at] += sign * (low & 0xFFFFFFFF)
    limbs[at + 1] += sign * ((low >> 32) + (high & 0xFFFFFFFF))
    limbs[at + 2] += sign * (high >> 32)
