"""A job as the planner's kernels see it: demands as rows, rates as tables over the number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Bools, Floats, Int32s, Ints, inner, kernel
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job

WIDEST = 65_536  # workers at once that a plan considers; more would only lengthen its tables
COUNTED = 2**60  # milli-units that a width may need in all: what 64 bits add up


class JobArrays(NamedTuple):
    """What a plan needs to know of a job. `per_server` 0: an all-reduce job."""

    worker: Ints  # [r] milli-units
    server: Ints
    per_server: int
    together: Floats  # [domain, w] samples per slot, all on one machine; 0: it does not take the type
    apart: Floats  # [domain, w] samples per slot otherwise
    restart: float  # part of a slot lost by a change
    within: Bools  # [domain, machine] whether it is in it

    @property
    def widest(self) -> int:
        return int(self.together.shape[1]) - 1

    @property
    def taken(self) -> list[int]:
        """The domains (`Cluster.domains`: types, and their racks) that it takes."""
        return [on for on in range(len(self.together)) if len(self.together) == 1 or takes(self, on)]

    def held(self, width: int) -> Ints:
        """[r] milli-units of so many workers and their servers."""
        return width * self.worker + servers_for(width, self.per_server) * self.server

    def ways(self, width: int) -> list[int]:
        """Domains it takes, together or spread (2 `domain` + TOGETHER or SPREAD), the fastest at a width first."""
        if len(self.together) == 1:
            return [0, 1]
        near = self.together[:, width]
        rates = np.column_stack((near, np.minimum(near, self.apart[:, width]))).ravel()
        return [way for way in np.argsort(-rates, kind="stable").tolist() if rates[way] > 0.0]

    def __deepcopy__(self, memo: dict[int, object]) -> JobArrays:
        """Itself: nobody changes a job's tables."""
        return self


def arrays_of(job: Job, cluster: Cluster) -> JobArrays:
    """The job's tables on this cluster, no wider than the whole cluster holds."""
    who = f"job {job.id!r}"
    cluster.typed(job.speeds or (), who)
    worker = cluster.packed(cluster.demand(job.worker, who))
    server = cluster.packed(cluster.demand(job.server or {}, who))
    asked = worker > 0
    by_entry = cluster.counts * (cluster.capacity[:, asked] // worker[asked]).min(axis=1)
    own = [cluster.entry_types == on for on, name in enumerate(cluster.types) if job.takes(name)]
    held = max(int(by_entry[entries].sum()) for entries in own)
    largest = max(1, int(worker.max(initial=0)), int(server.max(initial=0)))
    widest = min(job.widest, held, WIDEST, COUNTED // largest)
    per_server = 0 if job.server is None else min(job.workers_per_server, max(1, widest))
    together, apart = (tables(job, cluster.domains, widest, near) for near in (True, False))
    return JobArrays(worker, server, per_server, together, apart, float(job.restart), cluster.within)


def tables(job: Job, domains: Sequence[tuple[str, str | None]], widest: int, together: bool) -> Floats:
    """[domain, w] `Job.rate` for 0..widest workers at once."""
    several = [rack is None and sum(name == other for other, _ in domains) > 1 for name, rack in domains]
    out = np.array([rates(job, widest, together, across) for across in several])
    for on, (name, _) in enumerate(domains if job.speeds is not None else ()):
        speed = (job.speeds or {}).get(name, 0.0)
        if isinstance(speed, Sequence):
            near = np.append(1.0, rates(job, widest, True)[1:])  # no workers: nothing either way
            out[on] *= np.append(0.0, speed)[np.minimum(np.arange(widest + 1), len(speed))] / near
        else:
            out[on] *= speed
    return out


def rates(job: Job, widest: int, together: bool, across: bool = False) -> Floats:
    """`Job.rate` for 0..widest workers at once."""
    bandwidth = job.bandwidth(together, across)
    w = np.arange(widest + 1, dtype=float)
    if job.server is not None:
        return w / job.sigma(bandwidth)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exchange = 2.0 * (w - 1.0) / w * job.gradient / bandwidth
        out = job.batch / (job.time_per_sample * job.batch / w + exchange)
    out[0] = 0.0
    return out


def alone(arrays: JobArrays, cluster: Cluster, domain: int | None = None) -> tuple[int, Floats]:
    """On an empty cluster: the most workers on one machine with their servers, and [w] the rate, together if that can be."""
    worker, server, widest = arrays.worker, arrays.server, arrays.widest
    held = np.array([fits_together(row, worker, server, arrays.per_server, widest) for row in cluster.capacity])
    entries = np.cumsum(cluster.counts) - cluster.counts  # the first machine of each
    most, best = 0, np.zeros(widest + 1)
    for on in arrays.taken if domain is None else (domain,):
        one = int(held[arrays.within[on, entries]].max())
        rates = np.where(np.arange(widest + 1) <= one, arrays.together[on], arrays.apart[on])
        most, best = max(most, one), np.maximum(best, rates)
    return most, best


@kernel
def takes(arrays: JobArrays, on: int) -> bool:
    """Whether the job may sit in a domain."""
    return bool(arrays.together[on, -1] > 0.0 or arrays.apart[on, -1] > 0.0)


@inner
def inside(within: Bools, on: int, cells: Int32s, first: int, last: int) -> bool:
    """Whether the machines (column 1) of cells first..last-1 are all in a domain; one that there is not is in all."""
    for k in range(first, last):  # noqa: SIM110  # numba compiles no generator
        if 0 <= cells[k, 1] < within.shape[1] and not within[on, cells[k, 1]]:
            return False
    return True


@kernel
def servers_for(workers: int, per_server: int) -> int:
    """ceil(w / gamma); none in an all-reduce job."""
    return 0 if per_server == 0 else (workers + per_server - 1) // per_server


@kernel
def fits_together(free: Ints, worker: Ints, server: Ints, per_server: int, most: int) -> int:
    """The most workers that fit one machine with the servers they need."""
    blocks = most
    if per_server > 0:
        blocks = most // per_server + 1
        for r in range(free.shape[0]):
            block = per_server * worker[r] + server[r]
            if block > 0:
                blocks = min(blocks, free[r] // block)
        rest = per_server
        for r in range(free.shape[0]):
            left = free[r] - blocks * (per_server * worker[r] + server[r]) - server[r]
            if left < 0:
                rest = 0
            elif worker[r] > 0:
                rest = min(rest, left // worker[r])
        return min(most, blocks * per_server + rest)
    for r in range(free.shape[0]):
        if worker[r] > 0:
            blocks = min(blocks, free[r] // worker[r])
    return blocks
