"""UARA+LARA, as published (Hasan and Peña's code): the lesser of LARA's shares and UARA's caps.

The most frugal of the five, and the one that starves: LARA gives the site to some of the computing tasks and the caps to
all of them, so that the lesser of the two wastes both, and the price of a busy network divides what is left.
"""

from dataclasses import dataclass, field

from equipoise.share.estimators import Estimate, Estimator
from equipoise.share.estimators.log_linear import LogLinear
from equipoise.share.policies._authors import LEARNED, THOSE_SERVED, THOSE_WHO_COMPUTE, decision
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class UARALARA(Learning):
    """`price`: whether a busy network divides the caps. `matching`: caps are of the tasks that LARA serves, not of all."""

    estimator: Estimator = field(default_factory=lambda: LogLinear(separate=True))
    price: bool = True
    matching: bool = False

    label, colour, marker, rank = "UARA+LARA", "#be123c", "pin", 5
    frugal = left_only = True  # leaves compute idle by design; of an estimate it reads the work left
    published = True

    def given(self, view: View, estimate: Estimate) -> Decision:
        capped = THOSE_SERVED if self.matching else THOSE_WHO_COMPUTE
        return decision(view, LEARNED, estimate.left, capped=capped, price=self.price)
