"""UARA+LARA as published: each task asks for 1.4 x what its estimate needs per step, capped at capacity / everyone.

The most frugal of the five and the one that starves: the cap counts tasks that cannot compute, and requests that are
just in time fail whenever an estimate is optimistic.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Floats
from equipoise.share.divide import count
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning, needed
from equipoise.share.policies.uara import uara_bandwidth
from equipoise.share.view import Decision, View

MARGIN = 1.4  # asked over needed


def requests(view: View, estimate: Estimate) -> Floats:
    """What each computing task asks for; one that was hardly seen asks what the others do on average."""
    return MARGIN * needed(view, estimate, 1.0, otherwise=view.task_cap / MARGIN)


@dataclass(frozen=True)
class UARALARA(Learning):
    label: ClassVar[str] = "UARA+LARA"
    colour: ClassVar[str] = "#be123c"
    marker: ClassVar[str] = "pin"
    rank: ClassVar[int] = 5  # in tables and charts
    published: ClassVar[bool] = True

    def given(self, view: View, estimate: Estimate) -> Decision:
        cap = np.minimum(view.capacity / count(view.active), view.task_cap)
        return Decision(uara_bandwidth(view), np.minimum(requests(view, estimate), cap))
