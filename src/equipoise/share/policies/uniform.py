"""Uniform, as published (Hasan and Peña's code): every task that can compute gets the same part of the site.

Simple and hard to fool, but it gives as much to a task that cannot make it as to one that is nearly there.
"""

from dataclasses import dataclass

from equipoise.share.policies._authors import EVEN, decision
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class Uniform:
    label, colour, marker, rank = "Uniform", "#6b7280", "circle", 1
    published = True
    blind = True  # to errors

    def decide(self, view: View) -> Decision:
        return decision(view, EVEN)
