"""A hundred thousand one-hot columns: memory and CPU-seconds of each model, beside scikit-learn on the pooled rows.

    .venv/bin/python benchmarks/train/sparse.py             # some minutes
    .venv/bin/python benchmarks/train/sparse.py --quick     # ten thousand columns
    .venv/bin/python benchmarks/train/sparse.py --loss 0.1  # also: on a network that loses a tenth of the messages
    .venv/bin/python benchmarks/train/sparse.py --profile   # also: where the time goes

Five text columns of 20,000 values each, drawn by a power law, are one-hot: 200,000 rows over five centres that all hear
each other, 20,000 more rows held out. Answers come from a model with these columns and noise. X stays in CSR from the
start to the certificate. Every contestant has a process of its own, so that its peak memory is its own; it includes
Python, the data and, for ours, history, the centralised optimum and the certificate. CPU-seconds are of all threads,
after the data is there and kernels are compiled.

The gap is of the loss on the pooled rows above the optimum, as a part of the one at 0. LogisticRegression and Ridge are
given the same loss as ours, with a column of ones for the bias; LinearSVC has another hinge, and only its score is to be
compared.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("EQUIPOISE_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from equipoise.train import Faults, LeastSquares, Model, Network, Problem, SmoothSVM, Softmax, solve
from equipoise.train.truth import optimal_model

Floats = NDArray[np.float64]
CENTRES, TEXTS = 5, 5
REG = {"LeastSquares": 1e-3, "Softmax": 1e-3, "SmoothSVM": 1e-3}
PEERS = {"LeastSquares": "Ridge", "Softmax": "LogisticRegression", "SmoothSVM": "LinearSVC"}
MEMORY_ASKED = 2.0  # GB
TARGET = 1e-6  # relative gap
ROUNDS = 5000


@dataclass(frozen=True)
class Rows:
    """One-hot features, classes 0 and 1, and numbers to be predicted from the same columns."""

    X: Any
    classes: Floats
    numbers: Floats

    def answers(self, model: str) -> Floats:
        if model == "LeastSquares":
            return self.numbers
        return self.classes if model == "Softmax" else 2 * self.classes - 1


def draw(rows: int, values: int) -> tuple[Rows, Rows]:
    """Rows to train on, and a tenth as many more."""
    rng = np.random.default_rng(0)
    often = 1.0 / np.arange(1, values + 1)
    many = rows + rows // 10
    picked = [k * values + rng.choice(values, many, p=often / often.sum()) for k in range(TEXTS)]
    places = np.stack(picked, axis=1).astype(np.int32).ravel()
    ends = np.arange(0, TEXTS * many + 1, TEXTS, dtype=np.int32)
    X = csr_array((np.ones(len(places)), places, ends), shape=(many, TEXTS * values))
    score = X @ rng.standard_normal(TEXTS * values) - 1.0
    classes = (rng.random(many) < 1.0 / (1.0 + np.exp(-score))).astype(np.float64)
    numbers = score + rng.standard_normal(many)
    return Rows(X[:rows], classes[:rows], numbers[:rows]), Rows(X[rows:], classes[rows:], numbers[rows:])


def made(name: str, rows: Rows) -> Model:
    """Our model, on rows dealt out evenly."""
    answers = rows.answers(name)
    shards = [(rows.X[some], answers[some]) for some in np.array_split(np.arange(len(answers)), CENTRES)]
    if name == "Softmax":
        return Softmax(shards, reg=REG[name])
    return SmoothSVM(shards, reg=REG[name]) if name == "SmoothSVM" else LeastSquares(shards, reg=REG[name])


def score(name: str, model: Model, y: Floats, held_out: Rows) -> str:
    """Right answers on rows that nobody trained on, or the error."""
    answers = held_out.answers(name)
    if isinstance(model, LeastSquares):
        return f"error {model.error(y, held_out.X, answers):.4f}"
    found = model.accuracy(y, held_out.X, answers)
    return f"right {found:.2%}"


def show(who: str, cpu: float, rounds: str, gap: str, score: str, verdict: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{who:20}{cpu:>9.1f}{peak:>8.2f} {'+' if peak < MEMORY_ASKED else '-'}{rounds:>9}{gap:>10}{score:>16}  {verdict}",
        flush=True,
    )


def ours(name: str, rows: int, values: int, loss: float, profile: bool) -> None:
    train, held_out = draw(rows, values)
    few, _ = draw(500, 40)
    network, faults = Network.complete(CENTRES), Faults(loss=loss) if loss else None
    solve(Problem(model=made(name, few)), network, rounds=5, faults=faults)  # compiles
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    began = time.process_time()
    model = made(name, train)
    run = solve(Problem(model=model), network, rounds=ROUNDS, target=TARGET, faults=faults)
    certificate = run.certificate()
    spent = time.process_time() - began
    profiler.disable()
    assert run.models is not None
    verdict = "certificate passed" if certificate.passed else f"certificate: {certificate!r}"
    parts = f"{run.start_seconds:.1f} s before the first round, {len(run.history['round'])} rows of history"
    who = name + (f", {loss:.0%} lost" if loss else "")
    show(who, spent, str(run.rounds), f"{run.relative_gap:.1e}", score(name, model, run.models[0], held_out), verdict)
    print(f"{'':20} {parts}", flush=True)
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


def theirs(name: str, rows: int, values: int) -> None:
    train, held_out = draw(rows, values)
    N, answers = rows, train.answers(name)
    X, X_held_out = (hstack([part.X, np.ones((part.X.shape[0], 1))], format="csr") for part in (train, held_out))
    began = time.process_time()
    if name == "LeastSquares":
        X, X_held_out = train.X, held_out.X
        fitted: Any = Ridge(alpha=REG[name] * N, fit_intercept=False, solver="sparse_cg", tol=1e-6)
    elif name == "Softmax":  # the ridge of two classes is half of one of their difference
        fitted = LogisticRegression(
            solver="saga", C=2.0 / (REG[name] * N), fit_intercept=False, tol=1e-4, max_iter=200, random_state=0
        )
    else:
        fitted = LinearSVC(C=1.0 / (REG[name] * N), loss="squared_hinge", fit_intercept=False, random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted.fit(X, answers)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    w, gap = fitted.coef_.ravel(), "-"
    if name != "SmoothSVM":
        model = made(name, train)
        y = w if name == "LeastSquares" else np.stack([-w / 2, w / 2], axis=1).ravel()
        best = optimal_model(model)
        gap = f"{(model.total(y)[0] - best.loss) / (best.loss_at_zero - best.loss):.1e}"
    guessed, meant = fitted.predict(X_held_out), held_out.answers(name)
    found = np.sqrt(np.mean((guessed - meant) ** 2)) if name == "LeastSquares" else np.mean(guessed == meant)
    shown = f"error {found:.4f}" if name == "LeastSquares" else f"right {found:.2%}"
    steps = "-" if fitted.n_iter_ is None else str(int(np.max(fitted.n_iter_)))
    verdict = "did not converge" if any("converge" in str(one.message) for one in said) else ""
    print(f"{PEERS[name]:20}{spent:>9.1f}{peak:>8.2f}  {steps:>9}{gap:>10}{shown:>16}  {verdict}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--values", type=int, default=20_000, help="of each of the five text columns (20,000)")
    options.add_argument("--loss", type=float, default=0.0, help="also on a network that loses this part of messages")
    options.add_argument("--quick", action="store_true", help="ten thousand columns, 20,000 rows")
    options.add_argument("--profile", action="store_true", help="where the time goes")
    options.add_argument("--here", help="one contestant in this process")
    given = options.parse_args()
    rows, values = (20_000, 2_000) if given.quick else (given.rows, given.values)
    if given.here in PEERS:
        return ours(given.here, rows, values, given.loss, given.profile)
    if given.here:
        return theirs({peer: name for name, peer in PEERS.items()}[given.here], rows, values)
    columns = TEXTS * values
    print(f"{rows:,} rows, {columns:,} one-hot columns, {CENTRES} centres; as arrays {8e-9 * rows * columns:,.0f} GB")
    print(f"\n{'':20}{'CPU s':>9}{'GB':>8}  {'rounds':>9}{'gap':>10}{'held out':>16}", flush=True)
    same = ["--rows", str(rows), "--values", str(values)]
    for name, peer in PEERS.items():
        runs = [[name], *([[name, "--loss", str(given.loss)]] if given.loss else []), [peer]]
        for one in runs:
            profile = ["--profile"] if given.profile and one[0] == name else []
            subprocess.run([sys.executable, __file__, "--here", *one, *same, *profile], check=True)
    return None


if __name__ == "__main__":
    main()
