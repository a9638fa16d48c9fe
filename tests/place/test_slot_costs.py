"""What a slot offers: every width placed greedily, against the exact integer program, enumeration, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from loaded import free, loaded, prices
from scipy.optimize import LinearConstraint, milp

from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import JobArrays, arrays_of, servers_for
from equipoise.place.planner.occupancy import move
from equipoise.place.planner.slot_costs import SlotCosts, new_slot_costs, slot_costs
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

approx = pytest.approx


def offered(planner: Planner, arrays: JobArrays, t: int = 0) -> SlotCosts:
    options = new_slot_costs(max(64, arrays.widest), len(planner.cluster.resources))
    slot_costs(planner.occupancy, t % planner.window, arrays, options)
    return options


def slot_and_job(seed: int) -> tuple[Planner, JobArrays]:
    """A slot of 10 to 20 machines used by half, and a synthetic job."""
    rng = np.random.default_rng(seed)
    cluster = synthetic_cluster(int(rng.integers(10, 21)))
    return loaded(cluster, 1, rng), arrays_of(synthetic(1, seed=seed, slots=100)[0], cluster)


def exact(planner: Planner, arrays: JobArrays, width: int) -> float:
    """The cheapest placement of a width by integer programming; inf when there is none."""
    room, price = free(planner, 0), prices(planner, 0)
    machines = len(room)
    cost = np.concatenate([price @ arrays.worker, price @ arrays.server])
    taken = [np.kron(np.eye(machines), amount[:, None] / 1000) for amount in (arrays.worker, arrays.server)]
    need = [width, servers_for(width, arrays.per_server)]
    found = milp(
        cost / np.median(cost),
        constraints=[
            LinearConstraint(np.concatenate(taken, axis=1), -np.inf, room.ravel() / 1000),
            LinearConstraint(np.kron(np.eye(2), np.ones(machines)), need, need),
        ],
        integrality=np.ones(2 * machines),
        options={"mip_rel_gap": 0.0},
    )
    assert found.status in (0, 2)
    return float(found.fun * np.median(cost)) if found.status == 0 else np.inf


def test_spread_costs_are_within_two_percent_of_the_integer_program_and_none_is_missed():
    """200 half-loaded slots in which a random width fits: 1.0 to 1.02 of the exact cost on average, never nothing."""
    ratios = []
    for seed in range(1000):
        planner, arrays = slot_and_job(seed)
        asked = arrays.worker > 0
        held = int((free(planner, 0)[:, asked] // arrays.worker[asked]).min(axis=1).sum())
        if held == 0:
            continue
        width = 1 + seed * 7919 % min(arrays.widest, held)
        truth, found = exact(planner, arrays, width), offered(planner, arrays).spread[width]
        assert np.isfinite(truth) == np.isfinite(found)
        if np.isfinite(truth):
            ratios.append(found / truth)
        if len(ratios) == 200:
            break
    assert len(ratios) == 200
    assert min(ratios) >= 1.0 - 1e-6
    assert np.mean(ratios) <= 1.02


@pytest.mark.parametrize("seed", range(40))
def test_every_width_offered_is_a_placement_at_its_cost(seed):
    """From the path alone: w workers, ceil(w/gamma) servers, within every machine's room, at the dense prices."""
    planner, arrays = slot_and_job(seed)
    options = offered(planner, arrays)
    machines = by_candidate(planner, options)
    price, room = prices(planner, 0), free(planner, 0)
    finite = np.flatnonzero(np.isfinite(options.spread[: arrays.widest + 1]))
    assert len(finite) > 1 and (finite == np.arange(len(finite))).all()  # no holes: a part of what fits, fits
    for w in finite[1:]:
        order, servers = options.order[w], servers_for(int(w), arrays.per_server)
        counts = np.zeros((2, len(room)), np.int64)
        np.add.at(counts[0], machines[options.path_worker[order, :w]], 1)
        np.add.at(counts[1], machines[options.path_server[order, :servers]], 1)
        taken = counts[0][:, None] * arrays.worker + counts[1][:, None] * arrays.server
        assert (taken <= room).all()
        assert options.spread[w] == approx((taken * price).sum(), rel=1e-9)


def by_candidate(planner: Planner, options: SlotCosts) -> np.ndarray:
    """The machine of every candidate, the nth of its group; -1 in rows that are not used."""
    groups = [np.flatnonzero(planner.occupancy.group[0] == g) for g in range(planner.occupancy.groups[0])]
    pairs = zip(options.of.tolist(), options.nth.tolist(), strict=True)
    return np.array([groups[g][k] if 0 <= g < len(groups) and 0 <= k < len(groups[g]) else -1 for g, k in pairs])


@pytest.mark.parametrize("seed", range(20))
def test_together_is_the_cheapest_machine_that_holds_all(seed):
    """Against a loop over machines and widths."""
    planner, arrays = slot_and_job(seed)
    options, price, room = offered(planner, arrays), prices(planner, 0), free(planner, 0)
    for w in range(1, arrays.widest + 1):
        need = w * arrays.worker + servers_for(w, arrays.per_server) * arrays.server
        costs = [price[h] @ need for h in range(len(room)) if (need <= room[h]).all()]
        assert options.together[w] == approx(min(costs, default=np.inf), rel=1e-9)


def test_workers_without_servers_are_spread_at_the_least_cost():
    """All-reduce: the w cheapest places there are, no less and no more."""
    rng = np.random.default_rng(4)
    cluster = Cluster((Machine({"gpu": 8, "cpu": 64}, 12),))
    planner = loaded(cluster, 1, rng)
    job = Job("a", 0, 1.0, 64, 1.0, {"gpu": 1, "cpu": 4}, Deadline(1.0, 1.0))
    arrays = arrays_of(job, cluster)
    room, price = free(planner, 0), prices(planner, 0) @ arrays.worker
    places = np.sort(np.repeat(price, (room // arrays.worker).min(axis=1)))
    options = offered(planner, arrays)
    assert options.spread[2 : len(places) + 1] == approx(np.cumsum(places)[1 : arrays.widest], rel=1e-9)
    assert np.isinf(options.spread[len(places) + 1 : arrays.widest + 1]).all()


def test_a_server_gives_way_where_only_the_workers_fit():
    """The cheap machine has room for two workers or one and the server; the dear one for a server only. By hand: 2 + 3."""
    cluster = Cluster((Machine({"gpu": 2, "cpu": 2}, 2),))
    planner = Planner(cluster, 1, np.log([1.0, 9.0]), np.array([[0.0, 1e-3]]))
    move(planner.occupancy, 0, 1, np.array([2000, 1000]))  # half its CPUs: their price is 3
    job = Job("a", 0, 1.0, 2, 1.0, {"gpu": 1, "cpu": 1}, Deadline(1.0, 1.0), server={"cpu": 1}, workers_per_server=2)
    options = offered(planner, arrays_of(job, cluster))
    assert np.isinf(options.together[2])
    assert options.spread[2] == approx(2 * 1.0 + 3.0)


def test_the_curve_does_not_depend_on_how_machines_are_numbered():
    """The same use on other machines offers the same costs."""
    rng = np.random.default_rng(8)
    cluster = synthetic_cluster(12)
    arrays = arrays_of(synthetic(1, seed=3, slots=100)[0], cluster)
    used = (rng.uniform(0.0, 1.0, (12, 4)) * cluster.capacity[0] / 1000).astype(np.int64) * 1000
    curves = []
    for order in (np.arange(12), rng.permutation(12)):
        planner = Planner(cluster, 1, np.full(4, 3.0), 1.0 / cluster.total)
        for h, k in enumerate(order):
            move(planner.occupancy, 0, h, used[k])
        options = offered(planner, arrays)
        curves.append((options.together[: arrays.widest + 1].copy(), options.spread[: arrays.widest + 1].copy()))
    assert curves[0][0] == approx(curves[1][0], rel=1e-12)
    assert curves[0][1] == approx(curves[1][1], rel=1e-12)


def test_demands_too_large_to_multiply_are_not_taken_to_fit():
    """4,096 servers of 10 TB overflow 64 bits in milli-bytes: one fits a machine of 12 TB, and two machines hold two."""
    cluster = Cluster((Machine({"cpu": 8192, "memory": "12T"}, 2),))
    planner = Planner(cluster, 1, np.zeros(2), np.full(2, 1e-18))
    job = Job("a", 0, 1.0, 4096, 1.0, {"cpu": 1}, Deadline(1.0, 1.0), server={"memory": "10T"}, workers_per_server=1)
    options = offered(planner, arrays_of(job, cluster))
    assert np.isfinite(options.spread[2]) and np.isinf(options.spread[3:]).all()
    assert np.isfinite(options.together[1]) and np.isinf(options.together[2:]).all()
