"""The check of a schema against all rows pooled: the schema that centres agreed on passes, and any other is named."""

import dataclasses

import numpy as np
import pytest

from equipoise.data.exact_sums import ExactSum
from equipoise.data.own_files import OwnFiles
from equipoise.data.pooled import apart
from equipoise.data.schema import NumberColumn
from equipoise.train import Network
from equipoise.train.exchange.delivery import InMemoryDelivery, tree


@pytest.fixture
def agreed(tmp_path):
    """Two files: times in seconds since 1970 that differ by about one second, a colour, an empty column, a label."""
    rng = np.random.default_rng(0)
    for name in "ab":
        lines = [
            f"{1.7e9 + z:.2f},{rng.choice(['red', 'blue', ''])},,{'ny'[int(z > 0.5)]}\n" for z in rng.normal(size=200)
        ]
        (tmp_path / f"{name}.csv").write_text("when,colour,nothing,answer\n" + "".join(lines))
    files = OwnFiles.read([tmp_path], label="answer")
    return files.agreed(tree(Network.complete(2)), InMemoryDelivery())


def but(agreed, **changes):
    """The same with another schema."""
    return dataclasses.replace(agreed, schema=dataclasses.replace(agreed.schema, **changes))


def test_what_was_agreed_is_what_the_rows_say(agreed):
    """Nothing is apart, a column that is left out included."""
    assert agreed.schema.left_out == ("nothing",)
    assert apart(agreed) == []


@pytest.mark.parametrize("times", [0.5, 1.01, 2.0])
def test_another_deviation_is_found_however_large_the_mean_is(agreed, times):
    """The spread of one second, times something, in numbers of 1.7e9."""
    values = agreed.files.tables[0].columns["when"].values
    mean, spread = values.mean(), values.std()
    other = NumberColumn.of("when", ExactSum.of(mean + times * spread * np.tile([-1.0, 1.0], 160)), 320)
    sums = dataclasses.replace(other.sums, count=agreed.schema.numbers[0].sums.count)
    assert apart(but(agreed, numbers=(dataclasses.replace(other, sums=sums),))) == ["when"]


@pytest.mark.parametrize("field", ["other", "missing", "counts"])
def test_another_count_is_found(agreed, field):
    """One row more that has a value, another one or none."""
    (text,) = agreed.schema.texts
    now = getattr(text, field)
    changed = {**now, "red": now["red"] + 1} if field == "counts" else now + 1
    assert apart(but(agreed, texts=(dataclasses.replace(text, **{field: changed}),))) == ["colour"]


def test_columns_that_say_something_cannot_be_left_out(agreed):
    """Neither by name, nor without a word."""
    assert apart(but(agreed, texts=(), left_out=("nothing", "colour"))) == ["colour"]
    assert apart(but(agreed, numbers=(), left_out=("nothing", "when"))) == ["when"]
    assert apart(but(agreed, texts=())) == ["colour"]


def test_exchanged_classes_are_found(agreed):
    """The label per file, as it was read once: each class under the other's name."""
    classes, counts = agreed.schema.classes[::-1], agreed.schema.class_counts[::-1]
    assert apart(but(agreed, classes=classes)) == ["answer"]
    assert apart(but(agreed, class_counts=counts)) == ["answer"]
    assert apart(but(agreed, classes=classes, class_counts=counts)) == ["answer"]


@pytest.mark.parametrize("size", [1e-315, 1e-300, 1.0, 1e307])
def test_numbers_of_any_size_are_held_against_the_pooled_ones(tmp_path, size):
    """From those that are so small that floats have few digits to those whose squares are no floats."""
    rows = "".join(f"{z * size:.17g},{'ny'[int(z > 0)]}\n" for z in np.random.default_rng(0).normal(size=50))
    (tmp_path / "a.csv").write_text("x,answer\n" + rows)
    files = OwnFiles.read([tmp_path / "a.csv"], label="answer")
    assert apart(files.agreed(tree(Network.complete(1)), InMemoryDelivery())) == []
