"""`equipoise predict`, and the same model as a scikit-learn pipeline: right answers, or one line with the way out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

from equipoise import load
from equipoise.train.prediction import Trained
from refusals import refused
from small_files import equipoise, frame, runs, trained

OLD = Path(__file__).resolve().parent.parent / "recorded" / "0.1.0" / "train"
MODELS = ("softmax", "smooth_svm", "least_squares")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files to train on, and new rows with unseen and missing values."""
    folder = tmp_path_factory.mktemp("predict")
    for number in range(3):
        one = frame(80, number)
        one.to_csv(folder / f"c{number}.csv", index=False)
        one["size"] = 2 * one["x"].fillna(5) - one["z"]
        one.drop(columns="answer").to_csv(folder / f"n{number}.csv", index=False)
    new = frame(50, 9).drop(columns="answer")
    new.loc[0, "colour"] = "lilac"
    new.loc[1, ["x", "z", "colour"]] = np.nan
    new.to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run_of(folder):
    """The folder of a run with this model, made once."""
    made = {}

    def run_of(model):
        if model not in made:
            files, label = ("cn"[model == "least_squares"], "size" if model == "least_squares" else "answer")
            names = [f"{files}{number}.csv" for number in range(3)]
            made[model] = trained(folder, *names, "--label", label, "--model", model)[2]
        return made[model]

    return run_of


def predicted(folder, run, *arguments):
    """Predict; rows as they are printed, and what is said on standard error."""
    done = equipoise(folder, "predict", run, *arguments)
    assert done.returncode == 0, done.stderr
    return [*csv.DictReader(io.StringIO(done.stdout))], done.stderr


def fails(folder, run, *arguments):
    """Predict what cannot be; the one line that says why."""
    done = equipoise(folder, "predict", run, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.parametrize("centre", [None, 2])
@pytest.mark.parametrize("model", MODELS)
def test_the_command_and_the_pipeline_answer_alike(folder, run_of, model, centre):
    """Row by row: labels are equal; probabilities, margins and numbers to 1e-12. After joblib too."""
    rows, _ = predicted(folder, run_of(model), "new.csv", *([] if centre is None else ["--centre", centre]))
    pipeline = load(run_of(model)).to_sklearn(centre=centre)
    file = io.BytesIO()
    joblib.dump(pipeline, file)
    file.seek(0)
    pipeline, new = joblib.load(file), pd.read_csv(folder / "new.csv")
    if model == "least_squares":
        said = [float(row["size"]) for row in rows]
        np.testing.assert_allclose(said, pipeline.predict(new), rtol=1e-12, atol=1e-12)
        return
    assert [row["answer"] for row in rows] == pipeline.predict(new).tolist()
    assert len({row["answer"] for row in rows}) == 2
    if model == "softmax":
        said = [[float(row[f"probability of {name}"]) for name in pipeline.classes_] for row in rows]
        np.testing.assert_allclose(said, pipeline.predict_proba(new), rtol=0, atol=1e-12)
    else:
        said = [float(row["margin of yes"]) for row in rows]
        np.testing.assert_allclose(said, pipeline.decision_function(new), rtol=1e-12, atol=1e-12)


def test_it_agrees_with_scikit_learn_fitted_on_the_pooled_rows(folder, run_of):
    """The same features and as strong a ridge: at least 98 % of new rows have the same answer."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    pooled = pd.concat([pd.read_csv(folder / f"c{number}.csv") for number in range(3)])
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = ColumnTransformer(
        [("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["x", "z"]), ("text", text, ["colour"])]
    )
    central = make_pipeline(columns, LogisticRegression()).fit(pooled, pooled["answer"])
    rows, _ = predicted(folder, run_of("softmax"), "new.csv")
    same = np.mean([row["answer"] for row in rows] == central.predict(pd.read_csv(folder / "new.csv")))
    assert same >= 0.98


def test_other_orders_and_more_columns_are_of_no_account(folder, run_of):
    """Columns reversed, the label and two others added: the same answers."""
    new = pd.read_csv(folder / "new.csv")
    new[new.columns[::-1]].assign(answer="yes", day="2024-01-31", z2=1).to_csv(folder / "other.csv", index=False)
    assert predicted(folder, run_of("softmax"), "other.csv")[0] == predicted(folder, run_of("softmax"), "new.csv")[0]


def test_parquet_is_read_as_csv_is(folder, run_of):
    """The same rows, the same answers."""
    pd.read_csv(folder / "new.csv").to_parquet(folder / "new.parquet")
    assert predicted(folder, run_of("softmax"), "new.parquet")[0] == predicted(folder, run_of("softmax"), "new.csv")[0]


def test_values_that_training_did_not_name_are_noted(folder, run_of):
    """One row with lilac: a note that names the column and counts it, and an answer."""
    rows, said = predicted(folder, run_of("softmax"), "new.csv")
    assert len(rows) == 50
    (note,) = [line for line in said.splitlines() if line.startswith("note: ")]
    assert "'colour'" in note


def test_out_json_and_the_terminal_say_the_same(folder, run_of):
    """--out writes the table that is printed otherwise, --json has the same numbers."""
    rows, _ = predicted(folder, run_of("softmax"), "new.csv")
    done = equipoise(folder, "predict", run_of("softmax"), "new.csv", "--out", "said.csv")
    assert (done.returncode, done.stdout) == (0, "")
    with (folder / "said.csv").open(newline="") as file:
        assert [*csv.DictReader(file)] == rows
    done = equipoise(folder, "predict", run_of("softmax"), "new.csv", "--json")
    assert [{name: str(value) for name, value in row.items()} for row in json.loads(done.stdout)["rows"]] == rows


def test_it_does_not_write_over_what_it_reads(folder, run_of):
    """--out that is the input is refused, by whatever way it is named, and the file stays."""
    before = (folder / "new.csv").read_bytes()
    assert "new.csv" in fails(folder, run_of("softmax"), "new.csv", "--out", folder / "new.csv")
    assert (folder / "new.csv").read_bytes() == before


def test_a_folder_that_is_not_there_is_no_place_to_write(folder, run_of):
    """One line that names it."""
    assert "nowhere/said.csv" in fails(folder, run_of("softmax"), "new.csv", "--out", "nowhere/said.csv")


def test_a_missing_column_is_refused_by_name(folder, run_of):
    """With what the file has instead."""
    pd.read_csv(folder / "new.csv").rename(columns={"colour": "color"}).to_csv(folder / "without.csv", index=False)
    line = fails(folder, run_of("softmax"), "without.csv")
    assert "without.csv:1: " in line and "'colour'" in line and "'color'" in line


def test_the_column_that_was_meant_is_found_by_other_letters(folder, run_of):
    """X for x: it is named, and no column that the model reads already; the way out without it is told."""
    (folder / "upper.csv").write_text("X,z,colour\n1,2,red\n")
    line = fails(folder, run_of("softmax"), "upper.csv")
    assert "did you mean 'X'?" in line
    assert "its cells may be empty" in line
    (folder / "coloured.csv").write_text("x,colour\n1,red\n")
    assert "did you mean" not in fails(folder, run_of("softmax"), "coloured.csv")


def test_another_suffix_is_refused_as_in_training(folder, run_of):
    """A workbook is no table of text: the suffix, and those that are read."""
    (folder / "book.xlsx").write_bytes(b"PK\x03\x04")
    line = fails(folder, run_of("softmax"), "book.xlsx")
    assert "'.xlsx'" in line and ".csv" in line
    with refused("file.suffix", "book.xlsx"):
        Trained.load(load(run_of("softmax"))).predict(folder / "book.xlsx")


def test_without_a_header_in_training_none_is_needed(folder):
    """Columns by position, with the label behind them or without: the answers of the same rows with the header 1, 2, 3."""
    for number in range(2):
        frame(80, number).to_csv(folder / f"bare{number}.csv", index=False, header=False)
    _, said, made = trained(folder, "bare0.csv", "bare1.csv")
    assert "bare1.csv: no header was found" in said
    new = frame(40, 5)
    new.to_csv(folder / "bare_all.csv", index=False, header=False)
    new.drop(columns="answer").to_csv(folder / "bare_new.csv", index=False, header=False)
    new.drop(columns="answer").set_axis(["1", "2", "3"], axis=1).to_csv(folder / "numbered.csv", index=False)
    rows, _ = predicted(folder, made, "numbered.csv")
    assert len(rows) == 40
    for name in ("bare_all.csv", "bare_new.csv"):
        found, said = predicted(folder, made, name)
        assert found == rows
        assert f"note: {name}: no header was found" in said
    new[["x"]].to_csv(folder / "bare_short.csv", index=False, header=False)
    assert "'2'" in fails(folder, made, "bare_short.csv")


def test_text_where_training_had_numbers_is_refused(folder, run_of):
    """By line."""
    (folder / "text.csv").write_text("x,z,colour\n1,2,red\nold,3,red\n")
    assert "text.csv:3: " in fails(folder, run_of("softmax"), "text.csv")


def test_a_header_alone_has_no_answers(folder, run_of):
    """No rows are no mistake: only the heads are written."""
    (folder / "head.csv").write_text("x,z,colour\n")
    done = equipoise(folder, "predict", run_of("softmax"), "head.csv")
    assert (done.returncode, done.stdout) == (0, "answer,probability of no,probability of yes\n")


@pytest.mark.parametrize(
    ("name", "content"), [("empty.csv", ""), ("missing.csv", None), ("no_header.csv", "1,2,red\n3,4,blue\n")]
)
def test_files_without_a_table_are_refused(folder, run_of, name, content):
    """Empty, not there, or without the names of columns: one line with the file."""
    if content is not None:
        (folder / name).write_text(content)
    assert name in fails(folder, run_of("softmax"), name)


def test_a_row_beyond_all_scores_is_refused_by_line(folder, run_of):
    """Training that knew 1e-300 only, and a new row with 1e300: no label can be told of it."""
    rng = np.random.default_rng(0)
    for name in ("tiny0.csv", "tiny1.csv"):
        values = rng.normal(size=40)
        pd.DataFrame({"x": values * 1e-300, "y": (values > 0) + 0}).to_csv(folder / name, index=False)
    _, _, made = trained(folder, "tiny0.csv", "tiny1.csv")
    (folder / "far.csv").write_text("x\n1e-300\n1e300\n")
    with refused("predict.finite", "far.csv:3"):
        Trained.load(load(made)).predict(folder / "far.csv")
    assert "far.csv:3" in fails(folder, made, "far.csv")


def test_folders_that_are_no_run_on_own_files_are_refused(folder, run_of, tmp_path):
    """No run, no folder, a run on digits, a run of version 0.1.0, a run that shares CPU: each in one line."""
    assert fails(folder, tmp_path, "new.csv")
    assert "nowhere" in fails(folder, "nowhere", "new.csv")
    assert fails(folder, OLD, "new.csv")
    with refused("predict.model"):
        Trained.load(load(OLD))
    equipoise(tmp_path, "train", "--rounds", 5, "--nodes", 3, "--json")
    (digits,) = runs(tmp_path)
    assert fails(folder, digits, "new.csv")
    with refused("predict.schema", "to_sklearn"):
        Trained.load(load(digits)).predict(folder / "new.csv")
    equipoise(tmp_path, "train", "--data", "none", "--rounds", 5, "--nodes", 3, "--json")
    (bare,) = [run for run in runs(tmp_path) if run != digits]
    with refused("predict.run"):
        Trained.load(load(bare))


@pytest.mark.parametrize("centre", [3, -1])
def test_a_centre_that_is_not_there_is_refused(folder, run_of, centre):
    """By its number, and those there are."""
    assert str(centre) in fails(folder, run_of("softmax"), "new.csv", "--centre", centre)
    with refused("run.centre", centre):
        Trained.load(load(run_of("softmax")), centre)


def test_whole_numbers_as_classes_come_back_as_such(folder):
    """Classes 0, 1 and 7 of files are answers 0, 1 and 7, not their places and not 7.0."""
    rng = np.random.default_rng(0)
    for name in ("whole0.csv", "whole1.csv"):
        x = rng.normal(size=60)
        pd.DataFrame({"x": x, "y": np.select([x < -0.5, x < 0.5], [0, 1], 7)}).to_csv(folder / name, index=False)
    _, _, made = trained(folder, "whole0.csv", "whole1.csv")
    (folder / "three.csv").write_text("x\n-9\n0\n9\n")
    rows, _ = predicted(folder, made, "three.csv")
    assert [row["y"] for row in rows] == ["0", "1", "7"]
    assert load(made).to_sklearn().predict(pd.DataFrame({"x": [-9.0, 0.0, 9.0]})).tolist() == [0, 1, 7]
