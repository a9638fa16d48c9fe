"""Alibaba's pods become jobs of one worker, its nodes a cluster."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from equipoise.place import traces
from refusals import refused

HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
GOOD = "pod-0,12000,16384,1,460,,LS,Running,600,4800,1200\npod-1,4000,8192,0,0,,BE,Failed,0,1800,0\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,393216,8,G2\nn1,16000,122880,2,P100\nn2,96000,393216,8,G2\n"
GIB = 2**30 * 1000


def written(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def folder(shared_data: Path) -> Path:
    path = shared_data / "traces" / "alibaba"
    if not path.is_dir():
        pytest.skip(f"no real trace: {path} is not a folder; set EQUIPOISE_DATA to the one that holds traces/")
    return path


def test_two_pods_by_hand(tmp_path):
    """Created at 600 s: slot 1. Ran from 1200 to 4800 s: 6 slots. .46 of a GPU; the other pod has none and is kept."""
    cpu_only, shared = traces.alibaba(written(tmp_path, HEADER + GOOD))
    assert (shared.id, shared.arrival, shared.requested, shared.widest) == ("pod-0", 1, 1, 1)
    assert shared.work / shared.rate(1, together=True) == pytest.approx(6)
    assert shared.worker == {"gpu": 460, "cpu": 12000, "memory": 16 * GIB}
    assert cpu_only.worker == {"gpu": 0, "cpu": 4000, "memory": 8 * GIB}
    assert cpu_only.work / cpu_only.rate(1, together=True) == pytest.approx(3)


def test_a_pod_of_eight_gpus_is_one_worker(tmp_path):
    """All of a pod is on one machine: 8 GPUs in one worker."""
    (job,) = traces.alibaba(written(tmp_path, HEADER + "p,64000,1024,8,1000,,LS,Running,0,600,0\n"))
    assert (job.worker["gpu"], job.widest) == (8000, 1)


BAD = {
    "p,1,1,1,1000,,BE,Pending,5,9,": "never scheduled",
    "p,1,1,1,1000,,BE,Failed,5,9,9": "not after scheduled_time",
    "p,1,1,1,1000,,BE,Failed,5,,6": "deletion_time is missing",
    "p,1,1,1,1000,,BE,Failed,-5,9,6": "creation_time is -5",
    "p,1,1,x,1000,,BE,Failed,5,9,6": "num_gpu is 'x'",
    "p,0,0,0,0,,BE,Failed,5,9,6": "asks for nothing",
    "p,1,1,1": "wrong number of columns",
}


@pytest.mark.parametrize("row", BAD)
def test_a_pod_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """On line 4, after two good ones."""
    workload = traces.alibaba(written(tmp_path, HEADER + GOOD + row + "\n"))
    assert [skip.line for skip in workload.skipped] == [4] and BAD[row] in workload.skipped[0].reason
    assert len(workload) == 2


def test_a_name_used_twice_gets_its_line(tmp_path):
    """Ids must differ; the second says where it stands."""
    row = "p,1,1,1,1000,,BE,Failed,5,9,6\n"
    assert [job.id for job in traces.alibaba(written(tmp_path, HEADER + row + row))] == ["p", "p#3"]


def test_equal_nodes_are_one_type(tmp_path):
    """Two of one kind and one of another, in milli-units."""
    cluster = traces.alibaba_cluster(written(tmp_path, NODES))
    assert [(m.name, m.count) for m in cluster.machines] == [("G2-8gpu-96cpu-384Gi", 2), ("P100-2gpu-16cpu-120Gi", 1)]
    assert cluster.total.tolist() == [18000, 208000, (2 * 384 + 120) * GIB]


@pytest.mark.parametrize("row", ["n3,0,1,1,G2\n", "n3,1,1\n"])
def test_a_bad_node_is_refused_with_its_line(tmp_path, row):
    """A cluster with a machine left out would be another cluster."""
    with refused("trace.row", "line 5"):
        traces.alibaba_cluster(written(tmp_path, NODES + row))


def test_the_wrong_list_is_refused_either_way(tmp_path):
    """Pods for nodes, nodes for pods."""
    with refused("trace.column", "'name'", "Alibaba"):
        traces.alibaba(written(tmp_path, NODES))
    with refused("trace.column", "'gpu'", "Alibaba"):
        traces.alibaba_cluster(written(tmp_path, HEADER + GOOD))


def test_the_real_list_keeps_every_pod_that_ran(folder):
    """8,152 pods, 897 of them never scheduled; milli-GPU-seconds as the table itself adds up."""
    path = folder / "openb_pod_list_default.csv"
    with path.open(newline="") as file:
        ran = [row for row in csv.DictReader(file) if row["scheduled_time"]]
    told = sum(
        int(r["num_gpu"]) * int(r["gpu_milli"]) * (float(r["deletion_time"]) - float(r["scheduled_time"])) for r in ran
    )
    workload = traces.alibaba(path)
    assert (len(workload), len(workload.skipped)) == (7255, 897)
    assert {skip.reason for skip in workload.skipped} == {"never scheduled"}
    spent = sum(job.worker["gpu"] * job.work / job.rate(1, together=True) * 600 for job in workload)
    assert spent == pytest.approx(told, rel=1e-9)


def test_every_real_pod_fits_the_real_cluster(folder):
    """1,213 nodes with 6,212 GPUs."""
    cluster = traces.alibaba_cluster(folder / "openb_node_list_gpu_node.csv")
    assert (cluster.size, int(cluster.total[0])) == (1213, 6_212_000)
    for job in traces.alibaba(folder / "openb_pod_list_default.csv"):
        assert (cluster.capacity >= cluster.demand(job.worker, job.id)).all(axis=1).any(), job.id
