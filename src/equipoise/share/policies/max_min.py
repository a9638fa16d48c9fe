"""Max-min fairness: nobody can have more without someone poorer having less; demands are the estimated work left.

What a nearly finished task does not need goes to the rest. Fair in compute, blind to deadlines and to futility.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.share.divide import equal
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View, served

LEAST = 1.0  # samples; an estimate that says "done" of a task that is not is worth one more


@dataclass(frozen=True)
class MaxMin(Learning):
    label, colour, marker, rank = "MaxMin", "#475569", "emptyRoundRect", 14

    def given(self, view: View, estimate: Estimate) -> Decision:
        demand = np.where(estimate.known, np.clip(estimate.left, LEAST, view.task_cap), view.task_cap)
        return served(view, equal(view.computing, demand, view.capacity))
