"""Half-loaded books for the planner's tests, and their prices recomputed from use alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.place.cluster import Cluster
from equipoise.place.job import Job
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import JobArrays, arrays_of
from equipoise.place.planner.occupancy import move

Floats = NDArray[np.float64]


def loaded(
    cluster: Cluster,
    window: int,
    rng: np.random.Generator,
    *,
    level: float = 1.0,
    mean: float = 0.5,
    kind: type[Planner] = Planner,
    step: int = 1000,
    **settings: Any,
) -> Planner:
    """A planner in whose slots machines are used by `mean` on average, each resource a little differently.

    An empty cluster costs about `level` a slot, a full machine 3 to 10,000 times an empty one. Every fifth slot is free.
    """
    resources = len(cluster.resources)
    growth = np.full(resources, rng.uniform(np.log(3.0), np.log(1e4)))
    base = level * rng.uniform(0.5, 2.0, (window, resources)) / np.maximum(cluster.total, 1) / resources
    planner = kind(cluster, window, growth, base, **settings)
    capacity = cluster.capacity[cluster.type_of]
    for t in range(window):
        if t % 5 == 4:
            continue
        load = rng.uniform(0.0, 2 * mean, (cluster.size, 1)) + rng.uniform(-0.2, 0.2, capacity.shape)
        used = (np.clip(load, 0.0, 1.0) * capacity / step).astype(np.int64) * step
        for h in range(cluster.size):
            move(planner.occupancy, t, h, used[h])
    return planner


def free(planner: Planner, t: int) -> NDArray[np.int64]:
    """[machine, r] milli-units."""
    return np.asarray(planner.cluster.capacity[planner.cluster.type_of] - planner.used(t))


def prices(planner: Planner, t: int) -> Floats:
    """[machine, r] per milli-unit, from base, growth and use alone."""
    capacity, occupancy = planner.cluster.capacity[planner.cluster.type_of], planner.occupancy
    share = np.divide(planner.used(t), capacity, out=np.zeros(capacity.shape), where=capacity > 0)
    return np.asarray(occupancy.base[t % planner.window] * np.exp(occupancy.growth * share))


def value_of(job: Job, start: int, end: int) -> Floats:
    return np.array([job.utility(t - job.arrival) for t in range(start, end)])


def plan(planner: Planner, job: Job, **settings: Any) -> tuple[JobArrays, bool, Any]:
    """A plan of the job from its arrival to the end of the window."""
    arrays = arrays_of(job, planner.cluster)
    value = value_of(job, job.arrival, planner.window)
    return arrays, *planner.plan(arrays, value, job.work, job.arrival, planner.window, **settings)
