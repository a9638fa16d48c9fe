"""The verdict on a claim, from its findings and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.claims.finding import OURS, PAPER, Finding

REPRODUCED, NOT_REPRODUCED, DEPENDS, BEYOND = "reproduced", "not reproduced", "depends", "beyond"


@dataclass(frozen=True)
class Verdict:
    """A word, and what it depends on if it does."""

    word: str
    on: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.on})" if self.on else self.word


def verdict(findings: Sequence[Finding]) -> Verdict:
    """Reproduced: all that the paper says holds. Not reproduced: none of it. Depends: some, or the samples are too few.

    Beyond: the paper leaves it open, and all that is said here in its place holds.
    """
    said = [finding for finding in findings if finding.about == PAPER]
    if not said:
        ours = [finding for finding in findings if finding.about == OURS]
        return Verdict(BEYOND if ours and all(finding.holds for finding in ours) else NOT_REPRODUCED)
    held = [finding for finding in said if finding.holds]
    if len(held) == len(said):
        return Verdict(REPRODUCED)
    if not held and all(finding.holds is False for finding in said):
        return Verdict(NOT_REPRODUCED)
    return Verdict(DEPENDS, _on(said))


def _on(said: Sequence[Finding]) -> str:
    """Where it holds, where not, and where nobody can tell yet."""
    words = {True: "holds", False: "not", None: "too few samples"}
    parts = []
    for outcome, word in words.items():
        names = [finding.when or finding.quantity for finding in said if finding.holds is outcome]
        if names:
            parts.append(f"{word}: {', '.join(dict.fromkeys(names))}")
    return "; ".join(parts)
