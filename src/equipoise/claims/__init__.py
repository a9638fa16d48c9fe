"""What the papers claim, tested here: one file a claim, and a verdict computed from what was measured."""

from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.claims.bounds import Bound, at_least, at_most, between
from equipoise.claims.claim import Claim, Measured, Scale
from equipoise.claims.figure import Bars, Curve, Figure, Mark
from equipoise.claims.finding import Finding
from equipoise.claims.verdict import Verdict

__all__ = [
    "Bars",
    "Bound",
    "Claim",
    "Curve",
    "Figure",
    "Finding",
    "Mark",
    "Measured",
    "Scale",
    "Verdict",
    "at_least",
    "at_most",
    "between",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
