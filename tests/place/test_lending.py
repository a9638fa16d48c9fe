"""Lending: what is idle runs whoever waits, without promise and without harm to what is promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.place import Cluster, Deadline, Job, Linear, Machine, placers, prices, simulate
from equipoise.place.placers import _replanning as lending
from equipoise.place.simulate import Result
from equipoise.place.traces.synthetic import regime

ONE = Cluster((Machine({"gpu": 1}),))
DEAR = prices.Fixed({"gpu": 10.0})


def job(id: str = "a", arrival: int = 0, work: float = 1.0, worth: float = 5.0, **changes: Any) -> Job:
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


def slots_of(result: Result, j: int) -> list[int]:
    return sorted(result.schedule[result.schedule[:, 0] == j, 1].tolist())


# By hand.


def test_a_job_too_poor_for_a_promise_runs_on_what_is_idle():
    """Three gpu-slots at 10 against a worth of 5: not promised, lent slots 1 to 3, and it earns its 5."""
    jobs = [job(arrival=1, work=3.0)]
    result = simulate(ONE, jobs, placers.PDORS(prices=DEAR), slots=6)
    assert told(result, 0) == [(1, "pending", "priced_out"), (1, "lent", "")]
    assert slots_of(result, 0) == [1, 2, 3]
    assert (result.finish.tolist(), result.utility, result.admitted) == ([3], 5.0, 0)
    assert result.certificate().passed
    refused = simulate(ONE, jobs, placers.PDORS(prices=DEAR, backfill=False), slots=6)
    assert told(refused, 0) == [(1, "refused", "priced_out")]
    assert refused.utility == 0.0


def test_a_promise_displaces_the_one_lent_to():
    """One that pays arrives at 1 and has slots 1 and 2; the poor one goes on at 3, nothing of its work lost."""
    jobs = [job("poor", work=3.0), job("rich", 1, 2.0, 100.0)]
    result = simulate(ONE, jobs, placers.PDORS(prices=DEAR), slots=6)
    assert slots_of(result, 0) == [0, 3, 4]
    assert slots_of(result, 1) == [1, 2]
    assert result.finish.tolist() == [4, 2]
    assert told(result, 1) == [(1, "admitted", "")]


def test_one_begun_on_lent_slots_is_promised_the_rest_when_that_pays():
    """Worth 3, four slots at 1. After one lent slot the rest costs 3, no; after two it costs 2: promised."""
    result = simulate(ONE, [job(work=4.0, worth=3.0)], placers.PDORS(prices=prices.Fixed({"gpu": 1.0})), slots=9)
    assert told(result, 0) == [(0, "pending", "priced_out"), (0, "lent", ""), (2, "admitted", "")]
    assert (result.decisions[0][-1].worth, result.decisions[0][-1].cost) == pytest.approx((3.0, 2.0))
    assert result.finish.tolist() == [3]


def test_a_promise_on_the_rest_goes_on_where_the_job_runs():
    """Restart .25: two lent slots did 1.75 of 3.75; on the same gpu the rest is two slots at 1, begun anew three."""
    jobs = [job(work=3.75, worth=3.5, restart=0.25)]
    result = simulate(ONE, jobs, placers.PDORS(prices=prices.Fixed({"gpu": 1.0})), slots=9)
    assert told(result, 0)[-1] == (2, "admitted", "")
    assert result.decisions[0][-1].cost == pytest.approx(2.0)
    assert result.finish.tolist() == [3]


def test_a_promise_on_the_rest_cannot_be_displaced():
    """The same job against a rich one at 3 that wants slot 3: promised since 2, it keeps it; the rich one waits for 4."""
    jobs = [job(work=4.0, worth=3.0), job("rich", 3, 1.0, 100.0)]
    result = simulate(ONE, jobs, placers.PDORS(prices=prices.Fixed({"gpu": 1.0})), slots=9)
    assert result.finish.tolist() == [3, 4]


def test_one_that_never_ran_is_not_offered_again(monkeypatch: pytest.MonkeyPatch):
    """Only those begun are: three wait for one gpu that is promised; none of them is asked."""
    asked: list[int] = []
    from equipoise.place.placers import pdors

    offer = pdors.PDORSSession.offer
    monkeypatch.setattr(
        pdors.PDORSSession, "offer", lambda self, j, **more: (asked.append(j), offer(self, j, **more))[1]
    )
    jobs = [job("rich", work=4.0, worth=100.0), *(job(str(k), worth=1.0) for k in range(3))]
    result = simulate(ONE, jobs, placers.PDORS(prices=DEAR), slots=4)
    assert asked == [0, 1, 2, 3]
    assert result.states == ("admitted", "pending", "pending", "pending")


def test_the_densest_is_lent_to_first():
    """Worth 4 in one slot before worth 6 in three; by the remaining work, not the whole."""
    jobs = [job("long", work=3.0, worth=6.0), job("short", work=1.0, worth=4.0)]
    result = simulate(ONE, jobs, placers.PDORS(prices=DEAR), slots=6)
    assert result.finish.tolist() == [3, 0]
    jobs = [job("long", work=3.0, worth=6.0), job("late", 2, work=1.0, worth=4.0)]
    result = simulate(ONE, jobs, placers.PDORS(prices=DEAR), slots=6)
    assert result.finish.tolist() == [2, 3]  # 6 for the slot it has left, against 4


def test_a_job_is_lent_the_width_it_asked_for():
    """At most four workers and two requested, on four idle gpus: two, where a promise gives four."""
    cluster = Cluster((Machine({"gpu": 4}),))
    wide = job(work=8.0, batch=4, requested=2, utility=Linear(5.0, 50.0))
    lent = simulate(cluster, [wide], placers.PDORS(prices=DEAR), slots=9)
    assert lent.schedule[:, 3].tolist() == [2, 2, 2, 2]
    promised = simulate(cluster, [wide], placers.PDORS(), slots=9)
    assert promised.schedule[:, 3].tolist() == [4, 4]


def test_a_width_that_does_not_fit_is_not_lent_in_part():
    """Three gpus, one promised. The denser of two asks for three: it is passed over, and the other gets its two."""
    cluster = Cluster((Machine({"gpu": 3}),))
    rich = job("rich", worth=100.0, utility=Deadline(100.0, 0))
    wide, slim = job("wide", work=3.0, worth=11.0, batch=3), job("slim", work=2.0, batch=2, requested=2)
    finish = [
        simulate(cluster, [rich, wide.but(requested=w), slim], placers.PDORS(prices=DEAR), slots=1).finish.tolist()
        for w in (3, 2)
    ]
    assert finish == [[0, -1, 0], [0, -1, -1]]


def test_the_four_things_a_job_can_be_told():
    """Admitted; lent to; pending since the gpu is taken; refused since it can never run. Each with its reason."""
    cluster = Cluster((Machine({"gpu": 2}),))
    jobs = [
        job("promised", work=3.0, worth=100.0),
        job("lent", work=9.0, worth=9.0),
        job("pending", work=9.0, worth=1.0),
        job("wide", worker={"gpu": 3}),
        job("long", work=99.0),
    ]
    result = simulate(cluster, jobs, placers.PDORS(prices=DEAR), slots=3)
    assert result.states == ("admitted", "refused", "refused", "refused", "refused")  # nine slots are beyond three
    result = simulate(cluster, jobs, placers.PDORS(prices=DEAR), horizon=10)
    assert [told(result, j)[-1][1:] for j in range(5)] == [
        ("admitted", ""),
        ("lent", ""),
        ("lent", ""),
        ("refused", "infeasible_alone"),
        ("refused", "beyond_horizon"),
    ]
    assert told(result, 2) == [(0, "pending", "priced_out"), (3, "lent", "")]


def test_nothing_is_lent_to_one_that_can_never_finish():
    """Longer than the horizon: it would only burn idle power."""
    result = simulate(ONE, [job(work=11.0)], placers.PDORS(prices=DEAR), horizon=10)
    assert len(result.schedule) == 0


def test_lent_work_counts_restarts():
    """A quarter lost at the start and again after a promise came between: .75 + (.75 + 1) = 2.5 by slot 4."""
    jobs = [job("poor", work=2.5, restart=0.25), job("rich", 1, 2.0, 100.0)]
    result = simulate(ONE, jobs, placers.PDORS(prices=DEAR), slots=6)
    assert slots_of(result, 0) == [0, 3, 4]
    assert result.finish.tolist() == [4, 2]
    assert simulate(ONE, [jobs[0].but(work=2.51), jobs[1]], placers.PDORS(prices=DEAR), slots=6).finish[0] == 5


# On the spec's regimes.


@pytest.mark.parametrize("seed", range(4))
def test_lending_never_delays_a_promise(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Only this slot's idle machines are lent, after all arrivals: as long as nobody lent to is promised the rest,
    every promise and its finish is what it is without lending."""
    monkeypatch.setattr(lending, "OFFERS", 0)
    cluster, jobs, slots = regime("20x100-small", seed)
    lent, plain = (
        simulate(cluster, jobs, placers.PDORS(prices=prices.Level(25.0, 30.0), backfill=backfill), slots=slots)
        for backfill in (True, False)
    )
    assert lent.certificate().passed
    promised = [log[0].state == "admitted" for log in plain.decisions]
    assert [any(d.state == "admitted" for d in log) for log in lent.decisions] == promised
    assert sum(promised) > 5
    assert np.array_equal(lent.finish[promised], plain.finish[promised])
    assert lent.completed > plain.completed
    assert lent.utility > plain.utility
    for j in np.flatnonzero(np.array(lent.states) == "lent"):
        rows = lent.schedule[lent.schedule[:, 0] == j]
        assert {int(rows[rows[:, 1] == t, 3].sum()) for t in rows[:, 1]} == {jobs[j].requested}
        if lent.finish[j] >= 0:  # on lent slots alone, and it earns as any other
            assert lent.utilities[j] == jobs[j].utility(lent.finish[j] - jobs[j].arrival) > 0


@pytest.mark.parametrize("seed", range(3))
def test_lending_is_sound_with_everything_else(seed: int):
    """Offers to those begun, re-planning, restarts: certified; some were lent to first and promised the rest later."""
    cluster, jobs, slots = regime("20x100-small", seed)
    slow = [one.but(restart=0.1) for one in jobs]
    result = simulate(cluster, slow, placers.PDORS(prices=prices.Level(25.0, 30.0), replan=5), slots=slots)
    assert result.certificate().passed, result.certificate()
    assert ["pending", "lent", "admitted"] in [[d.state for d in log] for log in result.decisions]
