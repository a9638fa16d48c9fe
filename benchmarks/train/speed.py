"""How fast is a round? The full loop against a bare script, tvopt and CVXPY, as ratios measured in one run.

    .venv/bin/pip install -e '.[dev]'
    .venv/bin/python benchmarks/train/speed.py            # some minutes
    .venv/bin/python benchmarks/train/speed.py --quick    # small networks only
    .venv/bin/python benchmarks/train/speed.py --against tvopt

Ours plays all of a round: CPU prices and flows, 9-bit log innovation codes, momentum, gradient tracking, and the audit of
budget and boxes; once without boxes and once with boxes that never bind (the limiter then runs, and limits nothing).
The bare script (bare.py) plays gradient tracking alone, on the same network, shards and steps, with the fastest of three
products for its gradients; "apart" and "one buffer" are its two layouts. Contestants take turns, so that a busy machine
slows all of them; kernels are compiled before; only rounds are timed. Ratios are ours / bare apart, medians over the
turns; "best" is our best turn with boxes over its best, steadier on a busy machine. tvopt (peers.py) plays gradient
tracking in an environment of its own. CVXPY solves each half centrally, to its default accuracy, against our time to a
gap of 1e-6. All must come to the same answer, or nothing is measured.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bare import Floats, Product, fastest_product, gradient_tracking, gradient_tracking_side_by_side
from instances import Instance, instance
from peers import central_model, central_shares, tvopt, tvopt_python

from equipoise.train import LogQuantizer, Method, Problem, Quadratic, Run, solve


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
PEERS = ("bare", "tvopt", "cvxpy")
TVOPT_ASKED = 300.0  # times tvopt's rounds per second at n = 1000
TARGET = 1e-6  # of the gap at the start
MOST_BARE_ROUNDS = 5000
LO, HI = 0.0, 10.0  # boxes against CVXPY: a part of them binds
ENVIRONMENTS = Path(tempfile.gettempdir()) / "equipoise-benchmarks"
METHOD = Method(quantizer=LogQuantizer(rho=0.125, mode="innovation"))  # 9 bits a number


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
        problem, drawn.network, METHOD, rounds=rounds + 2, every=rounds + 2,
        callback=lambda moment: ends.append(time.perf_counter()),
    )  # fmt: skip
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


def rounds_of_bare(drawn: Instance, product: Product, target: float) -> tuple[int, float, float]:
    """The fewest rounds to the target over a grid of steps, and those steps: the bare script at its best here."""
    H, s, model = drawn.hessians, drawn.slopes, drawn.model
    L, best = float(model.smoothness().max()), model.total(model.optimum())[0]
    first = model.total(np.zeros(model.size))[0] - best
    found: list[tuple[int, float, float]] = []
    for step in (0.6, 0.95):
        graphs = drawn.mixing_matrices(step)
        for part in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0):
            Y = np.zeros_like(s)
            G = product(H, Y) - s
            Z = G.copy()
            limit = min((row[0] for row in found), default=MOST_BARE_ROUNDS)
            for k in range(limit):
                W = graphs[k % len(graphs)]
                Y = W @ Y - part / L * Z
                new = product(H, Y) - s
                Z, G = W @ Z + new - G, new
                if k % 5 == 4 and (model.totals(Y) - best).max() <= target * first:
                    found.append((k + 1, step, part / L))
                    break
    return min(found) if found else (MOST_BARE_ROUNDS, 0.6, 0.2 / L)


def to_target(turns: int) -> None:
    """Time to the same gap, learning half: rounds differ as much as their price."""
    print(f"\nto {TARGET:g} of the gap at the start, milliseconds of the rounds; bare at the best of 12 pairs of steps")
    print(f"{'':24}{'bare rounds':>12}{'ours':>7}{'bare ms':>10}{'ours ms':>10}{'bare / ours':>13}")
    for case in (case for case in CASES if case.n <= 1000):
        drawn = instance(case.n, case.m, switching=case.switching)
        _, product = fastest_product(drawn.hessians, drawn.slopes)
        rounds, step, rate = rounds_of_bare(drawn, product, TARGET)
        graphs, problem = drawn.mixing_matrices(step), drawn.problem(boxes=True)
        ours = solve(problem, drawn.network, METHOD, rounds=5000, every=1, target=TARGET).rounds
        pairs = [
            (
                timed(lambda: gradient_tracking(graphs, drawn.hessians, drawn.slopes, rate, rounds, product)),  # noqa: B023
                our_seconds(problem, drawn, ours),
            )
            for _ in range(turns)
        ]
        theirs, mine = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
        label = f"n={case.n:<6} m={case.m:<2}" + (f" {case.switching} graphs" if case.switching else "")
        ratio = statistics.median(b / a for b, a in pairs)
        print(f"{label:24}{rounds:>12}{ours:>7}{theirs:>10.2f}{mine:>10.2f}{ratio:>13.2f}", flush=True)


def against_tvopt(turns: int, quick: bool, folder: Path) -> None:
    """The same least squares, mixing matrix and steps; tvopt plays in its own environment, in turns with us."""
    python = tvopt_python(folder)
    print(f"\n{'':12}{'tvopt':>10}{'ours, boxes':>13}{'ratio':>9}{'asked':>7}    rounds per second, medians")
    for n, rounds, ours in ((20, 100, 2000), (100, 20, 1000), (1000, 3, 300)):
        drawn = instance(n, 4)
        problem = drawn.problem(boxes=True)
        first = solve(problem, drawn.network, METHOD, rounds=5, every=5)
        assert first.steps.alpha is not None and first.model_optimum is not None
        with tvopt(python, drawn, first.steps.step, first.steps.step * first.steps.alpha) as peer:
            if n == 20:
                peer.seconds(2000)
                off = np.abs(peer.models - first.model_optimum.parameters).max()
                if off > 1e-6:
                    raise SystemExit(f"tvopt came to a different model, by {off:.1e}: nothing to compare")
            pairs = [(rounds / peer.seconds(rounds), ours / our_seconds(problem, drawn, ours)) for _ in range(turns)]
        theirs, mine = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        asked = f"{TVOPT_ASKED:>7.0f} {'+' if ratio >= TVOPT_ASKED else '-'}" if n == 1000 else ""
        print(f"n={n:<6} m=4 {theirs:>9.4g}{mine:>13.4g}{ratio:>9.0f}{asked}", flush=True)


def excess(problem: Problem, answer: Floats, run: Run) -> float:
    """By what part a central answer costs more than the optimum that certifies our runs."""
    if run.cpu_optimum is not None and problem.cost is not None:
        found, best = (float(problem.cost.value(x).sum()) for x in (answer, run.cpu_optimum.shares))
    else:
        assert run.model_optimum is not None and problem.model is not None
        found, best = problem.model.total(answer)[0], run.model_optimum.loss
    return (found - best) / abs(best)


def against_cvxpy(turns: int, quick: bool) -> None:
    """Clarabel sees all data at once in one place; we negotiate in coded messages between neighbours."""
    print(
        f"\ncentralised: CVXPY (Clarabel) holds all data in one place; ours talks to neighbours only. Seconds, medians.\n"
        f"{'':30}{'CVXPY':>9}{'of it Clarabel':>16}{'ours to ' + format(TARGET, 'g'):>15}{'set-up':>9}{'rounds':>8}"
        f"{'CVXPY / ours':>14}{'CVXPY off by':>14}"
    )
    for n in (100, 1000) if quick else (100, 1000, 10_000):
        drawn = instance(n, 4)
        a, c = drawn.cost.a, drawn.cost.c
        tight = Quadratic(a, c, lo=LO, hi=HI)
        halves = {
            "CPU with boxes": (
                Problem(cost=tight, budget=drawn.budget),
                lambda a=a, c=c, b=drawn.budget: central_shares(a, c, LO, HI, b),
            ),
            "least squares": (Problem(model=drawn.model), lambda X=drawn.X, t=drawn.t: central_model(X, t)),
        }
        for half, (problem, central) in halves.items():
            reached = solve(problem, drawn.network, METHOD, rounds=20_000, every=1, target=TARGET)
            central()  # CVXPY loads
            took: list[tuple[float, float, float, float]] = []
            for _ in range(turns):
                wall, inside, answer = central()
                run = solve(problem, drawn.network, METHOD, rounds=reached.rounds, every=reached.rounds)
                took.append((wall, inside, run.seconds - run.start_seconds, run.start_seconds))
            off = excess(problem, answer, reached)
            if reached.status != "converged" or abs(off) > TARGET:
                raise SystemExit(
                    f"{half}, n={n}: CVXPY's optimum is off by {off:.1e} ({reached.reason}): nothing to compare"
                )
            wall, inside, rounds, start = (statistics.median(column) for column in zip(*took, strict=True))
            ratio = statistics.median(row[0] / row[2] for row in took)
            print(
                f"n={n:<7} {half:20}{wall:>9.4f}{inside:>16.4f}{rounds:>15.4f}{start:>9.4f}{reached.rounds:>8}"
                f"{ratio:>14.2f}{off:>14.0e}",
                flush=True,
            )


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
    options.add_argument("--against", nargs="+", choices=PEERS, default=PEERS, help="which peers (all)")
    options.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where tvopt's is made, and kept")
    options.add_argument("--profile", action="store_true", help="also: where our time goes")
    given = options.parse_args()
    turns = 3 if given.quick else given.turns
    if "bare" in given.against:
        against_bare(turns, given.quick)
        to_target(turns)
    if "tvopt" in given.against:
        against_tvopt(turns, given.quick, given.environments)
    if "cvxpy" in given.against:
        against_cvxpy(turns, given.quick)
    if given.profile:
        profile()


if __name__ == "__main__":
    main()
