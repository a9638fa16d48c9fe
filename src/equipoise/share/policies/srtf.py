"""Shortest remaining time first (as in Gandiva's and Tiresias' comparisons): the least estimated work left goes first.

The best simple learner here; it ignores deadlines, and trusts an estimate however uncertain. Unseen tasks go first.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.share.divide import greedy
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class SRTF(Learning):
    label: ClassVar[str] = "SRTF"
    colour: ClassVar[str] = "#15803d"
    marker: ClassVar[str] = "emptyRect"
    rank: ClassVar[int] = 10  # in tables and charts

    def given(self, view: View, estimate: Estimate) -> Decision:
        return Decision(
            bandwidth=greedy(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=greedy(np.nan_to_num(estimate.left), view.computing, view.task_cap, view.capacity),
        )
