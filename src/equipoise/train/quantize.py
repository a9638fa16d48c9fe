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

from equipoise.compiled import kernel
from equipoise.errors import InputError, unknown_name
from equipoise.train.arrays import Floats, Ints

Mode = Literal["innovation", "edge", "node"]
MODES = ("innovation", "edge", "node")

# Range of a log code in units of the link's own scale (innovation), or absolute (node and edge carry no scale).
# Both give 9 bits at rho = 0.125.
INNOVATION_RANGE = (1e-12, 64.0)
ABSOLUTE_RANGE = (1e-6, 1e6)
FLOAT_BITS = 64

EXACT, UNIFORM, LOG_NEAREST, LOG_FLOOR = 0, 1, 2, 3


class Coder(NamedTuple):
    """A quantiser as the kernels see it."""

    kind: int
    spacing: float  # rho of a log coder, step of a uniform one
    lowest: int  # ln(smallest level) / rho
    top: int  # the largest code
    levels: Floats  # value of code k >= 0 (log only; levels[0] = 0)


@kernel
def encode_one(coder: Coder, value: float) -> int:
    """The code of one value; beyond the range it is `top` + 1 with the value's sign, for the caller to count."""
    size = abs(value)
    if size == 0.0:
        return 0
    if coder.kind == UNIFORM:
        position = np.floor(size / coder.spacing + 0.5)
    elif coder.kind == LOG_NEAREST:
        position = np.floor(math.log(size) / coder.spacing + 0.5) - coder.lowest + 1
    else:
        position = np.floor(math.log(size) / coder.spacing) - coder.lowest + 1
    # Written so that a value that is not a number counts as beyond the range.
    code = (int(position) if position > 0.0 else 0) if position <= coder.top else coder.top + 1
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

    def coder(self) -> Coder:
        return Coder(EXACT, 1.0, 0, 0, np.zeros(1))

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
            raise InputError(f"UniformQuantizer needs 2 to 32 bits, not {self.bits}")
        if not 0 < self.largest < math.inf:
            raise InputError(f"UniformQuantizer needs a finite largest > 0, not {self.largest}")

    @property
    def step(self) -> float:
        """Distance between two levels."""
        return self.largest / float(2 ** (self.bits - 1) - 1)

    def coder(self) -> Coder:
        return Coder(UNIFORM, self.step, 0, 2 ** (self.bits - 1) - 1, np.zeros(1))


@dataclass(frozen=True)
class LogQuantizer(Quantizer):
    """q(v) = sign(v) exp(rho round(ln|v| / rho)): relative error within e^(±rho/2), however small the value.

    mode "innovation" (exact, the default) sends the change since the last message; "node" is the paper's form and leaves
    a residual; "edge" quantises the difference of two ends, which no real channel can do: a tool of analysis.
    `rounding="floor"` gives the sector (e^-rho, 1]. `smallest` and `largest` are in units of the link's scale in
    innovation mode (default 1e-12, 64) and absolute otherwise (default 1e-6, 1e6).
    """

    rho: float = 0.125
    mode: Mode = "innovation"
    smallest: float | None = None
    largest: float | None = None
    rounding: Literal["nearest", "floor"] = "nearest"

    def __post_init__(self) -> None:
        _check_mode(self.mode)
        if not 0 < self.rho < math.inf:
            raise InputError(f"LogQuantizer needs rho > 0, not {self.rho}; use Exact() for an ideal channel")
        if self.rounding not in ("nearest", "floor"):
            raise unknown_name("rounding", str(self.rounding), ("nearest", "floor"))
        if not 0 < self.range[0] < self.range[1] < math.inf:
            raise InputError(f"LogQuantizer needs 0 < smallest < largest, not {self.range[0]:g} and {self.range[1]:g}")
        if self.bits > 32:
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
        # One level above the range, so that a saturated code can be clipped after it was counted.
        levels = np.exp(self.rho * (lowest + np.arange(-1, self.cells + 2)))
        levels[0] = 0.0
        kind = LOG_NEAREST if self.rounding == "nearest" else LOG_FLOOR
        return Coder(kind, float(self.rho), lowest, self.cells + 1, levels)


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise unknown_name("quantizer mode", str(mode), MODES)
