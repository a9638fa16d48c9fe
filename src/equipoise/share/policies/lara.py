"""LARA as published (after Wang et al., ICML 2024): compute in proportion to (estimated remaining work / time left)^0.4.

A task seen fewer than three times gets the mean weight. Spreads the site over everyone, so under load few finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.share.policies.learning import LearningNeeds
from equipoise.share.split import equal, in_proportion
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class LARA(LearningNeeds):
    power: ClassVar[float] = 0.4  # the paper's exponent
    colour: ClassVar[str] = "#7c3aed"
    marker: ClassVar[str] = "triangle"

    def sharing(self, view: View, need: NDArray[np.float64]) -> Decision:
        return Decision(
            bandwidth=equal(view.sending, view.data_left, view.bandwidth),
            compute=in_proportion(need, view.task_cap, view.capacity),
        )
