"""Does the simulation of share hold on real processes? 24 training processes, four policies, five seeds, side by side.

python benchmarks/engine/execute.py            about 7 minutes on two cores; wants a quiet machine
python benchmarks/engine/execute.py --quick    8 tasks, two policies, one seed: half a minute

Prints every run, the means over seeds, and whether executed success lies within 5 points of simulated, in the same order.
A result during which tasks missed CPU, or the machine changed its speed, is marked: it measures the machine. `at speed`
is the simulation of the machine as it was during the run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from equipoise.engine.real_clock import RealComparison, RealScene, certify, compare
from equipoise.share import policies

NAMES = ("Uniform", "SDF", "UARA+LARA", "Hybrid")
POINTS = 5.0  # success, executed against simulated, mean over seeds


def main() -> int:
    options = arguments()
    scene = RealScene(cpus=options.cpus, step=options.step)
    names, tasks, seeds = NAMES, 24, options.seeds
    if options.quick:
        scene = RealScene(cpus=options.cpus, step=0.25, arrival=(0.0, 4.0), deadline=(10.0, 14.0), work=(40.0, 250.0))
        names, tasks, seeds = ("Uniform", "Hybrid"), 8, 1
    began, told = time.monotonic(), [""]

    def progress(doing: str, done: int, total: int) -> None:
        if doing != told[0]:
            told[0] = doing
            print(f"{time.monotonic() - began:6.1f} s  {doing}", file=sys.stderr, flush=True)

    players = [policies.named(name) for name in names]
    result = compare(
        players,
        scene,
        tasks=tasks,
        seeds=range(options.seed, options.seed + seeds),
        limit=options.limiter,
        progress=progress,
    )
    report(result, time.monotonic() - began)
    return 0 if certify(result).passed else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 tasks, two policies, one seed")
    parser.add_argument("--cpus", type=float, default=1.0, help="of this machine, for the site (1.0)")
    parser.add_argument("--step", type=float, default=0.4, help="seconds (0.4)")
    parser.add_argument("--seeds", type=int, default=5, help="how many (5)")
    parser.add_argument("--seed", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--limiter", default="auto", help="auto, systemd, cgroup2, cgroup1, stop, none")
    return parser.parse_args()


def report(result: RealComparison, seconds: float) -> None:
    print(f"{result.says}\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, {seconds:.0f} s in all")
    print(
        f"a unit of work, ms of CPU: {', '.join(f'{kind} {1e3 * cost:.2f}' for kind, cost in result.units.items())}\n"
    )
    head = f"{'policy':12s}{'seed':>5s}{'sim %':>8s}{'at speed':>10s}{'exec %':>8s}{'apart':>8s}"
    head += f"{'done apart':>12s}{'energy sim':>12s}{'exec':>8s}{'missed %':>10s}{'speed':>7s}{'late ms':>9s}"
    print(head)
    for row in [pair.row() for pair in result.pairs]:
        print(text(row, str(row["seed"])))
    print("\nmeans over seeds")
    print(head)
    for row in result.rows:
        error = "" if row["success_apart_se"] is None else f"   apart ± {row['success_apart_se']:.1f}"
        print(text(row, f"{row['seeds']}x") + error)
    worst = max(result.rows, key=lambda row: abs(row["success_apart"]))
    near = abs(worst["success_apart"]) <= POINTS
    print(
        f"\nwithin {POINTS:g} points for each policy: {'yes' if near else 'NO'} (worst: {worst['policy']},"
        f" {worst['success_apart']:+.1f})"
    )
    far = max(result.rows, key=lambda row: abs(row["success_executed"] - row["success_at_speed"]))
    gap = far["success_executed"] - far["success_at_speed"]
    print(
        f"of the simulation at the speed that the machine had during the runs: {'yes' if abs(gap) <= POINTS else 'NO'}"
        f" (worst: {far['policy']}, {gap:+.1f})"
    )
    print(f"same order of success: {'yes' if result.same_order else 'NO'}")
    print(f"certificate: {'passed' if certify(result).passed else 'FAILED'}")
    for pair in result.pairs:
        for fault in pair.executed.faults:
            print(f"  {pair.policy}, seed {pair.plan.seed}, task {fault.task}: {fault.why.splitlines()[-1]}")
    for check in certify(result):
        value = "-" if check.value is None else f"{check.value:.4g}"
        print(f"  {check.name:12s}{value:>12s}  {'passed' if check.passed else 'FAILED'}")
    if result.disturbed:
        print(
            "DISTURBED: tasks missed more than 5 % of their CPU or the machine changed its speed; repeat on a quiet machine"
        )


def text(row: dict[str, float], seed: str) -> str:
    apart = "-" if row["completion_apart"] is None else f"{row['completion_apart']:.2f}"
    return (
        f"{row['policy']:12s}{seed:>5s}{row['success_simulated']:8.1f}{row['success_at_speed']:10.1f}{row['success_executed']:8.1f}"
        f"{row['success_apart']:+8.1f}{apart:>12s}{row['energy_simulated']:12.0f}{row['energy_executed']:8.0f}"
        f"{row['shortfall']:10.1f}{row['speed'] or 0:7.2f}{row['late_ms']:9.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
