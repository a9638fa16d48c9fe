"""Tables of the user's own: read as numpy reads them, and refused with file, line and column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import OneHotEncoder

from equipoise.data import csv
from refusals import refused


@pytest.fixture
def written(tmp_path):
    """Writes a table and returns its path."""

    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def targets(path, **options):
    """Labels in file order: nothing held out."""
    return csv(path, test_fraction=0, **options).y.tolist()


@given(arrays(np.float64, (8, 3), elements=st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)))
def test_a_table_read_is_the_table_numpy_wrote(tmp_path_factory, table):
    """Written by numpy.savetxt in full precision; features come back standardised, targets to the bit."""
    table[:, 2] += 0.1 + np.arange(8)
    path = tmp_path_factory.mktemp("round") / "trip.csv"
    np.savetxt(path, table, delimiter=",", fmt="%.17g")
    data = csv(path, task="regression", test_fraction=0)
    features = np.loadtxt(path, delimiter=",")[:, :2]
    spread = features.std(axis=0)
    assert_allclose(data.X * spread + features.mean(axis=0), features, rtol=1e-9, atol=1e-6)
    assert_array_equal(data.y, table[:, 2])


def test_a_header_is_found_by_its_text(written):
    """With and without a line of names, the numbers are the same."""
    numbers = "1,2,0\n3,4,1\n5,6,0\n"
    with_header, without = written("a,b,y\n" + numbers, "with.csv"), written(numbers, "without.csv")
    assert_array_equal(csv(with_header, test_fraction=0).X, csv(without, test_fraction=0).X)
    assert targets(with_header) == targets(without) == [0, 1, 0]


def test_text_labels_without_a_header_lose_no_row(written):
    """The first row's only text is a label that comes back below: it is a sample, not a header."""
    assert targets(written("1,cat\n2,dog\n3,cat\n")) == [0, 1, 0]


def test_a_header_of_numbers_and_one_name_is_a_header(written):
    """Numbered columns and a name for the label, which is no label further down."""
    assert targets(written("0,1,kind\n1,2,cat\n2,3,dog\n")) == [0, 1]


def test_the_label_column_by_name(written):
    """Any column can be the label; the others are the features, in file order."""
    data = csv(written("y,a,b\n1,10,5\n0,20,5\n1,30,7\n"), label="y", test_fraction=0)
    assert data.y.tolist() == [1, 0, 1]
    assert_allclose(data.X[:, 0], np.array([-1, 0, 1]) / np.sqrt(2 / 3))


def test_text_labels_become_classes_in_sorted_order(written):
    """b, a, c -> 1, 0, 2, whatever came first."""
    data = csv(written("x,kind\n1,b\n2,a\n3,c\n4,a\n"), test_fraction=0)
    assert data.y.tolist() == [1, 0, 2, 0]
    assert (data.classes, data.y.dtype) == (3, np.int64)


def test_numeric_classes_are_sorted_as_numbers(written):
    """10 comes after 9, and labels are renumbered from 0."""
    assert targets(written("1,10\n2,9\n3,-1\n")) == [2, 1, 0]


def test_twenty_integers_are_classes_and_twenty_one_a_quantity(written):
    """The line that task="auto" draws."""
    twenty, more = ("".join(f"0.5,{i}\n" for i in range(count)) for count in (20, 21))
    assert csv(written(twenty)).classes == 20
    quantity = csv(written(more))
    assert (quantity.classes, quantity.y.dtype) == (0, np.float64)


def test_fractions_are_a_quantity(written):
    """Two distinct labels, but not integers: regression, unless the task is given."""
    path = written("1,0.5\n2,1.5\n3,0.5\n")
    assert targets(path) == [0.5, 1.5, 0.5]
    assert targets(path, task="classification") == [0, 1, 0]


def test_the_task_overrules_the_guess(written):
    """Integers as a quantity; and mixed names as classes, in the order of text."""
    assert targets(written("1,3\n2,4\n"), task="regression") == [3.0, 4.0]
    assert targets(written("x,y\n1,3D\n2,2\n"), task="classification") == [1, 0]


def test_features_are_standardised_by_the_training_part(written):
    """Mean 0 and deviation 1 in the training part; the held-out part is on the same scale, not its own."""
    data = csv(written("".join(f"{i * i},{i % 2}\n" for i in range(50))))
    assert (len(data.y), len(data.y_test)) == (40, 10)
    assert_allclose([data.X.mean(), data.X.std()], [0, 1], atol=1e-12)
    assert abs(data.X_test.mean()) > 1e-3
    raw = np.sort(np.concatenate([data.X, data.X_test])[:, 0])
    assert_allclose((raw - raw[0]) / (raw[-1] - raw[0]), np.arange(50) ** 2 / 49**2, atol=1e-12)


def test_the_seed_decides_what_is_held_out(written):
    """One seed, one held-out part; another seed, another."""
    path = written("".join(f"{i},{i % 2}\n" for i in range(100)))
    assert_array_equal(csv(path, seed=1).X_test, csv(path, seed=1).X_test)
    assert not np.array_equal(csv(path, seed=1).X, csv(path, seed=2).X)


def test_spreadsheets_may_write_their_way(written):
    """Byte-order mark, CRLF, quotes, spaces, blank lines and exponents are all read."""
    path = written(b'\xef\xbb\xbf"a", "y"\r\n"1e1", "u, u"\r\n\r\n -20 ,v\r\n\r\n')
    data = csv(path, label="y", test_fraction=0)
    assert data.X[:, 0].tolist() == [1, -1]
    assert data.y.tolist() == [0, 1]


def test_columns_of_text_become_a_column_for_each_value(written):
    """In the order of their names, beside the numbers; scikit-learn's own encoder gives the same."""
    data = csv(written("a,c,y\n1,u,0\n2,v,1\n3,u,1\n"), test_fraction=0)
    assert_array_equal(data.X[:, 1:], OneHotEncoder(sparse_output=False).fit_transform([["u"], ["v"], ["u"]]))


def test_an_empty_cell_is_filled_with_the_mean(written):
    """(1 + 3) / 2 in the middle, so that it is 0 once scaled."""
    assert csv(written("a,y\n1,0\n,1\n3,1\n"), test_fraction=0).X[1, 0] == 0.0


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a,y\n1,0\n2,\n", ("table.label", "table.csv:3:", "'y'")),
        ("a,y\n1,0\n2,NaN\n", ("table.label", "table.csv:3:", "'y'")),
        ("a,y\n1,0\n2,0\n", ("table.label", "table.csv:2:", "'y'")),
        ("id,y\n,1\n,2\n", ("table.form", "table.csv", "'y'")),
    ],
)
def test_a_table_that_says_nothing_is_refused(written, text, refusal):
    """A row without a label, one class only, no column with values. What else is refused: test_data_table.py."""
    with refused(*refusal):
        csv(written(text))


def test_text_targets_cannot_be_regressed(written):
    """The task was given, so the text is at fault."""
    with refused("table.kinds", "table.csv:2: column 'y'"):
        csv(written("a,y\n1,high\n2,low\n"), task="regression")


def test_an_unknown_task_names_the_nearest(written):
    """A typing error in the task is answered with the right word."""
    with refused("unknown", "did you mean 'regression'?"):
        csv(written("1,0\n"), task="regresion")


def test_a_missing_file_is_named(tmp_path):
    """A path with nothing there, or a folder."""
    for path in (tmp_path / "no.csv", tmp_path):
        with refused("file.missing", path):
            csv(path)
