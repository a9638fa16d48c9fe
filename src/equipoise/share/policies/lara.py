"""LARA as published (after Wang et al., ICML 2024): compute in proportion to (estimated remaining work / time left)^0.4.

A task seen fewer than three times gets the mean weight. Spreads the site over everyone, so under load few finish.
"""

from dataclasses import dataclass
from typing import ClassVar

from equipoise.share.divide import equal, in_proportion
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning, needed
from equipoise.share.view import Decision, View

POWER = 0.4  # the paper's exponent


@dataclass(frozen=True)
class LARA(Learning):
    label: ClassVar[str] = "LARA"
    colour: ClassVar[str] = "#7c3aed"
    marker: ClassVar[str] = "triangle"
    rank: ClassVar[int] = 3  # in tables and charts
    published: ClassVar[bool] = True

    def given(self, view: View, estimate: Estimate) -> Decision:
        weight = needed(view, estimate, POWER, otherwise=1.0)
        return Decision(
            bandwidth=equal(view.sending, view.data_left, view.bandwidth),
            compute=in_proportion(weight, view.task_cap, view.capacity),
        )
