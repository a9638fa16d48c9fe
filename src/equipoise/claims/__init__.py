"""What the papers claim, tested here: one file for each claim, and a verdict computed from what was measured."""

from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.claims.claim import Claim, Measured, Scale, claim
from equipoise.claims.finding import Finding, Interval, Verdict, at_least, at_most, between

__all__ = ["Claim", "Finding", "Interval", "Measured", "Scale", "Verdict", "at_least", "at_most", "between", "claim"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
