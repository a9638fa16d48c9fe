"""Explicit servers: power caps, who runs where, and what is lost when tasks may move only between steps."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.share import Curve, Decision, Server, Site, Task, Workload, policies, simulate
from equipoise.share.view import name_of
from refusals import refused

ENDLESS = {"target": 0.01, "curve": Curve(1.0, 0.1), "data": 0.0, "delay": 0}


def crowd(n, deadline=6):
    """n tasks without data that compute from step 0 on and never finish."""
    return Workload.of([Task(arrival=0, deadline=deadline, **ENDLESS)] * n, horizon=deadline)


@dataclass(frozen=True)
class Give:
    """The same rates in every step, and perhaps the same servers."""

    rates: tuple[float, ...]
    servers: tuple[int, ...] | None = None

    def decide(self, view):
        x = np.where(view.computing, np.array(self.rates), 0.0)
        home = None if self.servers is None else np.broadcast_to(np.array(self.servers), x.shape)
        return Decision(np.zeros_like(x), x, home)


@pytest.mark.parametrize(
    ("law", "cap", "speed"),
    [
        ("pooled", 0.25 + 7.5 / 8, 15.0),
        ("per_node", 0.25 + 7.5 / 27, 10.0),
        ("linear", 0.25 + 7.5 / 2, 15.0),
        ("linear", 99.0, 30.0),
    ],
)
def test_a_power_cap_lowers_a_servers_speed(law, cap, speed):
    """Cubic: 0.25 + 7.5 u^3 = cap at u = 1/2 or 1/3; linear: half the power is half the speed; a high cap binds nothing."""
    site = Site(servers=(Server(30.0, power_cap=cap), Server(30.0)), power=law)
    assert_allclose(site.speeds, [speed, 30.0])
    assert site.capacity == pytest.approx(speed + 30.0)


def test_under_power_caps_no_server_draws_more():
    """Every server's own draw, recomputed from what it ran, stays within its cap; the site's energy is their sum."""
    caps = (2.0, 4.0, 0.5, None, 7.75)
    site = Site(servers=tuple(Server(30.0, cap) for cap in caps), power="per_node")
    run = simulate(policies.Uniform(), load=40, seeds=3, site=site, trace=True)
    draw = 0.25 + 7.5 * (run.trace.ran.sum(axis=2) / 30.0) ** 3
    assert run.samples.sum() > 0
    for j, cap in enumerate(caps):
        assert draw[:, :, j].max() <= (cap or np.inf) + 1e-6
    assert_allclose(draw.sum(axis=(0, 2)), run.energy, rtol=1e-9)


def test_six_tasks_at_25_do_not_fit_between_steps():
    """Five servers of 30: five tasks fill 25 each, the sixth finds room for 5, so 20 of 150 are lost in every step."""
    run = simulate(Give((25.0,) * 6), crowd(6), site=Site(migration="between"), trace=True)
    assert run.unplaced[0] == pytest.approx(6 * 20.0)
    assert sorted(run.trace.compute[0, 0]) == pytest.approx([5.0] + [25.0] * 5)
    assert sorted(run.trace.ran[0, 0].sum(axis=0)) == pytest.approx([25.0] * 4 + [30.0])
    assert run.idle[0] == pytest.approx(6 * 20.0)


def test_six_tasks_at_25_fit_within_a_step():
    """With migration inside the step all five servers run at 30 and nothing is lost (McNaughton's wrap-around)."""
    run = simulate(Give((25.0,) * 6), crowd(6), site=Site(migration="within"), trace=True)
    assert run.unplaced[0] == 0.0 and run.idle[0] == pytest.approx(0.0, abs=1e-9)
    assert_allclose(run.trace.ran.sum(axis=2), 30.0)
    assert_allclose(run.trace.ran.sum(axis=3), 25.0)


def test_a_policy_that_decides_servers_is_followed():
    """Homes 4, 4 and 1: there they run; what server 4 cannot take is lost between steps, and elsewhere within one."""
    give = Give((20.0, 20.0, 20.0), (4, 4, 1))
    between = simulate(give, crowd(3), site=Site(migration="between"), trace=True)
    assert between.trace.server[:, 0].tolist() == [[4, 4, 1]] * 6
    assert_allclose(between.trace.ran[0, 0].sum(axis=0), [0, 20, 0, 0, 30])
    assert between.unplaced[0] == pytest.approx(6 * 10.0)
    within = simulate(give, crowd(3), site=Site(migration="within"), trace=True)
    assert within.unplaced[0] == 0.0
    assert within.trace.ran[0, 0, :, 4].sum() == pytest.approx(30.0)
    assert_allclose(within.trace.ran[0, 0].sum(axis=1), 20.0)


def test_a_home_of_minus_one_is_the_engines_choice():
    """Two on server 2 and one with no wish: it goes to an empty server."""
    run = simulate(Give((15.0, 15.0, 15.0), (2, 2, -1)), crowd(3), site=Site(migration="between"), trace=True)
    assert run.trace.server[0, 0, 2] != 2 and run.unplaced[0] == 0.0


def test_a_server_that_is_not_there_is_refused():
    """Naming policy, step, seed and task, and which servers there are."""
    with refused("decision.server", "Give, step 0, seed 0, task 1", "server is 5", "0 to 4"):
        simulate(Give((1.0, 1.0), (0, 5)), crowd(2))


def test_uara_associates_each_task_with_the_server_that_has_fewest():
    """Seven start at once: 0 1 2 3 4 0 1, and stay there."""
    run = simulate(policies.DescribedUARA(), crowd(7), seeds=2, trace=True)
    assert run.trace.server.tolist() == [[[0, 1, 2, 3, 4, 0, 1]] * 2] * 6
    assert run.moves.tolist() == [0, 0]


def test_uara_forgets_who_left():
    """Five tasks on five servers; the one on server 2 ends; the next to come takes its place."""
    leaving = [Task(arrival=0, deadline=3 if k == 2 else 9, **ENDLESS) for k in range(5)]
    late = Task(arrival=4, deadline=9, **ENDLESS)
    run = simulate(policies.DescribedUARA(), Workload.of([*leaving, late]), trace=True)
    assert run.trace.server[5, 0].tolist() == [0, 1, -1, 3, 4, 2]


SITES = {
    "alike": Site(),
    "alike per node": Site(power="per_node"),
    "alike, between steps": Site(migration="between"),
    "unlike": Site(servers=tuple(map(Server, (60.0, 40.0, 20.0, 20.0, 10.0)))),
    "unlike, between steps, per node": Site(
        servers=tuple(map(Server, (60.0, 40.0, 20.0, 20.0, 10.0))), migration="between", power="per_node"
    ),
    "one": Site(servers=(Server(150.0),)),
    "capped": Site(servers=(Server(30.0, 1.0), Server(30.0, 3.0), Server(30.0), Server(30.0), Server(90.0, 2.0))),
}


@pytest.mark.parametrize("site", SITES.values(), ids=list(SITES))
@pytest.mark.parametrize("policy", [kind() for kind in policies.ALL], ids=name_of)
def test_servers_do_what_servers_can(policy, site):
    """No server beyond its speed, no task on two at a time, and together they ran what is reported.

    A task is on one server at a time if its times on all of them add up to at most one step, and no server is busy for
    more than one: then a timetable exists (preemptive open shop, Gonzalez and Sahni).
    """
    run = simulate(policy, load=30, seeds=[2, 5], site=site, trace=True)
    ran = run.trace.ran
    assert ran.min() >= 0 and ran.sum() > 0
    assert (ran.sum(axis=2) - site.speeds).max() <= 1e-6
    assert_allclose(ran.sum(axis=3), run.trace.compute, atol=1e-6)
    assert (ran / site.speeds).sum(axis=3).max() <= 1 + 1e-6
    assert_allclose(run.trace.compute.sum(axis=0), run.samples, rtol=1e-9, atol=1e-6)
    if site.migration == "between":
        assert (ran > 0).sum(axis=3).max() <= 1
    elif site.alike:
        assert run.unplaced.max() <= 1e-6
    if site.power == "per_node":
        paid = (site.idle_power + site.busy_power * (ran.sum(axis=2) / site.capacities) ** 3).sum(axis=(0, 2))
        assert_allclose(paid, run.energy, rtol=1e-6)


def test_each_seed_is_placed_by_itself():
    """One seed alone runs on the servers it runs on among others (migration between steps, no wishes)."""
    site = Site(migration="between")
    alone = simulate(policies.DescribedLARA(), load=25, seeds=[6], site=site, trace=True)
    among = simulate(policies.DescribedLARA(), load=25, seeds=[1, 6, 3], site=site, trace=True)
    assert_array_equal(alone.trace.ran[:, 0], among.trace.ran[:, 1])
    assert alone.unplaced[0] == among.unplaced[1] > 0


def test_the_fastest_task_gets_the_fastest_server():
    """Servers of 40 and 10, tasks at 10 and 40: nothing is lost, even between steps."""
    site = Site(servers=(Server(10.0), Server(40.0)), migration="between")
    run = simulate(Give((10.0, 40.0)), crowd(2), site=site, trace=True)
    assert run.trace.server[:, 0].tolist() == [[0, 1]] * 6 and run.unplaced[0] == 0.0


def test_one_task_may_have_the_fastest_server_and_no_more():
    """The cap per task is the fastest server's speed, or less if the site says so."""
    servers = (Server(10.0), Server(40.0))
    assert Site(servers=servers).most_per_task == 40.0
    assert Site(servers=servers, task_cap=25.0).most_per_task == 25.0
    assert Site(servers=servers, task_cap=70.0).most_per_task == 40.0
    with refused("decision.task", "compute is 30", 25):
        simulate(Give((30.0,)), crowd(1), site=Site(servers=servers, task_cap=25.0))


def test_staying_is_not_moving():
    """Servers of 30 and 20, three tasks at 10 sit on 0, 0 and 1; the second grows to 25 and pushes the first out, once."""

    class Grows:
        def decide(self, view):
            rates = np.array([[10.0, 10.0, 10.0]] if view.step < 3 else [[10.0, 25.0, 10.0]])
            return Decision(np.zeros((1, 3)), np.where(view.computing, rates, 0.0))

    site = Site(servers=(Server(30.0), Server(20.0)), migration="between")
    run = simulate(Grows(), crowd(3), site=site, trace=True)
    assert run.trace.server[:, 0].tolist() == [[0, 0, 1]] * 3 + [[1, 0, 1]] * 3
    assert run.moves[0] == 1 and run.unplaced[0] == 0.0
