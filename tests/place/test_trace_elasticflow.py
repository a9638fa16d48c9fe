"""ElasticFlow's tables: jobs with deadlines."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from equipoise.place import traces
from equipoise.place.job import Deadline

HEADER = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
GOOD = "a,600,9,bert,1800,32,1,900\nb,1250,9,vgg16,1901,64,8,1200\nc,1250,9,,1250,64,16,600\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def folder(shared_data: Path) -> Path:
    path = shared_data / "traces" / "elasticflow"
    if not path.is_dir():
        pytest.skip(f"no real trace: {path} is not a folder; set EQUIPOISE_DATA to the one that holds traces/")
    return path


def test_three_jobs_by_hand(tmp_path):
    """Slots of 600 s: 1200 s are slots 0 and 1, 651 s the same, and a deadline at once leaves the slot of arrival."""
    workload = traces.elasticflow(written(tmp_path, HEADER + GOOD))
    one, eight, many = workload
    assert [job.utility for job in workload] == [Deadline(1.0, 1), Deadline(1.0, 1), Deadline(1.0, 0)]
    assert [(job.arrival, job.requested, job.most) for job in workload] == [(1, 1, 4), (2, 8, 32), (2, 16, 64)]
    assert one.work / one.rate(1, together=True) == pytest.approx(1.5)
    assert eight.work / eight.rate(8, together=True) == pytest.approx(2)
    assert many.work / many.rate(16, together=False) == pytest.approx(1)
    assert (one.tags["network"], "network" in many.tags) == ("bert", False)
    assert "1 by the trace's deadline" in workload.note and "synthesised" not in workload.note


def test_deadlines_follow_the_length_of_a_slot(tmp_path):
    """With slots of a minute 1200 s are slots 0 to 19, and 651 s slots 0 to 10."""
    one, eight, many = traces.elasticflow(written(tmp_path, HEADER + GOOD), slot="1m", elasticity=2)
    assert (one.utility, eight.utility, many.utility) == (Deadline(1.0, 19), Deadline(1.0, 10), Deadline(1.0, 0))
    assert eight.most == 16


BAD = {
    "d,5,9,bert,700,1,0,9": "num_gpu is 0",
    "d,,9,bert,700,1,1,9": "submission_time is missing",
    "d,5,9,bert,,1,1,9": "deadline is missing",
    "d,5,9,bert,1e10,1,1,9": "twenty years after submission",
    "d,5,9,bert,700,1,1,0": "duration is 0",
    "d,5,9,bert,700,1,1,-3": "duration is -3",
    "d,5,9": "wrong number of columns",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 5, after three good ones."""
    workload = traces.elasticflow(written(tmp_path, HEADER + GOOD + row + "\n"))
    assert [skip.line for skip in workload.skipped] == [5] and BAD[row] in workload.skipped[0].reason
    assert len(workload) == 3


def test_the_format_is_found_by_its_columns(tmp_path):
    """By the header alone, in any order."""
    assert traces.format_of(written(tmp_path, HEADER + GOOD)) == "elasticflow"
    assert traces.format_of(written(tmp_path, "duration,num_gpu,deadline,submission_time\n9,1,5,0\n")) == "elasticflow"


@pytest.mark.parametrize(("name", "jobs"), [("195job.csv", 195), ("cluster06.csv", 2396)])
def test_every_real_row_is_a_job_with_its_deadline(folder, name, jobs):
    """GPU-seconds and slots of deadlines as the table itself adds up; all is in order of submission there."""
    with (folder / name).open(newline="") as file:
        told = list(csv.DictReader(file))
    workload = traces.elasticflow(folder / name)
    assert traces.format_of(folder / name) == "elasticflow"
    assert (len(workload), workload.skipped) == (jobs, ())
    spent = sum(j.requested * j.work / j.rate(j.requested, together=j.requested <= 8) * 600 for j in workload)
    assert spent == pytest.approx(sum(int(row["num_gpu"]) * float(row["duration"]) for row in told))
    due = [math.ceil((int(row["deadline"]) - int(row["submission_time"])) / 600) - 1 for row in told]
    assert sorted(job.utility.parameters[2] for job in workload) == sorted(due)
