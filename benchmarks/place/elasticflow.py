"""ElasticFlow's two questions: which of its parts helps (its figure 9), and who meets the deadlines of its traces.

    python benchmarks/place/elasticflow.py [--parts] [--worth] [--clusters 06 02] [--data ../shared/data]

Parts: 1,000 jobs on 64, 128 and 256 GPUs, by its generator: deadlines 0.5 to 1.5 times the duration after submission, no job
under 10 minutes, widths 1 to 64 in powers of two, 8 GPUs a machine, slots of 240 s. Durations and widths are drawn from the
cluster files where they are there, else by themselves; arrivals so that the GPU time asked for is `--load` times the supply.
Clusters: a week of each at about twice the load, slots of ten minutes, planned 288 ahead, priced by the week before. With
`--worth` a deadline is worth U(1, 100) times the root of the GPU-hours asked for, else 1.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.place import Cluster, Deadline, Job, Workload, placers, simulate, traces
from equipoise.place.simulate import Placer

WEEKS = {"06": 21, "02": 14, "05": 21, "08": 28, "09": 28}  # the cluster's, and the day its week begins
DAY, WEEK, HORIZON, LOAD = 144, 1008, 288, 2.1
JOBS, GPUS, NODE, SLOT, SHORTEST, WIDEST = 1000, (64, 128, 256), 8, 240, 600.0, 64
SLACK = (0.5, 1.5)  # of the duration
MIDDLE, SPREAD = 5000.0, 1.5  # seconds and log-sd of drawn durations, about those of the files
WIDTHS = {1: 0.6, 2: 0.08, 4: 0.08, 8: 0.2, 16: 0.03, 32: 0.01}
PLAYERS: dict[str, Callable[[Workload], Placer]] = {
    "ElasticFlow": lambda past: placers.ElasticFlow(),
    "priced": lambda past: placers.ElasticFlow(history=past),
    "Dated": lambda past: placers.Dated(history=past),
    "SRTF": lambda past: placers.SRTF(),
    "EASY": lambda past: placers.EASY(),
}
FORMS = {"EDF": (False, False), "+ admission": (True, False), "+ scaling": (False, True), "both": (True, True)}


def in_time(cluster: Cluster, jobs: Workload, player: Placer, horizon: int) -> str:
    """Deadlines met, how many were promised, worth and CPU-seconds; the schedule is verified."""
    began = time.process_time()
    run = simulate(cluster, jobs, player, horizon=horizon)
    spent = time.process_time() - began
    assert run.certificate().passed, run.certificate()
    assert all(run.finish[j] <= due for j in range(len(jobs)) if (due := run.due(j)) is not None)
    arrived = run.row["promised_on_arrival"]
    promised = f"{run.admitted} promised, {arrived} on arrival"
    return f"{np.count_nonzero(run.utilities)} ({promised}, worth {run.utility:,.0f}, {spent:.1f} s)"


def drawn(folder: Path, gpus: int, load: float, seed: int) -> Workload:
    """A thousand jobs as of its generator."""
    rng = np.random.default_rng([seed, gpus])
    rows = [row for path in sorted(folder.glob("cluster*.csv")) for row in csv.DictReader(path.open())]
    if rows:
        seen = np.array([(float(row["duration"]), int(row["num_gpu"])) for row in rows])
        fit = (seen[:, 0] >= SHORTEST) & (seen[:, 1] <= WIDEST) & np.isin(np.log2(seen[:, 1]) % 1, 0)
        duration, width = seen[fit][rng.choice(np.count_nonzero(fit), JOBS)].T
    else:
        duration = np.maximum(SHORTEST, rng.lognormal(math.log(MIDDLE), SPREAD, JOBS))
        width = rng.choice(list(WIDTHS), JOBS, p=list(WIDTHS.values()))
    gap = float(np.sum(duration * width)) / JOBS / gpus / load
    submit = np.cumsum(rng.exponential(gap, JOBS)).round()
    due = submit + duration * rng.uniform(*SLACK, JOBS)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "drawn.csv"
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(("submission_time", "deadline", "num_gpu", "duration"))
            writer.writerows(zip(submit, due, width.astype(int), duration, strict=True))
        jobs = traces.elasticflow(path, slot=SLOT, seed=seed)
    return replace(jobs, jobs=tuple(job.but(most=min(job.widest, WIDEST)) for job in jobs))  # as far as it is profiled


def parts(folder: Path, load: float, seed: int) -> None:
    """Figure 9."""
    print(f"{JOBS} jobs, load {load:g}")
    for gpus in GPUS:
        jobs = drawn(folder, gpus, load, seed)
        longest = max(int(job.utility.parameters[2]) for job in jobs) + 2
        print(f"  {gpus} GPUs", end="")
        for label, (admission, scaling) in FORMS.items():
            player = placers.ElasticFlow(admission=admission, scaling=scaling)
            print(f"; {label} {in_time(traces.gpu_cluster(gpus // NODE), jobs, player, longest)}", end="", flush=True)
        print()


def slots_of(job: Job) -> float:
    """What it takes at the width asked for."""
    asked = job.requested or 1
    return job.work / job.rate(asked, together=asked <= NODE)


def valued(jobs: Workload, seed: int) -> Workload:
    """Worth more the more GPU-hours they ask for."""
    rng = np.random.default_rng(seed)
    worth = [rng.uniform(1, 100) * math.sqrt(slots_of(job) * (job.requested or 1) * jobs.slot / 3600) for job in jobs]
    both = zip(jobs, worth, strict=True)
    return replace(jobs, jobs=tuple(job.but(utility=Deadline(w, job.utility.parameters[2])) for job, w in both))


def clusters(folder: Path, names: list[str], worth: bool) -> None:
    """Deadlines of the traces."""
    for name in names:
        path = folder / f"cluster{name}.csv"
        if not path.exists():
            print(f"  cluster {name}: no {path}")
            continue
        everything = traces.elasticflow(path, seed=7)
        first = WEEKS[name] * DAY
        jobs, past = everything.between(first, first + WEEK), everything.between(first - WEEK, first)
        if worth:
            jobs, past = valued(jobs, 3), valued(past, 3)
        asked = [slots_of(job) * (job.requested or 1) for job in jobs if slots_of(job) <= HORIZON]
        demand = sum(asked) / (NODE * WEEK)
        machines = max(1, round(demand / LOAD))
        print(f"  cluster {name}, {len(jobs)} jobs, {machines} machines, {demand / machines:.1f}x:", end="")
        for label, make in PLAYERS.items():
            print(f" {label} {in_time(traces.gpu_cluster(machines), jobs, make(past), HORIZON)};", end="", flush=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", action="store_true", help="figure 9 alone")
    parser.add_argument("--worth", action="store_true")
    parser.add_argument("--load", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", nargs="+", default=list(WEEKS), choices=list(WEEKS))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EQUIPOISE_DATA", "../shared/data")))
    given = parser.parse_args()
    folder = given.data / "traces" / "elasticflow"
    if given.parts or not given.worth:
        parts(folder, given.load, given.seed)
    if not given.parts:
        clusters(folder, given.clusters, given.worth)


if __name__ == "__main__":
    main()
