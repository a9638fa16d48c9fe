"""A claim: a sentence, where it stands, and how it is measured here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from equipoise.claims.finding import Finding, Verdict, verdict
from equipoise.document import Row
from equipoise.errors import InputError
from equipoise.present.figures import Figure, Numbers, Series

Value = TypeVar("Value")
DIGITS = 6  # significant, of what is drawn: pages and recordings stay small


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
    """One entry of the ledger, called as the function that measures it. Its name is its file's."""

    sentence: str
    source: str
    measure: Callable[[Scale], Measured] = field(repr=False)
    unread: str = ""  # what could not be read in the source, if anything
    effort: float = 1.0  # CPU-seconds of the full form, roughly: long ones begin first
    name: str = ""
    verb: str = ""

    def __call__(self, scale: Scale) -> Measured:
        return self.measure(scale)

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
            "figures": [plain_figure(figure) for figure in measured.figures],
            "notes": list(measured.notes),
        }


def claim(
    sentence: str, *, source: str, unread: str = "", effort: float = 1.0
) -> Callable[[Callable[[Scale], Measured]], Claim]:
    """The claim that a function measures.

    Parameters
    ----------
    sentence
        What is claimed, in the paper's sense.
    source
        Where the sentence stands.
    unread
        What could not be read in the source, if anything.
    effort
        CPU-seconds of the full form, roughly: long ones begin first.
    """
    if not (isinstance(sentence, str) and sentence.strip()):
        raise InputError('a claim needs its sentence: @claim("...", source=...)', code="claim.sentence")

    def decorate(measure: Callable[[Scale], Measured]) -> Claim:
        measure.__qualname__ += ".measure"  # where it is found from now on: a claim can be pickled
        return Claim(sentence, source, measure, unread, effort)

    return decorate


def plain_figure(figure: Figure) -> Row:
    """A figure as it stands in result.json; present/claims.py reads it back."""
    marks = [mark for mark in figure.marks if math.isfinite(mark.value)]
    return {
        "title": figure.title,
        "x": figure.x.name,
        "y": figure.y.name,
        "series": [_plain_series(series) for series in figure.series],
        "caption": figure.caption,
        "groups": list(figure.x.groups),
        "marks": [{"axis": mark.axis, "value": mark.value, "name": mark.name} for mark in marks],
        "log_x": figure.x.log,
        "log_y": figure.y.log,
    }


def _plain_series(series: Series) -> Row:
    drawn = {"y": _numbers(series.y), "error": None if series.error is None else _numbers(series.error)}
    if series.kind == "bars":
        return {"name": series.name, **drawn, "kind": "bars"}
    kind = {"dashed": series.dash != "solid", "dots": series.kind == "dots", "kind": "curve"}
    return {"name": series.name, "x": _numbers(series.x), **drawn, **kind}


def _numbers(values: Numbers) -> list[float | None]:
    found = [None if value is None else float(value) for value in values]
    return [None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}") for value in found]
