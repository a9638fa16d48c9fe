"""The paper's price constants, as recalled: U from the most a job would pay, L from the least (spec, section 2).

L is so small that prices stay near nothing until a machine is full: kept for fidelity, not for use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.place.execution import Execution
from equipoise.place.job import Workload
from equipoise.place.prices._posted import History, Posted, history_of

TINY = 1e-290  # prices are at least this: below, a float cannot grow by a ratio


@dataclass(frozen=True)
class Recalled:
    """U_r = max u(fastest) / demand_r, L = min u(last) / (2 mu ceil(V sigma_e) sum demand_r); demands as shares."""

    history: History | None = None
    name: ClassVar[str] = "recalled"
    rank: ClassVar[int] = 4

    def post(self, run: Execution, policy: object = None) -> Posted:
        high, low = np.zeros(len(run.cluster.resources)), math.inf
        worker_slots: list[tuple[float, float, float, float]] = []  # u(last), ceil(V sigma_e), ceil(V sigma_i), shares
        for past in history_of(self.history, self.name):
            for best, last, apart, together, shares in _jobs(run, past):
                with np.errstate(divide="ignore", invalid="ignore"):
                    high = np.maximum(high, np.where(shares > 0, best / shares, 0.0))
                worker_slots.append((last, apart, together, float(shares.sum())))
        horizon, resources = run.horizon, len(high)
        mu = max((horizon * resources / (together * shares) for _, _, together, shares in worker_slots), default=1.0)
        low = min((last / (2 * mu * apart * shares) for last, apart, _, shares in worker_slots), default=0.0)
        high = np.where(high > 0, high, high.max(initial=1.0))
        low = min(max(low, TINY), 0.5 * float(high.min()))  # require L < U
        total = np.where(run.cluster.total > 0, run.cluster.total, 1.0)
        limits = dict(zip(run.cluster.resources, high.tolist(), strict=True))
        note: dict[str, object] = {"kind": self.name, "L": low, "U": limits}
        return Posted((low / total)[None, :], np.log(high / low), note)


def _jobs(run: Execution, past: Workload):  # type: ignore[no-untyped-def]
    """u(fastest), u(end of the window), ceil(V sigma_e), ceil(V sigma_i) in worker-slots, and demand as cluster shares."""
    other = Execution(run.cluster, past, None, run.horizon)
    total = np.where(run.cluster.total > 0, run.cluster.total, np.inf)
    for j, (job, arrays) in enumerate(zip(past, other.arrays, strict=True)):
        if other.fastest[j] <= 0.0:
            continue
        slots = math.ceil(job.work / other.fastest[j])
        apart = math.ceil(job.work / job.rate(1, together=False))
        together = math.ceil(job.work / job.rate(1, together=True))
        shares = (arrays.worker + arrays.server) / total
        yield job.utility(max(0, slots - 1)), job.utility(run.horizon), apart, together, shares
