"""A choice is found because its file is there; names and help come from the source, and each mistake is one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equipoise.registry import Registry
from refusals import refused

POLICY = '''"""Longest first: for the patient. Starves short tasks."""

class {name}:
    label = "{label}"
    colour = "#123456"

    def __init__(self, size=1):
        self.size = size
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package with one choice and one private file."""
    package = tmp_path / "fruits"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_shared.py").write_text("raise SystemError")
    (package / "long_first.py").write_text(POLICY.format(name="LongFirst", label="Long+First"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fruits", raising=False)
    return package


def registry() -> Registry[object]:
    return Registry("fruits", "policy")


def test_a_file_is_a_choice_and_nothing_is_imported_to_see_it(folder: Path) -> None:
    """Name, help and facts are read from the source."""
    (choice,) = registry().choices()
    assert (choice.name, choice.stem, choice.object_name) == ("Long+First", "long_first", "LongFirst")
    assert choice.help == "Longest first: for the patient. Starves short tasks."
    assert choice.facts["colour"] == "#123456"
    assert not any(name.startswith("fruits") for name in sys.modules)


@pytest.mark.parametrize("text", ["Long+First", "long+first", "long_first", "long-first", "LongFirst"])
def test_a_choice_is_found_by_each_of_its_names(folder: Path, text: str) -> None:
    """Label, file and class all name it."""
    assert registry().make(text, size=3).size == 3  # type: ignore[attr-defined]


def test_a_new_file_is_a_new_choice(folder: Path) -> None:
    """No other file is touched; a `rank` goes before the alphabet."""
    (folder / "zebra.py").write_text('"""Stripes."""\nrank = 1\n\ndef zebra():\n    return 7\n')
    assert registry().names() == ("zebra", "Long+First")
    assert registry().make("zebra") == 7


def test_a_name_nobody_knows_comes_with_the_nearest(folder: Path) -> None:
    """One line, with a code."""
    with refused("unknown", "'Long+First'"):
        registry().find("long+frist")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("class Bad(:\n", "registry.load"),
        ("x = 1\n", "registry.empty"),
        (POLICY.format(name="Bad", label="long-first"), "registry.twice"),
        ("import nothing_such\n\nclass Bad:\n    pass\n", "registry.load"),
    ],
)
def test_a_file_that_is_no_choice_is_named(folder: Path, source: str, code: str) -> None:
    """Does not parse, holds none, has another's name, does not import: the line has the file in it."""
    (folder / "bad.py").write_text(source)
    with refused(code, "bad.py"):
        registry().make("bad")


def test_a_format_is_recognised_by_its_first_lines(folder: Path, tmp_path: Path) -> None:
    """The rule stands in the format's own file."""
    (folder / "commas.py").write_text(
        '"""With commas."""\n\ndef matches(lines):\n    return "," in lines[0]\n\ndef commas(path):\n    return path\n'
    )
    given = tmp_path / "x.txt"
    given.write_text("a,b\n1,2\n")
    assert registry().detect(given) == "commas"
    given.write_text("a b\n")
    with refused("registry.format", given):
        registry().detect(given)


def test_a_class_of_a_users_own_file(folder: Path, tmp_path: Path) -> None:
    """FILE.py:CLASS."""
    mine = tmp_path / "mine.py"
    mine.write_text(POLICY.format(name="Mine", label="Mine"))
    assert registry().make(f"{mine}:Mine", size=4).size == 4  # type: ignore[attr-defined]
