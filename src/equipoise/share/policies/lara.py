"""LARA, as published (Hasan and Peña's code, after Wang et al., ICML 2024): explore new tasks first, then just in time.

While any task is new nobody else is served; then tasks by time left, each with what its estimate needs. Requests that are
just in time leave a third of the site idle, and fail where an estimate is optimistic.
"""

from dataclasses import dataclass, field

from equipoise.share.estimators import Estimate, Estimator
from equipoise.share.estimators.log_linear import LogLinear
from equipoise.share.policies._authors import LEARNED, decision
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class LARA(Learning):
    estimator: Estimator = field(default_factory=lambda: LogLinear(separate=True))

    label, colour, marker, rank = "LARA", "#7c3aed", "triangle", 3
    frugal = left_only = True  # leaves compute idle by design; of an estimate it reads the work left
    published = True

    def given(self, view: View, estimate: Estimate) -> Decision:
        return decision(view, LEARNED, estimate.left)
