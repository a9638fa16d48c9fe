"""A million nodes on two worker processes against one process: seconds per round, side by side, and bytes between workers.

    .venv/bin/python benchmarks/engine/million.py            # some minutes; needs about 8 GB
    .venv/bin/python benchmarks/engine/million.py --quick    # a hundred thousand nodes

The round is `solve`'s own, as in benchmarks/train/million.py: prices and models over links, 10-bit codes, audit; the model
hands out one constant gradient. One process uses two threads here (a half each, and the averages on both); a worker has one.
The networks are random points in a square with about eight neighbours each, numbered at random (so that workers must find a
cut with few links themselves), and a random graph, which has no such cut. One process and the workers take turns, a few
rounds each; the ratio is that of the medians. Both end in the same bits, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import threading
import time
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "train"))
from instances import geometric_pairs, random_pairs
from million import Pull

from equipoise.engine import Workers
from equipoise.train import Method, Moment, Network, Problem, Quadratic, solve

ASKED = 1.3  # of the time of one process, at most


class Divided(Pull):
    """The same, of which a worker holds its own nodes' slopes alone."""

    def part(self, nodes: Any) -> Divided:
        mine = copy(self)
        mine.nodes, mine.slope = len(nodes), self.slope[nodes]
        return mine


class Turns:
    """Two runs in two threads that play in turns, so that both see the same machine."""

    def __init__(self, first: str, other: str) -> None:
        self.order, self.whose = (first, other), first
        self.changed = threading.Condition()
        self.times: dict[str, list[float]] = {first: [], other: []}
        self.marks: dict[str, float] = {}

    def callback(self, name: str) -> Any:
        def after_a_round(moment: Moment) -> None:
            now = time.perf_counter()
            if name in self.marks:
                self.times[name].append(now - self.marks[name])
            with self.changed:
                self.whose = self.order[1 - self.order.index(name)]
                self.changed.notify_all()
                if moment.number < moment.rounds:
                    self.changed.wait_for(lambda: self.whose == name)
            self.marks[name] = time.perf_counter()

        return after_a_round

    def wait(self, name: str) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.whose == name)

    def leave(self, name: str) -> None:
        with self.changed:
            self.whose = self.order[1 - self.order.index(name)]
            self.changed.notify_all()


def measure(kind: str, n: int, size: int, rounds: int, workers: int) -> bool:
    rng = np.random.default_rng(0)
    pairs = random_pairs(n, rng) if kind == "random graph" else geometric_pairs(n, rng, along_a_curve=False)
    network = Network.from_edges(pairs, n=n)
    del pairs
    cost = Quadratic(rng.uniform(0.5, 2.0, n), rng.uniform(5.0, 15.0, n), lo=-1000.0, hi=1000.0)
    problem = Problem(cost=cost, budget=9.0 * n, model=Divided(n, size))
    turns, runs = Turns("one process", "workers"), {}

    def play(name: str, engine: Any) -> None:
        turns.wait(name)
        try:
            given: dict[str, Any] = {"rounds": rounds, "every": rounds, "callback": turns.callback(name)}
            runs[name] = solve(problem, network, Method(), engine=engine, **given)
        finally:
            turns.leave(name)

    with Workers(workers) as engine:
        threads = [threading.Thread(target=play, args=pair) for pair in (("one process", None), ("workers", engine))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sent, shard_of = engine.wire_bytes, engine.state.shard_of
    same = np.array_equal(runs["one process"].shares, runs["workers"].shares)
    same &= np.array_equal(runs["one process"].models, runs["workers"].models)
    graph = network.topology(0)
    crossing = int((shard_of[graph.tails] != shard_of[graph.heads]).sum())
    middle = {name: statistics.median(times[1:-1]) for name, times in turns.times.items()}
    ratio = middle["workers"] / middle["one process"]
    print(
        f"{kind:14}{graph.edges:>10,}{crossing:>10,} |{1e3 * middle['one process']:>9.0f}{1e3 * middle['workers']:>9.0f}"
        f"{ratio:>7.2f} {'+' if ratio <= ASKED else '-'} |{statistics.median(sent):>13,.0f}{sent[0]:>13,.0f}"
        f" | {'same bits' if same else 'DIFFERENT'}",
        flush=True,
    )
    return same


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=1_000_000)
    options.add_argument("--size", type=int, default=10, help="parameters of the model (10)")
    options.add_argument("--rounds", type=int, default=14)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--quick", action="store_true", help="a hundred thousand nodes")
    given = options.parse_args()
    nodes = 100_000 if given.quick else given.nodes
    small = Problem(cost=Quadratic(np.ones(5), 1.0, lo=-9.0, hi=9.0), budget=5.0, model=Pull(5, 2))
    solve(small, Network.ring(5), rounds=5)  # compiles
    print(
        f"n = {nodes:,}, m = {given.size}, {given.workers} workers; milliseconds a round (medians), bytes between them"
    )
    print(
        f"{'':14}{'links':>10}{'crossing':>10} |{'one':>9}{'workers':>9}{'ratio':>7}   |{'bytes':>13}{'first round':>13}"
    )
    fine = [measure(kind, nodes, given.size, given.rounds, given.workers) for kind in ("points", "random graph")]
    print(f"peak memory of the coordinator {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
