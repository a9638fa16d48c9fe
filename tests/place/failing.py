"""Random workloads on machines that fail, with re-planning on: who broke which promise, and what the failures cost.

python tests/place/failing.py [200]
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    Sigmoid,
    Unstated,
    Workload,
    placers,
    prices,
    simulate,
)
from equipoise.place.calendar import Calendar, Window
from equipoise.place.simulate import Placer, Result

POSTED = prices.Level(5.0, 10.0)
PROMISING: tuple[Placer, ...] = (
    placers.PDORS(prices=POSTED, replan=20),
    placers.PDORS(prices=POSTED, replan=20, slack=0.2, caution=1.25, label="PDORS with slack and caution"),
    placers.OASiS(prices=POSTED, replan=20),
    placers.Dated(),
)
HORIZON = 20
CLUSTER = Cluster((Machine({"gpu": 2}, 2, "small"), Machine({"gpu": 4}, 1, "large")))


def workload(seed: int) -> Workload:
    """Thirty jobs; of odd seeds, some take up to half more or less than they say, and some lose time by a change. Of every
    third seed nothing is stated."""
    rng = np.random.default_rng([seed, 23])
    jobs = []
    for k in range(30):
        worth, when = float(rng.uniform(1, 100)), float(rng.integers(2, 14))
        kinds = (Deadline(worth, when), Sigmoid(worth, float(rng.uniform(0.1, 2)), when), Linear(worth, 2 * when))
        utility = kinds[k % 3] if seed % 3 else Unstated()
        given = {"restart": float(rng.choice([0.0, 0.1, 0.3])), "requested": 2, "gradient": 0.05, "inside": 1.0}
        actual = float(rng.uniform(0.5, 1.5)) if seed % 2 else 1.0
        arrival, work = int(rng.integers(0, 25)), float(rng.uniform(0.5, 12))
        jobs.append(Job(f"j{k}", arrival, work, 4, 1.0, {"gpu": 1}, utility, between=0.5, actual=actual, **given))
    return Workload(tuple(jobs))


def calendar(seed: int) -> Calendar:
    """Four failures of one to six slots, a spot machine that ends with notice, a reservation, maintenance."""
    rng = np.random.default_rng([seed, 29])
    names, windows = list(CLUSTER.names), []
    for _ in range(4):
        first = int(rng.integers(0, 40))
        windows.append(Window(str(rng.choice(names)), first, first + int(rng.integers(1, 7)), kind="failure"))
    first = int(rng.integers(5, 40))
    windows.append(Window("small-1", first, first + 10, kind="spot", notice=int(rng.integers(0, 5))))
    first = int(rng.integers(0, 30))
    windows.append(Window("", first, first + 4, {"gpu": int(rng.integers(1, 4))}))
    windows.append(Window(str(rng.choice(names)), 20, 22, kind="maintenance"))
    return Calendar(tuple(windows))


def played(policy: Placer, seed: int, *, failing: bool = True) -> Result:
    given = calendar(seed) if failing else None
    return simulate(CLUSTER, workload(seed), policy, horizon=HORIZON, seed=seed, calendar=given)


def main(count: int) -> None:
    for policy in PROMISING:
        ends, earned, lost = Counter[str](), [0.0, 0.0], 0
        for seed in range(count):
            result, whole = played(policy, seed), played(policy, seed, failing=False)
            assert result.certificate().passed, (policy.label, seed, result.certificate())
            ends.update(result.broken.values())
            lost += len(result.lost)
            earned = [earned[0] + result.utility, earned[1] + whole.utility]
        print(
            f"{policy.label}: {count} workloads, {sum(ends.values()):,} promises: {ends['']:,} kept, broken "
            f"{ends['statement']:,} by the job's own statement, {ends['machine']:,} by a machine, {ends['us']:,} by us; "
            f"{lost:,} cells lost; {100 * earned[0] / earned[1]:.1f} % of the utility without a calendar"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
