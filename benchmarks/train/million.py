"""A million nodes, ten parameters, mean degree 8: one full round against one sparse product, and the memory.

    .venv/bin/python benchmarks/train/million.py            # some minutes; three networks
    .venv/bin/python benchmarks/train/million.py --quick    # a hundred thousand nodes
    .venv/bin/python benchmarks/train/million.py --profile  # also: where set-up and rounds spend their time

The round is `solve`'s own: prices and models over links, 10-bit codes, audit. The gradient of the loss is left out
on both sides: the model hands out one constant array. The product is SciPy's W @ [Y | Z], CSR by 2 m columns of float64,
numbered as the network is. After every round one product is timed, so the two take turns on the same machine; the first
round (first contact: full floats) and the last (history) are dropped. Each network runs in a process of its own, so
that the peak memory is its own; it includes drawing the network, and the product's matrix and vectors.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from bare import Floats, mixing_matrix
from instances import geometric_pairs, random_pairs

from equipoise.train import LogQuantizer, Method, Model, Moment, Network, Problem, Quadratic, solve

NETWORKS = ("erdos-renyi", "geometric", "geometric-ordered")
MEMORY_ASKED = 4.0  # GB


class Pull(Model):
    """A loss whose gradient costs nothing: every node pulls in a constant direction of its own, and together they cancel.

    The sum of losses is flat, so every model is optimal, and 0 is one of them.
    """

    quick_totals = True

    def __init__(self, nodes: int, size: int) -> None:
        self.nodes, self.size = nodes, size
        self.slope = np.random.default_rng(1).standard_normal((nodes, size))
        self.slope -= self.slope.mean(axis=0)

    def loss(self, node: int, y: Floats) -> float:
        return float(self.slope[node] @ y)

    def gradient(self, node: int, y: Floats) -> Floats:
        return self.slope[node]

    def gradients(self, Y: Floats) -> Floats:
        return self.slope

    def total(self, y: Floats) -> tuple[float, Floats]:
        return 0.0, np.zeros(self.size)

    def totals(self, Y: Floats) -> Floats:
        return np.zeros(len(Y))

    def smoothness(self) -> Floats:
        return np.ones(self.nodes)

    def optimum(self) -> Floats | None:
        return np.zeros(self.size)


def measure(kind: str, n: int, m: int, rounds: int, boxes: bool, profile: bool) -> None:
    began = time.perf_counter()
    rng = np.random.default_rng(0)
    if kind == "erdos-renyi":
        pairs = random_pairs(n, rng)
    else:
        pairs = geometric_pairs(n, rng, along_a_curve=kind == "geometric-ordered")
    drawn = time.perf_counter()
    network = Network.from_edges(pairs, n=n)
    del pairs
    built = time.perf_counter()
    a, c = rng.uniform(0.5, 2.0, n), rng.uniform(5.0, 15.0, n)
    wide = {"lo": -1000.0, "hi": 1000.0} if boxes else {}
    problem = Problem(cost=Quadratic(a, c, **wide), budget=9.0 * n, model=Pull(n, m))
    graph = network.topology(0)
    W = mixing_matrix(n, graph.tails, graph.heads, 0.5)
    YZ = rng.standard_normal((n, 2 * m))
    W @ YZ
    ready = time.perf_counter()
    round_times: list[float] = []
    product_times: list[float] = []
    mark = 0.0

    def take_turns(moment: Moment) -> None:
        nonlocal mark
        round_times.append(time.perf_counter() - mark)
        before = time.perf_counter()
        W @ YZ
        mark = time.perf_counter()
        product_times.append(mark - before)

    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    method = Method(quantizer=LogQuantizer(rho=0.125, mode="innovation"))
    run = solve(problem, network, method, rounds=rounds, every=rounds, callback=take_turns)
    profiler.disable()
    assert run.status == "finished", run.reason
    ours, products = round_times[1:-1], product_times[1:-1]
    ratio = statistics.median(a / b for a, b in zip(ours, products, strict=True))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{kind:18}{'boxes' if boxes else 'open':>6}{graph.edges:>10}{drawn - began:>7.1f}{built - drawn:>7.1f}"
        f"{ready - built:>9.1f}{run.start_seconds:>8.1f} |{1e3 * min(ours):>8.0f}{1e3 * statistics.median(ours):>8.0f}"
        f"{1e3 * min(products):>8.0f}{1e3 * statistics.median(products):>8.0f}{ratio:>7.2f}"
        f"{memory:>8.2f}{MEMORY_ASKED:>7.1f} {'+' if memory < MEMORY_ASKED else '-'}",
        flush=True,
    )
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=1_000_000)
    options.add_argument("--size", type=int, default=10, help="parameters of the model (10)")
    options.add_argument("--rounds", type=int, default=12, help="of each network (12)")
    options.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    options.add_argument("--quick", action="store_true", help="a hundred thousand nodes")
    options.add_argument("--profile", action="store_true", help="where the time goes")
    options.add_argument("--here", choices=("boxes", "open"), help="one network in this process")
    given = options.parse_args()
    nodes = 100_000 if given.quick else given.nodes
    if given.here:
        warm = Network.ring(5)
        for wide in ({}, {"lo": -9.0, "hi": 9.0}):  # compiles
            solve(Problem(cost=Quadratic(np.ones(5), 1.0, **wide), budget=5.0, model=Pull(5, 2)), warm, rounds=5)
        measure(given.networks[0], nodes, given.size, given.rounds, given.here == "boxes", given.profile)
        return
    print(f"n = {nodes}, m = {given.size}; seconds of set-up, then milliseconds (best and median), then GB\n")
    print(
        f"{'':24}{'links':>10}{'draw':>7}{'build':>7}{'problem':>9}{'start':>8} |{'round':>16}{'product':>16}"
        f"{'ratio':>7}{'peak':>8}{'asked':>7}",
        flush=True,
    )
    for kind in given.networks:
        for boxes in ("open", "boxes"):
            command = [sys.executable, __file__, "--networks", kind, "--here", boxes, "--nodes", str(nodes)]
            command += ["--size", str(given.size), "--rounds", str(given.rounds)]
            subprocess.run(command + (["--profile"] if given.profile else []), check=True)


if __name__ == "__main__":
    main()
