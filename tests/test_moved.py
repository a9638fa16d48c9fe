"""Names of version 0.1.0 import until 0.3, are the same objects as the new ones, and say what the new one is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from equipoise import _moved
from equipoise._moved import MOVED, find


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A table of its own; what a test imports by an old name is forgotten after it."""
    rows: dict[str, str] = {}
    monkeypatch.setattr(_moved, "MOVED", rows)
    before = set(sys.modules)
    yield rows
    for name in set(sys.modules) - before:
        if name.startswith("equipoise.old"):
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(last, None)


def test_every_row_leads_somewhere_and_warns() -> None:
    """Each old name gives the object that the new name gives, and the warning has the new name in it."""
    for old, new in MOVED.items():
        for name in [name for name in sys.modules if name == old or name.startswith(old + ".")]:
            del sys.modules[name]
        parent, _, last = old.rpartition(".")
        if (module := sys.modules.get(parent)) is not None:
            vars(module).pop(last, None)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found, expected = find(old), find(new)
        assert any(f"{old} is {new}" in str(w.message) and w.category is DeprecationWarning for w in seen), old
        assert found is expected or getattr(found, "__doc__", None) == "An old name; it goes in 0.3.", old


def test_an_old_module_passes_on_its_names_and_submodules(table: dict[str, str]) -> None:
    """`from old import Class`, `import old.part` and `from old import *` all meet the same objects as before."""
    table["equipoise.old"] = "equipoise.share.policies"
    from equipoise.share.policies import SDF, sdf

    with pytest.warns(DeprecationWarning, match=r"equipoise.old is equipoise.share.policies since") as seen:
        old = import_module("equipoise.old")
    assert old.SDF is SDF
    assert "SDF" in old.__all__
    with pytest.warns(DeprecationWarning, match=r"equipoise.old.sdf is equipoise.share.policies.sdf"):
        assert import_module("equipoise.old.sdf").SDF is sdf.SDF
    assert len(seen) == 1


def test_one_name_of_a_module_has_a_row_of_its_own(table: dict[str, str]) -> None:
    """A name may leave the module it was in: its row comes before the row of the module."""
    table["equipoise.old"] = "equipoise.share"
    table["equipoise.old.Policy"] = "equipoise.share.Task"
    import equipoise.share

    with pytest.warns(DeprecationWarning, match=r"equipoise.old.Policy is equipoise.share.Task"):
        assert import_module("equipoise.old").Policy is equipoise.share.Task


def test_a_module_that_is_gone_is_there_for_the_names_that_moved_out_of_it(table: dict[str, str]) -> None:
    """Only `equipoise.old_case.Case` has a row: the module imports, gives this name and no other."""
    table["equipoise.old_case.Case"] = "equipoise.share.Task"
    old = import_module("equipoise.old_case")
    with pytest.warns(DeprecationWarning, match=r"equipoise.share.Task"):
        assert old.Case is import_module("equipoise.share").Task
    with pytest.raises(AttributeError, match=r"has no attribute 'Other'"):
        _ = old.Other


@pytest.mark.parametrize("package", ["", ".train", ".share", ".place", ".engine", ".serve", ".claims", ".data"])
def test_every_public_package_asks_the_table(package: str, table: dict[str, str]) -> None:
    """An old name of a package that is still there; a name nobody knows stays an AttributeError."""
    table[f"equipoise{package}.OldName"] = "equipoise.errors.InputError"
    module = import_module(f"equipoise{package}")
    with pytest.warns(DeprecationWarning, match=r"equipoise.errors.InputError since 0.2"):
        assert module.OldName.__name__ == "InputError"
    with pytest.raises(AttributeError, match=r"has no attribute 'Never'"):
        _ = module.Never


def test_the_warning_stands_at_the_line_of_the_user(tmp_path: Path) -> None:
    """Python shows a DeprecationWarning to who wrote the line, in the file it stands in; here a script."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from equipoise import _moved
        _moved.MOVED |= {"equipoise.old": "equipoise.errors", "equipoise.Wrong": "equipoise.errors.InputError"}
        import equipoise
        from equipoise.old import InputError
        equipoise.Wrong
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert f"{script}:5: DeprecationWarning: equipoise.old is equipoise.errors since 0.2" in done.stderr
    assert f"{script}:6: DeprecationWarning: equipoise.Wrong is equipoise.errors.InputError" in done.stderr


def test_a_module_nobody_knows_is_not_found() -> None:
    """The hook claims no name that has no row."""
    with pytest.raises(ModuleNotFoundError, match=r"equipoise.never"):
        import_module("equipoise.never")


GONE = {
    "equipoise.train.theory.averages.averages_loop",  # averages are for graphs that never repeat: there is no loop
    "equipoise.share.estimators.PowerOffset",  # no policy used it
    "equipoise.share.estimators.power_offset",
    "equipoise.place.prices.Bid",  # it is refused: see below
}
NAMES = (Path(__file__).parent / "recorded" / "0.1.0" / "names.txt").read_text().split()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in GONE])
def test_every_public_name_of_0_1_0_still_imports(name: str) -> None:
    """What `__all__`, the reference, the docs and the examples of 0.1.0 had: under its name, or a new one."""
    if "torch" in name.lower():
        pytest.importorskip("torch", reason="torch is not installed")
    assert find(name) is not None


@pytest.mark.parametrize(
    "line",
    [
        "from equipoise.place.prices import Bid",
        "from equipoise.place.prices.bid import Bid",
        "import equipoise.place.prices.bid",
        "import equipoise.place.prices as prices; prices.Bid",
    ],
)
def test_a_name_that_is_gone_says_so_and_names_the_way_out(line: str) -> None:
    """Its import is an ImportError and its attribute an AttributeError, as of any name that is not there."""
    with pytest.raises(AttributeError if line.endswith("prices.Bid") else ImportError) as refusal:
        exec(line)
    assert "take equipoise.place.prices.Replay" in str(refusal.value)
    assert not hasattr(import_module("equipoise.place.prices"), "Bid")
