"""How fast is a round? The full loop, CPU market and all, against a bare script, as ratios measured in one run.

    .venv/bin/pip install -e '.[dev]'
    .venv/bin/python benchmarks/train/speed.py            # some minutes
    .venv/bin/python benchmarks/train/speed.py --quick    # small networks only
    .venv/bin/python benchmarks/train/speed.py --profile  # also: where our time goes

Ours plays all of a round: CPU prices and flows, 9-bit log innovation codes, momentum, gradient tracking, and the audit of
budget and boxes; once without boxes and once with boxes that never bind (the limiter then runs, and limits nothing).
The bare script (bare.py) plays gradient tracking alone, on the same network, shards and steps, with the fastest of three
products for its gradients; "apart" and "one buffer" are its two layouts. Contestants take turns, so that a busy machine
slows all of them; kernels are compiled before; only rounds are timed. Ratios are ours / bare apart, medians over the
turns; "best" is our best turn with boxes over its best, steadier on a busy machine. Both must come
to the same model, or nothing is measured. `make bench` has the learning half beside tvopt, disropt and CVXPY.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from bare import Product, fastest_product, gradient_tracking, gradient_tracking_side_by_side
from instances import Instance, instance

from equipoise.train import LogQuantizer, Method, Problem, solve


@dataclass(frozen=True)
class Case:
    n: int
    m: int
    rounds: int
    asked: float  # ours / bare
    switching: int = 0


CASES = (
    Case(20, 4, 1000, 1.0),
    Case(1000, 4, 300, 1.0),
    Case(1000, 10, 200, 0.75),
    Case(100_000, 4, 15, 0.5),
    Case(100_000, 10, 10, 0.5),
    Case(1000, 4, 200, 0.3, switching=5),
)
LARGE, LARGE_TURNS = 10_000, 4  # nodes; turns above
METHOD = Method(quantizer=LogQuantizer(rho=0.125, mode="innovation"))  # 9 bits per number


def our_seconds(problem: Problem, drawn: Instance, rounds: int) -> float:
    """Of the rounds alone, with history written once, after the last.

    On large networks that one row costs as much as a round: there a clock is read after every round, and the last round,
    with its row, is not counted, nor is the first.
    """
    if drawn.network.n < LARGE:
        run = solve(problem, drawn.network, METHOD, rounds=rounds, every=rounds)
        assert run.status == "finished", run.reason
        return run.seconds - run.start_seconds
    ends: list[float] = []
    solve(
        problem,
        drawn.network,
        METHOD,
        rounds=rounds + 2,
        every=rounds + 2,
        callback=lambda moment: ends.append(time.perf_counter()),
    )
    return ends[rounds] - ends[0]


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def refuse_different_answers() -> None:
    """The bare script and we must come to the same model."""
    drawn = instance(20, 4)
    run = solve(drawn.problem(boxes=True), drawn.network, METHOD, rounds=3000, every=3000)
    _, product = fastest_product(drawn.hessians, drawn.slopes)
    assert run.steps.alpha is not None and run.models is not None
    for layout in (gradient_tracking, gradient_tracking_side_by_side):
        graphs = drawn.mixing_matrices(run.steps.step)
        Y, _ = layout(graphs, drawn.hessians, drawn.slopes, run.steps.step * run.steps.alpha, 3000, product)
        if not np.allclose(Y, run.models, atol=1e-6):
            raise SystemExit(f"different models, by {np.abs(Y - run.models).max():.1e}: nothing to compare")


def measure(case: Case, turns: int, rounds: int) -> None:
    drawn = instance(case.n, case.m, switching=case.switching)
    open_problem, boxed_problem = drawn.problem(boxes=False), drawn.problem(boxes=True)
    first = solve(open_problem, drawn.network, METHOD, rounds=5, every=5)  # compiles
    solve(boxed_problem, drawn.network, METHOD, rounds=5, every=5)
    assert first.steps.alpha is not None
    H, s, graphs = drawn.hessians, drawn.slopes, drawn.mixing_matrices(first.steps.step)
    rate = first.steps.step * first.steps.alpha
    name, product = fastest_product(H, s)

    def bare(layout: Callable[..., object], product: Product = product) -> float:
        return timed(lambda: layout(graphs, H, s, rate, rounds, product))

    bare(gradient_tracking)
    contestants: dict[str, Callable[[], float]] = {
        "apart": lambda: bare(gradient_tracking),
        "no boxes": lambda: our_seconds(open_problem, drawn, rounds),
        "one buffer": lambda: bare(gradient_tracking_side_by_side),
        "boxes": lambda: our_seconds(boxed_problem, drawn, rounds),
    }
    spent: dict[str, list[float]] = {who: [] for who in contestants}
    for _ in range(turns):
        for who, play in contestants.items():
            spent[who].append(play())

    def rates(who: str) -> str:
        best, middle = rounds / min(spent[who]), rounds / statistics.median(spent[who])
        return "".join(f"{rate:>10,.0f}" if rate >= 100 else f"{rate:>10.2f}" for rate in (best, middle))

    def over(who: str, base: str = "apart") -> float:
        return statistics.median(b / a for a, b in zip(spent[who], spent[base], strict=True))

    label = f"n={case.n:<6} m={case.m:<2}" + (f" {case.switching} graphs" if case.switching else "")
    print(
        f"{label:24}{rates('apart')} |{rates('one buffer')} |{rates('no boxes')} |{rates('boxes')} |"
        f"{over('no boxes'):>7.2f}{over('boxes'):>7.2f}{min(spent['apart']) / min(spent['boxes']):>7.2f}"
        f"{case.asked:>7.2f} {'+' if over('boxes') >= case.asked else '-'}  {name}",
        flush=True,
    )


def against_bare(turns: int, quick: bool) -> None:
    refuse_different_answers()
    print("rounds per second, best and median of the turns; ratios ours / bare\n")
    print(
        f"{'':24}{'bare, apart':>20} |{'bare, one buffer':>20} |{'ours, no boxes':>20} |{'ours, boxes':>20} |"
        f"{'open':>7}{'boxes':>7}{'best':>7}{'asked':>7}    product"
    )
    for case in CASES:
        if not (quick and case.n > 1000):
            few = min(turns, LARGE_TURNS) if case.n >= LARGE else turns  # set-up is most of a turn there
            measure(case, few, max(5, case.rounds // (4 if quick else 1)))


def profile() -> None:
    """Where our rounds spend their time, by function; compiled kernels count as one each."""
    for case in (case for case in CASES if case.n <= 1000):
        drawn = instance(case.n, case.m, switching=case.switching)
        problem = drawn.problem(boxes=True)
        our_seconds(problem, drawn, 5)
        profiler = cProfile.Profile()
        profiler.enable()
        spent = our_seconds(problem, drawn, case.rounds)
        profiler.disable()
        each = 1e6 * spent / case.rounds
        print(
            f"\nn={case.n} m={case.m}, graphs: {case.switching or 1}, rounds: {case.rounds}, {each:.0f} µs each, profiled"
        )
        pstats.Stats(profiler).sort_stats("tottime").print_stats(16)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=7, help="turns of every contestant (7)")
    options.add_argument("--quick", action="store_true", help="up to 1000 nodes, three turns")
    options.add_argument("--profile", action="store_true", help="also: where our time goes")
    given = options.parse_args()
    turns = 3 if given.quick else given.turns
    against_bare(turns, given.quick)
    if given.profile:
        profile()


if __name__ == "__main__":
    main()
