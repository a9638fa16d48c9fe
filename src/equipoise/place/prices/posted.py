"""Posted prices: utility per milli-unit and slot, rising with use: base_r[t] exp(growth_r used / capacity)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.desk import Desk
from equipoise.place.job import Job, Workload

Floats = NDArray[np.float64]
History = Workload | Sequence[Workload]


@dataclass(frozen=True)
class Posted:
    """`base` has a row a slot, or one row for all; columns in the cluster's order of resources.

    `lead[k]` scales the price of the slot k ahead of now: few can still come who would want a slot that is near.
    """

    base: Floats
    growth: Floats
    note: dict[str, Any]
    lead: Floats = field(default_factory=lambda: np.ones(1))
    tide: Any = None  # a `Tide`: prices follow the load

    def rows(self, now: int, count: int) -> Floats:
        """The base prices of `count` slots from `now`, as seen now; the last row and the last lead hold for ever."""
        ahead = np.arange(count)
        lead = self.lead[np.minimum(ahead, len(self.lead) - 1)]
        return np.asarray(self.base[np.minimum(now + ahead, len(self.base) - 1)] * lead[:, None])


class Prices(Protocol):
    """A way to post prices on a desk, from its cluster and from history only."""

    @property
    def name(self) -> str: ...

    def post(self, desk: Desk, policy: Any = None) -> Posted:
        """The prices for this desk; `policy` is who asks, so that history can be replayed with it."""


def history_of(history: History | None, name: str) -> list[Workload]:
    """Past workloads, one or several; none is refused: prices never come from the jobs being scored."""
    given: Any = history
    if isinstance(given, Sequence) and given and all(isinstance(job, Job) for job in given):
        given = Workload.of(given)
    pasts = [given] if isinstance(given, Workload) else list(given) if isinstance(given, Sequence) else []
    if not pasts or not all(isinstance(past, Workload) and len(past) for past in pasts):
        raise InputError(f"{name} prices need history: past jobs, as prices.{name.capitalize()}(history)")
    return pasts


class Densities(NamedTuple):
    """Jobs that can run: arrival, what each would pay for all of the cluster in a slot, and how many such slots it needs."""

    arrival: Floats
    density: Floats
    need: Floats


def densities(cluster: Cluster, jobs: Workload, horizon: int) -> Densities:
    """The need is in cluster-slots: worker-slots times a worker's dominant share, with its part of a server. The worth is
    that of the fastest finish. Jobs that cannot run here, or not in the horizon, are left out."""
    desk = Desk(cluster, jobs, None, horizon)
    rows = []
    total = np.where(cluster.total > 0, cluster.total, np.inf)
    for j, (job, shape) in enumerate(zip(jobs, desk.shapes, strict=True)):
        slots = math.ceil(job.work / desk.fastest[j]) if desk.fastest[j] > 0.0 else horizon + 1
        if slots <= horizon:
            amount = shape.worker + (shape.server / shape.per_server if shape.per_server else 0.0)
            need = job.work / job.rate(1, together=True) * float(np.max(amount / total))
            rows.append((float(job.arrival), job.utility(max(0, slots - 1)) / need, need))
    table = np.array(rows).reshape(len(rows), 3)
    return Densities(table[:, 0], table[:, 1], table[:, 2])


def cut(density: Floats, need: Floats, slots: int) -> float:
    """The price at which the jobs that would pay it just fill so many slots; the lowest when all of them fit."""
    if not len(density):
        return 0.0
    order = np.argsort(-density)
    filled = int(np.searchsorted(np.cumsum(need[order]), slots))
    return float(density[order][min(filled, len(order) - 1)])


def clearing(desk: Desk, pasts: Sequence[Workload]) -> float:
    """The clearing price of past jobs: of the whole cluster for one slot. A scale to search around."""
    prices = []
    for past in pasts:
        found = densities(desk.cluster, past, desk.horizon)
        if len(found.need):
            prices.append(cut(found.density, found.need, desk.slots or max(job.arrival for job in past) + 1))
    return float(np.median(prices)) if prices else 1.0
