"""Peers of the train loop: tvopt in an environment of its own, and CVXPY (Clarabel) as the centralised solver.

Played by speed.py; nothing here is run by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from bare import Floats
from instances import Instance

TVOPT = "0.2.7"
PLAYER = Path(__file__).with_name("tvopt_rounds.py")


def tvopt_python(folder: Path) -> Path:
    """An interpreter with tvopt beside our versions of NumPy and SciPy; the environment is made when missing.

    tvopt asks for a documentation generator too; it runs without, so dependencies are named here instead.
    """
    home = folder / f"tvopt-{TVOPT}-numpy-{np.__version__}-python-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / "ready").exists():
        print(f"making an environment for tvopt {TVOPT} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"numpy=={np.__version__}", f"scipy=={scipy.__version__}"], check=True)
        subprocess.run([*install, "--no-deps", f"tvopt=={TVOPT}"], check=True)
        (home / "ready").touch()
    return python


class Tvopt:
    """tvopt with one instance loaded, waiting for rounds to play."""

    def __init__(self, process: subprocess.Popen[str], answer: Path) -> None:
        self.process, self.answer = process, answer

    def seconds(self, rounds: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("tvopt ended early; its message is above")
        return float(line)

    @property
    def models(self) -> Floats:
        """After the last rounds played."""
        return np.asarray(np.load(self.answer))


@contextmanager
def tvopt(python: Path, drawn: Instance, step: float, rate: float) -> Iterator[Tvopt]:
    """tvopt on this instance, on the same mixing matrix and steps as everybody."""
    with tempfile.TemporaryDirectory() as folder:
        file, answer = Path(folder) / "instance.npz", Path(folder) / "models.npy"
        W: Any = drawn.mixing_matrices(step)[0]
        np.savez(file, W=W.toarray(), H=drawn.hessians, s=drawn.slopes, rate=rate)
        command = [str(python), str(PLAYER), str(file), str(answer)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield Tvopt(process, answer)
            assert process.stdin is not None
            process.stdin.close()


def central_shares(a: Floats, c: Floats, lo: float, hi: float, budget: float) -> tuple[float, float, Floats]:
    """The CPU half by CVXPY: wall seconds of modelling and solving, Clarabel's own seconds, and the shares."""
    import cvxpy

    began = time.perf_counter()
    x = cvxpy.Variable(len(a))
    cost = 0.5 * cvxpy.sum_squares(cvxpy.multiply(np.sqrt(a), x - c))
    problem = cvxpy.Problem(cvxpy.Minimize(cost), [cvxpy.sum(x) == budget, x >= lo, x <= hi])
    problem.solve(solver=cvxpy.CLARABEL)
    return time.perf_counter() - began, float(problem.solver_stats.solve_time), np.asarray(x.value)


def central_model(X: Floats, t: Floats) -> tuple[float, float, Floats]:
    """Least squares on the pooled rows by CVXPY: wall seconds, Clarabel's own seconds, and the model."""
    import cvxpy

    began = time.perf_counter()
    rows, answers = X.reshape(-1, X.shape[-1]), t.ravel()
    y = cvxpy.Variable(rows.shape[1])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(rows @ y - answers) / (2 * len(answers))))
    problem.solve(solver=cvxpy.CLARABEL)
    return time.perf_counter() - began, float(problem.solver_stats.solve_time), np.asarray(y.value)
