"""What capacity is worth, slot by slot, judging by past workloads: the prices of the compact program over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.errors import InputError
from equipoise.place.bound_lp import Program, fitting
from equipoise.place.bound_modes import Floats, windows_of
from equipoise.place.cluster import Cluster
from equipoise.place.job import Workload

DUST = 1e-6  # of the highest price: what interior points leave on a resource that is not short


def duals(
    cluster: Cluster,
    histories: Sequence[Workload],
    slots: int,
    *,
    horizon: int | None = None,
    coarsen: int | None = None,
) -> Floats:
    """Utility per milli-unit of resource r of the cluster in slot t: [slots, resources], zero where there is no shortage.

    M histories run side by side on M times the capacity, so each counts 1/M. Merged slots share a price.
    """
    if not len(histories) or any(not isinstance(history, Workload) for history in histories):
        raise InputError(f"duals: histories is {type(histories).__name__}; expected one Workload or more, as [past]")
    windows = [w for history in histories for w in windows_of(cluster, history, slots, horizon)]
    if not windows:
        return np.zeros((slots, len(cluster.resources)))
    period = fitting(cluster, windows, coarsen)
    whole = np.ones(len(cluster.machines), dtype=bool)
    solved = Program(cluster, windows, period, [whole], room=len(histories)).solve()
    price = np.where(solved.price > DUST * solved.price.max(), solved.price, 0.0)[:, 0, :]
    price = np.repeat(price / np.maximum(cluster.total, 1), period, axis=0)[:slots]
    return np.concatenate([price, np.zeros((slots - len(price), price.shape[1]))])
