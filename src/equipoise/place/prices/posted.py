"""Posted prices: utility per milli-unit and slot, rising with use: base_r[t] exp(growth_r used / capacity)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.place.cluster import Cluster
from equipoise.place.desk import Desk
from equipoise.place.job import Workload
from equipoise.place.planner.shape import shape_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Posted:
    """`base` has a row a slot, or one row for all; both in the cluster's order of resources."""

    base: Floats
    growth: Floats
    note: dict[str, Any]

    def rows(self, first: int, count: int) -> Floats:
        """The base prices of `count` slots from `first`; the last row holds for ever."""
        return self.base[np.minimum(np.arange(first, first + count), len(self.base) - 1)]


class Prices(Protocol):
    """A way to post prices on a desk, from its cluster and from history only."""

    @property
    def name(self) -> str: ...

    def post(self, desk: Desk) -> Posted: ...


def densities(cluster: Cluster, jobs: Workload, horizon: int) -> Floats:
    """What each job would pay for all of the cluster in one slot: u / (worker-slots x dominant share of a worker).

    The worth is that of the fastest finish. Jobs that cannot run here are left out.
    """
    desk = Desk(cluster, jobs, None, horizon)
    out = []
    for j, (job, shape) in enumerate(zip(jobs, desk.shapes, strict=True)):
        if desk.fastest[j] <= 0.0:
            continue
        need = shape.worker + (shape.server / shape.per_server if shape.per_server else 0.0)
        share = float(np.max(need[cluster.total > 0] / cluster.total[cluster.total > 0]))
        slots = int(np.ceil(job.work / desk.fastest[j]))
        workers = job.work / shape_of(job.but(most=1), cluster).together[-1]
        out.append(job.utility(max(0, slots - 1)) / (workers * share))
    return np.array(out)
