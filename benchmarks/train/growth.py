"""How does a round grow with the nodes and the parameters? Rounds per second of the full loop and of the bare script.

    .venv/bin/python benchmarks/train/growth.py                      # some minutes
    .venv/bin/python benchmarks/train/growth.py --quick              # up to a thousand nodes
    .venv/bin/pip install -e '.[plots]'
    .venv/bin/python benchmarks/train/growth.py --out growth.png     # and a picture

Erdős–Rényi networks of mean degree 8, least squares on six samples per node, all of it with boxes that never bind, as in
speed.py; the bare script is bare.py's, trackers apart. Ours and the bare script take turns; the median counts. Least
squares keeps m x m numbers for each node: where that is more than 2 GB the cell is left out.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from bare import fastest_product, gradient_tracking
from instances import instance
from speed import METHOD, our_seconds, timed

from equipoise.train import solve

NODES = (20, 100, 1000, 10_000, 100_000)
SIZES = (1, 4, 10, 100)
SAMPLES = 6
LARGEST = 2e9  # bytes of Hessians
WORK = 4e6  # numbers mixed in one turn: sets how many rounds it has
COLOURS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a")

Rates = dict[tuple[int, int], tuple[float, float]]


def rates(n: int, m: int, turns: int) -> tuple[float, float]:
    """Rounds per second: ours, and the bare script's."""
    drawn = instance(n, m, samples=SAMPLES)
    problem = drawn.problem(boxes=True)
    first = solve(problem, drawn.network, METHOD, rounds=3, every=3)
    assert first.steps.alpha is not None
    H, s, graphs = drawn.hessians, drawn.slopes, drawn.mixing_matrices(first.steps.step)
    rate, (_, product) = first.steps.step * first.steps.alpha, fastest_product(H, s)
    rounds = min(1000, max(6, int(WORK / (n * (m + 4)))))
    pairs = []
    for _ in range(turns):
        ours = our_seconds(problem, drawn, rounds)
        bare = timed(lambda: gradient_tracking(graphs, H, s, rate, rounds, product))
        pairs.append((rounds / ours, rounds / bare))
    ours_all, bare_all = zip(*pairs, strict=True)
    return statistics.median(ours_all), statistics.median(bare_all)


def draw(measured: Rates, out: Path) -> None:
    """Rounds per second over n, a line for each m; the bare script dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for m, colour in zip(SIZES, COLOURS, strict=True):
        nodes = [n for n in NODES if (n, m) in measured]
        axes.loglog(nodes, [measured[n, m][0] for n in nodes], "o-", color=colour, label=f"m = {m}")
        axes.loglog(nodes, [measured[n, m][1] for n in nodes], "--", color=colour, linewidth=1)
    axes.plot([], [], "--", color="grey", linewidth=1, label="bare script")
    axes.set_xlabel("nodes (mean degree 8)")
    axes.set_ylabel("rounds per second")
    axes.set_title("CPU, 10-bit codes, models and audit, against tracking alone", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=150)
    print(f"\n{out}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=5, help="turns of each (5)")
    options.add_argument("--quick", action="store_true", help="up to a thousand nodes, three turns")
    options.add_argument("--out", type=Path, help="where the picture goes")
    given = options.parse_args()
    measured: Rates = {}
    print("rounds per second, ours / bare script (and the ratio)\n")
    print(f"{'n':>7}" + "".join(f"{f'm = {m}':>26}" for m in SIZES))
    for n in NODES:
        if given.quick and n > 1000:
            continue
        cells = []
        for m in SIZES:
            if 8 * n * m * m > LARGEST:
                cells.append("-")
                continue
            ours, bare = measured[n, m] = rates(n, m, 3 if given.quick else given.turns)
            ours_shown, bare_shown = (f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}" for rate in (ours, bare))
            cells.append(f"{ours_shown} / {bare_shown} ({ours / bare:.2f})")
        print(f"{n:>7}" + "".join(f"{cell:>26}" for cell in cells), flush=True)
    if given.out:
        draw(measured, given.out)


if __name__ == "__main__":
    main()
