"""Sia's tables, which need a column of durations."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.place import traces
from refusals import refused

HEADER = "name,time,application,num_replicas,batch_size,duration\n"
GOOD = "cifar10-0,0,cifar10,1,128,900\nbert-1,1250,bert,16,384,1200\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text)
    return path


def test_two_jobs_by_hand(tmp_path):
    """1250 s is slot 2; 900 s on 1 GPU are 1.5 slots, 1200 s on 16 are 2 across machines of 8."""
    one, many = traces.sia(written(tmp_path, HEADER + GOOD))
    assert [(job.id, job.arrival, job.requested) for job in (one, many)] == [("sia-2", 0, 1), ("sia-3", 2, 16)]
    assert one.work / one.rate(1, together=True) == pytest.approx(1.5)
    assert many.work / many.rate(16, together=False) == pytest.approx(2)
    assert many.tags["application"] == "bert"


BAD = {
    "x,5,bert,0,12,600": "num_replicas is 0",
    "x,,bert,1,12,600": "time is missing",
    "x,5,bert,1,12,0": "duration is 0",
    "x,5,bert,1,12,": "no duration; add a column duration",
    "x,5,bert": "wrong number of columns",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 4, after two good ones."""
    workload = traces.sia(written(tmp_path, HEADER + GOOD + row + "\n"))
    assert [skip.line for skip in workload.skipped] == [4] and BAD[row] in workload.skipped[0].reason
    assert len(workload) == 2


def test_a_file_as_sia_has_it_says_what_to_add(tmp_path):
    """Without durations it is found as Sia's, and no row can be a job."""
    path = written(tmp_path, "name,time,application,num_replicas,batch_size\ncifar10-0,0,cifar10,1,128\n")
    assert traces.format_of(path) == "sia"
    with refused("no_jobs", "line 2", "add a column duration"):
        traces.sia(path)
