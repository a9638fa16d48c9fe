"""--workers, --spread and --address as a user meets them: the same files, the same lines, the same exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from equipoise.cli import main
from ray_nodes import need_ray, two_nodes  # noqa: F401

SHARE = ("share", "--loads", "10,20", "--seeds", "2500", "--oracle", "1", "--policies", "Uniform", "--json")
PLACE = ("--draw", "8", "--slots", "8", "--machines", "2", "--policy", "fifo,srtf", "--no-bound", "--json")
POLICY = """
import os, time
import numpy as np
from equipoise.share import Decision, greedy

class Own:
    def decide(self, view):
        return Decision(
            bandwidth=greedy(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=greedy(view.target, view.computing, view.task_cap, view.capacity),
        )

class Broken(Own):
    def decide(self, view):
        return view.nothing

class Flat(Own):
    def decide(self, view):
        return Decision(np.zeros(3), np.zeros(3))

class Killed(Own):
    def decide(self, view):
        os.kill(os.getpid(), 9)

class Slow(Own):
    def decide(self, view):
        time.sleep(1)
        return super().decide(view)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(POLICY)
    return tmp_path


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def call(folder: Path, *words: str) -> Done:
    """The command in this process: its imports were paid for once. What runs where, on standard error, is left out, for
    that differs."""
    out, said, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["equipoise", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said), contextlib.chdir(folder):
        try:
            main()
        except SystemExit as left:
            lines = said.getvalue().splitlines(keepends=True)
            told = "".join(line for line in lines if not line.startswith("Simulation: "))
            return Done(int(left.code or 0), out.getvalue(), told)
        finally:
            sys.argv = before
    raise AssertionError("main always exits")


def share(folder: Path, name: str, *words: str) -> Done:
    return call(folder, *SHARE, "--policy-file", f"own.py:{name}", *words)


def test_a_users_policy_gives_the_same_anywhere(folder: Path, two_nodes: str):  # noqa: F811
    """One worker, two threads, two processes, two Ray nodes: the same JSON, and the same files."""
    alone = share(folder, "Own", "--workers", "1")
    assert (alone.returncode, alone.stderr) == (0, "")
    for words in (("--workers", "2"), ("--workers", "2", "--spread", "processes"), ("--address", two_nodes)):
        spread = share(folder, "Own", *words)
        assert (spread.returncode, spread.stdout, spread.stderr) == (0, alone.stdout, ""), words
    for name in ("result.json", "history.csv", "config.yaml"):
        assert len({path.read_bytes() for path in folder.glob(f"runs/*/{name}")}) == 1, name


def test_place_gives_the_same_on_processes(folder: Path):
    """A sweep over seeds, repeated from its config.yaml, and a comparison over policies."""
    alone = call(folder, "place", "sweep", *PLACE, "--seeds", "3", "--workers", "1")
    assert alone.returncode == 0, alone.stderr
    result = json.loads(alone.stdout)["result"]
    assert [row["policy"] for row in result["rows"]] == ["FIFO", "SRTF"] and result["seeds"] == [0, 1, 2]
    (config,) = folder.glob("runs/*/config.yaml")
    wide = call(folder, "place", "sweep", "--config", str(config), "--workers", "2", "--json")
    assert (wide.returncode, wide.stdout, wide.stderr) == (0, alone.stdout, "")
    plain, spread = (call(folder, "place", *PLACE, "--no-report", *words) for words in ((), ("--workers", "2")))
    assert plain.returncode == spread.returncode == 0
    assert plain.stdout == spread.stdout


def test_a_mistake_in_a_policy_is_the_same_line(folder: Path):
    """An exception of Python's with her line, and one of ours: as without workers."""
    for name in ("Broken", "Flat"):
        alone = share(folder, name, "--workers", "1")
        assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
        for spread in ("threads", "processes"):
            wide = share(folder, name, "--workers", "2", "--spread", spread)
            assert (wide.returncode, wide.stderr, wide.stdout) == (2, alone.stderr, ""), (name, spread)


def test_a_killed_worker_is_one_line_and_exit_1(folder: Path):
    done = share(folder, "Killed", "--workers", "2", "--spread", "processes")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: one of 2 worker processes ended")


def test_ctrl_c_leaves_no_process(folder: Path):
    command = [sys.executable, "-m", "equipoise", *SHARE, "--policy-file", "own.py:Slow"]
    run = subprocess.Popen(
        [*command, "--workers", "2", "--spread", "processes"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers: list[psutil.Process] = []
    end = time.monotonic() + 60
    while len(workers) < 2 and run.poll() is None and time.monotonic() < end:
        workers = psutil.Process(run.pid).children(recursive=True)
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(run.pid, signal.SIGINT)
    out, said = run.communicate(timeout=60)
    assert (run.returncode, out) == (130, ""), said
    assert psutil.wait_procs(workers, timeout=20)[1] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--spread", "thread"), "unknown spread 'thread'; did you mean 'threads'?"),
        (("--workers", "0"), "--workers 0: expected 1 to"),
        (("--address", "nonsense"), "--address 'nonsense' names no Ray cluster: expected HOST:PORT"),
        (("--address", "127.0.0.1:1"), "tried to connect to 127.0.0.1 port 1 for"),
        (("--spread", "processes", "--address", "127.0.0.1:1"), "has no effect: --spread is processes"),
    ],
)
@pytest.mark.parametrize("verb", [("share",), ("share", "bundles"), ("place",), ("place", "sweep")])
def test_bad_words_are_one_line(verb: Any, words: Any, said: str, tmp_path: Path):
    if "names no" in said or "tried" in said:
        need_ray()
    done = call(tmp_path, *verb, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


def test_words_before_a_command_are_refused(tmp_path: Path):
    done = call(tmp_path, "share", "--workers", "2", "bundles")
    assert done.returncode == 2 and "options stand after the command" in done.stderr
