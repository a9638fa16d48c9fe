"""What capacity is worth: prices of the compact program over past workloads, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.place.bound import bound, duals
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Utility, Workload
from refusals import refused

approx = pytest.approx
ONE_GPU_EACH = Cluster((Machine({"gpu": 1}, 2),))


def job(id: str, utility: Utility, *, work: float = 4.0, arrival: int = 0, **worker: int) -> Job:
    """One worker of a GPU does a sample a slot, wherever it is."""
    return Job(id, arrival, work, 8, 1.0, {"gpu": 1} | worker, utility)


def test_prices_of_a_knapsack_are_those_of_the_job_that_is_cut() -> None:
    """One slot, two GPUs; a: 1 GPU-slot worth 9, b: 2 worth 8, c: 1 worth 1. b is cut, so a GPU is worth 4."""
    jobs = [job("a", Deadline(9, 0), work=1.0), job("b", Deadline(8, 0), work=2.0), job("c", Deadline(1, 0), work=1.0)]
    price = duals(ONE_GPU_EACH, [Workload(tuple(jobs))], 1)
    assert price == approx(np.array([[4.0 / 1000]]))
    gained = sum(max(0.0, j.utility(0) - 1000 * price[0, 0] * j.work) for j in jobs)
    assert gained + 2000 * price[0, 0] == approx(bound(ONE_GPU_EACH, jobs, slots=1).utility, abs=1e-6)


def test_histories_count_alike_however_many() -> None:
    """The same past twice prices as once; beside two idle ones nothing is short."""
    jobs = [job(k, Deadline(v, 0), work=2.0) for k, v in (("a", 8.0), ("b", 6.0))]
    past, idle = Workload(tuple(jobs)), Workload(())
    once, twice = duals(ONE_GPU_EACH, [past], 2), duals(ONE_GPU_EACH, [past, past], 2)
    assert 6.0 / 2000 - 1e-9 <= once[0, 0] <= 8.0 / 2000 + 1e-9
    assert 6.0 / 2000 - 1e-9 <= twice[0, 0] <= 8.0 / 2000 + 1e-9
    assert duals(ONE_GPU_EACH, [past, idle, idle], 2)[0, 0] == 0.0
    assert once.shape == (2, 1) and once[1, 0] == 0.0


def test_only_what_is_short_has_a_price() -> None:
    """GPUs are short, CPUs never: prices are not negative, and zero for the CPU; with no jobs everything is free."""
    cluster = Cluster((Machine({"gpu": 2, "cpu": 100}, 2),))
    jobs = [job(f"j{k}", Linear(5.0 + k, 9), arrival=k // 3, cpu=1) for k in range(12)]
    price = duals(cluster, [Workload(tuple(jobs))], 8)
    assert price.shape == (8, 2) and (price >= 0).all()
    assert (price[:, 1] == 0).all() and (price[:3, 0] > 0).all()
    assert not duals(cluster, [Workload(())], 8).any()
    with refused("history.type", "Workload"):
        duals(cluster, [], 8)


def test_merged_slots_share_a_price_and_late_slots_are_free() -> None:
    """Every two slots alike, eight rows although the last job's window ends before; past the last job nothing is short."""
    jobs = [job(f"j{k}", Deadline(5.0 + k, 3)) for k in range(4)]
    price = duals(ONE_GPU_EACH, [Workload(tuple(jobs))], 8, coarsen=2)
    assert price.shape == (8, 1)
    assert (price[0::2] == price[1::2]).all()
    assert price[0, 0] > 0 and (price[4:] == 0).all()
