"""Philly's table becomes jobs that take, at the width they asked for, exactly the time they took."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime
from pathlib import Path

import pytest

from equipoise.place import traces
from equipoise.place.job import Job, Sigmoid, Unstated, Workload
from equipoise.place.scene import read_scene
from equipoise.place.spec import SceneSpec
from refusals import refused

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ROWS = (
    "2017-10-09 06:13:03,2951.0,1,2951.0,6214e9\n"
    "2017-10-08 23:59:59,600,8,4800,6214e9\n"
    "2017-10-09 00:00:00,1200.0,16,19200.0,ee9e8c\n"
)


def written(folder: Path, text: str, name: str = "philly.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def by_id(workload: Workload) -> dict[str, Job]:
    return {job.id: job for job in workload}


def slots(job: Job, gpus_per_machine: int = 8) -> float:
    """How long it takes at the width it asked for, on one machine where it fits."""
    assert job.requested is not None
    return job.work / job.rate(job.requested, together=job.requested <= gpus_per_machine)


@pytest.fixture(scope="session")
def table(shared_data: Path) -> Path:
    path = shared_data / "traces" / "philly" / "philly.csv"
    if not path.is_file():
        pytest.skip(f"no real trace: {path} is not there; set EQUIPOISE_DATA to the folder that holds traces/")
    return path


@pytest.fixture(scope="session")
def real(table: Path) -> Workload:
    return traces.philly(table, seed=7)


def test_three_rows_by_hand(tmp_path):
    """Slot 0 is midnight of the first day, October 8; 23:59:59 is its slot 143, midnight 144, 06:13:03 slot 181."""
    workload = traces.philly(written(tmp_path, HEADER + ROWS))
    assert [(job.id, job.arrival) for job in workload] == [("philly-3", 143), ("philly-4", 144), ("philly-2", 181)]
    assert (workload.start, workload.slot, workload.skipped) == ("2017-10-08T00:00:00", 600.0, ())
    assert [job.requested for job in workload] == [8, 16, 1]


def test_a_job_takes_the_time_it_took(tmp_path):
    """600 s of 8 GPUs is one slot on one machine; 1200 s of 16 is two slots across machines, and less on one."""
    jobs = by_id(traces.philly(written(tmp_path, HEADER + ROWS)))
    assert [slots(jobs[k]) for k in ("philly-2", "philly-3", "philly-4")] == pytest.approx([2951 / 600, 1, 2])
    assert jobs["philly-4"].work / jobs["philly-4"].rate(16, together=True) < 2
    assert jobs["philly-3"].work / jobs["philly-3"].rate(8, together=False) > 1


def test_how_many_gpus_a_machine_has_decides_what_ran_on_one(tmp_path):
    """With machines of 4 the job of 8 ran across machines: it takes its slot there."""
    job = by_id(traces.philly(written(tmp_path, HEADER + ROWS), gpus_per_machine=4))["philly-3"]
    assert job.work / job.rate(8, together=False) == pytest.approx(1)


def test_workers_are_those_of_the_specification(tmp_path):
    """1 GPU, 4 CPUs and 16 GiB, in milli-units, and no servers."""
    for job in traces.philly(written(tmp_path, HEADER + ROWS)):
        assert job.worker == {"gpu": 1000, "cpu": 4000, "memory": 16 * 2**30 * 1000}
        assert job.server is None


@pytest.mark.parametrize(("elasticity", "widest"), [(1, 8), (2, 16), (1.5, 12)])
def test_elasticity_widens_and_changes_neither_work_nor_worth(tmp_path, elasticity, widest):
    """A job may run wider than it asked for; what it has to do stays."""
    path = written(tmp_path, HEADER + ROWS)
    plain, wide = (by_id(traces.philly(path, elasticity=e))["philly-3"] for e in (1, elasticity))
    assert wide.widest == widest
    assert (wide.work, wide.utility, wide.requested) == (plain.work, plain.utility, 8)


def test_quoted_fields_carriage_returns_and_gzip_read_the_same(tmp_path):
    """The same rows, as a spreadsheet or an archive would hold them."""
    plain = traces.philly(written(tmp_path, HEADER + ROWS))
    quoted = "\r\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in (HEADER + ROWS).splitlines())
    packed = tmp_path / "philly.csv.gz"
    packed.write_bytes(gzip.compress((HEADER + ROWS).encode()))
    assert traces.philly(written(tmp_path, "\ufeff" + quoted, "quoted.csv")).jobs == plain.jobs
    assert traces.philly(packed).jobs == plain.jobs


BAD = {
    "2017-10-09 06:13:03,,1,0,a": "duration is missing",
    "2017-10-09 06:13:03,0,1,0,a": "duration is 0",
    "2017-10-09 06:13:03,-5,1,0,a": "duration is -5",
    "2017-10-09 06:13:03,nan,1,0,a": "duration is nan",
    "2017-10-09 06:13:03,1e12,1,0,a": "twenty years",
    "2017-10-09 06:13:03,soon,1,0,a": "duration is 'soon'",
    "2017-10-09 06:13:03,60,0,0,a": "num_gpus is 0",
    "2017-10-09 06:13:03,60,1.5,0,a": "num_gpus is 1.5",
    "2017-10-09 06:13:03,60,9999999,0,a": "num_gpus is 9999999",
    "2017-13-09 06:13:03,60,1,0,a": "timestamp is '2017-13-09",
    "0001-01-01 00:00:00,60,1,0,a": "year from 1990",
    ",60,1,0,a": "timestamp is ''",
    "2017-10-09 06:13:03,60,1": "wrong number of columns",
    "2017-10-09 06:13:03,60,1,60,a,b": "wrong number of columns",
    '2017-10-09 06:13:03,60,1,60,"a': "wrong number of columns",
}


@pytest.mark.parametrize("row", BAD)
def test_a_row_that_cannot_be_a_job_is_counted_with_its_line_and_reason(tmp_path, row):
    """Between two good rows, on line 3 of the file; the good rows stay, with the same draws."""
    first, second, *_ = ROWS.splitlines(keepends=True)
    workload = traces.philly(written(tmp_path, HEADER + first + row + "\n" + second))
    assert [skip.line for skip in workload.skipped] == [3]
    assert BAD[row] in workload.skipped[0].reason
    assert sorted(by_id(workload)) == ["philly-2", "philly-4"]


def test_a_row_more_changes_no_other_jobs_draws(tmp_path):
    """Draws belong to lines: utilities without size, and the profiles, stay when a row is added at the end."""
    given = {"sized_utility": False, "worth": "drawn"}
    both = [traces.philly(written(tmp_path, HEADER + text), **given) for text in (ROWS, ROWS + ROWS)]
    few, many = (by_id(workload) for workload in both)
    assert all(many[name] == job for name, job in few.items())


def test_the_seed_decides_worth_and_model_and_the_note_says_so(tmp_path):
    """The same seed gives the same jobs; another, other utilities for the same arrivals. Nothing is stated unless asked."""
    path = written(tmp_path, HEADER + ROWS)
    three, again, four = (traces.philly(path, seed=seed, worth="drawn") for seed in (3, 3, 4))
    assert three.jobs == again.jobs
    assert [j.utility for j in three] != [j.utility for j in four]
    assert "utilities synthesised, seed 3" in three.note
    bare = traces.philly(path, seed=3)
    assert {job.utility for job in bare} == {Unstated()} and "synthesised" not in bare.note
    assert [job.but(utility=Unstated()) for job in three] == [*bare]
    with refused("unknown", "'draw'"):
        traces.philly(path, worth="draw")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", ("trace.empty",)),
        ("a,b\n1,2\n", ("trace.column", "'timestamp'")),
        (HEADER, ("no_jobs",)),
        (HEADER + "x,1,1,1,a\n", ("no_jobs", "line 2", "'x'")),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path, text, refusal):
    """Empty, another table, a header alone, nothing but bad rows."""
    path = written(tmp_path, text)
    with refused(*refusal, path):
        traces.philly(path)


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "not gzip"])
def test_a_file_that_cannot_be_read_is_one_line_that_names_it(tmp_path, kind):
    """No file, a folder, bytes that are no text, a .gz that is none."""
    path = {"missing": tmp_path / "none.csv", "folder": tmp_path}.get(kind, tmp_path / "x.csv.gz")
    if kind == "binary":
        path = tmp_path / "x.csv"
        path.write_bytes(b"\xff\xfe\x00\x80" * 50)
    elif kind == "not gzip":
        path.write_text(HEADER + ROWS)
    with refused("file.missing" if kind == "missing" else "file.read", path, "Philly"):
        traces.philly(path)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"slot": "0s"}, "slot.range"),
        ({"slot": "soon"}, "quantity.form"),
        ({"seed": -1}, "number.whole"),
        ({"elasticity": 0.5}, "elasticity.range"),
        ({"gpus_per_machine": 0}, "number.whole"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(tmp_path, settings, code):
    """The message names the setting."""
    with refused(code, *settings):
        traces.philly(written(tmp_path, HEADER + ROWS), **settings)


def test_every_real_row_is_a_job(real, table):
    """55,645 rows, none skipped, each in the slot its timestamp says."""
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    start = datetime.fromisoformat(real.start)
    jobs = by_id(real)
    assert (len(real), len(rows), real.skipped) == (55645, 55645, ())
    for line, row in enumerate(rows, start=2):
        after = (datetime.fromisoformat(row["timestamp"]) - start).total_seconds()
        assert jobs[f"philly-{line}"].arrival == int(after // 600)


def test_no_gpu_time_is_lost(real, table):
    """What the jobs take at the width they asked for, times that width, is the table's own gpu_time."""
    with table.open(newline="") as file:
        told = sum(float(row["gpu_time"]) for row in csv.DictReader(file))
    assert sum(slots(job) * 600 * job.requested for job in real) == pytest.approx(told, rel=1e-9)


def test_934_jobs_run_over_288_slots_and_hold_two_thirds_of_the_gpu_time(real):
    """The spec's figure, 1.7% of jobs and 68% of GPU time, from the jobs."""
    spent = [(slots(job), slots(job) * job.requested) for job in real]
    long = [gpu for length, gpu in spent if length > 288 * (1 + 1e-9)]
    assert len(long) == 934
    assert sum(long) / sum(gpu for _, gpu in spent) == pytest.approx(0.677, abs=5e-4)


@pytest.mark.parametrize(("day", "count"), [("2017-10-23", 5353), ("2017-11-06", 4659), ("2017-11-20", 2225)])
def test_calendar_weeks_hold_the_specs_jobs(real, day, count):
    """The weeks of the spec's table, after the horizon rule, cut out by whole days from slot 0."""
    first = (datetime.fromisoformat(day) - datetime.fromisoformat(real.start)).days * 144
    week = real.between(first, first + 7 * 144)
    assert sum(slots(job) <= 288 * (1 + 1e-9) for job in week) == count


def test_a_run_states_nothing_of_a_trace_unless_its_settings_say_so(tmp_path):
    """Today nothing is stated; a config.yaml of 0.1.0, which has no version, drew utilities, and still does."""
    path = written(tmp_path, HEADER + ROWS)
    spec = SceneSpec(jobs=str(path), machines=2)
    (tmp_path / "new.yaml").write_text(spec.to_yaml())
    (tmp_path / "old.yaml").write_text(f"jobs: {path}\nmachines: 2\n")
    kinds = []
    for name in ("new.yaml", "old.yaml"):
        jobs = read_scene(SceneSpec.from_yaml(tmp_path / name), history=False).jobs
        kinds.append({type(job.utility) for job in jobs})
    assert kinds == [{Unstated}, {Sigmoid}]
    with refused("input", "--no-sized-utility", "--worth drawn"):
        read_scene(SceneSpec(jobs=str(path), machines=2, sized_utility=False), history=False)
