"""How coarsely nodes talk: values become small integer codes, and the bits are real (docs/train.md, 2 and 3.2).

A code is an integer; 0 stands for the value 0. What a code means:

    exact     the float itself, 64 bits
    uniform   code x step
    log       sign(code) exp(rho (lowest + |code| - 1))

Values beyond the largest level saturate at it, values below the smallest become 0; both are counted, never hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError, unknown_name
from equipoise.kernels import float_bits, kernel
from equipoise.train.arrays import AnyArray, Floats, Ints

Mode = Literal["innovation", "edge", "node"]
MODES = ("innovation", "edge", "node")

# Range of a log code: of changes, in units of their first size, or of values (node and edge). Both give 9 bits at
# rho = 0.125.
INNOVATION_RANGE = (1e-12, 64.0)
ABSOLUTE_RANGE = (1e-6, 1e6)
FLOAT_BITS = 64
MOST_BITS = 22  # of a log code: finer than a millionth is what Exact() is for

EXACT, UNIFORM, LOG = 0, 1, 2


class Coder(NamedTuple):
    """A quantiser as the kernels see it. A log coder finds a code by table: the top bits of a float name a narrow bin,
    the bin the code at its lower end, and comparing with the next border settles the rest."""

    kind: int
    spacing: float  # rho of a log coder, step of a uniform one
    top: int  # the largest code
    levels: Floats  # value of code k >= 0 (log only; levels[0] = 0)
    borders: Floats  # the smallest size that has code k (log only; borders[0] = 0, the last is infinite)
    shift: int  # bits of a float below those that name its bin
    first_bin: int
    bins: AnyArray  # code at the lower end of each bin


def uniform_coder(kind: int, spacing: float, top: int) -> Coder:
    """One without tables."""
    return Coder(kind, spacing, top, np.zeros(1), np.zeros(1), 0, 0, np.zeros(1, dtype=np.int32))


def log_coder(rho: float, lowest: int, top: int, rounding: str) -> Coder:
    """Levels exp(rho (lowest + k - 1)) of codes k = 1..top, and one above for what saturates."""
    codes = np.arange(top + 2)
    levels = np.exp(rho * (lowest + codes - 1.0))
    borders = np.exp(rho * (lowest + codes - (1.5 if rounding == "nearest" else 1.0)))
    levels[0] = borders[0] = 0.0
    borders = np.append(borders, np.inf)
    kept_bits = max(0, math.ceil(-math.log2(math.expm1(rho))))  # bins narrower than cells: at most one border in each
    shift = 52 - kept_bits
    edges = borders[1:-1].view(np.int64) >> shift
    starts = (np.arange(edges[0], edges[-1] + 1) << shift).view(np.float64)
    bins = np.searchsorted(borders[:-1], starts, side="right") - 1
    return Coder(LOG, rho, top, levels, borders, shift, int(edges[0]), bins.astype(np.int32))


@kernel
def encode_one(coder: Coder, value: float) -> int:
    """The code of one value; beyond the range, or not a number, it is `top` + 1 with its sign, for the caller to count."""
    size = abs(value)
    if coder.kind == LOG:
        place = (float_bits(size) >> coder.shift) - coder.first_bin
        code = 0 if place < 0 else (int(coder.bins[place]) if place < len(coder.bins) else coder.top + 1)
        code += size >= coder.borders[code + 1]
    else:
        position = np.floor(size / coder.spacing + 0.5)
        code = int(position) if position <= coder.top else coder.top + 1
    return code if value > 0 else -code


@kernel
def decode_one(coder: Coder, code: int) -> float:
    """The value of one code."""
    size = abs(code)
    level = size * coder.spacing if coder.kind == UNIFORM else coder.levels[size]
    return level if code > 0 else -level


@kernel
def _encode(coder: Coder, values: Floats, codes: Ints) -> None:
    for k in range(values.size):
        code = encode_one(coder, values[k])
        codes[k] = min(max(code, -coder.top), coder.top)


@kernel
def _decode(coder: Coder, codes: Ints, values: Floats) -> None:
    for k in range(codes.size):
        values[k] = decode_one(coder, codes[k])


class Quantizer:
    """What all quantisers share: real codes for arrays, and back."""

    mode: Mode
    bits: int

    def coder(self) -> Coder:
        """Parameters for the kernels."""
        raise TypeError(f"{type(self).__name__} must define coder()")

    @property
    def rho(self) -> float:
        """Relative coarseness: the sector is e^(±rho/2). 0 where it is exact or not relative."""
        return 0.0

    def encode(self, values: ArrayLike) -> Ints:
        """Integer codes, as sent."""
        array = np.asarray(values, dtype=np.float64, order="C")
        codes = np.empty(array.size, dtype=np.int64)
        _encode(self.coder(), array.ravel(), codes)
        return codes.reshape(array.shape)

    def decode(self, codes: ArrayLike) -> Floats:
        """Values, as heard."""
        array = np.asarray(codes, dtype=np.int64, order="C")
        values = np.empty(array.size)
        _decode(self.coder(), array.ravel(), values)
        return values.reshape(array.shape)

    def __call__(self, values: ArrayLike) -> Floats:
        """q(v): encode, then decode."""
        return self.decode(self.encode(values))


@dataclass(frozen=True)
class Exact(Quantizer):
    """The ideal channel: every value as a 64-bit float."""

    mode: Mode = "node"
    bits: int = FLOAT_BITS

    def __post_init__(self) -> None:
        if self.mode != "node":
            raise InputError(f"Exact() sends the values themselves: it has no mode {self.mode!r}; leave it out")

    def coder(self) -> Coder:
        return uniform_coder(EXACT, 1.0, 0)

    def __call__(self, values: ArrayLike) -> Floats:
        return np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class UniformQuantizer(Quantizer):
    """Evenly spaced levels between -largest and largest, in `bits` bits. Leaves a residual gap of the order of a step."""

    bits: int = 9
    largest: float = 64.0
    mode: Mode = "node"

    def __post_init__(self) -> None:
        _check_mode(self.mode)
        if not 2 <= self.bits <= 32:
            raise InputError(f"UniformQuantizer needs 2 to 32 bits, not {self.bits}", code="quantizer.bits")
        if not 0 < self.largest < math.inf:
            raise InputError(
                f"UniformQuantizer needs a finite largest > 0, not {self.largest}", code="quantizer.largest"
            )

    @property
    def step(self) -> float:
        """Distance between two levels."""
        return self.largest / float(2 ** (self.bits - 1) - 1)

    def coder(self) -> Coder:
        return uniform_coder(UNIFORM, self.step, 2 ** (self.bits - 1) - 1)


@dataclass(frozen=True)
class LogQuantizer(Quantizer):
    """q(v) = sign(v) exp(rho round(ln|v| / rho)): relative error within e^(±rho/2), however small the value.

    mode "innovation" (exact, the default) sends the change since the last message, as a minifloat that is no coarser than
    this code (codec.py: 10 bits at rho 0.125); of these settings it uses rho alone. "node" is the paper's form and leaves a
    residual; "edge" quantises the difference of two ends, which no real channel can do: a tool of analysis.
    `rounding="floor"` gives the sector (e^-rho, 1]; `smallest` and `largest` are the ends of the range (1e-6 and 1e6).
    """

    rho: float = 0.125
    mode: Mode = "innovation"
    smallest: float | None = None
    largest: float | None = None
    rounding: Literal["nearest", "floor"] = "nearest"

    def __post_init__(self) -> None:
        _check_mode(self.mode)
        if not 0 < self.rho < math.inf:
            raise InputError(
                f"LogQuantizer needs rho > 0, not {self.rho}; use Exact() for an ideal channel", code="quantizer.rho"
            )
        if self.rounding not in ("nearest", "floor"):
            raise unknown_name("rounding", str(self.rounding), ("nearest", "floor"))
        if not 0 < self.range[0] < self.range[1] < math.inf:
            raise InputError(
                f"LogQuantizer needs 0 < smallest < largest, not {self.range[0]:g} and {self.range[1]:g}",
                code="quantizer.order",
            )
        if self.bits > MOST_BITS:
            raise InputError(
                f"LogQuantizer with rho={self.rho:g} needs {self.bits} bits: raise rho or narrow the range"
            )

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest level."""
        low, high = INNOVATION_RANGE if self.mode == "innovation" else ABSOLUTE_RANGE
        return (low if self.smallest is None else self.smallest, high if self.largest is None else self.largest)

    @property
    def cells(self) -> int:
        """K = ln(largest/smallest)/rho."""
        return int(math.log(self.range[1] / self.range[0]) / self.rho)

    @property
    def bits(self) -> int:  # type: ignore[override]
        """2(K+1) + 1 codes need ceil(log2(2K + 3)) bits."""
        return math.ceil(math.log2(2 * self.cells + 3))

    def coder(self) -> Coder:
        lowest = round(math.log(self.range[1]) / self.rho) - self.cells
        return log_coder(float(self.rho), lowest, self.cells + 1, self.rounding)


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise unknown_name("quantizer mode", str(mode), MODES)
