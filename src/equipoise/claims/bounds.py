"""Where a measured value must lie for a claim to hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

SIGMAS = 2.0  # standard errors that a value of many samples must be clear of its bound


@dataclass(frozen=True)
class Bound:
    """An interval; one end may be open. The ends belong to it."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, value: float, error: float | None, sigmas: float = SIGMAS) -> bool | None:
        """True inside and False outside, by so many standard errors; None when the sample is too small to tell."""
        if not math.isfinite(value):
            return False
        slack = sigmas * error if error else 0.0
        if self.low <= value - slack and value + slack <= self.high:
            return True
        return False if value + slack < self.low or value - slack > self.high else None

    def __str__(self) -> str:
        if self.low == -math.inf:
            return f"≤ {self.high:.4g}"
        return f"≥ {self.low:.4g}" if self.high == math.inf else f"{self.low:.4g} to {self.high:.4g}"


def at_most(limit: float) -> Bound:
    """The value may not be larger."""
    return Bound(high=float(limit))


def at_least(limit: float) -> Bound:
    """The value may not be smaller."""
    return Bound(low=float(limit))


def between(low: float, high: float) -> Bound:
    """The value lies in an interval."""
    return Bound(float(low), float(high))
