"""SLAQ (Zhang et al., SoCC 2017): compute goes where the next step lowers the (normalised) error most.

Good for the mean error of all; it serves steep beginnings, not the flat end where a target is reached.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.share.divide import greedy
from equipoise.share.estimators import Estimate
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View, served


@dataclass(frozen=True)
class SLAQ(Learning):
    label, colour, marker, rank = "SLAQ", "#0284c7", "roundRect", 12

    def given(self, view: View, estimate: Estimate) -> Decision:
        done = np.maximum(view.samples, 1.0)
        above = np.log(np.maximum(view.error, 1e-6) / np.maximum(view.target, 1e-6))
        slope = above / np.maximum(np.log1p(np.maximum(estimate.left, 1.0) / done), 1e-3)  # b of a s^-b
        drop = 1.0 - (1.0 + view.task_cap / done) ** -np.clip(slope, 0.0, 5.0)  # of the present error, in one step
        gain = np.where(estimate.known, drop, 1.0)  # the unseen first
        return served(view, greedy(-gain, view.computing, view.task_cap, view.capacity))
