"""A million rows of a hundred columns in ten CSV files: memory and CPU-seconds, beside scikit-learn on the pooled rows.

    .venv/bin/python benchmarks/train/own_files.py             # some minutes, 0.6 GB of disk for the files
    .venv/bin/python benchmarks/train/own_files.py --quick     # 50,000 rows
    .venv/bin/python benchmarks/train/own_files.py --folder DIR  # keeps the files there, and takes those that are there
    .venv/bin/python benchmarks/train/own_files.py --profile   # also: where the time goes

96 columns of numbers (every tenth of whole numbers, one cell in a hundred empty), three of text with eight values each,
and a label with about a tenth of positives; files differ in size and in where their numbers lie. Ours is what the command
does: each file is a centre, a schema is agreed, a fifth of each file is held out, `class_weight` is balanced. scikit-learn
gets the same rows from pandas.read_csv, pooled, through SimpleImputer, StandardScaler and OneHotEncoder, and the same
loss: the same ridge (a column of ones is the bias) and the same weights of classes.

Every contestant has a process of its own, so that its peak memory is its own; Python and its libraries are in it.
CPU-seconds are of all threads, after kernels are compiled. The gap is of the loss on the pooled rows above the optimum,
as a part of the one at 0.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("EQUIPOISE_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from equipoise.data.split import hold_out
from equipoise.train import Softmax, TrainSpec

Floats = NDArray[np.float64]
FILES, NUMBERS, TEXTS, VALUES = 10, 96, 3, 8
COLUMNS = NUMBERS + TEXTS + 1
MISSING = 0.01
REG, HELD_OUT = 1e-3, 0.2  # defaults of ours
MEMORY_ASKED = 2.5  # times all cells as float64
PEERS = ("saga", "SGD")
WORDS = np.array(["north", "south", "east", "west", "centre", "coast", "hills", "islands"])


def write(folder: Path, rows: int) -> None:
    """The ten files, from 0.55 to 1.45 times as large as their mean."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import csv

    rng = np.random.default_rng(0)
    weights, effects = rng.standard_normal(NUMBERS) / 8.0, rng.standard_normal((TEXTS, VALUES)) / 3.0
    sizes = np.diff(np.round(np.cumsum([0.0, *np.linspace(0.55, 1.45, FILES)]) * rows / FILES).astype(int))
    for place, size in enumerate(sizes.tolist()):
        shift = rng.standard_normal(NUMBERS) / 4.0
        X = rng.standard_normal((size, NUMBERS)) + 0.7 * rng.standard_normal((size, 1)) + shift
        picked = rng.integers(VALUES, size=(size, TEXTS))
        score = X @ weights + sum(effects[k][picked[:, k]] for k in range(TEXTS)) - 2.6
        positive = rng.random(size) < 1.0 / (1.0 + np.exp(-score))
        columns: dict[str, Any] = {}
        for k in range(NUMBERS):
            values = np.round(20.0 * X[:, k]) if k % 10 == 9 else np.round(X[:, k], 4)
            columns[f"x{k}"] = pa.array(values, mask=rng.random(size) < MISSING)
        columns |= {f"t{k}": WORDS[picked[:, k]] for k in range(TEXTS)}
        columns["answer"] = np.where(positive, "yes", "no")
        csv.write_csv(pa.table(columns), folder / f"centre{place}.csv", csv.WriteOptions(quoting_style="none"))


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("centre*.csv"))


def peak() -> float:
    """GB, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Parts:
    """CPU-seconds of the parts of a run, without those of parts inside them; and the peak of memory after each."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.inside: list[float] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.process_time()
        self.inside.append(0.0)
        yield
        took = time.process_time() - began
        self.spent[name] = self.spent.get(name, 0.0) + took - self.inside.pop()
        self.peaks[name] = peak()
        if self.inside:
            self.inside[-1] += took

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Count what this function, or method, takes."""
        wrapped: Any = getattr(owner, name)
        plain: Callable[..., Any] = wrapped

        def timed(*given: Any, **named: Any) -> Any:
            with self.part(part):
                return plain(*given, **named)

        setattr(owner, name, timed)

    def show(self) -> None:
        for name, took in self.spent.items():
            print(f"    {name:28}{took:>7.1f}{self.peaks[name]:>8.2f}", flush=True)


def show(who: str, parts: Parts, rounds: str, gap: float, scores: tuple[float, float], verdict: str = "") -> None:
    """A line for a contestant, and one for each part; `scores` are balanced accuracy and accuracy."""
    balanced, right = scores
    print(
        f"{who:32}{sum(parts.spent.values()):>7.1f}{peak():>8.2f}{rounds:>8}{gap:>10.1e}{balanced:>10.2%}{right:>10.2%}"
        f"  {verdict}"
    )
    parts.show()


def ours(folder: Path, profile: bool) -> None:
    """What the command does; leaves the optimum for the others in the folder."""
    from equipoise.data.own_files import OwnFiles
    from equipoise.train import book
    from equipoise.train.own_data import OwnData

    with tempfile.TemporaryDirectory() as small:
        write(Path(small), 2_000)
        spec = TrainSpec(files=[str(path) for path in files_of(Path(small))], label="answer", class_weight="balanced")
        spec.build().run().certificate()  # compiles
    parts = Parts()
    parts.watch(OwnFiles, "read", "reading")
    parts.watch(OwnFiles, "agreed", "agreeing on a schema")
    parts.watch(OwnData, "of", "schema against pooled rows")
    parts.watch(import_module("equipoise.train.build"), "rows_of", "encoding")
    parts.watch(book, "optimal_model", "centralised optimum")
    parts.watch(book.Book, "write", "history: gaps of all models")
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    spec = TrainSpec(files=[str(path) for path in files_of(folder)], label="answer", class_weight="balanced")
    with parts.part("model: checks"):
        job = spec.build()
    with parts.part("rounds, and scores at the end"):
        run = job.run()
    with parts.part("certificate"):
        certificate = run.certificate()
    profiler.disable()
    best = run.model_optimum
    assert best is not None and run.models is not None and job.held_out is not None
    table: Any = run.beside["scores"]
    worst = next(row for row in table if row["model"] == "worst centre")
    verdict = "certificate passed" if certificate.passed else f"certificate: {certificate!r}"
    scores = worst["balanced_accuracy"], worst["accuracy"]
    show("ours (worst centre)", parts, str(run.rounds), run.relative_gap, scores, verdict)
    rows = run.history_rows()
    print("    gap by round: " + ", ".join(f"{row['round']} {row['relative_gap']:.1e}" for row in rows), flush=True)
    (folder / "optimum.json").write_text(json.dumps([best.loss, best.loss_at_zero]))
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def theirs(name: str, folder: Path) -> None:
    """scikit-learn's pipeline on the pooled rows."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    parts = Parts()
    with parts.part("pandas.read_csv"):
        tables = [pd.read_csv(path) for path in files_of(folder)]
        pooled = pd.concat(tables, ignore_index=True)
    sizes = np.cumsum([0, *map(len, tables)])
    del tables
    with parts.part("encoding"):
        answers = (pooled.pop("answer") == "yes").to_numpy(np.int64)
        pairs = [hold_out(answers[a:b], HELD_OUT, 0) for a, b in pairwise(sizes)]
        train, held = (np.concatenate([at + pair[k] for at, pair in zip(sizes, pairs, strict=False)]) for k in range(2))
        columns = [*pooled.columns]
        encoder = ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), columns[:NUMBERS]),
                ("texts", OneHotEncoder(), columns[NUMBERS:]),
                ("bias", FunctionTransformer(lambda column: np.ones((len(column), 1))), columns[:1]),
            ],
            sparse_threshold=0.0,
        )
        X, X_held = encoder.fit_transform(pooled.iloc[train]), encoder.transform(pooled.iloc[held])
        y, y_held = answers[train], answers[held]
        del pooled
    if name == "saga":  # the ridge of two classes is half of one of their difference
        fitted: Any = LogisticRegression(
            solver="saga", C=2.0 / (REG * len(y)), fit_intercept=False, class_weight="balanced", random_state=0
        )
    else:
        fitted = SGDClassifier(
            loss="log_loss", alpha=REG / 2, fit_intercept=False, class_weight="balanced", random_state=0
        )
    with warnings.catch_warnings(record=True) as said, parts.part("fitting"):
        warnings.simplefilter("always")
        fitted.fit(X, y)
    full = "LogisticRegression(saga)" if name == "saga" else "SGDClassifier(log_loss)"
    verdict = "did not converge" if any("converge" in str(one.message) for one in said) else ""
    guessed = fitted.predict(X_held)
    scores = float(balanced_accuracy_score(y_held, guessed)), float(np.mean(guessed == y_held))
    w = fitted.coef_.ravel()
    best, at_zero = json.loads((folder / "optimum.json").read_text())
    weights = len(y) / (2.0 * np.bincount(y))
    model = Softmax([(X[:, :-1], y)], reg=REG, class_weight=weights)
    gap = (model.total(np.stack([-w / 2, w / 2], axis=1).ravel())[0] - best) / (at_zero - best)
    show(full, parts, str(int(np.max(fitted.n_iter_))), gap, scores, verdict)


def play(rows: int, folder: Path, profile: bool) -> None:
    """Every contestant on the files of this folder, which are written if there are none."""
    if not files_of(folder):
        subprocess.run([sys.executable, __file__, "--write", str(rows), "--folder", str(folder)], check=True)
    size = sum(path.stat().st_size for path in files_of(folder)) / 1e9
    floats = 8 * rows * COLUMNS / 2**30
    print(f"{rows:,} rows, {COLUMNS} columns, {FILES} files of {size:.2f} GB in all; as float64 {floats:.2f} GB,")
    print(f"{MEMORY_ASKED:g} times that {MEMORY_ASKED * floats:.2f} GB")
    print(f"\n{'':32}{'CPU s':>7}{'GB':>8}{'rounds':>8}{'gap':>10}{'balanced':>10}{'right':>10}", flush=True)
    for who in ("ours", *PEERS):
        also = ["--profile"] if profile and who == "ours" else []
        subprocess.run([sys.executable, __file__, "--here", who, "--folder", str(folder), *also], check=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--quick", action="store_true", help="50,000 rows")
    options.add_argument("--folder", type=Path, help="of the files; a temporary one unless given")
    options.add_argument("--profile", action="store_true", help="where the time of ours goes")
    options.add_argument("--here", choices=("ours", *PEERS), help="one contestant in this process")
    options.add_argument("--write", type=int, help="write the files, so many rows")
    given = options.parse_args()
    if given.write:
        write(given.folder, given.write)
    elif given.here == "ours":
        ours(given.folder, given.profile)
    elif given.here:
        theirs(given.here, given.folder)
    else:
        rows = 50_000 if given.quick else given.rows
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            play(rows, folder, given.profile)


if __name__ == "__main__":
    main()
