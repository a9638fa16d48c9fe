"""Slurm's accounting, in any order of columns: jobs that ran, their shares of GPUs, CPUs and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.place import Cluster, Machine, PlaceSpec, traces, write_cluster
from equipoise.place.traces._rows import Unmappable
from equipoise.place.traces.slurm import elapsed
from refusals import refused

GIB = 2**30 * 1000
HEADER = "JobID|Partition|Submit|Start|End|ElapsedRaw|ReqTRES|AllocTRES|NCPUS|NNodes|State\n"
EXPORT = (
    HEADER
    + "1001|gpu|2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T09:05:00|3600|billing=8,cpu=8,gres/gpu=2,mem=32G,node=1"
    "|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=32G,node=1|8|1|COMPLETED\n"
    "1001.batch||2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T09:05:00|3600||cpu=8,mem=32G,node=1|8|1|COMPLETED\n"
    "1001.extern||2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T09:05:00|3600||cpu=8,mem=32G,node=1|8|1|COMPLETED\n"
    "1002_7|cpu|2024-03-01T00:10:00|2024-03-01T00:11:00|2024-03-01T00:31:00|1200|cpu=64,mem=100G,node=2"
    "|cpu=64,mem=100G,node=2|64|2|FAILED\n"
    "1003|gpu|2024-03-02T00:00:00|2024-03-02T00:00:01|2024-03-02T01:00:01|3600|cpu=32,gres/gpu=8,mem=2.5T,node=2"
    "|cpu=32,gres/gpu:h100=4,gres/gpu:a100=4,mem=2.5T,node=2|32|2|CANCELLED by 1000\n"
    "1004|gpu|2024-03-02T00:00:00|2024-03-02T00:00:01|2024-03-03T00:00:01|86400|cpu=3,gres/gpu=2,mem=1000M,node=1|"
    "|3|1|TIMEOUT\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "sacct.txt"
    path.write_text(text)
    return path


def jobs(path: Path, **settings):
    return {job.id: job for job in traces.slurm(path, **settings)}


def test_an_export_by_hand(tmp_path):
    """Slot 0 is midnight of March 1: 08:00 is slot 48. An hour is 6 slots. Two GPUs share 8 CPUs and 32 GiB."""
    job = jobs(written(tmp_path, EXPORT))["slurm-1001"]
    assert (job.arrival, job.requested) == (48, 2)
    assert job.worker == {"gpu": 1000, "cpu": 4000, "memory": 16 * GIB}
    assert job.work / job.rate(2, together=True) == pytest.approx(6)


def test_a_job_without_gpus_has_a_worker_a_node_and_no_communication(tmp_path):
    """64 CPUs on two nodes: 32 and 50 GiB each, two slots together or apart, and no wider."""
    job = jobs(written(tmp_path, EXPORT), elasticity=2)["slurm-1002_7"]
    assert (job.requested, job.widest, job.worker) == (2, 2, {"cpu": 32000, "memory": 50 * GIB})
    assert [job.work / job.rate(2, together=t) for t in (True, False)] == pytest.approx([2, 2])


def test_gpus_of_several_types_are_summed_and_nodes_say_whether_it_ran_together(tmp_path):
    """4 + 4 GPUs on two nodes: an hour across machines."""
    job = jobs(written(tmp_path, EXPORT))["slurm-1003"]
    assert (job.requested, job.worker["memory"], job.tags["state"]) == (8, 320 * GIB, "CANCELLED")
    assert job.work / job.rate(8, together=False) == pytest.approx(6)


def test_what_was_requested_stands_in_for_what_was_allocated_and_shares_are_rounded_up(tmp_path):
    """No AllocTRES: three CPUs for two GPUs are 1.5 each, 1000M are 500 MiB each."""
    job = jobs(written(tmp_path, EXPORT))["slurm-1004"]
    assert job.worker == {"gpu": 1000, "cpu": 1500, "memory": 500 * 2**20 * 1000}


def test_steps_belong_to_their_job_and_the_note_counts_them(tmp_path):
    """Four jobs, two steps, nothing skipped."""
    workload = traces.slurm(written(tmp_path, EXPORT), worth="drawn")
    assert (len(workload), workload.skipped) == (4, ())
    assert "2 job steps left out" in workload.note and "utilities synthesised, seed 0" in workload.note
    assert workload.start == "2024-03-01T00:00:00"


def test_columns_may_stand_in_any_order_and_few_are_needed(tmp_path):
    """Elapsed instead of ElapsedRaw, NCPUS instead of TRES, the bar at the end that --parsable leaves."""
    text = "State|Elapsed|NCPUS|Submit|JobID|\nCOMPLETED|1-00:10:00|4|2024-03-01T00:00:00|9|\n"
    job = jobs(written(tmp_path, text))["slurm-9"]
    assert (job.worker, job.requested) == ({"cpu": 4000}, 1)
    assert job.work / job.rate(1, together=True) == pytest.approx(145)


def test_start_and_end_alone_tell_the_duration(tmp_path):
    """Twenty minutes are two slots."""
    text = "JobID|Submit|Start|End|NCPUS\n9|2024-03-01T00:00:00|2024-03-01T00:10:00|2024-03-01T00:30:00|1\n"
    job = jobs(written(tmp_path, text))["slurm-9"]
    assert job.work / job.rate(1, together=True) == pytest.approx(2)


def test_a_job_that_had_gpus_of_a_type_of_the_cluster_takes_that_type_only(tmp_path):
    """1001 had two a100, 1003 four of each of two types, 1004 of none. The name of the cluster counts, whatever its case."""
    path = written(tmp_path, EXPORT)
    speeds = {name: job.speeds for name, job in jobs(path, types=("A100", "v100", "")).items()}
    assert speeds == {"slurm-1001": {"A100": 1.0}, "slurm-1002_7": None, "slurm-1003": None, "slurm-1004": None}
    assert "take machines of that type only: a100 (1 job)" in traces.slurm(path, types=("A100",)).note


def test_types_that_no_machine_has_are_ignored_and_the_note_says_so(tmp_path):
    """Both jobs that had GPUs of types may sit anywhere."""
    workload = traces.slurm(written(tmp_path, EXPORT))
    assert all(job.speeds is None for job in workload)
    assert "take any: no machine is of that type: a100 (1 job), a100+h100 (1 job)" in workload.note


def test_a_replay_gives_jobs_the_types_of_its_machines(tmp_path):
    """A machine of each type: the job that had a100 runs on the a100."""
    machines = [Machine({"gpu": 4, "cpu": 64, "memory": "1Ti"}, 1, f"box-{type}", type) for type in ("v100", "a100")]
    write_cluster(Cluster(tuple(machines)), tmp_path / "cluster.yaml")
    path = written(tmp_path, HEADER + row(AllocTRES="cpu=8,gres/gpu:a100=2,mem=32G"))
    chosen = {"jobs": str(path), "cluster": str(tmp_path / "cluster.yaml"), "policy": ["fifo"], "slot": "10m"}
    result = PlaceSpec(**chosen).build().compare().results[0]
    assert {result.cluster.names[cell[2]] for cell in result.schedule} == {"box-a100"}


def row(**cells: str) -> str:
    """A good row of HEADER with some cells changed."""
    good = {
        "JobID": "7",
        "Partition": "gpu",
        "Submit": "2024-03-01T08:00:00",
        "Start": "2024-03-01T08:05:00",
        "End": "2024-03-01T09:05:00",
        "ElapsedRaw": "3600",
        "ReqTRES": "",
        "AllocTRES": "cpu=8,gres/gpu=2",
        "NCPUS": "8",
        "NNodes": "1",
        "State": "COMPLETED",
    }
    return "|".join((good | cells).values()) + "\n"


BAD = {
    row(Start="Unknown", ElapsedRaw="0", State="PENDING"): "never started (PENDING)",
    row(Start="None", ElapsedRaw="0", State="CANCELLED by 1000"): "never started (CANCELLED)",
    row(End="Unknown", State="RUNNING"): "still running",
    row(ElapsedRaw="0"): "ElapsedRaw is 0",
    row(Submit="Unknown"): "Submit is 'Unknown'",
    row(AllocTRES="", NCPUS="0"): "neither CPUs nor GPUs",
    row(AllocTRES="cpu=8,mem=lots"): "memory is 'lots'",
    row(AllocTRES="cpu=8,mem=99P"): "more than 8 TiB",
    row(AllocTRES="cpu=eight"): "CPUs is 'eight'",
    row(Partition="a|b"): "wrong number of columns",
}


@pytest.mark.parametrize("bad", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, bad):
    """After the export's seven lines."""
    workload = traces.slurm(written(tmp_path, EXPORT + bad))
    assert [skip.line for skip in workload.skipped] == [8] and BAD[bad] in workload.skipped[0].reason
    assert len(workload) == 4


def test_a_requeued_job_appears_twice_under_two_ids(tmp_path):
    """sacct --duplicates repeats the number; the second gets its line."""
    assert sorted(jobs(written(tmp_path, HEADER + row() + row()))) == ["slurm-7", "slurm-7#3"]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", ("trace.empty",)),
        ("JobID,Submit\n1,2\n", ("trace.column", "'jobid'")),
        ("JobID|Submit\n1|x\n", ("trace.column",)),
    ],
)
def test_a_wrong_export_is_one_line_with_the_command_that_makes_a_right_one(tmp_path, text, refusal):
    """Empty, commas instead of bars, no column that tells a duration."""
    path = written(tmp_path, text)
    with refused(*refusal, path, "sacct --allusers"):
        traces.slurm(path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04", 184), ("00:01.5", 1)]
)
def test_elapsed_times(text, seconds):
    """Days, hours, minutes, seconds; fractions are dropped."""
    assert elapsed(text) == seconds


@pytest.mark.parametrize("text", ["", "later", "5", "1-2-3"])
def test_other_times_are_not_taken(text):
    """A bare number could be anything."""
    with pytest.raises(Unmappable):
        elapsed(text)


LIMITS = "JobID|User|Submit|ElapsedRaw|Timelimit|NCPUS|State\n"


def test_a_job_states_its_limit_and_takes_what_elapsed(tmp_path):
    """Two hours asked, half an hour taken: 12 slots stated, a quarter of them true. Killed at its limit of an hour, 20
    seconds late: all of 6. Without a limit, or with its partition's: what it took, three slots, and the note counts them."""
    cells = {
        "1": "ann|2024-03-01T00:00:00|1800|02:00:00|1|COMPLETED",
        "2": "bob|2024-03-01T00:00:00|3620|01:00:00|1|TIMEOUT",
        "3": "bob|2024-03-01T00:00:00|1800|UNLIMITED|1|COMPLETED",
        "4": "|2024-03-01T00:00:00|1800|Partition_Limit|1|COMPLETED",
        "5": "|2024-03-01T00:00:00|1800|1-00:00:00|1|CANCELLED by 7",
    }
    path = written(tmp_path, LIMITS + "".join(f"{id}|{rest}\n" for id, rest in cells.items()))
    found = jobs(path)
    told = {id: (job.user, job.work / job.rate(1, together=True), job.actual) for id, job in found.items()}
    assert told == {
        "slurm-1": ("ann", 12.0, 0.25),
        "slurm-2": ("bob", 6.0, 1.0),
        "slurm-3": ("bob", 3.0, 1.0),
        "slurm-4": ("", 3.0, 1.0),
        "slurm-5": ("", 144.0, pytest.approx(1 / 48)),
    }
    assert "2 of 5 jobs have no Timelimit" in traces.slurm(path).note


def test_minutes_of_a_limit_go_before_its_text(tmp_path):
    """TimelimitRaw is in minutes: 120 are 12 slots."""
    text = "JobID|Submit|ElapsedRaw|TimelimitRaw|Timelimit|NCPUS\n9|2024-03-01T00:00:00|1800|120|whatever|1\n"
    job = jobs(written(tmp_path, text))["slurm-9"]
    assert (job.work, job.actual) == (12.0, 0.25)


@pytest.mark.parametrize("limit", ["soon", "00:00", "9000-00:00:00"])
def test_a_limit_that_is_no_time_is_counted_with_its_line(tmp_path, limit):
    """Beside a good row: words, none at all, and more than twenty years."""
    rest = "2024-03-01T00:00:00|1800|{}|1|COMPLETED\n"
    workload = traces.slurm(written(tmp_path, LIMITS + "1|a|" + rest.format("01:00:00") + "2|a|" + rest.format(limit)))
    assert len(workload) == 1 and [skip.line for skip in workload.skipped] == [3]
    assert "Timelimit is" in workload.skipped[0].reason
