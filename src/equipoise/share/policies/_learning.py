"""What policies that watch learning curves share: an estimator, and a clairvoyant twin that is told the truth instead."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from equipoise.errors import InputError
from equipoise.share.estimators import Estimate, Estimator, Fit
from equipoise.share.estimators.log_linear import LogLinear, LogLinearFit
from equipoise.share.estimators.true_work import TrueWork
from equipoise.share.site import Server, Site
from equipoise.share.view import Decision, Policy, Prior, Scene, View, name_of


@dataclass(frozen=True)
class Learning:
    """A policy is `given` an estimate of every task beside the view."""

    estimator: Estimator = field(default_factory=LogLinear)
    called: str = field(default="", kw_only=True)  # another name, so that two settings of one policy can be compared

    label: ClassVar[str] = ""  # how it is shown; its class if it states none

    @property
    def clairvoyant(self) -> bool:
        return self.estimator.needs_truth

    def given(self, view: View, estimate: Estimate) -> Decision:
        """Decide from the view and the estimates."""
        raise InputError(f"{name_of(self)} does not say how it decides: define given(view, estimate)")

    def start(self, scene: Scene) -> Policy:
        fit = self.estimator.start(scene)
        if isinstance(fit, LogLinearFit):  # what its own class says of itself: a child may read more
            fit.whole = not vars(type(self)).get("left_only", False)
        return Watching(self, fit)

    def decide(self, view: View) -> Decision:
        """A single decision without memory: no curve has been watched. A run calls `start` first."""
        seeds, tasks = view.state.shape
        site = Site(servers=(Server(view.capacity / view.servers),) * view.servers, bandwidth=max(view.bandwidth, 1.0))
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
    if not isinstance(policy, Learning):
        raise InputError(f"{name_of(policy)} estimates nothing, so that it has no clairvoyant twin")
    return replace(policy, estimator=TrueWork())
