"""LARA as we read it in the text of Hasan and Peña: compute in proportion to (estimated work left / time left)^0.4.

A task seen fewer than three times gets the mean weight. Spreads the site over everyone, so under load few finish.
"""

from dataclasses import dataclass

from equipoise.share.estimators import Estimate
from equipoise.share.policies._described import IN_PROPORTION, decision
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class DescribedLARA(Learning):
    label, colour, marker, rank = "DescribedLARA", "#a78bfa", "emptyTriangle", 7
    frugal = left_only = True  # leaves compute idle by design; of an estimate it reads the work left

    def given(self, view: View, estimate: Estimate) -> Decision:
        return decision(view, IN_PROPORTION, estimate.left)
