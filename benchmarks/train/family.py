"""Five hundred random problems, automatic settings: does every one converge, and in how many rounds?

    python benchmarks/train/family.py                 # CPU half to 1e-6, quadratic and latency costs
    python benchmarks/train/family.py --learning      # least squares on the same networks, to 1e-8

Sizes 3 to 200, every kind of network (static, periodic, never repeating), cost scales 1e-3 to 1e3, boxes 0 to 80%
saturated, rho .05 to 1. Constants were tuned on seeds from 100,000 on; what is reported is drawn from seed 0 on.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from equipoise.train import Latency, LeastSquares, LogQuantizer, Method, Network, Problem, Quadratic, solve

KINDS = ("erdos_renyi", "geometric", "ring", "path", "star", "grid", "complete")
KIND_WORDS = {kind: kind for kind in KINDS} | {"erdos_renyi": "erd", "geometric": "random geometric"}
SWITCHING = (0, 5, "fresh")
CPU_ROUNDS, CPU_TARGET = 20_000, 1e-6
MODEL_ROUNDS, MODEL_TARGET = 8_000, 1e-8


def draw_network(rng: np.random.Generator, seed: int) -> Network:
    n, kind = int(rng.integers(3, 201)), KINDS[rng.integers(len(KINDS))]
    switching = SWITCHING[rng.integers(len(SWITCHING))]
    options = {"seed": seed, "switching": switching if n >= 5 else 0}
    if kind == "erdos_renyi":
        options["p"] = min(1.0, float(rng.uniform(1.5, 4.0)) * np.log(n) / n)
        if options["p"] > 0.9:
            options["switching"] = 0
    if kind == "complete":
        options = {}
    if kind == "grid":
        options["rows"] = max(1, int(np.sqrt(n)))
        n = options["rows"] * (n // options["rows"])
    return Network.by_name(kind, n, **options)


def draw_cpu(rng: np.random.Generator, n: int, cost: str) -> Problem:
    """Costs with a known optimal price, a known part of the nodes at a bound there."""
    scale, saturated = 10 ** rng.uniform(-3, 3), rng.random(n) < rng.uniform(0, 0.8)
    saturated[rng.integers(n)] = False
    at_hi = rng.random(n) < 0.5
    if cost == "quadratic":
        a, c = scale * rng.uniform(0.5, 3.0, n), rng.uniform(10, 60, n)
        wish = c + scale * rng.uniform(-20, 20) / a  # at one common price
        near, far = rng.uniform(0.5, 15, n), rng.uniform(1, 40, n)
        lo = np.where(saturated, np.where(at_hi, wish - near - far, wish + near), wish - far)
        hi = np.where(saturated, np.where(at_hi, wish - near, wish + near + far), wish + rng.uniform(1, 40, n))
        return Problem(Quadratic(a, c, lo=lo, hi=hi), float(np.clip(wish, lo, hi).sum()))
    work = scale * np.exp(0.5 * rng.standard_normal(n))
    speed = np.exp(0.5 * rng.standard_normal(n))
    wish = np.sqrt(work / (speed * scale)) * rng.uniform(0.5, 20)  # w/(s x^2) is one common price
    near, far = rng.uniform(0.5, 0.95, n), rng.uniform(0.1, 0.8, n)
    lo = np.where(saturated, np.where(at_hi, wish * near * far, wish / near), wish * far)
    hi = np.where(saturated, np.where(at_hi, wish * near, wish / near / far), wish / rng.uniform(0.2, 0.9, n))
    return Problem(Latency(work, speed, lo=lo, hi=hi), float(np.clip(wish, lo, hi).sum()))


def draw_model(rng: np.random.Generator, n: int) -> LeastSquares:
    m, samples = int(rng.integers(1, 9)), int(rng.integers(4, 30))
    truth = rng.standard_normal(m)
    shards = []
    for _ in range(n):
        X = rng.standard_normal((samples, m)) * np.exp(0.3 * rng.standard_normal(m))
        shards.append((X, X @ (truth + 0.3 * rng.standard_normal(m)) + 0.1 * rng.standard_normal(samples)))
    return LeastSquares(shards)


def play(job: tuple[int, str]) -> tuple[int, str, str, int, float, float]:
    seed, what = job
    rng = np.random.default_rng([seed, 5])
    network = draw_network(rng, seed)
    rho = float(np.exp(rng.uniform(np.log(0.05), 0.0)))
    method = Method(quantizer=LogQuantizer(rho=rho))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if what == "learning":
            problem, rounds, target = Problem(model=draw_model(rng, network.n)), MODEL_ROUNDS, MODEL_TARGET
        else:
            problem, rounds, target = draw_cpu(rng, network.n, what), CPU_ROUNDS, CPU_TARGET
        run = solve(problem, network, method, rounds=rounds, target=target, every=1 if what != "learning" else 5)
    assert run.worst.budget == 0 and run.worst.box <= 0, (seed, run.worst)
    return seed, network.description, run.status, run.rounds, rho, run.relative_gap


def at_least(least: int) -> Callable[[str], int]:
    """A whole number of an option, no smaller than this."""

    def read(text: str) -> int:
        value = int(text) if text.strip().lstrip("-").isdigit() else None
        if value is None or value < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, not {text!r}")
        return value

    return read


def cost_names(text: str) -> str:
    """Kinds of costs with commas between."""
    if not set(text.split(",")) <= {"quadratic", "latency"}:
        raise argparse.ArgumentTypeError(f"expected quadratic, latency or both with a comma between, not {text!r}")
    return text


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--learning", action="store_true", help="least squares instead of CPU costs")
    options.add_argument("--count", type=at_least(1), default=500, help="problems to draw, 1 or more (500)")
    options.add_argument("--first", type=at_least(0), default=0, help="first seed (0); 100000 and up for tuning")
    options.add_argument("--slow", type=at_least(0), default=12, help="list so many of the slowest (12)")
    options.add_argument(
        "--costs", type=cost_names, default="quadratic,latency", help="quadratic, latency or both (both)"
    )
    options.add_argument("--kinds", action="store_true", help="also by kind of network")
    asked = options.parse_args()
    seeds = range(asked.first, asked.first + asked.count)
    began = time.perf_counter()
    for what in ("learning",) if asked.learning else asked.costs.split(","):
        with ProcessPoolExecutor(2) as pool:
            found = list(pool.map(play, [(seed, what) for seed in seeds], chunksize=4))
        rounds = np.array([one[3] for one in found])
        done = np.array([one[2] == "converged" for one in found])
        gone = sum(one[2] == "diverged" for one in found)
        shown = " ".join(f"{q:g}%: {np.quantile(rounds, q / 100):.0f}" for q in (50, 75, 90, 95, 99, 100))
        print(f"{what}: {done.sum()} of {len(done)} converged, {gone} diverged; rounds {shown}", flush=True)
        if asked.kinds:
            for kind in KINDS:
                for manner in ("static", "in turn", "every round"):
                    mine = [one[3] for one in found if one[1].lower().startswith(KIND_WORDS[kind]) and manner in one[1]]
                    if mine:
                        print(
                            f"    {kind:12} {manner:12} {len(mine):3}  median {np.median(mine):5.0f}  worst {max(mine)}"
                        )
        for one in sorted(found, key=lambda one: -one[3])[: asked.slow]:
            print(f"    seed {one[0]}: {one[3]} rounds, {one[2]}, gap {one[5]:.1e}, rho {one[4]:.2f}, {one[1]}")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
