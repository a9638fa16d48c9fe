"""UARA+LARA with the right denominator: the cap is capacity / tasks that can compute (the paper's first remedy).

It no longer starves by counting, and still loses tasks by asking just in time on optimistic estimates.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.share.divide import count
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.policies.uara import uara_bandwidth
from equipoise.share.policies.uara_lara import requests
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class UARALARACorrected(Learning):
    label: ClassVar[str] = "UARALARACorrected"
    colour: ClassVar[str] = "#e11d48"
    marker: ClassVar[str] = "emptyDiamond"
    rank: ClassVar[int] = 7  # in tables and charts

    def given(self, view: View, estimate: Estimate) -> Decision:
        cap = np.minimum(view.capacity / count(view.computing), view.task_cap)
        return Decision(uara_bandwidth(view), np.minimum(requests(view, estimate), cap))
