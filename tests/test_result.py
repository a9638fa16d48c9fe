"""Results on disk: what is written is what is loaded, for every verb, from Python and from the command line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

import equipoise
from equipoise.cli import main
from equipoise.place import Cluster, Deadline, Job, Machine, compare as compare_places, placers, read_jobs, simulate
from equipoise.place.compare import Case
from equipoise.place.sweep import sweep as sweep_places
from equipoise.result import Loaded
from equipoise.share import policies, simulate as play, sweep
from equipoise.train import Faults, Network, Problem, Quadratic, Softmax, compare, solve
from refusals import refused

COST = Quadratic(a=np.array([1.0, 2.0, 4.0, 1.0]), c=np.array([1.0, 5.0, 9.0, 3.0]), lo=0.0, hi=8.0)
SHARDS = [(np.array([[0.0, 1.0], [1.0, k]]), np.array([0, 1])) for k in range(4)]
NETWORK = Network.ring(4)
CLUSTER = Cluster((Machine({"gpu": 4}, count=2, name="v100"),))
JOBS = [Job(str(17 + k), k, 4.0 + k, 4, 1.0, {"gpu": 1}, Deadline(10, 8)) for k in range(4)]


class Keen:
    """A user's own policy, which has no colour."""

    def decide(self, view):
        return policies.SDF().decide(view)


def a_place(policy="FIFO"):
    return simulate(CLUSTER, JOBS, placers.named(policy), slots=6)


RESULTS = {
    "train": lambda: solve(Problem(COST, 12.0, Softmax(SHARDS)), NETWORK, rounds=30),
    "train, one centre alone": lambda: solve(
        Problem(Quadratic(a=[1.0], c=[0.0], lo=0, hi=2), 1.0), Network.path(1), rounds=3
    ),
    "train, hostile": lambda: solve(Problem(COST, 12.0), NETWORK, rounds=30, faults=Faults(loss=0.2, seed=1)),
    "train compare": lambda: compare(Problem(COST, 12.0), NETWORK, ["Ours", "ADMM", "LaplacianExact"], rounds=20),
    "share": lambda: sweep([policies.DescribedUniform(), Keen(), policies.Hybrid()], loads=[5, 9], seeds=4, oracle=1),
    "share run": lambda: play(policies.SDF(), load=6, seeds=2, trace=True),
    "place": lambda: compare_places(CLUSTER, JOBS, [placers.FIFO(), placers.SRTF()], slots=6),
    "place run": a_place,
    "place sweep": lambda: sweep_places([Case(k, CLUSTER, JOBS, (placers.FIFO(),), 6) for k in range(2)], workers=1),
}


@pytest.fixture(scope="module")
def results():
    """Every kind of result, made once."""
    return {name: make() for name, make in RESULTS.items()}


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_written_is_what_is_loaded(name, results, tmp_path):
    """As one JSON file, as a folder, and table by table as CSV: equal plain values, nothing rounded."""
    saved = results[name].document()
    assert saved.verb == name.partition(",")[0]
    results[name].to_json(tmp_path / "one.json")
    assert equipoise.load(tmp_path / "one.json") == saved
    results[name].save(tmp_path / "folder")
    loaded = equipoise.load(tmp_path / "folder")
    assert loaded == saved == equipoise.load(tmp_path / "folder" / "result.json")
    assert loaded.arrays.keys() == saved.arrays.keys()
    assert all(np.array_equal(loaded.arrays[key], saved.arrays[key]) for key in saved.arrays)
    for table in saved.tables:
        results[name].to_csv(tmp_path / f"{table}.csv", table)
        assert equipoise.load(tmp_path / f"{table}.csv").rows() == saved.rows(table)
    equipoise.load(tmp_path / "one.json").to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "one.json").read_bytes()


@pytest.mark.parametrize("name", RESULTS)
def test_a_loaded_result_is_a_frame_and_a_figure(name, results, tmp_path):
    """The frame is the result's own; the figure has panels, though nothing but plain values is left."""
    results[name].to_json(tmp_path / "one.json")
    loaded = equipoise.load(tmp_path / "one.json")
    for table in loaded.names:
        assert loaded.tables[table] == loaded.rows(table)
        pd.testing.assert_frame_equal(loaded.to_frame(table), results[name].to_frame(table))
    assert len(loaded.plot().axes) == len(results[name].plot().axes) >= 1


def test_the_main_tables_are_what_the_results_say(results):
    """Last gap, successes, utilities: read from the frames, they are the results' own."""
    run = results["train"]
    frame = run.to_frame()
    assert frame["round"].iloc[-1] == run.rounds and frame["relative_gap"].iloc[-1] == run.relative_gap
    assert frame.filter(like="share_").iloc[-1].tolist() == run.shares.tolist()
    shared = results["share"].to_frame("history")
    assert shared.groupby(["policy", "load"])["success"].mean()["Hybrid", 9] == pytest.approx(
        results["share"].measured["Hybrid", 9]["success"].mean()
    )
    placed = results["place"]
    assert placed.to_frame()["utility"].tolist() == [result.utility for result in placed.results]
    assert placed.to_frame("outcomes").query("policy == 'SRTF'")["utility"].sum() == placed["SRTF"].utility
    assert (
        placed.to_frame("allocations").query("policy == 'FIFO'")["workers"].sum() == placed["FIFO"].schedule[:, 3].sum()
    )
    compared = results["train compare"].to_frame("history")
    assert (
        compared.query("entrant == 'Ours'")["distance"].tolist()
        == results["train compare"].tracks["Ours"][0].distance.tolist()
    )


def test_the_certificate_is_kept(results, tmp_path):
    """Every check with its value, limit and verdict; a run of share has none and says none."""
    for name in ("train", "train compare", "share", "place", "place run"):
        results[name].to_json(tmp_path / "one.json")
        made = results[name].document().certificate
        assert equipoise.load(tmp_path / "one.json").certificate == made and len(made.checks) >= 3
    certificate = results["train"].certificate()
    assert results["train"].document().certificate == certificate
    assert results["share run"].document().certificate is None


def test_json_has_no_numbers_that_are_not(tmp_path):
    """Infinity and nan become null, in any depth, and come back as None."""
    saved = Loaded(
        "train", {"gap": np.nan, "deep": [{"x": np.float64(np.inf)}]}, tables={"history": [{"gap": -np.inf}]}
    )
    saved.to_json(tmp_path / "one.json")
    assert "NaN" not in (tmp_path / "one.json").read_text() and "Infinity" not in (tmp_path / "one.json").read_text()
    assert equipoise.load(tmp_path / "one.json").result == {"gap": None, "deep": [{"x": None}]}


def test_names_of_jobs_stay_text(tmp_path):
    """A job called 17 is no number after it went through CSV."""
    a_place().to_csv(tmp_path / "outcomes.csv", "outcomes")
    assert [row["job"] for row in equipoise.load(tmp_path / "outcomes.csv").rows()] == ["17", "18", "19", "20"]


COMMANDS = {
    "train": ("--data", "none", "--nodes", "5", "--rounds", "20", "--target", "0.5"),
    "share": ("--loads", "5", "--seeds", "3", "--policies", "Uniform,SDF", "--oracle", "1"),
    "place": (
        "examples/jobs.yaml",
        "--cluster",
        "examples/cluster.yaml",
        "--slots",
        "8",
        "--policy",
        "fifo,srtf",
        "--no-report",
    ),
}


def equipoise_cli(monkeypatch, *arguments):
    """The command line in this process: its exit code."""
    monkeypatch.setattr(sys, "argv", ["equipoise", *arguments])
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with quiet[0], quiet[1], pytest.raises(SystemExit) as leaving:
        main()
    return leaving.value.code


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_run_folder_of_the_command_line_loads(verb, tmp_path, monkeypatch):
    """result.json as it stands, history.csv line by line as csv reads it, the certificate's verdict, a figure."""
    assert equipoise_cli(monkeypatch, verb, *COMMANDS[verb], "--out", str(tmp_path), "--json") in (0, 1)
    (folder,) = tmp_path.iterdir()
    loaded = equipoise.load(folder)
    document = json.loads((folder / "result.json").read_text())
    assert (loaded.verb, loaded.result, loaded.config) == (verb, document["result"], document["config"])
    assert loaded.certificate.as_dict() == document["certificate"]
    with (folder / "history.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(loaded.rows("history")) == len(lines) > 0
    for row, line in zip(loaded.rows("history"), lines, strict=True):
        assert all(
            str(row[name]) == cell or (row[name] is None and cell in ("", "nan", "inf")) for name, cell in line.items()
        )
    assert loaded.plot(width="page").get_figwidth() == 7.16
    if verb == "train":
        assert loaded.arrays["shares"].tolist() == loaded.result["shares"]
    if verb == "place":
        assert set(loaded.to_frame("allocations")["policy"]) == {"FIFO", "SRTF"}
        assert len(loaded.plot(policy="SRTF").axes) == 2
        there = Cluster.from_yaml("examples/cluster.yaml")
        live = compare_places(there, read_jobs("examples/jobs.yaml", there), [placers.FIFO(), placers.SRTF()], slots=8)
        assert loaded.tables == live.document().tables
        assert loaded.looks["SRTF"] == {"colour": placers.SRTF.colour}


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("nothing", None, ("file.missing",)),
        ("odd.json", "{", ("result.json",)),
        ("odd.json", '{"a": 1}', ("result.form",)),
        ("odd.csv", "a,b\n1\n", ("table.form",)),
    ],
)
def test_what_is_no_result_is_refused(name, text, refusal, tmp_path):
    """One line that says what was expected."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with refused(*refusal, name):
        equipoise.load(tmp_path / name)
    with refused("file.missing", "result.json"):
        equipoise.load(tmp_path)


def test_a_bare_table_has_a_frame_and_no_figure(tmp_path):
    """A CSV says nothing of what it is the history of."""
    a_place().to_csv(tmp_path / "history.csv", "history")
    loaded = equipoise.load(tmp_path / "history.csv")
    assert loaded.to_frame()["completed"].iloc[-1] == a_place().completed
    with refused("document.verb"):
        loaded.plot()


def test_what_cannot_be_written_is_said(tmp_path):
    """A folder that is not there, a file in the way."""
    with refused("disk", "one.json"):
        a_place().to_json(tmp_path / "no" / "one.json")
    with refused("disk", "one.csv"):
        a_place().to_csv(tmp_path / "no" / "one.csv")
    (tmp_path / "file").write_text("")
    with refused("disk", tmp_path / "file"):
        a_place().save(tmp_path / "file")
