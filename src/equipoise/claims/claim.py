"""A claim: a sentence, where it stands, and how it is measured here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from equipoise.claims.finding import Finding, Verdict, verdict
from equipoise.present.values import Figure

Value = TypeVar("Value")


@dataclass(frozen=True)
class Scale:
    """How much is played: the quick form (all claims in minutes) or the full one (within an hour)."""

    quick: bool = False
    mnist: Path | None = None  # the folder of the four MNIST files; without it, scikit-learn's digits

    def pick(self, quick: Value, full: Value) -> Value:
        """The value for this scale."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Measured:
    """What came out: the protocol that was really played, findings, figures, and what a reader should know."""

    protocol: str
    findings: Sequence[Finding]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        return verdict(self.findings)


@dataclass(frozen=True)
class Claim:
    """One entry of the ledger. Its name is its file's."""

    sentence: str
    source: str
    measure: Callable[[Scale], Measured] = field(repr=False)
    unread: str = ""  # what could not be read in the source, if anything
    effort: float = 1.0  # CPU-seconds of the full form, roughly: long ones begin first
    name: str = ""
    verb: str = ""

    def as_dict(self, measured: Measured) -> dict[str, Any]:
        """An entry of result.json."""
        found = measured.verdict
        return {
            "name": self.name,
            "verb": self.verb,
            "sentence": self.sentence,
            "source": self.source,
            "unread": self.unread,
            "protocol": measured.protocol,
            "verdict": found.word,
            "depends_on": found.on,
            "findings": [finding.as_dict() for finding in measured.findings],
            "figures": [figure.as_dict() for figure in measured.figures],
            "notes": list(measured.notes),
        }
