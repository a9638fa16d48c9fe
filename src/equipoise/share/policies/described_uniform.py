"""Uniform as the text of Hasan and Peña describes it: everyone in the site counts, who can compute gets the same part.

Simple and hard to fool, but its denominator counts tasks that are still sending or delayed, so part of the site idles.
"""

from dataclasses import dataclass

from equipoise.share.policies._described import EQUAL, decision
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class DescribedUniform:
    label, colour, marker, rank = "DescribedUniform", "#9ca3af", "emptyCircle", 6
    frugal = True  # leaves compute idle by design
    blind = True  # to errors

    def decide(self, view: View) -> Decision:
        return decision(view, EQUAL)
