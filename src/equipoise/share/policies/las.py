"""Least attained service (Tiresias, NSDI 2019): whoever has had the least compute goes first. Needs no estimate.

New and small tasks pass quickly; under load nothing that is large is ever finished.
"""

from dataclasses import dataclass

from equipoise.share.divide import greedy
from equipoise.share.view import Decision, View, served


@dataclass(frozen=True)
class LAS:
    label, colour, marker, rank = "LAS", "#92400e", "emptyPin", 13
    blind = True  # to errors

    def decide(self, view: View) -> Decision:
        return served(view, greedy(view.samples, view.computing, view.task_cap, view.capacity))
