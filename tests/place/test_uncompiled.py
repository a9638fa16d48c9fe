"""With NUMBA_DISABLE_JIT=1 every kernel is a Python function that a debugger can step through, and decides the same."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
from equipoise.place import Cluster, Deadline, Job, Machine, Unstated, placers, prices, simulate, traces
cluster, jobs = traces.synthetic_cluster(2), traces.synthetic(6, seed=1, slots=8)
runs = [(p, cluster, jobs) for p in (placers.PDORS(prices=prices.Level(3.0, 10.0), replan=2), placers.FIFO(), placers.DRF())]
small = Cluster((Machine({"gpu": 4}, 2),))
for worth in (Unstated(), Deadline(1.0, 5.0)):
    few = [Job(str(k), k // 3, 3.0 + k, 2 + k, 1.0, {"gpu": 1}, worth, restart=0.1 * (k % 2)) for k in range(6)]
    runs.append((placers.Dated(), small, few))
for placer, cluster, jobs in runs:
    result = simulate(cluster, jobs, placer, slots=8)
    print(repr(result.utility), result.finish.tolist(), result.schedule.tolist(), result.certificate().passed)
"""


def test_a_small_run_decides_the_same_without_compiling():
    """Utility to the last bit, finishes and every cell, of two planners and of two that decide slot by slot."""
    said = [
        subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env={**os.environ, **more}
        ).stdout
        for more in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert said[0] == said[1]
    assert said[0].count("True") == 5
