"""A shadow: an export that grows becomes jobs of the service, once each, in their own slots; and the two are compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from live import live

from equipoise.place import Cluster, Machine
from equipoise.place.job import Ran
from equipoise.serve.client import Client
from equipoise.serve.models import EventRecord
from equipoise.serve.shadow import Fate, Report, Shadow, Traced
from refusals import refused

CLUSTER = Cluster((Machine({"gpu": 4, "cpu": 32, "memory": "128Gi"}, 1, "box"),))
HEADER = "JobID|Submit|Start|End|ElapsedRaw|AllocTRES|State\n"
SLOT = 600.0
MIDNIGHT = 1709251200.0  # 2024-03-01 00:00 UTC, by `date -d`


def row(id: int | str, submit: str, start: str, end: str, gpus: int = 1, state: str = "COMPLETED") -> str:
    """A line of sacct, times of 2024-03-01 as 08:00; its jobs have 2 CPUs and 4 GiB a GPU."""
    day = "2024-03-01T"
    hours = [int(t[:2]) * 3600 + int(t[3:]) * 60 for t in (start, end)]
    tres = f"cpu={2 * gpus},gres/gpu={gpus},mem={4 * gpus}G,node=1"
    return f"{id}|{day}{submit}:00|{day}{start}:00|{day}{end}:00|{hours[1] - hours[0]}|{tres}|{state}\n"


EXPORT = (
    HEADER
    + row(1, "08:00", "08:20", "09:20")
    + row(2, "08:00", "08:00", "09:00", gpus=2)
    + row("2.batch", "08:00", "08:00", "09:00")
    + row(3, "08:35", "10:00", "10:20", gpus=4)
    + row(4, "09:00", "09:00", "09:00")  # took no time: no job
    + row(5, "09:10", "09:20", "09:50", state="RUNNING")
)


def written(folder: Path, text: str) -> Path:
    path = folder / "sacct.txt"
    path.write_text(text)
    return path


def traced(path: Path, **settings: bool) -> Traced:
    return Traced(path, "sacct", SLOT, **settings)


# The file.


def test_a_half_written_last_line_waits_for_its_end(tmp_path):
    """Cut in the middle of job 2 there is one job; with the rest of the line, two."""
    path = written(tmp_path, HEADER + row(1, "08:00", "08:20", "09:20") + row(2, "08:00", "08:00", "09:00")[:40])
    file = traced(path, follow=True)
    first = file.read()
    assert first is not None and [job.id for job in first.jobs] == ["slurm-1"] and not first.jobs.skipped
    assert file.read() is None, "nothing new"
    with path.open("a") as end:
        end.write(row(2, "08:00", "08:00", "09:00")[40:])
    second = file.read()
    assert second is not None and [job.id for job in second.jobs] == ["slurm-1", "slurm-2"]
    assert file.rewritten == 0


@pytest.mark.parametrize("text", ["", "JobID|Sub", HEADER, HEADER + row(5, "09:10", "09:20", "09:50", state="RUNNING")])
def test_a_file_in_which_nothing_has_ended_yet_is_waited_for(tmp_path, text):
    """Empty, half a header, a header, one job that still runs."""
    assert traced(written(tmp_path, text), follow=True).read() is None


def test_a_file_that_is_no_export_is_one_line_that_names_it(tmp_path):
    """The file's own path, not that of a copy."""
    path = written(tmp_path, "a,b\n1,2\n")
    with refused("trace.column", "'jobid'") as caught:
        traced(path, follow=True).read()
    assert str(caught.value).startswith(f"{path}:")


def test_a_file_that_was_cut_replaced_or_changed_is_noticed(tmp_path):
    """Appending is no change of what was there. Cutting, replacing by another file and a changed line each are one."""
    path = written(tmp_path, EXPORT)
    file = traced(path, follow=True)
    file.read()
    with path.open("a") as end:
        end.write(row(6, "09:10", "09:20", "09:50"))
    file.read()
    assert file.rewritten == 0
    path.write_text(HEADER + row(7, "11:00", "11:00", "12:00"))
    found = file.read()
    assert file.rewritten == 1 and found is not None and [job.id for job in found.jobs] == ["slurm-7"]
    path.rename(tmp_path / "sacct.txt.1")
    assert file.read() is None, "away for a moment"
    path.write_text(HEADER + row(8, "12:00", "12:00", "13:00"))
    file.read()
    path.write_text(HEADER + row(8, "12:00", "12:00", "13:30"))
    os.utime(path, ns=(1, 1))
    file.read()
    assert file.rewritten == 3


def test_what_a_job_is_worth_does_not_depend_on_the_rest_of_the_file(tmp_path):
    """Job 1 alone, and with jobs of another size after it: the same job."""
    alone = traced(written(tmp_path, HEADER + row(1, "08:00", "08:20", "09:20"))).read()
    among = traced(written(tmp_path, EXPORT)).read()
    assert alone is not None and among is not None and alone.jobs[0] == among.jobs[0]


def test_what_really_happened_is_read_beside(tmp_path):
    """Job 1 waited 20 minutes and ran an hour; steps and skipped rows are no jobs."""
    reading = traced(written(tmp_path, EXPORT)).read()
    assert reading is not None and reading.zero == MIDNIGHT
    eight = MIDNIGHT + 8 * 3600
    assert reading.real["slurm-1"] == Ran(eight, eight + 1200, eight + 4800)
    assert set(reading.real) == {"slurm-1", "slurm-2", "slurm-3"} and len(reading.jobs.skipped) == 2


def test_the_second_of_two_rows_with_one_id_is_the_one_that_counts_when_the_first_is_none(tmp_path):
    """Requeued: the first row is still running, so that the second is slurm-5, and its times are the second's."""
    reading = traced(written(tmp_path, EXPORT + row(5, "09:10", "11:00", "12:00"))).read()
    assert reading is not None and reading.real["slurm-5"].start == MIDNIGHT + 11 * 3600


def test_waits_of_the_standard_workload_format_and_of_alibaba(tmp_path):
    """SWF: submitted at 100, waited 50, ran 600. Alibaba: created at 10, scheduled at 40, deleted at 640."""
    path = tmp_path / "a.swf"
    path.write_text("; UnixStartTime: 0\n1 100 50 600 4 -1 -1 4 -1 -1 1 1 1 1 1 -1 -1 -1\n")
    swf = Traced(path, "swf", SLOT).read()
    pods = tmp_path / "pods.csv"
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    pods.write_text(head + "p,1000,1024,1,500,,LS,Succeeded,10,640,40\n")
    alibaba = Traced(pods, "alibaba", SLOT).read()
    assert swf is not None and swf.real == {"swf-2": Ran(100, 150, 750)}
    assert alibaba is not None and alibaba.real == {"p": Ran(10, 40, 640)}


def test_a_compressed_file_cannot_be_followed(tmp_path):
    """It does not grow line by line."""
    with refused("shadow.compressed", "sacct.txt.gz"):
        traced(tmp_path / "sacct.txt.gz", follow=True)


# What the log tells of a job.


def test_a_job_starts_in_the_first_slot_of_the_plan_it_had_when_that_slot_came():
    """Planned for slot 9, in slot 5 moved to 7, in slot 8 (it runs) given other cells: it started in 7."""
    fate = Fate("a", 5)
    for slot, first in ((5, 9), (5, 7), (8, 8)):
        fate.decided(
            EventRecord(slot=slot, data={"state": "admitted", "cells": [[first + 1, 0, 1, 0], [first, 0, 1, 0]]})
        )
    assert (fate.start, fate.state) == (7, "admitted")
    fate = Fate("b", 5)
    fate.decided(EventRecord(slot=5, data={"state": "pending", "cells": []}))
    assert fate.start is None


# With a service.


@pytest.fixture
def service(tmp_path) -> Iterator[Client]:
    with live(tmp_path, cluster=CLUSTER, slot_seconds=SLOT, horizon=168) as running, Client(running.address) as client:
        yield client


def fed(client: Client, path: Path) -> Shadow:
    shadow = Shadow(client)
    reading = traced(path).read()
    assert reading is not None
    shadow.feed(reading)
    return shadow


def submitted(client: Client) -> dict[str, int]:
    return {job.name: job.submitted for job in client.jobs()}


def test_jobs_are_submitted_in_the_slots_they_arrived_in(service, tmp_path):
    """Midnight is slot 0, so 08:00 is slot 48 and 08:35 is in slot 51."""
    fed(service, written(tmp_path, EXPORT))
    assert submitted(service) == {"slurm-1": 48, "slurm-2": 48, "slurm-3": 51}
    assert service.cluster().now == 51


def test_a_shadow_started_again_doubles_nothing_and_goes_on(service, tmp_path):
    """Again with the same file, then with a row more, then with a file that begins a day later: slot 0 stays."""
    fed(service, written(tmp_path, EXPORT))
    assert fed(service, written(tmp_path, EXPORT)).report().fed == 3
    assert len(submitted(service)) == 3
    later = fed(service, written(tmp_path, EXPORT + row(6, "09:00", "09:00", "10:00")))
    assert (later.report().before, submitted(service)["slurm-6"]) == (3, 54)
    fed(service, written(tmp_path, HEADER + row(7, "01:00", "01:00", "02:00").replace("03-01", "03-02")))
    assert submitted(service)["slurm-7"] == 144 + 6


def test_rows_out_of_order_are_fed_late_and_counted_and_a_lag_waits_for_them(service, tmp_path):
    """A row of 08:10 comes after the clock is in 08:30. With two slots' lag the newest is held back instead."""
    path = written(tmp_path, HEADER + row(1, "08:00", "08:00", "09:00") + row(2, "08:30", "08:30", "09:00"))
    file, shadow = traced(path, follow=True), Shadow(service)
    first = file.read()
    assert first is not None and shadow.feed(first, lag=2) == 1 and shadow.held_back == 1
    with path.open("a") as end:
        end.write(row(3, "08:10", "08:10", "08:40"))
    second = file.read()
    assert second is not None and shadow.feed(second, lag=2) == 1 and shadow.late == 0
    assert submitted(service) == {"slurm-1": 48, "slurm-3": 49}
    shadow.feed(second)
    with path.open("a") as end:
        end.write(row(4, "08:20", "08:20", "08:40"))
    third = file.read()
    assert third is not None and shadow.feed(third) == 1 and shadow.late == 1
    assert submitted(service)["slurm-4"] == 51


def test_a_job_the_service_turns_away_is_counted_by_reason_and_the_rest_goes_on(service, tmp_path):
    """The machines have no resource of that name."""
    reading = traced(written(tmp_path, EXPORT)).read()
    assert reading is not None
    strange = [job.but(worker={"tpu": 1}) if job.id == "slurm-2" else job for job in reading.jobs]
    shadow = Shadow(service)
    shadow.feed(replace(reading, jobs=replace(reading.jobs, jobs=tuple(strange))))
    report = shadow.report()
    assert report.fed == 2 and sum(report.rejected.values()) == 1 and "unknown resource" in next(iter(report.rejected))


def test_the_report_by_hand(service, tmp_path):
    """One machine of 4 GPUs. A (1 GPU, an hour) and B (2 GPUs) can start at once, where really A waited 20 minutes.

    With the clock moved on to 09:30 all is over: ours held 3 GPUs for 6 of 9 slots, half of 4 GPUs; the real cluster
    held 1 GPU from 08:20 to 09:20 and 2 from 08:00 to 09:00, which is as much.
    """
    path = written(tmp_path, HEADER + row(1, "08:00", "08:20", "09:20") + row(2, "08:00", "08:00", "09:00", gpus=2))
    shadow = fed(service, path)
    shadow.move(57)
    report = shadow.report()
    assert (report.first, report.now, report.states) == (48, 57, {"finished": 2})
    assert report.waits is not None
    assert (report.waits.jobs, report.waits.ours, report.waits.real, report.waits.real_median) == (2, 0, 600, 600)
    assert report.utilisation["gpu"].ours == pytest.approx(0.5, abs=1e-6)
    assert report.utilisation["gpu"].real == pytest.approx(0.5)
    assert set(Report(**report.as_dict()).as_dict()) == set(report.as_dict())


def test_a_service_with_jobs_of_others_is_no_place_for_a_shadow(service):
    """Its clock would be moved under them."""
    service.submit({"name": "mine", "worker": {"gpu": 1}, "workers": 1, "duration": "1h"})
    with refused("shadow.jobs"):
        Shadow(service)


def test_real_jobs_go_through(service, shared_data, tmp_path):
    """150 rows of the Philly trace, in slots of ten minutes: each is decided, none is lost."""
    with (shared_data / "traces" / "philly" / "philly.csv").open() as whole:
        rows = [next(whole) for _ in range(151)]
    path = tmp_path / "philly.csv"
    path.write_text("".join(rows))
    reading = Traced(path, "philly", SLOT).read()
    assert reading is not None
    shadow = Shadow(service)
    shadow.feed(reading)
    report = shadow.report()
    assert report.fed == 150 == sum(report.states.values()) and report.late == 0
    assert report.waits is None, "this table does not say when jobs started"
    assert 0 < report.utilisation["gpu"].ours <= 1
