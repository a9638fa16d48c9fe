"""What a policy sees: nothing that is still hidden, and nothing it could change."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from equipoise.share import Curve, Scene, Site, Task, View, Workload, policies, simulate
from equipoise.share.audit import audit
from equipoise.share.task import COMPUTING, DONE, PENDING

ARRAYS = [name for name in View._fields if name not in ("step", "capacity", "bandwidth", "servers", "part", "delay")]
PRESETS = pytest.mark.parametrize("workload", [Workload.described(), Workload.authors()], ids=["described", "authors"])


class Recorder:
    """Uniform, and a copy of every view it was shown."""

    def __init__(self, inner=None):
        self.inner = inner or policies.Uniform()

    def __deepcopy__(self, memo):
        return self  # so that what it saw can be read after the run

    def start(self, scene):
        self.scene, self.views = scene, []
        return self

    def decide(self, view):
        self.views.append(view._replace(**{name: getattr(view, name).copy() for name in ARRAYS}))
        return self.inner.decide(view)


def views_of(tasks, seeds=(5,), site=None):
    recorder = Recorder()
    simulate(recorder, Workload.of(tasks, horizon=20), seeds=seeds, site=site)
    return recorder.views


def first_difference(one, two):
    """The first step in which two records of views differ; None if none."""
    for a, b in zip(one, two, strict=True):
        if any(not np.array_equal(getattr(a, name), getattr(b, name)) for name in View._fields):
            return a.step
    return None


def a_task(**changes):
    usual = {
        "arrival": 0,
        "deadline": 18,
        "data": 40.0,
        "target": 0.1,
        "delay": 2,
        "sigma": 0.01,
        "curve": Curve(1.0, 0.3),
    }
    return Task(**(usual | changes))


def test_the_view_names_nothing_that_is_hidden():
    """Its fields are these; a true curve, a work, a delay or a noise is not among them."""
    assert set(View._fields) == {
        "step",
        "state",
        "arrival",
        "deadline",
        "data",
        "data_left",
        "target",
        "samples",
        "error",
        "observations",
        "observed",
        "first_error",
        "ready",
        "servers",
        "delay",  # its mean, which the site states
        "capacity",
        "bandwidth",
        "task_cap",
        "part",
    }
    assert set(Scene.__dataclass_fields__) == {"site", "prior", "seeds", "tasks", "steps", "truth"}


def test_two_workloads_that_differ_in_nothing_look_the_same():
    """The measuring stick of the tests below finds no difference where there is none."""
    assert first_difference(views_of([a_task(), a_task(arrival=9)]), views_of([a_task(), a_task(arrival=9)])) is None


@pytest.mark.parametrize(
    "changes",
    [{"data": 70.0}, {"deadline": 19}, {"target": 0.2}, {"arrival": 12}],
    ids=["data", "deadline", "target", "arrival"],
)
def test_a_task_that_has_not_arrived_is_not_seen(changes):
    """Two futures that differ in one task's data, deadline, target or arrival look alike until it arrives, in step 9."""
    later = a_task(arrival=9)
    other = a_task(**({"arrival": 9} | changes))
    assert first_difference(views_of([a_task(), later]), views_of([a_task(), other])) == 9


def test_a_curve_shows_when_it_is_observed():
    """Two curves look alike until one sample was computed: sent in 0, delayed 1 and 2, computes in 3, seen in 4."""
    other = a_task(curve=Curve(1.1, 0.2))
    assert first_difference(views_of([a_task()]), views_of([other])) == 4


def test_a_true_work_shows_only_by_being_reached():
    """Two recorded curves that agree up to 90 samples: the one that then falls is seen to, after its fourth step."""
    points = [1, 30, 60, 90, 120]
    flat, falls = (Curve.recorded(points, [0.9, 0.8, 0.7, 0.6, last]) for last in (0.6, 0.05))
    assert first_difference(views_of([a_task(curve=flat)]), views_of([a_task(curve=falls)])) == 7


def test_a_delay_shows_when_the_shorter_is_over():
    """Delays of 2 and of 6 look alike while both last: sent in 0, the first may compute in 3."""
    assert first_difference(views_of([a_task(delay=2)]), views_of([a_task(delay=6)])) == 3


def test_a_pending_task_shows_zeros():
    """Before it arrives: state pending, target and errors 1, ready -1, the site's own limit, all else zero."""
    usual = {"state": PENDING, "target": 1.0, "error": 1.0, "first_error": 1.0, "observed": False}
    for site in (Site(), Site.authors()):
        (early, *_) = views_of([a_task(arrival=9, speed=12.0)], site=site)
        shown = {name: getattr(early, name)[0, 0].item() for name in ARRAYS}
        assert shown == dict.fromkeys(ARRAYS, 0) | usual | {"ready": -1, "task_cap": 30.0}


def test_where_all_are_looked_at_two_errors_come_with_the_data():
    """The authors' site: its limit shows on arrival, errors from the step on in which all data is there."""
    views = views_of([a_task(data=150.0, speed=12.0)], site=Site.authors(rate_jitter=0.0))
    states = [view.state[0, 0] for view in views]
    start = states.index(COMPUTING)
    assert start == 3  # a delay of 2, then 100 in step 2 and the rest in step 3
    assert all(view.task_cap[0, 0] == 12.0 for view in views)
    for view in views[:start]:
        assert (view.error[0, 0], view.first_error[0, 0], view.ready[0, 0], view.observations[0, 0]) == (1, 1, -1, 0)
    for view in views[start : start + 5]:
        assert (view.ready[0, 0], view.observations[0, 0]) == (start, view.step - start + 2)
        assert view.observed[0, 0] and view.first_error[0, 0] == views[start].first_error[0, 0] != 1.0
    assert len({float(view.error[0, 0]) for view in views[start:]}) > 5  # a new look in every step


def test_what_was_observed_is_what_the_last_step_brought():
    """`observations` counts the steps a task computed in; `observed` marks them; samples add up what it was given."""
    views = views_of([a_task()])
    computing = [view.state[0, 0] == COMPUTING for view in views]
    start = computing.index(True)
    for view in views[start : start + 8]:
        done = view.step - start
        assert view.observations[0, 0] == done
        assert view.observed[0, 0] == (done > 0)
        assert view.samples[0, 0] == pytest.approx(30.0 * done)


class Scribbler:
    """Decides like SDF, then writes nonsense over everything it was shown."""

    def decide(self, view):
        decision = policies.SDF().decide(view)
        for name in ARRAYS:
            getattr(view, name)[...] = 3
        return decision


@PRESETS
def test_writing_on_the_view_misleads_only_the_writer(workload):
    """States are shown afresh in every step, so its decisions stay allowed; and what follows from them is the truth."""
    run = simulate(Scribbler(), workload, load=60, seeds=4, trace=True)
    batch, trace = run.batch, run.trace
    assert run.successes.sum() > 0
    found = audit(run)
    assert (found.misplaced, found.outcomes) == (0, 0)
    if run.site.success == "true":
        assert_array_equal(trace.compute.sum(axis=0) >= batch.work - 1e-6, run.state == DONE)
        sent = np.minimum(trace.bandwidth.sum(axis=0), batch.data).sum(axis=1)
        assert run.sent == pytest.approx(sent)
    alone = simulate(policies.SDF(), workload, load=60, seeds=4)
    assert_array_equal(alone.batch.deadline, batch.deadline)
    assert (run.done_at <= batch.deadline).all()


def test_answering_with_the_views_own_arrays_does_no_harm():
    """A decision may be an array of the view: what was decided is what is applied."""

    class Lender:
        def decide(self, view):
            view.data_left[...] = np.where(view.sending, np.minimum(view.data_left, 1.0), 0.0)
            view.samples[...] = np.where(view.computing, 1.0, 0.0)
            return policies.SDF().decide(view)._replace(bandwidth=view.data_left, compute=view.samples)

    run = simulate(Lender(), Workload.of([a_task(data=3.0)], horizon=12), trace=True)
    assert run.sent[0] == 3.0 and run.samples[0, 0] == 7.0  # sends in 0 to 2, computes from 5 on


def test_only_the_clairvoyant_are_told_the_truth():
    """A policy that keeps a memory is told the site and the prior; the true work only if it calls itself clairvoyant."""
    recorder = Recorder()
    run = simulate(recorder, load=5, seeds=2)
    assert recorder.scene.truth is None
    recorder.clairvoyant = True
    simulate(recorder, load=5, seeds=2)
    assert_array_equal(recorder.scene.truth.work, run.batch.work)
    recorder.scene.truth.work[...] = 0.0  # a copy, even so
    assert simulate(policies.DescribedUniform(), load=5, seeds=2).batch.work.min() > 0


@PRESETS
def test_a_blind_policy_is_not_shown_errors(workload):
    """Policies that declare themselves blind save the engine the noise: they see 1, and decide as they would anyway."""

    class Blind(Recorder):
        blind = True

    seeing, blind = Recorder(), Blind()
    one, two = (simulate(policy, workload, load=20, seeds=2) for policy in (seeing, blind))
    assert_array_equal(one.done_at, two.done_at)
    assert all((view.error == 1.0).all() for view in blind.views)
    assert any((view.error != 1.0).any() for view in seeing.views)
