"""One decision on a half-loaded cluster, warm, one core: median and 99th percentile by number of machines.

    python benchmarks/place/latency.py [--machines 100 1000 10000] [--decisions 400]

Horizon 1000 slots, the spec's synthetic jobs (a tenth with flat utilities), prices that rise tenfold with use. The
cluster is filled by admitted jobs until half of its scarcest resource is taken over the whole horizon; then new arrivals
are decided, admitted ones are given back. CPU time of this thread; memory is the process's largest.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from equipoise.place import Job, traces
from equipoise.place.job import worth_over
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.prices import densities
from equipoise.place.traces.synthetic import synthetic_cluster

HORIZON = 1000
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--decisions", type=int, default=400)
    given = parser.parse_args()
    measure(20, 20)  # compiles
    for machines in given.machines:
        measure(machines, given.decisions)


if __name__ == "__main__":
    main()
