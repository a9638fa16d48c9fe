"""The most utility any schedule could reach, with everything known in advance: a linear program, or the optimum itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from equipoise.errors import InputError, said_of
from equipoise.kernels import Floats
from equipoise.place.bound_exact import optimum
from equipoise.place.bound_lp import Program, fitting, pools_of, windows_of
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job, Workload


@dataclass(frozen=True)
class Bound:
    """An upper bound on the total utility. `completion` is the part of each job it completes, in order of arrival."""

    utility: float
    kind: str  # "lp", "milp" (the optimum itself), or "trivial": no job can complete
    status: str  # "optimal"; "inexact", "time_limit": still a bound, not the tightest of its kind
    completion: Floats = field(compare=False, repr=False)
    coarsen: int = 1  # slots to a period
    note: str = ""
    seconds: float = field(default=0.0, compare=False)


@said_of("bound")
def bound(
    cluster: Cluster,
    jobs: Iterable[Job],
    *,
    slots: int | None = None,
    horizon: int | None = None,
    exact: bool = False,
    time_limit: float | None = None,
    coarsen: int | None = None,
) -> Bound:
    """No schedule whose jobs finish in time is worth more than this.

    Parameters
    ----------
    cluster, jobs
        As for `simulate`.
    slots
        Jobs finish before this slot.
    horizon
        Jobs finish within so many slots of their arrival.
    exact
        The optimum itself, for a handful of jobs.
    time_limit
        Stop after so many seconds; what is found by then is still a bound.
    coarsen
        Merge so many slots into one: looser, smaller. As few as fit unless stated.
    """
    began = time.perf_counter()
    workload = Workload.of(jobs)
    windows = windows_of(cluster, workload, slots, horizon)
    if not windows:
        return Bound(0.0, "trivial", "optimal", np.zeros(len(workload)), seconds=time.perf_counter() - began)
    if exact:
        if coarsen not in (None, 1):
            raise InputError(
                f"coarsen is {coarsen!r} with exact=True; the optimum has slots of one. Leave it out",
                code="coarsen.exact",
            )
        utility, status, completion = optimum(cluster, workload, windows, time_limit)
        return Bound(utility, "milp", status, completion, seconds=time.perf_counter() - began)
    period = fitting(cluster, windows, coarsen)
    program = Program(cluster, windows, period, pools_of(cluster, windows))
    solved = program.solve(time_limit)
    completion = np.zeros(len(workload))
    completion[[w.index for w in windows]] = solved.completion
    note = "" if period == 1 else f"slots merged by {period}: looser than slot by slot"
    seconds = time.perf_counter() - began
    return Bound(solved.utility, "lp", solved.status, completion, period, note, seconds)


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
        raise InputError(
            f"duals: histories is {type(histories).__name__}; expected one Workload or more, as [past]",
            code="history.type",
        )
    windows = [w for history in histories for w in windows_of(cluster, history, slots, horizon)]
    if not windows:
        return np.zeros((slots, len(cluster.resources)))
    period = fitting(cluster, windows, coarsen)
    whole = np.ones(len(cluster.machines), dtype=bool)
    solved = Program(cluster, windows, period, [whole], room=len(histories)).solve()
    price = np.where(solved.price > DUST * solved.price.max(), solved.price, 0.0)[:, 0, :]
    price = np.repeat(price / np.maximum(cluster.total, 1), period, axis=0)[:slots]
    return np.concatenate([price, np.zeros((slots - len(price), price.shape[1]))])
