"""Run folders: two in one second, a full disk, a folder that cannot be written, and no partial result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from equipoise.certificate import Certificate
from equipoise.document import Document
from equipoise.result import Result, drop_if_empty, new_folder
from refusals import refused

NOBODY = 65534
VERBS = {
    "train": ("train", "--nodes", "3", "--samples", "60", "--rounds", "5"),
    "train compare": ("train", "compare", "--nodes", "4", "--seeds", "2", "--rounds", "5"),
    "share": ("share", "--policies", "SDF", "--loads", "4", "--seeds", "2"),
    "share bundles": ("share", "bundles", "--policies", "SDF", "--loads", "2", "--units", "20", "--seeds", "2"),
    "share execute": ("share", "execute", "--policies", "SDF", "--tasks", "2"),
    "place": ("place", "--policy", "fifo", "--draw", "2"),
    "place sweep": ("place", "sweep", "--policy", "fifo", "--draw", "2", "--seeds", "2"),
    "reproduce": ("reproduce", "--quick", "sector-bound"),
}


def needs_root() -> None:
    """Mounting, and being somebody else, is for root. CI is."""
    if os.geteuid() != 0:
        assert "CI" not in os.environ, "CI runs as root"
        pytest.skip("only root can mount a small disk or become another user")


@dataclass
class Answer(Result):
    """A result of one table with so many rows."""

    rows: int = 3

    def document(self, *, certify: bool = True) -> Document:
        table = [{"x": k, "words": "as long as a line of a table may well be" * 4} for k in range(self.rows)]
        return Document("answer", {"rows": self.rows}, Certificate(()), tables={"history": table})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    needs_root()
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that others may only read, met as one of those others."""
    needs_root()
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o755)
    for parent in (tmp_path, *tmp_path.parents[:-1]):
        if not parent.stat().st_mode & 0o005:
            parent.chmod(parent.stat().st_mode | 0o055)
        if parent == Path("/tmp"):
            break
    os.seteuid(NOBODY)
    yield folder
    os.seteuid(0)


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    """The same settings, eight at once: eight folders, none of them shared."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_folder(tmp_path / "runs", "share bundles", {"seed": 1}), range(8)))
    assert len(set(made)) == 8
    assert all(folder.name.startswith("share-bundles-") for folder in made)


def test_a_full_disk_is_found_before_the_run(small_disk: Path) -> None:
    """64 kB have no room for a page: one line that says how much there is and needs to be; nothing is left there."""
    with refused("disk", small_disk, "--out"):
        new_folder(small_disk, "share", {})
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_finds_a_full_disk_before_it_runs(verb: str, small_disk: Path) -> None:
    """One line, exit 2, nothing on standard output, nothing left: no hours spent on a result that cannot be kept."""
    command = [sys.executable, "-m", "equipoise", *VERBS[verb], "--out", str(small_disk)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1 and "MB free" in done.stderr
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_fills_while_writing_keeps_no_partial_result(small_disk: Path) -> None:
    """Room was there before the run, and is gone after it: one line, and no folder that looks like a result."""
    folder = small_disk / "run"
    with refused("disk"):
        Answer(rows=2000).save(folder)
    assert not folder.exists()
    assert Answer(rows=3).save(folder) == folder and (folder / "result.json").is_file()


def test_a_result_that_cannot_be_replaced_is_no_result_any_more(small_disk: Path) -> None:
    """A folder written twice: when the second fails, the first result.json is not left beside new tables."""
    folder = Answer(rows=3).save(small_disk / "run")
    with refused("disk"):
        Answer(rows=2000).save(folder)
    assert not (folder / "result.json").exists()


def test_a_read_only_folder_is_found_before_the_run(closed_folder: Path) -> None:
    """As another user than its owner: one line with the folder and the way out."""
    for root in (closed_folder, closed_folder / "runs"):
        with refused("disk", closed_folder):
            new_folder(root, "share", {})
    with refused("disk"):
        Answer().save(closed_folder / "run")


def test_a_file_where_folders_should_be_made_is_refused(tmp_path: Path) -> None:
    """--out names a file: one line."""
    (tmp_path / "runs").write_text("")
    with refused("disk", "--out"):
        new_folder(tmp_path / "runs", "share", {})


def test_a_run_that_fails_leaves_no_empty_folder(tmp_path: Path) -> None:
    """The folder, and the one above it that was made for it, go; one with files in it stays."""
    drop_if_empty(new_folder(tmp_path / "runs", "share", {}))
    assert not (tmp_path / "runs").exists()
    kept = new_folder(tmp_path / "runs", "share", {})
    (kept / "checkpoint.npz").write_bytes(b"")
    drop_if_empty(kept)
    assert kept.exists()
