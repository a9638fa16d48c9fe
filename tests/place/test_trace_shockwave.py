"""Shockwave's 12 columns, read as a third layout of Gavel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.place import traces

ROW = "{kind}\tpython3 main.py\timage\t--num_steps\t1\t41840\t{scale}\t{mode}\t1\t-1.000000\t{duration}\t{arrival}\n"
GOOD = {"kind": "ResNet-50 (batch size 64)", "scale": 4, "mode": "gns", "duration": 1500, "arrival": 1250}


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.trace"
    path.write_text(text)
    return path


def test_two_jobs_by_hand(tmp_path):
    """1500 s are 2.5 slots, 1250 s is slot 2; the duration is told, so a type without a known rate will do."""
    text = ROW.format(**GOOD) + ROW.format(**GOOD | {"kind": "GPT-9", "mode": "static", "scale": 1, "arrival": 0})
    path = written(tmp_path, text)
    first, second = traces.gavel(path)
    assert traces.format_of(path) == "gavel"
    assert [(job.id, job.arrival, job.requested) for job in (first, second)] == [("gavel-2", 0, 1), ("gavel-1", 2, 4)]
    assert (first.tags["mode"], second.tags["mode"], first.tags["type"]) == ("static", "gns", "GPT-9")
    for job in (first, second):
        assert job.work / job.rate(job.requested, together=True) == pytest.approx(2.5)


BAD = {
    ROW.format(**GOOD).replace("\t-1.000000", ""): "wrong number of columns: 11; expected 7, 10 or 12",
    ROW.format(**GOOD | {"duration": 0}): "duration is 0",
    ROW.format(**GOOD | {"arrival": -1}): "arrival is -1",
    ROW.format(**GOOD | {"scale": 0}): "scale factor is 0",
    ROW.format(**GOOD | {"mode": "1"}): "adaptation mode is '1'; expected static, accordion, gns",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 2, after a good one."""
    workload = traces.gavel(written(tmp_path, ROW.format(**GOOD) + row))
    assert [skip.line for skip in workload.skipped] == [2] and BAD[row] in workload.skipped[0].reason
    assert len(workload) == 1
