"""Three weeks of Philly, each on as many eight-GPU machines as make mapped demand about twice the supply.

    python benchmarks/place/philly_weeks.py [--replan 0] [--unsized] [--bound] [--data ../shared/data]

Prices are calibrated on the week before. Demand counts only jobs that could finish within the horizon of 288 slots (two
days). Utilities are synthesised (see the printed note); --unsized makes them independent of the job's size.
"""

from __future__ import annotations

import argparse
import os
import time
from datetime import datetime
from pathlib import Path

from equipoise.place import bound, placers, prices, simulate, traces

WEEKS = {"2017-10-23": 7, "2017-11-06": 5, "2017-11-20": 5}  # machines
WEEK, HORIZON = 1008, 288  # slots of ten minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replan", type=int, default=0)
    parser.add_argument("--unsized", action="store_true")
    parser.add_argument("--bound", action="store_true")
    parser.add_argument("--weeks", nargs="+", default=list(WEEKS))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EQUIPOISE_DATA", "../shared/data")))
    given = parser.parse_args()
    path = given.data / "traces" / "philly" / "philly.csv"
    everything = traces.philly(path, slot="10m", seed=7, worth="drawn", sized_utility=not given.unsized)
    print(everything.note)
    for date in given.weeks:
        machines = WEEKS[date]
        since = datetime.fromisoformat(date) - datetime.fromisoformat(everything.start)
        first = int(since.total_seconds() // everything.slot)
        jobs, past = everything.between(first, first + WEEK), everything.between(first - WEEK, first)
        cluster = traces.gpu_cluster(machines)
        slots = {job.id: job.work / job.rate(job.requested, together=job.requested <= 8) for job in jobs}
        inside = [job for job in jobs if slots[job.id] <= HORIZON]
        demand = sum(slots[job.id] * job.requested for job in inside) / (8 * machines * WEEK)
        print(
            f"\n{date}: {len(jobs)} jobs, {len(inside)} within the horizon, {len(past)} the week before;"
            f" {machines} machines, demand {demand:.2f} x supply"
        )
        posted = prices.Replay(past)
        shown = [
            placers.SRTF(),
            placers.LAS(),
            placers.DRF(),
            placers.FIFO(),
            placers.PDORS(prices=posted, backfill=False, label="replay"),
            placers.PDORS(prices=posted, label="replay + backfill"),
        ]
        if given.replan:
            shown.append(placers.PDORS(prices=posted, replan=given.replan, label="replay + backfill + replan"))
        srtf = None
        for policy in shown:
            began = time.process_time()
            run = simulate(cluster, jobs, policy, horizon=HORIZON, seed=7)
            spent = time.process_time() - began
            assert run.certificate().passed, run.certificate()
            srtf = srtf or run
            row = run.row
            print(
                f"  {policy.label:26s} utility {row['utility']:8,.0f} ({row['utility'] / srtf.utility - 1:+.1%} on SRTF);"
                f" completed {row['completed']:5d}; hours mean {row['mean_completion']:5.1f}, median"
                f" {row['median_completion']:4.1f}, p99 {row['p99_completion']:4.0f}; {spent:.0f} s of CPU",
                flush=True,
            )
        print("  prices", run.detail["prices"])
        if given.bound:
            most = bound(cluster, jobs, slots=run.end)
            print(f"  bound {most.utility:,.0f} ({most.note}); SRTF earns {srtf.utility / most.utility:.1%} of it")


if __name__ == "__main__":
    main()
