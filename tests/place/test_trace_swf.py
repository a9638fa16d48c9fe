"""The Standard Workload Format: processors are CPUs, -1 is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.place import traces
from refusals import refused

HEADER = "; Version: 2.2\n; Computer: a small one\n; UnixStartTime: 1034319600\n;\n"  # 2002-10-11 07:00:00 UTC
#        job submit wait run procs cpu mem   req reqtime reqmem status ...
GOOD = (
    "  1     0   10  1200   4  -1  -1     4  3600     -1   1  1 1 1 1 -1 -1 -1\n"
    "  2   600   10   600  -1  -1 2048   16  3600   1024   0  1 1 1 2 -1 -1 -1\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "site.swf"
    path.write_text(text)
    return path


def test_two_jobs_by_hand(tmp_path):
    """Slot 0 is midnight UTC: 07:00 is slot 42. 1200 s are two slots. Unknown allocated: 16 requested, 1 MiB each."""
    workload = traces.swf(written(tmp_path, HEADER + GOOD))
    one, two = workload
    assert (workload.start, one.id, one.arrival, two.arrival) == ("2002-10-11T00:00:00", "swf-5", 42, 43)
    assert (one.requested, one.worker, two.requested) == (4, {"cpu": 1000}, 16)
    assert two.worker == {"cpu": 1000, "memory": 2**20 * 1000}
    assert [one.work / one.rate(4, together=t) for t in (True, False)] == pytest.approx([2, 2])
    assert "states no worth" in workload.note


def test_without_a_start_time_slot_0_is_the_files_zero(tmp_path):
    """No calendar, no start."""
    workload = traces.swf(written(tmp_path, GOOD))
    assert (workload.start, [job.arrival for job in workload]) == ("", [0, 1])


def test_processors_may_be_taken_by_the_node(tmp_path):
    """16 processors are 3 workers of 6 with 6 MiB; a job of 4 is one worker of 4. The time stays."""
    four, sixteen = traces.swf(written(tmp_path, GOOD), processors_per_worker=6)
    assert (four.requested, four.worker["cpu"]) == (1, 4000)
    assert (sixteen.requested, sixteen.worker) == (3, {"cpu": 6000, "memory": 6 * 2**20 * 1000})
    assert sixteen.work / sixteen.rate(3, together=False) == pytest.approx(1)


BAD = {
    "3 5 -1 -1 4 -1 -1 4 -1 -1 5 1 1 1 1 -1 -1 -1": "run time is -1",
    "3 5 -1 0 4 -1 -1 4 -1 -1 5 1 1 1 1 -1 -1 -1": "run time is 0",
    "3 -1 0 60 4 -1 -1 4 -1 -1 1 1 1 1 1 -1 -1 -1": "submit time is -1",
    "3 5 0 60 -1 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1": "processors is -1",
    "3 5 0 60 four -1 -1 4 -1 -1 1 1 1 1 1 -1 -1 -1": "processors is 'four'",
    "3 5 0 60 4 -1 -1 4 -1 1e12 1 1 1 1 1 -1 -1 -1": "more than 4 TiB",
    "3 5 0 60 4 -1 -1": "wrong number of fields: 7",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 7: four of comments, two good ones."""
    workload = traces.swf(written(tmp_path, HEADER + GOOD + row + "\n"))
    assert [skip.line for skip in workload.skipped] == [7] and BAD[row] in workload.skipped[0].reason
    assert len(workload) == 2


@pytest.mark.parametrize(
    ("text", "refusal"), [("", ("trace.empty",)), (HEADER, ("no_jobs",)), ("a,b\n1,2\n", ("no_jobs", "line 1"))]
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path, text, refusal):
    """Empty, comments alone, another format."""
    path = written(tmp_path, text)
    with refused(*refusal, path):
        traces.swf(path)


def test_no_processors_per_worker_is_refused():
    """Before the file is looked at."""
    with refused("number.whole", "processors_per_worker", 0):
        traces.swf("none.swf", processors_per_worker=0)
