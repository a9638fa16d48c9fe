"""Shortest remaining time first (as in Gandiva's and Tiresias' comparisons): the least estimated work left goes first.

The best simple learner here; it ignores deadlines, and trusts an estimate however uncertain. Unseen tasks go first.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.share.divide import greedy
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class SRTF(Learning):
    label, colour, marker, rank = "SRTF", "#15803d", "emptyRect", 10

    def given(self, view: View, estimate: Estimate) -> Decision:
        return Decision(
            bandwidth=greedy(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=greedy(np.nan_to_num(estimate.left), view.computing, view.task_cap, view.capacity),
        )
