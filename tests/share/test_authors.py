"""The authors' own model: their printed numbers to the digit, their draws, their policies and their site by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal

from equipoise.share import Curve, Decision, Site, Task, View, Workload, check_policy, oracle, policies, simulate, sweep
from equipoise.share._arithmetic import keys_of, normal
from equipoise.share.audit import audit
from equipoise.share.estimators import Estimate
from equipoise.share.plain import Keyed
from equipoise.share.policies._authors import EVEN, LEARNED, THOSE_WHO_COMPUTE, URGENT, decision
from equipoise.share.published import PublishedRun, play_plainly, published_run
from equipoise.share.task import COMPUTING, DELAYED, DONE, FAILED, SENDING
from equipoise.share.view import name_of
from refusals import refused

# Success, latency, energy, efficiency, network of Uniform, SDF, LARA, UARA, UARA+LARA at each load (seed 42), as printed.
LOADS = {
    10: (
        (100.0, 8.7, 725, 0.1379, 10.7),
        (100.0, 8.0, 477, 0.2096, 12.0),
        (80.0, 10.1, 951, 0.0841, 10.8),
        (90.0, 9.6, 934, 0.0964, 10.6),
        (100.0, 11.3, 760, 0.1316, 8.8),
    ),
    20: (
        (90.0, 10.3, 1539, 0.0585, 15.3),
        (75.0, 14.0, 2862, 0.0262, 13.8),
        (80.0, 9.8, 1622, 0.0493, 14.0),
        (55.0, 13.6, 2099, 0.0262, 15.5),
        (90.0, 17.2, 1151, 0.0782, 17.2),
    ),
    30: (
        (56.7, 17.5, 3087, 0.0184, 19.5),
        (93.3, 15.2, 1754, 0.0532, 18.2),
        (73.3, 20.9, 1960, 0.0374, 18.1),
        (66.7, 23.8, 1905, 0.0350, 19.6),
        (70.0, 19.2, 1310, 0.0534, 18.6),
    ),
    40: (
        (70.0, 23.8, 2148, 0.0326, 21.3),
        (77.5, 22.2, 1516, 0.0511, 22.3),
        (47.5, 20.3, 2430, 0.0195, 19.4),
        (67.5, 23.1, 1653, 0.0408, 21.1),
        (50.0, 22.4, 1277, 0.0392, 18.7),
    ),
    50: (
        (50.0, 24.9, 2965, 0.0169, 21.3),
        (52.0, 34.3, 2524, 0.0206, 22.0),
        (52.0, 25.3, 2121, 0.0245, 20.8),
        (34.0, 29.4, 2096, 0.0162, 20.0),
        (48.0, 29.5, 1537, 0.0312, 21.1),
    ),
    60: (
        (50.0, 27.4, 1852, 0.0270, 21.1),
        (48.3, 32.6, 3080, 0.0157, 20.1),
        (30.0, 29.0, 2485, 0.0121, 21.2),
        (46.7, 28.5, 1940, 0.0241, 20.2),
        (33.3, 32.2, 1101, 0.0303, 21.5),
    ),
}
COLUMNS = {"success": 1, "latency": 1, "energy": 0, "efficiency": 4, "network": 1}  # and digits in print
NAMES = ("Uniform", "SDF", "LARA", "UARA", "UARA+LARA")
OPENING = ((80.0, 1423, 0.0562), (90.0, 1163, 0.0774), (90.0, 869, 0.1036), (60.0, 1274, 0.0471), (80.0, 1523, 0.0525))
NEXT_AFTER_OPENING = (0.260694528236, 0.820861473153, 0.539842778908, 0.210662189006, 0.991588408870)
NEXT_AFTER_LOAD = {
    10: 0.414200925572,
    20: 0.835571705091,
    30: 0.192107639199,
    40: 0.274885091607,
    50: 0.794257928236,
    60: 0.550892860405,
}
ENERGIES_AT_60 = (1852.3993, 3079.5339, 2484.5693, 1939.8203, 1101.1365)
FIVE = [kind() for kind in policies.PUBLISHED]


@pytest.fixture(scope="module")
def published() -> PublishedRun:
    return published_run()


def rows_of(published: PublishedRun, load: int) -> list[dict[str, Any]]:
    found = [row for row in published.rows if row["load"] == load]
    assert [row["policy"] for row in found] == list(NAMES)
    return found


def test_twenty_of_twenty_cells_of_table_1(published: PublishedRun) -> None:
    """As it stands in the paper, cell by cell; the certificate says so too."""
    assert len(published.beside) == 20 and all(cell["same"] for cell in published.beside)
    assert published.certificate().passed


@pytest.mark.parametrize("load", LOADS)
def test_all_cells_of_every_load(published: PublishedRun, load: int) -> None:
    """Five measures of five policies at six loads: 150 numbers, all as the notebook prints them."""
    for row, printed in zip(rows_of(published, load), LOADS[load], strict=True):
        found = [round(row[column], digits) for column, digits in COLUMNS.items()]
        assert found == pytest.approx(printed, abs=1e-12), row["policy"]
    assert rows_of(published, load)[-1]["next_draw"] == pytest.approx(NEXT_AFTER_LOAD[load], abs=1e-12)


def test_the_opening_test_and_the_generator_after_each_run(published: PublishedRun) -> None:
    """Ten tasks and eighty steps, before the loads: its numbers, and what the generator would give next."""
    for row, (success, energy, efficiency), draw in zip(
        rows_of(published, 0), OPENING, NEXT_AFTER_OPENING, strict=True
    ):
        assert (round(row["success"], 1), round(row["energy"]), round(row["efficiency"], 4)) == (
            success,
            energy,
            efficiency,
        )
        assert row["next_draw"] == pytest.approx(draw, abs=1e-12)


def test_energies_before_rounding(published: PublishedRun) -> None:
    """At 60 tasks, to four digits behind the point."""
    assert [row["energy"] for row in rows_of(published, 60)] == pytest.approx(ENERGIES_AT_60, abs=5e-5)


def test_one_forged_cell_fails_its_certificate(published: PublishedRun) -> None:
    """A success too many for SDF at 60 tasks: one cell of Table 1, or two, differ."""
    forged = [row | {"success": row["success"] + 1.0} if row["policy"] == "SDF" else row for row in published.rows]
    certificate = PublishedRun(forged, published.next_draw).certificate()
    assert certificate["table-1"].passed is False and certificate["generator"].passed
    assert PublishedRun(published.rows, 0.5).certificate()["generator"].passed is False


# Draws.


def test_the_first_two_tasks_of_the_opening_test() -> None:
    """Seven draws each, from a generator with seed 42."""
    batch = Workload.authors().draw_from(RandomState(42), 10)
    names = ("arrival", "a", "b", "deadline", "target", "speed", "data")
    told = (
        (6, 1.357580, 0.291717, 33 + 1, 0.179866, 24.680559, 40.919616),
        (10, 1.121474, 0.366854, 37 + 1, 0.190807, 20.617535, 97.893690),
    )
    for task, values in enumerate(told):
        assert [getattr(batch, name)[0, task] for name in names] == pytest.approx(values, abs=5e-7)


@pytest.mark.parametrize("seed", [0, 7, 42, 2**32 - 1, 2**32, 2**40 + 12345])
@pytest.mark.parametrize("load", [1, 33, 60])
def test_tasks_are_those_of_numpys_legacy_generator_draw_by_draw(seed: int, load: int) -> None:
    """randint and uniform called one after the other, as the authors call them; seeds of 2^32 and more are two words."""
    generator = RandomState(seed if seed < 2**32 else [seed % 2**32, seed // 2**32])
    batch = Workload.authors().draw(load, [seed])
    for i in range(load):
        arrival = generator.randint(0, 20)
        a, b = generator.uniform(0.8, 1.5), generator.uniform(0.2, 0.7)
        last = arrival + generator.randint(20, 50)  # in which it may compute; ours is the first too late
        target, speed, data = generator.uniform(0.12, 0.22), generator.uniform(20, 50), generator.uniform(30, 100)
        found = (batch.arrival[0, i], batch.deadline[0, i], batch.a[0, i], batch.b[0, i])
        assert found == (arrival, last + 1, a, b)
        assert (batch.target[0, i], batch.speed[0, i], batch.data[0, i]) == (target, speed, data)
    assert (batch.delay == 3).all() and batch.horizon == 60 + 2 * load


def test_a_generator_goes_on_where_the_draws_ended() -> None:
    """draw_from takes exactly as many words as NumPy would."""
    mine, theirs = RandomState(5), RandomState(5)
    Workload.authors().draw_from(mine, 25)
    for _ in range(25):
        theirs.randint(0, 20)
        theirs.uniform(0, 1, 2)
        theirs.randint(20, 50)
        theirs.uniform(0, 1, 3)
    assert mine.random_sample() == theirs.random_sample()


# The compiled loop and the plain one.


@pytest.mark.parametrize("success", ["observed", "true"])
@pytest.mark.parametrize("policy", FIVE, ids=name_of)
def test_the_compiled_loop_is_the_plain_loop_task_by_task(policy: Any, success: Any) -> None:
    """Steps of success, energy and samples sent, on several seeds and loads, with the same luck."""
    workload, site = Workload.authors(), Site.authors(success=success)
    for load in (8, 45):
        run = simulate(policy, workload, load=load, seeds=[0, 3, 2**33], site=site)
        for row in range(3):
            batch = run.batch.rows(row, row + 1)
            played = play_plainly(policy, batch, site, workload.prior, Keyed(keys_of(batch.seeds, load)[0]))
            assert_array_equal(run.done_at[row], played.done_at)
            assert run.energy[row] == pytest.approx(played.energy, rel=1e-9)
            assert run.sent[row] == pytest.approx(played.sent, rel=1e-12)
            assert run.success[row] == pytest.approx(played.success)
            assert np.nan_to_num(run.latency[row]) == pytest.approx(played.latency)


def test_no_policy_changes_what_the_network_does() -> None:
    """On the same tasks network use is the same, bit for bit, and so are the steps from which tasks can compute."""
    sent = [simulate(policy, load=60, seeds=3).sent for policy in FIVE]
    for other in sent[1:]:
        assert_array_equal(other, sent[0])


# Policies by hand.


def a_view(**columns: Any) -> View:
    """One seed in step 10, all tasks computing since long ago, unless said otherwise."""
    n = len(next(iter(columns.values())))
    usual: dict[str, Any] = {
        "state": [COMPUTING] * n,
        "arrival": [0] * n,
        "deadline": [40] * n,
        "data": [50.0] * n,
        "data_left": [0.0] * n,
        "target": [0.2] * n,
        "samples": [0.0] * n,
        "error": [0.5] * n,
        "observations": [2] * n,
        "observed": [True] * n,
        "first_error": [0.9] * n,
        "ready": [5] * n,
        "task_cap": [30.0] * n,
    }
    arrays = {name: np.array([columns.get(name, value)]) for name, value in usual.items()}
    return View(step=10, capacity=150.0, bandwidth=100.0, servers=5, part=0.2, delay=3.0, **arrays)


def shares_of(view: View, *how: Any, **more: Any) -> Any:
    """Fractions of the site before a task's own limit, of one seed."""
    return decision(view._replace(task_cap=np.full(view.state.shape, np.inf)), *how, **more).compute[0] / view.capacity


def test_uniform_divides_among_those_that_compute() -> None:
    """Six compute and four send: 25 each; a task's own limit of 20 stands, and what it leaves goes to nobody."""
    view = a_view(state=[COMPUTING] * 6 + [SENDING] * 4, task_cap=[20.0] + [30.0] * 9)
    assert policies.Uniform().decide(view).compute[0].tolist() == [20.0] + [25.0] * 5 + [0.0] * 4


def test_sdf_leaves_the_sixth_task_a_crumb() -> None:
    """Five fifths leave 5.55e-17 of the site in doubles: the sixth by deadline gets it, the seventh nothing."""
    view = a_view(deadline=[40, 41, 42, 43, 44, 46, 45])
    shares = shares_of(view, URGENT)
    assert shares[:5].tolist() == [0.2] * 5
    assert shares[6] == 1.0 - 0.2 - 0.2 - 0.2 - 0.2 - 0.2 == 2**-54 and shares[5] == 0.0
    assert policies.SDF().decide(view).compute[0, 6] == pytest.approx(150 * 2**-54)


def test_the_crumb_is_a_test_of_the_error() -> None:
    """Seven flat curves, five of them hopeless and most urgent: the sixth needs no more than a trace, and is done by it."""
    flat: dict[str, Any] = {"arrival": 0, "curve": Curve(1.0, 0.0), "data": 0.0, "delay": 0}
    tasks = [Task(deadline=30 + k, target=0.5, **flat) for k in range(5)]
    tasks += [Task(deadline=40, target=1.0, **flat), Task(deadline=41, target=0.5, **flat)]
    run = simulate(policies.SDF(), Workload.of(tasks, horizon=20), site=Site.authors(delay=0.0), trace=True)
    assert 0 < run.samples[0, 5] < 1e-13 and run.state[0].tolist() == [COMPUTING] * 5 + [DONE, COMPUTING]
    assert run.observations[0].tolist() == [20] * 5 + [1, 19]


def test_lara_explores_first() -> None:
    """Three compute, two of them below 100 samples: these get a fifth each, the third nothing though it is urgent."""
    view = a_view(samples=[10.0, 99.9, 100.0], deadline=[40, 40, 12])
    assert shares_of(view, LEARNED, np.array([[500.0, 500.0, 500.0]])).tolist() == [0.2, 0.2, 0.0]
    crowd = a_view(samples=[10.0] * 7 + [60.0] * 3)  # ten compute: new is below 50
    assert shares_of(crowd, LEARNED, np.full((1, 10), 500.0)) == pytest.approx([1 / 7] * 7 + [0.0] * 3)


def test_lara_then_exploits_just_in_time() -> None:
    """By time left and need: what is needed, half more in a hurry, a fifth at most, nothing of a hundredth or less."""
    deadline = [41, 13, 31, 16, 51]  # last steps 40, 12, 30, 15, 50: time left 30, 2, 20, 5, 40
    left = np.array([[90.0, 30.0, 900.0, 75.0, 60.0]])  # needs .02, .1, .3, .1, .01
    view = a_view(samples=[200.0] * 5, deadline=deadline)
    assert shares_of(view, LEARNED, left) == pytest.approx([0.02, 0.15, 0.2, 0.1, 0.0])
    order = decision(view, LEARNED, left).order
    assert order is not None and order[0].tolist() == [3, 0, 2, 1, 4]


def test_uara_caps_by_hand() -> None:
    """Weights (1 + samples/data)/(last step - delay) over those that compute; a price of 1 + 2 sending/active.

    The third became ready in this step: it computes, and still counts as sending.
    """
    state, ready = [COMPUTING, COMPUTING, COMPUTING, SENDING, DELAYED, DONE], [5, 5, 10, -1, -1, 3]
    view = a_view(state=state, ready=ready, samples=[50.0, 0.0, 0.0, 0.0, 0.0, 90.0], deadline=[24, 44, 14, 40, 40, 40])
    weight = np.array([2 / 20, 1 / 40, 1 / 10])
    price = 1 + 2 * 3 / 5
    expected = weight / weight.sum() / price
    told = policies.UARA().decide(view).compute[0]
    assert told == pytest.approx([*(150 * np.minimum(expected, 1 / 3)).clip(max=30.0), 0, 0, 0])
    free = shares_of(view, EVEN, capped=THOSE_WHO_COMPUTE, price=False)
    assert free[:3] == pytest.approx(np.minimum(weight / weight.sum(), 1 / 3))


def test_uara_lara_is_the_lesser_of_the_two() -> None:
    """LARA's shares and UARA's caps on the same view, and its two remedies."""
    view, left = a_view(samples=[200.0, 150.0, 100.0], deadline=[14, 16, 41]), np.array([[300.0, 300.0, 3.0]])
    estimate = Estimate(left=left, log_work=np.zeros((1, 3)), spread=np.zeros((1, 3)))
    shares, weight = shares_of(view, LEARNED, left), np.array([5 / 10, 4 / 12, 3 / 37])  # everybody has sent: no price
    both = policies.UARALARA().given(view, estimate).compute
    assert both[0] == pytest.approx(150 * np.minimum(shares, weight / weight.sum()))
    matching = policies.UARALARA(matching=True).given(view, estimate).compute
    assert shares[2] == 0.0 and matching.sum() >= both.sum()


# The site by hand.


def still(**changes: Any) -> Site:
    """The authors' site without chance."""
    return Site.authors(rate_jitter=0.0, **changes)


def a_task(**changes: Any) -> Task:
    usual: dict[str, Any] = {"arrival": 0, "deadline": 20, "data": 100.0, "target": 0.1, "curve": Curve(1.0, 0.5)}
    return Task(**(usual | changes))


def test_an_equal_uplink_by_hand() -> None:
    """Two tasks, 100 a step: a delay of 3 comes before the first byte, and what who waits could have sent is lost.

    The first arrives in 0 and could send from 3 on; the second is there from 3 on, delayed, and half of the uplink is its:
    the first sends 50 in 3 and in 4, and computes in 4. The second, alone by then, sends in 6 and 7, and computes in 7.
    """
    tasks = [a_task(), a_task(arrival=3, data=150.0)]
    run = simulate(policies.Uniform(), Workload.of(tasks, horizon=10), site=still(), trace=True)
    states = run.kept.state[:, 0]
    assert states[:, 0].tolist()[:6] == [DELAYED] * 3 + [SENDING] + [COMPUTING] * 2
    assert states[3:8, 1].tolist() == [DELAYED] * 3 + [SENDING, COMPUTING]
    assert run.sent[0] == 50 + 50 + 100 + 100  # what is sent may overshoot
    assert run.network[0] == pytest.approx(100 * 300 / (100 * 10))


def test_an_uplink_without_a_limit_sends_what_there_is() -> None:
    """All data in the first step after the delay; what was sent is a number, and none of an infinite uplink is used."""
    site = Site.authors(bandwidth=float("inf"))
    run = simulate(policies.Uniform(), load=10, seeds=2, site=site, trace=True)
    assert run.sent == pytest.approx(run.batch.data.sum(axis=1)) and run.network.tolist() == [0.0, 0.0]
    for task in range(10):
        start = int(run.batch.arrival[0, task])
        assert run.kept.state[start : start + 4, 0, task].tolist() == [DELAYED] * 3 + [COMPUTING]
    found = audit(run)
    assert (found.misplaced, found.outcomes) == (0, 0) and found.measures["network"].tolist() == [0.0, 0.0]


def test_rates_vary_by_their_jitter() -> None:
    """A task alone sends 80 to 120 a step, uniformly."""
    task = a_task(data=1e6, deadline=700)
    first = [
        simulate(policies.Uniform(), Workload.of([task], horizon=4), seeds=[k], site=Site.authors()) for k in range(200)
    ]
    sent = np.array([run.sent[0] for run in first])
    assert 80 <= sent.min() < 85 and 115 < sent.max() <= 120 and sent.mean() == pytest.approx(100, abs=3)


def test_energy_by_the_sample_by_hand() -> None:
    """Half a unit a sample and a tenth for each server that is not needed, only in steps in which somebody can compute.

    100 samples at 30, 30, 30, 30: ready in 3, done in 6 (1/sqrt(s) reaches .1 at 100, without noise).
    """
    run = simulate(policies.Uniform(), Workload.of([a_task()], horizon=12), site=still(success="true"))
    assert (run.done_at[0, 0], run.samples[0, 0], run.latency[0]) == (7, 120.0, 6.0)
    assert run.energy[0] == pytest.approx(120 * 0.5 + 4 * 4 * 0.1)
    slow = simulate(policies.Uniform(), Workload.of([a_task(speed=12.0)], horizon=20), site=still(success="true"))
    assert slow.energy[0] == pytest.approx(9 * (12 * 0.5 + 4 * 0.1))  # nine steps of 12


def test_success_is_judged_on_the_noise_where_the_site_says_so() -> None:
    """A flat curve at .3 with noise .1 and a target of .2: done in the step of the first draw below -1, or never."""
    task = a_task(target=0.2, curve=Curve(0.3, 0.0), sigma=0.1, data=0.0, deadline=25)
    workload = Workload.of([task], horizon=30)
    run = simulate(policies.Uniform(), workload, seeds=20, site=still(delay=0.0))
    assert not simulate(policies.Uniform(), workload, seeds=20, site=still(delay=0.0, success="true")).successes.any()
    for seed in range(20):
        key = keys_of(np.array([seed]), 1)[0, 0]
        tests = [0.3 + 0.1 * normal(key, 1 + k) <= 0.2 for k in range(1, 26)]
        assert run.done_at[seed, 0] == (tests.index(True) + 1 if any(tests) else -1)


def test_own_limits_are_kept_and_more_is_refused_by_name() -> None:
    """12.5 a step for the second task: every policy keeps to it, and who gives 13 is told which task."""
    tasks = [a_task(), a_task(speed=12.5), a_task(speed=1e9)]
    workload = Workload.of(tasks, horizon=15, site=still())
    for kind in policies.ALL:
        most = simulate(kind(), workload, trace=True).kept.compute.max(axis=(0, 1))
        assert most[1] <= 12.5 + 1e-9 and most.max() <= 30.0 + 1e-9

    class Greedy:
        def decide(self, view: View) -> Decision:
            return Decision(np.zeros(view.state.shape), np.where(view.computing, 13.0, 0.0))

    with refused("decision.task", "Greedy, step 5, seed 0, task 1: compute is 13", 12.5):
        simulate(Greedy(), workload)


# Bounds.


@pytest.mark.parametrize("success", ["observed", "true"])
def test_no_policy_exceeds_the_bound(success: Any) -> None:
    """Every policy on the same luck, also those that know the work."""
    site = Site.authors(success=success)
    for load in (10, 40):
        bound = oracle(load=load, seeds=12, site=site).bound
        for policy in (*(kind() for kind in policies.ALL), policies.named("Hybrid:clairvoyant")):
            assert (simulate(policy, load=load, seeds=12, site=site).successes <= bound).all()


def test_the_bound_by_hand() -> None:
    """Of three tasks one is ready too late, one too slow for its work, one just fits."""
    fits = a_task(speed=25.0, deadline=7)  # ready in 3 with the uplink to itself: 4 steps of 25
    site = still(success="true", bandwidth=1e6)
    assert oracle(Workload.of([fits]), seeds=1, site=site).bound.tolist() == [1]
    for never in (a_task(speed=24.9, deadline=7), a_task(deadline=6), a_task(arrival=2, deadline=5)):
        assert oracle(Workload.of([fits, never]), seeds=1, site=site).bound.tolist() == [1]


# Liveness.


class Nobody:
    """Sends, and gives nobody anything."""

    def decide(self, view: View) -> Decision:
        return policies.Uniform().decide(view)._replace(compute=np.zeros(view.state.shape))


class Half(Nobody):
    """The first task alone."""

    def decide(self, view: View) -> Decision:
        honest = policies.Uniform().decide(view)
        return honest._replace(compute=np.where(np.arange(view.state.shape[1]) == 0, honest.compute, 0.0))


@pytest.mark.parametrize("workload", [Workload.described(), Workload.authors()], ids=["described", "authors"])
def test_who_gives_nobody_anything_is_not_alive(workload: Workload) -> None:
    """Neither when it is checked nor when it is compared, where it is named; one that conserves work is."""
    assert check_policy(Nobody(), workload)["liveness"].passed is False
    assert check_policy(policies.SRTF(), workload)["liveness"].passed
    found = sweep([policies.SRTF(), Nobody()], workload, loads=10, seeds=3).certificate()
    assert found["liveness"].passed is False and "worst: Nobody" in found["liveness"].meaning
    assert sweep(policies.SRTF(), workload, loads=[10, 40], seeds=3).certificate()["liveness"].passed


def test_starving_by_hand() -> None:
    """Four tasks of 100 samples, four steps to compute in: all fit. Serving the first alone starves the other three.

    A fifth that needs 1000 samples fails for everybody, and is starved by nobody.
    """
    hopeless = a_task(target=1000**-0.5, deadline=7)
    workload = Workload.of([*(a_task(deadline=7, data=0.0) for _ in range(4)), hopeless], horizon=9)
    site = Site(delay=3.0, jitter=0.0, uplink="equal", observes="ready")
    for policy, starved in ((Half(), 3), (Nobody(), 4), (policies.Uniform(), 0)):
        run = simulate(policy, workload, site=site, trace=True)
        assert audit(run).starved == starved
        assert (run.state == FAILED).sum() == starved + 1
    told = sweep([Half()], workload, seeds=2, site=site).certificate()["liveness"]
    assert (told.value, told.passed) == (pytest.approx(60.0), False)


def test_who_says_that_it_is_frugal_is_told_and_not_judged() -> None:
    """UARA+LARA leaves compute idle by design: its percent stands in the meaning, and the check passes."""
    told = sweep([policies.Uniform(), policies.UARALARA()], loads=[30], seeds=3).certificate()["liveness"]
    assert told.passed and "worst: Uniform" in told.meaning and "frugal by design: UARA+LARA " in told.meaning


# Bad input.


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: a_task(speed=0), ("number.range", "speed is 0")),
        (lambda: a_task(speed=-1), ("number.range", "speed is -1")),
        (lambda: a_task(speed=float("nan")), ("number.range", "speed is nan")),
        (lambda: a_task(arrival=20), ("task.deadline", "deadline 20 is not after arrival 20")),
        (lambda: Site(success="x"), ("unknown", "unknown success rule 'x'")),
        (lambda: Site(uplink="x"), ("unknown", "unknown uplink 'x'")),
        (lambda: Site(observes="x"), ("unknown", "unknown observes 'x'")),
        (lambda: Site(rate_jitter=0.2), ("site.jitter", "rate_jitter is 0.2")),
        (lambda: Workload.authors(speed=(0.0, 5.0)), ("number.range", "speed starts at 0")),
    ],
)
def test_what_cannot_be_is_refused(make: Any, refusal: Any) -> None:
    """One line that names the field."""
    with refused(*refusal):
        make()
