"""What every run ends in: named checks, each a value against a limit, recomputed from inputs and outputs alone."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """One claim about a run. `passed` is None when the check applies but could not be made.

    `general` is its meaning without what this run had: no counts and no names, for readers who may not see them.
    """

    name: str
    value: float | None
    limit: float | None
    passed: bool | None
    meaning: str
    general: str = field(default="", compare=False, repr=False)

    @classmethod
    def at_most(cls, name: str, value: float, limit: float, meaning: str, detail: str = "") -> Check:
        """Passes when value <= limit; a value that is not a number never does.

        Where there is a `detail` of this run, `meaning` has no full stop, and the two become one sentence.
        """
        value, limit = float(value), float(limit)
        general, meaning = (f"{meaning}.", f"{meaning}; {detail}.") if detail else (meaning, meaning)
        if not math.isfinite(value):
            return cls(name, None, limit, False, f"{meaning} (the value is not finite)", general)
        return cls(name, value, limit, value <= limit, meaning, general)

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

    def __repr__(self) -> str:
        failed = [check.name for check in self.checks if check.passed is not True]
        return f"<Certificate: {'passed' if self.passed else 'failed'}, {len(self.checks)} checks{_list(failed)}>"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each check."""
        marks = {True: "passed", False: "FAILED", None: "not made"}
        rows = [(c.name, _short(c.value), _short(c.limit), marks[c.passed], c.meaning) for c in self.checks]
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<p>{html.escape(repr(self))}</p><table><tbody>{body}</tbody></table>"


def _list(names: list[str]) -> str:
    return f"; not passed: {', '.join(names)}" if names else ""


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
