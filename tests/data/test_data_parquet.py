"""Parquet files of the user's own: read, and refused, as the CSV of the same rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from equipoise.data.problems import Problems
from equipoise.data.table import read_tables
from refusals import refused


def one(path, **options):
    return read_tables([path], **options)[0]


def problems(path, **options):
    """(file name, line, code) of each problem, in order."""
    with pytest.raises(Problems) as caught:
        one(path, **options)
    return [(found.path.name, found.line, found.code) for found in caught.value.problems]


@pytest.fixture
def frame():
    """Every kind of column that can be read."""
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "float": np.where(draw.random(200) < 0.1, np.nan, draw.normal(size=200)),
            "int": draw.integers(-(10**12), 10**12, 200),
            "nullable": pd.array([None, 1, 2, 3] * 50, dtype="Int64"),
            "bool": draw.random(200) < 0.5,
            "text": [None if k % 7 == 0 else f"ż{k % 5}" for k in range(200)],
            "category": pd.Categorical(draw.choice(["u", "v"], 200)),
            "digits": [str(k % 9) for k in range(200)],
            "none": [None] * 200,
        }
    )


def test_parquet_reads_as_the_csv_of_the_same_frame(frame, tmp_path):
    """Column by column the same kind, values and levels; lines are row numbers from 1."""
    pytest.importorskip("pyarrow")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    ours, theirs = read_tables([tmp_path / "a.parquet", tmp_path / "a.csv"], label="int")
    assert [*ours.columns] == [*theirs.columns] == [*frame.columns]
    for name, column in ours.columns.items():
        other = theirs.columns[name]
        assert (column.kind, column.levels, column.different) == (other.kind, other.levels, other.different), name
        assert_array_equal(column.values, other.values)
    assert (ours.rows, ours.line(0), ours.line(199)) == (200, 1, 200)
    assert ours.digest == hashlib.sha256((tmp_path / "a.parquet").read_bytes()).hexdigest()
    texts = read_tables([tmp_path / "a.parquet"], text=["digits", "bool"])[0]
    assert (texts.columns["digits"].kind, texts.columns["bool"].levels) == ("text", ("False", "True"))


def test_parquet_is_refused_as_csv_is(tmp_path):
    """Dates, lists, infinities, text among numbers, missing labels, no rows, one column; and a file that is none."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    rows = {"when": pd.to_datetime([None, "2024-01-31", "2024-02-01"]), "list": [[1], [2], []], "inf": [1, np.inf, 2]}
    pd.DataFrame({**rows, "text": ["1", "2", "x"], "y": [1.0, None, 2.0]}).to_parquet(path)
    expected = [
        (None, "table.nested"),
        (2, "table.dates"),
        (2, "table.infinite"),
        (2, "table.label"),
        (3, "table.text"),
    ]
    assert problems(path, label="y") == [("a.parquet", *rest) for rest in expected]
    assert one(path, drop=["list", "inf", "text"], text=["when"]).columns["when"].kind == "text"
    pd.DataFrame({"a": [], "y": []}).to_parquet(path)
    assert problems(path) == [("a.parquet", None, "table.rows")]
    assert one(path, kinds={"a": "number"}).rows == 0
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert problems(path) == [("a.parquet", None, "table.single")]
    path.write_bytes(b"PAR1 no")
    assert problems(path) == [("a.parquet", None, "table.form")]


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    """And a CSV is read all the same."""
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    (tmp_path / "a.parquet").write_text("x")
    assert one(tmp_path / "a.csv").rows == 1
    with refused("library.missing", "pyarrow"):
        one(tmp_path / "a.parquet")


def test_what_is_taken_as_text_is_called_as_in_the_csv_of_the_frame(tmp_path):
    """Whole numbers, decimals and truths under --text: parquet and pandas' CSV name the same values."""
    made = pd.DataFrame({"code": [150, 7], "size": [150.0, 2.5], "is": [True, False], "y": [1, 0]})
    made.to_csv(tmp_path / "a.csv", index=False)
    made.to_parquet(tmp_path / "b.parquet")
    forced = ["code", "size", "is"]
    tables = read_tables([tmp_path / "a.csv", tmp_path / "b.parquet"], text=forced)
    names = [{name: table.columns[name].levels for name in forced} for table in tables]
    assert names[0] == names[1] == {"code": ("150", "7"), "size": ("150.0", "2.5"), "is": ("False", "True")}
