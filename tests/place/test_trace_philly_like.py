"""A generated workload looks like Philly's, and every format is there by name."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from equipoise.place import traces
from equipoise.place.traces.philly_like import GPUS, HOURS, WEEKDAYS
from refusals import refused

LIKE = traces.philly_like(20_000, seed=1, days=14)


def seconds(job) -> float:
    return job.work / job.rate(job.requested, together=job.requested <= 8) * 600


@pytest.fixture(scope="session")
def rows(shared_data: Path) -> list[dict[str, str]]:
    path = shared_data / "traces" / "philly" / "philly.csv"
    if not path.is_file():
        pytest.skip(f"no real trace: {path} is not there; set EQUIPOISE_DATA to the folder that holds traces/")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_counts_are_those_of_the_table(rows):
    """Jobs by GPUs, by weekday and by hour, counted again."""
    times = [datetime.fromisoformat(row["timestamp"]) for row in rows]
    assert Counter(int(row["num_gpus"]) for row in rows) == GPUS
    assert Counter(t.weekday() for t in times) == dict(enumerate(WEEKDAYS))
    assert Counter(t.hour for t in times) == dict(enumerate(HOURS))


@pytest.mark.parametrize("several", [False, True])
def test_quantiles_of_durations_are_near_the_tables(rows, several):
    """From the 5th to the 99th percentile within a third, jobs of one GPU and of several apart."""
    real = [float(row["duration"]) for row in rows if (row["num_gpus"] != "1") == several]
    like = [seconds(job) for job in LIKE if (job.requested != 1) == several]
    ratio = np.quantile(like, (0.05, 0.25, 0.5, 0.75, 0.9, 0.99)) / np.quantile(
        real, (0.05, 0.25, 0.5, 0.75, 0.9, 0.99)
    )
    assert (ratio > 0.67).all() and (ratio < 1.5).all(), ratio


def test_nineteen_in_twenty_ask_for_one_gpu():
    """As in the table, 95.2%."""
    assert np.mean([job.requested == 1 for job in LIKE]) == pytest.approx(0.952, abs=0.006)


def test_arrivals_fill_the_days_with_quiet_weekends():
    """Fourteen days of 144 slots; a Thursday has more than twice a Saturday's."""
    days = Counter(job.arrival // 144 for job in LIKE)
    assert set(days) == set(range(14))
    assert days[3] > 2 * days[5] and days[10] > 2 * days[12]


def test_the_seed_repeats_and_another_differs():
    """The same arguments, the same jobs."""
    assert traces.philly_like(50, seed=1).jobs == traces.philly_like(50, seed=1).jobs
    assert traces.philly_like(50, seed=1).jobs != traces.philly_like(50, seed=2).jobs


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"days": 0}, {"days": 1.5}])
def test_what_cannot_work_is_refused_by_name(wrong):
    """The message names the argument."""
    given = {"jobs": 3, "days": 7} | wrong
    with refused("number.whole", *wrong):
        traces.philly_like(given.pop("jobs"), **given)


def test_every_job_fits_a_gpu_cluster():
    """The cluster made for it knows each resource, and GPUs are what runs out first."""
    cluster = traces.gpu_cluster(3)
    demand = cluster.demand(LIKE[0].worker, "a worker")
    assert (cluster.size, cluster.resources[int(np.argmin(cluster.capacity[0] // demand))]) == (3, "gpu")


def test_every_format_is_a_function_that_names_a_missing_file(tmp_path):
    """The command line calls them by name with a path."""
    assert set(traces.FORMATS) == {"alibaba", "elasticflow", "gavel", "philly", "sia", "slurm", "swf", "tiresias"}
    for name, read in traces.FORMATS.items():
        assert getattr(traces, name) is read
        with refused("file.missing", "none.txt"):
            read(tmp_path / "none.txt")
