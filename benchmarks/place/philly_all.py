"""The whole Philly file at 10-minute slots on 100 eight-GPU machines, rolling horizon of 288: jobs per CPU-second.

    python benchmarks/place/philly_all.py [--machines 100] [--policy dated] [--data ../shared/data]

Machine ids are assigned and the schedule is verified. `dated` (nothing stated) or `pdors` (worth drawn, no re-planning);
both learn from the first 2,000 jobs, which are scored too (at this size the cluster is nearly idle; with --machines 8 it is
crowded).
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

from equipoise.place import placers, prices, simulate, traces
from equipoise.place.execution import BEYOND_HORIZON


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EQUIPOISE_DATA", "../shared/data")))
    parser.add_argument("--policy", choices=("dated", "pdors"), default="dated")
    given = parser.parse_args()
    worth = "none" if given.policy == "dated" else "drawn"
    before = time.process_time()
    jobs = traces.philly(given.data / "traces" / "philly" / "philly.csv", slot="10m", seed=7, worth=worth)
    print(f"{len(jobs):,} jobs read in {time.process_time() - before:.1f} s of CPU, {len(jobs.skipped)} rows skipped")
    cluster = traces.gpu_cluster(given.machines)
    past = jobs[:2000]
    policy = placers.Dated(history=past) if given.policy == "dated" else placers.PDORS(prices=prices.Replay(past))
    before = time.process_time()
    simulate(cluster, jobs[:2000], policy, horizon=288)  # compiles, and calibrates
    print(f"calibrated on 2,000 jobs in {time.process_time() - before:.1f} s of CPU (with compiling, if new)")

    before = time.process_time()
    run = simulate(cluster, jobs, policy, horizon=288)
    spent = time.process_time() - before
    print(f"{len(jobs) / spent:,.0f} jobs per CPU-second: {spent:.1f} s, {len(run.schedule):,} cells with machine ids")
    hours = {job.id: job.requested * job.work / job.rate(job.requested, together=job.requested <= 8) for job in jobs}
    beyond = [job for job, log in zip(jobs, run.decisions, strict=True) if log and log[-1].reason == BEYOND_HORIZON]
    share = sum(hours[job.id] for job in beyond) / sum(hours.values())
    print(f"{len(beyond)} jobs beyond the horizon ({len(beyond) / len(jobs):.1%}), {share:.1%} of GPU time")
    row = run.row
    print(
        f"utility {row['utility']:,.0f}; completed {row['completed']:,}; hours from arrival to finish: mean"
        f" {row['mean_completion']:.2f}, median {row['median_completion']:.2f}, p99 {row['p99_completion']:.1f}"
    )
    before = time.process_time()
    certificate = run.certificate()
    print(f"verified in {time.process_time() - before:.1f} s of CPU: {'passed' if certificate.passed else 'FAILED'}")
    for check in certificate:
        print(f"  {check.name:10s} {check.value} <= {check.limit}: {check.meaning}")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
