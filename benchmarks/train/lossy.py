"""Rounds, bits and CPU time on networks that lose packets, beside those of another checkout.

    python benchmarks/train/lossy.py [--against /path/to/checkout] [--loss 0.3] [--nodes 1000] [--size 4]

Rounds are those until the gap is a millionth of the one at the start; a dash: not within the rounds allowed. Rounds of both
checkouts are timed in turns, in CPU time of one thread; the least of many counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.train import Faults, LeastSquares, Method, Network, Problem, Quadratic, solve

TARGET = 1e-6
WARM, PART, PARTS = 12, 40, 8  # rounds before measuring; rounds of one measurement; measurements in turn


def quadratic(n: int, seed: int, boxed: bool) -> Problem:
    rng = np.random.default_rng(seed)
    ends = {"lo": 0.0, "hi": 32.0} if boxed else {}
    return Problem(Quadratic(rng.uniform(0.5, 3.0, n), rng.uniform(10.0, 60.0, n), **ends), 25.0 * n)


def regression(n: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(model=LeastSquares([(rng.normal(size=(12, 4)), rng.normal(size=12)) for _ in range(n)], reg=0.01))


def random20(seed: int) -> Network:
    return Network.erdos_renyi(20, 0.3, seed=seed)


CASES: dict[str, tuple[Callable[[int], Network], Callable[[int, int], Problem], int]] = {
    "CPU, ring 100": (lambda _: Network.ring(100), lambda n, s: quadratic(n, s, boxed=False), 4000),
    "CPU, ring 100, boxes": (lambda _: Network.ring(100), lambda n, s: quadratic(n, s, boxed=True), 4000),
    "CPU, random 20": (random20, lambda n, s: quadratic(n, s, boxed=False), 4000),
    "CPU, random 20, boxes": (random20, lambda n, s: quadratic(n, s, boxed=True), 4000),
    "CPU, grid 6 x 6, boxes": (lambda _: Network.grid(36, 6), lambda n, s: quadratic(n, s, boxed=True), 4000),
    "models, random 20": (random20, regression, 3000),
    "models, ring 30": (lambda _: Network.ring(30), regression, 3000),
    "models, grid 6 x 6": (lambda _: Network.grid(36, 6), regression, 3000),
}


def counted(loss: float, seeds: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """Rounds to the target (0: not reached) and bits of each case."""
    for name, (network, problem, most) in CASES.items():
        rounds, bits = [], []
        for seed in range(seeds):
            graph = network(seed)
            faults = Faults(loss=loss, seed=seed + 1)
            run = solve(problem(graph.n, seed), graph, faults=faults, rounds=most, target=TARGET, every=1, seed=seed)
            rounds.append(run.rounds if run.status == "converged" else 0)
            bits.append(run.bits)
        yield name, rounds, bits


def large(nodes: int, size: int) -> tuple[Problem, Network]:
    """Both halves with boxes, eight neighbours each."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, nodes, size=(3 * nodes, 2))
    ring = np.column_stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    edges = np.unique(np.sort(np.concatenate([drawn[drawn[:, 0] != drawn[:, 1]], ring]), axis=1), axis=0)
    rows, answers = rng.normal(size=(nodes, size + 2, size)), rng.normal(size=(nodes, size + 2))
    model = LeastSquares(list(zip(rows, answers, strict=True)), reg=0.1)
    cost = Quadratic(rng.uniform(0.5, 3.0, nodes), rng.uniform(10.0, 60.0, nodes), lo=0.0, hi=40.0)
    return Problem(cost, 25.0 * nodes, model), Network.from_edges(edges, n=nodes)


class PerLink:
    """A round in which everything arrives, link by link, to compare with."""

    def __init__(self, problem: Problem, network: Network) -> None:
        from equipoise.train.dynamics.gifts import Gifts
        from equipoise.train.dynamics.links import Links
        from equipoise.train.exchange.lossy import Lossy
        from equipoise.train.region import LinkTable
        from equipoise.train.sampler import Sampler

        method, model, market = Method(), problem.model, problem.market(network.n)
        assert model is not None and market is not None
        table = LinkTable.of(network)
        self.exchange, start = Lossy(table, Faults()), np.zeros((network.n, model.size))
        region = self.exchange.region
        steepest = float(model.smoothness().max())
        self.halves: list[Any] = [
            Gifts(region, table, market, method.quantizer),
            Links(region, table, Sampler(model), method, steepest, start),
        ]

    def play(self, number: int) -> None:
        self.exchange.open(number)
        for half in self.halves:
            half.say(number)
        self.exchange.move(number, self.halves)
        for half in self.halves:
            half.hear(number)


def lossy_round(problem: Problem, network: Network, loss: float) -> Callable[[int], None]:
    from equipoise.train.hostile.state import HostileState

    state = HostileState(problem, network, Method(), Faults(loss=loss), rounds=10**6)

    def play(number: int) -> None:
        assert state.advance(state.meet(number), number) is None  # type: ignore[func-returns-value]

    return play


def serve(loss: float, nodes: int, size: int) -> None:
    """In the checkout that is on the path: what was asked for, a line each, when a line comes in."""
    problem, network = large(nodes, size)
    plays = {"lossy": lossy_round(problem, network, loss)}
    if (Path(sys.modules["equipoise"].__file__ or "").parent / "train" / "exchange").exists():
        plays["per link"] = PerLink(problem, network).play
    for play in plays.values():
        for number in range(WARM):
            play(number)
    print(json.dumps(list(plays)), flush=True)
    number = WARM
    for line in sys.stdin:
        play = plays[json.loads(line)]
        began = time.thread_time()
        for k in range(PART):
            play(number + k)
        number += PART
        print(json.dumps(1e6 * (time.thread_time() - began) / PART), flush=True)


def timed(checkouts: dict[str, Path], options: argparse.Namespace) -> dict[str, float]:
    """Microseconds of CPU per round, the least of several turns."""
    command = [sys.executable, __file__, "--serve", "--loss", str(options.loss)]
    command += ["--nodes", str(options.nodes), "--size", str(options.size)]
    found: dict[str, float] = {}
    serving = {
        name: subprocess.Popen(
            command, env=_environment(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name, path in checkouts.items()
    }
    kinds = {name: json.loads(process.stdout.readline()) for name, process in serving.items()}  # type: ignore[union-attr]
    for _ in range(PARTS):
        for name, process in serving.items():
            for kind in kinds[name]:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(json.dumps(kind) + "\n")
                process.stdin.flush()
                took = json.loads(process.stdout.readline())
                found[f"{name}: {kind}"] = min(found.get(f"{name}: {kind}", np.inf), took)
    for process in serving.values():
        process.communicate()
    return found


def _environment(checkout: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(checkout / "src"), "NUMBA_NUM_THREADS": "1", "EQUIPOISE_THREADS": "1"}


def told(checkout: Path, loss: float, seeds: int) -> dict[str, tuple[list[int], list[int]]]:
    command = [sys.executable, __file__, "--count", "--loss", str(loss), "--seeds", str(seeds)]
    lines = subprocess.run(command, env=_environment(checkout), check=True, capture_output=True, text=True).stdout
    return {name: (rounds, bits) for name, rounds, bits in map(json.loads, lines.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--loss", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.loss, options.nodes, options.size)
        return
    if options.count:
        for row in counted(options.loss, options.seeds):
            print(json.dumps(row), flush=True)
        return
    here = Path(__file__).resolve().parents[2]
    checkouts = {"here": here} | ({} if options.against is None else {"there": options.against})
    print(f"rounds to {TARGET:g} of the first gap, {options.loss:.0%} lost, {options.seeds} seeds; Mbit")
    tables = {name: told(path, options.loss, options.seeds) for name, path in checkouts.items()}
    for case in CASES:
        cells = []
        for table in tables.values():
            rounds, bits = table[case]
            shown = " ".join(f"{r:5d}" if r else "    -" for r in rounds)
            cells.append(f"{shown}  {np.mean(bits) / 1e6:8.2f}")
        print(f"{case:26}" + "   |   ".join(cells), flush=True)
    print(f"\nmicroseconds of CPU per round, both halves, n = {options.nodes}, m = {options.size}")
    for name, took in timed(checkouts, options).items():
        print(f"{name:26}{took:10.0f}")


if __name__ == "__main__":
    main()
