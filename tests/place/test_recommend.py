"""Which policy is recommended: the rule by hand, and that it sees the past alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.errors import InputError
from equipoise.place import Cluster, Deadline, Job, Machine, PlaceSpec, SweepSpec, Workload, placers, write_jobs
from equipoise.place.execution import Execution
from equipoise.place.recommend import candidates, parts, ranked, recommend
from equipoise.place.slowdown import DEADLINES, NOTHING
from refusals import refused

ONE_GPU = Cluster((Machine({"gpu": 1}),))


def row(slowdown: float, utility: float, done: int, soon: int, promised: int = 0, broken: int = 0) -> dict[str, Any]:
    told = {"mean_slowdown": slowdown, "utility": utility, "completed": done, "in_time": soon}
    return told | {"promised_on_arrival": promised, "broken_by_us": broken}


@pytest.mark.parametrize(
    ("nothing", "rows", "first"),
    [
        (True, {"a": row(2.0, 50, 9, 9), "b": row(1.9, 10, 5, 5)}, "b"),  # the least slowdown, whatever was earned
        (False, {"a": row(2.0, 50, 5, 5), "b": row(1.9, 10, 9, 9)}, "a"),  # the most utility, whatever was done
        (True, {"a": row(2.0, 0, 8, 9), "b": row(2.01, 0, 9, 1)}, "b"),  # within 1 %: most done
        (True, {"a": row(2.0, 0, 8, 9), "b": row(2.03, 0, 9, 9)}, "a"),  # not within 1 %
        (False, {"a": row(1, 100, 8, 6), "b": row(1, 99.5, 8, 7)}, "b"),  # then most in time
        (False, {"a": row(1, 100, 8, 6, 2), "b": row(1, 99.5, 8, 6, 3)}, "b"),  # then most promised on arrival
        (False, {"a": row(1, 100, 8, 6, broken=1), "b": row(1, 50, 8, 6)}, "b"),  # who breaks promises is out
    ],
)
def test_the_rule(nothing: bool, rows: dict[str, Any], first: str) -> None:
    assert ranked(rows, nothing)[0] == first


def jobs(count: int, long: float = 4.0, **more: Any) -> Workload:
    """On one GPU, by turns a long job and a short one, at once."""
    works = [(long, 1.0)[k % 2] for k in range(count)]
    return Workload(tuple(Job(f"j{k}", 6 * (k // 2), work, 1, 1.0, {"gpu": 1}, **more) for k, work in enumerate(works)))


class Refuses:
    """A placer that cannot run here."""

    label, colour = "Refuses", "#123456"

    def start(self, run: Execution, seed: int) -> Any:
        raise InputError("not on this cluster")


def test_the_best_for_the_past_is_recommended_and_who_cannot_run_is_left_out() -> None:
    """FIFO makes every short job wait 4 slots: slowdowns 1 and 5; SRTF 5 / 4 and 1."""
    given = {"fifo": placers.FIFO(), "no": Refuses(), "srtf": placers.SRTF()}
    found = recommend(ONE_GPU, jobs(6), given, horizon=20)
    assert (found.name, found.label) == ("srtf", "SRTF")
    assert [one["mean_slowdown"] for one in found.rows] == pytest.approx([3.0, 1.125])
    for words in ("SRTF: on 6 past jobs", "1.12", "FIFO 3", "cannot run here: Refuses"):
        assert words in found.why
    assert found.unable == {"Refuses": "not on this cluster"}
    with refused("policies.none"):
        recommend(ONE_GPU, jobs(6), {"no": Refuses()}, horizon=20)


def test_deadlines_decide_where_they_are_stated() -> None:
    """Worth 1 within 4 slots: FIFO meets the long ones, SRTF the short ones and no long one; worth 9 for those of FIFO."""
    past = jobs(6, utility=Deadline(1, 3))
    worth = past.jobs[0].but(utility=Deadline(9, 3)), *past.jobs[1:]
    found = recommend(ONE_GPU, Workload(worth), {"srtf": placers.SRTF(), "fifo": placers.FIFO()}, horizon=20)
    assert found.name == "fifo"


def test_the_busiest_stretch_is_replayed_and_a_tenth_of_it_calibrated_on() -> None:
    """Of 2,000 jobs, two every 6 slots, those of slots 1200 to 2399 come twice as fast: 800 of them, and 200 around."""
    slow = jobs(2000)
    past = Workload(
        tuple(job.but(arrival=(job.arrival + 1200) // 2 if 1200 <= job.arrival < 3600 else job.arrival) for job in slow)
    )
    (early,), (late,) = parts([past])
    assert (len(late), len(early)) == (1000, 200)
    assert late[-1].arrival - late[0].arrival < 1200 + 6 * 100 + 6
    assert early[-1].arrival - early[0].arrival <= 3 * 100
    assert late[0].arrival == early[0].arrival == 0
    assert parts([slow, jobs(8)]) == ([parts([slow])[0][0]], [jobs(8)])
    assert parts([jobs(8)]) == ([jobs(8)], [jobs(8)])


def test_several_short_pasts_are_replayed_one_by_one() -> None:
    """Twelve of 40 jobs, as the paper's days: two of them, 80 jobs, calibrate, and the ten others are replayed. Three of
    450: of the first 136 jobs, whole slots, calibrate; the others are replayed. Done and utility are summed, slowdowns
    averaged: those of the test above."""
    short = [jobs(40) for _ in range(12)]
    early, late = parts(short)
    assert (len(early), len(late)) == (2, 10)
    early, late = parts([jobs(450), jobs(450), jobs(450)])
    assert ([*map(len, early)], [*map(len, late)]) == ([136], [450, 450])
    assert parts([jobs(1200), jobs(450)], 4000) == ([jobs(1200)], [jobs(450)])
    later = Workload(tuple(job.but(arrival=job.arrival + 500) for job in jobs(40)))
    assert parts([later], 30) == ([jobs(10)], [jobs(10)])  # of the first 30 slots, moved to slot 0
    given = {"fifo": placers.FIFO(), "srtf": placers.SRTF()}
    found = recommend(ONE_GPU, [jobs(6), jobs(8)], given, horizon=20)
    assert [(one["mean_slowdown"], one["completed"]) for one in found.rows] == [(3.0, 14), (1.125, 14)]
    assert "SRTF: on 14 past jobs" in found.why


def settings(folder: Path, workload: Workload, **more: Any) -> PlaceSpec:
    write_jobs(workload, folder / "jobs.yaml")
    (folder / "cluster.yaml").write_text("machines: [{name: m, capacity: {gpu: 1}}]\n")
    given = {"jobs": str(folder / "jobs.yaml"), "cluster": str(folder / "cluster.yaml"), "horizon": 20, "bound": False}
    return PlaceSpec(**(given | more))


def test_without_a_policy_the_recommended_one_runs_beside_a_few(tmp_path: Path, monkeypatch: Any) -> None:
    """The best on the first quarter; the jobs that are scored may be anything: the sentence stays the same."""
    monkeypatch.setattr("equipoise.place.scene.ENOUGH", 4)
    scene = settings(tmp_path, jobs(16)).build()
    assert scene.recommended is not None and scene.recommended.name == "dated"
    assert [placer.label for placer in scene.placers] == ["Dated", "SRTF", "EASY", "FIFO"]
    other = Workload((*jobs(16).jobs[:6], *(job.but(work=1.0) for job in jobs(16).jobs[6:])))
    again = settings(tmp_path, other).build().recommended
    assert again is not None and (again.why, again.rows) == (scene.recommended.why, scene.recommended.rows)
    assert scene.compare().document().result["recommended"]["policy"] == "Dated"


def test_named_policies_ask_history_only_if_told_to(tmp_path: Path, monkeypatch: Any) -> None:
    """--policy fifo replays nothing and scores every job; --recommend tells, and changes nothing else."""
    monkeypatch.setattr("equipoise.place.scene.ENOUGH", 4)
    alone = settings(tmp_path, jobs(16), policy="fifo").build()
    assert (alone.recommended, len(alone.jobs)) == (None, 16)
    told = settings(tmp_path, jobs(16), policy="fifo", recommend=True).build()
    assert told.recommended is not None and told.recommended.name == "dated"
    assert [placer.label for placer in told.placers] == ["FIFO"]


def test_a_past_that_begins_after_the_fixed_end_is_moved_to_slot_0(tmp_path: Path, monkeypatch: Any) -> None:
    """Slots 500 to 547 of the file, an end after 60: all 16 jobs are replayed, and the price of PDORS sees them."""
    monkeypatch.setattr("equipoise.place.scene.ENOUGH", 4)
    write_jobs(Workload(tuple(job.but(arrival=job.arrival + 500) for job in jobs(16))), tmp_path / "past.yaml")
    given = {"history": [str(tmp_path / "past.yaml")], "horizon": None, "slots": 60}
    scene = settings(tmp_path, jobs(16), **given).build()
    assert scene.recommended is not None and "on 16 past jobs" in scene.recommended.why
    assert scene.recommended.rows[0]["completed"] == 16
    assert [job.arrival for job in scene.history[0]] == [job.arrival for job in jobs(16)]
    assert any("past.yaml: its slot 500" in note for note in scene.notes)


def test_a_sweep_wants_the_same_policies_for_every_seed() -> None:
    """History may recommend another for each."""
    with refused("input", "--policy recommended", "name policies"):
        SweepSpec(policy="recommended").scenes()  # type: ignore[arg-type]
    assert "fifo" in SweepSpec().policy


def test_without_a_past_the_usual_one_is_taken(tmp_path: Path) -> None:
    """All jobs come at once, so that none is history; every one is scored."""
    scene = settings(tmp_path, jobs(2)).build()
    assert scene.recommended is not None and not scene.recommended.rows
    assert scene.recommended.label == scene.placers[0].label
    assert len(scene.jobs) == 2


def test_a_config_of_the_first_release_plays_all_policies(tmp_path: Path) -> None:
    """Without a version, as 0.1.0 wrote it; today's default is another."""
    (tmp_path / "old.yaml").write_text("draw: 4\n")
    assert {"pdors", "srtf", "fifo", "las"} <= set(PlaceSpec.from_yaml(tmp_path / "old.yaml").policy)
    (tmp_path / "past.yaml").write_text("history: [past.csv]\nformat: philly\n")
    old = PlaceSpec.from_yaml(tmp_path / "past.yaml")
    assert (old.format, old.history_format) == ("synthetic", "philly")  # the one was that of the other
    assert {"srtf", "elasticflow:priced"} <= set(candidates())
    assert [name for name in candidates() if name not in candidates(calendar=True)] == [
        "elasticflow",
        "elasticflow:priced",
    ]
    assert [name for name in candidates() if name not in candidates(about=DEADLINES)] == ["pdors"]
    assert [name for name in candidates(about=DEADLINES) if name not in candidates(about=NOTHING)] == [
        "elasticflow",
        "elasticflow:priced",
    ]
    assert "sia" not in candidates()
    assert PlaceSpec().policy == ["recommended"]


def test_a_placer_that_learns_has_the_past_if_there_is_any(tmp_path: Path) -> None:
    """Of 16 jobs the first quarter; of 2 that come at once none, and both are scored."""
    scene = settings(tmp_path, jobs(16), policy="dated").build()
    (placer,) = scene.placers
    assert isinstance(placer, placers.Dated)
    assert (placer.history, len(scene.jobs), len(scene.history[0])) == (scene.history, 12, 4)
    scene = settings(tmp_path, jobs(2), policy="dated").build()
    assert (getattr(scene.placers[0], "history", ""), len(scene.jobs)) == (None, 2)


def test_a_history_that_is_given_is_read_whoever_plays(tmp_path: Path) -> None:
    """FIFO learns nothing from it, but durations may be learnt for all: a file that is not there is no silent nothing."""
    with refused("file.missing", "nosuch.csv"):
        settings(tmp_path, jobs(16), policy="fifo", history=[str(tmp_path / "nosuch.csv")]).build()
