"""Earliest deadline first with admission: tasks that could not finish even at full speed are left out.

Optimal for one server when it is known what fits; here what fits is an estimate, and nothing is held back for it.
"""

from dataclasses import dataclass

from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View, in_turn


@dataclass(frozen=True)
class EDF(Learning):
    label, colour, marker, rank = "EDF", "#ca8a04", "arrow", 11
    frugal = True  # leaves compute idle by design

    def given(self, view: View, estimate: Estimate) -> Decision:
        feasible = ~(estimate.left > view.task_cap * view.time_left)  # an unknown task is given a chance
        return in_turn(view, view.deadline, view.deadline, view.computing & feasible)
