"""A finding: one measured value beside the interval that a claim states for it; and the verdict on all findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtr, stdtrit

SIGMAS = 2.0  # standard errors that a value of many samples must be clear of its bound
PAPER, OURS = "paper", "ours"
REPRODUCED, NOT_REPRODUCED, DEPENDS, BEYOND = "reproduced", "not reproduced", "depends", "beyond"


@dataclass(frozen=True)
class Interval:
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


def at_most(limit: float) -> Interval:
    """The value may not be larger."""
    return Interval(high=float(limit))


def at_least(limit: float) -> Interval:
    """The value may not be smaller."""
    return Interval(low=float(limit))


def between(low: float, high: float) -> Interval:
    """The value lies in an interval."""
    return Interval(float(low), float(high))


@dataclass(frozen=True)
class Finding:
    """What was measured. `holds` is computed; nobody writes it down.

    `error` is a standard error; None means that nothing was sampled: an exact number, or the worst of all that was played.
    `about` is "paper" where the paper's own claim or form is judged, "ours" where it is what stands here in its place.
    """

    quantity: str  # in words: "largest |sum of shares - budget|"
    value: float
    bound: Interval
    unit: str = ""
    error: float | None = None
    over: str = ""  # what it was taken over: "worst of 20 instances", "mean of 200 seeds"
    when: str = ""  # the condition it was measured under; a verdict "depends" names it
    about: str = PAPER
    sigmas: float = SIGMAS  # standard errors it must be clear of its bound by; Student's where samples are few

    @classmethod
    def mean(cls, quantity: str, samples: Iterable[float], bound: Interval, **more: Any) -> Finding:
        """The mean of independent samples, with its standard error."""
        drawn = [float(sample) for sample in samples]
        mean = math.fsum(drawn) / len(drawn)
        spread = math.fsum((sample - mean) ** 2 for sample in drawn)
        error = math.sqrt(spread / (len(drawn) - 1) / len(drawn)) if len(drawn) > 1 else math.inf
        few = float(stdtrit(len(drawn) - 1, ndtr(SIGMAS))) if len(drawn) > 1 else SIGMAS
        return cls(quantity, mean, bound, error=error, sigmas=few, **more)

    @classmethod
    def share(cls, quantity: str, hits: Iterable[bool], bound: Interval, **more: Any) -> Finding:
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


@dataclass(frozen=True)
class Verdict:
    """A word, and what it depends on if it does."""

    word: str
    on: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.on})" if self.on else self.word


def verdict(findings: Sequence[Finding]) -> Verdict:
    """Reproduced: all that the paper says holds. Not reproduced: none of it. Depends: some, or the samples are too few.

    Where the paper leaves it open, what is said here in its place is judged alike; if all of it holds, it goes beyond.
    """
    said = [finding for finding in findings if finding.about == PAPER]
    judged = said or [finding for finding in findings if finding.about == OURS]
    if judged and all(finding.holds for finding in judged):
        return Verdict(REPRODUCED if said else BEYOND)
    if all(finding.holds is False for finding in judged):
        return Verdict(NOT_REPRODUCED)
    return Verdict(DEPENDS, _on(judged))


def _on(judged: Sequence[Finding]) -> str:
    """Where it holds, where not, and where nobody can tell yet."""
    words = {True: "holds", False: "not", None: "too few samples"}
    parts = []
    for outcome, word in words.items():
        names = [finding.when or finding.quantity for finding in judged if finding.holds is outcome]
        if names:
            parts.append(f"{word}: {' / '.join(dict.fromkeys(names))}")
    return "; ".join(parts)
