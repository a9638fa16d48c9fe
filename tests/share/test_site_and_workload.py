"""Sites, tasks and workloads: presets, settings, and one line naming the field for every constant that cannot be."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from equipoise.errors import InputError
from equipoise.share import Curve, Server, Site, Task, Workload, policies, simulate
from equipoise.share.spec import read_words
from equipoise.share.task import read_tasks
from refusals import refused


def a_task(**changes):
    return Task(**({"arrival": 0, "deadline": 9, "data": 1.0, "target": 0.1} | changes))


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Server(0.0), ("number.range", "Server: capacity is 0.0")),
        (lambda: Server(math.nan), ("number.range", "Server: capacity is nan")),
        (lambda: Server(math.inf), ("number.range", "Server: capacity is inf")),
        (lambda: Server(30.0, power_cap=-1.0), ("number.range", "Server: power_cap is -1.0")),
        (lambda: Site(servers=()), ("site.servers", "Site: servers is ()")),
        (lambda: Site(bandwidth=0.0), ("number.range", "Site: bandwidth is 0.0")),
        (lambda: Site(bandwidth=math.nan), ("number.range", "Site: bandwidth is nan")),
        (lambda: Site(delay=-1.0), ("number.range", "Site: delay is -1.0")),
        (lambda: Site(jitter=math.nan), ("number.range", "Site: jitter is nan")),
        (lambda: Site(idle_power=-0.1), ("number.range", "Site: idle_power is -0.1")),
        (lambda: Site(busy_power=math.inf), ("number.range", "Site: busy_power is inf")),
        (lambda: Site(task_cap=0.0), ("number.range", "Site: task_cap is 0.0")),
        (lambda: Site(power="per_nod"), ("unknown", "'per_nod'", "'per_node'")),
        (lambda: Site(migration="withn"), ("unknown", "'withn'", "'within'")),
        (lambda: Site(servers=(Server(), Server(30.0, power_cap=0.25))), ("site.power", "server 1", 0.25)),
        (lambda: a_task(arrival=-1), ("number.range", "Task: arrival is -1")),
        (lambda: a_task(arrival=0.5), ("number.whole", "Task: arrival is 0.5")),
        (lambda: a_task(data=math.nan), ("number.range", "Task: data is nan")),
        (lambda: a_task(target=-0.1), ("number.range", "Task: target is -0.1")),
        (lambda: a_task(sigma=math.inf), ("number.range", "Task: sigma is inf")),
        (lambda: a_task(arrival=9), ("task.deadline", 9)),
        (lambda: a_task(arrival=12), ("task.deadline", 9, 12)),
        (lambda: a_task(delay=-1), ("number.whole", "Task: delay is -1")),
        (lambda: a_task(delay=math.nan), ("number.whole", "Task: delay is nan")),
        (lambda: a_task(delay=math.inf), ("number.whole", "Task: delay is inf")),
        (lambda: Workload(data=(-1.0, 5.0)), ("workload.pair", "Workload: data is -1.0 to 5.0")),
        (lambda: Workload(b=(0.5, 0.2)), ("workload.pair", "Workload: b is 0.5 to 0.2")),
        (lambda: Workload(target=(0.1, math.nan)), ("workload.pair", "Workload: target is 0.1 to nan")),
        (lambda: Workload(arrival=(0.0, math.inf)), ("workload.range", "arrival")),
        (lambda: Workload(a=(0.0, 1.0)), ("number.range", "Workload: a starts at 0")),
        (lambda: Workload(deadline=(0.0, 9.0)), ("workload.deadline", 0)),
        (lambda: Workload(sigma=-1.0), ("number.range", "Workload: sigma is -1.0")),
        (lambda: Workload(sigma=math.nan), ("number.range", "Workload: sigma is nan")),
        (lambda: Workload(horizon=-1), ("horizon.range", "Workload: horizon is -1")),
        (lambda: Workload(horizon=8.5), ("horizon.range", "Workload: horizon is 8.5")),
        (lambda: Workload.of([]), ("workload.empty",)),
        (lambda: Workload.described().draw(0, 5), ("load.range", 0)),
        (lambda: Workload.described().draw(5, 0), ("seeds.none",)),
        (lambda: Workload.described().draw(5, [1, -2]), ("seed.range", -2)),
        (lambda: Workload.described().draw(5, [1, 2, 1]), ("seed.twice",)),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make, refusal):
    """Negative, NaN, infinite, empty, backwards: the field, what it is, and what was expected."""
    with refused(*refusal):
        make()


def test_the_papers_site():
    """Five servers of 30 behind an uplink of 100: 150 samples per step, 30 a task."""
    site = Site()
    assert (site.capacity, site.most_per_task, site.bandwidth, site.alike) == (150.0, 30.0, 100.0, True)
    assert not Site(servers=(Server(30.0), Server(20.0))).alike
    assert not Site(servers=(Server(30.0), Server(30.0, power_cap=1.0))).alike


def test_the_network_heavy_preset():
    """Data of 78 to 144 and a hundred steps; all else is the paper's."""
    heavy = Workload.network_heavy()
    batch = heavy.draw(40, 20)
    assert batch.horizon == 100 and batch.data.min() >= 78 and batch.data.max() <= 144
    assert heavy.but(data=(14.0, 35.0), horizon=83) == Workload.described()
    assert Workload.network_heavy(horizon=120).horizon == 120


def test_tasks_are_numbered_as_they_arrive():
    """Arrivals ascend in every seed, and every deadline comes after its arrival."""
    batch = Workload.described().draw(60, 30)
    assert (np.diff(batch.arrival, axis=1) >= 0).all() and (batch.deadline > batch.arrival).all()


def test_a_seeds_tasks_are_its_own():
    """What seed 7 draws does not depend on which other seeds are drawn, nor on their order."""
    alone, among = Workload.described().draw(20, [7]), Workload.described().draw(20, [9, 7, 1])
    for name in ("arrival", "deadline", "data", "target", "delay", "a", "b", "work"):
        assert_array_equal(getattr(alone, name)[0], getattr(among, name)[1])
    part = Workload.described().draw(20, [9, 7, 1]).rows(1, 2)
    assert_array_equal(part.data, alone.data)
    assert part.seeds.tolist() == [7] and part.shape == (1, 20)


def test_no_jitter_is_no_chance():
    """Jitter 0: every delay is the mean; a mean of 0 and jitter never make a delay negative."""
    assert (Workload.described().draw(30, 5, Site(jitter=0.0)).delay == 3).all()
    assert Workload.described().draw(30, 50, Site(delay=0.0)).delay.min() == 0


def test_given_tasks_keep_their_delay_and_draw_the_others():
    """A delay given by hand is kept for every seed; one left open is drawn, and differs between seeds."""
    batch = Workload.of([a_task(delay=7), a_task()]).draw(1, 40)
    assert (batch.delay[:, 0] == 7).all() and len(set(batch.delay[:, 1].tolist())) > 2


def test_the_horizon_of_given_tasks_sees_the_last_deadline():
    """One step beyond it, so that the failure itself is seen."""
    assert Workload.of([a_task(), a_task(deadline=30)]).horizon == 31


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Workload(data=14), ("workload.pair", 14)),
        (lambda: Workload(data=(1,)), ("workload.pair", "(1,)")),
        (lambda: Workload(data=("a", 3)), ("number.form", "'a'")),
        (lambda: Workload(deadline=(36, 1e12)), ("workload.range", "deadline")),
        (lambda: Workload(sigma=1e308), ("number.range", "sigma")),
        (lambda: Workload(horizon=10**11), ("horizon.range", 100000000000)),
        (lambda: Workload(prior=None), ("workload.prior",)),
        (lambda: Workload.of([1]), ("workload.task", "Task")),
        (lambda: Workload.recorded().but(tasks=(Task(0, 9, 1, 0.2),)), ("workload.curves",)),
        (lambda: Site(servers=5), ("site.servers", 5)),
        (lambda: Site(servers=(30, 30)), ("site.server", "Server(30)")),
        (lambda: Site(bandwidth="100"), ("number.form", "bandwidth is '100'")),
        (lambda: Task("0", 9, 1, 0.2), ("number.form", "arrival is '0'")),
        (lambda: policies.Hybrid(margin="2"), ("number.form", "margin is '2'")),
    ],
)
def test_what_is_not_even_a_number_is_refused_in_one_line(make, refusal):
    """Wrong types and slips of magnitude, by the name of the field."""
    with refused(*refusal):
        make()


def test_a_table_given_by_hand_is_observed_as_it_stands():
    """The first (and only) recorded curve of a workload: what is seen is what was measured, level where it is level."""
    curve = Curve.recorded([1, 10, 100, 1000], [0.9, 0.5, 0.3, 0.1])
    run = simulate(policies.Uniform(), Workload.of([Task(0, 40, 10, 0.15, curve, delay=0)]), trace=True)
    seen = run.trace.compute[:, 0, 0] > 0
    by_hand = np.interp(np.log(run.trace.samples[seen, 0, 0]), np.log([1, 10, 100, 1000]), [0.9, 0.5, 0.3, 0.1])
    np.testing.assert_allclose(run.trace.error[seen, 0, 0], by_hand, rtol=1e-9)
    assert seen.sum() > 5


def test_a_steady_crowd_stays_on_its_servers():
    """Five tasks at 30 on five servers, moving only between steps: nobody moves."""
    tasks = [Task(0, 60, 10, 0.01, Curve(1.0, 0.1), delay=0) for _ in range(5)]
    run = simulate(policies.Uniform(), Workload.of(tasks), site=Site(migration="between"), trace=True)
    assert run.moves[0] == 0 and run.unplaced[0] == 0


def test_the_horizon_follows_the_deadlines_unless_it_is_chosen():
    """Arrivals to 36 and deadlines to 46 later: 83 steps; longer deadlines, longer; a chosen one stays."""
    assert Workload.described().horizon == 83 and Workload.network_heavy().horizon == 100
    assert Workload.described(arrival=(0, 50), deadline=(25, 60)).horizon == 111
    assert Workload.described().but(deadline=(40, 80)).horizon == 117
    assert Workload.described(horizon=90).but(deadline=(40, 80)).horizon == 90
    batch = Workload.described(arrival=(0, 50), deadline=(25, 60)).draw(60, 20)
    assert batch.deadline.max() < batch.horizon


def test_slips_of_magnitude_are_refused_before_they_cost_anything():
    """Loads, seeds and horizons that no machine could play."""
    for attempt in (
        lambda: Workload.described().draw(10**9, 1),
        lambda: Workload.described().draw(10, 10**11),
        lambda: Workload.of([Task(0, 10**9, 1, 0.2)]),
        lambda: Site(delay=1e300),
        lambda: Site(busy_power=1e300),
        lambda: simulate(policies.SDF),
        lambda: policies.clairvoyant(policies.SDF()),
    ):
        with pytest.raises(InputError):
            attempt()


def test_tasks_of_a_file_hold_floats():
    """Whole numbers are floats where the task has floats, and steps stay whole."""
    (task,) = read_tasks(
        [{"arrival": 0.0, "deadline": 9, "data": 20, "target": 1, "a": 2, "b": 1, "floor": 0, "sigma": 0}]
    )
    curve = task.curve
    assert [type(value) for value in (task.data, task.target, task.sigma, curve.a, curve.b, curve.floor)] == [float] * 6
    assert (type(task.arrival), task.data, curve.a) == (int, 20.0, 2.0)


@pytest.mark.parametrize("given", [{"delay": None}, {"a": "1"}, {"data": True}])
def test_what_is_no_number_in_a_file_of_tasks_is_refused(given):
    with refused("number.form", "task 0", *given):
        read_tasks([{"arrival": 0, "deadline": 9, "data": 20, "target": 0.1} | given])


def test_names_are_shown_as_they_were_written():
    with pytest.raises(InputError, match="'a,,b'"):
        read_words("a,,b")
