"""A cost, a model, a rival and a data set are one file each, found by being in their folder; and runs need no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise

SOURCE = Path(equipoise.__file__).parent
COST = '''"""The cost of every CPU that is used, by the hour."""

import numpy as np


class Hourly:
    parameters = ("work",)

    @staticmethod
    def drawn(rng, nodes, samples):
        return {"work": rng.uniform(1.0, 2.0, nodes)}

    def __init__(self, work, *, lo, hi):
        self.work, self.lo, self.hi = np.asarray(work), np.float64(lo), np.float64(hi)
        self.nodes = len(self.work)

    def value(self, x):
        return 0.5 * self.work * x**2

    def derivative(self, x):
        return self.work * x
'''
MODEL = '''"""The mean of each class, by least squares."""

import numpy as np

from equipoise.train import LeastSquares


class Centroid(LeastSquares):
    words = "class means"
    task = "two classes"

    def accuracy(self, y, X, answers):
        return float((np.sign(X @ y) == answers).mean())
'''
RIVAL = '''"""Nobody moves: what any method must beat."""

from equipoise.train.baselines import Recorder


class Still:
    name = "Still"
    label = "nobody moves"
    colour = "#123456"
    grid = {}

    def play(self, problem, network, rounds, every=1):
        book = Recorder(self.name, problem, network, every)
        for number in range(rounds):
            book.send(network.topology(number))
            book.record(book.start)
        return book.track()
'''


def seen_through_links(root: Path, *parts: str) -> Path:
    """The library under `root`, and of it one folder whose files are links: the folder to drop a file into."""
    here, there = root / "equipoise", SOURCE
    for part in (*parts, ""):
        here.mkdir(parents=True)
        for entry in there.iterdir():
            if entry.name not in (part, "__pycache__"):
                (here / entry.name).symlink_to(entry)
        here, there = here / part, there / part
    return here


def run(root: Path, *words: str) -> dict[str, object]:
    """What `equipoise train` prints as JSON, uncompiled: nothing is worth compiling for a few rounds."""
    environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "equipoise", "train", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


SMALL = ("--nodes", "4", "--rounds", "3")


def test_a_run_needs_no_compiler(tmp_path: Path) -> None:
    """NUMBA_DISABLE_JIT=1: the same numbers as the compiled run, for a debugger."""
    (tmp_path / "equipoise").symlink_to(SOURCE)
    found = run(tmp_path, *SMALL, "--samples", "40")["result"]
    from equipoise.train import TrainSpec

    compiled = TrainSpec(nodes=4, rounds=3, samples=40).build().run().document()
    assert isinstance(found, dict)
    assert found["shares"] == pytest.approx(compiled.result["shares"]) and found["bits"] == compiled.result["bits"]


def test_a_cost_is_one_file(tmp_path: Path) -> None:
    """Its parameters are drawn by its own rule, or given in config.yaml."""
    (seen_through_links(tmp_path, "train", "costs") / "hourly.py").write_text(COST)
    found = run(tmp_path, *SMALL, "--cost", "hourly", "--data", "none")
    assert found["config"]["cost"] == "hourly" and sum(found["result"]["shares"]) == 100.0  # type: ignore[index]


def test_a_model_is_one_file(tmp_path: Path) -> None:
    """Given the answers of its task, scored and named as it says."""
    (seen_through_links(tmp_path, "train", "models") / "centroid.py").write_text(MODEL)
    found = run(tmp_path, *SMALL, "--model", "centroid", "--data", "breast_cancer", "--cost", "none")["result"]
    told = {"words": "class means", "convex": True, "kind": "Centroid"}
    assert told.items() <= found["model"].items()  # type: ignore[index]


def test_a_rival_is_one_file(tmp_path: Path) -> None:
    """By any capitals, and after ours where all play; its label and colour are in the result."""
    (seen_through_links(tmp_path, "train", "baselines") / "still.py").write_text(RIVAL)
    found = run(tmp_path, "compare", "--nodes", "4", "--rounds", "3", "--seeds", "1", "--entrants", "ours,STILL")
    assert [row["entrant"] for row in found["result"]["summary"]] == ["Ours", "Still"]  # type: ignore[index]
    assert found["looks"]["Still"] == {"colour": "#123456", "label": "nobody moves"}  # type: ignore[index]


def test_a_spec_loads_no_numerical_library() -> None:
    """Options, config.yaml and --help are ready before numpy is."""
    code = """
import sys
from equipoise.train.spec import CompareSpec, TrainSpec
TrainSpec(crash=["3@4"], loss="bursts:0.1,0.5"), CompareSpec()
print([name for name in ("numpy", "numba", "scipy", "sklearn", "torch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
