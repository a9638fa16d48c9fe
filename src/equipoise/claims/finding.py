"""A finding: one measured value beside the bound that a claim states for it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from equipoise.claims.bounds import Bound

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

    @classmethod
    def mean(cls, quantity: str, samples: Iterable[float], bound: Bound, **more: Any) -> Finding:
        """The mean of independent samples, with its standard error."""
        drawn = [float(sample) for sample in samples]
        mean = math.fsum(drawn) / len(drawn)
        spread = math.fsum((sample - mean) ** 2 for sample in drawn)
        error = math.sqrt(spread / (len(drawn) - 1) / len(drawn)) if len(drawn) > 1 else math.inf
        return cls(quantity, mean, bound, error=error, **more)

    @classmethod
    def share(cls, quantity: str, hits: Iterable[bool], bound: Bound, **more: Any) -> Finding:
        """How many of independent trials hit, in percent; two hits and two misses more say how sure that is.

        (Agresti and Coull 1998: without them ten hits in ten trials would be a certainty.)
        """
        tried = [bool(hit) for hit in hits]
        likely = (sum(tried) + 2) / (len(tried) + 4)
        error = 100.0 * math.sqrt(likely * (1.0 - likely) / (len(tried) + 4))
        return cls(quantity, 100.0 * sum(tried) / len(tried), bound, unit="%", error=error, **more)

    @property
    def holds(self) -> bool | None:
        """Does the value lie within its bound? None: too few samples to tell."""
        return self.bound.holds(self.value, self.error)

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
