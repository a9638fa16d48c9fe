"""Learning curves: the power law, recorded points, and the samples until a target."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.share import Curve, Task, Workload, policies, simulate
from refusals import refused


def test_a_power_law_by_hand():
    """a s^-b + floor with a 1, b 1/2, floor 0.1: 0.2 after 100 samples; below one sample s counts as one."""
    curve = Curve(a=1.0, b=0.5, floor=0.1)
    assert curve.error(100) == pytest.approx(0.2)
    assert curve.error(0) == curve.error(1) == pytest.approx(1.1)
    assert curve.work(0.2) == pytest.approx(100.0)


@given(st.floats(0.5, 2), st.floats(0.1, 1.5), st.floats(0, 0.1), st.floats(0.01, 0.4))
def test_the_work_is_where_the_error_meets_the_target(a, b, floor, above):
    """error(work(target)) is the target, whatever the curve."""
    curve = Curve(a, b, floor)
    assert curve.error(curve.work(floor + above)) == pytest.approx(floor + above, rel=1e-9)


@pytest.mark.parametrize(
    ("curve", "target", "work"),
    [
        (Curve(1.0, 0.3, floor=0.2), 0.2, math.inf),
        (Curve(1.0, 0.3, floor=0.2), 0.1, math.inf),
        (Curve(1.0, 0.3), 0.0, math.inf),
        (Curve(1.0, 0.0), 0.5, math.inf),
        (Curve(1.0, 1e-9), 0.5, math.inf),
        (Curve(1.0, 0.0), 1.0, 1.0),
        (Curve(0.5, 0.3), 0.9, 1.0),
        (Curve.recorded([1, 10], [0.5, 0.4]), 0.3, math.inf),
        (Curve.recorded([5, 10], [0.5, 0.4]), 0.5, 1.0),
    ],
)
def test_targets_at_the_edges(curve, target, work):
    """At or below the floor, or on a curve that does not fall: never. Met from the start: one sample."""
    assert curve.work(target) == work


def test_a_target_below_the_floor_can_never_succeed():
    """The task is simulated, fails at its deadline, and its work says why."""
    task = Task(arrival=0, deadline=50, data=1.0, target=0.1, curve=Curve(1.0, 0.5, floor=0.2), delay=0)
    run = simulate(policies.DescribedUniform(), Workload.of([task]))
    assert task.work == run.batch.work[0, 0] == math.inf
    assert run.successes[0] == 0 and run.samples[0, 0] > 1000


def test_a_recorded_curve_is_linear_in_the_logarithm():
    """Points (1, 0.8), (100, 0.4), (400, 0.2): halfway in ln s lies halfway in error; level outside."""
    curve = Curve.recorded([1, 100, 400], [0.8, 0.4, 0.2])
    assert curve.error(10) == pytest.approx(0.6)
    assert curve.error(200) == pytest.approx(0.3)
    assert (curve.error(0), curve.error(1e9)) == (0.8, 0.2)
    assert curve.work(0.6) == pytest.approx(10.0) and curve.work(0.3) == pytest.approx(200.0)


def test_a_bumpy_curve_is_done_when_it_first_reaches_the_target():
    """Down to 0.3, up to 0.5, down to 0.1: the target 0.4 is first met between the first two points."""
    curve = Curve.recorded([1, 100, 200, 300], [0.5, 0.3, 0.5, 0.1])
    assert curve.work(0.4) == pytest.approx(10.0)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0, 1))
def test_no_earlier_sample_reaches_the_target(errors, target):
    """On a fine grid before the work the error is above the target; at the work it is met."""
    curve = Curve.recorded(np.arange(1, len(errors) + 1) ** 2, errors)
    work = curve.work(target)
    for s in np.geomspace(1, min(work, 64.0), 40)[:-1] if work > 1 else ():
        assert curve.error(s) >= target - 1e-9
    if math.isfinite(work):
        assert curve.error(work) <= target + 1e-9


def test_recorded_and_power_law_tasks_run_side_by_side():
    """A curve recorded from a power law, densely, finishes when the law itself does."""
    law = Curve(1.0, 0.4)
    points = np.geomspace(1, 1000, 4000)
    copy = Curve.recorded(points, [law.error(s) for s in points])
    usual = {"arrival": 0, "deadline": 30, "data": 5.0, "target": 0.12, "delay": 1}
    short = Curve.recorded([1, 50], [0.9, 0.1])  # fewer points than the other table
    run = simulate(
        policies.DescribedUniform(), Workload.of([Task(curve=c, **usual) for c in (law, copy, short)]), trace=True
    )
    assert run.done_at[0, 0] == run.done_at[0, 1] > 0
    assert run.trace.error[:8, 0, 0] == pytest.approx(run.trace.error[:8, 0, 1], abs=1e-5)
    assert run.batch.work[0, 2] == pytest.approx(short.work(0.12))


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Curve(a=0.0), ("number.range", "Curve: a is 0.0")),
        (lambda: Curve(a=math.nan), ("number.range", "Curve: a is nan")),
        (lambda: Curve(b=-0.1), ("number.range", "Curve: b is -0.1")),
        (lambda: Curve(floor=math.inf), ("number.range", "Curve: floor is inf")),
        (lambda: Curve.recorded([1, 2], [0.5]), ("curve.table", "2 sample counts", "1 errors")),
        (lambda: Curve.recorded([1], [0.5]), ("curve.table", "1 sample counts", "1 errors")),
        (lambda: Curve.recorded([1, 1], [0.5, 0.4]), ("curve.table", "rise strictly")),
        (lambda: Curve.recorded([0, 1], [0.5, 0.4]), ("curve.table", "rise strictly")),
        (lambda: Curve.recorded([1, 2], [0.5, math.nan]), ("curve.table", "finite")),
        (lambda: Curve.recorded([1, 2], [0.5, -0.4]), ("curve.table", -0.4)),
    ],
)
def test_a_broken_curve_is_refused_by_name(make, refusal):
    """One line naming the constant and what was expected."""
    with refused(*refusal):
        make()
