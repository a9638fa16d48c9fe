"""The cache of compiled kernels is never stale, and everything runs without compiling as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.kernels import generated

LOWER = """
from equipoise.kernels import kernel

UNIT = 10

@kernel
def lowest(x):
    return x + 1
"""
MIDDLE = """
import lower
from equipoise.kernels import kernel

@kernel
def middle(x):
    return lower.lowest(x) * 2
"""
UPPER = """
import sys
from equipoise.kernels import kernel
from lower import UNIT
from middle import middle

@kernel
def upper(x):
    return middle(x) + UNIT

print(upper(float(sys.argv[1]) if "." in sys.argv[1] else int(sys.argv[1])), sum(upper.stats.cache_hits.values()))
"""


def run_upper(folder: Path, given: str = "3") -> tuple[str, int]:
    """What `upper(given)` is in a process of its own, and how often it came from the cache on disk."""
    done = subprocess.run(
        [sys.executable, "upper.py", given], cwd=folder, capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    value, hits = done.stdout.split()
    return value, int(hits)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in (("lower", LOWER), ("middle", MIDDLE), ("upper", UPPER)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_a_changed_callee_is_compiled_anew(tree: Path) -> None:
    """Two files below the kernel that is called: numba alone would look at neither, and answer 18 for ever."""
    assert run_upper(tree) == ("18", 0)
    assert run_upper(tree) == ("18", 1)  # nothing changed: from the cache
    (tree / "lower.py").write_text(LOWER.replace("x + 1", "x + 2"))
    assert run_upper(tree) == ("20", 0)
    assert run_upper(tree) == ("20", 1)


def test_a_changed_constant_of_another_file_is_compiled_anew(tree: Path) -> None:
    """A kernel freezes the values it reads; one that is imported stands in another file."""
    assert run_upper(tree) == ("18", 0)
    (tree / "lower.py").write_text(LOWER.replace("UNIT = 10", "UNIT = 11"))
    assert run_upper(tree) == ("19", 0)


def test_a_comment_in_another_file_changes_nothing(tree: Path) -> None:
    """Only what is computed counts: a new line above the callee does not compile its callers again."""
    assert run_upper(tree) == ("18", 0)
    (tree / "lower.py").write_text("# a comment\n" + LOWER)
    assert run_upper(tree) == ("18", 1)


def test_a_cache_that_knows_modules_of_another_version_is_made_anew(tree: Path) -> None:
    """A kernel's types are kept by their module's name: after an upgrade that module may be gone."""
    kinds = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    x: int\n"
    upper = (
        "from {} import Pair\nfrom equipoise.kernels import kernel\n\n@kernel\ndef upper(p):\n    return p.x + 1\n\n"
    )
    upper += "print(upper(Pair(3)), sum(upper.stats.cache_hits.values()))\n"
    for old, new in (("kinds", "other"), ("other", "kinds")):
        (tree / f"{old}.py").write_text(kinds)
        (tree / f"{new}.py").unlink(missing_ok=True)
        (tree / "upper.py").write_text(upper.format(old))
        assert run_upper(tree) == ("4", 0)


def test_two_processes_that_compile_at_once_never_run_each_others_code(tree: Path) -> None:
    """Both read an empty index, one compiles for a whole number, the other for a float; the first writes its index last."""
    assert run_upper(tree, "3") == ("18", 0)
    first = {path: path.read_bytes() for path in tree.rglob("*.nbi")}
    assert first
    for path in first:
        path.unlink()
    assert run_upper(tree, "3.5") == ("19.0", 0)
    for path, index in first.items():
        path.write_bytes(index)
    assert run_upper(tree, "3") == ("18", 1)


def test_generated_kernels_of_one_name_have_names_of_their_own() -> None:
    """Kernels call each other by name: what is compiled for three columns must not be called for four, also not by a kernel
    whose own text is the same."""

    def made(step: int) -> tuple[str, str]:
        add = generated("add", ["def add(x):", f"    return x + {step}"], {}, __name__, __file__)
        twice = generated("twice", ["def twice(x):", "    return add(add(x))"], {"add": add}, __name__, __file__)
        return add.__qualname__, twice.__qualname__

    assert made(3) == made(3)
    assert not set(made(3)) & set(made(4))


@pytest.mark.parametrize(
    ("words", "sound"),
    [
        (("train", "--nodes", "3", "--samples", "60", "--rounds", "20"), "budget"),
        (("train", "--nodes", "3", "--samples", "60", "--rounds", "20", "--loss", "0.1"), "budget"),
        (("share", "--policies", "SDF,UARA+LARA", "--loads", "4", "--seeds", "2", "--oracle", "1"), "energy"),
        (
            ("place", "--draw", "2", "--policy", "pdors", "--no-report", "--replan", "1", "--prices", "replay"),
            "capacity",
        ),
    ],
    ids=["train", "train-with-losses", "share", "place"],
)
def test_a_verb_runs_without_compiling(words: tuple[str, ...], sound: str, tmp_path: Path) -> None:
    """NUMBA_DISABLE_JIT=1 makes every kernel a Python function that a debugger can step through."""
    command = [sys.executable, "-m", "equipoise", *words, "--json", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})
    assert done.returncode in (0, 1), done.stderr  # 1: so few rounds reach no target
    checks = {check["name"]: check["passed"] for check in json.loads(done.stdout)["certificate"]["checks"]}
    assert checks[sound]
