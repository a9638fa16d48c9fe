"""A placer, a kind of prices and a trace format are one file each: dropped into its folder it works from the command line.

The library is seen through a folder of links, so that a file can be added without touching it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise
from equipoise.place.traces import format_of
from refusals import refused

SOURCE = Path(equipoise.__file__).parent
SMALL = ("--draw", "4", "--slots", "6", "--machines", "2", "--no-bound", "--replan", "0")
PLACER = '''"""Last come, first served: for this test."""
from equipoise.place.placers import Slotwise

class Backwards:
    label, colour, rank = "{label}", "#123456", 99

    def start(self, run, seed):
        return BackwardsSession(run)

class BackwardsSession(Slotwise):
    def seats(self, queue):
        return self.in_order(queue[::-1])
'''
PRICES = '''"""One price for everything: for this test."""
from dataclasses import dataclass
from equipoise.place.prices import Fixed

@dataclass(frozen=True)
class Flat(Fixed):
    name = "flat"
    needs_history = False
'''
TRACE = '''"""Two columns, start and minutes: for this test."""
from equipoise.place.traces._rows import Mapped, TraceRow, columns, table

def matches(first_lines):
    return {"begins", "minutes"} <= columns(first_lines)

def tiny(path, *, slot="10m", seed=0):
    rows = [
        TraceRow(line, f"tiny-{line}", float(cells["begins"]), 60 * float(cells["minutes"]), 1)
        for line, cells in table(path, ("begins", "minutes"), "begins,minutes")
    ]
    return Mapped.of(slot, seed, 1, False).workload(rows, [], str(path), calendar=False)
'''


def seen_through_links(root: Path, folder: str) -> Path:
    """The library under `root`, and of it one folder whose files are links: the folder to drop a file into."""
    here, there = root / "equipoise", SOURCE
    for part in ("place", folder, ""):
        here.mkdir(parents=True)
        for entry in there.iterdir():
            if entry.name not in (part, "__pycache__"):
                (here / entry.name).symlink_to(entry)
        here, there = here / part, there / part
    return here


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line of the library under `root`, uncompiled: nothing is worth compiling for four jobs."""
    environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_DISABLE_JIT": "1", "COLUMNS": "100"}
    command = [sys.executable, "-m", "equipoise", "place", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False)


def labels(root: Path) -> list[str]:
    """Of the policies of the only run."""
    (result,) = root.glob("runs/*/result.json")
    return [row["policy"] for row in json.loads(result.read_text())["result"]["rows"]]


def test_a_placer_is_one_file(tmp_path: Path):
    """It is listed, runs and is certified; its label is shown."""
    (seen_through_links(tmp_path, "placers") / "backwards.py").write_text(PLACER.format(label="Last first"))
    done = run(tmp_path, "--policy", "backwards,fifo", *SMALL)
    assert done.returncode == 0, done.stderr
    assert labels(tmp_path) == ["Last first", "FIFO"]


def test_a_kind_of_prices_is_one_file(tmp_path: Path):
    """Both as --prices and behind the name of a policy."""
    (seen_through_links(tmp_path, "prices") / "flat.py").write_text(PRICES)
    done = run(tmp_path, "--policy", "pdors,pdors:flat", "--prices", "flat", *SMALL)
    assert done.returncode == 0, done.stderr
    assert labels(tmp_path) == ["PDORS", "PDORS flat"]


def test_a_trace_format_is_one_file(tmp_path: Path):
    """Its first lines say what it is; --format names it."""
    (seen_through_links(tmp_path, "traces") / "tiny.py").write_text(TRACE)
    (tmp_path / "jobs.csv").write_text("begins,minutes\n0,20\n600,30\n1200,10\n")
    for more in ((), ("--format", "tiny")):
        done = run(tmp_path, "jobs.csv", "--policy", "fifo", "--machines", "1", "--horizon", "20", "--no-bound", *more)
        assert done.returncode == 0, done.stderr


def test_a_trace_format_is_a_name_of_its_package(tmp_path: Path):
    """`traces.tiny` is the reader, also after its file was imported as a module; so are all others."""
    (seen_through_links(tmp_path, "traces") / "tiny.py").write_text(TRACE)
    code = (
        "import equipoise.place.traces.tiny, equipoise.place.traces.philly\n"
        "from equipoise.place import traces\n"
        "print(*(type(getattr(traces, name)).__name__ for name in ('tiny', 'philly', 'gpu_cluster', 'regime')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["function"] * 4


@pytest.mark.parametrize(
    ("header", "format", "column"),
    [
        ("timestamp,duration,gpus\n", "philly", "num_gpus"),
        ("id,work,batch\n", "own", "arrival"),
        ("Submit|Start|End\n", "slurm", "jobid"),
        ("name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time,scheduled_time\n", "alibaba", "gpu_milli"),
    ],
)
def test_a_header_that_lacks_one_column_is_told_which(tmp_path: Path, header: str, format: str, column: str):
    """A file that is nearly of a format says what to add; one that is like none only names the formats."""
    path = tmp_path / "jobs.txt"
    path.write_text(header)
    with refused("trace.column", f"'{column}'", format):
        format_of(path)
    path.write_text("a,b,c\n")
    with refused("registry.format"):
        format_of(path)


@pytest.mark.parametrize(
    ("folder", "source"),
    [("placers", PLACER.format(label="Last first")), ("prices", PRICES), ("traces", TRACE)],
    ids=["placers", "prices", "traces"],
)
def test_a_file_that_does_not_load_is_one_line_with_its_name(tmp_path: Path, folder: str, source: str):
    """A slip in it, and a second file of the same name."""
    stem = {"placers": "backwards", "prices": "flat", "traces": "tiny"}[folder]
    file = seen_through_links(tmp_path, folder) / f"{stem}.py"
    file.write_text(source + "\nclass (:\n")
    told = run(tmp_path, "--policy", "fifo", *SMALL)
    assert told.returncode == 2 and len(told.stderr.splitlines()) == 1
    assert f"{stem}.py" in told.stderr and "correct the file, or remove it" in told.stderr
    file.write_text(source)
    second = file.with_name("another.py")
    name = {"placers": "Backwards", "prices": "Flat", "traces": "tiny"}[folder]
    again = source.replace(f"class {name}", "class Another", 1).replace("def tiny", "def another")
    label = {"placers": "", "prices": '\nlabel = "flat"\n', "traces": '\nlabel = "tiny"\n'}[folder]
    second.write_text(again + label)
    told = run(tmp_path, "--policy", "fifo", *SMALL)
    assert told.returncode == 2 and len(told.stderr.splitlines()) == 1
    assert f"{stem}.py" in told.stderr and "another.py" in told.stderr and "rename one" in told.stderr


def test_place_loads_nothing_of_share():
    """Each verb stands alone."""
    code = "import sys, equipoise.place; print([m for m in sys.modules if m.startswith('equipoise.share')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
