"""What the README and the pages of docs/ show: their blocks, and the commands in them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TOLD = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
SHELL = re.compile(r"```sh\n(.*?)```", re.S)
# Commands that run after the Python blocks of their page, which write the files they read.
AFTER = {
    "docs/tutorial-train.md": (
        "equipoise train /tmp/tumours.csv --label diagnosis --nodes 5 --split dirichlet --network ring --switching 0",
    ),
    "docs/your-data.md": (
        "equipoise train /tmp/shops --label churn --drop id --class-weight balanced --out /tmp/shops/runs",
        "equipoise predict /tmp/shops/runs/train-* /tmp/new.csv --out /tmp/answers.csv",
    ),
    "docs/tutorial-share.md": ("equipoise share --config /tmp/site.yaml",),
    "docs/tutorial-place.md": (
        "equipoise place verify /tmp/schedule.csv --jobs /tmp/this.csv --cluster /tmp/cluster.yaml --horizon 48",
    ),
}
INLINE = re.compile(r"`((?:equipoise|make|python) [^`\n]*)`")


class Shown(NamedTuple):
    """One command of a page, without its comment; `inline` if it stands in a sentence."""

    page: str
    line: str
    inline: bool

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[list[str]]:
    """The commands of every `sh` block of a page."""
    return [lines(body) for body in SHELL.findall(text_of(page))]


def lines(body: str) -> list[str]:
    """One command a line, without comments; a line that ends in a backslash goes on."""
    whole = body.replace("\\\n", " ")
    return [line for line in (re.sub(r"(^|\s)#.*", "", shown).strip() for shown in whole.splitlines()) if line]


def commands() -> Iterator[Shown]:
    """Every command of the README and of docs/, of blocks and of sentences."""
    for page in TOLD:
        for block in blocks(page):
            for line in block:
                yield Shown(page, line, inline=False)
        for line in INLINE.findall(text_of(page)):
            yield Shown(page, line, inline=True)


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Lines in one bash, with this environment's commands on the path and the repository's examples at hand."""
    for name in ("examples", "Makefile", "pyproject.toml", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    set_up = (
        'make() { command make --no-print-directory -o .venv/bin/.user "$@"; }\n'  # what make would install is here
    )
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", set_up + script],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
