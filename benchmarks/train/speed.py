"""How fast is a round? The full loop, CPU half and all, against a bare script, as ratios measured in one run.

    .venv/bin/pip install -e '.[dev]'
    .venv/bin/python benchmarks/train/speed.py            # some minutes
    .venv/bin/python benchmarks/train/speed.py --quick    # small networks only
    .venv/bin/python benchmarks/train/speed.py --profile  # also: where our time goes

Ours plays all of a round: CPU prices and gifts, 10-bit codes, models, and the audit of budget and boxes; once without boxes,
once with boxes that never bind, and once with two thirds of the nodes at a bound. The bare script (bare.py) plays gradient
tracking alone, with no CPU half, no codes and no audit, on the same network and shards, with the fastest of three products
for its gradients; "apart" and "one buffer" are its two layouts. Contestants take turns; kernels are compiled before; only
rounds are timed, in CPU time of one thread. Ratios are the best turns' ours / bare apart. Both must come to the same model,
or nothing is measured. `make bench` has the learning half beside tvopt, disropt and CVXPY.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("EQUIPOISE_THREADS", "1")

import numpy as np
from bare import Product, fastest_product, gradient_tracking, gradient_tracking_side_by_side
from instances import Instance, instance

from equipoise.train import LogQuantizer, Method, Problem, Quadratic, solve

STEP, DESCENT = 0.56, 0.3  # of the bare script: mixing, and the gradient in units of 1 / L


@dataclass(frozen=True)
class Case:
    n: int
    m: int
    rounds: int
    asked: float  # ours / bare
    switching: int = 0


CASES = (
    Case(20, 4, 4000, 5.0),
    Case(20, 4, 4000, 4.0, switching=5),
    Case(1000, 4, 1000, 3.0),
    Case(1000, 10, 600, 3.0),
    Case(1000, 4, 1000, 2.5, switching=5),
    Case(1000, 10, 600, 2.5, switching=5),
    Case(100_000, 4, 20, 2.0),
    Case(100_000, 10, 10, 2.0),
)
TIGHT = 0.8  # asked where two thirds of the boxes are active
LARGE, LARGE_TURNS = 10_000, 4  # nodes; turns above
METHOD = Method(quantizer=LogQuantizer(rho=0.125))  # 10 bits per number


def our_seconds(problem: Problem, drawn: Instance, rounds: int) -> float:
    """Of the rounds alone, by the state itself: history, set-up and certificate are not rounds."""
    from equipoise.train.audit import Auditor
    from equipoise.train.choose import choose
    from equipoise.train.state import State

    state = State(problem, drawn.network, choose(METHOD, problem, drawn.network))
    assert state.market is not None
    auditor = Auditor()
    warm = 2 * (drawn.network.period or 1)
    state.hurry(state.meet(0), 0, warm, auditor)
    began = time.process_time()
    played, diverged = state.hurry(state.meet(warm), warm, rounds, auditor)
    spent = time.process_time() - began
    assert played == rounds and diverged is None and auditor.worst.budget == 0 and auditor.worst.box <= 0
    return spent


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def refuse_different_answers() -> None:
    """The bare script and we must come to the same model."""
    drawn = instance(20, 4)
    run = solve(drawn.problem(boxes=True), drawn.network, METHOD, rounds=3000, every=3000)
    _, product = fastest_product(drawn.hessians, drawn.slopes)
    assert run.models is not None
    for layout in (gradient_tracking, gradient_tracking_side_by_side):
        graphs = drawn.mixing_matrices(STEP)
        Y, _ = layout(graphs, drawn.hessians, drawn.slopes, rate(drawn), 3000, product)
        if not np.allclose(Y, run.models, atol=1e-6):
            raise SystemExit(f"different models, by {np.abs(Y - run.models).max():.1e}: nothing to compare")


def rate(drawn: Instance) -> float:
    return DESCENT / float(drawn.model.smoothness().max())


def tight(drawn: Instance) -> Problem:
    """The same costs with boxes that hold two thirds of the nodes at the optimum."""
    cost, n = drawn.cost, drawn.network.n
    rng = np.random.default_rng(1)
    wish, at = np.asarray(cost.c), rng.integers(0, 3, n)
    lo = np.where(at == 1, wish + 0.5, wish - 20.0)
    hi = np.where(at == 2, wish - 0.5, wish + 20.0)
    return Problem(Quadratic(cost.a, cost.c, lo=lo, hi=hi), float(np.clip(wish, lo, hi).sum()), drawn.model)


def measure(case: Case, turns: int, rounds: int) -> None:
    drawn = instance(case.n, case.m, switching=case.switching)
    problems = {"no boxes": drawn.problem(boxes=False), "boxes": drawn.problem(boxes=True), "tight": tight(drawn)}
    if case.n >= LARGE:
        del problems["no boxes"], problems["tight"]
    H, s, graphs = drawn.hessians, drawn.slopes, drawn.mixing_matrices(STEP)
    name, product = fastest_product(H, s)

    def bare(layout: Callable[..., object], product: Product = product) -> float:
        return timed(lambda: layout(graphs, H, s, rate(drawn), rounds, product))

    contestants: dict[str, Callable[[], float]] = {
        "apart": lambda: bare(gradient_tracking),
        "one buffer": lambda: bare(gradient_tracking_side_by_side),
    }
    for who, problem in problems.items():
        contestants[who] = lambda problem=problem: our_seconds(problem, drawn, rounds)
    for play in contestants.values():
        play()  # compiles
    spent: dict[str, list[float]] = {who: [] for who in contestants}
    for _ in range(turns):
        for who, play in contestants.items():
            spent[who].append(play())
    each = {who: 1e6 * min(times) / rounds for who, times in spent.items()}
    over = {who: each["apart"] / each[who] for who in problems}
    label = f"n={case.n:<6} m={case.m:<2}" + (f" {case.switching} graphs" if case.switching else "")
    print(f"{label:24}" + "".join(f"{each.get(who, float('nan')):>12,.1f}" for who in WHO), end=" |")
    print("".join(f"{over.get(who, float('nan')):>10.2f}" for who in WHO[2:]), end="")
    good = over["boxes"] >= case.asked and over.get("tight", TIGHT) >= TIGHT
    print(f"{case.asked:>8.1f} {'+' if good else '-'}  {name}", flush=True)


WHO = ("apart", "one buffer", "no boxes", "boxes", "tight")


def against_bare(turns: int, quick: bool) -> None:
    refuse_different_answers()
    print("microseconds of CPU per round, best of the turns; ratios bare apart / ours\n")
    heads = ("bare apart", "one buffer", "no boxes", "boxes", "2/3 tight")
    print(f"{'':24}" + "".join(f"{head:>12}" for head in heads), end=" |")
    print("".join(f"{head:>10}" for head in heads[2:]) + "   asked    product")
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
