"""The main loop: what is promised fits, what is given back is gone, and the clock tells the true finish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.errors import InputError
from equipoise.place import Cluster, Deadline, Job, Linear, Machine, Sigmoid, Workload, placers, prices, simulate
from equipoise.place.execution import NO_CELLS, Execution
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.traces.synthetic import regime
from refusals import refused

FREE = placers.PDORS(prices=prices.Fixed())
TWO = Cluster((Machine({"gpu": 2}, 2, "m"),))


def job(id: str = "a", **changes: Any) -> Job:
    """One worker does a sample a slot, wherever it is; four samples on at most two workers, worth 10 at first."""
    plain: dict[str, Any] = {
        "id": id,
        "arrival": 0,
        "work": 4.0,
        "batch": 2,
        "time_per_sample": 1.0,
        "worker": {"gpu": 1},
        "utility": Linear(10.0, 100.0),
    }
    return Job(**(plain | changes))


@dataclass
class Script:
    """A policy that gives each job the cells it is told to, at its arrival or when unfinished, and nothing else."""

    cells: dict[int, list[tuple[int, int, int, int]]]
    again: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    log: list[tuple[str, int, int]] = field(default_factory=list)
    label: str = "script"
    colour: str = "#000000"

    def start(self, run: Execution, seed: int) -> Script:
        self.run = run
        return self

    def arrive(self, job: int) -> None:
        self.log.append(("arrive", job, self.run.now))
        self.run.assign(job, np.array(self.cells.get(job, []), np.int32).reshape(-1, 4))

    def slot(self) -> None:
        pass

    def finished(self, job: int) -> None:
        self.log.append(("finished", job, self.run.now))
        self.run.assign(job, NO_CELLS)

    def unfinished(self, job: int) -> None:
        self.log.append(("unfinished", job, self.run.now))
        if job in self.again:
            self.run.assign(job, np.array(self.again.pop(job), np.int32).reshape(-1, 4))


# The occupancy under real jobs.

CLUSTER, JOBS, SLOTS = regime("20x100-small", 3)
SHAPES = [arrays_of(one, CLUSTER) for one in JOBS]


def used(planner: Planner, slots: int) -> np.ndarray:
    return np.array([planner.used(t) for t in range(slots)])


def test_capacity_holds_after_each_of_200_arrivals() -> None:
    """Every machine, slot and resource, after every plan taken; far more is offered than fits (spec, section 7)."""
    planner = Planner(CLUSTER, SLOTS, np.full(4, np.log(10.0)), np.zeros(4))
    capacity = CLUSTER.capacity[CLUSTER.type_of]
    taken = 0
    for k in range(200):
        j = k % len(JOBS)
        _, plan = planner.plan(SHAPES[j], np.linspace(2.0, 1.0, SLOTS), JOBS[j].work / 3, 0, SLOTS)
        if plan is not None:
            planner.take(SHAPES[j], plan.cells)
            taken += 1
        assert (used(planner, SLOTS) <= capacity).all()
    assert 20 < taken < 200
    assert used(planner, SLOTS).sum() > 0.5 * capacity.sum() * SLOTS / 4


@settings(max_examples=15)
@given(st.lists(st.integers(0, len(JOBS) - 1), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_admit_then_cancel_restores_the_state_exactly(chosen: list[int], random: Any) -> None:
    """Plans taken one on another and given back in any order: after each the whole occupancy is what it was without it."""
    planner = Planner(CLUSTER, SLOTS, np.full(4, np.log(100.0)), np.full(4, 1e-12))
    value = np.full(SLOTS, 1.0)
    held = []
    for j in chosen:
        before = used(planner, SLOTS)
        _, plan = planner.plan(SHAPES[j], value, JOBS[j].work / 4, 0, SLOTS)
        if plan is None:
            continue
        planner.take(SHAPES[j], plan.cells)
        planner.release(SHAPES[j], plan.cells)
        assert np.array_equal(used(planner, SLOTS), before)
        _, again = planner.plan(SHAPES[j], value, JOBS[j].work / 4, 0, SLOTS)
        assert again is not None and again.payoff == plan.payoff
        planner.take(SHAPES[j], plan.cells)
        held.append((j, plan.cells))
    random.shuffle(held)
    for k, (j, cells) in enumerate(held):
        planner.release(SHAPES[j], cells)
        rest = np.zeros((SLOTS, CLUSTER.size, 4), np.int64)
        for i, other in held[k + 1 :]:
            amount = other[:, 2:3] * SHAPES[i].worker + other[:, 3:4] * SHAPES[i].server
            np.add.at(rest, (other[:, 0], other[:, 1]), amount)
        assert np.array_equal(used(planner, SLOTS), rest)


# The edges of time.


def test_a_job_of_the_last_slot_can_still_finish_in_it() -> None:
    """Arrival and finish at T - 1: two workers do two samples in the one slot left."""
    result = simulate(TWO, [job(arrival=4, work=2.0)], FREE, slots=5)
    assert result.finish.tolist() == [4]
    assert result.utility == 10.0


def test_a_job_that_needs_exactly_all_slots_finishes_in_the_last() -> None:
    """Ten samples at two a slot from slot 0 end in slot 4 = T - 1."""
    result = simulate(TWO, [job(work=10.0)], FREE, slots=5)
    assert result.finish.tolist() == [4]


@pytest.mark.parametrize(
    ("changes", "times", "reason"),
    [
        ({"work": 10.1}, {"slots": 5}, "beyond_horizon"),
        ({"work": 10.1}, {"horizon": 5}, "beyond_horizon"),
        ({"arrival": 4, "work": 2.1}, {"slots": 5}, "beyond_horizon"),
        ({"arrival": 5}, {"slots": 5}, "beyond_horizon"),
        ({"arrival": 900}, {"slots": 5}, "beyond_horizon"),
        ({"worker": {"gpu": 3}}, {"slots": 5}, "infeasible_alone"),
        ({"server": {"gpu": 3}}, {"slots": 5}, "infeasible_alone"),
        ({"worker": {"gpu": 2}, "server": {"gpu": 2}, "work": 1.0, "arrival": 3}, {"horizon": 4}, ""),
    ],
)
def test_what_can_never_finish_is_refused_with_its_reason(
    changes: dict[str, Any], times: dict[str, int], reason: str
) -> None:
    """Longer than the time there is, or not fitting even an empty cluster; the last case just fits, on two machines."""
    result = simulate(TWO, [job(**changes)], FREE, **times)
    assert result.states == (("refused",) if reason else ("admitted",))
    assert result.decisions[0][-1].reason == reason
    assert (result.finish[0] < 0) == bool(reason)


def test_a_run_needs_an_end() -> None:
    with refused("slots.missing", "slots=T", "horizon=N"):
        simulate(TWO, [job()], FREE)


@pytest.mark.parametrize("times", [{"slots": 0}, {"slots": -1}, {"horizon": 0}, {"slots": 2.5}, {"slots": True}])
def test_an_end_is_a_whole_number_of_slots(times: dict[str, Any]) -> None:
    with refused("slots.range", next(iter(times))):
        simulate(TWO, [job()], FREE, **times)


def test_no_jobs_is_a_run_of_nothing() -> None:
    result = simulate(TWO, [], FREE, slots=3)
    assert (result.utility, result.completed, len(result.schedule)) == (0.0, 0, 0)


# The ring of slots.


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_a_ring_of_slots_plans_as_an_endless_row_does(seed: int) -> None:
    """Utilities end with the horizon, so a window of N slots and one of all slots look at the same ones: equal bits."""
    rng = np.random.default_rng(seed)
    n = 7
    arrivals = np.sort(rng.integers(0, 40, 30))
    jobs = [
        job(
            str(k),
            arrival=int(a),
            work=float(rng.uniform(1, 12)),
            batch=int(rng.integers(1, 5)),
            gradient=0.3,
            inside=float(rng.uniform(1, 5)),
            between=0.5,
            restart=float(rng.choice([0.0, 0.2])),
            server={"gpu": 1} if rng.random() < 0.5 else None,
            workers_per_server=2,
            utility=Deadline(float(rng.uniform(1, 20)), n - 1),
        )
        for k, a in enumerate(arrivals)
    ]
    cluster = Cluster((Machine({"gpu": 3}, 3, "m"), Machine({"gpu": 5}, 1, "n")))
    policy = placers.PDORS(prices=prices.Level(3.0, 20.0), backfill=False)
    rolling = simulate(cluster, jobs, policy, horizon=n)
    fixed = simulate(cluster, jobs, policy, slots=rolling.end)
    assert rolling.completed > 0
    assert np.array_equal(rolling.schedule, fixed.schedule)
    assert np.array_equal(rolling.finish, fixed.finish)


# Work that is not what was stated.


def test_a_job_that_finishes_early_gives_its_slots_to_another() -> None:
    """One gpu, both jobs say four slots, six in all: the second fits only since the first truly needed two."""
    one = Cluster((Machine({"gpu": 1}),))
    first = job("first", batch=1, actual=0.5)
    second = job("second", arrival=2, batch=1)
    early = simulate(one, [first, second], FREE, slots=6)
    right = simulate(one, [first.but(actual=1.0), second], FREE, slots=6)
    assert early.finish.tolist() == [1, 5]
    assert right.finish.tolist() == [3, -1]
    assert early.schedule[:, 1].tolist() == [0, 1, 2, 3, 4, 5]  # nothing is held after a finish


def test_a_late_job_is_planned_on_and_finishes() -> None:
    """Half as much again as stated: its cells run out after four slots, and it gets what it needs."""
    one = Cluster((Machine({"gpu": 1}),))
    result = simulate(one, [job(batch=1, actual=1.5)], FREE, slots=20)
    assert result.finish.tolist() == [5]
    assert result.schedule[:, 1].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_late_job_with_replanning_and_lending_finishes() -> None:
    """Stated work done and still not finished: what is left is unknown, and planning on must not need it."""
    jobs = [job(str(k), batch=2, actual=1.7, arrival=k) for k in range(6)]
    policy = placers.PDORS(prices=prices.Level(0.01, 10.0), replan=10, backfill=True)
    result = simulate(TWO, jobs, policy, slots=60)
    assert result.completed == 6


@pytest.mark.parametrize("work", [0.0, 1e-300, 1e-15])
def test_a_job_with_next_to_nothing_left_is_given_one_slot(work: float) -> None:
    """What is left of a late job as far as it said: still a schedule, the cheapest slot, and inside the tables."""
    planner = Planner(TWO, 5, np.array([1.0]), np.array([1e-3]))
    _, plan = planner.plan(arrays_of(job(), TWO), np.linspace(9.0, 5.0, 5), work, 0, 5)
    assert plan is not None
    assert plan.cells[:, [0, 2]].tolist() == [[0, 1]]


def test_the_desk_tells_of_the_finish_and_of_cells_that_ran_out() -> None:
    """Five samples, true; three slots given, then two more: unfinished at the end of slot 2, finished after slot 6."""
    script = Script({0: [(t, 0, 1, 0) for t in (0, 1, 2)]}, {0: [(t, 1, 1, 0) for t in (5, 6, 7, 8)]})
    result = simulate(TWO, [job(work=5.0, batch=1)], script, slots=10)
    assert script.log == [("arrive", 0, 0), ("unfinished", 0, 3), ("finished", 0, 7)]
    assert result.finish.tolist() == [6]
    assert result.schedule.tolist() == [[0, t, int(t > 2), 1, 0] for t in (0, 1, 2, 5, 6)]


# The rate law on the clock.


def test_a_change_costs_the_restart_and_staying_costs_nothing() -> None:
    """Restart 0.25 at a sample a worker: .75 (begin), 1, .75 (machine), 1.5 (width), 2, then a pause, .75 again = 6.75."""
    moves = [(0, 0, 1, 0), (1, 0, 1, 0), (2, 1, 1, 0), (3, 1, 2, 0), (4, 1, 2, 0), (6, 1, 1, 0), (7, 1, 1, 0)]
    script = Script({0: moves})
    for work, finish in (
        (0.75, 0),
        (1.75, 1),
        (1.76, 2),
        (2.5, 2),
        (4.0, 3),
        (6.0, 4),
        (6.75, 6),
        (6.76, 7),
        (7.76, -1),
    ):
        result = simulate(TWO, [job(work=work, restart=0.25)], script, slots=10)
        assert result.finish.tolist() == [finish], work


def test_a_restart_of_a_slot_or_more_lets_nothing_through_in_it() -> None:
    """Restart 3: the first slot gives nothing, the second what it would; never less than nothing."""
    script = Script({0: [(t, 0, 1, 0) for t in range(5)]})
    assert simulate(TWO, [job(work=2.0, restart=3.0)], script, slots=9).finish.tolist() == [2]


def test_one_server_elsewhere_slows_every_worker() -> None:
    """w 8, s 2: all on one machine 8 / sigma_i, one server elsewhere 8 / sigma_e (spec, section 7)."""
    cluster = Cluster((Machine({"gpu": 8, "cpu": 8}, 2, "m"),))
    one = job(
        batch=8, time_per_sample=1.0, gradient=2.0, inside=4.0, between=1.0, server={"cpu": 1}, workers_per_server=4
    )
    assert (one.sigma(one.inside), one.sigma(one.between)) == (1.5, 3.0)
    together, apart = [(0, 0, 8, 2)], [(0, 0, 8, 1), (0, 1, 0, 1)]
    for cells, rate in ((together, 8 / 1.5), (apart, 8 / 3.0)):
        for share, finish in ((0.999, 0), (1.001, -1)):
            result = simulate(cluster, [one.but(work=rate * share)], Script({0: cells}), slots=2)
            assert result.finish.tolist() == [finish]


# The same every time.


@pytest.mark.parametrize("more", [{}, {"replan": 10, "backfill": True}])
def test_the_same_seed_gives_the_same_run(more: dict[str, Any]) -> None:
    """Bit for bit: schedule, finish and every decision with its worth and cost; also from a generator of jobs."""
    cluster, jobs, slots = regime("20x40", 2)
    policy = placers.PDORS(prices=prices.Level(3.0, 10.0), **more)
    runs = [simulate(cluster, source, policy, slots=slots, seed=5) for source in (jobs, jobs, iter(jobs))]
    for run in runs[1:]:
        assert np.array_equal(run.schedule, runs[0].schedule)
        assert run.decisions == runs[0].decisions
        assert run.utility == runs[0].utility
    assert runs[0].completed > 0


def test_jobs_are_taken_in_order_of_arrival_and_ties_in_the_order_given() -> None:
    script = Script({})
    workload = Workload((job("c", arrival=2), job("a"), job("b")))
    result = simulate(TWO, workload, script, slots=4)
    assert [one.id for one in result.jobs] == ["a", "b", "c"]
    assert script.log == [("arrive", 0, 0), ("arrive", 1, 0), ("arrive", 2, 2)]


def test_a_flat_utility_earns_half_its_value_whenever_it_finishes() -> None:
    """th2 = 0: th1 / 2 for every d (spec, section 7), so a late finish earns what an early one does."""
    flat = Sigmoid(80.0, 0.0, 6.0)
    for first in (0, 5):
        script = Script({0: [(first + t, 0, 2, 0) for t in range(2)]})
        assert simulate(TWO, [job(utility=flat)], script, slots=9).utility == 40.0


@pytest.mark.parametrize(
    ("cells", "refusal"),
    [
        ([[0, 0, 1, 0]], ("cells.form", "list")),
        (np.array([[0.0, 0, 1, 0]]), ("cells.form", "float64")),
        (np.array([[0, 0, 1]], np.int32), ("cells.form", "(1, 3)")),
        (np.array([[99, 0, 1, 0]], np.int32), ("cells.slots", 99)),
        (np.array([[2, 0, 1, 0], [1, 0, 1, 0]], np.int32), ("cells.slots", 2, 1)),
    ],
)
def test_cells_that_cannot_be_carried_out_are_refused(cells: object, refusal: tuple[object, ...]) -> None:
    run = Execution(Cluster((Machine({"gpu": 1}),)), Workload((job("a"),)), 5, None)
    with refused(*refusal):
        run.assign(0, cells)  # type: ignore[arg-type]


def test_a_state_nobody_knows_is_refused() -> None:
    run = Execution(Cluster((Machine({"gpu": 1}),)), Workload((job("a"),)), 5, None)
    with refused("unknown", "'admitted'"):
        run.decide(0, "admited")


@pytest.mark.parametrize("limits", [{"horizon": 10**9}, {"slots": 10**8}, {"slots": float("nan")}, {"horizon": 10**6}])
def test_slips_of_magnitude_are_refused_at_once(limits: dict[str, int]) -> None:
    """Before any memory is taken: a billion slots ahead, or a million on a thousand machines."""
    with pytest.raises(InputError):
        simulate(Cluster((Machine({"gpu": 1}, 1000),)), [job("a")], FREE, **limits)


def test_widths_of_terabytes_do_not_wrap() -> None:
    """3,000 machines of 8Ti and a worker of 8Ti: a machine holds one, though 3,000 of them pass 64 bits."""
    one = Job("a", 0, 200.0, 5000, 1.0, {"memory": "8Ti"}, Deadline(10.0, 50))
    result = simulate(Cluster((Machine({"memory": "8Ti"}, 3000),)), [one], FREE, slots=60)
    assert result.certificate().passed and result.completed == 1


def test_a_run_ends_when_nobody_is_left() -> None:
    """One job of one slot and a horizon of a hundred: the policy is asked once, and the end stays where it was."""
    asked: list[int] = []
    one = Cluster((Machine({"gpu": 1}),))
    result = simulate(one, [job("a", work=1.0)], FREE, slots=100, progress=lambda now, _: asked.append(now))
    assert asked == [1] and result.end == 100 and result.completed == 1


def test_a_session_of_0_1_0_still_runs():
    """What it called stranded, desk and shapes has new names; the old ones warn."""

    class Old:
        def __init__(self, run):  # type: ignore[no-untyped-def]
            self.inner = placers.Slotwise(run)
            self.arrive, self.slot, self.finished = self.inner.arrive, lambda: None, self.inner.finished
            self.stranded = self.inner.unfinished

    class Wanted:
        label, colour = "old", "#000000"

        def start(self, run, seed):  # type: ignore[no-untyped-def]
            return Old(run)

    cluster, jobs, slots = regime("20x40", 0)
    with pytest.warns(DeprecationWarning, match="unfinished"):
        simulate(cluster, jobs, Wanted(), slots=slots)
    session = placers.Slotwise(Execution(cluster, jobs, slots, None))
    with pytest.warns(DeprecationWarning, match="run"):
        run = session.desk
    with pytest.warns(DeprecationWarning, match="arrays"):
        assert run.shapes is run.arrays
