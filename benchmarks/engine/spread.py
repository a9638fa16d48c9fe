"""One worker against all cores: threads, processes and Ray, for sweeps of share and place; results compared to the bit.

    .venv/bin/python benchmarks/engine/spread.py         # about a minute on two free cores
    .venv/bin/python benchmarks/engine/spread.py --ray   # also a Ray of this machine

Kinds take turns, so that a busy machine slows all of them; a ratio is the median over the turns of the time of one worker
to the time of the kind in the same turn. Workers are started and warm before: "start" is what the first sweep on a kind
took more than the fastest later one. A result that is not equal, array by array, ends the benchmark.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from equipoise.engine.spread import PROCESSES, RAY, THREADS, spread
from equipoise.place import placers, prices, traces
from equipoise.place.compare import Case
from equipoise.place.sweep import sweep as sweep_place
from equipoise.share import Decision, View, policies
from equipoise.share.sweep import sweep

TURNS = 5


class PlainNumPy:
    """What a user writes: equal parts for all."""

    label = "plain NumPy"

    def decide(self, view: View) -> Decision:
        sent, worked = (np.maximum(who.sum(axis=-1, keepdims=True), 1) for who in (view.sending, view.computing))
        compute = np.minimum(np.where(view.computing, view.capacity / worked, 0.0), view.task_cap)
        return Decision(np.where(view.sending, view.bandwidth / sent, 0.0), compute)


class PlainPython(PlainNumPy):
    """The same with a loop over tasks, as slow as Python is."""

    label = "plain Python"

    def decide(self, view: View) -> Decision:
        for row in np.asarray(view.computing):
            sum(1 for busy in row if busy)
        return super().decide(view)


def share_by(players: list[Any], seeds: int, oracle: int = 0) -> Callable[[], dict[Any, Any]]:
    def work() -> dict[Any, Any]:
        found = sweep(players, loads=(20, 40, 60), seeds=seeds, oracle=oracle)
        return found.measured | {("bound", load): {"bound": bound} for load, bound in found.bounds.items()}

    return work


def place_by(count: int, jobs: int, make: Callable[[], tuple[Any, ...]]) -> Callable[[], dict[Any, Any]]:
    def work() -> dict[Any, Any]:
        cluster = traces.synthetic_cluster(10)
        cases = [Case(k, cluster, traces.synthetic(jobs, seed=k, slots=24), make(), slots=24) for k in range(count)]
        found = sweep_place(cases, bound=False)
        return {(row["seed"], row["policy"]): row for row in found.seed_rows}

    return work


def works() -> dict[str, Callable[[], dict[Any, Any]]]:
    ours = [policies.named(name) for name in ("Uniform", "SDF", "DescribedUniform", "Hybrid")]
    history = (traces.synthetic(20, seed=1000, slots=24),)
    return {
        "share, ours": share_by(ours, 600),
        "share, with the bound": share_by(ours[:1], 200, oracle=200),
        "share, a user's NumPy": share_by([PlainNumPy()], 2400),
        "share, a user's Python loop": share_by([PlainPython()], 600),
        "place, FIFO SRTF DRF Dorm": place_by(
            8, 40, lambda: (placers.FIFO(), placers.SRTF(), placers.DRF(), placers.Dorm())
        ),
        "place, PDORS": place_by(4, 20, lambda: (placers.PDORS(prices.Recalled(history)),)),
    }


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return bool(one == other)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--ray", action="store_true", help="also a Ray of this machine")
    words.add_argument("--turns", type=int, default=TURNS)
    words.add_argument("--only", default="", help="works whose name has this in it")
    given = words.parse_args()
    cores = os.cpu_count() or 1
    kinds = [THREADS, PROCESSES, *([RAY] if given.ray else [])]
    print(
        f"{cores} cores; ratio of one worker's time to that of {cores}, median of {given.turns} turns (least to most)"
    )
    print(f"{'':30}{'one worker':>12}" + "".join(f"{kind:>26}" for kind in kinds))
    with ExitStack() as stack:
        if given.ray:
            from equipoise.engine.ray_cluster import connect

            stack.enter_context(connect(None))  # kept over all turns
        for name, work in ((name, work) for name, work in works().items() if given.only in name):
            report(name, work, kinds, cores, given.turns)


def report(name: str, work: Callable[[], Any], kinds: list[str], cores: int, turns: int) -> None:
    with spread(THREADS, workers=1):
        work()  # compiles
    first: dict[str, float] = {}
    alone: list[float] = []
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(-1, turns):
        with spread(THREADS, workers=1):
            seconds, expected = timed(work)
        if turn >= 0:
            alone.append(seconds)
        for kind in kinds:
            with spread(kind, workers=cores):
                seconds, found = timed(work)
            if not equal(expected, found):
                raise SystemExit(f"{name}: {kind} gave another result than one worker")
            if turn < 0:
                first[kind] = seconds
            else:
                took[kind].append(seconds)
    line = f"{name:30}{statistics.median(alone):10.2f} s"
    for kind in kinds:
        ratios = sorted(a / b for a, b in zip(alone, took[kind], strict=True))
        start = max(0.0, first[kind] - min(took[kind]))
        line += f"{statistics.median(ratios):9.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) {start:4.1f}s"
    print(line, flush=True)


if __name__ == "__main__":
    main()
