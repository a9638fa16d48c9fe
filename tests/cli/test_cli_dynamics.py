"""`equipoise train` says which dynamics it plays, plays another beside it, and knows what version 0.1.0 left."""

import contextlib
import csv
import io
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

from equipoise.cli import main
from equipoise.cli.output import compiling_told
from equipoise.train import Method, TrainSpec, method as methods
from equipoise.train.spec import KNOWN

SMALL = ("--nodes", "6", "--data", "none", "--cost", "quadratic", "--rounds", "300", "--target", "1e-6")


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """Run `equipoise train` in this process, in tmp_path: what it printed and its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["equipoise", "train", *arguments])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
            main()
        return subprocess.CompletedProcess(arguments, leaving.value.code or 0, out.getvalue(), err.getvalue())

    return run


def result_of(path):
    (folder,) = (path / "runs").iterdir()
    return json.loads((folder / "result.json").read_text())["result"], folder


def notes(done):
    """What was noted, beside progress and what was compiled."""
    return [line for line in done.stderr.splitlines() if line.startswith("note:")]


@pytest.mark.parametrize(
    ("options", "cpu", "bits", "words"),
    [
        ((), "links", 10, "CPU by links (prices over links that return)"),
        (("--switching", "fresh"), "markets", 48, "links would need links that return"),
        (("--cpu", "markets"), "markets", 10, "CPU by markets (a market around every node)"),
        (("--method", "paper"), "flows", 9, "CPU by flows (the paper's flows along edges"),
        (("--quantizer", "exact"), "links", 64, "CPU by links"),
        (("--rho", "0.03"), "links", 13, "CPU by links"),
        (("--loss", "0.1"), "gifts", 10, "for messages may be lost or late"),
    ],
)
def test_terminal_and_result_say_which_dynamics_ran_and_what_a_number_takes(
    tmp_path, inside, options, cpu, bits, words
):
    """By hand: a minifloat has a sign, 6 bits of exponent, and 3 of mantissa at rho 0.125, for e^(1/16) - 1 > 2^-4."""
    done = inside(*SMALL, *options)
    told = " ".join(done.stdout.split())
    assert words in told and f"{bits} bits per number" in told
    result, folder = result_of(tmp_path)
    assert result["dynamics"]["cpu"] == cpu and result["dynamics"]["learning"] is None
    assert words in result["dynamics"]["why"] and result["message"]["bits"] == bits
    assert words.replace("'", "&#39;") in (folder / "report.html").read_text().replace("&#x27;", "&#39;")


def test_beside_paper_plays_both_and_draws_both(tmp_path, inside):
    """The run itself is as without it; the published pair has its own row, its own history, and two charts."""
    alone = inside(*SMALL, "--json")
    for folder in (tmp_path / "runs").iterdir():
        folder.rename(tmp_path / "alone")
    done = inside(*SMALL, "--beside", "paper")
    result, folder = result_of(tmp_path)
    first = json.loads(alone.stdout)["result"]
    assert {name: result[name] for name in first} == first
    other = result["beside_run"]
    assert other["name"] == "paper" and other["dynamics"]["cpu"] == "flows" and other["message"]["bits"] == 9
    rows = list(csv.DictReader((folder / "beside_history.csv").open()))
    assert int(rows[-1]["round"]) == other["rounds"] and int(rows[-1]["bits"]) == other["bits"]
    assert float(rows[-1]["relative_gap"]) == other["relative_gap"]
    assert re.search(rf"this run \(links\) +{result['rounds']} ", done.stdout)
    assert re.search(rf"the paper's, as published +{other['rounds']} .*{other['bits']:,}", done.stdout)
    (data,) = re.findall(r'id="chart-data">(.*?)</script>', (folder / "report.html").read_text(), re.S)
    charts = json.loads(data)
    for name in ("beside_rounds", "beside_bits"):
        assert {one["name"] for one in charts[name]["series"] if one["name"]} >= {"this run (links)"}
        assert "the paper's, as published" in {one["name"] for one in charts[name]["series"]}
    assert done.returncode == 0  # the paper's own certificate fails; this run's does not
    again = yaml.safe_load((folder / "config.yaml").read_text())
    assert again["beside"] == "paper"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--beside", "papr"), "did you mean 'paper'"),
        (("--beside", "links"), "is what this run plays anyway: name another (paper, markets, flows)"),
        (("--beside", "links", "--switching", "fresh"), "--beside links: cpu='links' needs links that return"),
        (("--beside", "paper", "--crash", "3@5"), "drop --crash, or drop --beside"),
        (("--cpu", "flow"), "did you mean 'flows'"),
        (("--cpu", "markets", "--loss", "0.1"), "--cpu has no effect: faults and one-way links"),
        (("--learning", "averages"), "--learning has no effect: there is no model"),
    ],
)
def test_what_cannot_be_played_is_one_line_before_anything_is_played(tmp_path, inside, options, words):
    done = inside(*SMALL, *options)
    assert done.returncode == 2 and words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not (tmp_path / "runs").exists()


def test_a_config_of_the_first_version_runs_and_is_told_what_has_changed(tmp_path, inside):
    """It names no dynamics: a note says what 0.1.0 played, and the two settings it names do repeat that."""
    (tmp_path / "old.yaml").write_text("data: none\ncost: quadratic\nnodes: 6\nrounds: 300\ntarget: 1.0e-6\n")
    done = inside("--config", "old.yaml")
    assert done.returncode == 0
    note = "version 0.1.0 played markets here; --config with cpu: markets repeats its dynamics"
    assert notes(done) == [f"note: {note}"]
    with (tmp_path / "old.yaml").open("a") as file:
        file.write("cpu: markets\n")
    again = inside("--config", "old.yaml")
    assert again.returncode == 0 and notes(again) == [] and "CPU by markets" in again.stdout


@pytest.mark.parametrize("line", ["method: paper\n", "switching: fresh\n", "loss: 0.1\n"])
def test_no_note_where_the_first_version_played_the_same(tmp_path, inside, line):
    (tmp_path / "old.yaml").write_text(f"data: none\ncost: quadratic\nnodes: 6\nrounds: 50\n{line}")
    assert notes(inside("--config", "old.yaml")) == []


def test_the_spec_knows_the_dynamics_that_the_method_knows():
    """Two lists, for --help does without NumPy."""
    assert KNOWN["cpu"] == methods.CPU and KNOWN["learning"] == methods.LEARNING
    job = TrainSpec(data="none", nodes=6, cpu="markets").build()
    assert job.method == Method(cpu="markets")


def test_a_checkpoint_of_the_first_format_is_refused_by_name_with_the_way_out(tmp_path, inside):
    """0.1.0 kept no version in it."""
    folder = tmp_path / "runs" / "old"
    folder.mkdir(parents=True)
    np.savez(folder / "checkpoint.npz", __format=np.array(1), __fingerprint=np.array("0123456789ab"), round=np.array(3))
    (folder / "config.yaml").write_text("data: none\nnodes: 6\nrounds: 50\n")
    done = inside("--resume", str(folder))
    assert done.returncode == 2
    words = "is a checkpoint of format 1 (version 0.1.0); this version cannot go on from it: start the run anew"
    assert f"{folder / 'checkpoint.npz'} {words}" in done.stderr


def test_compiling_is_told_when_it_takes_longer_than_a_moment(monkeypatch, capsys):
    """A kernel that is compiled anew, with no patience at all: told once, with what it took; a compiled one is not."""
    from equipoise.kernels import COMPILES, kernel

    if not COMPILES:
        pytest.skip("kernels are plain Python")
    monkeypatch.setattr("equipoise.cli.output.COMPILING_SECONDS", 0.0)
    spaces = [{"__name__": __name__} for _ in range(2)]
    for k, space in enumerate(spaces):
        exec(compile(f"def twice(x):\n    return {2 + k + time.time_ns()} * x", __file__, "exec"), space)
    first, second = (kernel(space["twice"]) for space in spaces)
    with compiling_told(25.0, quiet=False):
        first(1)
    told = capsys.readouterr().err
    assert told.count("compiling kernels for the first time, about 25 s") == 1
    assert re.search(r"compiled 1 kernels? in \d+ s; later runs find them on disk", told)
    with compiling_told(25.0, quiet=False):
        first(2)
    with compiling_told(25.0, quiet=True):
        second(2)
    assert capsys.readouterr().err == ""
