"""Posted prices: utility per milli-unit and slot, rising with use: base_r[t] exp(growth_r used / capacity)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.place.cluster import Cluster
from equipoise.place.execution import Execution
from equipoise.place.job import Job, Workload

if TYPE_CHECKING:
    from equipoise.place.placers.pdors import PDORS
    from equipoise.place.simulate import Placer, Result

History = Workload | Sequence[Workload]


@dataclass(frozen=True)
class Posted:
    """`base` has one row per slot, or one for all; columns in the cluster's order of resources.

    `lead[k]` scales the price of the slot k ahead of now: few can still come who would want a slot that is near.
    """

    base: Floats
    growth: Floats
    note: dict[str, object]
    lead: Floats = field(default_factory=lambda: np.ones(1))
    load: LoadIndex | None = None  # prices follow it

    def rows(self, now: int, count: int) -> Floats:
        """The base prices of `count` slots from `now`, as seen now; the last row and the last lead hold for ever."""
        ahead = np.arange(count)
        lead = self.lead[np.minimum(ahead, len(self.lead) - 1)]
        return np.asarray(self.base[np.minimum(now + ahead, len(self.base) - 1)] * lead[:, None])


class Prices(Protocol):
    """A way to post prices on a run, from its cluster and from history only."""

    @property
    def name(self) -> str: ...

    def post(self, run: Execution, policy: PDORS | None = None) -> Posted:
        """The prices for this run; `policy` is who asks, so that history can be replayed with it."""


def history_of(history: History | None, name: str) -> list[Workload]:
    """Past workloads, one or several; none is refused: prices never come from the jobs being scored."""
    given: Any = history
    if isinstance(given, Sequence) and given and all(isinstance(job, Job) for job in given):
        given = Workload.of(given)
    pasts = [given] if isinstance(given, Workload) else list(given) if isinstance(given, Sequence) else []
    if not pasts or not all(isinstance(past, Workload) and len(past) for past in pasts):
        raise InputError(
            f"{name} needs history: one past job or more, a Workload or several of them", code="prices.history"
        )
    return pasts


class Densities(NamedTuple):
    """Jobs that can run: arrival, what each would pay for all of the cluster in a slot, and how many such slots it needs."""

    arrival: Floats
    density: Floats
    need: Floats


def densities(cluster: Cluster, jobs: Workload, horizon: int) -> Densities:
    """The need is in cluster-slots: worker-slots times a worker's dominant share, with its part of a server. The worth is
    that of the fastest finish. Jobs that cannot run here, or not in the horizon, are left out."""
    return _densities(Execution(cluster, jobs, None, horizon))


def _densities(run: Execution, jobs: Workload | None = None) -> Densities:
    """Of the run's own jobs, or of others on its cluster."""
    if jobs is not None and jobs is not run.jobs:
        return densities(run.cluster, jobs, run.horizon)
    rows = []
    total = np.where(run.cluster.total > 0, run.cluster.total, np.inf)
    for j, (job, arrays) in enumerate(zip(run.jobs, run.arrays, strict=True)):
        slots = math.ceil(job.work / run.fastest[j]) if run.fastest[j] > 0.0 else run.horizon + 1
        if slots <= run.horizon:
            amount = arrays.worker + (arrays.server / arrays.per_server if arrays.per_server else 0.0)
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


def clearing(run: Execution, pasts: Sequence[Workload]) -> float:
    """The clearing price of past jobs: of the whole cluster for one slot. A scale to search around."""
    prices = []
    for past in pasts:
        found = _densities(run, past)
        if len(found.need):
            prices.append(cut(found.density, found.need, run.slots or max(job.arrival for job in past) + 1))
    return float(np.median(prices)) if prices else 1.0


def replayed(run: Execution, policy: Placer, pasts: Sequence[Workload]) -> list[Result]:
    """Past jobs under a policy, on the cluster and with the end of this run."""
    from equipoise.place.simulate import simulate

    horizon = None if run.slots is not None else run.horizon
    return [simulate(run.cluster, past, policy, slots=run.slots, horizon=horizon, pace=run.pace) for past in pasts]


EVERY = 6  # slots between two looks
LEAST, MOST = 0.02, 50.0  # how far prices may follow


class LoadIndex:
    """Prices follow the load of the last `window` slots; before the run has lasted that long, the end of history helps."""

    def __init__(self, run: Execution, past: Workload, anchor: float, window: int) -> None:
        self.anchor, self.window = anchor, window
        shift = max(job.arrival for job in past) + 1
        now = _densities(run)
        before = now if past is run.jobs else _densities(run, past)
        self.arrival = np.concatenate((before.arrival - shift, now.arrival))
        self.density = np.concatenate((before.density, now.density))
        self.need = np.concatenate((before.need, now.need))

    def at(self, slot: int) -> float:
        """The factor on all prices in a slot; only jobs of the slots before it count."""
        first, last = np.searchsorted(self.arrival, (slot - self.window, slot))
        price = cut(self.density[first:last], self.need[first:last], self.window)
        return float(np.clip(price / self.anchor, LEAST, MOST))
