"""What finishing a traced job is worth: no trace says, so it is drawn by seed, and every workload says so in its note."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.place.utility import Sigmoid

Floats = NDArray[np.float64]

FLAT, GENTLE = 0.10, 0.55  # the rest, 35%, is steep (spec, section 3)
GENTLE_RANGE = (0.01, 1.0)  # th2
STEEP_RANGE = (4.0, 6.0)
VALUE_RANGE = (1.0, 100.0)  # th1
MIDDLE_RANGE = (1.0, 15.0)  # th3
LARGEST = 30.0  # the most by which size multiplies a value
UNIT = 600.0  # seconds: the spec's slot, for a trace
DRAWS = 4  # uniform numbers a utility takes: value, class, steepness, middle


def between(bounds: tuple[float, float], u: float) -> float:
    """The point a share u of the way."""
    return bounds[0] + (bounds[1] - bounds[0]) * u


def steepness(which: float, u: float) -> float:
    """th2 of the spec's mix: none for 10%, gentle for 55%, steep for 35%."""
    if which < FLAT:
        return 0.0
    return between(GENTLE_RANGE if which < FLAT + GENTLE else STEEP_RANGE, u)


@dataclass(frozen=True)
class UtilityModel:
    """Sigmoids for jobs of a trace, with the spec's ranges read in units of ten minutes from the job's own duration on.

    th1 = U(1, 100), and when `sized` times sqrt(GPU-hours / the median job's), at most 30 times;
    th2 = 0, U(.01, 1) or U(4, 6) a unit (10, 55, 35%); th3 = duration + U(1, 15) units.
    A job that starts at once is worth nearly th1; the sqrt lets a long job be worth more, yet less per GPU-hour.
    """

    slot: float  # seconds
    median: float  # GPU-hours
    sized: bool = True

    def __post_init__(self) -> None:
        if not self.slot > 0 or not self.median > 0:
            raise InputError(f"UtilityModel: slot is {self.slot!r}, median {self.median!r}; expected positive numbers")

    def __call__(self, seconds: float, gpu_hours: float, draws: Floats) -> Sigmoid:
        """The utility of a job that runs so long, from DRAWS uniform numbers."""
        value, which, steep, middle = (float(u) for u in draws)
        size = min(LARGEST, (gpu_hours / self.median) ** 0.5) if self.sized else 1.0
        return Sigmoid(
            value=between(VALUE_RANGE, value) * size,
            steepness=steepness(which, steep) * self.slot / UNIT,
            middle=(seconds + UNIT * between(MIDDLE_RANGE, middle)) / self.slot,
        )

    def describe(self, seed: int) -> str:
        """One line for the workload's note."""
        size = " x sqrt(GPU-hours / median), at most 30 times" if self.sized else ", whatever the job's size"
        return f"utilities synthesised, seed {seed}: sigmoid, U(1, 100){size}; half worth 10-150 min past the duration"
