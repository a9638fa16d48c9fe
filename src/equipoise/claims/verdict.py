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
