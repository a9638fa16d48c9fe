"""Successive halving: equal shares, and at each of log2(tasks) times the half that is farther from its target is set aside.

It asks who is nearest now, not who will be there in time, and learns nothing from deadlines.
"""

import math
from dataclasses import dataclass

import numpy as np

from equipoise.kernels import Bools
from equipoise.share.divide import equal, first
from equipoise.share.policies._time_sharing import Remembering, logs
from equipoise.share.view import Decision, Policy, Scene, View, served


@dataclass(frozen=True)
class SuccessiveHalving(Remembering):
    label, colour, marker, rank = "SuccessiveHalving", "#4d7c0f", "emptyArrow", 24
    frugal = True  # leaves compute idle by design

    def start(self, scene: Scene) -> Policy:
        rounds = max(1, math.ceil(math.log2(max(scene.tasks, 2))))
        return Halving(max(1, scene.steps // (rounds + 1)), np.zeros((scene.seeds, scene.tasks), np.bool_))


@dataclass
class Halving:
    """Successive halving in a run: steps between two cuts, and who has been set aside."""

    steps: int
    aside: Bools

    def decide(self, view: View) -> Decision:
        ready = view.computing
        if view.step and view.step % self.steps == 0:
            self._halve(view, ready & ~self.aside)
        left = ready & ~self.aside
        left |= ready & ~left.any(axis=1, keepdims=True)  # rather those set aside than nobody
        return served(view, equal(left, view.task_cap, view.capacity))

    def _halve(self, view: View, who: Bools) -> None:
        """In each seed the farther half of them in ln(loss / target), rounded down."""
        _, loss, target = logs(view)
        for s in range(len(who)):
            self.aside[s : s + 1] |= first(int(who[s].sum()) // 2, (target - loss)[s : s + 1], who[s : s + 1])
