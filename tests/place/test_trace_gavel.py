"""Gavel's two layouts: steps over steps per second is the duration."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from equipoise.place import traces
from equipoise.place.job import Job
from equipoise.place.traces.gavel import RATES
from refusals import refused

SEVEN = "A3C\tcd x && python3 main.py\t--max\t1\t{steps}\t{arrival}\t{scale}\n"
TEN = "{kind}\tpython3 main.py\timage/cifar10\t--num_steps\t1\t{steps}\t{scale}\t1\t-1.000000\t{arrival}\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.trace"
    path.write_text(text)
    return path


def slots(job: Job) -> float:
    return job.work / job.rate(job.requested, together=job.requested <= 8)


@pytest.fixture(scope="session")
def folder(shared_data: Path) -> Path:
    path = shared_data / "traces" / "gavel"
    if not path.is_dir():
        pytest.skip(f"no real trace: {path} is not a folder; set EQUIPOISE_DATA to the one that holds traces/")
    return path


def test_seven_columns_by_hand(tmp_path):
    """A3C at 8.233033 steps per second: 49398.198 steps are 6000 s, 10 slots, on 1 GPU as on 8. 1200 s is slot 2."""
    text = SEVEN.format(steps=49398.198, arrival="1200.000000", scale=1)
    text += SEVEN.format(steps=49398.198, arrival="1200.000000", scale=8)
    one, eight = traces.gavel(written(tmp_path, text))
    assert [(job.id, job.arrival, job.requested) for job in (one, eight)] == [("gavel-1", 2, 1), ("gavel-2", 2, 8)]
    assert (slots(one), slots(eight)) == pytest.approx((10, 10))


def test_ten_columns_by_hand(tmp_path):
    """ResNet-18 of batch 128 on 4 GPUs was measured at 69.9505 steps per second; the arrival is the last column."""
    kind = "ResNet-18 (batch size 128)"
    (job,) = traces.gavel(written(tmp_path, TEN.format(kind=kind, steps=69950.5, scale=4, arrival=601)))
    assert (job.arrival, job.requested, job.tags["type"]) == (1, 4, kind)
    assert slots(job) * 600 == pytest.approx(1000, rel=1e-5)


BAD = {
    SEVEN.format(steps=0, arrival=0, scale=1): "steps is 0",
    SEVEN.format(steps=5, arrival="", scale=1): "arrival is missing",
    SEVEN.format(steps=5, arrival=-1, scale=1): "arrival is -1",
    SEVEN.format(steps=5, arrival=0, scale=0): "scale factor is 0",
    SEVEN.format(steps=1e15, arrival=0, scale=1): "twenty years",
    SEVEN.format(steps=5, arrival=0, scale=1).replace("A3C", "GPT-9"): "'GPT-9' has no known steps per second",
    TEN.format(kind="A3C", steps=5, scale=4, arrival=0): "never measured on 4 GPUs",
    "A3C\tonly\tfour\tcells\n": "wrong number of columns: 4",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 2, after a good one."""
    workload = traces.gavel(written(tmp_path, SEVEN.format(steps=100, arrival=0, scale=1) + row))
    assert [skip.line for skip in workload.skipped] == [2] and BAD[row] in workload.skipped[0].reason
    assert len(workload) == 1


def test_another_format_is_refused_with_the_first_reason(tmp_path):
    """A Philly table has no tabs: no row can be mapped."""
    with refused("no_jobs", "line 1"):
        traces.gavel(written(tmp_path, "timestamp,duration\n2017,5\n"))


def test_both_tables_know_the_same_types():
    """26 of them, each measured on one GPU at least."""
    assert len(RATES) == 26
    assert all(1 in measured for _, measured in RATES.values())


@pytest.mark.parametrize(
    ("name", "jobs", "gpus"), [("msr_seed0_ee9e8c.trace", 2000, 8587), ("max_min_fairness.trace", 96, 169)]
)
def test_every_real_row_is_a_job(folder, name, jobs, gpus):
    """2,000 rows of 7 columns, 96 of 10; GPUs summed by the seventh column, which holds the scale in both."""
    told = sum(int(line.split("\t")[6]) for line in (folder / name).read_text().splitlines())
    workload = traces.gavel(folder / name)
    assert (len(workload), workload.skipped, sum(job.requested for job in workload)) == (jobs, (), told)
    assert told == gpus


def test_durations_made_from_philly_are_whole_seconds(folder):
    """Steps are floor(rate x whole seconds): above 20 steps per second a wrong rate would show that for 1 row in 20.

    The rates come from four other virtual clusters.
    """
    rows = [line.split("\t") for line in (folder / "msr_seed0_ee9e8c.trace").read_text().splitlines()]
    fast = [(int(cells[4]), RATES[cells[0]][0]) for cells in rows if RATES[cells[0]][0] > 20]
    whole = [any(math.floor(rate * (steps // rate + k)) == steps for k in (0, 1)) for steps, rate in fast]
    assert len(fast) == 691 and sum(whole) > 0.95 * len(fast)
