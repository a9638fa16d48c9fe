"""PDORS: decided at once, at the prices of that moment; nothing that comes later is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from loaded import prices as dense_prices

from equipoise.place import Cluster, Deadline, Job, Linear, Machine, Workload, placers, prices, simulate
from equipoise.place.execution import Execution
from equipoise.place.placers import pdors
from equipoise.place.planner import Plan, Planner
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.simulate import Result
from equipoise.place.traces.synthetic import regime, synthetic
from refusals import refused

ONE = Cluster((Machine({"gpu": 1}),))
TWO = Cluster((Machine({"gpu": 2}, 2),))


def job(id: str = "a", arrival: int = 0, work: float = 1.0, worth: float = 10.0, **changes: Any) -> Job:
    """One worker of one gpu at a time, a sample a slot; worth the same whenever it is done."""
    plain: dict[str, Any] = {
        "id": id,
        "arrival": arrival,
        "work": work,
        "batch": 1,
        "time_per_sample": 1.0,
        "worker": {"gpu": 1},
        "utility": Deadline(worth, 99),
    }
    return Job(**(plain | changes))


def told(result: Result, j: int) -> list[tuple[int, str, str]]:
    return [(d.slot, d.state, d.reason) for d in result.decisions[j]]


# The rule.


@pytest.mark.parametrize(
    ("worth", "told_at_once"), [(20.01, "admitted"), (20.0, "refused"), (19.99, "refused")], ids=str
)
def test_a_job_is_admitted_when_it_is_worth_more_than_it_costs(worth: float, told_at_once: str):
    """Two gpu-slots at 10: worth more than 20, or not at all."""
    policy = placers.PDORS(prices=prices.Fixed({"gpu": 10.0}), backfill=False)
    result = simulate(ONE, [job(arrival=1, work=2.0, worth=worth)], policy, slots=5)
    assert told(result, 0) == [(1, told_at_once, "" if told_at_once == "admitted" else "priced_out")]
    assert result.completed == (told_at_once == "admitted")


def test_every_decision_is_the_best_there_is_at_its_moment():
    """Jobs of one worker: the best finish in slot t costs the cheapest slots up to t. Recomputed before every arrival."""
    rng = np.random.default_rng(4)
    jobs = Workload(
        tuple(
            job(
                str(k),
                int(rng.integers(0, 14)),
                float(rng.integers(1, 6)),
                utility=Linear(float(rng.uniform(1, 20)), float(rng.uniform(5, 20))),
            )
            for k in range(40)
        )
    )
    best: list[float] = []

    def watch(run: Execution, session: Any, j: int) -> None:
        session._tick()
        one, planner = jobs[j], session.planner
        costs = []
        for t in range(one.arrival, run.end):
            full = planner.used(t)[:, 0] >= 2000
            costs.append(np.where(full, np.inf, 1000 * dense_prices(planner, t)[:, 0]).min())
        need = int(one.work)
        payoffs = [one.utility(d) - sum(sorted(costs[: d + 1])[:need]) for d in range(need - 1, len(costs))]
        best.append(max(payoffs, default=-np.inf))

    policy = placers.PDORS(prices=prices.Level(4.0, 30.0), backfill=False)
    result = simulate(TWO, jobs, policy, slots=18, watch=watch)
    assert 5 < result.admitted < 35
    for j, (log, payoff) in enumerate(zip(result.decisions, best, strict=True)):
        assert [d.slot for d in log] == [jobs[j].arrival]
        assert (log[0].state == "admitted") == (payoff > 0)
        if log[0].state == "admitted":
            assert log[0].worth - log[0].cost == pytest.approx(payoff, rel=1e-9)


def test_a_promise_costs_its_cells_at_the_prices_before_it(monkeypatch: pytest.MonkeyPatch):
    """Each admission of a regime: the sum over its cells of demand times the posted price, from use alone."""
    cluster, jobs, slots = regime("20x40", 1)
    seen: dict[int, float] = {}
    admit = pdors.PDORSSession.admit

    def spy(self: pdors.PDORSSession, j: int, plan: Plan) -> None:
        arrays = self.run.arrays[j]
        slot_prices = {int(t): dense_prices(self.planner, int(t)) for t in plan.cells[:, 0]}
        seen[j] = sum(
            float((w * arrays.worker + s * arrays.server) @ slot_prices[t][h]) for t, h, w, s in plan.cells.tolist()
        )
        admit(self, j, plan)

    monkeypatch.setattr(pdors.PDORSSession, "admit", spy)
    result = simulate(cluster, jobs, placers.PDORS(prices=prices.Level(3.0, 30.0), backfill=False), slots=slots)
    assert len(seen) == result.admitted > 5
    for j, cost in seen.items():
        decision = result.decisions[j][0]
        assert decision.cost == pytest.approx(cost, rel=1e-6)
        assert decision.worth > decision.cost > 0
        assert decision.worth == jobs[j].utility(result.finish[j] - jobs[j].arrival)  # durations are exact: kept


@pytest.mark.parametrize("settings", [{"backfill": False}, {"backfill": True}, {"replan": 5}], ids=str)
def test_everybody_is_told_something_in_the_slot_of_arrival(settings: dict[str, Any]):
    """Admitted or refused at once; pending only where a later chance exists."""
    cluster, jobs, slots = regime("20x100-small", 2)
    result = simulate(cluster, jobs, placers.PDORS(prices=prices.Level(15.0, 30.0), **settings), slots=slots)
    firsts = [log[0] for log in result.decisions]
    assert [d.slot for d in firsts] == [one.arrival for one in jobs]
    other = "refused" if settings == {"backfill": False} else "pending"
    assert {d.state for d in firsts} - {"refused"} == {"admitted", other} - {"refused"}
    assert all((d.reason == "") == (d.state == "admitted") for d in firsts)


def test_reasons_tell_a_full_cluster_from_a_high_price():
    """The gpu is promised for all three slots: no capacity. It is free and dear: priced out."""
    policy = placers.PDORS(prices=prices.Fixed({"gpu": 1.0}))
    result = simulate(ONE, [job("a", work=3.0), job("b")], policy, slots=3)
    assert told(result, 1) == [(0, "pending", "no_capacity")]
    assert told(simulate(ONE, [job(worth=0.5)], policy, slots=3), 0)[0] == (0, "pending", "priced_out")


def test_a_promise_raises_the_price_for_the_next():
    """Two gpus, ratio 9: the first pays 1, the second sqrt(9) = 3; without a rise both pay 1."""
    cluster = Cluster((Machine({"gpu": 2}),))
    jobs = [job("a", utility=Deadline(10.0, 0)), job("b", utility=Deadline(10.0, 0))]
    steep = simulate(cluster, jobs, placers.PDORS(prices=prices.Fixed({"gpu": 1.0}, ratio=9.0)), slots=1)
    assert [log[0].cost for log in steep.decisions] == pytest.approx([1.0, 3.0])
    flat = simulate(cluster, jobs, placers.PDORS(prices=prices.Fixed({"gpu": 1.0})), slots=1)
    assert [log[0].cost for log in flat.decisions] == pytest.approx([1.0, 1.0])


# Causality.

CLUSTER = regime("20x100-small", 0)[0]
PASTS = [synthetic(50, seed=900, slots=20, small=True)]
KINDS = {
    "fixed": prices.Level(15.0, 30.0, lead=3.0),
    "recalled": prices.Recalled(PASTS),
    "replay": prices.Replay(PASTS),
}


@pytest.mark.parametrize("times", [{"slots": 24}, {"horizon": 9}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_later_changes_nothing_before(kind: str, times: dict[str, int]):
    """The same jobs with and without those that arrive from slot 8 on: equal decisions, cells and finishes until then."""
    jobs = synthetic(60, seed=5, slots=20, small=True)
    known = jobs[: sum(one.arrival < 8 for one in jobs)]
    policy = placers.PDORS(prices=KINDS[kind], replan=6)
    whole, part = (simulate(CLUSTER, given, policy, seed=3, **times) for given in (jobs, known))
    n = len(known)
    assert 0 < n < len(jobs)

    def until(result: Result) -> Any:
        rows = result.schedule[(result.schedule[:, 1] < 8) & (result.schedule[:, 0] < n)]
        finish = np.where(result.finish[:n] < 8, result.finish[:n], -1)
        log = [[d for d in result.decisions[j] if d.slot < 8] for j in range(n)]
        return rows.tolist(), finish.tolist(), log

    assert until(whole) == until(part)
    assert len(until(whole)[0]) > 20
    assert whole.schedule[whole.schedule[:, 0] < n].tolist() != part.schedule.tolist()  # and later it does matter


# Placers and methods.


@pytest.mark.parametrize("settings", [{"packing": "rounding"}, {"method": "dynamic"}], ids=str)
def test_the_papers_ways_make_sound_schedules(settings: dict[str, Any]):
    """The paper's rounding and its dynamic program on an overloaded regime: certified, and near the default's utility."""
    cluster, jobs, slots = regime("20x40", 1)
    posted = prices.Level(3.0, 30.0)
    paper = simulate(cluster, jobs[:16], placers.PDORS(prices=posted, backfill=False, **settings), slots=slots)
    ours = simulate(cluster, jobs[:16], placers.PDORS(prices=posted, backfill=False), slots=slots)
    assert paper.certificate().passed, paper.certificate()
    assert paper.utility > 0.5 * ours.utility > 0
    assert paper.schedule.tolist() != ours.schedule.tolist()  # it is another way indeed


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"packing": "gredy"}, ("unknown", "'gredy'", "'greedy'")),
        ({"method": "hul"}, ("unknown", "'hul'", "'hull'")),
        ({"packing": None}, ("unknown", "'None'")),
        ({"replan": -1}, ("replan.range", -1)),
        ({"replan": 1.5}, ("replan.range", 1.5)),
        ({"replan": True}, ("replan.range", "True")),
        ({"replan": 10**9}, ("replan.range", 10**9)),
        ({"prices": 3.0}, ("prices.type", 3.0, "Replay")),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], refusal: tuple[object, ...]):
    with refused(*refusal):
        placers.PDORS(**settings)


# Restart.


@pytest.mark.parametrize(("work", "finish"), [(0.75, 0), (2.75, 2), (2.76, 3), (5.75, 5)])
def test_a_restart_is_lost_once_when_nothing_changes(work: float, finish: int):
    """A quarter of the first slot, none of the others: .75, 1.75, 2.75, ... on four free machines to wander over."""
    cluster = Cluster((Machine({"gpu": 1}, 4),))
    result = simulate(cluster, [job(work=work, restart=0.25)], placers.PDORS(), slots=9)
    assert result.finish.tolist() == [finish]
    assert len(set(result.schedule[:, 2].tolist())) == 1
    assert result.decisions[0][0].worth > 0


def test_a_job_that_pays_for_restarts_stays_when_a_better_machine_is_free():
    """Machine 0 is taken in slots 0 and 1 and cheaper after: the job with a restart time stays where it began."""
    first = job("first", work=2.0, batch=1, utility=Deadline(10.0, 1))
    stays, wide = job("stays", work=3.9, restart=0.1), Cluster((Machine({"gpu": 1}, 2),))
    result = simulate(wide, [first, stays], placers.PDORS(prices=prices.Fixed({"gpu": 0.1}, ratio=5.0)), slots=6)
    (home,) = set(result.schedule[result.schedule[:, 0] == 0, 2].tolist())
    assert set(result.schedule[result.schedule[:, 0] == 1, 2].tolist()) == {1 - home}
    assert result.finish.tolist() == [1, 3]


def test_a_plan_with_restarts_keeps_a_machine_that_has_become_the_dearer():
    """Machine 0 is half used in slots 0 and 1, machine 1 in 2 and 3: with a restart time it stays on 1, without it moves."""
    planner = Planner(TWO, 4, np.array([np.log(5.0)]), np.array([1e-4]))
    planner.take(arrays_of(job(), TWO), np.array([[t, t // 2, 1, 0] for t in range(4)], np.int32))
    for work, restart, machines in ((3.75, 0.25, [1, 1, 1, 1]), (4.0, 0.0, [1, 1, 0, 0])):
        _, plan = planner.plan(arrays_of(job(restart=restart), TWO), np.full(4, 10.0), work, 0, 4)
        assert plan is not None
        assert plan.cells[:, 1].tolist() == machines


@pytest.mark.parametrize("seed", [1, 2])
def test_restarts_are_counted_and_cost(seed: int):
    """Half a slot for each change, with lending and re-planning: certified, and less is earned than without."""
    cluster, jobs, slots = regime("20x100-small", seed)
    policy = placers.PDORS(prices=prices.Level(15.0, 30.0), replan=5)
    slow, free = (simulate(cluster, [one.but(restart=r) for one in jobs], policy, slots=slots) for r in (0.5, 0.0))
    assert slow.certificate().passed, slow.certificate()
    assert 0 < slow.utility < free.utility


# Durations that are wrong.


def test_a_late_job_is_planned_on_around_what_was_promised_since():
    """First says 2 and needs 3; second was promised slots 2 and 3 meanwhile: first gets slot 4, and both finish.

    Where its pace is seen after slot 0, it has slot 2 before the second comes."""
    jobs = [job("first", work=2.0, actual=1.5), job("second", 1, 2.0)]
    for pace, finish in (("unseen", [4, 3]), ("seen", [2, 4])):
        result = simulate(ONE, jobs, placers.PDORS(backfill=False), slots=8, pace=pace)
        assert result.finish.tolist() == finish


def test_a_late_job_that_finds_no_room_is_told():
    """The other has the last two slots: no longer promised, pending for lack of capacity."""
    jobs = [job("a", work=2.0, actual=1.5), job("b", 1, 2.0)]
    tight = simulate(ONE, jobs, placers.PDORS(), slots=4, pace="unseen")
    assert told(tight, 0) == [(0, "admitted", ""), (2, "pending", "no_capacity")]
    assert tight.finish.tolist() == [-1, 3]


@pytest.mark.parametrize("actual", [0.5, 1.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_wrong_durations_leave_sound_schedules(seed: int, actual: float):
    """Everybody off by half: certified; those who end early leave room in which more is earned, late ones the reverse."""
    cluster, jobs, slots = regime("20x100-small", seed)
    policy = placers.PDORS(prices=prices.Level(15.0, 30.0), replan=5)
    right = simulate(cluster, jobs, policy, slots=slots)
    wrong = simulate(cluster, [one.but(actual=actual) for one in jobs], policy, slots=slots)
    assert wrong.certificate().passed, wrong.certificate()
    assert (wrong.utility > right.utility) == (actual < 1)
    assert (wrong.completed > right.completed) == (actual < 1)


def test_early_finishes_open_slots_that_were_promised():
    """Two say four slots of six on one gpu; the first needs two: the second, come at 1, is promised and done by 5."""
    jobs = [job("first", work=4.0, actual=0.5), job("second", 1, 4.0)]
    policy = placers.PDORS(prices=prices.Fixed({"gpu": 0.1}))
    seen = simulate(ONE, jobs, policy, slots=6)  # what the first does not need is free from slot 2 on, at slot 1
    assert told(seen, 1) == [(1, "admitted", "")] and seen.finish.tolist() == [1, 5]
    result = simulate(ONE, jobs, policy, slots=6, pace="unseen")
    assert told(result, 1) == [(1, "pending", "no_capacity"), (2, "lent", ""), (3, "admitted", "")]
    assert result.finish.tolist() == [1, 5]


# OASiS.


def served(**changes: Any) -> Job:
    """Eight workers and two servers: sigma 1.5 together and 3 apart, so 16/3 or 8/3 samples per slot."""
    return job(
        work=8.0,
        batch=8,
        gradient=2.0,
        inside=4.0,
        between=1.0,
        server={"cpu": 1},
        workers_per_server=4,
        utility=Linear(10.0, 10.0),
        **changes,
    )


ROOMY = Cluster((Machine({"gpu": 8, "cpu": 8}, 2),))


def test_oasis_plans_as_if_machines_never_held_both():
    """On one machine two slots would do and PDORS says so; OASiS promises three, u = 8, and lands early by luck only."""
    ours = simulate(ROOMY, [served()], placers.PDORS(), slots=9)
    other = simulate(ROOMY, [served()], placers.OASiS(prices=prices.Fixed()), slots=9)
    assert ours.decisions[0][0].worth == ours.utility == 9.0
    assert other.decisions[0][0].worth == 8.0
    assert other.certificate().passed


def test_oasis_refuses_what_needs_the_inside_rate():
    """Two slots, 8 samples: 32/3 together, 16/3 apart."""
    policy = placers.OASiS(prices=prices.Fixed(), backfill=False)
    assert simulate(ROOMY, [served()], placers.PDORS(backfill=False), slots=2).finish.tolist() == [1]
    result = simulate(ROOMY, [served()], policy, slots=2)
    assert result.finish.tolist() == [-1]
    assert result.states == ("refused",)


def test_oasis_never_counts_on_the_inside_rate():
    """A whole regime: the worth it promised each job is that of the between-machines rate over the cells, or less."""
    cluster, jobs, slots = regime("20x40", 2)
    plans: dict[int, Plan] = {}
    admit = pdors.PDORSSession.admit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pdors.PDORSSession, "admit", lambda self, j, plan: (plans.update({j: plan}), admit(self, j, plan))[1]
        )
        simulate(cluster, jobs, placers.OASiS(prices=prices.Level(10.0, 30.0), backfill=False), slots=slots)
    assert len(plans) > 3
    for j, plan in plans.items():
        done = sum(
            jobs[j].rate(int(plan.cells[plan.cells[:, 0] == t, 2].sum()), together=False)
            for t in np.unique(plan.cells[:, 0])
        )
        assert done >= jobs[j].work * (1 - 1e-8)


def test_oasis_and_pdors_agree_on_all_reduce_jobs():
    """No servers, nothing to keep apart."""
    jobs = [
        job(str(k), k % 4, 4.0, batch=4, gradient=1.0, inside=9.0, between=2.0, utility=Linear(9.0, 9.0))
        for k in range(9)
    ]
    one, two = (
        simulate(TWO, jobs, kind(prices=prices.Fixed({"gpu": 0.5}, ratio=4.0)), slots=9)
        for kind in (placers.PDORS, placers.OASiS)
    )
    assert one.schedule.tolist() == two.schedule.tolist()


def test_caution_plans_for_more_than_a_job_states():
    """It says two slots and takes two and a half: planned for 1.25 times, it has the third slot before another comes."""
    cluster = Cluster((Machine({"gpu": 1}),))
    late = Job("late", 0, 2.0, 1, 1.0, {"gpu": 1}, Deadline(10.0, 2), actual=1.25)
    next_one = Job("next", 1, 1.0, 1, 1.0, {"gpu": 1}, Deadline(5.0, 1))
    trusting, cautious = (
        simulate(
            cluster,
            [late, next_one],
            placers.PDORS(prices=prices.Fixed(), backfill=False, caution=c),
            slots=8,
            pace="unseen",
        )
        for c in (1.0, 1.25)
    )
    assert trusting.utility == 5.0 and trusting.finish.tolist() == [3, 2]
    assert cautious.utility == 10.0 and cautious.finish[0] == 2


@pytest.mark.parametrize(
    ("code", "caution"), [("caution.range", 0.0), ("caution.range", 11.0), ("number.form", "much")]
)
def test_a_caution_that_cannot_be_is_refused(code: str, caution: object):
    with refused(code, "caution", repr(caution)):
        placers.PDORS(prices=prices.Fixed(), caution=caution)  # type: ignore[arg-type]


def test_the_old_keyword_of_packing_is_taken_with_a_warning():
    """0.1.0 called it placer; a changed copy keeps what it said."""
    with pytest.warns(DeprecationWarning, match="packing="):
        old = placers.PDORS(placer="rounding")
    assert old == placers.PDORS(packing="rounding")
    assert replace(old, replan=3).packing == "rounding"


def test_a_job_found_longer_goes_on_beyond_its_date_only_if_that_pays():
    """It says two slots and needs four: nothing after slot 1, or 8, 7, 6, 5 in slots 0 to 3 and so on. Another comes in
    slot 1 for that slot alone: it has it where the first one waits, and the first is done on lent slots."""
    other = Job("other", 1, 1.0, 1, 1.0, {"gpu": 1}, Deadline(5.0, 0))
    policy = placers.PDORS(prices=prices.Fixed({"gpu": 0.1}))
    for utility, finish, then in (
        (Deadline(10.0, 1), [4, 1], [(1, "pending", "no_capacity"), (2, "lent", "")]),
        (Linear(8.0, 8), [3, 4], [(1, "admitted", "")]),
    ):
        first = Job("first", 0, 2.0, 1, 1.0, {"gpu": 1}, utility, actual=2.0)
        result = simulate(ONE, [first, other], policy, slots=8)
        assert result.finish.tolist() == finish
        assert told(result, 0) == [(0, "admitted", ""), *then]
        assert result.certificate().passed


def test_what_a_shorter_job_gives_back_is_promised_to_others_at_once():
    """Four slots said, two needed, seen after the first: the one that comes in slot 1 is promised slots 2 and 3."""
    jobs = [job("short", work=4.0, actual=0.5), Job("next", 1, 2.0, 1, 1.0, {"gpu": 1}, Deadline(5.0, 2))]
    result = simulate(ONE, jobs, placers.PDORS(backfill=False), slots=8)
    assert result.finish.tolist() == [1, 3] and result.due(1) == 3
    assert simulate(ONE, jobs, placers.PDORS(backfill=False), slots=8, pace="unseen").utility < result.utility
