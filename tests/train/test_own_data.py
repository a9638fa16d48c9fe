"""What a run on own files says of what left each centre, against the words that were sent."""

import contextlib
import io

import numpy as np
import pytest

from equipoise.cli.output import warn_of_files
from equipoise.train import TrainSpec
from refusals import refused


def own(folder, **settings):
    """What is kept of the files of this folder."""
    return TrainSpec(files=[str(folder)], **settings).build().own


@pytest.mark.parametrize("numbers_only", [False, True])
def test_label_values_that_were_sent_are_counted_whatever_the_label_is(tmp_path, numbers_only):
    """Five whole numbers at one centre and eighteen others at the next: each told its own, and only together are they too
    many for classes."""
    for name, values in (("a", range(5)), ("b", range(100, 118))):
        rows = "".join(f"{k % 7}.5,{value}\n" for k in range(10) for value in values)
        (tmp_path / f"{name}.csv").write_text("x,age\n" + rows)
    found = own(tmp_path, numbers_only=numbers_only)
    assert not found.schema.classes
    assert [row["class_names"] for row in found.left] == [5, 18]
    assert [set(words["told"]["label"]) for words in found.words] == [
        {str(value) for value in values} for values in (range(5), range(100, 118))
    ]


@pytest.mark.parametrize("numbers_only", [False, True])
def test_a_column_with_few_values_in_one_file_is_warned_of(tmp_path, numbers_only):
    """Its sums are told to others: of one value, they are the value. Columns with ten values, or none, are not named."""
    rng = np.random.default_rng(0)
    for name, there in (("many", 40), ("few", 1), ("none", 0)):
        cells = ["12.5" if k < there else "" for k in range(100)]
        rows = "".join(
            f"{x:.2f},{cell},{k % 2}\n" for k, (x, cell) in enumerate(zip(rng.normal(size=100), cells, strict=True))
        )
        (tmp_path / f"{name}.csv").write_text("x,load,answer\n" + rows)
    found = own(tmp_path, held_out=0.0, numbers_only=numbers_only)
    assert found.facts["few"] == [["few.csv", "load"]]
    with contextlib.redirect_stderr(io.StringIO()) as said:
        warn_of_files(found.facts)
    assert "few.csv" in said.getvalue() and "'load'" in said.getvalue()


@pytest.mark.parametrize("task", ["classes", "number"])
def test_class_names_of_many_digits_are_refused_unless_they_are_text(tmp_path, task):
    """12345678901234567890 and ...891 are the same float, and would be one class. A number to predict may be as large."""
    labels = (
        [12345678901234567890, 12345678901234567891] if task == "classes" else [10**20 + 10**18 * k for k in range(30)]
    )
    rows = "".join(f"{k}.5,{labels[k % len(labels)]}\n" for k in range(60))
    (tmp_path / "a.csv").write_text("x,account\n" + rows)
    if task == "number":
        assert not own(tmp_path, nodes=1).schema.classes
        return
    with refused("table.label", "account"):
        own(tmp_path, nodes=1)
    assert own(tmp_path, nodes=1, text=["account"]).schema.classes == tuple(map(str, labels))
