"""Why a job was treated as it was: every reason by hand, and what is suggested is tried in a new run."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import pytest

from equipoise.place import placers, prices
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.execution import ADMITTED, REFUSED, Execution
from equipoise.place.explain import Explanation, explain
from equipoise.place.explanation import Change, changes_of, ways_of
from equipoise.place.job import Deadline, Job, Linear, Unstated, Workload
from equipoise.place.simulate import Placer, Result, simulate
from equipoise.place.traces import synthetic, synthetic_cluster
from refusals import refused

FREE = placers.PDORS(prices=prices.Fixed())
PAID = placers.PDORS(prices=prices.Fixed({"gpu": 1.0}))


def job(name: str, work: float, width: int, *, arrival: int = 0, **more: Any) -> Job:
    """An all-reduce job without gradients: so many workers do so many samples in a slot. A worker takes a GPU."""
    given: dict[str, Any] = {"worker": {"gpu": 1}, "utility": Linear(100.0, 1000.0)} | more
    return Job(id=name, arrival=arrival, work=work, batch=width, time_per_sample=1.0, requested=width, **given)


def gpus(*machines: int) -> Cluster:
    return Cluster(tuple(Machine({"gpu": n}, name=f"m{k}") for k, n in enumerate(machines)))


def again(result: Result, name: str, changes: Any) -> Result:
    """The same run with one job in another form."""
    jobs = tuple(one.but(**changes) if one.id == name else one for one in result.jobs)
    return simulate(
        result.cluster,
        replace(result.jobs, jobs=jobs),
        result.policy,
        slots=result.slots,
        horizon=result.horizon,
        seed=result.seed,
    )


def change(told: Explanation, words: str) -> Change:
    """The change whose words begin so."""
    (found,) = [one for one in told.changes if one.words.startswith(words)]
    return found


def taken_with_every_change(result: Result, told: Explanation) -> None:
    """Each suggested form is promised on arrival in a new run, at the payoff and the slot that were said."""
    assert told.changes
    for one in told.changes:
        other = again(result, told.job, one.changes)
        first = other.decisions[[job.id for job in other.jobs].index(told.job)][0]
        assert (first.slot, first.state, first.due) == (told.arrival, ADMITTED, one.due)
        assert first.worth - first.cost == pytest.approx(one.payoff)


# Refused


def test_a_worker_larger_than_any_machine():
    """Eight GPUs for a worker, machines of two and four: the larger lacks four; with four it is promised."""
    result = simulate(gpus(2, 4), [job("a", 4, 1, worker={"gpu": 8})], FREE, slots=10)
    told = explain(result, "a")
    assert (told.reason, told.alone, told.best, told.earliest_start) == ("infeasible_alone", None, None, None)
    (lack,) = told.missing
    assert (lack.part, lack.machine, lack.resource, lack.needs, lack.has) == ("a worker", "m1", "gpu", 8.0, 4.0)
    assert "a worker needs 8 gpu, and m1, the machine that comes nearest, has 4." in told.text()
    assert [one.changes for one in told.changes] == [{"worker": {"gpu": 4}}]
    taken_with_every_change(result, told)


def test_a_worker_and_its_server_that_fit_only_each_alone():
    """One machine of 4 CPUs; worker 2 and server 3 are 5. Cut in proportion to whole CPUs: 1 and 2."""
    cluster = Cluster((Machine({"gpu": 2, "cpu": 4}, name="only"),))
    one = job("a", 2, 2, worker={"gpu": 1, "cpu": 2}, server={"cpu": 3}, workers_per_server=2)
    result = simulate(cluster, [one], FREE, slots=10)
    told = explain(result, "a")
    assert [(m.part, m.resource, m.needs, m.has) for m in told.missing] == [
        ("a worker and its server", "cpu", 5.0, 4.0)
    ]
    assert [one.changes for one in told.changes] == [{"worker": {"gpu": 1, "cpu": 1}, "server": {"cpu": 2}}]
    taken_with_every_change(result, told)


def test_a_resource_no_machine_has_beside_the_others_is_not_cut_away():
    """GPUs on one machine, CPUs on the other: a worker that wants both is never told to do without one."""
    cluster = Cluster((Machine({"gpu": 2}, name="g"), Machine({"cpu": 2}, name="c")))
    told = explain(simulate(cluster, [job("a", 1, 1, worker={"gpu": 1, "cpu": 1})], FREE, slots=5), "a")
    assert told.reason == "infeasible_alone"
    assert (told.changes, told.tried) == ((), True)
    assert "No other worth, time, width or work of it" in told.text()


def test_longer_than_the_horizon():
    """50 samples at 4 a slot are 13 slots; there are 10, which hold 40: 80 % of the work."""
    result = simulate(gpus(4), [job("a", 50, 4)], FREE, slots=10)
    told = explain(result, "a")
    assert (told.reason, told.alone, told.window) == ("beyond_horizon", 13, 10)
    assert "It needs 13 slots alone" in told.text()
    assert [one.words for one in told.changes] == ["80 % of the work"]
    taken_with_every_change(result, told)


def test_one_that_comes_after_the_last_slot():
    """Nothing can be replayed, and nothing would have helped."""
    told = explain(simulate(gpus(4), [job("a", 1, 1), job("b", 1, 1, arrival=7)], FREE, slots=5), "b")
    assert (told.reason, told.window, told.changes, told.waited) == ("beyond_horizon", 0, (), 0)
    assert "It came after the last slot of the run." in told.text()


def test_no_room_before_the_end():
    """All four GPUs are promised in slots 0-7 of 10: 8 samples of 12 have room, from slot 8. 66 % of 12 is 7.92."""
    result = simulate(gpus(4), [job("big", 32, 4), job("late", 12, 4)], FREE, slots=10)
    told = explain(result, "late")
    assert (told.reason, told.best, told.earliest_start, told.earliest_finish) == ("no_capacity", None, 8, None)
    assert [(p.resource, p.full) for p in told.prices] == [("gpu", pytest.approx(0.8))]
    assert [one.words for one in told.changes] == ["66 % of the work"]
    taken_with_every_change(result, told)


def test_room_only_when_it_is_worth_nothing():
    """The same with a deadline before the room, which opens in slot 8: told no_capacity, and that 5 slots later would do."""
    late = job("late", 4, 4, utility=Deadline(5.0, 3.0))
    result = simulate(gpus(4), [job("big", 32, 4), late], FREE, slots=10)
    told = explain(result, "late")
    assert (told.reason, told.earliest_start, told.earliest_finish) == ("no_capacity", 8, 8)
    (later,) = told.changes
    assert (later.words, later.due, later.exact) == ("a deadline 5 slots later", 8, False)
    taken_with_every_change(result, told)
    assert told.best is not None and (told.best.first, told.best.worth) == (8, 0.0)
    assert "only when finishing it is worth nothing" in told.text()


@pytest.mark.parametrize("policy", [placers.ElasticFlow(), placers.Dated()])
def test_others_that_promise_are_asked_as_pdors_is(policy: Placer):
    """The same 4 GPUs, full of a job with a deadline in slot 7: of the one that must end in slot 3 not 1 % has room, at any
    width or worth; 5 slots later it ends in slot 8."""
    jobs = [job("big", 32, 4, utility=Deadline(9.0, 7.0)), job("late", 4, 4, utility=Deadline(5.0, 3.0))]
    result = simulate(gpus(4), jobs, policy, slots=10)
    told = explain(result, "late")
    assert (told.reason, [(one.words, one.due) for one in told.changes]) == (
        "no_capacity",
        [("a deadline 5 slots later", 8)],
    )
    taken_with_every_change(result, told)


@pytest.mark.parametrize("policy", [FREE, placers.Dated()])
def test_another_type_of_machines(policy: Placer):
    """The v100s are full to slot 7, the a100s are free: a job that takes v100s alone must end in slot 3, and would as soon
    as it takes a100s. One that fits no machine of its type is told of the type that has room for it."""
    cluster = Cluster(
        (Machine({"gpu": 4}, name="v", type="v100"), Machine({"gpu": 4, "cpu": 8}, name="a", type="a100"))
    )
    own: dict[str, Any] = {"speeds": {"v100": 2.0}, "utility": Deadline(5.0, 3.0)}
    jobs = [job("big", 32, 4, speeds={"v100": 1.0}, utility=Deadline(9.0, 7.0)), job("late", 4, 4, **own)]
    jobs += [job("wide", 2, 1, worker={"gpu": 1, "cpu": 4}, **own)]
    result = simulate(cluster, jobs, policy, slots=10)
    told = explain(result, "late")
    also = change(told, "type a100")
    assert (also.words, also.changes) == ("type a100 too, if as fast as v100", {"speeds": {"v100": 2.0, "a100": 2.0}})
    assert (also.due, told.reason) == (3, "no_capacity")
    taken_with_every_change(result, told)
    told = explain(result, "wide")
    assert told.reason == "infeasible_alone" and change(told, "type a100").due == 3
    taken_with_every_change(result, told)


def test_a_price_it_would_not_pay():
    """8 GPU-slots at 1 against a worth of 4. Three are the most it gains by (four pay nothing): 37 % of 8 is 2.96. For all 8
    the worth must be over 8: 4 times 1.02 to the 36th is 8.16 (the 35th: 8.00 as rounded, which pays nothing)."""
    one = job("a", 8, 4, utility=Deadline(4.0, 100.0))
    result = simulate(gpus(4), [one], PAID, slots=10)
    told = explain(result, "a")
    assert (told.reason, told.earliest_start, told.earliest_finish) == ("priced_out", 0, 1)
    assert told.best is not None
    assert (told.best.worth, told.best.cost, told.best.payoff) == pytest.approx((4.0, 8.0, -4.0))
    (price,) = told.prices
    assert (price.resource, price.price, price.cost, price.full) == pytest.approx(("gpu", 1.0, 8.0, 0.0))
    assert [one.words for one in told.changes] == ["a worth of at least 8.16 (now 4)", "37 % of the work"]
    assert [one.payoff for one in told.changes] == pytest.approx([0.16, 1.0])
    assert [one.exact for one in told.changes] == [True, False]
    taken_with_every_change(result, told)


def test_a_price_that_a_date_would_not_pay():
    """History asks 10 times for 8 of 4 GPU-slots a slot, at a worth of 8: a slot of the cluster clears at 4, and costs
    ten times that, less as it is free (a tenth) and near. One GPU in slots 2 to 9 costs 4 x 10 x .1 x .25 x (8 - .277)
    = 7.72. 1.02 to the 104th is 7.842, to the 103rd 7.688. One of its slots alone costs .9987: that is 12 % of the
    work. Where nothing is stated there is no worth or deadline to change, but work: promises may hold 2 % of 10 slots,
    a fifth of the cluster for one, and so a fifth of 4 GPU-slots."""
    past = Workload(tuple(job(f"p{k}", 8, 4, arrival=k, utility=Deadline(8.0, 100.0)) for k in range(10)))
    dear = placers.Dated(history=past, times=10.0)
    result = simulate(gpus(4), [job("a", 8, 4, utility=Deadline(1.0, 100.0))], dear, slots=10)
    told = explain(result, "a")
    changes = ["a worth of at least 7.842 (now 1)", "12 % of the work"]
    assert (told.reason, [one.words for one in told.changes]) == ("priced_out", changes)
    assert "costs more than it is worth" in told.text()
    taken_with_every_change(result, told)
    result = simulate(gpus(4), [job("a", 4, 4, utility=Unstated())], placers.Dated(), horizon=10)
    told = explain(result, "a")
    assert (told.reason, [one.words for one in told.changes]) == ("no_capacity", ["20 % of the work"])
    taken_with_every_change(result, told)


def test_the_price_rises_with_what_is_taken():
    """Half of a machine is promised: at ratio 9 the rest costs three times the empty price."""
    policy = placers.PDORS(prices=prices.Fixed({"gpu": 1.0}, ratio=9.0))
    jobs = [job("a", 2, 2), job("b", 1, 1, utility=Deadline(2.0, 0.0))]
    told = explain(simulate(gpus(4), jobs, policy, slots=1), "b")
    assert told.reason == "priced_out"
    assert [(p.price, p.full) for p in told.prices] == [(pytest.approx(3.0), pytest.approx(0.5))]


def test_the_least_of_each_kind():
    """8 workers, 100 samples, worth 100: a policy that takes 2 workers, 30 samples, a worth of 150 or 7 slots more. 100
    times 1.02 to the 21st is 151.6, to the 20th 148.6."""
    one, cluster = job("a", 100, 8, utility=Deadline(100.0, 4.0)), gpus(8)

    def taken(form: Job) -> bool:
        utility = form.utility
        assert isinstance(utility, Deadline)
        return form.widest <= 2 or form.work <= 30 or utility.value >= 150 or utility.slots >= 11

    found = changes_of(ways_of(one, cluster, 20), lambda form: (1.0, 5) if taken(one.but(**form.changes)) else None)
    assert {each.words: dict(each.changes) for each in found} == {
        "a worth of at least 151.6 (now 100)": {"utility": Deadline(151.6, 4.0)},
        "a deadline 7 slots later": {"utility": Deadline(100.0, 11.0)},
        "at most 2 workers": {"most": 2, "requested": 2},
        "30 % of the work": {"work": 30.0},
    }
    assert changes_of(ways_of(one, cluster, 20), lambda form: None) == ()


def test_a_policy_of_anybodys_is_asked_through_its_arrivals():
    """A policy that promises whoever asks for at most 3 workers of its 8 GPUs, and keeps what it knows of all jobs from its
    start in a table of its own: 4 workers are refused, 3 are taken, and the asking leaves no trace."""

    class Session:
        def __init__(self, run: Execution) -> None:
            self.run, self.wide = run, [arrays.widest for arrays in run.arrays]

        def arrive(self, j: int) -> None:
            state = ADMITTED if self.wide[j] <= 3 else REFUSED
            self.run.decide(
                j, state, "" if state == ADMITTED else "no_capacity", worth=7.0, cost=2.0, due=self.run.now + 4
            )

        def slot(self) -> None: ...

        def finished(self, job: int) -> None: ...

        def unfinished(self, job: int) -> None: ...

    class Narrow:
        label, colour, promises = "Narrow", "#000000", True

        def start(self, run: Execution, seed: int) -> Session:
            return Session(run)

    result = simulate(
        gpus(8), [job("a", 4, 2), job("b", 4, 4, arrival=2), job("c", 4, 4, arrival=2)], Narrow(), slots=10
    )
    told = explain(result, "b")
    assert [(one.words, one.payoff, one.due) for one in told.changes] == [("at most 3 workers", 5.0, 6)]
    assert "It would have been promised on arrival with at most 3 workers, done by slot 6." in told.text()
    assert (explain(result, "a").changes, explain(result, "a").tried) == ((), False)


# Waiting


def test_why_it_waited():
    """All GPUs are promised for five slots; a job that does not pay runs on lent slots from slot 5."""
    policy = placers.PDORS(prices=prices.Fixed({"gpu": 1.0}), backfill=True)
    jobs = [job("rich", 20, 4), job("poor", 4, 4, utility=Deadline(3.0, 100.0))]
    told = explain(simulate(gpus(4), jobs, policy, slots=20), "poor")
    assert (told.reason, told.waited, told.first_run, told.finish, told.utility) == ("priced_out", 5, 5, 5, 3.0)
    assert (told.taken, told.held_promised, told.held_others) == ({"gpu": 1.0}, 1, 0)
    line = "It waited 5 slots: the cluster's gpu was 100 % taken by 1 promised job; it ran on lent slots from slot 5."
    assert line.removesuffix(".") in told.text()


def test_a_promised_job_that_waits_for_cheaper_slots_says_so():
    """Slots 0 and 1 cost ten times the later ones: there is room at once, and the plan starts in slot 2."""

    @dataclass(frozen=True)
    class Falling:
        name: str = "falling"

        def post(self, run: Execution, policy: object = None) -> prices.Posted:
            return prices.Posted(np.array([[0.01], [0.01], [0.001]]), np.zeros(1), {})

    result = simulate(gpus(4), [job("a", 4, 4, utility=Deadline(100.0, 9.0))], placers.PDORS(Falling()), slots=10)
    told = explain(result, "a")
    assert (told.waited, told.earliest_start, told.first_run) == (2, 0, 2)
    assert "It waited 2 slots: there was room, and later slots were cheaper" in told.text()


def test_the_head_of_the_line():
    """FIFO: c wants one GPU of two that are free, behind b that wants four. It waits 3 slots for both."""
    jobs = [job("a", 4, 2), job("b", 4, 4), job("c", 1, 1)]
    told = explain(simulate(gpus(4), jobs, placers.FIFO(), slots=40), "c")
    assert (told.waited, told.first_run, told.ahead, told.running, told.overtook) == (3, 3, 2, 1, 0)
    assert (told.earliest_start, told.reason, told.best, told.prices) == (0, "", None, ())
    assert told.taken == {"gpu": pytest.approx((2 + 2 + 4) / 12)}
    assert "2 jobs were here before it, 1 of them running" in told.text()


def test_overtaken_and_preempted():
    """SRTF: the long job pauses once for the short one; behind it a third waits while a later one runs first."""
    jobs = [job("long", 40, 4), job("short", 4, 4, arrival=3)]
    result = simulate(gpus(4), jobs, placers.SRTF(), slots=40)
    assert (explain(result, "long").pauses, explain(result, "short").pauses) == (1, 0)
    assert explain(result, "short").ahead == 1
    jobs = [job("first", 4, 4), job("long", 40, 4), job("short", 4, 4, arrival=1)]
    told = explain(simulate(gpus(4), jobs, placers.SRTF(), slots=40), "long")
    assert (told.waited, told.overtook) == (2, 1)
    assert "1 that came later ran first" in told.text()


@pytest.mark.parametrize("policy", [placers.FIFO(), placers.DRF(), placers.SRTF()], ids=lambda p: p.label)
def test_what_a_policy_without_promises_would_not_refuse(policy):
    """Too large a worker, and too much work: the form it is told is not refused in a new run."""
    jobs = [job("wide", 4, 1, worker={"gpu": 8}), job("long", 50, 4)]
    result = simulate(gpus(4), jobs, policy, slots=10)
    for name in ("wide", "long"):
        told = explain(result, name)
        assert told.told[0].state == REFUSED
        assert told.changes and {one.payoff for one in told.changes} == {None}
        for one in told.changes:
            other = again(result, name, one.changes)
            assert other.decisions[[job.id for job in other.jobs].index(name)][0].state != REFUSED


# On whole runs


@pytest.fixture(scope="module", params=["PDORS", "PDORS replan and backfill", "OASiS"])
def crowded(request: pytest.FixtureRequest) -> Result:
    level = prices.Level(3.0, 30.0)
    policy: dict[str, Placer] = {
        "PDORS": placers.PDORS(prices=level),
        "PDORS replan and backfill": placers.PDORS(prices=level, replan=5, backfill=True),
        "OASiS": placers.OASiS(prices=level),
    }
    jobs = synthetic(40, seed=3, slots=20, small=True)
    return simulate(synthetic_cluster(4), jobs, policy[request.param], slots=20, seed=4)


def test_every_suggestion_holds_in_a_new_run(crowded):
    """Each job of a crowded run that was not promised on arrival: the form suggested is, at the payoff said."""
    suggested = 0
    for one, log in zip(crowded.jobs, crowded.decisions, strict=True):
        told = explain(crowded, one.id)
        assert not told.changes or log[0].state != ADMITTED
        if told.changes and suggested < 6:
            taken_with_every_change(crowded, told)
            suggested += 1
    assert suggested >= 3


def test_an_admitted_job_agrees_with_its_plan(crowded):
    """Worth and cost are those it was told; without re-planning, so are the slots and machines it then had."""
    admitted = 0
    for j, log in enumerate(crowded.decisions):
        if log[0].state != ADMITTED:
            continue
        admitted += 1
        told = explain(crowded, crowded.jobs[j].id)
        assert told.best is not None
        assert (told.best.worth, told.best.cost) == pytest.approx((log[0].worth, log[0].cost))
        assert sum(p.cost for p in told.prices) == pytest.approx(log[0].cost)
        assert told.earliest_start <= told.best.first and told.earliest_finish <= told.best.last
        if crowded.policy.replan == 0:
            rows = crowded.schedule[crowded.schedule[:, 0] == j]
            planned = {
                (t, crowded.cluster.names.index(name))
                for s in told.best.stretches
                for t in range(s.first, s.last + 1)
                for name in s.machines
            }
            assert planned >= {(t, h) for _, t, h, _, _ in rows.tolist()}
            assert told.first_run == told.best.first
    assert admitted >= 3


def test_a_run_explained_twice_is_the_same_and_plain(crowded):
    """Equal as values and as JSON, and the words of all jobs are a few lines each."""
    for one in list(crowded.jobs)[::5]:
        told = explain(crowded, one.id)
        assert told == explain(crowded, one.id)
        assert json.loads(json.dumps(told.as_dict())) == told.as_dict()
        assert 1 <= len(told.text().splitlines()) <= 8


# What it needs


def test_an_unknown_job_is_refused_with_the_nearest():
    with refused("unknown", "'trani'", "'train'"):
        explain(simulate(gpus(4), [job("train", 1, 1)], FREE, slots=5), "trani")


def test_prices_found_by_replay_are_not_searched_again(monkeypatch):
    """The run's own prices object keeps what it found."""
    cluster, jobs = gpus(4), Workload(tuple(job(f"{k}", 8, 4, arrival=k) for k in range(4)))
    found = prices.Replay(jobs)
    result = simulate(cluster, jobs, placers.PDORS(prices=found), slots=6)
    monkeypatch.setattr(prices.Replay, "_search", lambda *_: pytest.fail("searched again"))
    assert explain(result, "3").told == result.decisions[3]


def test_a_run_that_does_not_repeat_is_refused():
    """A policy that changes its mind cannot be asked why."""
    jobs = [job("a", 4, 4), job("b", 4, 4)]
    result = simulate(gpus(4), jobs, FREE, slots=10)
    other = replace(result, policy=placers.PDORS(prices=prices.Fixed({"gpu": 1000.0})))
    with refused("policy.repeat", "'a'"):
        explain(other, "b")


def test_a_session_that_cannot_be_copied_is_refused():
    """One holds a lock; another reaches the run from inside a function, past any copy."""

    class Session:
        def __init__(self, run: Execution, held: object) -> None:
            self.arrive, self.held = lambda j: run.decide(j, REFUSED, "no_capacity"), held

        def slot(self) -> None: ...

        def finished(self, job: int) -> None: ...

        def unfinished(self, job: int) -> None: ...

    @dataclass(frozen=True)
    class Refusing:
        held: object
        label: str = "Refusing"
        colour: str = "#000000"

        def start(self, run: Execution, seed: int) -> Any:
            return Session(run, self.held() if callable(self.held) else self.held)

    for held in (Lock, None):
        with refused("policy.copy", "Refusing"):
            explain(simulate(gpus(2), [job("a", 1, 1)], Refusing(held), slots=5), "a")
