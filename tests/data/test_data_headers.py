"""What stands above the rows: no header, names that are missing, a line for Excel; and files in other encodings."""

from __future__ import annotations

import pandas as pd
import pytest

from equipoise.data.table import read_tables
from refusals import refused


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path."""

    def write(content, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def one(path, **options):
    return read_tables([path], **options)[0]


def numbers(table):
    return {name: column.values.tolist() for name, column in table.columns.items()}


# ---- no header


def test_a_file_without_a_header_says_so(write):
    """Years or numbers as names would be noticed; with a header there is no note."""
    (note,) = one(write("1,2,0\n3,4,1\n")).notes
    assert "no header" in note
    assert one(write("a,b,y\n3,4,1\n")).notes == ()


@pytest.mark.parametrize(
    ("first", "header"),
    [
        ("2,1,5", False),  # holds all names, as values
        ("1.5,2,0", False),
        ("1,2,3", True),
        ("1,2", True),
        ("0,1,2", True),
        ("2,1,town", True),  # a name that is not met again
        ("2,1,red", False),  # the value of another row
    ],
)
def test_by_position_if_training_had_no_header(write, first, header):
    """The model asks for 1 and 2: a first row that is no header is a row."""
    below = ["7", "8", "red" if first.endswith("red") else "9"][: first.count(",") + 1]
    table = one(write(f"{first}\n{','.join(below)}\n"), kinds={"1": "number", "2": "number"})
    assert table.rows == 2 - header
    assert any("position" in note for note in table.notes) is not header
    if not header:
        assert numbers(table) == {"1": [float(first.split(",")[0]), 7], "2": [float(first.split(",")[1]), 8]}


def test_years_as_names_are_no_positions(write):
    """A header 2019, 2020 is one in any order; without it, the columns are not there."""
    kinds = {"2019": "number", "2020": "number"}
    assert numbers(one(write("2020,2019\n1,2\n"), kinds=kinds)) == {"2020": [1], "2019": [2]}
    with refused("table.column", "'2019'", "no header"):
        one(write("5,6\n1,2\n"), kinds=kinds)
    with refused("table.header", "'age'"):
        one(write("5,6\n1,2\n"), kinds={"age": "number", "2": "number"})


# ---- no name


def test_a_column_without_a_name_is_left_out(write):
    """As pandas writes its index, and a separator too many at the end; the last column with a name is the last one."""
    table = one(write(",a,y\n0,1,2\n1,3,4\n"))
    assert numbers(table) == {"a": [1, 3], "y": [2, 4]}
    assert table.notes == ("column 1 has no name in the header and is left out",)
    table = one(write(",a,,y,\n0,1,x,2,\n1,3,x,4,\n"))
    assert numbers(table) == {"a": [1, 3], "y": [2, 4]}
    assert table.notes == ("columns 1, 3 and 5 have no name in the header and are left out",)
    assert one(write(",a,y\n0,1,2\n"), kinds={"a": "number"}).notes == ()
    assert numbers(one(write("2,,y\nb,2,3\n1,2,x\n"), text=["2", "y"])).keys() == {"2", "y"}
    with refused("unknown", "--drop 1"):
        one(write(",a,y\n0,1,2\n"), drop=["1"])


def test_an_index_in_parquet_is_left_out(tmp_path):
    """pandas writes an index without a name as a column; one with a name is a column as any other."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}, index=[5, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    table = one(tmp_path / "a.parquet")
    assert numbers(table) == {"a": [1, 2], "y": [0, 1]}
    assert table.notes == ("column 3 has no name in the header and is left out",)
    frame.rename_axis("id").to_parquet(tmp_path / "a.parquet")
    assert one(tmp_path / "a.parquet").columns.keys() == {"a", "y", "id"}


def test_nothing_left_is_refused(write):
    """All columns dropped."""
    with refused("table.single", "a.csv:1:"):
        one(write("a,y\n1,2\n"), drop=["a", "y"])


# ---- a line for Excel


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(("separator", "end"), [(";", "\r\n"), (",", "\n"), ("|", "\n"), ("\t", "\n")])
def test_the_line_that_names_the_separator_is_skipped(write, separator, end, mark):
    """pandas, told to skip it, reads the same; a note says so, and lines are counted from the first one."""
    text = f"{mark}sep={separator}{end}" + "a;b,c;y\n1;2;0\n3;4;1\n".replace(";", separator).replace("\n", end)
    if separator == ",":
        text = text.replace("b,c", "b")
    path = write(text)
    frame = pd.read_csv(path, sep=separator, skiprows=1)
    table = one(path)
    assert numbers(table) == {name: frame[name].tolist() for name in frame}
    assert [table.line(row) for row in (0, 1)] == [3, 4]
    assert sum("sep=" in note for note in table.notes) == 1
    with refused("table.text", "a.csv:5:", "'x'"):
        one(write(text + separator.join("x50") + end))
    with refused("table.empty"):
        one(write(f"{mark}sep={separator}{end}"))


def test_a_column_called_sep_is_a_column(write):
    """Only the whole line is such a line."""
    assert one(write("sep=;a;y\n1;2;0\n")).columns.keys() == {"sep=", "a", "y"}


# ---- not UTF-8


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_other_encodings_are_refused_with_the_way_to_convert_them(write, encoding):
    """What Excel calls it, and a command; with the encoding that Python says it was written in."""
    text = "town,y\nOslo,1\nKöln,2\n"
    with refused("file.read", "CSV UTF-8", f"iconv -f {'WINDOWS-1252' if encoding == 'cp1252' else 'UTF-16'} -t UTF-8"):
        one(write(text.encode(encoding)))
