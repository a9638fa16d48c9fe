"""LARA as published (after Wang et al., ICML 2024): compute in proportion to (estimated remaining work / time left)^0.4.

A task seen fewer than three times gets the mean weight. Spreads the site over everyone, so under load few finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.share.estimators import Estimate
from equipoise.share.policies.learning import Learning, filled
from equipoise.share.split import equal
from equipoise.share.view import Decision, View

POWER = 0.4  # the paper's exponent
LEAST = 1.0  # samples; an estimate that says "done" of a task that is not is worth one more


@dataclass(frozen=True)
class LARA(Learning):
    colour: ClassVar[str] = "#7c3aed"
    marker: ClassVar[str] = "triangle"

    def given(self, view: View, estimate: Estimate) -> Decision:
        urgency = np.fmax(estimate.left, LEAST) / view.time_left
        weight = filled(urgency**POWER, estimate.known, view.computing, otherwise=1.0)
        part = view.capacity * weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
        return Decision(
            bandwidth=equal(view.sending, view.data_left, view.bandwidth),
            compute=np.minimum(part, view.task_cap),
        )
