"""A finding: one measured value beside the bound that a claim states for it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtr, stdtrit

from equipoise.claims.bounds import SIGMAS, Bound

PAPER, OURS = "paper", "ours"


@dataclass(frozen=True)
class Finding:
    """What was measured. `holds` is computed; nobody writes it down.

    `error` is a standard error; None means that nothing was sampled: an exact number, or the worst of all that was played.
    `about` is "paper" where the paper's own claim or form is judged, "ours" where it is what stands here in its place.
    """

    quantity: str  # in words: "largest |sum of shares - budget|"
    value: float
    bound: Bound
    unit: str = ""
    error: float | None = None
    over: str = ""  # what it was taken over: "worst of 20 instances", "mean of 200 seeds"
    when: str = ""  # the condition it was measured under; a verdict "depends" names it
    about: str = PAPER
    sigmas: float = SIGMAS  # standard errors it must be clear of its bound by; Student's where samples are few

    @classmethod
    def mean(cls, quantity: str, samples: Iterable[float], bound: Bound, **more: Any) -> Finding:
        """The mean of independent samples, with its standard error."""
        drawn = [float(sample) for sample in samples]
        mean = math.fsum(drawn) / len(drawn)
        spread = math.fsum((sample - mean) ** 2 for sample in drawn)
        error = math.sqrt(spread / (len(drawn) - 1) / len(drawn)) if len(drawn) > 1 else math.inf
        few = float(stdtrit(len(drawn) - 1, ndtr(SIGMAS))) if len(drawn) > 1 else SIGMAS
        return cls(quantity, mean, bound, error=error, sigmas=few, **more)

    @classmethod
    def share(cls, quantity: str, hits: Iterable[bool], bound: Bound, **more: Any) -> Finding:
        """How many of independent trials hit, in percent; its error is half the longer arm of Wilson's interval.

        So ten hits in ten trials are no certainty: 71 % would still be likely.
        """
        tried = [bool(hit) for hit in hits]
        n, k, z = len(tried), sum(tried), SIGMAS
        centre = (k + z * z / 2) / (n + z * z)
        reach = z * math.sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
        arm = max(k / n - (centre - reach), (centre + reach) - k / n)
        return cls(quantity, 100.0 * k / n, bound, unit="%", error=100.0 * arm / z, **more)

    @property
    def holds(self) -> bool | None:
        """Does the value lie within its bound? None: too few samples to tell."""
        return self.bound.holds(self.value, self.error, self.sigmas)

    def as_dict(self) -> dict[str, Any]:
        """Plain values; an open end of the bound, an unknown error and a value that is not finite are None."""
        return {
            "quantity": self.quantity,
            "when": self.when,
            "about": self.about,
            "value": _finite(self.value),
            "error": None if self.error is None else _finite(self.error),
            "unit": self.unit,
            "over": self.over,
            "bound": str(self.bound),
            "low": _finite(self.bound.low),
            "high": _finite(self.bound.high),
            "holds": self.holds,
        }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
