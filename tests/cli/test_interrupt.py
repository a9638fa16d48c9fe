"""Ctrl-C at any moment is one line on standard error and exit 130, with the line that resumes where there is one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.cli import main

# Where the process stops and says so, until the signal comes: at the first import of NumPy, when a kernel is compiled,
# when progress is shown, when the page is made.
MOMENTS = {
    "import": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            wait()
sys.meta_path.insert(0, Finder())
""",
    "compile": """
from numba.core import dispatcher
compile = dispatcher.Dispatcher.compile
def waiting(self, signature):
    wait()
    return compile(self, signature)
dispatcher.Dispatcher.compile = waiting
""",
    "rounds": """
from equipoise.cli.output import Meter
Meter.show = lambda *words, **named: wait()
""",
    "report": """
from equipoise import present
present.report = lambda document: wait()
""",
}
SCRIPT = """
import sys, time
def wait(told=[]):
    if not told:
        told.append(print("HERE", flush=True))
        time.sleep(5)
{moment}
from equipoise.cli import main
sys.argv = ["equipoise", *{words!r}]
main()
"""
VERBS = {
    "train": ("train", "--nodes", "3", "--samples", "60", "--rounds", "50"),
    "share": ("share", "--policies", "SDF", "--loads", "4", "--seeds", "2", "--oracle", "0"),
    "place": ("place", "--policy", "fifo", "--draw", "3", "--no-bound"),
    "reproduce": ("reproduce", "--quick", "sector-bound"),
}


def interrupted(words: tuple[str, ...], moment: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command that gets Ctrl-C at this moment."""
    script = SCRIPT.format(moment=MOMENTS[moment], words=(*words, "--out", str(folder / "runs")))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "HERE\n":
            process.send_signal(signal.SIGINT)
            break
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("verb", "moment"),
    [(verb, moment) for verb in VERBS for moment in MOMENTS if (verb, moment) != ("reproduce", "compile")],
)
def test_an_interrupt_is_one_line_and_exit_130(verb: str, moment: str, tmp_path: Path) -> None:
    """No traceback, no half of a result, no empty folder."""
    code, out, err = interrupted(VERBS[verb], moment, tmp_path)
    lines = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert (code, len(lines), out) == (130, 1, ""), err
    if (verb, moment) == ("train", "rounds"):
        (folder,) = tmp_path.glob("runs/*")
        assert lines == [f"interrupted; go on with: equipoise train --resume {folder}"]
        assert not (folder / "result.json").exists()
    else:
        assert lines == ["interrupted"] and not list(tmp_path.glob("runs/*"))


def test_an_interrupt_that_python_would_drop_is_heard() -> None:
    """In a destructor Python prints an interrupt and goes on; here it arrives a moment later, once."""
    script = """
import os, signal, sys, time
from equipoise import cli
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
def run():
    Dropped()
    time.sleep(60)
    return 0
cli._run = run
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_the_line_that_resumes_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What a run raises KeyboardInterrupt with stands in the one line."""
    before = signal.getsignal(signal.SIGINT)

    def run() -> int:
        raise KeyboardInterrupt("equipoise train --resume runs/train-1")

    monkeypatch.setattr("equipoise.cli._run", run)
    try:
        with pytest.raises(SystemExit) as left:
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert left.value.code == 130
    said = capsys.readouterr().err
    assert re.fullmatch(r"interrupted; go on with: equipoise train --resume runs/train-1\n", said)
