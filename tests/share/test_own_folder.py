"""A policy is one file in its folder: dropped in, it works from the command line, and no other file is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise
from equipoise import data
from equipoise.share.estimators import ESTIMATORS
from equipoise.share.policies import ALL, POLICIES, PUBLISHED
from equipoise.share.view import name_of

YOUNGEST = '''"""Youngest first: who came last is served first. Old tasks wait until their deadlines have passed."""

from typing import ClassVar

from equipoise.share.divide import greedy
from equipoise.share.view import Decision, View


class YoungestFirst:
    label: ClassVar[str] = "Youngest"
    colour: ClassVar[str] = "#123456"
    marker: ClassVar[str] = "diamond"

    def decide(self, view: View) -> Decision:
        return Decision(
            bandwidth=greedy(-view.arrival, view.sending, view.data_left, view.bandwidth),
            compute=greedy(-view.arrival, view.computing, view.task_cap, view.capacity),
        )
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, with one file more."""
    home = tmp_path_factory.mktemp("tree")
    shutil.copytree(Path(equipoise.__file__).parent, home / "equipoise", ignore=shutil.ignore_patterns("__pycache__"))
    (folder_of(home) / "youngest_first.py").write_text(YOUNGEST)
    return home


def folder_of(tree: Path) -> Path:
    return tree / "equipoise" / "share" / "policies"


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Uncompiled: a tiny run is over before a kernel would be ready."""
    env = os.environ | {"PYTHONPATH": str(tree), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "equipoise", "share", *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=tree)


def test_a_file_dropped_in_runs_from_the_command_line(tree: Path) -> None:
    """By its label beside ours, with its colour in the result."""
    done = run(tree, "--policies", "SDF,youngest", "--loads", "3", "--seeds", "1", "--oracle", "0", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["policy"] for row in found["result"]["rows"]] == ["SDF", "Youngest"]
    assert found["looks"]["Youngest"] == {"colour": "#123456", "marker": "diamond"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken.py", "def broken(:\n"),
        ("empty.py", '"""Nothing in it."""\n'),
        ("second.py", YOUNGEST.replace("YoungestFirst", "Second")),
    ],
    ids=["does not load", "holds no policy", "has the name of another"],
)
def test_a_file_that_cannot_be_is_one_line_with_its_name(tree: Path, name: str, text: str) -> None:
    """The file, what is wrong with it, and the way out."""
    path = folder_of(tree) / name
    path.write_text(text)
    try:
        done = run(tree, "--policies", "SDF", "--loads", "3", "--seeds", "1", "--json")
    finally:
        path.unlink()
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and str(path) in done.stderr


def test_policies_stand_in_their_order() -> None:
    """The five of the paper first; what a file says of its class is what the class says."""
    assert POLICIES.names()[:5] == ("Uniform", "SDF", "LARA", "UARA", "UARA+LARA")
    assert [name_of(policy()) for policy in ALL] == list(POLICIES.names())
    assert ALL[:5] == PUBLISHED


def test_estimators_and_data_sets_are_found_by_being_there() -> None:
    """By their files, and by the functions that return a data set."""
    folder = Path(equipoise.__file__).parent / "share" / "estimators"
    assert {choice.stem for choice in ESTIMATORS.choices()} == {path.stem for path in folder.glob("[!_]*.py")}
    assert set(data.LOADERS) == {"breast_cancer", "csv", "digits", "mnist"}
