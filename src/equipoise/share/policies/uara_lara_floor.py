"""UARA+LARA corrected, with a minimum share for everyone who computes (the paper's second remedy).

The minimum share corrects what optimistic estimates break; what is left over by all is still not used.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.errors import InputError
from equipoise.share.divide import count
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.policies.uara import uara_bandwidth
from equipoise.share.policies.uara_lara import requests
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class UARALARAFloor(Learning):
    """`floor` is the part of an equal share that is guaranteed."""

    floor: float = 0.5

    label: ClassVar[str] = "UARALARAFloor"
    colour: ClassVar[str] = "#fb7185"
    marker: ClassVar[str] = "emptyTriangle"
    rank: ClassVar[int] = 8  # in tables and charts

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor <= 1.0:
            raise InputError(f"UARALARAFloor: floor is {self.floor!r}; expected 0 to 1, a part of an equal share")

    def given(self, view: View, estimate: Estimate) -> Decision:
        cap = np.minimum(view.capacity / count(view.computing), view.task_cap)
        share = np.clip(requests(view, estimate), self.floor * cap, cap)
        return Decision(uara_bandwidth(view), np.where(view.computing, share, 0.0))
