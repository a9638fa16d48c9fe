"""Prices learned from the past: they earn more than none on a crowded cluster, and are nothing on an empty one."""

import random

import pytest

from equipoise.place import Cluster, Job, Linear, Machine, Sigmoid, Workload, placers, prices, simulate
from equipoise.serve.calibrate import calibrate

CLUSTER = Cluster((Machine({"gpu": 4}, 2, "gpu"),))


def jobs(count, seed, every):
    """Jobs of 1 to 4 GPUs for 1 to 8 slots, worth 1 to 100 if done soon."""
    rng = random.Random(seed)
    made = []
    for k in range(count):
        width, slots = rng.choice([1, 2, 4]), rng.randint(1, 8)
        worth = Sigmoid(rng.choice([1.0, 3.0, 100.0]), 0.5, 6)
        made.append(Job(f"j{k}", k // every, float(width * slots), width, 1.0, {"gpu": 1}, worth, requested=width))
    return Workload(tuple(made), slot=600.0)


def test_calibrated_prices_earn_more_than_none_on_a_crowded_cluster():
    """Three jobs per slot, more than eight GPUs can do. What it says of itself is what `place` earns at those prices,
    on the same jobs; and on other jobs of the kind they still earn more than no prices."""
    found = calibrate(CLUSTER, jobs(150, 1, 3), 24)
    assert found.utility > 1.1 * found.utility_free
    assert found.base["gpu"] > 0 and found.ratio > 1
    asked, free = prices.Fixed(found.base, found.ratio), prices.Fixed()
    earned = simulate(CLUSTER, jobs(150, 1, 3), placers.PDORS(prices=asked), horizon=24).utility
    assert earned == pytest.approx(found.utility)
    fresh = jobs(150, 2, 3)
    at = [simulate(CLUSTER, fresh, placers.PDORS(prices=p), horizon=24).utility for p in (asked, free)]
    assert at[0] > 1.05 * at[1]


def test_where_everything_fits_nothing_costs_anything():
    """A job every tenth slot: prices could only refuse somebody."""
    made = [Job(f"j{k}", 10 * k, 4.0, 2, 1.0, {"gpu": 1}, Linear(10.0, 50)) for k in range(20)]
    found = calibrate(CLUSTER, Workload(tuple(made), slot=600.0), 24)
    assert found.base == {"gpu": 0.0}
    assert found.utility == found.utility_free


def test_progress_counts_to_its_end():
    told = []
    calibrate(CLUSTER, jobs(60, 1, 3), 24, lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert told[-1][0] <= told[-1][1]
