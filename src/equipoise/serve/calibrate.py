"""Prices for a service from its own past: candidates are replayed over the jobs it was asked for, elsewhere than in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from equipoise.errors import InputError
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.execution import Execution
from equipoise.place.job import Job, Workload
from equipoise.place.job_spec import job_from
from equipoise.place.placers import PDORS
from equipoise.place.prices._posted import clearing
from equipoise.place.prices.fixed import Level
from equipoise.place.prices.replay import RATIOS, STEPS, Trial, gentlest, tried
from equipoise.serve.plan import events as kinds

if TYPE_CHECKING:
    from equipoise.serve.client import Client
    from equipoise.serve.models import ClusterStatus

RATIO = 10.0  # a full machine's price over an empty one's, to begin with
LEAST = 20  # jobs from which prices can be learned


@dataclass(frozen=True)
class Calibrated:
    """Utility per unit and slot on an empty machine by resource; what history would have earned with and without it."""

    base: dict[str, float]
    ratio: float
    jobs: int
    utility: float
    utility_free: float  # at no price
    trials: int


def machines_of(about: ClusterStatus) -> Cluster:
    """The machines of a service that are not down, equal neighbours as one type."""
    there = [machine.capacity for machine in about.machines if machine.status != "down"]
    if not there:
        raise InputError("every machine is down; prices cannot be told")
    types = [(capacity, sum(1 for _ in same)) for capacity, same in groupby(there)]
    return Cluster(tuple(Machine(capacity, count, f"type{k}") for k, (capacity, count) in enumerate(types)))


def past(client: Client, slots: int | None) -> tuple[Cluster, Workload, int]:
    """The machines of a service, the jobs it was asked for in its last `slots` slots, and its horizon."""
    about = client.cluster()
    cluster = machines_of(about)
    first = 0 if slots is None else about.now - slots
    jobs: list[Job] = []
    for told in client.log():
        if told.kind == kinds.SUBMITTED and told.slot >= first:
            jobs.append(job_from(told.data["job"], cluster, about.slot_seconds))
    if len(jobs) < LEAST:
        raise InputError(f"{len(jobs)} jobs to learn from; expected at least {LEAST}, or --history FILE")
    start = min(job.arrival for job in jobs)
    moved = tuple(job.but(arrival=job.arrival - start) for job in jobs)
    return cluster, Workload(moved, slot=about.slot_seconds, source="the service"), about.horizon


def calibrate(
    cluster: Cluster, history: Workload, horizon: int, progress: Callable[[int, int], None] | None = None
) -> Calibrated:
    """The gentlest of the levels and rises that earned as good as the most on history."""
    run = Execution(cluster, history, None, horizon)
    anchor = clearing(run, [history])
    table: list[Trial] = []
    count = len(STEPS) + len(RATIOS)

    def play(prices: Level) -> None:
        table.append(tried(prices, run, PDORS(), [history]))
        if progress is not None:
            progress(len(table), count)

    for step in STEPS:
        play(Level(step * anchor, RATIO))
    best = gentlest(table).prices
    for ratio in RATIOS if best.level > 0.0 else ():
        play(replace(best, ratio=ratio))
    found = gentlest(table)
    per_unit = found.prices.level / np.maximum(cluster.total, 1) * 1000.0
    base = dict(zip(cluster.resources, per_unit.tolist(), strict=True))
    return Calibrated(base, found.prices.ratio, len(history), found.utility, table[0].utility, len(table))
