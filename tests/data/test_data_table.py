"""Files of the user's own: read as pandas reads them, and refused with every problem of every file."""

from __future__ import annotations

import csv
import hashlib
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st
from numpy.testing import assert_array_equal
from pandas._libs.parsers import STR_NA_VALUES

from equipoise.data import _csv_rows
from equipoise.data.problems import Problems
from equipoise.data.table import found_files, read_tables
from equipoise.errors import InputError
from refusals import refused


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path."""

    def write(text, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def one(path, **options):
    return read_tables([path], **options)[0]


def problems(paths, **options):
    """(file name, line, code) of each problem, in order."""
    with pytest.raises(Problems) as caught:
        read_tables(paths if isinstance(paths, list) else [paths], **options)
    return [(found.path.name, found.line, found.code) for found in caught.value.problems]


def cells(column):
    """Plain values; None where missing."""
    if column.kind == "text":
        return [column.levels[code] if code >= 0 else None for code in column.values]
    return [None if np.isnan(value) else value for value in column.values]


def assert_as_pandas(table, frame):
    """Same names, same numbers to the bit, same text, same missing."""
    assert [*table.columns] == [*frame.columns]
    assert table.rows == len(frame)
    for name, column in table.columns.items():
        series = frame[name]
        if column.kind == "text":
            assert cells(column) == [None if pd.isna(value) else value for value in series]
        else:
            assert column.values.dtype == np.float64
            theirs = series.to_numpy(np.float64, na_value=np.nan)
            assert_array_equal(
                column.values[~np.isnan(column.values)].view(np.int64), theirs[~np.isnan(theirs)].view(np.int64)
            )
            assert_array_equal(np.isnan(column.values), np.isnan(theirs))


# ---- what is read


def test_numbers_text_and_columns_without_values(write):
    """Each kind, by hand: floats, sorted levels, nothing at all; and where the first value stands."""
    table = one(write("a,b,c,y\n1,,,0\n,red,NA,1\n3,blue,,0\n"), label="y")
    kinds = {name: column.kind for name, column in table.columns.items()}
    assert kinds == {"a": "number", "b": "text", "c": "empty", "y": "number"}
    assert cells(table.columns["a"]) == [1, None, 3]
    assert (table.columns["b"].levels, table.columns["b"].values.tolist()) == (("blue", "red"), [-1, 1, 0])
    assert table.columns["b"].values.dtype == np.int32
    assert cells(table.columns["c"]) == [None] * 3
    assert [table.columns[name].first for name in "ab"] == [2, 3]
    assert [table.line(row) for row in range(table.rows)] == [2, 3, 4]


def test_the_digest_is_that_of_the_bytes(write):
    """SHA-256 by hashlib; two files of the same content have one digest."""
    text = "a,y\n1,2\n"
    tables = read_tables([write(text, "a.csv"), write(text, "b.csv"), write(text + "\n", "c.csv")])
    assert tables[0].digest == tables[1].digest == hashlib.sha256(text.encode()).hexdigest()
    assert tables[2].digest != tables[0].digest


MESSY = [
    "a,b,y\r\n1,x,0\r\n2,,1\r\n",
    "a,b,y\n1,x,0\n2,y,1",  # no line break at the end
    'a,b,y\n1,"x, y",0\n2,"he said ""no""",1\n',
    'a,b,y\n1,"two\nlines",0\n\n2,"x",1\n',
    "naïve,größe,y\n1,żółw,0\n2,日本,1\n",
    "a,b,y\n007,1e-3,0\n+.5,1.,1\n-0.0,1E+5,1\n",
    "a,b,y\n-0,12345678901234567890,0\n0.1,9007199254740993,1\n",
    "a,b,y\nTrue,x,0\nFalse,NULL,1\ntrue,None,0\n",
    "a,b,y\n#N/A,<NA>,0\n1,n/a,1\nNaN,nan,0\n2,null,1\n",
    "a,b,y\n1,1_000,0\n2,2_000,1\n3,x,1\n",
    "a,b,y\n,,0\n,,1\n",
    "a,b,y\n1,x,0\n",
]


@pytest.mark.parametrize("text", MESSY)
def test_messy_files_are_read_as_pandas_reads_them(write, text):
    """pandas.read_csv: the same bits, the same text, the same missing."""
    path = write(text)
    frame = pd.read_csv(path)
    if (
        frame["y"].size and "a" in frame and frame["a"].dtype == object
    ):  # pandas keeps true, false and missing as they are
        frame["a"] = frame["a"].map({True: 1.0, False: 0.0})
    assert_as_pandas(one(path, label="y"), frame)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map("{:+.3f}".format),
    st.floats(-1e6, 1e6).map("{:.17e}".format),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["007", "-0", ".5", "5.", "1E5", " 4 ", "0e0", "-.5e-3", "nan", "NA", "", " NULL "]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40), st.integers(1, 7))
@example([("1", "-0 "), ("-0", "2")], 1)
@example([("-0\t", "-0"), ("", "1e-0"), ("", ""), ("2", "")], 4)
def test_numbers_are_those_of_float(tmp_path_factory, rows, chunk):
    """Whatever way they are written, and however the rows are cut into chunks: Python's float, to the bit."""
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows if (a + b).strip()) + "1,1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_csv_rows, "CHUNK", 1)
        patch.setattr(_csv_rows, "LEAST", chunk)
        table = one(path)
    written = [row for row in csv.reader(io.StringIO(path.read_text())) if row][1:]
    for place, name in enumerate("ab"):
        truth = [row[place].strip() for row in written]
        truth = np.array([float("nan") if cell in ("", "NA", "NULL") else float(cell) for cell in truth])
        assert_array_equal(
            table.columns[name].values.view(np.int64)[~np.isnan(truth)], truth.view(np.int64)[~np.isnan(truth)]
        )
        assert_array_equal(np.isnan(table.columns[name].values), np.isnan(truth))


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda cell: cell == cell.strip() and not cell.startswith('"') and not cell[:1].isdigit() and cell.isprintable()
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(TEXTS | st.sampled_from(["", "a\nb", "a\r\nb", "x,y", 'q"q']), TEXTS), min_size=1),
    st.integers(1, 5),
)
def test_text_and_its_lines_come_back(tmp_path_factory, rows, chunk):
    """Written by csv.writer, quotes, separators, line breaks and all; the line of a row counted from the text itself."""
    path = tmp_path_factory.mktemp("text") / "a.csv"
    out, starts = io.StringIO(newline=""), []
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["a", "b"])
    for row in rows:
        starts.append(1 + out.getvalue().replace("\r\n", "\n").count("\n"))
        writer.writerow(row)
    path.write_bytes(out.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_csv_rows, "CHUNK", 1)
        patch.setattr(_csv_rows, "LEAST", chunk)
        table = one(path, text=["a", "b"])
    missing = {"", *STR_NA_VALUES}
    for place, name in enumerate("ab"):
        assert cells(table.columns[name]) == [None if row[place] in missing else row[place] for row in rows]
        assert [*table.columns[name].levels] == sorted({row[place] for row in rows} - {*missing})
    assert [table.line(row) for row in range(table.rows)] == starts


def test_a_mark_semicolons_and_decimal_commas_are_read_with_a_note(write):
    """As a spreadsheet in German writes: pandas with sep and decimal reads the same."""
    path = write("\ufeffprice;size;kind;y\r\n1,5;2;a;0\r\n-2,25;3,0;b;1\r\n;1;b,c;1\r\n")
    table = one(path, label="y")
    assert_as_pandas(table, pd.read_csv(path, sep=";", decimal=",", encoding="utf-8-sig"))
    assert len(table.notes) == 3
    assert table.notes[-1].endswith(": price, size")
    assert one(write("a,y\n1,2\n", "plain.csv")).notes == ()


@pytest.mark.parametrize("text", ["a\tb\ty\n1,5\tx; y\t0\n", '"a;b";c;y\n1,5;2;3\n', "1,5;2,5;0\n2,5;1,5;1\n"])
def test_the_separator_is_found_in_the_header(write, text):
    """Tabs, semicolons within quotes, and no header at all: three columns each, the first holds 1.5."""
    table = one(write(text))
    assert len(table.columns) == 3
    assert cells(next(iter(table.columns.values())))[0] == 1.5


def test_commas_separate_where_semicolons_stand_in_cells(write):
    """A semicolon in the header only: the label, or the rows below, tell that it separates nothing."""
    text = "size (m; about),kind;s,y\n1,a,0\n2,b,1\n"
    assert len(one(write(text), label="y").columns) == len(one(write(text)).columns) == 3


def test_a_file_without_a_header_has_numbered_columns(write):
    """Numbers only; or text that comes back further down. A label may be such a number."""
    assert [*one(write("1,2,0\n3,4,1\n")).columns] == ["1", "2", "3"]
    assert one(write("1,2,0\n3,4,1\n"), label="2").rows == 2
    assert [*one(write("1,cat\n2,dog\n3,cat\n")).columns] == ["1", "2"]
    assert [*one(write("0,1,kind\n1,2,cat\n2,3,dog\n")).columns] == ["0", "1", "kind"]
    assert [*one(write("0,1,2\n1,2,5\n"), label="2").columns] == ["0", "1", "2"]


def test_a_column_of_true_and_false_is_numbers(write):
    """In any case of letters, missing ones too; taken as text when asked."""
    path = write("a,b,y\nTRUE,true,0\nfalse,,1\nTrue,False,1\n")
    assert [cells(one(path).columns[name]) for name in "ab"] == [[1, 0, 1], [1, None, 0]]
    assert one(path, text=["a"]).columns["a"].levels == ("TRUE", "True", "false")


def test_text_on_demand_keeps_cells_as_written(write):
    """Codes such as 007 and 7 stay two values; dropped columns are not there."""
    table = one(write("code,b,y\n 007 ,1,0\n7,x,1\n"), text=["code"], drop=["b"])
    assert cells(table.columns["code"]) == ["007", "7"]
    assert [*table.columns] == ["code", "y"]


@pytest.mark.parametrize(
    ("values", "different"),
    [
        ("1 2 3", True),
        ("1 2 2", False),
        ("1.5 2 3", False),
        ("a b c", True),
        ("a b a", False),
        ("1", False),
        ("a NA b", True),
        ("a NA NA", False),
    ],
)
def test_a_column_with_no_value_twice_looks_like_an_id(write, values, different):
    """Whole numbers and text, more than one value; a quantity with a fraction never."""
    rows = "".join(f"{value},0\n" for value in values.split())
    assert one(write("id,y\n" + rows)).columns["id"].different is different


def test_a_late_repeat_is_found(write):
    """10,000 different numbers, and the first once more at the end."""
    numbers = [*range(10_000), 0]
    assert not one(write("id,y\n" + "".join(f"{number},1\n" for number in numbers))).columns["id"].different
    assert one(write("id,y\n" + "".join(f"{number},1\n" for number in numbers[:-1]))).columns["id"].different


def test_a_column_that_turns_out_to_be_text_keeps_its_first_cells(write, monkeypatch):
    """Numbers in the first chunks, text in most rows: 007 is a level as it was written, not the number 7."""
    monkeypatch.setattr(_csv_rows, "CHUNK", 1)
    monkeypatch.setattr(_csv_rows, "LEAST", 2)
    table = one(write("a,b,y\n007,,0\n1.50,,1\nx,,0\ny,,1\nz,u,1\n"))
    assert cells(table.columns["a"]) == ["007", "1.50", "x", "y", "z"]
    assert cells(table.columns["b"]) == [None] * 4 + ["u"]


# ---- prediction


def test_with_kinds_exactly_those_columns_are_read(write):
    """Dates, duplicates and text elsewhere do not matter; each column is the kind asked for, even without values."""
    path = write("z,x,d,e,d,t\n5,1,2024-01-31,,2024-01-31,\n7,2,2024-01-31,,2024-02-01,\n")
    table = one(path, kinds={"x": "number", "z": "text", "e": "number", "t": "text"})
    assert {name: column.kind for name, column in table.columns.items()} == {
        "z": "text",
        "x": "number",
        "e": "number",
        "t": "text",
    }
    assert cells(table.columns["z"]) == ["5", "7"]
    assert cells(table.columns["e"]) == cells(table.columns["t"]) == [None, None]
    empty = one(write("x,z\n"), kinds={"x": "number", "z": "text"})
    assert (empty.rows, empty.columns["x"].values.shape, empty.columns["z"].kind) == (0, (0,), "text")
    assert cells(one(write("x\n1\n2\n"), kinds={"x": "number"}).columns["x"]) == [1, 2]


def test_with_kinds_a_file_must_have_names_columns_and_numbers(write):
    """No header; a column that is not there; text, and dates, where numbers are needed."""
    assert problems(write("1,2\n3,4\n"), kinds={"x": "number"}) == [("a.csv", 1, "table.header")]
    assert problems(write("a,b\n3,4\n"), kinds={"x": "number", "b": "number"}) == [("a.csv", 1, "table.column")]
    path = write("x,d\n1,2024-01-31\nred,2024-01-31\n2,2024-01-31\n")
    assert problems(path, kinds={"x": "number", "d": "number"}) == [
        ("a.csv", 2, "table.text"),
        ("a.csv", 3, "table.text"),
    ]
    assert one(path, kinds={"d": "text", "x": "text"}).columns["x"].levels == ("1", "2", "red")


# ---- what is refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(None, "table.empty")]),
        ("\n \n", [(None, "table.empty")]),
        ("a,y\n", [(1, "table.rows")]),
        ("y\n1\n", [(1, "table.single")]),
        ("a,a,y\n1,2,3\n", [(1, "table.names")]),
        ("a,,a,\n1,2,3,4\n", [(1, "table.names")]),
        ("a,\n1,2\n3,4\n", [(1, "table.single")]),
        ("a,y\n1,2\n\n1\n1,2\n1,2,3\n", [(4, "table.width")]),
        (b"a,y\n1,2\n1,\xff\n", [(3, "file.read")]),
        ('a,y\n1,"2\n3,4\n', [(2, "table.form")]),
        ("a,y\n1,2\n1," + "9" * 200_000, [(3, "table.form")]),
        ("a,y\n1,2\n-inf,3\n1,1e999\n", [(3, "table.infinite"), (4, "table.infinite")]),
        ("a,y\n1,2\nx,3\n3,4\n", [(3, "table.text")]),
        ("a,y\n1,2\nx,3\n3,4\ny,5\n6,1\n7,1\nz,z\n", [(3, "table.text"), (8, "table.text")]),
        ("a,y\n1,2\n1_000,3\n3,4\n", [(3, "table.text")]),
        ("a;y\n1,5;2\n1.5;3\n", [(2, "table.commas")]),
        ('a,y\n1,2\n"1,5",3\n4,5\n', [(3, "table.text")]),
    ],
)
def test_a_bad_file_is_refused_at_its_line(write, text, expected):
    """The line and the code of each problem; one problem for each kind and column, however often it occurs."""
    assert problems(write(text)) == [("a.csv", *rest) for rest in expected]


@pytest.mark.parametrize(
    "date",
    [
        "2024-01-31",
        "2024/1/3",
        "31.01.2024",
        "1/31/2024",
        "1/31/24",
        "2024-01-31T10:11:12Z",
        "2024-01-31 10:11:12.345+02:00",
        "1/31/2024 3:04 PM",
    ],
)
def test_dates_are_refused_by_name(write, date):
    """However written; not once dropped or taken as text. One odd cell in ten does not hide them, two do."""
    rows = f"{date},1\n" * 9
    with refused("table.dates", "a.csv:3:", "'when'", "--drop when", "--text when", 9):
        one(write("when,y\nlater,1\n" + rows))
    path = write("when,y\n,1\nNA,2\n" + rows)
    assert problems(path) == [("a.csv", 4, "table.dates")]
    assert [*one(path, drop=["when"]).columns] == ["y"]
    assert one(path, text=["when"]).columns["when"].levels == (date,)
    assert one(write("when,y\nlater,1\nnever,2\n" + rows)).columns["when"].kind == "text"


@pytest.mark.parametrize("cell", ["2024-13-01", "1.2.3", "192.168.10.1", "2024-01", "12:30", "10.20.30", "20240131"])
def test_versions_addresses_and_numbers_are_no_dates(write, cell):
    """What looks like a date only at first sight is read."""
    assert one(write(f"v,y\n{cell},1\n{cell},2\n")).rows == 2


def test_text_among_numbers_is_refused_and_numbers_among_text_are_not(write):
    """The line is drawn at half: three of five are numbers; two of four."""
    with refused("table.text", "a.csv:3:", "'a'", "2 of 5", "'x'", "lines 3, 5", "--text a"):
        one(write("a,y\n1,0\nx,0\n2,0\ny,0\n3,0\n"))
    assert cells(one(write("a,y\n1,0\nx,0\n2,0\ny,0\n,0\n")).columns["a"]) == ["1", "x", "2", "y", None]
    assert one(write("a,y\n1,0\nx,0\n2,0\n"), text=["a"]).columns["a"].levels == ("1", "2", "x")


def test_rows_of_another_length_are_counted_with_their_lines(write):
    """Four of them; the first three by line, what was found and what the header has."""
    with refused("table.width", "a.csv:2:", "4 rows", "lines 2, 4, 5 and 1 more", "1, 3, 3", 2):
        one(write("a,y\n1\n1,2\n1,2,3\n1,2,3\n1,2\n1\n"))


def test_a_label_must_be_there_in_every_file_and_row(write):
    """Missing column: the names that are there, and the near one. Missing cells: count and lines."""
    good, without = write("a,target\n1,2\n", "good.csv"), write("a,targets\n1,2\n", "without.csv")
    assert problems([good, without], label="target") == [("without.csv", 1, "table.column")]
    with refused("table.column", "without.csv:1:", "'target'", "did you mean 'targets'", "a, targets"):
        one(without, label="target")
    with refused("table.label", "a.csv:3:", "'y'", "4 rows", "lines 3, 4, 5 and 1 more"):
        one(write("a,y\n1,x\n1,\n1,NA\n1,\n1,z\n1,\n"), label="y")
    assert problems(write("1,2\n3,4\n"), label="y") == [("a.csv", 1, "table.column")]


def test_names_to_drop_and_to_take_as_text_must_be_in_a_file(write):
    """Unknown in all: refused with the near one. Known in one of two: fine. The label cannot be dropped."""
    paths = [write("size,y\n1,2\n", "a.csv"), write("size,other,y\n1,2,3\n", "b.csv")]
    assert len(read_tables(paths, drop=["other"], text=["other"])) == 2
    with refused("unknown", "'sise'", "'size'"):
        read_tables(paths, drop=["sise"])
    assert problems(paths, text=["x"], drop=["z"]) == [("a.csv", None, "unknown")] * 2
    with refused("table.drop", "'y'"):
        read_tables(paths, label="y", drop=["y"])


def test_every_problem_of_every_file_is_told_in_the_given_order(write, tmp_path):
    """Three bad files and a good one: five problems, one line each, the files as they were given."""
    paths = [
        write("a,b,y\n1,inf,0\nx,1,\n2,2,1\n", "z.csv"),
        write("a,b,y\n1,2,3\n", "good.csv"),
        tmp_path / "none.csv",
        write("", "a.csv"),
    ]
    expected = [
        ("z.csv", 2, "table.infinite"),
        ("z.csv", 3, "table.text"),
        ("z.csv", 3, "table.label"),
        ("none.csv", None, "file.missing"),
        ("a.csv", None, "table.empty"),
    ]
    assert problems(paths, label="y") == expected
    with pytest.raises(InputError) as caught:
        read_tables(paths, label="y")
    assert caught.value.code == "table.problems"
    lines = str(caught.value).splitlines()
    assert [line.startswith(str(tmp_path / name)) for line, (name, _, _) in zip(lines, expected, strict=True)] == [
        True
    ] * 5


# ---- folders


def test_a_folder_is_its_tables_sorted(write, tmp_path):
    """Hidden files and others are not among them; files stand as given."""
    paths = [write("", name) for name in ("c.tsv", "b.CSV", "a.parquet", ".d.csv", "notes.txt")]
    assert found_files([tmp_path]) == [paths[2], paths[1], paths[0]]
    assert found_files([str(paths[1]), paths[0]]) == [paths[1], paths[0]]


def test_paths_that_cannot_be_tables_are_refused_at_once(write, tmp_path):
    """A missing one, an empty folder, another suffix, one file twice: all four told."""
    (tmp_path / "empty").mkdir()
    given = [
        tmp_path / "no.csv",
        tmp_path / "empty",
        write("", "a.txt"),
        write("", "a.csv"),
        tmp_path / "empty" / ".." / "a.csv",
    ]
    with pytest.raises(Problems) as caught:
        found_files(given)
    assert [found.code for found in caught.value.problems] == [
        "file.missing",
        "file.missing",
        "file.suffix",
        "file.twice",
    ]
