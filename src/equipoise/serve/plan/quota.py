"""What a tenant may hold at once: milli-units of each resource in any slot, and jobs that are not over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from equipoise.place.cluster import Cluster
from equipoise.place.planner.seat import SLOT
from equipoise.place.planner.shape import Shape
from equipoise.serve.plan.floor import Int32s, Ints, held_by

JOBS = "jobs"
Quota = Mapping[str, int]
UNLIMITED = np.iinfo(np.int64).max // 4


def limits(quota: Quota, cluster: Cluster) -> Ints:
    """[r] milli-units in the cluster's order."""
    return np.array([quota.get(r, UNLIMITED) for r in cluster.resources], np.int64)


def limited(quota: Quota) -> bool:
    return any(name != JOBS for name in quota)


def use_by_slot(held: Iterable[tuple[Shape, Int32s]], first: int, count: int, resources: int) -> Ints:
    """[slot, r] milli-units that jobs hold in slots first..first+count-1."""
    out = np.zeros((count, resources), np.int64)
    for shape, cells in held:
        ahead = cells[(cells[:, SLOT] >= first) & (cells[:, SLOT] < first + count)]
        np.add.at(out, ahead[:, SLOT] - first, held_by(shape, ahead))
    return out


def within(limit: Ints, used: Ints, first: int, shape: Shape, cells: Int32s) -> bool:
    """Whether cells keep the tenant within its limit in every slot."""
    more = use_by_slot([(shape, cells)], first, len(used), len(limit))
    return bool((used + more <= limit).all())


def widest(limit: Ints, used: Ints, shape: Shape) -> int:
    """The most workers (with servers) that fit the quota in every slot, whatever the slots chosen."""
    free = (limit - used).min(axis=0) if len(used) else limit
    per = shape.worker + (-(-shape.server // shape.per_server) if shape.per_server else 0)
    asked = per > 0
    if (free[asked] < per[asked]).any():
        return 0
    most = int((free[asked] // per[asked]).min())
    while most > 0 and shape.per_server:
        need = most * shape.worker + -(-most // shape.per_server) * shape.server
        if (need <= free).all():
            break
        most -= 1
    return min(most, shape.widest)


def free_from(limit: Ints, used: Ints, shape: Shape, first: int) -> int:
    """The first slot from which on the quota holds a worker (with a server) in every slot."""
    short = ((used + shape.worker + shape.server) > limit).any(axis=1)
    return first + (int(np.flatnonzero(short)[-1]) + 1 if short.any() else 0)


def narrowed(shape: Shape, most: int) -> Shape:
    """The same job with at most so many workers at once."""
    return shape._replace(together=shape.together[: most + 1], apart=shape.apart[: most + 1])
