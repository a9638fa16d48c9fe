"""Dated: its order, its dates and its plans by hand; room by count against brute force; and that nobody honest is late."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.errors import InputError
from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    Result,
    Sigmoid,
    Unstated,
    Workload,
    placers,
    simulate,
)
from equipoise.place.calendar import Calendar, Window
from equipoise.place.placers._pool import Levels, book, by_size, earliest, needed, plan, widest_at
from equipoise.place.placers._priced import searched_best
from equipoise.place.placers._seats import Due, seat_due
from equipoise.place.placers._slotwise import JobTable

FEW = st.integers(0, 3)


def job(name: str, slots: float, gpu: float = 1, *, arrival: int = 0, **more: Any) -> Job:
    """One worker with so many GPUs, for so many slots; nothing stated."""
    given: dict[str, Any] = {"worker": {"gpu": gpu}, "utility": Unstated(), "requested": 1} | more
    return Job(name, arrival, slots, 1, 1.0, **given)


def elastic(name: str, work: float, due: float, *, arrival: int = 0, worth: float = 1.0, most: int = 4) -> Job:
    """Up to `most` workers of a GPU each, a sample per worker and slot; worth something `due` slots after arrival."""
    return Job(name, arrival, work, most, 1.0, {"gpu": 1}, Deadline(worth, due))


def run(gpus: int, jobs: list[Job] | Workload, horizon: int = 100, **settings: Any) -> Result:
    policy = placers.Dated(**settings)
    return simulate(Cluster((Machine({"gpu": gpus}),)), jobs, policy, horizon=horizon)


def slots_of(result: Result, j: int) -> list[int]:
    return result.schedule[result.schedule[:, 0] == j, 1].tolist()


# Nothing stated.


@pytest.mark.parametrize("times", [-1.0, float("nan"), "much"])
def test_a_price_below_nothing_is_refused(times: Any) -> None:
    """By the name of the parameter, and what was given."""
    with pytest.raises(InputError, match="Dated: times"):
        placers.Dated(times=times)


def test_who_delays_others_least_runs_first():
    """Time left x share x own duration on two GPUs: a 4 x 1/2 x 4 = 8, b 3 x 1 x 3 = 9, c 5 x 1/2 x 5 = 12.5. So a and c
    run, and b, who needs both GPUs, after them; by time left alone b would be first."""
    jobs = [job("a", 4), job("b", 3, 2), job("c", 5)]
    assert run(2, jobs, dates=False).finish.tolist() == [3, 7, 4]
    assert simulate(Cluster((Machine({"gpu": 2}),)), jobs, placers.SRTF(), horizon=100).finish.tolist() == [6, 2, 7]


@pytest.mark.parametrize(("when", "first"), [(2, "x"), (6, "y"), (18, "y"), (19, "x")])
def test_a_late_job_is_put_back_and_a_very_late_one_is_not(when, first):
    """Small jobs (1 x 1) take the GPU until y comes. x counts 2 x 2 = 4, y 2.2 x 2.2 = 4.84. x is late when it ends more
    than 5 slots after it came, from slot 4 on: 4 x 1.4 = 5.6. Beyond 20 slots, from slot 19 on, it counts 4 again."""
    jobs = [job("x", 2), job("y", 2.2, arrival=when), *(job(str(t), 1, arrival=t) for t in range(when))]
    result = run(1, jobs, dates=False)
    ran = result.schedule[result.schedule[:, 1] == when, 0]
    assert [result.jobs[j].id for j in ran] == [first]


def test_a_promise_binds_when_it_is_now_or_never():
    """Four GPUs, and a job of one slot that wants all of them in each slot, worth less (1) than the long one (5/4 x 5) in
    the order. Without history a date is four times the guess of 5/4 + 5 slots: 25 slots, the last is 24. The long job is
    held in 20..24 and in no slot before; without dates it waits for the last of the short ones."""
    jobs = [job("long", 5), *(job(str(t), 1, 4, arrival=t) for t in range(40))]
    result = run(4, jobs)
    assert (result.states[0], result.due(0), slots_of(result, 0)) == ("admitted", 24, [20, 21, 22, 23, 24])
    assert result.decisions[0][0].slot == 0  # told on arrival
    assert slots_of(run(4, jobs, dates=False), 0)[0] >= 40
    assert result.certificate().passed


def test_promises_hold_a_quarter_of_a_slot_at_most():
    """Jobs that want more than one of four GPUs are promised nothing, as in the case above the short ones."""
    result = run(4, [job("a", 5, 2), job("b", 5)])
    assert [result.due(j) is None for j in range(2)] == [True, False]


# Deadlines and worth.


def test_deadlines_are_planned_anew_where_a_fixed_plan_would_refuse():
    """Two GPUs. a needs four GPU-slots by slot 3: one GPU in each of slots 0-3. b, who comes in slot 1, needs both in it:
    room is made, since a ran on both in slot 0 and may wait for slot 2. Then nothing is left for c, due in slot 1."""
    jobs = [elastic("a", 4, 3, most=2), elastic("b", 2, 0, arrival=1, most=2), elastic("c", 1, 0, arrival=1)]
    result = run(2, jobs, 10)
    assert result.states[:2] == ("admitted", "admitted")
    assert result.finish.tolist() == [2, 1, 3]
    assert result.decisions[2][0].reason == "no_capacity"
    assert run(2, jobs[:1], 10).decisions[0][0].due == 3


def pairs(count: int) -> Workload:
    """Every two slots a job worth 1, then one worth 10; each needs the GPU for those two slots."""
    each = [(f"{kind}-{t}", worth, 2 * t) for t in range(count) for kind, worth in (("cheap", 1.0), ("dear", 10.0))]
    return Workload(tuple(elastic(name, 2, 1, arrival=when, worth=worth, most=1) for name, worth, when in each))


def test_a_price_from_history_keeps_room_for_what_is_worth_more():
    """Whoever comes first is promised the GPU: the cheap. On history the clearing price is that of the dear, 5 a slot. At
    five times it two slots that are free cost 25 x (.487 + .736) / 10 = 3.06: the cheap are priced out, the dear promised
    when they come. At a hundred times it nobody is promised anything, and who loses most by waiting runs all the same."""
    past, jobs = pairs(8), pairs(5)
    assert run(1, jobs).utility == 5.0
    five = run(1, jobs, history=past, times=5.0)
    assert five.utility == 50.0
    assert [(log[0].state, log[0].reason) for log in five.decisions] == [
        ("pending", "priced_out"),
        ("admitted", ""),
    ] * 5
    dear = run(1, jobs, history=past, times=100.0)
    assert (dear.admitted, dear.utility) == (0, 50.0)
    assert run(1, jobs, history=past).utility == 50.0  # the price that earns most


def test_what_loses_most_by_waiting_runs_first():
    """Two slots each on one GPU. What stays worth 10 can wait, and is worth 9.97 when it is done in slot 3; the other falls
    from 9 to nothing in 4 slots: 6.75 in slot 1, 2.25 in slot 3. By what they are worth now the first would begin."""
    jobs = [job("stays", 2, utility=Linear(10, 1000)), job("falls", 2, utility=Linear(9, 4))]
    done = run(1, jobs, dates=False)
    assert done.finish.tolist() == [3, 1]
    assert done.utility == pytest.approx(9.97 + 6.75)


def test_a_small_job_that_is_worth_nothing_any_more_goes_before_a_long_one_worth_little():
    """One GPU. `small` is worth nothing after slot 0, which `first` has. Of the 37 that a job is worth on average 2 % is for
    being done: .74 for one slot, where the long one has (1 - .75 x .9) / 100 and that."""
    jobs = [
        job("first", 1, utility=Deadline(100, 0)),
        job("small", 1, utility=Deadline(10, 0)),
        job("long", 100, utility=Linear(1, 1000)),
    ]
    assert run(1, jobs, horizon=200, dates=False).finish.tolist() == [0, 1, 101]


def test_room_costs_less_where_it_is_near_and_more_where_it_is_crowded():
    """The clearing price is 5 a slot, where nothing is planned a tenth of it. This slot costs .5 x (1 - e^(-1 / 1.5)) =
    .243: one slot is promised for .3. Ten from now on cost .5 x (10 - 1.055) = 4.47: not for 4, but for 5. On two GPUs
    all of the past fits, and it is 1 a slot: .024 for one of them, and where the other is planned 10^-.5 in place of a
    tenth, .077: so .05 is enough for the first and too little for the second."""
    for slots, worth, promised in ((1, 0.3, 1), (10, 4.0, 0), (10, 5.0, 1)):
        one = elastic("one", slots, slots - 1, worth=worth, most=1)
        assert run(1, [one], history=pairs(8), times=1.0).row["promised_on_arrival"] == promised
    two = [elastic("first", 1, 0, worth=100.0, most=1), elastic("second", 1, 0, worth=0.05, most=1)]
    price = run(2, two, history=pairs(8), times=1.0)
    assert [log[0].state for log in price.decisions] == ["admitted", "pending"]
    assert run(2, two[1:], history=pairs(8), times=1.0).row["promised_on_arrival"] == 1


def test_the_price_is_searched_where_a_golden_section_would_miss_it():
    """A step, as of cluster 05: the most just below 2^1.7, and less than half from there on. Then a plateau: its middle."""
    tried: list[float] = []

    def step(x: float) -> float:
        tried.append(x)
        return x if x < 1.7 else 0.4

    assert searched_best(step) == 1.5
    assert len(tried) == len(set(tried)) <= 10
    assert searched_best(lambda x: 1.0) == 0.5
    assert searched_best(lambda x: 10.0 - abs(x - 2.3)) == 2.25


# Room by count.


@given(
    st.lists(st.integers(4, 9), min_size=1, max_size=6),
    st.lists(st.tuples(FEW, st.integers(1, 4)), max_size=25),
    st.randoms(),
)
def test_what_fits_by_count_fits_on_machines(gpus, parts, random):
    """Random machines of 4 to 9 GPUs and parts of 1 to 8, taken as long as the counts allow; some sat somewhere before.
    Each finds a machine, and no machine holds more than it has."""
    units = np.array(gpus)
    room, taken = by_size(units)[None].copy(), []
    for size, number in parts:
        levels = Levels(*(np.array([n]) for n in (number << size, size, number)), np.ones(1), np.ones(1))
        if widest_at(room, 0, levels, 0, 0) == 0:
            book(room, np.array([[0, 0]]), levels, 1)
            taken.append((size, number))
    assert (room >= 0).all()
    taken.sort(reverse=True)
    count, machines = max(1, len(taken)), len(gpus)
    jobs = JobTable(
        np.full((count, 1), 1000), np.zeros((count, 1), int), np.zeros(count, int), np.full(count, 64), np.zeros(count),
        np.array([1000.0 * sum(gpus)]), np.ones((1, machines), bool), np.zeros(1, int), np.zeros((count, 1), int),
    )  # fmt: skip
    was = np.array([(j, random.randrange(machines), 1 << taken[j][0], 0) for j in range(len(taken))], np.int32)
    sat = np.arange(count), np.arange(count) + np.array([random.random() < 0.5 for _ in range(count)])
    due = Due(np.arange(len(taken)), *np.array([(1 << s, n, 1 << s) for s, n in taken], int).reshape(-1, 3).T.copy())
    out = np.empty((sum(n for _, n in taken), 4), np.int32)
    free = 1000 * units[:, None]
    assert seat_due(due, units.copy(), jobs, free.copy(), was.reshape(-1, 4), *sat, out) == len(out)
    used = np.bincount(out[:, 1], out[:, 2], machines)
    assert (used <= units).all()
    assert used.sum() == sum(n << s for s, n in taken)


LADDER = Levels(
    np.array([1, 2, 4]), np.array([0, 1, 2]), np.ones(3, int), np.array([1.0, 1.8, 3.0]), np.array([0.1, 0.2, 0.4])
)


def rate(cells: Iterable[int]) -> float:
    return sum(float(LADDER.rate[k]) for k in cells if k >= 0)


@given(st.lists(st.lists(st.integers(1, 9), max_size=3), min_size=1, max_size=5), st.integers(1, 60), st.booleans())
def test_a_plan_is_the_narrowest_and_the_latest(machines, tenths, early):
    """Against all plans of up to five slots with widths 1, 2 and 4 on random free machines: there is one if there is any,
    its widest width is the least possible, and it has no slot that it does not need. Unless it is to be `early`, that width
    is used in as few slots as can be, and the narrowest plans begin as late as can be."""
    slots, need = len(machines), tenths / 5
    room = np.array([by_size(np.array(one, dtype=int)) for one in machines])
    fits = [[-1, *(k for k in range(3) if any(n >= 1 << k for n in one))] for one in machines]
    every = [one for one in itertools.product(*fits) if rate(one) >= need - 1e-6]
    out = np.empty((slots, 2), dtype=np.int64)
    found = out[: plan(room, 0, slots - 1, LADDER, need, out, 0, 0, early)]
    assert bool(len(found)) == bool(every)
    soonest = next((t for t in range(slots) if rate(max(one) for one in fits[: t + 1]) >= need - 1e-6), -1)
    assert earliest(room, 0, slots - 1, LADDER, need) == soonest
    if not every:
        return
    mine = [-1] * slots
    for slot, level in found.tolist():
        mine[slot] = level
    assert tuple(mine) in every
    least = min(max(one) for one in every)
    assert max(mine) == least
    cut = [k for k in mine if k >= 0]
    assert rate(cut[:-1] if early else cut[1:]) < need  # it ends, or begins, with a slot that it needs
    narrow = [one for one in every if max(one) == least]
    if not early:
        assert mine.count(least) == min(one.count(least) for one in narrow)
    if not early and least == 0:
        assert found[0, 0] == max(min(t for t in range(slots) if one[t] >= 0) for one in narrow)


def test_needed_counts_the_cells_that_the_work_left_takes():
    """Cells of 1, 1.8 and 3 samples: 4.8 are in the last two, in the first three; 6 are in no cells."""
    cells = np.array([(4, 0), (5, 1), (6, 2)])
    assert [needed(cells, LADDER, left, early) for left in (4.8, 6.0) for early in (False, True)] == [2, 3, -1, -1]


# Promises hold.


def drawn(seed: int, count: int = 30) -> Workload:
    """Widths, restarts and gradients as they come; of odd seeds durations are wrong by up to half, of every second pair
    nothing is stated."""
    rng = np.random.default_rng([seed, 31])
    jobs = []
    for k in range(count):
        worth, when = float(rng.uniform(1, 100)), float(rng.integers(2, 14))
        kinds = (Deadline(worth, when), Sigmoid(worth, float(rng.uniform(0.1, 2)), when), Linear(worth, 2 * when))
        utility = Unstated() if seed // 2 % 2 else kinds[k % 3]
        more = {"restart": (0.0, 0.1, 0.3)[seed % 3], "requested": int(rng.integers(1, 5)), "utility": utility}
        more |= {"actual": float(rng.uniform(0.5, 1.5)) if seed % 2 else 1.0, "gradient": 0.05, "inside": 1.0}
        arrival, work = int(rng.integers(0, 40)), float(rng.uniform(0.5, 12))
        jobs.append(Job(f"j{k}", arrival, work, 4, 1.0, {"gpu": 1}, between=0.5, **more))  # type: ignore[arg-type]
    return Workload(tuple(jobs))


UNEQUAL = Cluster((Machine({"gpu": 2}, 2, "small"), Machine({"gpu": 5}, 1, "odd")))


def test_nobody_honest_is_late():
    """Forty random workloads, half of them with history, certified: a date is missed only by a job that was longer than it
    said."""
    promised = longer = 0
    for seed in range(40):
        history = drawn(seed + 1000) if seed % 8 < 4 else None
        result = simulate(UNEQUAL, drawn(seed), placers.Dated(history=history), horizon=60)
        assert result.certificate().passed, (seed, result.certificate())
        for j, job in enumerate(result.jobs):
            due = result.due(j)
            if due is not None and job.actual <= 1.0:
                assert 0 <= result.finish[j] <= due, (seed, j)
            promised += due is not None
            longer += due is not None and job.actual > 1.0
    assert promised > 300
    assert longer > 30


def busy(seed: int) -> Workload:
    """Five hundred jobs at about twice what two machines of eight GPUs can do; nothing stated."""
    rng = np.random.default_rng([seed, 37])
    width, slots = 2 ** rng.integers(0, 4, 500), rng.lognormal(1.2, 1.2, 500).clip(0.2, 100)
    arrival = np.sort(rng.uniform(0, float((width * slots).sum()) / 32, 500)).astype(int)
    return Workload(
        tuple(
            Job(
                str(k),
                int(arrival[k]),
                float(slots[k] * width[k]),
                int(width[k]),
                1.0,
                {"gpu": 1},
                requested=int(width[k]),
            )
            for k in range(500)
        )
    )


def looseness(result: Result) -> float:
    """The median of the time to the date over the time taken, of all promised; and they are kept."""
    dates = np.array([date if (date := result.due(j)) is not None else -1 for j in range(len(result.jobs))])
    told, came = dates >= 0, np.array([job.arrival for job in result.jobs]) - 1
    assert told.sum() > 200
    assert (result.finish[told] <= dates[told]).all()
    assert (result.finish[told] >= 0).all()
    return float(np.median((dates - came)[told] / (result.finish - came)[told]))


def test_dates_are_learnt_from_history():
    """At twice the load: with history a date is at the median at most three times what the job took from arrival, and
    tighter than without."""
    cluster = Cluster((Machine({"gpu": 8}, 2),))
    plain, taught = (
        looseness(simulate(cluster, busy(1), placers.Dated(history=history), horizon=288))
        for history in (None, busy(2))
    )
    assert taught <= 3.0
    assert taught < plain


# Types of machines, and machines that go away.


def test_of_three_types_the_faster_is_taken_and_the_certificate_passes():
    """Six samples: the a100 does 3 a slot, the v100 2, the k80 1. Alone a job is done in slot 1, on the a100; with forty
    jobs, some of which take one type only, everybody sits on types that it takes, and dates hold."""
    kinds = {"a100": 3.0, "v100": 2.0, "k80": 1.0}
    cluster = Cluster(tuple(Machine({"gpu": 4}, 1, name, name) for name in reversed(kinds)))
    alone = simulate(cluster, [Job("a", 0, 6, 1, 1.0, {"gpu": 1}, speeds=kinds)], placers.Dated(), horizon=60)
    assert (alone.finish.tolist(), cluster.names[alone.schedule[0, 2]]) == ([1], "a100")
    for seed in range(6):
        only = ({"k80": 1.0}, kinds, {"v100": 2.0, "a100": [3.0, 4.0]}, kinds)
        jobs = [job.but(speeds=only[k % 4], work=2 * job.work) for k, job in enumerate(drawn(seed, 40))]
        result = simulate(cluster, jobs, placers.Dated(history=drawn(seed + 100)), horizon=60)
        assert result.certificate().passed, (seed, result.certificate())
        assert result.admitted > 5
        for j, _, h, _, _ in result.schedule.tolist():
            assert cluster.machine_types[h] in [cluster.types.index(name) for name in result.jobs[j].speeds or ()]


def test_maintenance_is_planned_around():
    """The promise of the case above, with the machine away in slots 20 to 23, known from the start: of the 25 slots 21 are
    left, the five last of them before the date are 16-19 and 24."""
    jobs = [job("long", 5), *(job(str(t), 1, 4, arrival=t) for t in range(40))]
    away = Calendar((Window("", 20, 24, {"gpu": 4}, kind="maintenance"),))
    result = simulate(Cluster((Machine({"gpu": 4}),)), jobs, placers.Dated(), horizon=100, calendar=away)
    assert slots_of(result, 0) == [16, 17, 18, 19, 24]
    assert not {20, 21, 22, 23} & {*result.schedule[:, 1].tolist()}
    assert result.certificate().passed


def test_who_is_left_no_room_by_a_failure_is_told_so():
    """The machine fails in slots 18 to 30, when all of the plan lies: the promise is broken by the machine, not by us."""
    jobs = [job("long", 5), *(job(str(t), 1, 4, arrival=t) for t in range(40))]
    failing = Calendar((Window("m", 18, 31, kind="failure"),))
    result = simulate(Cluster((Machine({"gpu": 4}, name="m"),)), jobs, placers.Dated(), horizon=100, calendar=failing)
    assert result.finish[0] > 30
    assert result.broken[0] == "machine"
    assert result.certificate().passed


def test_a_machine_that_nobody_could_use_breaks_no_promise() -> None:
    """A machine without GPUs fails for a slot: plans that fit are kept, though planning them anew would not find room."""

    def job(
        name: str, arrival: int, work: float, batch: int, gpus: int, worth: Deadline | Linear, **more: float
    ) -> Job:
        return Job(name, arrival, work, batch, 1.0, {"gpu": gpus}, worth, **more)  # type: ignore[arg-type]

    jobs = [
        job("a", 2, 7.2, 2, 1, Deadline(21, 9)),
        job("b", 2, 9, 8, 1, Linear(17.5, 24), restart=0.1),
        job("c", 5, 9, 1, 2, Linear(94.7, 26)),
    ]
    cluster = Cluster((Machine({"gpu": 2}, 1, "g"), Machine({"cpu": 1}, 1, "dummy", type="d")))
    for calendar in (None, Calendar((Window("dummy", 7, 8, kind="failure"),))):
        result = simulate(cluster, jobs, placers.Dated(), horizon=20, calendar=calendar)
        assert set(result.broken.values()) == {""}
        assert result.certificate().passed


def test_a_past_that_comes_after_the_end_teaches_nothing() -> None:
    """History of slot 20 in a run of 10 slots: no job of it ever arrives."""
    one, late = (Job(name, arrival, 5.0, 4, 1.0, {"gpu": 1}, Unstated()) for name, arrival in (("a", 0), ("h", 20)))
    result = simulate(Cluster((Machine({"gpu": 4}),)), [one], placers.Dated(history=[late]), slots=10)
    assert result.completed == 1
