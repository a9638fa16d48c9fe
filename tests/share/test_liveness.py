"""Liveness: a certificate does not pass while a policy leaves tasks to fail beside idle compute, however it hides that."""

import numpy as np
import pytest

from equipoise.share import Curve, Decision, Site, Task, View, Workload, check_policy, oracle, policies, simulate, sweep
from equipoise.share.bundles import bundles
from equipoise.share.policies.uara import UARA
from equipoise.share.policies.uniform import Uniform
from equipoise.share.sweep import certify


class Lazy(Uniform):
    """Uniform, and nothing on small loads."""

    label = "Lazy"

    def decide(self, view: View) -> Decision:
        decision = super().decide(view)
        return decision if view.state.shape[1] > 10 else decision._replace(compute=np.zeros(view.state.shape))


class OnlyAlone(Uniform):
    """Serves who is alone, and nobody in a crowd."""

    label = "OnlyAlone"

    def decide(self, view: View) -> Decision:
        decision = super().decide(view)
        return decision if view.state.shape[1] == 1 else decision._replace(compute=np.zeros(view.state.shape))


class Crumbs(Uniform):
    """Next to nothing, to everybody."""

    label = "Crumbs"

    def decide(self, view: View) -> Decision:
        return super().decide(view)._replace(compute=np.where(view.computing, 1e-12, 0.0))


class Heir(UARA):
    """A parent that is frugal does not speak for it."""

    label = "Heir"

    def decide(self, view: View) -> Decision:
        return super().decide(view)._replace(compute=np.zeros(view.state.shape))


class Mason(Uniform):
    """Tries to build a larger site."""

    label = "Mason"

    def start(self, scene):
        scene.site.speeds[:] = 300.0
        return self


def test_one_starved_load_among_many_fails():
    found = sweep([Lazy()], loads=[10, 30, 60], seeds=5).certificate()["liveness"]
    assert found.passed is False and "Lazy at 10 tasks" in found.meaning


@pytest.mark.parametrize("policy", [OnlyAlone(), Crumbs(), Heir()])
def test_a_policy_that_starves_fails_its_check(policy):
    assert check_policy(policy, Workload.described())["liveness"].passed is False


def test_who_is_not_done_when_the_horizon_ends_counts():
    """All deadlines lie behind the horizon: nobody has failed yet, and nobody was served."""
    found = sweep([Crumbs()], Workload.described(horizon=36), loads=[20], seeds=3).certificate()["liveness"]
    assert found.passed is False


def test_a_policy_cannot_enlarge_the_site():
    with pytest.raises(ValueError, match="read-only"):
        simulate(Mason(), load=5, seeds=1)
    assert Site().capacity == 150.0


def test_tasks_that_any_grant_finishes_are_in_the_bound():
    """Twenty whose first error is accepted, and one that needs the whole server: all of them can be finished."""
    easy = Task(0, 20, 0.0, 0.9, Curve(0.8, 0.3), delay=0)
    hard = Task(0, 20, 0.0, 0.2, Curve(0.2 * 590.0**0.3, 0.3), delay=0)
    site = Site(servers=Site().servers[:1], success="observed")
    assert oracle(Workload.of([*[easy] * 20, hard]), site=site).bound.tolist() == [21]


def test_the_timeline_shows_what_was_observed():
    """Where all who are ready are looked at, a trace holds what was seen before each decision."""
    run = simulate(policies.Uniform(), load=20, seeds=1, trace=True)
    computing = run.trace.state[:, 0] == 3
    assert len(np.unique(run.trace.error[:, 0][computing])) > 10


def test_switches_are_recounted():
    """Reported switches that did not happen are found."""
    found = bundles([policies.SDF()], seeds=3)
    assert found.certificate().passed
    found.played.measured["SDF", 10]["switches"][:] += 1000
    assert certify(found.played, found.played.policies)["outcomes"].passed is False
