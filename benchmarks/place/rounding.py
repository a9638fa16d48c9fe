"""Greedy placement against the paper's randomised rounding, in one run: time of planning, and what was earned.

    python benchmarks/place/rounding.py [--machines 100] [--jobs 120] [--seeds 1 2 3 4]

The same jobs, prices and hull fill; no re-planning and no lending. CPU time of the whole run, compiled and warm.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from equipoise.place import placers, prices, simulate, traces
from equipoise.place.prices import densities
from equipoise.place.traces.synthetic import synthetic_cluster

SLOTS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    given = parser.parse_args()
    cluster = synthetic_cluster(given.machines)
    past = traces.synthetic(given.jobs, seed=900, slots=SLOTS)
    posted = prices.Level(0.3 * float(np.median(densities(cluster, past, SLOTS).density)), 10.0, 5.0)
    packings = ("greedy", "rounding")
    for packing in packings:  # warm
        simulate(cluster, past[:2], placers.PDORS(prices=posted, packing=packing, backfill=False), slots=SLOTS)
    spent, earned = dict.fromkeys(packings, 0.0), dict.fromkeys(packings, 0.0)
    for seed in given.seeds:
        jobs = traces.synthetic(given.jobs, seed=seed, slots=SLOTS)
        line = []
        for packing in packings:
            policy = placers.PDORS(prices=posted, packing=packing, backfill=False)
            before = time.process_time()
            run = simulate(cluster, jobs, policy, slots=SLOTS, seed=seed)
            took = time.process_time() - before
            assert run.certificate().passed
            spent[packing] += took
            earned[packing] += run.utility
            line.append(f"{packing} {run.utility:8.1f} in {took:6.2f} s")
        print(f"seed {seed}: {', '.join(line)}", flush=True)
    print(
        f"{given.machines} machines, {given.jobs} jobs: greedy is {spent['rounding'] / spent['greedy']:.0f}x faster,"
        f" and earns {earned['greedy'] / earned['rounding']:.3f}x"
    )


if __name__ == "__main__":
    main()
