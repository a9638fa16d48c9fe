"""A run for other programs: rows and runs that give the schedule back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from equipoise.place import placers, prices
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Workload
from equipoise.place.schedule import allocations_csv, runs, to_json
from equipoise.place.simulate import simulate
from equipoise.place.traces import synthetic, synthetic_cluster
from refusals import refused


def job(name: str, work: float, width: int, **more: object) -> Job:
    given = {"arrival": 0, "worker": {"gpu": 1}, "utility": Linear(100.0, 1000.0)} | more
    return Job(id=name, work=work, batch=width, time_per_sample=1.0, requested=width, **given)


CLUSTER = Cluster((Machine({"gpu": 4}, 2, "node"),))
FREE = placers.PDORS(prices=prices.Fixed())


@pytest.fixture(scope="module")
def crowded():
    """Many resizes and moves: DRF changes widths with every arrival."""
    return simulate(synthetic_cluster(3), synthetic(20, seed=5, slots=12, small=True), placers.DRF(), slots=12)


def test_allocations_by_hand(tmp_path):
    """Ten-minute slots, a job of 8 on one machine in slots 6 and 7: the second starts 70 minutes after slot 0."""
    jobs = Workload((job("a", 8, 4, arrival=6),), slot=600.0)
    allocations_csv(simulate(CLUSTER, jobs, placers.FIFO(), slots=10), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "job,slot,start_hours,machine,workers,servers\na,6,1,node-0,4,0\na,7,1.166666667,node-0,4,0\n"
    )


def test_allocations_hold_the_schedule(crowded, tmp_path):
    """Read back by ids and names, every row is there once."""
    allocations_csv(crowded, tmp_path / "all.csv")
    ids, names = [one.id for one in crowded.jobs], crowded.cluster.names
    with (tmp_path / "all.csv").open(newline="") as stream:
        rows = [
            [ids.index(r["job"]), int(r["slot"]), names.index(r["machine"]), int(r["workers"]), int(r["servers"])]
            for r in csv.DictReader(stream)
        ]
    assert rows == crowded.schedule.tolist()


def test_runs_by_hand():
    """Slots 0-1 and 3 at the same width are two runs, a new width another; machines are apart."""
    rows = [[0, 0, 1, 2, 1], [0, 1, 1, 2, 1], [0, 1, 2, 2, 1], [0, 3, 1, 2, 1], [0, 4, 1, 3, 1], [1, 5, 1, 3, 1]]
    assert runs(np.array(rows, np.int32)).tolist() == [
        [0, 1, 0, 1, 2, 1],
        [0, 2, 1, 1, 2, 1],
        [0, 1, 3, 3, 2, 1],
        [0, 1, 4, 4, 3, 1],
        [1, 1, 5, 5, 3, 1],
    ]
    assert runs(np.empty((0, 5), np.int32)).shape == (0, 6)


def test_runs_give_the_schedule_back(crowded):
    """Written out slot by slot, they are its rows; and there are fewer of them."""
    short = runs(crowded.schedule)
    rows = [[j, t, h, w, s] for j, h, first, last, w, s in short.tolist() for t in range(first, last + 1)]
    assert sorted(rows) == sorted(crowded.schedule.tolist())
    assert len(short) < len(crowded.schedule)


def test_json_by_hand():
    """One that finishes, one that is refused: states, reasons, worth and the schedule, in plain values."""
    jobs = [job("a", 12, 4), job("b", 800, 4, utility=Deadline(5.0, 9.0))]
    out = to_json(simulate(CLUSTER, jobs, FREE, slots=10))
    assert json.loads(json.dumps(out)) == out
    assert (out["machines"], out["completed"], out["slot_seconds"]) == (["node-0", "node-1"], 1, 3600.0)
    a, b = out["jobs"]
    assert (a["state"], a["reason"], a["finish"], a["utility"]) == ("admitted", "", 2, pytest.approx(99.8))
    assert (b["state"], b["reason"], b["finish"], b["utility"]) == ("refused", "beyond_horizon", None, 0.0)
    assert b["decisions"] == [
        {"slot": 0, "state": "refused", "reason": "beyond_horizon", "worth": 0.0, "cost": 0.0, "due": None}
    ]
    (run,) = out["schedule"]
    assert (run["job"], run["first"], run["last"], run["workers"], run["servers"]) == ("a", 0, 2, 4, 0)
    assert run["machine"] in out["machines"]


def test_machines_of_one_name_are_refused(tmp_path):
    """node-1 of a type of two, and a type called so: names would not tell them apart."""
    cluster = Cluster((Machine({"gpu": 4}, 2, "node"), Machine({"gpu": 4}, 1, "node-1")))
    result = simulate(cluster, [job("a", 4, 4)], FREE, slots=5)
    for write in (to_json, lambda r: allocations_csv(r, tmp_path / "x.csv")):
        with refused("machine.twice", "'node-1'"):
            write(result)
