"""What is wrong in files, and between them, is told in one report."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.data.own_files import OwnFiles
from equipoise.data.problems import Problem, Problems


def write(folder, files):
    """Files by name; their paths."""
    for name, content in files.items():
        (folder / name).write_text(content)
    return [folder / name for name in files]


def test_problems_of_one_file_do_not_hide_those_between_files(tmp_path):
    """A date and a missing label beside another file's extra column and text: one report, by file as given, then by line."""
    good = "x,z,c,y\n1,2,a,no\n2,3,b,yes\n"
    paths = write(
        tmp_path,
        {
            "d.csv": "x,z,c,y,more\n2024-01-31,old,a,no,1\n2024-02-01,new,b,,2\n",
            "a.csv": good,
            "c.csv": "z,x,y\nfew,2024-01-31,no\nmany,2024-02-01,yes\n",
            "b.csv": good.replace("1,2", "5,6"),
            "e.csv": good.replace("1,2", "7,8"),
        },
    )
    with pytest.raises(Problems) as caught:
        OwnFiles.read(paths, label="y")
    assert [(one.path.name, one.line, one.code) for one in caught.value.problems] == [
        ("d.csv", 1, "table.columns"),  # more
        ("d.csv", 2, "table.dates"),  # x
        ("d.csv", 2, "table.kinds"),  # z
        ("d.csv", 3, "table.label"),
        ("c.csv", 1, "table.columns"),  # no c
        ("c.csv", 2, "table.dates"),
        ("c.csv", 2, "table.kinds"),
    ]


def test_a_file_without_the_label_is_compared_all_the_same(tmp_path):
    """It lacks y and another column: both are told, and no other file is blamed for having y."""
    paths = write(
        tmp_path, {"a.csv": "x,c,y\n1,a,no\n2,b,yes\n", "b.csv": "x,c,y\n5,a,no\n6,b,yes\n", "c.csv": "x,d\n1,2\n2,3\n"}
    )
    for label, code in (("y", "table.column"), (None, "table.label")):
        with pytest.raises(Problems) as caught:
            OwnFiles.read(paths, label=label)
        found = [(one.path.name, one.code) for one in caught.value.problems]
        assert sorted(found) == sorted([("c.csv", code), ("c.csv", "table.columns"), ("c.csv", "table.columns")])


def test_a_label_that_cannot_be_read_is_one_problem(tmp_path):
    """Dates where the label should be: not also a label without values."""
    paths = write(tmp_path, {"a.csv": "x,y\n1,2024-01-31\n2,2024-02-01\n", "b.csv": "x,y\n1,2\n2,3\n"})
    for label in ("y", None):
        with pytest.raises(Problems) as caught:
            OwnFiles.read(paths, label=label)
        assert [(one.path.name, one.code) for one in caught.value.problems] == [("a.csv", "table.dates")]


def test_a_problem_says_file_and_line():
    """The path as the user gave it; no line where the whole file is meant; one code for one kind."""
    here, whole = Problem(Path("a.csv"), 17, "odd", "x.y"), Problem(Path("b/a.csv"), None, "odd", "x.y")
    assert [str(here), str(whole)] == ["a.csv:17: odd", "b/a.csv: odd"]
    assert (Problems([here, whole]).code, str(Problems([here, whole]))) == ("x.y", "a.csv:17: odd\nb/a.csv: odd")
