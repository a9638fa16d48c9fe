"""What a job can do in a slot at best: its modes, and the slots in which completing is worth something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job, Workload
from equipoise.place.utility import worth_over

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EDGES = 6  # at most so many modes for a concave rate; its envelope can be exact up to this width
CLOSE = 3e-3  # a rate overestimated by this part needs no more modes
ROUNDING = 1e-9  # of a job's work: what a float sum may miss and still be called done
FAINT = 1e-9  # of a job's utility: later completions are not modelled, their worth is added to the bound


@dataclass(frozen=True)
class Window:
    """A job that can complete: its slots, what completing in each is worth, and its modes."""

    index: int  # in the workload
    job: Job
    worth: Floats  # u(0), u(1), ... for as long as it is worth anything
    faint: float  # the most that completing later would be worth
    earliest: int  # slots from arrival to the first in which it could complete, alone
    need: float  # samples, what truly has to be done
    share: Floats  # [modes] part of the work done in a slot
    workers: Floats  # [modes]
    servers: Floats  # [modes]

    @property
    def end(self) -> int:
        return self.job.arrival + len(self.worth)


def windows_of(cluster: Cluster, workload: Workload, slots: int | None, horizon: int | None) -> list[Window]:
    """The jobs that can complete in time; the rest add nothing."""
    for name, value in (("slots", slots), ("horizon", horizon)):
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise InputError(f"bound: {name} is {value!r}; expected a whole number of slots, 1 or more")
    if slots is None and horizon is None:
        raise InputError("bound: without an end every job completes some day; give slots=, horizon=, or both")
    found = []
    for index, job in enumerate(workload):
        last = min(x for x in (slots, None if horizon is None else job.arrival + horizon) if x is not None)
        if last > job.arrival and (window := window_of(cluster, index, job, last - job.arrival)) is not None:
            found.append(window)
    return found


def window_of(cluster: Cluster, index: int, job: Job, count: int) -> Window | None:
    """The job with `count` slots from its arrival, or None if it cannot complete in them or that is worth nothing."""
    width, rate, servers = modes(cluster, job)
    need = job.work * job.actual * (1.0 - ROUNDING)
    if not len(rate) or need > count * rate[-1]:
        return None
    earliest = max(0, math.ceil(need / rate[-1]) - 1)
    worth = worth_over(job.utility.kind, *job.utility.parameters, 0, count)
    if not worth[earliest] > 0.0:
        return None
    kept = int(np.count_nonzero(worth > FAINT * worth[earliest]))
    faint = float(worth[kept]) if kept < count else 0.0
    return Window(index, job, worth[:kept], faint, earliest, need, rate / need, width, servers)


def modes(cluster: Cluster, job: Job) -> tuple[Floats, Floats, Floats]:
    """Workers, samples per slot and servers of the modes of which every width, together or apart, is a mix or worse."""
    inner, outer = int(together(cluster, job).max()), apart(cluster, job)
    points = [(*point, inner) for point in envelope(job, inner, together=True)]
    points += [(*point, outer) for point in envelope(job, outer, together=False)]
    hull: list[tuple[float, float, int]] = [(0.0, 0.0, 1)]
    for width, rate, limit in sorted(points, key=lambda p: (p[0], -p[1])):
        if rate <= hull[-1][1]:
            continue  # more workers for no more work
        while len(hull) > 1 and (rate - hull[-1][1]) * (hull[-1][0] - hull[-2][0]) >= (hull[-1][1] - hull[-2][1]) * (
            width - hull[-1][0]
        ):
            hull.pop()
        hull.append((width, rate, limit))
    workers, rates = np.array([h[0] for h in hull[1:]]), np.array([h[1] for h in hull[1:]])
    if job.server is None:
        return workers, rates, np.zeros(len(workers))
    # ceil(w / gamma) is at least w / gamma, and at least 1 however wide the mode may be
    per_worker = np.array([max(1.0 / job.workers_per_server, 1.0 / h[2]) for h in hull[1:]])
    return workers, rates, workers * per_worker


def envelope(job: Job, widest: int, *, together: bool) -> list[tuple[float, float]]:
    """(workers, samples per slot) whose concave hull from (0, 0) is nowhere below the rate of a whole width."""
    if widest < 1:
        return []
    if job.server is not None:
        return [(float(widest), job.rate(widest, together=together))]
    if widest == 1 or job.rate(2, together=together) <= job.rate(1, together=together):
        return [(1.0, job.rate(1, together=together))]  # a second worker brings less than exchanging gradients costs
    # w / (A + B w) with A > 0 is concave: lines through neighbouring widths lie above it, and so do their corners
    for lines in range(2, EDGES + 1):
        starts = np.unique(np.r_[0, np.round(np.geomspace(1, widest - 1, lines - 1)).astype(np.int64)])
        if lines == 2:
            starts = np.array([0, widest - 1])
        low, high = (np.array([job.rate(int(w) + k, together=together) for w in starts]) for k in (0, 1))
        slope, level = high - low, low - (high - low) * starts
        bend = slope[:-1] - slope[1:]
        corner = np.divide(level[1:] - level[:-1], bend, out=starts[1:].astype(float), where=bend > 1e-12 * slope[0])
        corner = np.r_[np.clip(corner, starts[:-1] + 1, starts[1:]), float(widest)]
        height = slope * corner + level
        height[:-1] = np.maximum(height[:-1], slope[1:] * corner[:-1] + level[1:])  # the higher line: never below
        if (height <= (1.0 + CLOSE) * np.array([job.rate(w, together=together) for w in corner])).all():
            break
    return list(zip(corner.tolist(), height.tolist(), strict=True))


def together(cluster: Cluster, job: Job) -> Ints:
    """The most workers one empty machine of each type holds together with their servers."""
    worker, server = demands(cluster, job)
    return np.array([_held(room, worker, server, job) for room in cluster.capacity.tolist()], dtype=np.int64)


def apart(cluster: Cluster, job: Job) -> int:
    """At most so many workers does the whole cluster hold: by machine without servers, and by its sum with them."""
    worker, server = demands(cluster, job)
    hosts = [
        min((c // a for c, a in zip(row, worker, strict=True) if a), default=0) for row in cluster.capacity.tolist()
    ]
    if server is not None and not any(fits(row, server) for row in cluster.capacity.tolist()):
        return 0
    by_machine = sum(m.count * n for m, n in zip(cluster.machines, hosts, strict=True))
    return min(by_machine, _held([int(amount) for amount in cluster.total], worker, server, job))


def demands(cluster: Cluster, job: Job) -> tuple[list[int], list[int] | None]:
    """Milli-units of a worker and of a server, in the cluster's order of resources."""
    who = f"job {job.id!r}"
    server = None if job.server is None else cluster.demand(job.server, who).tolist()
    return cluster.demand(job.worker, who).tolist(), server


def fits(room: Sequence[int], demand: Sequence[int]) -> bool:
    return all(a <= c for c, a in zip(room, demand, strict=True))


def _held(room: Sequence[int], worker: Sequence[int], server: Sequence[int] | None, job: Job) -> int:
    """The largest w with w workers and ceil(w / gamma) servers in `room`: whole groups of gamma, then a part of one."""
    if server is None:
        return min([job.widest, *(c // a for c, a in zip(room, worker, strict=True) if a)])
    gamma = job.workers_per_server
    group = [gamma * a + b for a, b in zip(worker, server, strict=True)]
    groups = min(c // g for c, g in zip(room, group, strict=True) if g)
    left = [c - groups * g - b for c, g, b in zip(room, group, server, strict=True)]
    rest = min(c // a for c, a in zip(left, worker, strict=True) if a) if min(left) >= 0 else 0
    return min(job.widest, groups * gamma + rest)
