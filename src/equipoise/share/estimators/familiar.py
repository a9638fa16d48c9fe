"""Analogues where curves were seen before, Bayesian log-linear where none were: the default of Hybrid."""

from dataclasses import dataclass

from equipoise.share.estimators._base import Fit
from equipoise.share.estimators.analogue import Analogue
from equipoise.share.estimators.bayes import Bayes
from equipoise.share.view import Scene


@dataclass(frozen=True)
class Familiar:
    label, rank = "analogues, or Bayesian log-linear", 5
    needs_truth = False
    chooses = True  # between two others: not scored itself

    def start(self, scene: Scene) -> Fit:
        return Bayes().start(scene) if scene.prior.curves is None else Analogue().start(scene)
