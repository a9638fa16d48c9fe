"""Five messy files of 50,000 rows: one command trains on them as scikit-learn does on the pooled rows, which stay apart."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import equipoise
from equipoise.data.schema import Schema
from equipoise.train import TrainSpec

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from train_on_your_files import customers, write

NUMBERS, TEXTS = ["age", "income", "visits"], ["plan", "city"]


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """The files; each as pandas reads it; and the folder of a run from the command line that trains on all of their rows."""
    folder = tmp_path_factory.mktemp("messy")
    files = write(folder / "files")
    ways = {"bonn.csv": {"sep": ";", "decimal": ","}}
    frames = [pd.read_csv(file, **ways.get(Path(file).name, {})) for file in files]
    words = ["train", str(folder / "files"), "--label", "churn", "--drop", "id", "--class-weight", "balanced"]
    words += ["--min-count", "1", "--held-out", "0", "--out", str(folder / "runs")]
    code = "from equipoise.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (folder / "runs").iterdir()
    return files, frames, run


@pytest.fixture(scope="module")
def new():
    """20,000 other customers."""
    return customers(20_000, 600, np.random.default_rng(99))


def pooled(frame: pd.DataFrame, C: float):
    """What a scikit-learn user would fit if all rows were in one place."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer((numbers, NUMBERS), (texts, TEXTS))
    model = LogisticRegression(C=C, class_weight="balanced", max_iter=5000)
    return make_pipeline(columns, model).fit(frame, frame["churn"])


def schema_of(run: Path) -> Schema:
    return Schema.from_text((run / "schema.json").read_text(encoding="utf-8"))


def test_the_files_are_as_messy_as_promised(messy):
    """50,000 rows, 3 % positives, two centres of one class, missing values, ids."""
    _, frames, _ = messy
    every = pd.concat(frames)
    assert len(every) == 50_000
    assert (every["churn"] == "yes").mean() == pytest.approx(0.03, abs=1e-3)
    assert sorted(frame["churn"].nunique() for frame in frames) == [1, 1, 2, 2, 2]
    assert (every[NUMBERS + TEXTS].isna().mean() > 0.03).all()
    assert all(frame["id"].is_unique for frame in frames)


@pytest.mark.parametrize("C", ["the same", 1.0])
def test_predictions_are_those_of_the_pooled_pipeline(messy, new, C):
    """Balanced accuracy within half a point, and the same answer on 99 % of new rows: with the ridge of the run, and with
    scikit-learn's own default."""
    _, frames, run = messy
    ours = equipoise.load(run).to_sklearn()
    theirs = pooled(pd.concat(frames), ours[-1].C if C == "the same" else C)
    said, expected = ours.predict(new), theirs.predict(new)
    scores = [balanced_accuracy_score(new["churn"], answers) for answers in (said, expected)]
    assert scores[0] == pytest.approx(scores[1], abs=0.005) and scores[1] > 0.7
    assert (said == expected).mean() >= 0.99


def test_predict_answers_as_the_pooled_pipeline(messy, new, tmp_path):
    """The same from the command line, columns in another order."""
    _, frames, run = messy
    new[[*reversed(NUMBERS + TEXTS), "id"]].to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", str(run), str(tmp_path / "new.csv"), "--out", str(tmp_path / "said.csv")]
    code = "from equipoise.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = pd.read_csv(tmp_path / "said.csv")
    assert (said["churn"].to_numpy() == pooled(pd.concat(frames), 1.0).predict(new)).mean() >= 0.99


def test_classes_and_categories_are_the_pooled_ones(messy):
    """Exactly, with --min-count 1: names, their order, and how often each occurs."""
    _, frames, run = messy
    schema, every = schema_of(run), pd.concat(frames)
    theirs = pooled(every, 1.0)
    assert list(schema.classes) == theirs.classes_.tolist()
    assert dict(zip(schema.classes, schema.class_counts, strict=True)) == Counter(every["churn"])
    encoder = theirs[0].named_transformers_["pipeline-2"][-1]
    fitted = {column.name: column for column in schema.texts}
    for name, categories in zip(TEXTS, encoder.categories_, strict=True):
        assert list(fitted[name].categories) == categories.tolist()
        assert fitted[name].counts == Counter(every[name].dropna())
        assert (fitted[name].other, fitted[name].missing) == (0, every[name].isna().sum())


def test_by_default_categories_are_those_that_ten_rows_of_a_file_have(messy):
    """The pooled ones after the same rule for each file; the rest is counted as other. Half of the rows: more is rare."""
    files, _, _ = messy
    spec = TrainSpec(files=files, label="churn", drop=["id"], held_out=0.5, rounds=1)
    job = spec.build()
    from equipoise.train.rows import own_files

    own = own_files(spec)
    for column in job.own.schema.texts:
        named, other = Counter(), 0
        for table, rows in zip(own.tables, own.train, strict=True):
            cells = table.columns[column.name]
            counts = Counter(cells.levels[code] for code in cells.values[rows] if code >= 0)
            named.update({value: count for value, count in counts.items() if count >= 10})
            other += sum(count for count in counts.values() if count < 10)
        assert (column.counts, column.other) == (dict(sorted(named.items())), other)
    assert any(column.other for column in job.own.schema.texts)


def test_means_and_deviations_are_the_correctly_rounded_ones(messy):
    """To the bit what fractions give for the pooled rows, empty cells filled; scikit-learn's own within 1e-12."""
    _, frames, run = messy
    schema, every = schema_of(run), pd.concat(frames)
    imputer, scaler = pooled(every, 1.0)[0].named_transformers_["pipeline-1"]
    for at, column in enumerate(schema.numbers):
        present = [Fraction(value) for value in every[column.name].dropna()]
        fill = float(sum(present) / len(present))
        filled = present + [Fraction(fill)] * (len(every) - len(present))
        mean = sum(filled) / len(filled)
        variance = sum(value * value for value in filled) / len(filled) - mean * mean
        assert (column.fill, column.mean) == (fill, float(mean))
        with localcontext(prec=60):
            assert column.deviation == float((Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt())
        theirs = imputer.statistics_[at], scaler.mean_[at], scaler.scale_[at]
        assert (column.fill, column.mean, column.scale) == pytest.approx(theirs, rel=1e-12)


def test_the_certificate_says_how_useful_the_model_is(messy):
    """Schema like the pooled one; balanced error far below a coin's, on rows held out in every file."""
    files, _, _ = messy
    run = TrainSpec(files=files, label="churn", drop=["id"], class_weight="balanced", target=1e-3).build().run()
    certificate = run.certificate()
    assert certificate.passed, certificate
    assert certificate["schema"].value == 0 and certificate["baseline"].value < 0.35
    scores = {row["model"]: row for row in run.document().rows("scores")}
    assert set(scores) == {"best centre", "median centre", "worst centre", "centralised", "always no"}
    assert scores["always no"]["accuracy"] > 0.95 > scores["worst centre"]["accuracy"]
    assert scores["always no"]["balanced_accuracy"] == 0.5 < scores["worst centre"]["balanced_accuracy"] - 0.15
