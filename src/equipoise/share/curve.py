"""How a task's error falls with the samples it has computed: a power law, or a curve that was recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The true error after s samples: a s^-b + floor, or a recorded table, linear in ln s between its points."""

    a: float = 1.0
    b: float = 0.36
    floor: float = 0.0
    samples: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.samples or self.errors:
            _refuse_broken_table(self.samples, self.errors)
            return
        for name in ("a", "b", "floor"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0 or (value == 0 and name == "a"):
                wanted = "a positive number" if name == "a" else "zero or more"
                raise InputError(f"Curve: {name} is {value!r}; expected {wanted}")

    @classmethod
    def recorded(cls, samples: Sequence[float], errors: Sequence[float]) -> Curve:
        """A curve through measured points (samples seen so far, error there)."""
        return cls(samples=tuple(map(float, samples)), errors=tuple(map(float, errors)))

    def error(self, samples: float) -> float:
        """The true error after so many samples; fewer than one count as one."""
        s = max(float(samples), 1.0)
        if self.samples:
            return float(table_error(np.array(self.samples), np.array(self.errors), s))
        return float(self.a * s**-self.b + self.floor)

    def work(self, target: float) -> float:
        """Samples until the error first reaches `target`; infinite when it never does."""
        if self.samples:
            return float(table_work(np.array(self.samples), np.array(self.errors), float(target)))
        return float(power_work(self.a, self.b, self.floor, float(target)))


def _refuse_broken_table(samples: Sequence[float], errors: Sequence[float]) -> None:
    if len(samples) != len(errors) or len(samples) < 2:
        raise InputError(
            f"Curve.recorded: {len(samples)} sample counts and {len(errors)} errors; expected two or more of each, as many"
        )
    s, e = np.array(samples), np.array(errors)
    if not (np.isfinite(s).all() and np.isfinite(e).all()):
        raise InputError("Curve.recorded: every sample count and error must be a finite number")
    if s[0] < 1 or (np.diff(s) <= 0).any():
        raise InputError("Curve.recorded: sample counts must rise strictly, from 1 or more")
    if (e < 0).any():
        raise InputError(f"Curve.recorded: error {e[e < 0][0]:g} is negative")


@kernel
def power_work(a: float, b: float, floor: float, target: float) -> float:
    """W = (a / (target - floor))^(1/b), at least one sample."""
    room = target - floor
    if a <= room:
        return 1.0
    if room <= 0.0 or b <= 0.0:
        return math.inf
    exponent = math.log(a / room) / b
    return math.exp(exponent) if exponent < 700.0 else math.inf


@kernel
def table_error(samples: Floats, errors: Floats, s: float) -> float:
    """The recorded error at s: linear in ln s between points, level outside them."""
    last = len(samples) - 1
    if s <= samples[0]:
        return float(errors[0])
    if s >= samples[last]:
        return float(errors[last])
    k = np.searchsorted(samples, s)
    share = math.log(s / samples[k - 1]) / math.log(samples[k] / samples[k - 1])
    return float(errors[k - 1] + share * (errors[k] - errors[k - 1]))


@kernel
def table_work(samples: Floats, errors: Floats, target: float) -> float:
    """Samples at which a recorded curve first reaches the target."""
    if errors[0] <= target:
        return 1.0
    for k in range(1, len(samples)):
        if errors[k] <= target:
            share = (errors[k - 1] - target) / (errors[k - 1] - errors[k])
            return float(samples[k - 1] * (samples[k] / samples[k - 1]) ** share)
    return math.inf
