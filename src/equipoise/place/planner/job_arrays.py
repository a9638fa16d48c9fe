"""A job as the planner's kernels see it: demands as rows, rates as tables over the number of workers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job

WIDEST = 65_536  # workers at once that a plan considers; more would only lengthen its tables
COUNTED = 2**60  # milli-units that a width may need in all: what 64 bits add up


class JobArrays(NamedTuple):
    """What a plan needs to know of a job. `per_server` 0: an all-reduce job."""

    worker: Ints  # [r] milli-units
    server: Ints
    per_server: int
    together: Floats  # [w] samples per slot, all on one machine
    apart: Floats  # [w] samples per slot otherwise
    restart: float  # part of a slot lost by a change

    @property
    def widest(self) -> int:
        return len(self.together) - 1

    def __deepcopy__(self, memo: dict[int, object]) -> JobArrays:
        """Itself: nobody changes a job's tables."""
        return self


def arrays_of(job: Job, cluster: Cluster) -> JobArrays:
    """The job's tables on this cluster, no wider than the whole cluster holds."""
    who = f"job {job.id!r}"
    worker = cluster.demand(job.worker, who)
    server = cluster.demand(job.server or {}, who)
    asked = worker > 0
    held = int((cluster.counts * (cluster.capacity[:, asked] // worker[asked]).min(axis=1)).sum())
    largest = max(1, int(worker.max(initial=0)), int(server.max(initial=0)))
    widest = min(job.widest, held, WIDEST, COUNTED // largest)
    per_server = 0 if job.server is None else min(job.workers_per_server, max(1, widest))
    together, apart = (rates(job, widest, near) for near in (True, False))
    return JobArrays(worker, server, per_server, together, apart, float(job.restart))


def rates(job: Job, widest: int, together: bool) -> Floats:
    """`Job.rate` for 0..widest workers at once."""
    bandwidth = job.inside if together else job.between
    w = np.arange(widest + 1, dtype=float)
    if job.server is not None:
        return w / job.sigma(bandwidth)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exchange = 2.0 * (w - 1.0) / w * job.gradient / bandwidth
        out = job.batch / (job.time_per_sample * job.batch / w + exchange)
    out[0] = 0.0
    return out


def most_together(arrays: JobArrays, capacity: Ints) -> int:
    """The most workers that one empty machine of any type holds, with their servers."""
    widest = max(arrays.widest, 0)
    return max(fits_together(row, arrays.worker, arrays.server, arrays.per_server, widest) for row in capacity)


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
