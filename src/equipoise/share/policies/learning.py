"""What policies that watch learning curves share: an estimator, and a clairvoyant twin that is told the truth instead."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from equipoise.share.estimators import Estimate, Estimator, Fit, LogLinear, TrueWork
from equipoise.share.site import Server, Site
from equipoise.share.view import Decision, Policy, Prior, Scene, View


@dataclass(frozen=True)
class Learning:
    """A policy is `given` an estimate of every task beside the view."""

    estimator: Estimator = field(default_factory=LogLinear)

    name: ClassVar[str] = ""

    @property
    def label(self) -> str:
        return f"{self.name or type(self).__name__}{' (clairvoyant)' if self.clairvoyant else ''}"

    @property
    def clairvoyant(self) -> bool:
        return self.estimator.needs_truth

    def given(self, view: View, estimate: Estimate) -> Decision:
        """Decide from the view and the estimates."""
        raise NotImplementedError

    def start(self, scene: Scene) -> Policy:
        return Watching(self, self.estimator.start(scene))

    def decide(self, view: View) -> Decision:
        """A single decision without memory: no curve has been watched. A run calls `start` first."""
        seeds, tasks = view.state.shape
        site = Site(servers=(Server(view.task_cap),), bandwidth=view.bandwidth)
        return self.start(Scene(site, Prior(), seeds, tasks, view.step + 1)).decide(view)


@dataclass
class Watching:
    """A learning policy in a run."""

    policy: Learning
    fit: Fit

    def decide(self, view: View) -> Decision:
        self.fit.learn(view)
        return self.policy.given(view, self.fit.estimate(view))


AnyLearning = TypeVar("AnyLearning", bound=Learning)


def clairvoyant(policy: AnyLearning) -> AnyLearning:
    """The same policy with the true work of every task in place of its estimate: what better estimates could win."""
    return replace(policy, estimator=TrueWork())


def filled(values: Any, known: Any, who: Any, otherwise: float) -> Any:
    """Values where known; the mean of those for the others of `who` (exploration); `otherwise` where none is known."""
    here = known & who
    count = here.sum(axis=1, keepdims=True)
    mean = np.where(here, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    return np.where(here, values, np.where(who, np.where(count > 0, mean, otherwise), 0.0))
