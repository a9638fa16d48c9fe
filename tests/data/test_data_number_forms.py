"""Numbers as people write them: points and commas between thousands, units and currencies. None is misread in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.data.problems import Problems
from equipoise.data.table import read_tables
from refusals import refused


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path."""

    def write(text, name="a.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def one(path, **options):
    return read_tables([path], **options)[0]


# ---- points between thousands


@pytest.mark.parametrize("separator", [";", "\t"])
def test_points_before_three_digits_are_refused_beside_decimal_commas(write, separator):
    """As German programs write 3036: read as three and a bit, no one would notice. Count, line, value, way out."""
    text = "pay;size;y\n3.036;1,5;0\n950;2;1\n\n12.000;3,25;0\n-1.896;4;1\n".replace(";", separator)
    with refused("table.thousands", "a.csv:2:", "'pay'", 3, "'3.036'", "write 3036"):
        one(write(text))
    # pandas, told so, reads these numbers
    theirs = pd.read_csv(write(text), sep=separator, decimal=",", thousands=".")["pay"]
    assert theirs.tolist() == [3036, 950, 12000, -1896]
    assert one(write(text.replace("12.000", "12000").replace("1.896", "1896").replace("3.036", "3036"))).rows == 4


@pytest.mark.parametrize("other", ["1.234,5", "2.500,00 €", "7,5"])
def test_decimal_commas_of_any_column_tell(write, other):
    """Of a column that is dropped, or not read in prediction, too."""
    path = write(f"pay;fee;y\n3.036;{other};0\n1.896;{other};1\n")
    for options in ({"drop": ["fee"]}, {"text": ["fee"]}, {"kinds": {"pay": "number"}}):
        with refused("table.thousands", "'pay'"):
            one(path, **options)


def test_decimal_commas_far_down_tell(write):
    """After more rows than are looked at to find the header."""
    rows = "3.036;1\n" * 1500
    with refused("table.thousands", "1,501", "a.csv:2:"):
        one(write(f"pay;y\n{rows}3.036;1,5\n"))


@pytest.mark.parametrize("cell", ["0.123", "1234.567", "12.5", "1.2345", "1.234e5", ".500", "012.500"])
def test_one_number_with_another_point_makes_all_of_them_decimal(write, cell):
    """Nobody writes thousands so: the numbers are read, without a note on points."""
    table = one(write(f"a;y\n1.250;0\n{cell};1\n3.000;0\n"))
    assert table.columns["a"].values.tolist() == [1.25, float(cell), 3.0]
    assert not any("point" in note for note in table.notes)


def test_points_before_three_digits_alone_are_read_with_a_note(write):
    """No decimal comma in the file: 3.036 is read as written, and the note names the columns. With commas between cells no
    note is needed."""
    text = "a;b;c;y\n3.036;1.500;1.5;0\n12.000;7;2;1\n"
    table = one(write(text))
    assert table.columns["a"].values.tolist() == [3.036, 12.0]
    (note,) = [note for note in table.notes if "point" in note]
    assert "'a', 'b'" in note
    assert "'c'" not in note
    assert one(write(text.replace(";", ","))).notes == ()


# ---- numbers in disguise


@pytest.mark.parametrize(
    "cells",
    [
        ["1.234,56", "2.500,00", "12,5"],
        ["2.500,00 €", "999,00 €", "12 €"],
        ["1,234.5", "12,000", "1,000,000"],
        ["1 234", "12 000", "1 234 567"],
        ["1\u202f234,5", "12\u00a0000", "-1\u00a0000"],
        ["12%", "7.5 %", "100%"],
        ["$5", "$1,200", "-$3.50"],
        ["1'000", "12'000.50", "1\u2019500"],
        ["12 kg", "7.5 kg", "100kg"],
        ["36 months", "60 months", "1 month"],
        ["EUR 5", "5 USD", "€ 1.000"],
    ],
)
def test_numbers_written_for_people_are_refused(write, cells):
    """Each was taken as text, in silence. One odd cell in ten does not hide them; as text, or left out, all is read."""
    rows = [*cells * 3, "unknown"]
    quoted = "".join(f'"{cell}",{row}\n' for row, cell in enumerate(rows))
    path = write(f"name of it,y\n,1\n{quoted}")
    with refused(
        "table.numberlike", "a.csv:3:", 9, repr(cells[0]), "1234.56", "--text 'name of it'", "--drop 'name of it'"
    ):
        one(path)
    assert len(one(path, text=["name of it"]).columns["name of it"].levels) == 4
    assert [*one(path, drop=["name of it"]).columns] == ["y"]
    assert one(path, kinds={"name of it": "text"}).rows == 11
    assert one(write(f"a,y\nfew,0\nmany,1\n{quoted}")).columns["a"].kind == "text"


@pytest.mark.parametrize(
    "cells",
    [
        ["A12", "B7", "C100"],
        ["12A", "12B", "7C"],
        ["SW1A 1AA", "EC1 2AB", "N1 9GU"],
        ["1234 AB", "5678 CD", "1012 WX"],
        ["123 45", "110 00", "602 00"],
        ["030 1234567", "0301 234 567", "0049 301 234 567"],
        ["+49 301 234 567", "+1 234 567", "+44 207 123 456"],
        ["555 123 456", "555 987 654", "601 222 333"],
        ["12-34", "56-78", "10-20"],
        ["192.168.100.101", "192.168.100.102", "10.100.200.250"],
        ["1.2.3", "1.10.0", "2.0.11"],
        ["1/2", "3/4", "1:30"],
        ["3G", "4G", "5G"],
        ["80s", "90s", "3d"],
        ["1st", "2nd", "3rd"],
        ["1,2,3", "2,3,4", "1,3,5"],
        ["< 5", "5 - 10", "10+"],
    ],
)
def test_codes_are_text(write, cells):
    """Postcodes, telephone numbers, addresses, versions, ranges and names that have digits in them stay what they are."""
    table = one(write("a,y\n" + "".join(f'"{cell}",{row}\n' for row, cell in enumerate(cells * 3))))
    assert table.columns["a"].levels == tuple(sorted(cells))


def test_few_such_numbers_among_plain_ones_are_told_how_to_write_them(write):
    """Prices of which those from a thousand on have a comma: text among numbers, with the way to write them."""
    with refused("table.text", "a.csv:3:", "'1,020'", "1234.56"):
        one(write('a,y\n980,0\n"1,020",1\n875,0\n'))


def test_parquet_text_is_looked_at_too(tmp_path):
    """The same column out of a parquet file."""
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": ["12 kg", "7 kg", None], "y": np.arange(3)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(Problems) as caught:
        one(tmp_path / "a.parquet")
    assert caught.value.code == "table.numberlike"
