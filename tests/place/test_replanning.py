"""Re-planning: promises are moved, never dropped; what was carried out stays; a try is kept only when it gains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.place import Cluster, Deadline, Job, Machine, placers, prices, simulate
from equipoise.place.placers import _replanning as replanning, pdors
from equipoise.place.planner.packing import room_value
from equipoise.place.traces.synthetic import regime

ONE = Cluster((Machine({"gpu": 1}),))
LEVEL = prices.Level(15.0, 30.0)


def job(id: str, arrival: int, work: float, worth: float, latest: int) -> Job:
    """One gpu, a sample a slot; `worth` when done at most `latest` slots after arrival."""
    return Job(id, arrival, work, 1, 1.0, {"gpu": 1}, Deadline(worth, latest))


# By hand.


def test_a_patient_promise_makes_way_for_an_urgent_job():
    """Slots 0 and 1 are promised to one that could wait; the other needs slot 1: re-planned, both earn, 10 + 5."""
    jobs = [job("patient", 0, 2.0, 10.0, 3), job("urgent", 1, 1.0, 5.0, 0)]
    without = simulate(ONE, jobs, placers.PDORS(backfill=False), slots=4)
    assert (without.finish.tolist(), without.utility) == ([1, -1], 10.0)
    result = simulate(ONE, jobs, placers.PDORS(replan=20), slots=4)
    assert (result.finish.tolist(), result.utility) == ([2, 1], 15.0)
    assert [(d.slot, d.state) for d in result.decisions[1]] == [(1, "pending"), (1, "admitted")]
    assert [d.state for d in result.decisions[0]] == ["admitted"]  # told once, moved in silence
    assert result.certificate().passed


def test_a_promise_is_not_broken_for_a_richer_job():
    """Worth a hundredth of the other and promised slot 1, it stays, with a third slot as well as without.

    Who takes all slack (1) is promised the last slot, and makes way.
    """
    jobs = [job("first", 0, 2.0, 1.0, 1), job("rich", 1, 1.0, 100.0, 0)]
    policy = placers.PDORS(replan=50, backfill=False)
    assert simulate(ONE, jobs, policy, slots=2).finish.tolist() == [1, -1]
    assert simulate(ONE, jobs, policy, slots=3).finish.tolist() == [1, -1]
    loose = simulate(ONE, jobs, placers.PDORS(replan=50, backfill=False, slack=1.0), slots=3)
    assert (loose.finish.tolist(), loose.due(0)) == ([2, 1], 2)


def test_only_what_is_left_is_planned_again():
    """Half done at slot 2, two slots left in which the rest fits: a single try lets the urgent job in.

    Planned as if nothing were done, four slots would not fit and the try would fail.
    """
    jobs = [job("half", 0, 4.0, 10.0, 4), job("urgent", 2, 1.0, 5.0, 0)]
    policy = placers.PDORS(replan=1, backfill=False)
    found = [simulate(ONE, jobs, policy, slots=5, seed=seed).finish.tolist() for seed in range(12)]
    assert [4, 2] in found
    assert all(finish in ([4, 2], [3, -1]) for finish in found)


def test_a_waiting_job_must_still_pay():
    """At 6 a gpu-slot a job worth 5 stays out, however often it is tried; at 4 it comes in by moving the other."""
    jobs = [job("patient", 0, 2.0, 100.0, 3), job("urgent", 1, 1.0, 5.0, 0)]
    for price, finish in ((6.0, [1, -1]), (4.0, [2, 1])):
        policy = placers.PDORS(prices=prices.Fixed({"gpu": price}), replan=50, backfill=False)
        assert simulate(ONE, jobs, policy, slots=4).finish.tolist() == finish


def test_without_tries_nothing_is_moved(monkeypatch: pytest.MonkeyPatch):
    """replan=0 never searches; replan=n makes n tries a slot, and no more."""
    calls: list[int] = []
    monkeypatch.setattr(pdors, "search", lambda session, tries: calls.append(tries))
    cluster, jobs, slots = regime("20x40", 1)
    simulate(cluster, jobs, placers.PDORS(prices=LEVEL), slots=slots)
    assert calls == []
    simulate(cluster, jobs, placers.PDORS(prices=LEVEL, replan=7), slots=slots)
    assert calls == [7] * slots


# On the spec's regimes.


@pytest.mark.parametrize("backfill", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_promises_are_kept(seed: int, backfill: bool):
    """Exact durations: whoever was ever admitted finishes, and no later than its last promise."""
    cluster, jobs, slots = regime("20x100-small", seed)
    result = simulate(cluster, jobs, placers.PDORS(prices=LEVEL, replan=15, backfill=backfill), slots=slots, seed=seed)
    promised = [j for j, log in enumerate(result.decisions) if any(d.state == "admitted" for d in log)]
    assert len(promised) > 10
    assert (result.finish[promised] >= 0).all()
    assert result.certificate().passed, result.certificate()
    moved = simulate(cluster, jobs, placers.PDORS(prices=LEVEL, backfill=backfill), slots=slots)
    assert result.schedule.tolist() != moved.schedule.tolist()


def test_promises_are_kept_with_restarts():
    """A change costs a fifth of a slot: plans that move a job count it."""
    cluster, jobs, slots = regime("20x100-small", 1)
    slow = [one.but(restart=0.2) for one in jobs]
    result = simulate(cluster, slow, placers.PDORS(prices=LEVEL, replan=15), slots=slots)
    assert result.certificate()["promise"].passed
    assert result.certificate().passed


def test_what_was_carried_out_stays(monkeypatch: pytest.MonkeyPatch):
    """The cells of each slot as they stood when it was decided are those in the schedule at the end."""
    cluster, jobs, slots = regime("20x100-small", 2)
    seen: list[list[int]] = []
    slot = pdors.PDORSSession.slot

    def spy(self: pdors.PDORSSession) -> None:
        slot(self)
        for j, cells in enumerate(self.run.cells):
            seen.extend([j, *row] for row in cells.tolist() if row[0] == self.run.now)

    monkeypatch.setattr(pdors.PDORSSession, "slot", spy)
    result = simulate(cluster, jobs, placers.PDORS(prices=LEVEL, replan=10), slots=slots)
    assert sorted(seen) == sorted(result.schedule.tolist())
    assert len(seen) > 100


def test_a_try_never_lowers_what_is_promised(monkeypatch: pytest.MonkeyPatch):
    """Worth less the value of the room taken, over all promised: up by each try that is kept, else the same."""
    cluster, jobs, slots = regime("20x100-small", 3)
    attempt = replanning._try
    kept = undone = 0

    def total(session: pdors.PDORSSession) -> float:
        return sum(
            plan.worth
            - float(room_value(session.planner.occupancy, session.run.arrays[j], session.ahead(j), replanning.LEVEL))
            for j, plan in session.promised.items()
        )

    def state(session: pdors.PDORSSession) -> Any:
        used = [session.planner.used(t).tolist() for t in range(session.run.now, slots)]
        return used, {j: session.ahead(j).tolist() for j in session.promised}

    def spy(session: pdors.PDORSSession, moved: list[int], joins: list[int]) -> None:
        nonlocal kept, undone
        before, was, names = total(session), state(session), set(session.promised)
        attempt(session, moved, joins)
        after = total(session)
        assert names <= set(session.promised) <= names | set(joins)
        if state(session) == was:
            undone += 1
            assert after == before
        else:
            kept += 1
            assert after > before
            for j in set(session.promised) - names:
                assert session.promised[j].payoff > 0

    monkeypatch.setattr(replanning, "_try", spy)
    simulate(cluster, jobs, placers.PDORS(prices=LEVEL, replan=10, slack=0.5), slots=slots)
    assert kept > 5
    assert undone > 5


def test_the_book_is_what_the_promises_hold(monkeypatch: pytest.MonkeyPatch):
    """After every slot's search, use of all later slots is the sum of the promised cells and nothing else."""
    cluster, jobs, slots = regime("20x100-small", 0)
    slot = pdors.PDORSSession.slot

    def spy(self: pdors.PDORSSession) -> None:
        slot(self)
        held = np.zeros((slots, cluster.size, len(cluster.resources)), dtype=np.int64)
        for j, cells in enumerate(self.run.cells):
            amount = cells[:, 2:3] * self.run.arrays[j].worker + cells[:, 3:4] * self.run.arrays[j].server
            np.add.at(held, (cells[:, 0], cells[:, 1]), amount)
        for t in range(self.run.now + 1, slots):
            assert np.array_equal(self.planner.used(t), held[t])

    monkeypatch.setattr(pdors.PDORSSession, "slot", spy)
    assert simulate(cluster, jobs, placers.PDORS(prices=LEVEL, replan=10), slots=slots).completed > 10


# It repeats.


def test_the_same_seed_repeats_bit_for_bit_and_another_does_not():
    """Tries are counted, not timed. Seeds are for the search alone: without it they change nothing."""
    cluster, jobs, slots = regime("20x100-small", 1)

    def run(replan: int, seed: int) -> Any:
        result = simulate(cluster, jobs, placers.PDORS(prices=LEVEL, replan=replan), slots=slots, seed=seed)
        return result.schedule.tolist(), result.finish.tolist(), result.decisions

    assert run(12, 1) == run(12, 1)
    assert run(12, 1) != run(12, 2)
    assert run(12, 1) != run(13, 1)
    assert run(0, 1) == run(0, 2)


def test_searching_pays_on_the_whole():
    """Not on every workload, but over four of them and by some percent."""
    totals = []
    for replan in (0, 15):
        policy = placers.PDORS(prices=prices.Level(5.0, 30.0), replan=replan, backfill=False)
        runs = (regime("20x100-small", seed) for seed in range(4))
        totals.append(sum(simulate(c, j, policy, slots=n).utility for c, j, n in runs))
    assert totals[1] > 1.05 * totals[0]
