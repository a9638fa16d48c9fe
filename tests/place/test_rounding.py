"""The paper's placement: the relaxation bounds what rounding finds, a draw that does not fit is never committed."""

from __future__ import annotations

import numpy as np
import pytest
from loaded import free, loaded, plan, prices
from test_slot_costs import exact

from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import JobArrays, arrays_of, servers_for
from equipoise.place.planner.rounding import TRIES, Relaxation, Rounding, RoundingPlanner, stretch
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

approx = pytest.approx


def slot_and_job(seed: int) -> tuple[Planner, JobArrays]:
    rng = np.random.default_rng([seed, 4])
    cluster = synthetic_cluster(12)
    return loaded(cluster, 1, rng), arrays_of(synthetic(1, seed=seed, slots=100)[0], cluster)


def stated(rounding: Rounding, planner: Planner, arrays: JobArrays, scale: float = 1.0) -> np.ndarray:
    """Tell the rounding the slot; the prices of workers and servers by machine."""
    price = prices(planner, 0) * scale
    by_machine = np.stack([price @ arrays.worker, price @ arrays.server])
    rounding.state(arrays, free(planner, 0), *by_machine)
    return by_machine


def test_relaxed_exact_and_rounded_costs_are_in_order():
    """60 slots: LP <= integer program <= rounded; what is rounded fits, has W workers or more, not over F, and servers."""
    found = 0
    rounding = Rounding(synthetic_cluster(12), seed=1)
    for seed in range(60):
        planner, arrays = slot_and_job(seed)
        width = 1 + seed * 7919 % min(40, arrays.widest)
        price = stated(rounding, planner, arrays)
        relaxed, counts = rounding.place(width)
        truth = exact(planner, arrays, width)
        assert relaxed <= truth * (1 + 1e-6)
        if counts is None:
            continue
        found += 1
        taken = counts[0][:, None] * arrays.worker + counts[1][:, None] * arrays.server
        assert (taken <= free(planner, 0)).all()
        assert width <= counts[0].sum() <= arrays.widest
        assert counts[1].sum() == servers_for(int(counts[0].sum()), arrays.per_server)
        assert (counts * price).sum() >= truth * (1 - 1e-6)
    assert found >= 10


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e12])
def test_the_unit_of_price_does_not_change_the_placement(scale):
    """Prices x 1e-30: the same counts of the relaxation, cost by cost. Unscaled, HiGHS takes 1e-30 for zero."""
    for seed in range(10):
        planner, arrays = slot_and_job(seed)
        one, other = Relaxation(12, 4), Relaxation(12, 4)
        price = prices(planner, 0)
        width = min(10, arrays.widest)
        one.slot(arrays, free(planner, 0), price @ arrays.worker, price @ arrays.server)
        other.slot(arrays, free(planner, 0), scale * (price @ arrays.worker), scale * (price @ arrays.server))
        cost, counts = one.solve(width)
        scaled, same = other.solve(width)
        assert scaled == approx(scale * cost, rel=1e-6)
        assert same == approx(counts, abs=1e-6)


def test_a_warm_program_answers_as_a_new_one():
    """One HiGHS object through 30 jobs, slots and widths: the same cost as one built for each."""
    kept = Relaxation(12, 4)
    for seed in range(30):
        planner, arrays = slot_and_job(seed)
        price = prices(planner, 0)
        fresh = Relaxation(12, 4)
        for program in (kept, fresh):
            program.slot(arrays, free(planner, 0), price @ arrays.worker, price @ arrays.server)
        for width in (arrays.widest, max(1, arrays.widest // 3), 1):
            assert kept.solve(width)[0] == approx(fresh.solve(width)[0], rel=1e-6)


def half_a_worker_each() -> tuple[Planner, Job]:
    """Three machines with 1.5 GPUs and no room for the fourth worker; F is 3: 1.5 + 1.5 must be rounded to 1 + 1 + 1."""
    cluster = Cluster((Machine({"gpu": 1.5}, 3),))
    planner = RoundingPlanner(cluster, 1, np.zeros(1), np.full(1, 1e-6), seed=3)
    return planner, Job("a", 0, 3.0, 3, 1.0, {"gpu": 1}, Deadline(10.0, 0.0))


def test_the_full_width_with_fractions_is_placed_by_greedy_and_counted():
    """W = F: no draw of 1.5 + 1.5 fits, so greedy places it after all tries; the plan holds capacity."""
    planner, job = half_a_worker_each()
    _, _, found = plan(planner, job)
    assert sorted(found.cells[:, 2]) == [1, 1, 1]
    assert planner.counts.fallbacks == 1
    assert planner.counts.tries == TRIES
    assert planner.counts.rounded == 0


def synthetic_run(seed: int) -> tuple[RoundingPlanner, list[np.ndarray]]:
    cluster = synthetic_cluster(20)
    planner = RoundingPlanner(cluster, 12, np.full(4, 4.0), 2.0 / cluster.total, seed=seed)
    schedules = []
    for job in synthetic(40, seed=6, slots=12, small=True):
        arrays, _, found = plan(planner, job)
        if found is not None:
            planner.take(arrays, found.cells)
            schedules.append(found.cells)
        for t in range(12):
            assert (planner.used(t) >= 0).all() and (planner.used(t) <= cluster.capacity[0]).all()
    return planner, schedules


def test_forty_jobs_never_exceed_capacity_and_repeat_by_seed():
    """Capacity after every commit; the same seed gives the same cells and counts, another seed others."""
    one, first = synthetic_run(1)
    two, second = synthetic_run(1)
    assert len(first) >= 10
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert one.counts == two.counts
    assert one.counts.rounded > 0 and one.counts.fallbacks > 0
    counts = one.counts
    neither = counts.programs - counts.rounded - counts.fallbacks - counts.impossible
    assert 0 <= neither <= 0.05 * counts.programs  # only parts of workers fit
    other, _ = synthetic_run(2)
    assert other.counts.tries != one.counts.tries


@pytest.mark.parametrize(("favour", "by_hand"), [("covering", 1.9298), ("packing", 0.2989)])
def test_a_delta_stretches_for_the_rows_it_favours(favour, by_hand):
    """By hand for 8 servers, 40 rows of 10 and delta .5: x = ln 6 / 8 and .15 ln 240."""
    assert stretch(favour, 0.5, 8.0, 10.0, 40) == approx(by_hand, abs=1e-3)


def test_the_plan_costs_what_its_cells_cost_and_does_the_work():
    """20 half-loaded books: as for greedy, from dense prices and the rate law."""
    plans = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 9])
        planner = loaded(synthetic_cluster(12), 10, rng, kind=RoundingPlanner, seed=seed)
        job = synthetic(1, seed=seed, slots=10, small=True)[0].but(arrival=0)
        arrays, _, found = plan(planner, job)
        if found is None:
            continue
        plans += 1
        cost, work = 0.0, 0.0
        for t in np.unique(found.cells[:, 0]):
            _, machines, workers, servers = found.cells[found.cells[:, 0] == t].T
            taken = workers[:, None] * arrays.worker + servers[:, None] * arrays.server
            assert (taken <= free(planner, t)[machines]).all()
            cost += float((taken * prices(planner, t)[machines]).sum())
            work += (arrays.together if len(machines) == 1 else arrays.apart)[0][workers.sum()]
        assert found.cost == approx(cost, rel=1e-9)
        assert work >= job.work * (1 - 1e-8)
        assert found.worth == approx(job.utility(found.last))
    assert plans >= 10
