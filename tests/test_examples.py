"""Every script of examples/ runs in its quick form, prints what its first line promises, and is listed in the docs."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shown import ROOT, text_of

EXAMPLES = ROOT / "examples"
LONGEST = 60  # lines: an example is read before it is run

# What each prints, beside a certificate that passed.
PRINTS = {
    "train_digits.py": ["converged after", "sum 200 CPUs", "budget    passed"],
    "train_on_your_files.py": ["best centre", "always no", "balanced accuracy on new rows: 0.7"],
    "train_your_own_cost.py": ["sum 180.0", "price of a core"],
    "train_your_own_model.py": ["least squares", "Huber"],
    "train_on_a_hostile_network.py": ["centre 7 crashes", "the network heals", "shares + in flight == budget: True"],
    "train_on_ray.py": ["on Ray on this machine", "shares the same: True", "models the same: True"],
    "share_your_policy.py": ["LeastSlack", "Hybrid - LeastSlack"],
    "share_compare.py": ["Uniform", "Hybrid - EDF"],
    "place_your_cluster.py": ["no schedule is worth more", "Job llm under PDORS", "every cell, recomputed: True"],
    "place_your_placer.py": ["LosesMost", "over FIFO"],
    "interop_sklearn_networkx_pandas.py": ["'Oslo'", "relative_gap", "LinearSVC", "figure with 4 panels"],
    "serve_client.py": ["urgent: pending (no_capacity)", "why: When it came", "six slots later: finished"],
}
PARTS = ("shortest_first.py", "train_perceptron.py")  # for --policy-file and --work: not run by themselves
SCRIPTS = tuple(sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in PARTS))


def run(name: str, *options: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "MPLBACKEND": "agg"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_and_its_certificate_passes(name, tmp_path):
    """In its quick form, from a folder that is not the repository's."""
    quick = ["--quick"] if '"--quick"' in (EXAMPLES / name).read_text(encoding="utf-8") else []
    printed = run(name, *quick, folder=tmp_path)
    assert "certificate passed: True" in printed and "certificate passed: False" not in printed
    for words in PRINTS[name]:
        assert words in printed, printed


def test_robust_regression_is_nearer_to_the_truth(tmp_path):
    """train_your_own_model.py: one centre measures 30 too much; Huber's loss bears it, squares do not."""
    squares, huber = map(float, re.findall(r"([\d.]+) from the truth", run("train_your_own_model.py", folder=tmp_path)))
    assert huber < 0.1 < squares


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_says_what_it_shows(name):
    """A docstring with one line that ends in a full stop and the command to run it; at most sixty lines."""
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source))
    assert said.partition("\n")[0].endswith(".") and f"python examples/{name}" in said
    assert len(source.splitlines()) < LONGEST


def test_the_docs_list_every_example_with_its_own_words():
    """docs/examples.md has a row a file, and a script's row is the first line of its docstring."""
    rows = dict(re.findall(r"^\| \[([\w.]+)\]\(\.\./examples/\1\) \| (.*) \|$", text_of("docs/examples.md"), re.M))
    assert set(rows) == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".yaml")}
    for name in SCRIPTS:
        said = ast.get_docstring(ast.parse((EXAMPLES / name).read_text(encoding="utf-8")))
        assert rows[name] == said.partition("\n")[0]
