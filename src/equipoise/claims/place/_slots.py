"""Slots to place one job in: half-loaded clusters, rising prices, and the exact answer by integer programming."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.place.cluster import Cluster
from equipoise.place.planner.job_arrays import JobArrays, arrays_of
from equipoise.place.planner.occupancy import Occupancy, move, new_occupancy
from equipoise.place.planner.slot_costs import new_slot_costs, slot_costs
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
RATIO = (3.0, 1e4)  # price of a full machine over an empty one
ARRIVING = 200  # slots over which the jobs are drawn; they only set which sizes are allowed


@dataclass(frozen=True)
class Slot:
    """One slot of a half-loaded cluster, and the job that comes to it."""

    cluster: Cluster
    occupancy: Occupancy
    arrays: JobArrays
    free: Ints  # [machine, r] milli-units
    price_worker: Floats  # [machine]
    price_server: Floats

    def servers(self, width: int) -> int:
        """ceil(w / gamma)."""
        return -(-width // self.arrays.per_server)

    def cost(self, counts: Ints) -> float:
        """Of counts [workers or servers, machine]."""
        return float(counts[0] @ self.price_worker + counts[1] @ self.price_server)


def slots(count: int, machines: int, seed: int) -> Iterator[Slot]:
    """Half-loaded slots of so many machines and jobs of the synthetic workload, the same for the same seed."""
    rng = np.random.default_rng([seed, machines])
    cluster = synthetic_cluster(machines)
    for job in synthetic(count, seed=seed, slots=ARRIVING):
        yield loaded(cluster, arrays_of(job, cluster), rng)


def loaded(cluster: Cluster, arrays: JobArrays, rng: np.random.Generator) -> Slot:
    """Machines used by half on average, each resource a little differently; prices by use."""
    growth = np.full(len(cluster.resources), rng.uniform(*np.log(RATIO)))
    base = rng.uniform(0.5, 2.0, (1, len(cluster.resources))) / cluster.total
    occupancy = new_occupancy(cluster, 1, growth, base)
    capacity = cluster.capacity[cluster.type_of]
    load = np.clip(rng.uniform(0.0, 1.0, (cluster.size, 1)) + rng.uniform(-0.2, 0.2, capacity.shape), 0.0, 1.0)
    used = (load * capacity / 1000).astype(np.int64) * 1000
    for h in range(cluster.size):
        move(occupancy, 0, h, used[h])
    price = base * np.exp(growth * used / capacity)
    return Slot(cluster, occupancy, arrays, capacity - used, price @ arrays.worker, price @ arrays.server)


def exact(slot: Slot, width: int) -> float:
    """The least cost of a width by HiGHS' integer program without a gap; inf when no placement holds it."""
    from scipy import sparse
    from scipy.optimize import LinearConstraint, milp

    machines = len(slot.free)
    worker, server = slot.arrays.worker / 1000.0, slot.arrays.server / 1000.0
    rows = sparse.hstack([sparse.kron(sparse.eye(machines), amount[:, None]) for amount in (worker, server)])
    scale = float(np.median(slot.price_worker))
    need = np.array([width, slot.servers(width)])
    result = milp(
        np.concatenate([slot.price_worker, slot.price_server]) / scale,
        constraints=[
            LinearConstraint(rows.tocsc(), -np.inf, slot.free.ravel() / 1000.0),
            LinearConstraint(np.kron(np.eye(2), np.ones(machines)), need, need),
        ],
        integrality=np.ones(2 * machines),
        options={"mip_rel_gap": 0.0},
    )
    assert result.status in (0, 2), result.message
    return float(result.fun * scale) if result.status == 0 else np.inf


def greedy(slot: Slot, row: int = 0) -> Floats:
    """Our placement: the cost of spreading every width 0..F, inf where none was found. `row` is the slot's row."""
    options = new_slot_costs(slot.arrays.widest, len(slot.cluster.resources))
    slot_costs(slot.occupancy, row, slot.arrays, options)
    return np.asarray(options.spread[: slot.arrays.widest + 1])


def asked(count: int, machines: int, seed: int) -> Iterator[tuple[Slot, int, float]]:
    """Slots with a width 1..F drawn uniformly from those a placement exists for, and its exact cost."""
    rng = np.random.default_rng([seed, machines, 1])
    for slot in slots(count, machines, seed):
        high = slot.arrays.widest
        while high:
            width = int(rng.integers(1, high + 1))
            cost = exact(slot, width)
            if np.isfinite(cost):
                yield slot, width, cost
                break
            high = width - 1  # what holds more would hold this
