"""Tiresias' job and cluster tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from equipoise.place import traces
from refusals import refused

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
GOOD = "0,1,0,606,vgg19,164,30\n1,8,130,133,vgg11,180,23\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def folder(shared_data: Path) -> Path:
    path = shared_data / "traces" / "tiresias"
    if not path.is_dir():
        pytest.skip(f"no real trace: {path} is not a folder; set EQUIPOISE_DATA to the one that holds traces/")
    return path


def test_two_jobs_by_hand(tmp_path):
    """Slots of a minute: 130 s is slot 2, 180 s are 3 slots, for 8 GPUs on machines of 4 across machines."""
    one, eight = traces.tiresias(written(tmp_path, HEADER + GOOD))
    assert (one.arrival, eight.arrival, eight.requested, eight.tags["network"]) == (0, 2, 8, "vgg11")
    assert one.work / one.rate(1, together=True) == pytest.approx(164 / 60)
    assert eight.work / eight.rate(8, together=False) == pytest.approx(3)


BAD = {
    "2,0,5,1,vgg,9,1": "num_gpu is 0",
    "2,1,,1,vgg,9,1": "submit_time is missing",
    "2,1,5,1,vgg,0,1": "duration is 0",
    "2,1,5": "wrong number of columns",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 4, after two good ones."""
    workload = traces.tiresias(written(tmp_path, HEADER + GOOD + row + "\n"))
    assert [skip.line for skip in workload.skipped] == [4] and BAD[row] in workload.skipped[0].reason


def test_a_cluster_by_hand(tmp_path):
    """Two switches of 3 nodes are 6 machines; memory in GB."""
    text = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,3,4,40,256"
    cluster = traces.tiresias_cluster(written(tmp_path, text))
    assert (cluster.size, cluster.total.tolist()) == (6, [24000, 240000, 6 * 256 * 10**12])


@pytest.mark.parametrize(
    ("text", "refusal"), [("", ("trace.empty",)), ("a,b\n", ("trace.column", "num_switch")), (None, ("trace.empty",))]
)
def test_a_wrong_cluster_file_is_refused(tmp_path, text, refusal):
    """Empty, another table, a header alone."""
    alone = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
    with refused(*refusal):
        traces.tiresias_cluster(written(tmp_path, alone if text is None else text))


def test_the_real_table_keeps_its_gpu_seconds(folder):
    """60 jobs on 32 machines of 4 GPUs; GPU-seconds as the table itself adds up."""
    with (folder / "60_job.csv").open(newline="") as file:
        told = sum(int(row["num_gpu"]) * float(row["duration"]) for row in csv.DictReader(file))
    workload = traces.tiresias(folder / "60_job.csv")
    spent = sum(j.requested * j.work / j.rate(j.requested, together=j.requested <= 4) * 60 for j in workload)
    assert (len(workload), workload.skipped) == (60, ())
    assert spent == pytest.approx(told)
    assert traces.tiresias_cluster(folder / "n32g4.csv").size == 32
