"""Shortest processing time first, from scheduling's classics: the task whose whole work is estimated smallest goes first.

Finishes many small tasks; a long one waits however little of it is left. Unseen tasks go first, to be seen.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View, in_turn


@dataclass(frozen=True)
class SPT(Learning):
    label, colour, marker, rank = "SPT", "#65a30d", "triangle", 9

    def given(self, view: View, estimate: Estimate) -> Decision:
        return in_turn(view, view.data, np.nan_to_num(estimate.log_work))
