"""pandas frames: results and their inputs as rows, and inputs back from them."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from equipoise.place import Cluster, Deadline, Job, Linear, Machine, Sigmoid, Workload as Jobs
from equipoise.share import Curve, Site, Task, Workload, policies, simulate
from refusals import refused

TASKS = [
    Task(arrival=0, deadline=40, data=20.0, target=0.2),
    Task(arrival=3, deadline=30, data=10.5, target=0.15, curve=Curve(a=0.9, b=0.4, floor=0.05), delay=2, sigma=0.01),
]
RECORDED = Task(arrival=1, deadline=9, data=5.0, target=0.3, curve=Curve.recorded([1, 10, 100], [0.9, 0.5, 0.2]))
CLUSTER = Cluster(
    (Machine({"gpu": 8, "cpu": 64, "memory": "512Gi"}, count=3, name="v100"), Machine({"cpu": 32}, name="thin")),
    inside="20Gbps",
)
JOBS = Jobs(
    (
        Job("17", 0, 1e5, 64, 1e-5, {"gpu": 1, "cpu": "500m"}, Sigmoid(80, 0.5, 6), tags={"team": "vision"}),
        Job(
            "b",
            2,
            3e5,
            32,
            2e-5,
            {"gpu": 2},
            Deadline(10, 12),
            server={"cpu": 4, "memory": "1Gi"},
            gradient=4e8,
            workers_per_server=2,
            inside=1e12,
            between=4.5e11,
            requested=4,
            most=8,
            restart=0.1,
            actual=1.2,
        ),
        Job("c", 2, 7.0, 8, 1.0, {"cpu": 1}, Linear(3, 9)),
    ),
    slot=600.0,
    note="by hand",
    start="2026-01-01T00:00:00",
)


def test_tasks_go_to_a_frame_and_back():
    """Given by hand, with laws and with a recorded curve: equal tasks, and a frame of plain columns."""
    frame = Workload.of(TASKS).to_frame()
    assert frame["deadline"].tolist() == [40, 30] and frame["floor"].tolist() == [0.0, 0.05]
    assert Workload.from_frame(frame).tasks == tuple(TASKS)
    assert Workload.from_frame(Workload.of([RECORDED, *TASKS]).to_frame()).tasks == (RECORDED, *TASKS)
    few = pd.DataFrame([{"arrival": 0, "deadline": 5, "data": 1, "target": 0.5}])
    assert Workload.from_frame(few, sigma=0.0).tasks == (Task(0, 5, 1, 0.5),)


def test_numbers_of_a_law_may_be_text():
    """As a file read without types has them; other text is refused."""
    row = {"arrival": 0, "deadline": 5, "data": 1, "target": 0.5, "a": "2", "b": "0.5", "floor": "0"}
    (task,) = Workload.from_frame(pd.DataFrame([row])).tasks
    assert task == Task(0, 5, 1.0, 0.5, Curve(2.0, 0.5, 0.0))
    with refused("number.form", "row 0", "'many'"):
        Workload.from_frame(pd.DataFrame([row | {"a": "many"}]))


def test_the_first_unknown_column_of_tasks_is_named():
    """In the order of the frame."""
    unknown = {f"extra{k}": 0 for k in range(8)}
    with refused("unknown", "'extra0'"):
        Workload.from_frame(pd.DataFrame([{"arrival": 0, "deadline": 5, "data": 1, "target": 0.5} | unknown]))


def test_drawn_tasks_are_a_frame_that_plays_the_same():
    """The tasks of one seed, put in a frame and given back, end as the drawn ones did; no noise, so nothing is left open."""
    drawn, site = Workload.described(sigma=0.0), Site(jitter=0.0)
    frame = drawn.to_frame(load=12, seeds=[5], site=site)
    assert len(frame) == 12 and set(frame["seed"]) == {5}
    given = Workload.from_frame(frame)
    one = simulate(policies.SDF(), drawn, load=12, seeds=[5], site=site)
    other = simulate(policies.SDF(), given, seeds=[5], site=site)
    assert one.done_at.tolist() == other.done_at.tolist()


@pytest.mark.parametrize(
    ("frame", "refusal"),
    [
        (pd.DataFrame({"arrival": [0]}), ("frame.column", "'deadline'")),
        (
            pd.DataFrame({"arrival": [0], "deadline": [5], "data": [1.0], "target": [0.5], "dada": [1]}),
            ("unknown", "'data'"),
        ),
        (
            pd.DataFrame({"arrival": [0, 0], "deadline": [5, None], "data": 1.0, "target": 0.5}),
            ("task.missing", "row 1", "deadline"),
        ),
        (
            pd.DataFrame({"arrival": [7], "deadline": [5], "data": [1.0], "target": [0.5]}),
            ("task.deadline", "row 0", 5),
        ),
        (pd.DataFrame({"seed": [0, 1], "arrival": 0, "deadline": 5, "data": 1.0, "target": 0.5}), ("frame.seeds",)),
        ([{"arrival": 0}], ("frame.type", "DataFrame")),
    ],
)
def test_a_frame_that_cannot_be_tasks_is_refused(frame, refusal):
    """The row and the column are named."""
    with refused(*refusal):
        Workload.from_frame(frame)


def test_recorded_curves_are_no_columns():
    """A recording is saved as such."""
    with refused("frame.curves", "Recording.save"):
        Workload.recorded().to_frame()


def test_jobs_and_machines_go_to_a_frame_and_back():
    """Equal jobs and an equal cluster, through frames and through frames that went through CSV text."""
    machines, frame = CLUSTER.to_frame(), JOBS.to_frame()
    assert machines["memory"].tolist()[0] == "512Gi" and frame["worker.gpu"].tolist()[:2] == [1, 2]
    assert Cluster.from_frame(machines) == CLUSTER
    back = Jobs.from_frame(frame, CLUSTER)
    assert (back.jobs, back.slot, back.note, back.start) == (JOBS.jobs, 600.0, "by hand", "2026-01-01T00:00:00")


def test_a_frame_is_read_as_a_csv_of_the_same_columns(tmp_path):
    """What pandas reads from the file of `write_jobs` is what our own reader reads; the slot is said beside it."""
    from equipoise.place.files import read_jobs, write_jobs

    write_jobs(JOBS, tmp_path / "jobs.csv")
    frame = pd.read_csv(tmp_path / "jobs.csv", comment="#", dtype={"id": str})
    assert Jobs.from_frame(frame, CLUSTER, slot="10m").jobs == read_jobs(tmp_path / "jobs.csv", CLUSTER).jobs


def test_a_row_that_cannot_be_a_job_is_named():
    """Row, job, and what is missing or unknown."""
    frame = JOBS.to_frame()
    with refused("job.missing", "row 0", "'17'"):
        Jobs.from_frame(frame.drop(columns="batch"), CLUSTER)
    with refused("unknown", "row 0", "'wrk'"):
        Jobs.from_frame(frame.assign(wrk=1), CLUSTER)
    with refused("quantity.form", "row 1", "'thin'"):
        Cluster.from_frame(CLUSTER.to_frame().assign(gpu=[8, "many"]))
    with refused("slot.range", "slot"):
        Jobs.from_frame(frame, CLUSTER, slot=0)


def test_bandwidths_given_go_before_those_of_the_frame():
    """In bits, of a frame that says nothing and of one that does."""
    assert Cluster.from_frame(CLUSTER.to_frame(), between="8Gbps").between == 1e9
    assert Cluster.from_frame(pd.DataFrame([{"gpu": 4}]), inside="8Gbps").inside == 1e9


def test_without_pandas_the_extra_is_named(monkeypatch):
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("library.missing", "'equipoise[pandas]'"):
        CLUSTER.to_frame()


def test_results_are_frames():
    """A traced run: a row per seed, and a row per task whose states add up to the run's own successes."""
    run = simulate(policies.SDF(), load=8, seeds=3, trace=True)
    frame, tasks = run.to_frame(), run.to_frame("tasks")
    assert frame["successes"].tolist() == run.successes.tolist()
    assert (tasks["state"] == "done").groupby(tasks["seed"]).sum().tolist() == run.successes.tolist()
    assert np.nansum(tasks["done_at"]) == run.done_at[run.done_at >= 0].sum()
    steps = run.to_frame("steps")
    per_step = run.trace.compute.sum(axis=2) / run.site.capacity * 100
    assert pytest.approx(per_step) == steps["compute"].to_numpy().reshape(3, -1).T
    with refused("unknown", "'tasks'"):
        run.to_frame("task")
