"""One decision, warm, one core: median and 99th percentile by number of machines.

    python benchmarks/place/latency.py [--machines 100 1000 10000] [--decisions 400] [--dated [--load 0.5 2] [--jobs 20000]]

With --dated: Dated in a whole run, jobs of Philly that arrive so fast that they ask for `load` times the cluster; its
arrivals and its slots (order, seats, plans), with nothing stated. Without: one decision of PDORS on a half-loaded cluster.
Horizon 1000 slots, the spec's synthetic jobs (a tenth with flat utilities), prices that rise tenfold with use. The
cluster is filled by admitted jobs until half of its scarcest resource is taken over the whole horizon; then new arrivals
are decided, admitted ones are given back. CPU time of this thread; memory is the process's largest.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.place import Job, placers, simulate, traces
from equipoise.place.job import worth_over
from equipoise.place.placers.dated import DatedSession
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.prices import densities
from equipoise.place.traces.synthetic import synthetic_cluster

HORIZON = 1000
PHILLY_HORIZON, GPUS = 288, 8
LOAD = 0.5


def decide(planner: Planner, job: Job, start: int):  # type: ignore[no-untyped-def]
    """What a policy does at an arrival: the job's tables, its worth by slot, the best schedule."""
    arrays = arrays_of(job, planner.cluster)
    value = worth_over(job.utility.kind, *job.utility.parameters, 0, HORIZON - start)
    return arrays, planner.plan(arrays, value, job.work, start, HORIZON)[1]


def measure(machines: int, decisions: int) -> None:
    cluster = synthetic_cluster(machines)
    jobs = traces.synthetic(2000, seed=1, slots=HORIZON // 5)
    level = float(np.median(densities(cluster, jobs, HORIZON).density)) * 0.05
    planner = Planner(cluster, HORIZON, np.full(4, np.log(10.0)), level / cluster.total)
    rng, taken, k = np.random.default_rng(2), np.zeros(4), 0
    began = time.perf_counter()
    while (taken / (cluster.total * HORIZON)).max() < LOAD:
        job = jobs[k % len(jobs)]
        arrays, plan = decide(planner, job, int(rng.integers(0, HORIZON - 20)))
        if plan is not None:
            planner.take(arrays, plan.cells)
            cells = plan.cells.astype(np.int64)
            taken += cells[:, 2].sum() * arrays.worker + cells[:, 3].sum() * arrays.server
        k += 1
    filled = time.perf_counter() - began
    spent, admitted = [], 0
    for job in traces.synthetic(decisions, seed=3, slots=HORIZON // 5):
        before = time.thread_time()
        arrays, plan = decide(planner, job, 0)
        if plan is not None:
            planner.take(arrays, plan.cells)
        spent.append(1e3 * (time.thread_time() - before))
        if plan is not None:
            admitted += 1
            planner.release(arrays, plan.cells)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{machines:6d} machines: median {np.median(spent):.2f} ms, 99th percentile {np.percentile(spent, 99):.2f} ms,"
        f" worst {max(spent):.1f} ms; {admitted} of {decisions} admitted; filled by {k} jobs in {filled:.0f} s;"
        f" {memory:.0f} MB",
        flush=True,
    )


def dated(machines: int, load: float, count: int, path: Path) -> None:
    """Every arrival and every slot of a run."""
    everything = traces.philly(path, slot="10m", seed=7)[:count]
    need = sum(j.work / j.rate(j.requested, together=j.requested <= GPUS) * j.requested for j in everything)
    first, last = everything[0].arrival, everything[-1].arrival + 1
    span = need / (GPUS * machines * load)
    jobs = tuple(j.but(arrival=int((j.arrival - first) / (last - first) * span)) for j in everything)
    spent: dict[str, list[float]] = {"arrive": [], "slot": []}
    timed = type("Timed", (DatedSession,), {name: _timed(getattr(DatedSession, name), spent[name]) for name in spent})
    policy = placers.Dated()
    object.__setattr__(policy, "start", lambda run, seed: timed(policy, run))
    result = simulate(traces.gpu_cluster(machines), replace(everything, jobs=jobs), policy, horizon=PHILLY_HORIZON)
    print(f"{machines:6d} machines at {load:g} x load, {count:,} jobs, {result.admitted:,} promised: ", end="")
    for name, times in spent.items():
        print(f"{name} median {np.median(times):.2f} ms, 99th percentile {np.percentile(times, 99):.2f} ms; ", end="")
    print(flush=True)


def _timed(function: Callable[..., None], spent: list[float]) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        before = time.thread_time()
        function(*arguments)
        spent.append(1e3 * (time.thread_time() - before))

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--decisions", type=int, default=400)
    parser.add_argument("--dated", action="store_true")
    parser.add_argument("--load", type=float, nargs="+", default=[0.5, 2.0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EQUIPOISE_DATA", "../shared/data")))
    given = parser.parse_args()
    if given.dated:
        path = given.data / "traces" / "philly" / "philly.csv"
        dated(4, 2.0, 300, path)  # compiles
        for machines in given.machines:
            for load in given.load:
                dated(machines, load, given.jobs, path)
        return
    measure(20, 20)  # compiles
    for machines in given.machines:
        measure(machines, given.decisions)


if __name__ == "__main__":
    main()
