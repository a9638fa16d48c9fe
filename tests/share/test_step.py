"""The rules of the site: a life by hand, limits in every step, the same bits for the same seed, and what is refused."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from equipoise.share import Curve, Decision, Site, Task, Workload, policies, simulate
from equipoise.share.audit import audit
from equipoise.share.task import COMPUTING, DELAYED, DONE, FAILED, PENDING, SENDING
from equipoise.share.view import name_of
from refusals import refused

EVERY = [policy() for policy in policies.ALL]
RACING = [policy() for policy in (*policies.PUBLISHED, policies.DescribedUniform, policies.DescribedLARA)]
RACING += [policies.DescribedUARA(), policies.DescribedUARALARA()]
PRESETS = pytest.mark.parametrize("workload", [Workload.described(), Workload.authors()], ids=["described", "authors"])


def of_work(samples, *, b=0.5, floor=0.0):
    """A curve and a target that it reaches after so many samples."""
    return {"curve": Curve(a=1.0, b=b, floor=floor), "target": samples**-b + floor}


@pytest.mark.parametrize("policy", RACING, ids=name_of)
def test_one_task_sends_waits_and_computes_by_hand(policy):
    """Data 100, delay 3, work 30: sends in slot 0, waits 1 to 3, computes in slot 4, is done before 5."""
    task = Task(arrival=0, deadline=5, data=100.0, delay=3, **of_work(30.0))
    run = simulate(policy, Workload.of([task]), trace=True)
    assert run.trace.state[:, 0, 0].tolist() == [SENDING, DELAYED, DELAYED, DELAYED, COMPUTING, DONE]
    assert run.trace.bandwidth[:, 0, 0].tolist() == [100, 0, 0, 0, 0, 0]
    assert run.trace.compute[:, 0, 0].tolist() == [0, 0, 0, 0, 30, 0]
    assert (run.done_at[0, 0], run.success[0], run.latency[0]) == (5, 100.0, 4.0)


@pytest.mark.parametrize("policy", RACING, ids=name_of)
def test_one_step_less_is_a_failure(policy):
    """The same task with deadline 4 has failed when its delay is over, and never computes."""
    task = Task(arrival=0, deadline=4, data=100.0, delay=3, **of_work(30.0))
    run = simulate(policy, Workload.of([task]), trace=True)
    assert run.trace.state[:, 0, 0].tolist() == [SENDING, DELAYED, DELAYED, DELAYED, FAILED]
    assert (run.state[0, 0], run.done_at[0, 0], run.samples[0, 0]) == (FAILED, -1, 0.0)
    assert np.isnan(run.latency[0])


def test_idle_energy_network_and_idling_by_hand():
    """Two steps of sending 150 over 100, then 60 samples on one of five servers: every sum on paper."""
    task = Task(arrival=1, deadline=20, data=150.0, delay=0, **of_work(60.0))
    site = Site()
    run = simulate(policies.DescribedUniform(), Workload.of([task], horizon=10), site=site)
    assert run.done_at[0, 0] == 5  # sends in 1 and 2, computes in 3 and 4
    assert run.sent[0] == 150.0 and run.network[0] == pytest.approx(100 * 150 / (100 * 10))
    assert run.idle[0] == 2 * (150 - 30) and run.idle_while_work[0] == pytest.approx(100 * 240 / 1500)
    assert run.energy[0] == pytest.approx(10 * 5 * 0.25 + 2 * 5 * 7.5 * (30 / 150) ** 3)


def test_data_free_tasks_skip_the_uplink():
    """No data: it waits its delay from arrival on and never sends."""
    task = Task(arrival=2, deadline=20, data=0.0, delay=1, **of_work(30.0))
    run = simulate(policies.DescribedUniform(), Workload.of([task], horizon=6), trace=True)
    assert run.trace.state[:, 0, 0].tolist() == [PENDING, PENDING, DELAYED, COMPUTING, DONE, DONE]
    assert run.sent[0] == 0.0


def relive(run, seed, task):
    """States and samples that follow from one task's own bandwidth and compute, in plain arithmetic."""
    batch, trace = run.batch, run.trace
    state, left, samples, ready, states = PENDING, batch.data[seed, task], 0.0, None, []
    for t in range(batch.horizon):
        if state == PENDING and t >= batch.arrival[seed, task]:
            state = SENDING
        if state == DELAYED and t >= ready:
            state = COMPUTING
        if state in (SENDING, DELAYED, COMPUTING) and t >= batch.deadline[seed, task]:
            state = FAILED
        states.append(state)
        y, x = trace.bandwidth[t, seed, task], trace.compute[t, seed, task]
        assert y == 0 or state == SENDING
        assert x == 0 or state == COMPUTING
        left -= min(y, left)
        samples += x
        assert samples == pytest.approx(trace.samples[t, seed, task], abs=1e-6)
        if state == SENDING and left <= 1e-9:
            state, ready = DELAYED, t + 1 + batch.delay[seed, task]
        if state == COMPUTING and samples >= batch.work[seed, task] - 1e-9:
            state = DONE
    return states, state


@pytest.mark.parametrize(
    "workload", [Workload.described(), Workload.network_heavy()], ids=["described", "network-heavy"]
)
@pytest.mark.parametrize("policy", EVERY, ids=name_of)
def test_no_policy_ever_exceeds_the_site(policy, workload):
    """Every step: sums within capacity and uplink, 30 a task, work only in the right state; states follow from it."""
    run = simulate(policy, workload, load=60, seeds=[1, 8], trace=True)
    x, y = run.trace.compute, run.trace.bandwidth
    assert np.isfinite(x).all() and np.isfinite(y).all() and x.min() >= 0 and y.min() >= 0
    assert x.sum(axis=2).max() <= 150 + 1e-6
    assert x.max() <= 30 + 1e-6
    assert y.sum(axis=2).max() <= 100 + 1e-6
    for seed in range(2):
        for task in range(60):
            states, end = relive(run, seed, task)
            assert run.trace.state[:, seed, task].tolist() == states
            assert run.state[seed, task] == end


def outcome(run, rows=slice(None)):
    """Everything a run reports, seed by seed."""
    names = ("state", "done_at", "samples", "observations", "energy", "sent", "idle", "unplaced", "moves")
    return [getattr(run, name)[rows] for name in names]


@pytest.mark.parametrize("policy", EVERY, ids=name_of)
def test_no_policy_exceeds_the_authors_site(policy):
    """Sums within capacity, each task within its own limit; the plain loop follows every decision to the same end."""
    run = simulate(policy, Workload.authors(), load=60, seeds=[1, 8], trace=True)
    x = run.trace.compute
    assert np.isfinite(x).all() and x.min() >= 0 and x.sum(axis=2).max() <= 150 + 1e-6
    assert (x <= np.minimum(run.batch.speed, 30.0) + 1e-6).all()
    assert (x[run.trace.state != COMPUTING] == 0).all()
    found = audit(run)
    assert (found.misplaced, found.outcomes, found.capacity) == (0, 0, pytest.approx(0, abs=1e-6))
    assert found.energy < 1e-9 and found.idle < 1e-6


@PRESETS
@pytest.mark.parametrize("policy", EVERY, ids=name_of)
def test_a_seed_is_the_same_alone_again_and_in_company(policy, workload):
    """Seed 7: once more, alone, and as the last of fifty give the same bits."""
    alone = simulate(policy, workload, load=30, seeds=[7])
    again = simulate(policy, workload, load=30, seeds=[7])
    among = simulate(policy, workload, load=30, seeds=[*range(100, 149), 7])
    for one, two, three in zip(outcome(alone), outcome(again), outcome(among, slice(49, None)), strict=True):
        assert_array_equal(one, two)
        assert_array_equal(one, three)


@pytest.mark.parametrize(
    "workload",
    [Workload.described(), Workload.described(site=Site(power="per_node")), Workload.authors()],
    ids=["pooled", "per_node", "authors"],
)
@pytest.mark.parametrize("policy", EVERY, ids=name_of)
def test_being_watched_changes_nothing(policy, workload):
    """A traced run has the bits of an untraced one: energy, moves and all."""
    plain, traced = (simulate(policy, workload, load=40, seeds=3, trace=trace) for trace in (False, True))
    for one, two in zip(outcome(plain), outcome(traced), strict=True):
        assert_array_equal(one, two)


@PRESETS
def test_the_workload_does_not_depend_on_the_policy(workload):
    """Two policies meet the same tasks; another seed meets others, and of what is described another load too."""
    one, two = (simulate(p, workload, load=20, seeds=[4, 9]).batch for p in (policies.SDF(), policies.LARA()))
    for field in dataclasses.fields(one):
        assert_array_equal(getattr(one, field.name), getattr(two, field.name))
    assert not np.array_equal(one.data[0], one.data[1])
    more = workload.draw(21, [4]).data[0, :20]
    assert np.array_equal(one.data[0], more) == (workload.draws == "authors")  # who draw task after task


@pytest.mark.parametrize("policy", EVERY, ids=name_of)
def test_an_empty_site_gets_zero_vectors(policy):
    """Nobody has arrived: nothing is sent or computed, and the only energy is idling."""
    late = Task(arrival=50, deadline=60, data=10.0, **of_work(30.0))
    run = simulate(policy, Workload.of([late, late], horizon=40), seeds=2, trace=True)
    assert not run.trace.bandwidth.any() and not run.trace.compute.any()
    assert run.energy == pytest.approx([40 * 5 * 0.25] * 2)
    assert not run.idle.any() and not run.sent.any()


@pytest.mark.parametrize("policy", EVERY, ids=name_of)
@pytest.mark.parametrize(
    "changes",
    [
        {"sigma": 0.0},
        {"sigma": 2.0},
        {"b": (0.0, 0.0)},
        {"b": (0.0, 1e-3)},
        {"target": (0.0, 0.0)},
        {"target": (1.5, 2.0)},
    ],
    ids=["no-noise", "errors-below-zero", "flat", "nearly-flat", "target-zero", "target-above-the-start"],
)
def test_strange_curves_give_finite_numbers(policy, changes):
    """No noise, noise that drives errors below zero, curves that do not fall: finite numbers, no warning, no NaN."""
    run = simulate(policy, Workload.described(**changes), load=15, seeds=3, trace=True)
    for values in (run.energy, run.sent, run.idle, run.samples, run.trace.compute, run.trace.error):
        assert np.isfinite(values).all()
    if changes.get("sigma") == 2.0:
        assert (run.trace.error < 0).any()
    if "b" in changes or changes.get("target") == (0.0, 0.0):
        assert not run.successes.any()


@pytest.mark.parametrize("policy", EVERY, ids=name_of)
def test_an_error_that_rises_is_survived(policy):
    """A recorded curve that gets worse: the fitted slope is below zero; nobody finishes, nothing breaks."""
    worse = Curve.recorded([1, 10, 100, 1000], [0.3, 0.4, 0.5, 0.6])
    tasks = [Task(arrival=k, deadline=40, data=5.0, target=0.1, curve=worse, sigma=0.01) for k in range(6)]
    run = simulate(policy, Workload.of(tasks), seeds=2, trace=True)
    assert not run.successes.any() and np.isfinite(run.trace.compute).all() and np.isfinite(run.energy).all()


def test_without_noise_the_observed_error_is_the_curve():
    """sigma 0: after s samples the error is a s^-b + floor; before the first sample s counts as one."""
    task = Task(arrival=0, deadline=9, data=1.0, delay=0, target=0.01, curve=Curve(a=0.9, b=0.3, floor=0.05))
    run = simulate(policies.DescribedUniform(), Workload.of([task]), trace=True)
    assert run.trace.error[1:4, 0, 0] == pytest.approx([0.9 * s**-0.3 + 0.05 for s in (30, 60, 90)])
    half = simulate(Fixed(compute=0.25), Workload.of([task]), trace=True)
    assert half.trace.error[1:4, 0, 0] == pytest.approx([0.95] * 3)


def test_the_noise_is_standard_normal_and_independent():
    """Forty thousand observed errors minus the curve: mean, spread, tails of a normal, and no memory."""
    task = Task(arrival=0, deadline=402, data=0.0, delay=0, target=0.0, curve=Curve(a=1.0, b=0.0), sigma=1.0)
    run = simulate(policies.DescribedUniform(), Workload.of([task] * 5), seeds=20, trace=True)
    noise = run.trace.error[:400].reshape(400, -1) - 1.0
    assert noise.mean() == pytest.approx(0, abs=0.02) and noise.std() == pytest.approx(1, abs=0.015)
    assert (np.abs(noise) > 1.959964).mean() == pytest.approx(0.05, abs=0.005)
    assert np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1] == pytest.approx(0, abs=0.02)
    between = np.corrcoef(noise.T)
    assert np.abs(between[~np.eye(len(between), dtype=bool)]).max() < 5 / np.sqrt(400)


@dataclasses.dataclass
class Fixed:
    """The same for every task that is in the right state; and, from `step` on, a mistake in `task` of the last seed."""

    bandwidth: float = 1.0
    compute: float = 1.0
    step: int = 0
    task: int = 0
    mistake: dict = dataclasses.field(default_factory=dict)

    def decide(self, view):
        y, x = (np.where(who, r, 0.0) for who, r in ((view.sending, self.bandwidth), (view.computing, self.compute)))
        if view.step >= self.step:
            for name, value in self.mistake.items():
                {"bandwidth": y, "compute": x}[name][-1, self.task] = value
        return Decision(y, x)


CROWD = Workload.of([Task(arrival=k // 2, deadline=30, data=2.0, delay=1, **of_work(500.0)) for k in range(8)])


@pytest.mark.parametrize(
    ("mistake", "step", "refusal"),
    [
        ({"compute": np.nan}, 9, ("decision.number", "compute is nan")),
        ({"bandwidth": np.inf}, 9, ("decision.number", "bandwidth is inf")),
        ({"compute": -0.5}, 9, ("decision.negative", "compute is -0.5")),
        ({"bandwidth": -3.0}, 9, ("decision.negative", "bandwidth is -3")),
        ({"compute": 31.0}, 9, ("decision.task", "compute is 31", 30)),
        ({"bandwidth": 1.0}, 9, ("decision.state", "bandwidth is 1", "computing")),
        ({"compute": 1.0}, 0, ("decision.state", "compute is 1", "pending")),
    ],
)
def test_a_mistake_is_refused_naming_policy_step_seed_and_task(mistake, step, refusal):
    """One line: which policy, in which step, for which seed and task, and what is wrong."""
    with refused(*refusal, f"Fixed, step {step}, seed 12, task 5: "):
        simulate(Fixed(step=step, task=5, mistake=mistake), CROWD, seeds=[3, 12])


def test_giving_more_than_there_is_is_refused():
    """The first task that takes the sum beyond the site is named: 6 x 30 > 150 at the sixth, 4 x 30 > 100 at the fourth."""
    together = Workload.of([dataclasses.replace(task, arrival=3) for task in CROWD.tasks])
    for greed, named in (
        ({"compute": 30.0}, ("Fixed, step 6, seed 0, task 5: compute", 180, 150)),
        ({"bandwidth": 30.0}, ("Fixed, step 3, seed 0, task 3: bandwidth", 120, 100)),
    ):
        with refused("decision.site", *named):
            simulate(Fixed(**greed), together)


def test_a_sum_that_only_rounds_above_the_limit_is_accepted():
    """A millionth of a sample is rounding, not greed."""
    run = simulate(Fixed(compute=30.0 + 5e-7), Workload.of(CROWD.tasks[:4]))
    assert run.samples.max() > 0


class Answer:
    """A policy that always answers the same."""

    def __init__(self, answer):
        self.answer = answer

    def decide(self, view):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (None, ("decision.type", "NoneType")),
        ((np.zeros((1, 8)), np.zeros((1, 8))), ("decision.type", "tuple")),
        (Decision(np.zeros(8), np.zeros((1, 8))), ("decision.shape", "bandwidth", "(8,)", "(1, 8)")),
        (Decision(np.zeros((1, 8)), 0.0), ("decision.shape", "compute", "()", "(1, 8)")),
        (Decision(np.zeros((1, 8)), [["x"] * 8]), ("decision.shape", "compute")),
        (Decision([[1.0], [1.0, 2.0]], np.zeros((1, 8))), ("decision.shape", "bandwidth")),
        (Decision(np.zeros((1, 8)), np.zeros((1, 8)), np.zeros((1, 8))), ("decision.shape", "server", "float64")),
        (
            Decision(np.zeros((1, 8)), np.zeros((1, 8)), np.zeros((8, 1), int)),
            ("decision.shape", "server", "int64", "(8, 1)"),
        ),
    ],
)
def test_an_answer_of_the_wrong_kind_is_refused(answer, refusal):
    """Not a Decision, the wrong shape, not numbers: one line with what was expected."""
    with refused(*refusal, "Answer, step 0: "):
        simulate(Answer(answer), CROWD)


def test_something_without_decide_is_not_a_policy():
    """The error says which method is missing."""
    with refused("policy.method", "object", "decide(view)"):
        simulate(object(), CROWD)


def test_a_policy_keeps_no_memory_between_runs():
    """A policy object that counts its calls starts every run from what it was given as."""

    class Counting(Fixed):
        calls = 0

        def decide(self, view):
            self.calls += 1
            assert self.calls == view.step + 1
            return super().decide(view)

    policy = Counting()
    simulate(policy, CROWD)
    simulate(policy, CROWD)
    assert policy.calls == 0
