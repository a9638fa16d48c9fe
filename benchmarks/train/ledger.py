"""What ledgers cost: a round with losses against a fault-free one, both halves, boxes on, 9-bit codes, side by side.

    python benchmarks/train/ledger.py [--nodes 100000] [--degree 8] [--size 4] [--rounds 15] [--loss 0.3] [--delay 0]

A fault-free round on a static network sends one code to all neighbours; where links may lose packets each needs its own, as
on a network whose neighbours change. Both are shown. Rounds alternate, so that a busy machine slows them alike; times are
medians, on the clock and in CPU time of all threads.
"""

import argparse
import time

import numpy as np

from equipoise.train import Faults, LeastSquares, Method, Network, Problem, Quadratic
from equipoise.train.hostile.state import HostileState
from equipoise.train.state import State

WARM = 4  # rounds before measuring: compiling, first contacts


def instance(nodes: int, degree: float, size: int) -> tuple[Problem, Network]:
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, nodes, size=(int(nodes * (degree - 2) / 2), 2))
    ring = np.column_stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    edges = np.unique(np.sort(np.concatenate([drawn[drawn[:, 0] != drawn[:, 1]], ring]), axis=1), axis=0)
    rows, answers = rng.normal(size=(nodes, size + 2, size)), rng.normal(size=(nodes, size + 2))
    model = LeastSquares(list(zip(rows, answers, strict=True)), reg=0.1)
    cost = Quadratic(rng.uniform(0.5, 3.0, nodes), rng.uniform(10.0, 60.0, nodes), lo=0.0, hi=40.0)
    return Problem(cost, 25.0 * nodes, model), Network.from_edges(edges, n=nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--degree", type=float, default=8.0)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--loss", type=float, default=0.3)
    parser.add_argument("--delay", type=int, default=0)
    given = parser.parse_args()
    problem, network = instance(given.nodes, given.degree, given.size)
    faults = Faults(loss=given.loss, delay=given.delay)
    runs = {
        "fault-free, one code for all neighbours": State(problem, network, Method()),
        "fault-free, a code for each link": State(problem, Network.sequence([network, network]), Method()),
        f"ledgers, {given.loss:.0%} lost": HostileState(problem, network, Method(), faults, rounds=10**6),
    }
    clock: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(WARM + given.rounds):
        for name, state in runs.items():
            began, spent = time.perf_counter(), time.process_time()
            diverged = state.advance(state.meet(number), number)  # type: ignore[attr-defined]
            assert diverged is None
            if number >= WARM:
                clock[name].append(time.perf_counter() - began)
                cpu[name].append(time.process_time() - spent)
    print(f"{given.nodes:,} nodes, {2 * network.topology(0).edges:,} directed links, {given.size} parameters")
    base = next(iter(runs))
    for name in runs:
        on_clock, in_cpu = np.median(clock[name]), np.median(cpu[name])
        print(
            f"{name:42}{1e3 * on_clock:8.0f} ms ({on_clock / np.median(clock[base]):.2f}x)"
            f"{1e3 * in_cpu:8.0f} ms of CPU ({in_cpu / np.median(cpu[base]):.2f}x)"
        )


if __name__ == "__main__":
    main()
