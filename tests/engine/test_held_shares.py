"""Training on workers that are held to the CPU their centres negotiate."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "engine"))
from laborious import Laborious, seconds_a_pass

from equipoise.engine.cpu_limit import Usage
from equipoise.engine.shards.keeper import LEAST, Hold
from equipoise.engine.shards.workers import Workers
from equipoise.train import Coupled, Method, Network, Problem, Softmax, solve
from equipoise.train.run import Run
from refusals import refused

CENTRES, ROUNDS = 3, 10
CPUS = 0.3  # cores for all
TAU = 0.2  # seconds that a round should take on this machine
BUDGET = 24.0
SPEED = np.array([0.5, 1.0, 2.0])
SIZES = [40, 120, 60]
TICK = 0.010  # seconds: what a process got may be told in these


def model() -> Softmax:
    rng = np.random.default_rng(3)
    shards = []
    for size, noise in zip(SIZES, (0.3, 3.0, 1.0), strict=True):
        X = rng.standard_normal((size, 4))
        shards.append((X + noise * rng.standard_normal(X.shape), (X[:, 0] > X[:, 1]).astype(int)))
    return Softmax(shards, classes=2)


def cost() -> Coupled:
    return Coupled(SPEED, sizes=SIZES, lo=1 / SPEED, hi=np.array(SIZES) / SPEED)


@dataclass(frozen=True, eq=False)
class Watched:
    """A run on held workers: shares, batches, cores asked and usage after every round."""

    run: Run
    shares: list[Any]
    batches: list[Any]
    asked: list[dict[int, float]]
    usage: list[dict[int, Usage]]
    shard_of: Any
    says: str  # of the limiter


@pytest.fixture(scope="module")
def plain() -> Softmax:
    return model()


@pytest.fixture(scope="module")
def held(plain: Softmax) -> Watched:
    """Samples cost so much that a worker at its share fills a round."""
    per_cpu_second = CPUS * TAU / BUDGET
    passes = np.rint(per_cpu_second / SPEED / seconds_a_pass(plain)).astype(np.int64)
    shares, batches, asked, usage, shard_of = [], [], [], [], None
    with Workers(CENTRES, hold=Hold(cpus=CPUS)) as workers:

        def look(moment: Any) -> None:
            nonlocal shard_of
            shares.append(moment.shares.copy())
            batches.append(moment.state.learning.sampler.batch.copy())
            asked.append({shard: each.share for shard, each in workers.keeper._held.items()})
            usage.append(workers.usage())
            shard_of = moment.state.shard_of

        problem = Problem(cost(), BUDGET, Laborious(plain, passes))
        run = solve(problem, Network.ring(CENTRES), Method(), rounds=ROUNDS, seed=4, callback=look, engine=workers)
        return Watched(run, shares, batches, asked, usage, shard_of, workers.keeper.says)


def test_the_limiter_is_asked_for_the_shares_that_are_negotiated(held: Watched) -> None:
    """After every round: a worker's cores are its centre's part of the budget, of the cores for all."""
    for shares, asked in zip(held.shares, held.asked, strict=True):
        for shard, cores in asked.items():
            assert cores == pytest.approx(
                max(LEAST, CPUS * float(shares[held.shard_of == shard].sum()) / BUDGET), rel=1e-9
            )
        assert sum(asked.values()) == pytest.approx(CPUS)
    assert not np.allclose(held.shares[0], held.shares[-1], rtol=0.05), "nothing was negotiated: the test shows nothing"


def test_nobody_gets_more_than_was_asked_for_it(held: Watched) -> None:
    """From the first round to the last, and not by idling: workers have work for all they may use. A ceiling, so no busy
    machine breaks it; where nothing can be held ("none") there is nothing to see."""
    if held.says.startswith("none"):
        pytest.skip(f"no process can be held here: {held.says}")
    first, last = held.usage[0], held.usage[-1]
    for shard in last:
        wall = last[shard].wall_seconds - first[shard].wall_seconds
        got = (last[shard].cpu_seconds - first[shard].cpu_seconds) / wall
        asked = (last[shard].asked_cpu_seconds - first[shard].asked_cpu_seconds) / wall
        assert got <= asked + 0.03 + 2 * TICK / wall


def test_batches_follow_shares(held: Watched) -> None:
    """In every round a centre draws what the share it had before buys: floor(tau speed x), and 2 now and then for 1."""
    rule = cost()
    for number in range(1, ROUNDS):
        assert held.batches[number].tolist() == rule.batches(held.shares[number - 1], number + 1).tolist()
    assert len({tuple(batch) for batch in held.batches}) > 1


def test_holding_changes_no_bits(held: Watched, plain: Softmax) -> None:
    """The same run in one process, without work and unheld."""
    alone = solve(Problem(cost(), BUDGET, plain), Network.ring(CENTRES), Method(), rounds=ROUNDS, seed=4)
    assert np.array_equal(held.run.shares, alone.shares)
    assert np.array_equal(held.run.models, alone.models)
    assert held.run.history["samples"][-1] == alone.history["samples"][-1]


def test_work_is_done_by_parts_alone_and_changes_no_gradient(plain: Softmax) -> None:
    """A worker has a part and labours on it; the coordinator's whole model never does."""
    whole = Laborious(plain, np.array([3, 2, 1]))
    done: list[tuple[int, int]] = []
    part = whole.part(np.array([2, 0]))
    for each in (whole, part):
        each.labour = lambda node, row, y, passes: done.append((node, passes))  # type: ignore[method-assign]
    Y, rows = np.ones((CENTRES, plain.size)), [np.arange(2), np.arange(3), np.arange(4)]
    gradients, spread = whole.sampled(Y, rows)
    assert done == []
    mine, seen = part.sampled(Y[:2], [rows[2], rows[0]])
    assert done == [(0, 1)] * 4 + [(1, 3)] * 2
    expected, variances = plain.sampled(Y, rows)
    assert np.array_equal(gradients, expected) and np.array_equal(spread, variances)
    assert np.array_equal(mine, expected[[2, 0]]) and np.array_equal(seen, variances[[2, 0]])


def test_passes_are_one_number_a_centre(plain: Softmax) -> None:
    """Too few, or fewer than none, are refused."""
    with refused("passes.range", 3):
        Laborious(plain, np.array([1, 2]))
    with refused("passes.range", -1):
        Laborious(plain, np.array([1, 2, -1]))
