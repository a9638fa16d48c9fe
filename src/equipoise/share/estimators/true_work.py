"""The true work of every task: no estimate at all, but what clairvoyant twins of policies are given in its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.share.estimators._base import SURE, Estimate
from equipoise.share.view import Scene, View


@dataclass(frozen=True)
class TrueWork:
    label, rank = "true work", 6
    needs_truth = True

    def start(self, scene: Scene) -> TrueFit:
        if scene.truth is None:
            why = "TrueWork needs the truth, which only a run gives, and only to a policy that is clairvoyant"
            raise InputError(why, code="estimator.truth")
        return TrueFit(scene.truth.work)


@dataclass
class TrueFit:
    work: Floats

    def learn(self, view: View) -> None:
        """Nothing to learn."""

    def estimate(self, view: View) -> Estimate:
        work = np.minimum(self.work, 1e9)  # a task that can never succeed
        left = np.maximum(work - view.samples, 0.0)
        return Estimate(left, np.log(work), np.full(left.shape, SURE))
