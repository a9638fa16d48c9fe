"""Uniform, as published (Hasan and Peña's code): every task that can compute gets the same part of the site.

Simple and hard to fool, but it gives as much to a task that cannot make it as to one that is nearly there.
"""

from dataclasses import dataclass
from typing import ClassVar

from equipoise.share.policies._authors import decision, even_shares
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class Uniform:
    label: ClassVar[str] = "Uniform"
    colour: ClassVar[str] = "#6b7280"
    marker: ClassVar[str] = "circle"
    rank: ClassVar[int] = 1  # in tables and charts
    published: ClassVar[bool] = True
    blind: ClassVar[bool] = True  # to errors

    def decide(self, view: View) -> Decision:
        return decision(view, even_shares(view))
