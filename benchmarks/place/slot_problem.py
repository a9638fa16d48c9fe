"""How good is the greedy placement of one slot, and how fast? Against the exact integer program and its relaxation.

    .venv/bin/pip install -e '.[dev]'
    .venv/bin/python benchmarks/place/slot_problem.py                # 200 slots and 1000, about a minute
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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, milp

from equipoise.place.cluster import Cluster
from equipoise.place.planner.book import Book, move, new_book
from equipoise.place.planner.options import Options, new_options, slot_options
from equipoise.place.planner.shape import Shape, shape_of
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

Floats = NDArray[np.float64]
MACHINES = (10, 20)
RATIO = (3.0, 1e4)  # price of a full machine over an empty one
WIDEST = 200


@dataclass(frozen=True)
class Slot:
    """One slot of a half-loaded cluster, and the job that comes to it."""

    book: Book
    shape: Shape
    free: Floats  # [machine, r] milli-units
    price_worker: Floats  # [machine]
    price_server: Floats

    def servers(self, width: int) -> int:
        return -(-width // self.shape.per_server)


def slots(count: int, seed: int) -> Iterator[Slot]:
    """Half-loaded slots, the same for the same seed."""
    rng = np.random.default_rng(seed)
    jobs = synthetic(count, seed=seed, slots=200)
    for job in jobs:
        cluster = synthetic_cluster(int(rng.integers(MACHINES[0], MACHINES[1] + 1)))
        yield loaded(cluster, shape_of(job, cluster), rng)


def loaded(cluster: Cluster, shape: Shape, rng: np.random.Generator) -> Slot:
    """Machines used by half on average, each resource a little differently; prices by use."""
    growth = np.full(len(cluster.resources), np.log(rng.uniform(*np.log(RATIO))))
    growth = np.full(len(cluster.resources), rng.uniform(*np.log(RATIO)))
    base = rng.uniform(0.5, 2.0, (1, len(cluster.resources))) / cluster.total
    book = new_book(cluster, 1, growth, base)
    capacity = cluster.capacity[cluster.type_of]
    load = np.clip(rng.uniform(0.0, 1.0, (cluster.size, 1)) + rng.uniform(-0.2, 0.2, capacity.shape), 0.0, 1.0)
    used = (load * capacity / 1000).astype(np.int64) * 1000
    for h in range(cluster.size):
        move(book, 0, h, used[h])
    price = base * np.exp(growth * used / capacity)
    return Slot(book, shape, (capacity - used).astype(float), price @ shape.worker, price @ shape.server)


def exact(slot: Slot, width: int, *, whole: bool = True) -> float:
    """The cheapest placement of a width by integer programming (or its relaxation); inf when there is none."""
    machines, resources = slot.free.shape
    worker, server = slot.shape.worker.astype(float), slot.shape.server.astype(float)
    rows = np.concatenate([np.kron(np.eye(machines), worker[:, None]), np.kron(np.eye(machines), server[:, None])], 1)
    sums = np.kron(np.eye(2), np.ones(machines))
    scale = float(np.median(slot.price_worker))
    need = np.array([width, slot.servers(width)])
    result = milp(
        np.concatenate([slot.price_worker, slot.price_server]) / scale,
        constraints=[LinearConstraint(rows / 1000.0, -np.inf, slot.free.ravel() / 1000.0), LinearConstraint(sums, need, need)],
        integrality=np.full(2 * machines, int(whole)),
        options={"mip_rel_gap": 0.0},
    )
    assert result.status in (0, 2), result.message
    return float(result.fun * scale) if result.status == 0 else np.inf


def widest(slot: Slot) -> int:
    """The most workers that any placement holds with their servers."""
    low, high = 0, slot.shape.widest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.isfinite(exact(slot, middle)) else (low, middle - 1)
    return low


def greedy(slot: Slot, options: Options) -> Floats:
    """The cost of every width, inf where none was found."""
    slot_options(slot.book, 0, slot.shape, options)
    return options.spread[: slot.shape.widest + 1].copy()


def compare(count: int, seed: int, *, hardest: bool = False) -> tuple[Floats, int]:
    """Greedy's cost over the exact one in `count` slots in which the width fits, and how many it missed."""
    rng = np.random.default_rng([seed, 1])
    options = new_options(WIDEST, 4)
    ratios, missed = [], 0
    for slot in slots(count, seed):
        most = widest(slot)
        if most == 0:
            continue
        width = most if hardest else int(rng.integers(1, most + 1))
        cost = greedy(slot, options)[width]
        if not np.isfinite(cost):
            missed += 1
        else:
            ratios.append(cost / exact(slot, width))
    return np.array(ratios), missed


if __name__ == "__main__":
    import sys
    for hardest in (False, True):
        t = time.time()
        ratios, missed = compare(int(sys.argv[1]), int(sys.argv[2]), hardest=hardest)
        print(hardest, len(ratios), ratios.mean(), ratios.max(), ratios.min(), missed, time.time() - t)
