"""How good is the greedy placement of one slot, and how fast? Against the exact integer program and its relaxation.

    .venv/bin/pip install -e '.[dev]'
    .venv/bin/python benchmarks/place/slot_problem.py                # 200 slots and 1000, a few minutes
    .venv/bin/python benchmarks/place/slot_problem.py --slots 5000

A slot is a cluster of 10 to 20 machines, each used at random by about half, at prices that rise with use; a job of the
spec's synthetic kind wants W workers and ceil(W/gamma) servers in it, as cheaply as can be. The exact answer is HiGHS'
integer program with no gap. `ratio` is greedy's cost over the exact one; `missed` counts slots in which a placement
exists and greedy found none. Random widths first, then the widest that fits at all, which is the hardest to find. Times
are processor times of one run: greedy's whole curve over all widths against one width of the others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from equipoise.claims.place._slots import Slot, exact, greedy, loaded
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.planner.rounding import Relaxation
from equipoise.place.planner.slot_costs import new_slot_costs, slot_costs
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

Floats = NDArray[np.float64]
MACHINES = (10, 20)
WIDEST, REPEATS = 200, 20


def slots(count: int, seed: int) -> Iterator[Slot]:
    """Half-loaded slots, the same for the same seed."""
    rng = np.random.default_rng(seed)
    jobs = synthetic(count, seed=seed, slots=200)
    for job in jobs:
        cluster = synthetic_cluster(int(rng.integers(MACHINES[0], MACHINES[1] + 1)))
        yield loaded(cluster, arrays_of(job, cluster), rng)


def widest(slot: Slot) -> int:
    """The most workers that any placement holds with their servers."""
    low, high = 0, slot.arrays.widest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.isfinite(exact(slot, middle)) else (low, middle - 1)
    return low


def compare(count: int, seed: int) -> dict[str, tuple[Floats, int]]:
    """Greedy's cost over the exact one in slots in which the width fits, and how many it missed; by kind of width."""
    rng = np.random.default_rng([seed, 1])
    ratios: dict[str, list[float]] = {"random": [], "widest": []}
    for slot in slots(count, seed):
        most = widest(slot)
        if most == 0:
            continue
        costs = greedy(slot)
        for name, width in (("random", int(rng.integers(1, most + 1))), ("widest", most)):
            ratios[name].append(costs[width] / exact(slot, width))
    found = {name: np.array(all_of) for name, all_of in ratios.items()}
    return {name: (r[np.isfinite(r)], int(np.isinf(r).sum())) for name, r in found.items()}


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def times(machines: int, count: int, seed: int) -> tuple[float, float, float]:
    """Median seconds per slot: greedy's whole curve, one warm relaxation, one integer program."""
    rng = np.random.default_rng([seed, machines])
    cluster, options = synthetic_cluster(machines), new_slot_costs(WIDEST, 4)
    relaxation, rows = Relaxation(machines, 4), []
    for k, job in enumerate(synthetic(count + 1, seed=seed, slots=200)):
        slot = loaded(cluster, arrays_of(job, cluster), rng)
        width = max(1, slot.arrays.widest // 2)

        def curves(slot: Slot = slot) -> None:
            for _ in range(REPEATS):
                slot_costs(slot.occupancy, 0, slot.arrays, options)

        def relaxed(slot: Slot = slot, width: int = width) -> None:
            relaxation.slot(slot.arrays, slot.free, slot.price_worker, slot.price_server)
            relaxation.solve(width)

        curves(), relaxed(), relaxed()  # compiled; the job's matrix passed
        relaxation.solve(slot.arrays.widest)  # the warm start is another width's
        row = (seconds(curves) / REPEATS, seconds(relaxed), seconds(lambda s=slot, w=width: exact(s, w)))
        if k:
            rows.append(row)
    return tuple(np.median(rows, axis=0))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{'slots':>6}  {'width':<8}{'mean':>8}{'worst':>8}{'missed':>8}")
    for count in asked.slots:
        for name, (ratios, missed) in compare(count, asked.seed).items():
            print(f"{count:>6}  {name:<8}{ratios.mean():>8.4f}{ratios.max():>8.3f}{missed:>8}", flush=True)
    print(f"\n{'machines':>8}{'greedy, all widths':>20}{'LP, one width':>16}{'ILP, one width':>16}")
    for machines in (20, 100, 1000):
        greedy_time, relaxed, whole = times(machines, 20 if machines < 1000 else 8, asked.seed)
        print(
            f"{machines:>8}{1e6 * greedy_time:>17.1f} us{1e3 * relaxed:>13.2f} ms{1e3 * whole:>13.2f} ms"
            f"   LP / greedy {relaxed / greedy_time:,.0f}, ILP / greedy {whole / greedy_time:,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
