"""Alibaba's pods with and without devices: what a share of a GPU on one GPU costs, and how often it was not.

    python benchmarks/place/devices.py ../shared/data/traces/alibaba --days 9 --machines 2

Without devices is how shares were planned before: by their sum on a machine.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

from equipoise.place import Cluster, placers, prices, simulate
from equipoise.place.traces.alibaba import alibaba, alibaba_cluster
from equipoise.place.verify import verify

DAY = 86400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=141, help="day of the trace")
    parser.add_argument("--days", type=int, default=9)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=2, help="of a machine: the most frequent kind of node with so many")
    asked = parser.parse_args()
    pods = alibaba(asked.folder / "openb_pod_list_default.csv")
    per_day = int(DAY // pods.slot)
    jobs = pods.between(asked.first * per_day, (asked.first + asked.days) * per_day)
    nodes = alibaba_cluster(asked.folder / "openb_node_list_gpu_node.csv")
    kind = max((m for m in nodes.machines if m.capacity["gpu"] == 1000 * asked.gpus), key=lambda m: m.count)
    cluster = Cluster((replace(kind, count=asked.machines),))
    shares = sum(0 < job.worker.get("gpu", 0) < 1000 for job in jobs)
    print(f"{len(jobs)} pods, {shares} with a share of a GPU, on {asked.machines} x {kind.name}; slots of 10 min")
    for policy in (placers.SRTF(), placers.FIFO(), placers.PDORS(prices=prices.Level(1.0, 10.0))):
        for devices in (False, True):
            began = time.process_time()
            planned = Cluster.packed if devices else lambda self, demand: demand
            with mock.patch.object(Cluster, "packed", planned):
                run = simulate(cluster, jobs, policy, slots=2 * asked.days * per_day)
            done = run.finish >= 0
            late = [f - job.arrival for f, job, d in zip(run.finish, jobs, done, strict=True) if d]
            broken = next((check for check in verify(run) if check.name == "devices"), None)
            print(
                f"{policy.label:6} {'devices' if devices else 'sums':8} done {int(done.sum()):6,} "
                f"utility {run.utility:10,.1f} mean slots {sum(late) / max(1, len(late)):7.2f} "
                f"machine-slots that do not fit {broken.value if broken else 0:7,.0f} "
                f"{time.process_time() - began:5.1f} s"
            )


if __name__ == "__main__":
    main()
