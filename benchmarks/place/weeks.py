"""Weeks of four sources at about twice the load: Dated beside SRTF, nothing stated; and beside PDORS, with worth drawn.

    python benchmarks/place/weeks.py [--weeks philly-6c71a0-1016 gavel-5] [--data ../shared/data]
    python benchmarks/place/weeks.py --worth drawn [--unsized] [--bound] [--rivals]

Dates, and the price of machine-time, are learnt on the week before. Slots of ten minutes, a horizon of 288 (two days), as
many equal machines as make the demand of jobs that fit the horizon so many times the supply. A star marks what misses its
limit beside SRTF: done and in time 1 % less, mean slowdown 5 % and p95 15 % more; the median date 3 times what was taken.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equipoise.place import Cluster, Job, Machine, Result, Unstated, Workload, bound, placers, prices, simulate, traces
from equipoise.place.simulate import Placer

WEEK, HORIZON, DAY = 1008, 288, 144  # slots of ten minutes
LIMITS = {"completed": -0.01, "in_time": -0.01, "mean_slowdown": 0.05, "p95_slowdown": 0.15}  # beside SRTF
TIGHT = 3.0
DRAWN = {"2017-10-23": 7, "2017-11-06": 5, "2017-11-20": 5}  # machines
MIXED = Machine({"gpu": 8, "cpu": 128, "memory": "768Gi"})  # of Alibaba


class Week(NamedTuple):
    source: str  # the reader of the trace, or a file of ElasticFlow
    part: str  # virtual cluster of Philly
    begin: str | int  # a date, or a slot
    load: float = 2.0
    elasticity: int = 1


WEEKS = {  # the seven of the specification, two of them elastic as well; then our own
    "philly-6c71a0-1016": Week("philly", "6c71a0", "2017-10-16"),
    "philly-6214e9-1120": Week("philly", "6214e9", "2017-11-20"),
    "gavel-5": Week("gavel", "", 4 * WEEK),
    "gavel-6": Week("gavel", "", 5 * WEEK),
    "alibaba": Week("alibaba", "", 20160),
    "elasticflow-05": Week("cluster05", "", 21 * DAY, 2.1),
    "elasticflow-08": Week("cluster08", "", 28 * DAY, 2.1),
    "philly-6214e9-1106": Week("philly", "6214e9", "2017-11-06"),
    "philly-6c71a0-1023": Week("philly", "6c71a0", "2017-10-23"),
    "philly-1113": Week("philly", "", "2017-11-13"),
    "elasticflow-09": Week("cluster09", "", 35 * DAY, 2.1, 4),
    "elasticflow-02": Week("cluster02", "", 21 * DAY, 2.1, 4),
    "elasticflow-06": Week("cluster06", "", 49 * DAY, 2.1, 4),
    "gavel-3": Week("gavel", "", 2 * WEEK),
}


@cache
def read(folder: Path, source: str, elasticity: int) -> Workload:
    """A whole trace."""
    files: dict[str, tuple[Callable[..., Workload], str]] = {
        "philly": (traces.philly, "philly/philly.csv"),
        "gavel": (traces.gavel, "gavel/msr_seed0_ee9e8c.trace"),
        "alibaba": (traces.alibaba, "alibaba/openb_pod_list_default.csv"),
    }
    reader, name = files.get(source, (traces.elasticflow, f"elasticflow/{source}.csv"))
    more = {} if source == "alibaba" else {"elasticity": elasticity}
    return reader(folder / name, slot="10m", seed=7, **more)


def slot_of(jobs: Workload, date: str) -> int:
    return int((datetime.fromisoformat(date) - datetime.fromisoformat(jobs.start)).total_seconds() // jobs.slot)


def slots_alone(job: Job) -> float:
    """What it takes at the width asked for."""
    asked = job.requested or 1
    return job.work / job.rate(asked, together=asked <= 8)


def demand(jobs: Workload) -> float:
    """GPUs asked for on average, by jobs that fit the horizon; in machines of eight."""
    asked = [slots_alone(job) * (job.requested or 1) * job.worker.get("gpu", 0) / 1000 for job in jobs]
    return sum(a for a, job in zip(asked, jobs, strict=True) if slots_alone(job) <= HORIZON) / (8 * WEEK)


def week(folder: Path, name: str) -> tuple[Cluster, Workload, Workload]:
    """The cluster, the jobs of the week and those of the week before; nothing stated."""
    chosen = WEEKS[name]
    everything = read(folder, chosen.source, chosen.elasticity)
    first = slot_of(everything, chosen.begin) if isinstance(chosen.begin, str) else chosen.begin
    kept = [job for job in everything if not chosen.part or job.tags.get("cluster") == chosen.part]
    everything = replace(everything, jobs=tuple(job.but(utility=Unstated()) for job in kept))
    jobs, past = everything.between(first, first + WEEK), everything.between(first - WEEK, first)
    machines = max(1, round(demand(jobs) / chosen.load))
    cluster = traces.gpu_cluster(machines)
    return (Cluster((replace(MIXED, count=machines),)) if chosen.source == "alibaba" else cluster), jobs, past


def played(cluster: Cluster, jobs: Workload, policy: Placer) -> tuple[Result, float]:
    """The run, verified, and its CPU-seconds."""
    began = time.process_time()
    run = simulate(cluster, jobs, policy, horizon=HORIZON, seed=7)
    spent = time.process_time() - began
    assert run.certificate().passed, run.certificate()
    return run, spent


def tightness(run: Result) -> float:
    """The median, over promised jobs, of the time to the date over the time taken."""
    due = {j: date for j in range(len(run.jobs)) if (date := run.due(j)) is not None and run.finish[j] >= 0}
    came = np.array([run.jobs[j].arrival for j in due]) - 1
    return float(np.median((np.array([*due.values()]) - came) / (run.finish[[*due]] - came))) if due else math.nan


def unstated(folder: Path, names: list[str]) -> None:
    for name in names:
        cluster, jobs, past = week(folder, name)
        print(f"{name}: {len(jobs)} jobs, {cluster.size} machines, {demand(jobs) / cluster.size:.2f} x supply")
        base, _ = played(cluster, jobs, placers.SRTF())
        run, spent = played(cluster, jobs, placers.Dated(history=past))
        row, beside, told = run.row, base.row, []
        for key, limit in LIMITS.items():
            change = row[key] / beside[key] - 1.0
            star = "*" if (change - limit) * math.copysign(1.0, limit) > 0.0 else ""
            told.append(f"{key} {beside[key]:.4g} / {row[key]:.4g} ({change:+.1%}{star})")
        tight = tightness(run)
        by_us = [*run.broken.values()].count("us")
        print(
            f"  SRTF / Dated: {', '.join(told)};\n"
            f"  promised {run.admitted} ({row['promised_on_arrival']} on arrival), median date"
            f" {tight:.2f}{'*' if tight > TIGHT else ''} x, broken by us {by_us}{'*' if by_us else ''}; {spent:.1f} s",
            flush=True,
        )


def drawn(folder: Path, sized: bool, bounded: bool, rivals: bool) -> None:
    """Three weeks of Philly with worth drawn; what is earned, and who is done."""
    path = folder / "philly" / "philly.csv"
    everything = traces.philly(path, slot="10m", seed=7, worth="drawn", sized_utility=sized)
    print(everything.note)
    for date, machines in DRAWN.items():
        first = slot_of(everything, date)
        jobs, past = everything.between(first, first + WEEK), everything.between(first - WEEK, first)
        cluster = traces.gpu_cluster(machines)
        print(f"{date}: {len(jobs)} jobs, {machines} machines, {demand(jobs) / machines:.2f} x supply")
        shown: list[Placer] = [placers.Dated(history=past), placers.SRTF()]
        if rivals:
            posted = prices.Replay(past)
            plain = placers.PDORS(prices=posted, replan=0, label="PDORS, no re-planning")
            alone = placers.PDORS(prices=posted, replan=0, backfill=False, label="nor lending")
            shown += [plain, alone, placers.LAS()]
        for policy in shown:
            run, spent = played(cluster, jobs, policy)
            row = run.row
            print(
                f"  {policy.label:22s} done {row['completed']:5d}, utility {row['utility']:8,.0f}; hours mean"
                f" {row['mean_completion']:5.1f}, median {row['median_completion']:4.1f}, p99 {row['p99_completion']:4.0f};"
                f" {run.admitted} promised; {spent:.0f} s",
                flush=True,
            )
        if bounded:
            print(f"  bound {bound(cluster, jobs, slots=run.end).utility:,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", nargs="+", default=list(WEEKS), choices=list(WEEKS), metavar="WEEK")
    parser.add_argument("--worth", choices=["drawn"])
    parser.add_argument("--unsized", action="store_true")
    parser.add_argument("--bound", action="store_true")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EQUIPOISE_DATA", "../shared/data")))
    given = parser.parse_args()
    if given.worth:
        drawn(given.data / "traces", not given.unsized, given.bound, given.rivals)
    else:
        unstated(given.data / "traces", given.weeks)


if __name__ == "__main__":
    main()
