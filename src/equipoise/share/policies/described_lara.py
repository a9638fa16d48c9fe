"""LARA as we read it in the text of Hasan and Peña: compute in proportion to (estimated work left / time left)^0.4.

A task seen fewer than three times gets the mean weight. Spreads the site over everyone, so under load few finish.
"""

from dataclasses import dataclass

from equipoise.share.divide import equal, in_proportion
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning, needed
from equipoise.share.view import Decision, View

POWER = 0.4  # fitted to the paper's table before its code was known


@dataclass(frozen=True)
class DescribedLARA(Learning):
    label, colour, marker, rank = "DescribedLARA", "#a78bfa", "emptyTriangle", 7
    frugal = left_only = True  # leaves compute idle by design; of an estimate it reads the work left

    def given(self, view: View, estimate: Estimate) -> Decision:
        weight = needed(view, estimate.left, POWER, 1.0)
        return Decision(
            bandwidth=equal(view.sending, view.data_left, view.bandwidth),
            compute=in_proportion(weight, view.task_cap, view.capacity),
        )
