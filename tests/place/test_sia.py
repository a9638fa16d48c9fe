"""Sia: its integer program against every choice there is, and what it decides in cases worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equipoise.place import placers, traces
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Job, Linear, Unstated, Workload
from equipoise.place.placers.sia import choose
from equipoise.place.simulate import Result, simulate
from refusals import refused


def job(name: str, work: float, most: int, *, arrival: int = 0, **more: object) -> Job:
    """Up to `most` workers of a GPU each; each does a sample in a slot."""
    given: dict[str, object] = {"worker": {"gpu": 1}, "utility": Linear(1.0, 1000.0)} | more
    return Job(id=name, arrival=arrival, work=work, batch=most, time_per_sample=1.0, **given)  # type: ignore[arg-type]


def gpus(count: int, machines: int = 1) -> Cluster:
    return Cluster((Machine({"gpu": count}, machines, "m"),))


def widths(result: Result, slot: int) -> list[int]:
    """Workers of each job in a slot."""
    rows = result.schedule[result.schedule[:, 1] == slot]
    return [int(rows[rows[:, 0] == j, 3].sum()) for j in range(len(result.jobs))]


def best(costs: list[list[float]], amounts: list[list[list[float]]], idle: float) -> float:
    """The least cost, by trying every choice."""
    least = np.inf
    for one in itertools.product(*(range(-1, len(cost)) for cost in costs)):
        held = np.sum([amounts[j][k] for j, k in enumerate(one) if k >= 0] or [[0.0]], axis=0)
        if (held <= 1.0 + 1e-9).all():
            least = min(least, sum(costs[j][k] if k >= 0 else idle for j, k in enumerate(one)))
    return least


@pytest.mark.parametrize("seed", range(30))
def test_the_program_finds_the_least_cost_there_is(seed: int):
    """Up to five jobs of up to four configurations and two resources, some not to be chosen: to its gap of 1e-4."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, int(rng.integers(1, 6))).tolist()
    costs = [np.where(rng.random(n) < 0.1, np.inf, rng.uniform(0.2, 1.3, n)) for n in counts]
    amounts = [rng.uniform(0.0, 0.7, (n, 2)) for n in counts]
    chosen = choose(costs, amounts, 1.1)
    taken = [(j, int(k)) for j, k in enumerate(chosen) if k >= 0]
    assert (sum((amounts[j][k] for j, k in taken), np.zeros(2)) <= 1.0 + 1e-6).all()
    cost = sum(costs[j][k] for j, k in taken) + 1.1 * (len(costs) - len(taken))
    least = best([one.tolist() for one in costs], [one.tolist() for one in amounts], 1.1)
    assert cost == pytest.approx(least, rel=2e-4)


def test_two_jobs_share_and_of_three_one_waits():
    """Four GPUs, speeds 1, 2, 4: widths cost 1, .707, .5, none 1.1. Two: 2 x .707 = 1.41 beats .5 + 1.1. Three: two
    pairs and one without, 2.51, beat 2 + 1 + 1 (2.71) and 4 alone (2.7)."""
    assert widths(simulate(gpus(4), [job(str(k), 40, 4) for k in range(2)], placers.Sia(), slots=30), 0) == [2, 2]
    three = widths(simulate(gpus(4), [job(str(k), 40, 4) for k in range(3)], placers.Sia(), slots=30), 0)
    assert sorted(three) == [0, 2, 2]


@pytest.mark.parametrize(("restart", "after"), [(0.5, [2, 2]), (0.9, [4, 0])])
def test_a_costly_restart_keeps_a_job_as_it_is(restart: float, after: list[int]):
    """a has all four GPUs when b, of at most two, comes a slot later. Half a slot lost: r = 1 / 1.5, two for a cost
    (2/1.5)^-.5 = .87, with b's .71 less than .5 + 1.1. At .9 they cost (2/1.9)^-.5 = .97 + .71, more than 1.6: a stays."""
    jobs = [job("a", 100, 4, restart=restart), job("b", 100, 2, arrival=1)]
    result = simulate(gpus(4), jobs, placers.Sia(), slots=60)
    assert (widths(result, 0), widths(result, 1)) == ([4, 0], after)


def test_beyond_a_machine_come_whole_machines():
    """Three machines of four, speeds linear: 8 is two of them, 12 all three, nothing between; a cannot use more than ten."""
    assert widths(simulate(gpus(4, 3), [job("a", 100, 12)], placers.Sia(), slots=30), 0) == [12]
    result = simulate(gpus(4, 3), [job("a", 100, 10), job("b", 100, 4)], placers.Sia(), slots=30)
    assert widths(result, 0) == [8, 4]
    assert result.schedule[result.schedule[:, 1] == 0, 3].tolist() == [4, 4, 4]


def test_what_spreading_slows_down_is_no_configuration():
    """Gradients between machines take ten slots a sample: the second machine is left empty."""
    slow = job("a", 30, 8, gradient=10.0, inside=1e9, between=1.0)
    assert widths(simulate(gpus(4, 2), [slow], placers.Sia(), slots=30), 0) == [4]


@pytest.mark.parametrize("restart", [0.0, 0.2])
def test_on_jobs_with_servers_and_many_resources_the_schedule_is_certified(restart: float):
    """The generator's jobs, wrong durations too; nobody is refused who could run."""
    drawn = traces.synthetic(8, seed=1, slots=12, small=True)
    jobs = Workload(tuple(one.but(restart=restart, actual=1.2) for one in drawn), drawn.slot)
    result = simulate(traces.synthetic_cluster(3), jobs, placers.Sia(), slots=60)
    assert result.certificate().passed
    assert result.completed >= 7
    assert set(result.reasons) <= {"beyond_horizon", "waiting"}


def test_a_power_that_prefers_slow_widths_is_refused():
    with refused("sia.range", "0.5"):
        placers.Sia(power=0.5)


def test_a_job_that_fits_nowhere_stops_nobody() -> None:
    """Three GPUs on a machine of two: refused, and the other runs."""
    jobs = [Job(name, 0, 4.0, 4, 1.0, {"gpu": gpus}, Unstated()) for name, gpus in (("a", 3), ("b", 1))]
    result = simulate(Cluster((Machine({"gpu": 2}),)), jobs, placers.Sia(), horizon=5)
    assert (result.states[0], result.finish.tolist()) == ("refused", [-1, 1])
