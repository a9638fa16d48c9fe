"""Hull fill: what it plans is paid for, fits, covers the work; and on tiny books it is next to the best there is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from loaded import free, loaded, plan, prices, value_of

from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Sigmoid
from equipoise.place.planner import Plan, Planner
from equipoise.place.planner.job_arrays import JobArrays, arrays_of
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

approx = pytest.approx
SINGLE = Cluster((Machine({"gpu": 4}, 2),))


def worker_job(**changes: object) -> Job:
    """Workers of one GPU that do a sample a slot each, wherever they are."""
    plain: dict[str, object] = {
        "id": "a",
        "arrival": 0,
        "work": 4.0,
        "batch": 2,
        "time_per_sample": 1.0,
        "worker": {"gpu": 1},
        "utility": Deadline(10.0, 1000.0),
    }
    return Job(**(plain | changes))  # type: ignore[arg-type]


def work_of(arrays: JobArrays, cells: np.ndarray) -> float:
    """Samples done by cells, from the rate law: together on one machine, else apart."""
    done = 0.0
    for t in np.unique(cells[:, 0]):
        here = cells[cells[:, 0] == t]
        done += (arrays.together if len(here) == 1 else arrays.apart)[0][here[:, 2].sum()]
    return done


def planned(seed: int) -> tuple[Planner, Job, JobArrays, Plan | None]:
    rng = np.random.default_rng([seed, 9])
    planner = loaded(synthetic_cluster(15), 20, rng, level=2.0)
    job = synthetic(1, seed=seed, slots=20)[0].but(arrival=int(rng.integers(0, 4)))
    arrays, _, found = plan(planner, job)
    return planner, job, arrays, found


def test_a_plan_fits_covers_the_work_and_costs_what_its_cells_cost():
    """60 random books, prices recomputed densely from use: cost, work, F, ratio, capacity and [start, end) all hold."""
    plans = 0
    for seed in range(60):
        planner, job, arrays, found = planned(seed)
        if found is None:
            continue
        plans += 1
        cells = found.cells
        slots, machines, workers, servers = cells.T
        assert job.arrival <= slots.min() and slots.max() < planner.window
        assert work_of(arrays, cells) >= job.work * (1 - 1e-8)
        cost = 0.0
        for t in np.unique(slots):
            here = slots == t
            assert workers[here].sum() <= job.batch
            assert servers[here].sum() == job.servers(int(workers[here].sum()))
            assert len(np.unique(machines[here])) == here.sum()
            taken = workers[here, None] * arrays.worker + servers[here, None] * arrays.server
            assert (taken <= free(planner, t)[machines[here]]).all()
            cost += float((taken * prices(planner, t)[machines[here]]).sum())
        assert found.cost == approx(cost, rel=1e-9)
        assert found.worth == approx(job.utility(int(slots.max()) - job.arrival))
        assert found.payoff == approx(found.worth - cost)
        assert found.payoff > 0
    assert plans >= 30


def test_of_equal_slots_the_earlier_are_taken():
    """Four samples, two workers a slot, every slot alike and as good: the first two."""
    planner = Planner(SINGLE, 30, np.ones(1), np.full(1, 1e-6))
    _, _, found = plan(planner, worker_job())
    assert sorted(set(found.cells[:, 0])) == [0, 1]


def test_a_cheaper_slot_later_is_waited_for_while_patience_lasts():
    """Slot 60 is nearly free and finishing late costs nothing: seen with patience 100, not with 48."""
    base = np.full((100, 1), 1e-3)
    base[60:62] = 1e-9
    for patience, slots in ((48, [0, 1]), (100, [60, 61])):
        planner = Planner(SINGLE, 100, np.zeros(1), base, patience=patience)
        _, _, found = plan(planner, worker_job())
        assert sorted(set(found.cells[:, 0])) == slots


@pytest.mark.parametrize("seed", range(10))
def test_the_payoff_never_rises_with_prices(seed):
    """The same occupancy at 1, 2, 4, ... times the prices, from nearly nothing until nobody pays."""
    payoffs = []
    for k in range(16):
        rng = np.random.default_rng([seed, 2])
        planner = loaded(synthetic_cluster(15), 20, rng, level=0.01 * 2.0**k, patience=1000)
        _, _, found = plan(planner, synthetic(1, seed=seed, slots=20, small=True)[0].but(arrival=0))
        payoffs.append(0.0 if found is None else found.payoff)
    assert payoffs[0] > 0 and payoffs[-1] == 0
    assert all(b <= a * 1.01 for a, b in itertools.pairwise(payoffs))  # hull fill is within 1% of the best


def test_work_that_does_not_fit_is_told_from_work_that_does_not_pay():
    """A full occupancy covers nothing; a dear one covers the work and offers no plan."""
    job = worker_job()
    full = Planner(SINGLE, 3, np.zeros(1), np.full(1, 1e-9))
    for t in range(3):
        full.take(arrays_of(job, SINGLE), np.array([[t, 0, 4, 0], [t, 1, 4, 0]], np.int32))
    dear = Planner(SINGLE, 3, np.zeros(1), np.full(1, 1.0))
    assert plan(full, job)[1:] == (False, None)
    assert plan(dear, job)[1:] == (True, None)


def test_a_floor_asks_for_more():
    """A plan that pays 10 - 4 milli-priced GPU-slots is found above a floor of 5, not above 7."""
    planner = Planner(SINGLE, 10, np.zeros(1), np.full(1, 1e-3))
    _, _, found = plan(planner, worker_job(), floor=5.0)
    assert found.payoff == approx(6.0)
    assert plan(planner, worker_job(), floor=7.0)[1:] == (True, None)


def tiny(seed: int) -> tuple[Planner, Job]:
    """Two machines, three slots, up to three workers, half of them with servers."""
    rng = np.random.default_rng([seed, 6])
    cluster = Cluster((Machine({"gpu": 3, "cpu": 6}, 2),))
    planner = loaded(cluster, 3, rng, level=float(rng.uniform(0.5, 6)), mean=0.35)
    value, between = float(rng.uniform(5, 20)), float(rng.uniform(0.5, 4))
    utility = [Sigmoid(value, 1.0, 2.0), Deadline(value, 2.0), Linear(value, 4.0)][seed % 3]
    job = Job(
        "a",
        0,
        float(rng.uniform(0.5, 8)),
        int(rng.integers(1, 4)),
        float(rng.uniform(0.3, 1)),
        {"gpu": 1, "cpu": int(rng.integers(1, 3))},
        utility,
        server={"cpu": 1} if rng.random() < 0.5 else None,
        workers_per_server=int(rng.integers(1, 3)),
        gradient=float(rng.uniform(0, 1)),
        inside=between * float(rng.uniform(1, 5)),
        between=between,
    )
    return planner, job


def best_payoff(planner: Planner, job: Job) -> float:
    """Every placement of every number of workers and servers in every slot."""
    arrays = arrays_of(job, planner.cluster)
    value, by_slot = value_of(job, 0, 3), []
    for t in range(3):
        room, price = free(planner, t), prices(planner, t)
        offers = {0.0: 0.0}  # the least cost of each rate
        for counts in itertools.product(range(4), repeat=4):
            w, s = np.array(counts[:2]), np.array(counts[2:])
            width = int(w.sum())
            if not 0 < width <= arrays.widest or s.sum() != job.servers(width):
                continue
            taken = w[:, None] * arrays.worker + s[:, None] * arrays.server
            if (taken <= room).all():
                rate = job.rate(width, together=int(((w + s) > 0).sum()) == 1)
                offers[rate] = min(offers.get(rate, math.inf), float((taken * price).sum()))
        by_slot.append(list(offers.items()))
    best = 0.0
    for combination in itertools.product(*by_slot):
        if sum(rate for rate, _ in combination) >= job.work * (1 - 1e-9):
            last = max(t for t, (rate, _) in enumerate(combination) if rate > 0)
            best = max(best, value[last] - sum(cost for _, cost in combination))
    return best


def test_on_tiny_books_the_payoff_is_next_to_the_best_and_never_above():
    """150 books of two machines and three slots by brute force over all placements: 1% on average, never more than all."""
    ours, best = [], []
    for seed in range(150):
        planner, job = tiny(seed)
        best.append(best_payoff(planner, job))
        _, _, found = plan(planner, job)
        ours.append(0.0 if found is None else found.payoff)
        assert ours[-1] <= best[-1] + 1e-9
    some = np.array(best) > 0
    assert some.sum() >= 75
    assert np.mean(np.array(ours)[some] / np.array(best)[some]) >= 0.99
