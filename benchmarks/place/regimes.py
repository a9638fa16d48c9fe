"""The spec's four synthetic regimes: every policy's share of the LP bound, calibrated on other seeds.

    python benchmarks/place/regimes.py [--seeds 500-507] [--regimes 20x40 ...] [--restart 0.1] [--wrong 0.5] [--pace unseen]

Histories are seeds 900 and up; the scored seeds are never seen by calibration. `--restart` gives every job a restart
time (part of a slot), `--wrong` makes every true duration differ from the stated one by up to that share; the history
is stated as it was measured, without errors. The bound knows the true durations and ignores restarts.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from equipoise.place import Workload, bound, placers, prices, simulate
from equipoise.place.traces.synthetic import REGIMES, regime

HISTORIES = {"20x40": 12, "20x100-small": 8, "50x50": 8, "50x200": 3}
FIRST = 900


def changed(jobs: Workload, seed: int, restart: float, wrong: float) -> Workload:
    """The same jobs with a restart time, and true work off by up to `wrong` either way."""
    rng = np.random.default_rng([seed, 17])
    return replace(
        jobs, jobs=tuple(job.but(restart=restart, actual=float(1 + rng.uniform(-wrong, wrong))) for job in jobs.jobs)
    )


def error(values: list[float]) -> float:
    """Of the mean."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="500-507")
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES))
    parser.add_argument("--restart", type=float, default=0.0)
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--replan", type=int, default=40)
    parser.add_argument("--caution", type=float, default=1.0, help="times the stated work that the default plans for")
    parser.add_argument("--pace", default="seen", help="whether true work is seen after a job's first slot, or unseen")
    parser.add_argument("--few", action="store_true", help="only the default policy, Recalled and DRF")
    given = parser.parse_args()
    first, last = (int(seed) for seed in given.seeds.split("-"))
    means = []
    for name in given.regimes:
        began = time.perf_counter()
        past = [changed(regime(name, FIRST + k)[1], FIRST + k, given.restart, 0.0) for k in range(HISTORIES[name])]
        replay = prices.Replay(past)
        recalled = prices.Recalled(past)
        shown = {
            "default": placers.PDORS(prices=replay, replan=given.replan, caution=given.caution),
            "without re-planning": placers.PDORS(prices=replay),
            "Recalled": placers.PDORS(prices=recalled, backfill=False),
            "DRF": placers.DRF(),
        }
        if not given.few:
            shown |= {
                "without lending": placers.PDORS(prices=replay, backfill=False),
                "Dorm-style": placers.Dorm(),
                "FIFO": placers.FIFO(),
                "SRTF": placers.SRTF(),
                "LAS": placers.LAS(),
                "OASiS": placers.OASiS(prices=recalled),
            }
        share: dict[str, list[float]] = {label: [] for label in shown}
        utility: dict[str, list[float]] = {label: [] for label in shown}
        done: dict[str, list[int]] = {label: [] for label in shown}
        kinds: set[str] = set()
        for seed in range(first, last + 1):
            cluster, jobs, slots = regime(name, seed)
            jobs = changed(jobs, seed, given.restart, given.wrong)
            most = bound(cluster, jobs, slots=slots).utility
            for label, policy in shown.items():
                run = simulate(cluster, jobs, policy, slots=slots, seed=seed, pace=given.pace)
                assert run.certificate().passed, (name, seed, label, run.certificate())
                share[label].append(run.utility / most)
                utility[label].append(run.utility)
                done[label].append(run.completed)
                if label == "default":
                    kinds.add(str({k: v for k, v in run.detail["prices"].items() if k != "trials"}))
        means.append(float(np.mean(share["default"])))
        print(f"\n{name}, seeds {given.seeds}, prices {', '.join(kinds)}; {time.perf_counter() - began:.0f} s")
        for label in shown:
            print(
                f"  {label:20s} {np.mean(share[label]):.3f} (+-{error(share[label]):.3f}) of the bound;"
                f" utility {np.mean(utility[label]):7.0f}; done {np.mean(done[label]):5.1f};"
                f" the default earns {np.sum(utility['default']) / max(1e-9, np.sum(utility[label])):.2f}x",
                flush=True,
            )
    print(f"\ndefault: {np.mean(means):.3f} on average, {min(means):.3f} at least")


if __name__ == "__main__":
    main()
