"""A spec is the same from options, from config.yaml and from Python; a file states who wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise import __version__
from equipoise.spec import Spec, setting
from refusals import refused


class Tea(Spec):
    """An example."""

    cups: int = setting(2, "How many.", "Tea")
    leaf: str | None = setting(None, "Which.", "Tea")

    @classmethod
    def upgrade(cls, values: dict[str, object], version: str) -> dict[str, object]:
        if version == "0.1.0" and "mugs" in values:
            values["cups"] = values.pop("mugs")
        return values


def test_a_spec_comes_back_from_its_yaml(tmp_path: Path) -> None:
    """to_yaml states the version; from_yaml reads it, and changes win."""
    path = tmp_path / "config.yaml"
    path.write_text(Tea(cups=3).to_yaml())
    assert path.read_text().splitlines()[0] == f"version: {__version__}"
    assert Tea.from_yaml(path) == Tea(cups=3)
    assert Tea.from_yaml(path, cups=5).cups == 5


def test_a_file_without_a_version_is_of_the_first_release(tmp_path: Path) -> None:
    """Its old keys keep their meaning."""
    path = tmp_path / "config.yaml"
    path.write_text("mugs: 7\n")
    assert Tea.from_yaml(path).cups == 7


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("cup: 3\n", "unknown", "'cups'"),
        ("version: 9.1\ncups: 3\n", "newer", "9.1"),
        ("cups: many\n", "setting.value", "cups"),
        ("- 1\n", "config.form", "config.yaml"),
        ("cups: [\n", "config.yaml", "config.yaml:2"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_its_name(tmp_path: Path, text: str, code: str, word: str) -> None:
    """Unknown key with the nearest right one, a newer version, a wrong type, no settings, no YAML."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with refused(code, word, "config.yaml"):
        Tea.from_yaml(path)


def test_a_mistake_in_an_option_names_the_option() -> None:
    """--cups, as it was typed."""
    with refused("setting.value", "--cups: "):
        Tea.read(None, {"cups": "many"})


def test_a_mistake_in_python_is_the_same_line() -> None:
    """An unknown field with the nearest right one, a wrong value: InputError, not pydantic's own."""
    with refused("unknown", "'cups'"):
        Tea(cup=3)
    with refused("setting.value", "cups: "):
        Tea(cups="many")
