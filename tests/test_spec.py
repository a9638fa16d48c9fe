"""A spec is the same from options, from config.yaml and from Python; a file states who wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise import __version__
from equipoise.errors import InputError
from equipoise.spec import Spec, setting


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
        ("cup: 3\n", "unknown", "did you mean 'cups'"),
        ("version: 9.1\ncups: 3\n", "newer", "9.1"),
        ("cups: many\n", "input", "cups"),
        ("- 1\n", "input", "config.yaml"),
        ("cups: [\n", "input", "config.yaml:2"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_its_name(tmp_path: Path, text: str, code: str, word: str) -> None:
    """Unknown key with the nearest right one, a newer version, a wrong type, no settings, no YAML."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        Tea.from_yaml(path)
    assert caught.value.code == code
    assert word in str(caught.value) and "config.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_mistake_in_an_option_names_the_option() -> None:
    """--cups, as it was typed."""
    with pytest.raises(InputError, match=r"^--cups: "):
        Tea.read(None, {"cups": "many"})


def test_a_mistake_in_python_is_the_same_line() -> None:
    """An unknown field with the nearest right one, a wrong value: InputError, not pydantic's own."""
    with pytest.raises(InputError, match="did you mean 'cups'") as caught:
        Tea(cup=3)
    assert caught.value.code == "unknown"
    with pytest.raises(InputError, match=r"^cups: "):
        Tea(cups="many")
