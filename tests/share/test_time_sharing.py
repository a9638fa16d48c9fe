"""One resource shared in time: switches and their cost by hand, the estimators against plain formulas, and the study."""

import json
from itertools import combinations

import numpy as np
import pytest

from equipoise.share import Curve, Decision, Server, Site, Task, Workload, bundles, check_policy, policies, simulate
from equipoise.share.bundles import BundleWorkload, falling
from equipoise.share.policies._time_sharing import Line, LookAhead, Motion
from equipoise.share.policies.reconstructed_lara import most_in_time
from equipoise.share.recording import Name, Recording, shipped
from refusals import refused

ONE = Site(servers=(Server(10.0),), delay=0.0, jitter=0.0)
SHARERS = ("RoundRobin", "SuccessiveHalving", "ReconstructedLARA", "LaiRA", "STA")
QUICK = {"seeds": 6, "units": 60, "loads": 4}


class Scripted:
    """Gives what it was told, step by step: a row of samples for each task."""

    blind = True

    def __init__(self, steps):
        self.steps = steps

    def decide(self, view):
        given = np.array([self.steps[view.step] if view.step < len(self.steps) else [0.0] * view.state.shape[1]])
        return Decision(np.zeros_like(given), np.where(view.computing, given, 0.0))


def played(steps, site=ONE, tasks=3, works=1000.0):
    """A traced run of tasks that are there from the start and need so many samples."""
    law = Curve(a=1.0, b=1.0)
    given = [Task(arrival=0, deadline=len(steps) + 1, data=0, delay=0, target=1.0 / works, curve=law)] * tasks
    return simulate(Scripted(steps), Workload.of(given), site=site, trace=True)


# Switches.


def test_switches_by_hand():
    """0, 1, nobody, 1, 2 then 0 and 2 in one step: from 0 to 1, 1 to 2, 2 to 0, 0 to 2. An idle step is no switch."""
    run = played([[10, 0, 0], [0, 10, 0], [0, 0, 0], [0, 10, 0], [0, 0, 10], [5, 0, 5]])
    assert run.switches.tolist() == [4]


def test_even_shares_switch_as_often_as_there_are_tasks():
    """Three tasks in each of four steps, in the order of their numbers: two switches in the first step, then three each."""
    assert played([[3, 3, 3]] * 4).switches.tolist() == [11]


def test_several_servers_are_not_counted():
    """Who holds one of several servers is told by moves."""
    site = Site(servers=(Server(10.0), Server(10.0)), delay=0.0, jitter=0.0)
    assert played([[10, 0, 0], [0, 10, 0]], site).switches.tolist() == [0]


def test_what_a_switch_costs_by_hand():
    """A quarter of a step each: the second holder gets 7.5 of 10; a step with slack hides the cost."""
    run = played([[10, 0, 0], [0, 10, 0], [0, 10, 0], [5, 0, 0]], ONE.but(switch_cost=0.25))
    assert run.trace.compute[:4, 0].tolist() == [[10, 0, 0], [0, 7.5, 0], [0, 10, 0], [5, 0, 0]]
    assert (run.switches.tolist(), run.unplaced.tolist()) == ([2], [2.5])


def test_a_cost_above_a_step_is_carried_over():
    """2.5 steps: nothing in two steps and half of the third; whoever asks meanwhile does not hold the resource."""
    run = played([[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 10, 0], [0, 10, 0]], ONE.but(switch_cost=2.5))
    assert run.trace.compute[:5, 0].tolist() == [[10, 0, 0], [0, 0, 0], [0, 0, 0], [0, 5, 0], [0, 10, 0]]
    assert run.switches.tolist() == [1]
    assert run.samples[0].tolist() == [10, 15, 0]


def test_several_holders_in_one_step_pay_one_after_the_other():
    """2 + .1 steps + 4 + .1 steps + 4 of 10: the last gets 2; the next step begins with the last holder."""
    run = played([[2, 4, 4], [0, 0, 10]], ONE.but(switch_cost=0.1))
    assert run.trace.compute[:2, 0] == pytest.approx(np.array([[2, 4, 2], [0, 0, 10]]))


def test_a_cost_on_several_servers_is_refused():
    """It is defined where one server is shared in time."""
    with refused("site.switch", "switch_cost is 1 and there are 5 servers"):
        Site(switch_cost=1.0)
    with refused("number.range"):
        ONE.but(switch_cost=-1.0)


@pytest.mark.parametrize("migration", ["within", "between"])
def test_runs_with_a_cost_pass_the_audit(migration):
    """What was lost is not in the trace, on either way to place tasks."""
    found = bundles([policies.Uniform(), policies.SDF()], switch_cost=0.3, **QUICK)
    assert found.certificate().passed
    site = ONE.but(switch_cost=0.3, migration=migration)
    run = played([[3, 3, 4], [3, 3, 4]], site)
    assert run.trace.ran.sum(axis=3) == pytest.approx(run.trace.compute)


# Estimators.

X, Y = np.log([30.0, 60.0, 90.0, 150.0, 400.0]), np.log([0.8, 0.7, 0.72, 0.5, 0.3])


def fed(estimator):
    """An estimator of 2 x 3 tasks, one of which has shown five losses."""
    who = np.zeros((2, 3), bool)
    who[1, 2] = True
    for x, y in zip(X, Y, strict=True):
        estimator.learn(who, np.full((2, 3), x), np.full((2, 3), y))
    return estimator


def test_discounted_least_squares_against_its_normal_equations():
    """Estimate, width and confidence as the sums over all losses say."""
    line = fed(Line((2, 3), 0.9, 0.1))
    weight = 0.9 ** np.arange(4, -1, -1)
    rows = np.stack([X, np.ones(5)], axis=1)
    known = 0.1 * np.eye(2) + (rows * weight[:, None]).T @ rows
    theta = np.linalg.solve(known, (rows * weight[:, None]).T @ Y)
    assert [part[1, 2] for part in line.theta] == pytest.approx(theta)
    ahead = np.array([7.0, 1.0])
    assert line.width(np.full((2, 3), 7.0))[1, 2] == pytest.approx(np.sqrt(ahead @ np.linalg.solve(known, ahead)))
    seen = np.full((2, 3), 5)
    beta = np.sqrt(0.1) * 3 + 0.2 * np.sqrt(
        2 * np.log(1 / 0.1) + 2 * np.log(1 + (X[-1] ** 2 + 1) * (1 - 0.9**10) / (2 * 0.1 * (1 - 0.9**2)))
    )
    assert line.confidence(np.full((2, 3), X[-1]), seen, 3.0, 0.2, 0.1)[1, 2] == pytest.approx(beta)
    assert [part[0, 0] for part in line.theta] == [0.0, 0.0]


def test_the_filter_against_its_matrices():
    """Predict and update with plain 6 x 6 matrices; look ahead by a power of F."""
    motion = Motion(drift=(1e-4, 1e-5, 1e-6), first=(1.0, 0.1, 0.01), slope=-0.4, noise=0.05)
    found = fed(LookAhead((2, 3), motion))
    eye = np.eye(2)
    forward = np.block([[eye, eye, 0.5 * eye], [0 * eye, eye, eye], [0 * eye, 0 * eye, eye]])
    drift = np.diag(np.repeat(motion.drift, 2))
    mean, spread = np.array([-0.4, 0, 0, 0, 0, 0]), np.diag(np.repeat(motion.first, 2))
    for x, y in zip(X, Y, strict=True):
        mean, spread = forward @ mean, forward @ spread @ forward.T + drift
        seen = np.array([x, 1, 0, 0, 0, 0])
        gain = spread @ seen / (0.05**2 + seen @ spread @ seen)
        mean, spread = mean + gain * (y - seen @ mean), (np.eye(6) - np.outer(gain, seen)) @ spread
    assert found.mean[1, 2] == pytest.approx(mean)
    assert found.spread[1, 2] == pytest.approx(spread)
    ahead = np.linalg.matrix_power(forward, 40) @ mean
    expected = ahead[0] * 8.0 + ahead[1]
    assert found.predict(np.full((2, 3), 8.0), np.full((2, 3), 40.0))[1, 2] == pytest.approx(expected)
    assert found.mean[0, 0].tolist() == [-0.4, 0, 0, 0, 0, 0]


def test_the_plan_keeps_as_many_as_any_subset():
    """Random small bundles: no set of tasks that can be in time, earliest deadline first, is larger."""
    rng = np.random.default_rng(3)
    work, due = rng.integers(1, 12, (40, 6)).astype(float), rng.integers(1, 30, (40, 6))
    who = rng.random((40, 6)) < 0.8
    kept = most_in_time(who, work, due, 1.0)

    def in_time(s, chosen):
        order = sorted(chosen, key=lambda i: due[s, i])
        return all(end <= due[s, i] for end, i in zip(np.cumsum([work[s, i] for i in order]), order, strict=True))

    for s in range(40):
        some = np.flatnonzero(who[s]).tolist()
        most = max(k for k in range(len(some) + 1) if any(in_time(s, c) for c in combinations(some, k)))
        mine = np.flatnonzero(kept[s]).tolist()
        assert set(mine) <= set(some)
        assert (len(mine), in_time(s, mine)) == (most, True)


# Policies.


@pytest.mark.parametrize("name", SHARERS)
def test_a_policy_for_one_resource_also_serves_an_ordinary_site(name):
    """Five servers and an uplink: its decisions are allowed in every step, and no server is left idle."""
    policy = policies.named(name)
    assert check_policy(policy, Workload.described(), Site()).passed
    assert simulate(policy, Workload.described(), load=40, seeds=3, site=Site()).success.min() > 30


def test_round_robin_takes_turns_in_a_ring():
    """Three tasks, turns of two steps; whoever is done is passed over at once."""
    law = Curve(a=1.0, b=1.0)
    tasks = [Task(0, 30, 0, 1 / work, law, delay=0) for work in (1000.0, 15.0, 1000.0)]
    run = simulate(policies.RoundRobin(2), Workload.of(tasks), site=ONE, trace=True)
    assert run.trace.compute[:10, 0].argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 2, 2]


def test_halving_sets_the_farther_half_aside():
    """Four tasks, six steps: one cut every second step leaves two, then the nearest."""
    tasks = [Task(0, 6, 0, target, Curve(a=1.0, b=0.1), delay=0) for target in (0.1, 0.5, 0.2, 0.4)]
    run = simulate(policies.SuccessiveHalving(), Workload.of(tasks, horizon=6), site=ONE, trace=True)
    served = (run.trace.compute[:, 0] > 0).tolist()
    assert served[:2] == [[True] * 4] * 2
    assert served[2:4] == [[False, True, False, True]] * 2
    assert served[4:] == [[False, True, False, False]] * 2


def test_laira_holds_a_slice_and_lara_explores_evenly():
    """Tasks hardly seen come first, each for a slice; the other serves all new ones at once."""
    tasks = [Task(0, 60, 0, 1e-4, Curve(a=1.0, b=0.5), delay=0)] * 3
    run = simulate(policies.LaiRA(length=4.0), Workload.of(tasks), site=ONE, trace=True)
    assert run.trace.compute[:12, 0].argmax(axis=1).tolist() == [0] * 4 + [1] * 4 + [2] * 4
    run = simulate(policies.ReconstructedLARA(explore=2.0), Workload.of(tasks), site=ONE, trace=True)
    assert run.trace.compute[:6, 0] == pytest.approx(np.full((6, 3), 10 / 3))
    assert (run.trace.compute[7:50, 0].max(axis=1) == 10).all()


def test_the_look_ahead_gives_up_what_cannot_be():
    """A curve that stays level is not served while another is feasible; without the look-ahead it may be."""
    level = Curve.recorded([1.0, 1e6], [0.9, 0.89])
    falling_one = Curve(a=1.0, b=0.5)
    tasks = [Task(0, 50, 0, 1e-3, level, delay=0), Task(0, 50, 0, 0.06, falling_one, delay=0)]
    run = simulate(policies.LaiRA(), Workload.of(tasks), site=ONE, trace=True)
    assert run.successes.tolist() == [1]
    assert run.trace.samples[run.done_at[0, 1] - 1, 0, 0] == 30.0  # the first slice, to see it at all


# The study.


@pytest.fixture(scope="module")
def studied():
    """Every usual policy on a few small bundles."""
    return bundles(**QUICK)


def test_a_study_repeats_bit_for_bit(studied):
    """The same rows and the same bundles behind them; a bundle does not depend on which others are played."""
    again = bundles(**QUICK)
    assert json.dumps(again.rows) == json.dumps(studied.rows)
    alone = bundles([policies.SDF()], **QUICK | {"seeds": [4]})
    row = next(
        row for row in studied.document(certify=False).rows("history") if (row["policy"], row["seed"]) == ("SDF", 4)
    )
    assert alone.rows[0]["successes"] == row["successes"]


def test_a_bundle_is_as_the_protocol_says():
    """Deadlines, work and targets: seven tasks in ten can be done alone in a tenth to six tenths of their time."""
    batch = BundleWorkload(curves=falling(), sigma=0.0, horizon=600).draw(10, 100)
    assert not batch.arrival.any() and not batch.data.any()
    assert (batch.deadline.min() >= 100, batch.deadline.max() <= 600) == (True, True)
    alone = batch.work / 30.0 / batch.deadline
    assert alone.min() >= 0.0
    assert np.mean(alone <= 0.6 + 1e-9) > 0.65
    assert 0.5 < np.mean((alone > 0.1 - 1e-9) & (alone < 0.6 + 1e-9)) < 0.8


def test_rows_and_verdict_are_recomputed_from_the_bundles(studied):
    """Means, paired differences from the best blind policy, and how often a single bundle shows a lead of three."""
    rows = {row["policy"]: row for row in studied.rows}
    found = {name: studied.played.measured[name, 4] for name in rows}
    best = max(("Uniform", "SDF", "RoundRobin"), key=lambda name: found[name]["successes"].mean())
    gap = found["LaiRA"]["successes"] - found[best]["successes"]
    assert rows["LaiRA"]["against"] == best
    assert rows["LaiRA"]["difference"] == pytest.approx(gap.mean())
    assert rows["LaiRA"]["difference_se"] == pytest.approx(gap.std(ddof=1) / np.sqrt(6))
    assert rows[best]["difference"] is None
    lead = found["LaiRA"]["successes"] - found["LARA, reconstructed"]["successes"]
    assert f"{lead.mean():+.2f}" in studied.verdict[0]
    assert f"in {(lead >= 3).sum()} of 6" in studied.verdict[1]
    assert rows["LaiRA"]["switches"] < rows["LARA, reconstructed"]["switches"]


def test_no_verdict_without_the_two():
    """It is about LaiRA against LARA; and a study without a blind policy has nobody to compare with."""
    found = bundles([policies.LaiRA()], **QUICK)
    assert (found.verdict, found.rows[0]["against"]) == ([], None)


def test_curves_that_do_not_fall_are_refused():
    """Nothing could be learnt from them; the line names the field."""
    level = Recording.of([([1.0, 10.0], [0.5, 0.4])], [Name("m", "d", "", "0")])
    with refused("curves.none", "curves", "falls by a factor of 1.6"):
        bundles(curves=level, **QUICK)


def test_bundles_larger_than_the_recording_repeat_curves():
    """Three curves, four tasks."""
    few = shipped().take([0, 100, 200])
    assert bundles([policies.SDF()], curves=few, **QUICK).rows[0]["bundles"] == 6
