"""Runs of the command in this process, on small files of the user's own."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from equipoise.cli import main


def equipoise(folder, *arguments):
    """Run the command in this process, in a folder: what it printed and its exit code."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["equipoise", *map(str, arguments)]
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as leaving,
        ):
            main()
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(arguments, leaving.value.code or 0, out.getvalue(), err.getvalue())


def runs(folder):
    return sorted((folder / "runs").glob("train-*")) if (folder / "runs").exists() else []


def trained(folder, *arguments, code=0):
    """Train with --json; the content of result.json, and what was said on standard error."""
    before = runs(folder)
    done = equipoise(folder, "train", *arguments, "--json")
    assert done.returncode == code, done.stderr
    (made,) = [run for run in runs(folder) if run not in before]
    content = json.loads(done.stdout)
    assert content["result"] == json.loads((made / "result.json").read_text())["result"]
    return content, done.stderr, made


def frame(rows, seed, rare=0.4):
    """Two numbers, a colour and an answer that depends on them; some cells are empty."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"x": rng.normal(5, 10, rows), "z": rng.exponential(size=rows)})
    found["colour"] = rng.choice(["red", "green", "blue"], rows, p=[0.6, 0.3, 0.1])
    score = 0.4 * (found["x"] - 5) + 2 * (found["colour"] == "red") - found["z"] + 0.5 * rng.logistic(size=rows)
    found["answer"] = np.where(score > np.quantile(score, 1 - rare), "yes", "no")
    for name in ("x", "colour"):
        found.loc[rng.random(rows) < 0.05, name] = np.nan
    return found
