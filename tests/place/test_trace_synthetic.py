"""The synthetic workload stays in the spec's ranges, can be finished, and repeats by seed."""

from __future__ import annotations

import math

import pytest

from equipoise.place import traces
from equipoise.place.traces.synthetic import fastest
from refusals import refused

MANY = traces.synthetic(600, seed=1, slots=100)


def test_every_number_is_in_the_specs_range():
    """Spec, section 3, with bandwidths in bytes per slot of an hour and demands in milli-units."""
    a_slot = 3600 / 8
    for job in MANY:
        assert 50 * 2e4 <= job.work <= 200 * 5e5
        assert 30e6 <= job.gradient <= 575e6
        assert 1e-5 <= job.time_per_sample <= 1e-4
        assert 1 <= job.workers_per_server <= 10
        assert 1 <= job.requested <= min(job.batch, 30)
        assert job.batch <= 200
        assert 100e6 * a_slot <= job.between <= 5e9 * a_slot
        assert 10e9 * a_slot <= job.inside <= 40e9 * a_slot
        assert 1 <= job.utility.value <= 100
        assert 1 <= job.utility.middle <= 15
        assert job.server is not None and "gpu" not in job.server
        for demand in (job.worker, job.server):
            for name, (low, high) in {"cpu": (1, 10), "memory": (2, 32), "disk": (5, 10)}.items():
                assert low * 1000 <= demand[name] <= high * 1000
        assert 0 <= job.worker["gpu"] <= 4000


def test_the_ends_of_the_ranges_are_reached():
    """Whole numbers include both ends: workers of 0 and of 4 GPUs, 1 and 10 workers a server."""
    assert {job.worker["gpu"] for job in MANY} == {0, 1000, 2000, 3000, 4000}
    assert {job.workers_per_server for job in MANY} == set(range(1, 11))


def test_one_in_ten_is_flat_and_a_third_is_steep():
    """10, 55, 35% of 600, within four deviations."""
    kinds = [0 if j.utility.steepness == 0 else 1 if j.utility.steepness <= 1 else 2 for j in MANY]
    for kind, share in enumerate((0.10, 0.55, 0.35)):
        assert abs(kinds.count(kind) - 600 * share) < 4 * math.sqrt(600 * share * (1 - share))


def test_arrivals_fill_the_slots_in_order():
    """0 to T - 1, ids in order of arrival."""
    arrivals = [job.arrival for job in MANY]
    assert [job.id for job in MANY] == [f"job-{k}" for k in range(600)]
    assert arrivals == sorted(arrivals) and min(arrivals) < 5 and 95 <= max(arrivals) < 100
    assert {job.arrival for job in traces.synthetic(5, seed=1, slots=100, arrivals="at_once")} == {0}


@pytest.mark.parametrize("name", traces.REGIMES)
def test_every_job_could_finish_alone_in_half_the_time(name):
    """By brute force over widths: on one machine with its servers, or spread at full width."""
    _, workload, slots = traces.regime(name, 500)
    room = {"gpu": 36000, "cpu": 99000, "memory": 306000, "disk": 135000}
    for job in workload:
        best = job.rate(job.batch, together=False)
        for w in range(1, job.batch + 1):
            s = math.ceil(w / job.workers_per_server)
            if all(w * job.worker[r] + s * job.server.get(r, 0) <= room[r] for r in room):
                best = max(best, job.rate(w, together=True))
        assert fastest(job) == pytest.approx(job.work / best)
        assert math.ceil(job.work / best) <= slots / 2


@pytest.mark.parametrize(
    ("name", "machines", "jobs", "slots"),
    [("20x40", 20, 40, 20), ("20x100-small", 20, 100, 20), ("50x50", 50, 50, 20), ("50x200", 50, 200, 100)],
)
def test_the_four_regimes(name, machines, jobs, slots):
    """Machines, jobs and slots of the spec's table; 36, 99, 306, 135 a machine."""
    cluster, workload, horizon = traces.regime(name, 500)
    assert (cluster.size, len(workload), horizon) == (machines, jobs, slots)
    assert cluster.total.tolist() == [machines * 1000 * c for c in (36, 99, 306, 135)]
    for job in workload:
        cluster.demand(job.worker, job.id)


def test_small_jobs_are_small():
    """At most 100 epochs of 100,000 samples, and 50 workers."""
    small = traces.synthetic(200, seed=1, slots=20, small=True)
    assert max(job.work for job in small) <= 1e7 and max(job.batch for job in small) <= 50


def test_the_seed_repeats_and_another_differs():
    """The same arguments, the same jobs."""
    assert traces.regime("20x40", 500)[1].jobs == traces.regime("20x40", 500)[1].jobs
    assert traces.regime("20x40", 500)[1].jobs != traces.regime("20x40", 501)[1].jobs


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"seed": -1}, {"slots": 0}, {"slots": 1.5}, {"arrivals": "now"}])
def test_what_cannot_work_is_refused_by_name(wrong):
    """The message names the argument."""
    given = {"jobs": 3, "seed": 0, "slots": 20} | wrong
    with refused("unknown" if "arrivals" in wrong else "number.whole", *wrong):
        traces.synthetic(given.pop("jobs"), **given)


def test_too_short_a_horizon_is_refused_and_an_unknown_regime_named():
    """No job can finish in half a slot."""
    with refused("slots.few"):
        traces.synthetic(1, seed=0, slots=1)
    with refused("unknown", "'20x40'"):
        traces.regime("20x4", 0)
