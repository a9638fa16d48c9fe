"""Shortest remaining time first (as in Gandiva's and Tiresias' comparisons): the least estimated work left goes first.

The best simple learner here; it ignores deadlines, and trusts an estimate however uncertain. Unseen tasks go first.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View, in_turn


@dataclass(frozen=True)
class SRTF(Learning):
    label, colour, marker, rank = "SRTF", "#15803d", "emptyRect", 10

    def given(self, view: View, estimate: Estimate) -> Decision:
        return in_turn(view, view.data_left, np.nan_to_num(estimate.left))
