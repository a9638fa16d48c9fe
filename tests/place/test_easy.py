"""EASY backfill: holes are filled before a reservation, never against it; cases by hand and a plain loop of its own."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.place import placers
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Job, Linear, Unstated
from equipoise.place.simulate import Result, simulate


def job(name: str, work: float, width: int, *, arrival: int = 0, **more: object) -> Job:
    """So many workers of a GPU each do so many samples in a slot."""
    given: dict[str, object] = {"worker": {"gpu": 1}, "utility": Linear(1.0, 1000.0)} | more
    return Job(id=name, arrival=arrival, work=work, batch=width, time_per_sample=1.0, requested=width, **given)  # type: ignore[arg-type]


def run(machines: tuple[int, ...], jobs: list[Job], slots: int = 60) -> Result:
    cluster = Cluster(tuple(Machine({"gpu": n}, name=f"m{k}") for k, n in enumerate(machines)))
    return simulate(cluster, jobs, placers.EASY(), slots=slots, pace="unseen")


def starts(result: Result) -> list[int]:
    """The first slot of each job."""
    return [int(result.schedule[result.schedule[:, 0] == j, 1].min()) for j in range(len(result.jobs))]


def test_a_job_that_ends_before_the_reservation_fills_the_hole():
    """Four GPUs, two of them taken for three slots; b wants all four, so slot 3 is its. c ends in slot 2: it may."""
    result = run((4,), [job("a", 6, 2), job("b", 4, 4), job("c", 6, 2)])
    assert starts(result) == [0, 3, 0]
    assert result.states == ("lent",) * 3  # it promises nothing
    assert starts(simulate(result.cluster, result.jobs, placers.FIFO(), slots=60)) == [0, 3, 4]


def test_a_job_that_would_delay_the_reservation_waits():
    """The same, but c needs a slot more: it would end in slot 3, when b has all four GPUs."""
    assert starts(run((4,), [job("a", 6, 2), job("b", 4, 4), job("c", 8, 2)])) == [0, 3, 4]


def test_a_long_job_may_have_what_the_head_leaves_over_on_other_machines():
    """Machines of three: a frees the first in slot 3, x the second in 6. b (three together) will have the first; c (one, for
    ten slots) finds one GPU free on either, and only that of the second machine is not b's."""
    jobs = [job("a", 6, 2), job("x", 12, 2), job("b", 3, 3), job("c", 10, 1)]
    result = run((3, 3), jobs)
    assert starts(result) == [0, 0, 3, 0]
    assert {(row[0], row[2]) for row in result.schedule.tolist()} == {(0, 0), (1, 1), (2, 0), (3, 1)}


def test_who_runs_longer_than_stated_keeps_its_machine():
    """a says three slots and takes six: b waits for it; while it may end any slot, only a job of one slot fills the hole."""
    jobs = [job("a", 6, 2, actual=2.0), job("b", 4, 4), job("long", 4, 2, arrival=3), job("short", 2, 2, arrival=4)]
    assert starts(run((4,), jobs)) == [0, 6, 7, 4]


def test_a_restart_counts_in_what_a_job_needs():
    """c's three slots become four with half a slot lost when it starts: too long for the hole."""
    assert starts(run((4,), [job("a", 6, 2), job("b", 4, 4), job("c", 6, 2, restart=0.5)])) == [0, 3, 4]


def reference(gpus: int, jobs: list[Job], slots: int) -> dict[str, int]:
    """EASY on one machine, slot by slot, with sets: when each job starts."""
    began: dict[str, int] = {}
    length = {one.id: -(-int(one.work) // int(one.requested or 1)) for one in jobs}
    for now in range(slots):
        running = [one for one in jobs if one.id in began and now < began[one.id] + length[one.id]]
        queue = [one for one in jobs if one.arrival <= now and one.id not in began]
        free = gpus - sum(one.requested or 0 for one in running)
        while queue and (queue[0].requested or 0) <= free:
            free -= queue[0].requested or 0
            began[queue[0].id] = now
            running.append(queue.pop(0))
        if not queue:
            continue
        head, then, room = queue[0], now, free
        while room < (head.requested or 0):
            then += 1
            room = gpus - sum(one.requested or 0 for one in running if then < began[one.id] + length[one.id])
        room -= head.requested or 0
        for one in queue[1:]:
            width = one.requested or 0
            if width <= free and (now + length[one.id] <= then or width <= room):
                began[one.id] = now
                free -= width
                room -= width if now + length[one.id] > then else 0
    return began


@pytest.mark.parametrize("seed", range(12))
def test_on_one_machine_it_starts_jobs_when_a_plain_loop_does(seed: int):
    """Forty random jobs on eight GPUs, durations as stated; and nobody is stopped or moved."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 40, 40))
    drawn = [(int(w), int(n)) for w, n in zip(rng.integers(1, 9, 40), rng.integers(1, 12, 40), strict=True)]
    jobs = [job(str(k), w * n, w, arrival=int(arrival[k])) for k, (w, n) in enumerate(drawn)]
    result = run((8,), jobs, slots=400)
    assert dict(zip([one.id for one in result.jobs], starts(result), strict=True)) == reference(8, jobs, 400)
    assert [int(f) - s + 1 for f, s in zip(result.finish, starts(result), strict=True)] == [n for _, n in drawn]
    assert result.certificate().passed


@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_stopped_or_moved_on_many_machines(seed: int):
    """Servers, several resources, restarts and wrong durations: each job's seats are the same in every slot, in a row."""
    from equipoise.place import traces

    cluster, jobs, slots = traces.regime("20x100-small", 500 + seed)
    rng = np.random.default_rng(seed)
    jobs = type(jobs)(tuple(one.but(restart=0.1, actual=float(rng.uniform(0.5, 1.5))) for one in jobs), jobs.slot)
    result = simulate(cluster, jobs, placers.EASY(), slots=3 * slots)
    assert result.certificate().passed
    ran = np.unique(result.schedule[:, 0])
    assert len(ran) > 5
    for j in ran:
        rows = result.schedule[result.schedule[:, 0] == j]
        when, number = np.unique(rows[:, 1], return_counts=True)
        assert (np.diff(when) == 1).all()
        assert (number == number[0]).all()
        assert len(np.unique(rows[:, 2:], axis=0)) == number[0]


def test_a_job_that_fits_no_type_stops_nobody() -> None:
    """Three GPUs on machines of two, of two types: refused, and the other runs."""
    cluster = Cluster((Machine({"gpu": 2}, 1, "x", type="a"), Machine({"gpu": 2}, 1, "y", type="b")))
    jobs = [Job(name, 0, 4.0, 4, 1.0, {"gpu": gpus}, Unstated()) for name, gpus in (("a", 3), ("b", 1))]
    result = simulate(cluster, jobs, placers.EASY(), horizon=5)
    assert result.states[0] == "refused" and result.finish[1] >= 0
