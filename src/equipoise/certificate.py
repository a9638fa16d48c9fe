"""What every run ends in: named checks, each a value against a limit, recomputed from inputs and outputs alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One claim about a run. `passed` is None when the check applies but could not be made."""

    name: str
    value: float | None
    limit: float | None
    passed: bool | None
    meaning: str

    @classmethod
    def at_most(cls, name: str, value: float, limit: float, meaning: str) -> Check:
        """Passes when value <= limit; a value that is not a number never does."""
        value, limit = float(value), float(limit)
        if not math.isfinite(value):
            return cls(name, None, limit, False, f"{meaning} (the value is not finite)")
        return cls(name, value, limit, value <= limit, meaning)

    @classmethod
    def not_made(cls, name: str, reason: str) -> Check:
        """A check that applies but could not be made. It does not pass."""
        return cls(name, None, None, None, f"not made: {reason}")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in result.json."""
        return {
            "name": self.name,
            "value": self.value,
            "limit": self.limit,
            "passed": self.passed,
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class Certificate:
    """All checks of one run. It passes when every check that applies was made and passed."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.passed is True for check in self.checks)

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name!r}; this certificate has {', '.join(c.name for c in self.checks)}")

    def __contains__(self, name: str) -> bool:
        return any(check.name == name for check in self.checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in result.json."""
        return {"passed": self.passed, "checks": [check.as_dict() for check in self.checks]}
