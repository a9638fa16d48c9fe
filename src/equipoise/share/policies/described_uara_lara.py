"""UARA+LARA as the text of Hasan and Peña describes it: 1.4 x an estimate's need, capped at capacity / everyone.

It starves: the cap counts tasks that cannot compute, and requests just in time fail whenever an estimate is optimistic. The
text's remedies are options: `corrected` counts only tasks that can compute, `floor` guarantees a minimum share.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.kernels import Floats, kernel
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning, needed
from equipoise.share.policies.described_uara import uara_bandwidth
from equipoise.share.task import COMPUTING, SENDING
from equipoise.share.view import Decision, View

MARGIN = 1.4  # asked over needed


@dataclass(frozen=True)
class DescribedUARALARA(Learning):
    """`floor` is the part of an equal share that is guaranteed."""

    corrected: bool = False
    floor: float = 0.0

    label, colour, marker, rank = "DescribedUARA+LARA", "#fb7185", "arrow", 9
    frugal = left_only = True  # leaves compute idle by design; of an estimate it reads the work left
    forms: ClassVar[dict[str, dict[str, object]]] = {  # NAME:form
        "corrected": {"corrected": True},
        "floor": {"corrected": True, "floor": 0.5},
    }

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor <= 1.0:
            raise InputError(f"DescribedUARALARA: floor is {self.floor!r}; expected 0 to 1, a part of an equal share")

    def given(self, view: View, estimate: Estimate) -> Decision:
        # One that was hardly seen asks what the others do on average; if none was seen, for the cap.
        asked = needed(view, estimate.left, 1.0, math.inf)
        return Decision(
            uara_bandwidth(view), _capped(asked, view.state, view.task_cap, view.capacity, self.corrected, self.floor)
        )


@kernel
def _capped(
    asked: Floats, state: NDArray[np.int8], task_cap: Floats, capacity: float, corrected: bool, floor: float
) -> Floats:
    """MARGIN times what is needed, at most an equal part, and at least `floor` of one."""
    for s in range(len(asked)):
        counted, states, row = 0, state[s], asked[s]
        for i in range(len(states)):
            counted += (states[i] == COMPUTING) | ((not corrected) & (states[i] >= SENDING) & (states[i] < COMPUTING))
        part = capacity / max(counted, 1)
        for i in range(len(states)):
            cap = min(part, task_cap[s, i])
            row[i] = max(min(MARGIN * row[i], cap), floor * cap) if states[i] == COMPUTING else 0.0
    return asked


corrected = partial(DescribedUARALARA, corrected=True, called="DescribedUARA+LARA:corrected")
with_floor = partial(DescribedUARALARA, corrected=True, floor=0.5, called="DescribedUARA+LARA:floor")
