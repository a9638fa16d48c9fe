"""Prices: what is posted on an empty, half-used and full machine, by hand; and that it comes from history only."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.place import Cluster, Deadline, Job, Linear, Machine, Workload, placers, prices, simulate
from equipoise.place.execution import Execution
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.planner.packing import cost_of
from equipoise.place.prices._posted import LEAST, MOST, LoadIndex, clearing, cut
from equipoise.place.prices.replay import Trial, trial_rows
from equipoise.place.traces.synthetic import regime
from refusals import refused

ONE = Cluster((Machine({"gpu": 1}),))
FROM_HISTORY = (prices.Recalled, prices.Replay)


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


def price_when(posted: prices.Posted, cluster: Cluster, used: int) -> float:
    """What one gpu-slot costs on the first machine when `used` of its gpus are taken."""
    planner = Planner(cluster, 3, posted.growth, posted.rows(0, 3))
    arrays = arrays_of(job(), cluster)
    if used:
        planner.take(arrays, np.array([[0, 0, used, 0]], np.int32))
    return float(cost_of(planner.occupancy, arrays, np.array([[0, 0, 1, 0]], np.int32)))


# The law.


def test_a_price_goes_from_low_to_high_through_their_geometric_mean():
    """L = 2 on an empty machine and U = 18 on a full one: 6 at half (spec, section 7)."""
    cluster = Cluster((Machine({"gpu": 4}),))
    posted = prices.Fixed({"gpu": 2.0}, ratio=9.0).post(Execution(cluster, Workload(()), 3, None))
    seen = [price_when(posted, cluster, used) for used in range(5)]
    assert [seen[0], seen[2], seen[4]] == pytest.approx([2.0, 6.0, 18.0], rel=1e-12)
    assert all(low < high for low, high in pairwise(seen))


def test_recalled_prices_reach_their_own_low_and_high():
    """L and U are of the whole cluster's resource in a slot; a gpu of eight costs an eighth."""
    cluster = Cluster((Machine({"gpu": 4}, 2),))
    posted = prices.Recalled(Workload((job(worth=7.0, work=2.0),))).post(Execution(cluster, Workload(()), 6, None))
    low, high = posted.note["L"], posted.note["U"]["gpu"]
    seen = [price_when(posted, cluster, used) for used in (0, 2, 4)]
    assert seen == pytest.approx([low / 8, math.sqrt(low * high) / 8, high / 8])


@pytest.mark.parametrize("kind", FROM_HISTORY)
def test_what_nobody_has_and_nobody_wants_makes_no_holes(kind: Any):
    """A resource no machine has, one that half of them lack, one that no job asks for: prices stay numbers, jobs run."""
    cluster = Cluster((Machine({"gpu": 2, "cpu": 4, "fpga": 0, "disk": 5}), Machine({"cpu": 4})))
    jobs = Workload(tuple(job(str(k), k, 2.0, worker={"gpu": k % 2, "cpu": 1}) for k in range(6)))
    posted = kind(jobs).post(Execution(cluster, jobs, 12, None), placers.PDORS())
    assert np.isfinite(posted.base).all() and (posted.base >= 0).all()
    assert np.isfinite(posted.growth).all() and (posted.growth >= 0).all()
    result = simulate(cluster, jobs, placers.PDORS(prices=kind(jobs)), slots=12)
    assert result.completed == 6
    assert result.certificate().passed


def test_prices_of_slots_are_met_in_their_slots():
    """Base 1, 2, 3 and then 3 for ever: jobs of one slot pay what their slot costs, however the ring has turned."""

    class Rows:
        def post(self, run: Execution, policy: Any = None) -> prices.Posted:
            return prices.Posted(np.array([[1.0], [2.0], [3.0]]) / 1000, np.zeros(1), {})

    jobs = [job(str(k), k, utility=Deadline(10.0, 0)) for k in range(7)]
    result = simulate(ONE, jobs, placers.PDORS(prices=Rows()), horizon=2)  # type: ignore[arg-type]
    assert [log[0].cost for log in result.decisions] == pytest.approx([1, 2, 3, 3, 3, 3, 3])


def test_a_slot_that_is_near_costs_less_than_one_far_ahead():
    """Lead 2: the slot k ahead costs 1 - e^(-(k+1)/2) of the level. A job of three slots pays the sum, whenever it comes."""
    near = [1 - math.exp(-(k + 1) / 2) for k in range(3)]
    jobs = [job(str(k), a, 3.0, utility=Deadline(10.0, 2)) for k, a in enumerate((0, 3, 7, 12))]
    result = simulate(ONE, jobs, placers.PDORS(prices=prices.Level(1.0, 1.0, lead=2.0)), horizon=4)
    assert [log[0].cost for log in result.decisions] == pytest.approx([sum(near)] * 4)
    flat = simulate(ONE, jobs, placers.PDORS(prices=prices.Level(1.0, 1.0)), horizon=4)
    assert [log[0].cost for log in flat.decisions] == pytest.approx([3.0] * 4)


def test_a_lead_ends_at_its_last_step():
    """Slots beyond the table cost what its last one does."""
    posted = prices.Posted(np.array([[2.0]]), np.zeros(1), {}, lead=np.array([0.25, 0.5]))
    assert posted.rows(9, 4)[:, 0].tolist() == [0.5, 1.0, 1.0, 1.0]


# The load.

PAST = Workload((job("x", 0, worth=5.0), job("y", 1, worth=3.0)))


def test_the_tide_is_the_clearing_price_of_those_who_came_lately():
    """Two slots of one gpu over an anchor of 4. Slot 0 sees the 5 and the 3 of history: both fit, the lowest is 3."""
    jobs = Workload((job("a", 0, worth=8.0), job("b", 2, worth=6.0), job("c", 2, worth=2.0), job("d", 2, worth=5.0)))
    load = LoadIndex(Execution(ONE, jobs, None, 2), PAST, 4.0, 2)
    assert load.at(0) == 3 / 4
    assert load.at(1) == 3 / 4
    assert load.at(2) == 8 / 4
    assert load.at(3) == 5 / 4  # 6 and 5 fill the two slots, 2 is out
    assert load.at(9) == LEAST  # nobody came


def test_the_tide_stays_within_bounds():
    jobs = Workload((job("a", 0, worth=9e6),))
    assert LoadIndex(Execution(ONE, jobs, None, 1), PAST, 1.0, 1).at(1) == MOST


def test_prices_rise_when_the_load_does():
    """Level 1, anchor 4. After a run of jobs worth 40 a slot the same job pays more than after a run of jobs worth 4."""

    def cost(worth: float) -> float:
        jobs = [job(str(k), k, worth=worth, utility=Deadline(worth, 0)) for k in range(12)]
        last = job("last", 12, utility=Deadline(1000.0, 0))
        level = prices.Level(1.0, 1.0, follow=(4.0, PAST))
        result = simulate(ONE, [*jobs, last], placers.PDORS(prices=level, backfill=False), horizon=4)
        return result.decisions[-1][0].cost

    assert cost(4.0) == pytest.approx(1.0)
    assert cost(40.0) == pytest.approx(10.0)


# Constants from history.

BOTH = Cluster((Machine({"gpu": 2, "cpu": 4}, 2),))
A = Job("A", 0, 6.0, 2, 1.0, {"gpu": 1, "cpu": 1}, Linear(10.0, 20.0))
B = Job(
    "B",
    0,
    6.0,
    2,
    1.0,
    {"gpu": 1},
    Linear(20.0, 20.0),
    server={"cpu": 2},
    workers_per_server=2,
    gradient=1.0,
    inside=4.0,
    between=1.0,
)


def test_recalled_constants_by_hand():
    """Ten slots, totals gpu 4 and cpu 8.

    A: 2 a slot, done in 3, u = 9; u(10) = 5; 6 worker-slots either way; shares 1/4, 1/8.     U: 36, 72.
    B: sigma 1.5 and 3; 4/3 a slot on one machine, done in 5, u = 16; u(10) = 10; 9 and 18 worker-slots; shares 1/4, 1/4.
    U: 64, 64.   mu = max(20/(6 x 3/8), 20/(9 x 1/2)) = 80/9.   L = min(5/(2 mu 6 x 3/8), 10/(2 mu 18 x 1/2)) = 1/16.
    """
    posted = prices.Recalled(Workload((A, B))).post(Execution(BOTH, Workload(()), 10, None))
    assert posted.note["U"] == pytest.approx({"gpu": 64.0, "cpu": 72.0})
    assert posted.note["L"] == pytest.approx(1 / 16)
    assert (posted.base[0] * BOTH.total).tolist() == pytest.approx([1 / 16, 1 / 16])
    assert (posted.base[0] * np.exp(posted.growth) * BOTH.total).tolist() == pytest.approx([64.0, 72.0])


def test_recalled_takes_several_histories_as_one():
    one = prices.Recalled(Workload((A, B))).post(Execution(BOTH, Workload(()), 10, None))
    two = prices.Recalled([Workload((A,)), Workload((B,))]).post(Execution(BOTH, Workload(()), 10, None))
    assert one.note == two.note


def test_a_resource_no_past_job_asked_for_is_as_dear_as_the_dearest():
    """All of U is then the gpu's, 10 / (1/4); zero demand divides nothing."""
    posted = prices.Recalled(Workload((job(),))).post(Execution(BOTH, Workload(()), 10, None))
    assert posted.note["U"] == pytest.approx({"gpu": 40.0, "cpu": 40.0})


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.just(0.0) | st.floats(1e-6, 1e6),
            st.floats(1e-3, 1e6),
            st.integers(1, 50),
            st.integers(0, 2),
            st.integers(0, 4),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 300),
)
def test_recalled_low_is_below_high_for_any_history(rows: list[tuple[Any, ...]], horizon: int):
    """Worthless jobs, jobs worth nothing at the end, tiny and endless ones: the price still rises, and is finite."""
    past = Workload(
        tuple(
            job(str(k), 0, work, worth, utility=Linear(worth, span), worker={"gpu": gpu, "cpu": cpu or 1})
            for k, (worth, work, span, gpu, cpu) in enumerate(rows)
        )
    )
    posted = prices.Recalled(past).post(Execution(BOTH, Workload(()), None, horizon))
    assert (posted.growth > 0).all()
    assert (posted.base > 0).all()
    assert np.isfinite(posted.base * np.exp(posted.growth)).all()


def test_densities_are_worth_over_the_share_of_the_cluster_held():
    """A: dominant share 1/4 for 6 worker-slots, 9 / 1.5. B: a worker and half a server, 1/4, for 9: 16 / 2.25."""
    found = prices.densities(BOTH, Workload((A, B, job("long", work=99.0), job("wide", worker={"gpu": 3}))), 10)
    assert found.need.tolist() == pytest.approx([1.5, 2.25])
    assert found.density.tolist() == pytest.approx([6.0, 16 / 2.25])


@pytest.mark.parametrize(("slots", "price"), [(1, 9.0), (2, 5.0), (3, 1.0), (4, 1.0), (100, 1.0)])
def test_the_clearing_price_is_that_of_the_one_who_fills_the_last_slot(slots: int, price: float):
    """Needs 1, 1.5 and 1 of slots, paying 5, 9 and 1: by the price, 1.5 is gone first, then 2.5, then 3.5."""
    assert cut(np.array([5.0, 9.0, 1.0]), np.array([1.0, 1.5, 1.0]), slots) == price


def test_clearing_takes_the_middle_history():
    """One gpu and one slot each: the dearest of each history clears it; 3, 5 and 40: 5."""
    pasts = [Workload((job("a", worth=v), job("b", worth=1.0))) for v in (40.0, 3.0, 5.0)]
    assert clearing(Execution(ONE, Workload(()), 1, None), pasts) == 5.0


# History only.

SMALL = Cluster((Machine({"gpu": 2}, 2),))


def crowd(seed: int, count: int = 14) -> Workload:
    """More than two machines of two gpus can do in twelve slots."""
    rng = np.random.default_rng(seed)
    return Workload(
        tuple(
            job(
                str(k),
                int(rng.integers(0, 8)),
                float(rng.uniform(1, 8)),
                batch=3,
                utility=Linear(float(rng.uniform(1, 30)), 12.0),
            )
            for k in range(count)
        )
    )


@pytest.mark.parametrize("times", [{"slots": 12}, {"horizon": 6}], ids=str)
@pytest.mark.parametrize("kind", FROM_HISTORY)
def test_the_jobs_being_scored_do_not_move_the_prices(kind: Any, times: dict[str, int]):
    """Calibrated twice on one history, for two workloads that have nothing in common; another history does move them."""

    def posted(past: int, scored: Workload) -> prices.Posted:
        return kind(crowd(past)).post(
            Execution(SMALL, scored, times.get("slots"), times.get("horizon")), placers.PDORS()
        )

    one, two = posted(1, crowd(2)), posted(1, Workload((job(worth=1e6), job("b", 3, worth=1e-6))))
    assert one.note == two.note
    for name in ("base", "growth", "lead"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert one.note != posted(5, crowd(2)).note or not np.array_equal(one.base, posted(5, crowd(2)).base)


@pytest.mark.parametrize("nothing", [None, [], Workload(()), [Workload(())], [3]], ids=repr)
@pytest.mark.parametrize("kind", FROM_HISTORY)
def test_without_history_there_are_no_prices(kind: Any, nothing: Any):
    """One line that says how to give it."""
    with refused("prices.history"):
        simulate(SMALL, crowd(1), placers.PDORS(prices=kind(nothing)), slots=12)


# Fixed.


@pytest.mark.parametrize("ratio", [0.5, 0.0, -1.0, math.nan, math.inf, "10", True])
def test_a_ratio_below_one_is_refused(ratio: Any):
    with refused("number.form" if ratio in ("10", True) else "prices.ratio", "ratio", repr(ratio)):
        prices.Fixed({"gpu": 1.0}, ratio)


@pytest.mark.parametrize("price", [-1.0, math.nan, math.inf, "1", True])
def test_a_price_below_nothing_is_refused(price: Any):
    with refused("number.form" if price in ("1", True) else "prices.range", "gpu", repr(price)):
        prices.Fixed({"gpu": price})


def test_a_price_of_what_the_cluster_has_not_is_refused():
    with refused("unknown", "Fixed", "'tpu'"):
        simulate(ONE, [job()], placers.PDORS(prices=prices.Fixed({"tpu": 1.0})), slots=3)


def test_resources_without_a_price_cost_nothing():
    """Two slots of 1 gpu at 3 and 1 cpu at nothing: 6."""
    result = simulate(
        BOTH, [job(work=2.0, worker={"gpu": 1, "cpu": 1})], placers.PDORS(prices=prices.Fixed({"gpu": 3.0})), slots=4
    )
    assert result.decisions[0][0].cost == pytest.approx(6.0)


# Replay.


def test_a_trial_is_what_its_prices_earn_on_history():
    """Every candidate run again by hand; the one posted earned most."""
    past, policy = [crowd(1), crowd(2)], placers.PDORS(replan=3)
    run, kind = Execution(SMALL, crowd(3), 12, None), prices.Replay([crowd(1), crowd(2)])
    found = kind.trials(run, policy)
    again = [sum(simulate(SMALL, p, placers.PDORS(prices=t.prices), slots=12).utility for p in past) for t in found]
    assert [t.utility for t in found] == again
    assert len(set(again)) > 3
    best = found[int(np.argmax(again))].prices
    note = kind.post(run, policy).note
    assert (note["level"], note["ratio"], note["lead"]) == (best.level, best.ratio, best.lead)


def test_the_candidate_marked_as_chosen_is_the_one_posted(monkeypatch: pytest.MonkeyPatch):
    """Of 100 at level 2, 99.95 at level 1 and 99.8 at level 0 the second: within a thousandth of the most, and lower."""
    earned = [(0.0, 99.8), (1.0, 99.95), (2.0, 100.0)]
    table = [Trial(prices.Level(level, 1.0), utility, 3) for level, utility in earned]
    monkeypatch.setattr(prices.Replay, "trials", lambda self, run, policy: table)
    assert [row["chosen"] for row in trial_rows("PDORS", table)] == [False, True, False]
    posted = prices.Replay(crowd(1)).post(Execution(SMALL, crowd(2), 12, None), placers.PDORS())
    assert (posted.note["level"], posted.note["trials"]) == (1.0, 3)


def test_recalled_prices_are_next_to_nothing_until_full():
    """Why it is kept for fidelity only: on the spec's regime U / L is beyond any price a job could weigh."""
    cluster, past, slots = regime("20x40", 900)
    posted = prices.Recalled(past).post(Execution(cluster, past, slots, None))
    assert min(posted.note["U"].values()) / posted.note["L"] > 1e10
