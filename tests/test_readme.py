"""The README's Python blocks run as they stand. Its commands are checked with those of the docs (test_docs_commands).

python tests/test_readme.py    writes what `equipoise place` prints now into the README's table and that of start.md
"""

import contextlib
import io
import re
import tempfile
from pathlib import Path

import pytest

from shown import ROOT, blocks, shell, text_of

PLACED = "docs/start.md"  # has the table as the terminal shows it
HEAD = "| policy | jobs done | in time | mean slowdown | p95 | promised on arrival |\n|---|---|---|---|---|---|\n"
BLOCKS = tuple(re.findall(r"```(?:python|py)\n(.*?)```", text_of("README.md"), re.S))


def played(block: str) -> tuple[dict, str]:
    names: dict = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "README.md", "exec"), names)
    return names, out.getvalue()


@pytest.fixture(scope="module")
def plays() -> list[tuple[dict, str]]:
    return [played(block) for block in BLOCKS]


def test_a_training_run_is_shown_and_its_certificate_passes(plays):
    """Copy, paste, run: the run it makes passes, and says so."""
    runs = [(names["run"], printed) for names, printed in plays if "run" in names]
    assert runs
    for run, printed in runs:
        assert run.certificate().passed and "True" in printed


def test_the_two_commands_stand_first_and_it_is_short():
    """Who opens it sees how to run the main job and the tests, and reaches the end."""
    lines = text_of("README.md").splitlines()
    assert len(lines) <= 150
    first = [line.split("#")[0].strip() for line in lines[:8] if line.startswith("make ")]
    assert first == ["make train", "make test"]


def placed(folder):
    """What `equipoise place` prints in a terminal of 80 columns: the README's table of it, and its own up to the bound."""
    done = shell("export COLUMNS=80; equipoise place --no-report", folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Recommended:\s+Dated:", done.stdout)  # as the README says
    told = [line.rstrip() for line in done.stdout.partition("Policies on the same jobs\n")[2].splitlines()]
    last = next(number for number, line in enumerate(told) if line.startswith("bound"))
    first = next(number for number, line in enumerate(told) if line.startswith("───")) + 1
    words = " ".join(" ".join(line.split()) for line in told[:first])
    assert re.search(r"policy done time slowdown p95 arrival statement", words)  # the columns that the README names
    rows = [line.split()[:6] for line in told[first:last]]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows), "\n".join(told[: last + 1])


def shown_in(page):
    """The table of the built-in example that a page shows."""
    table = rf"{re.escape(HEAD)}(?:\|.*\n)+" if page == "README.md" else r"(?<=```\n)(?:(?!```).*\n)*?bound.*(?=\n```)"
    (found,) = re.findall(table, text_of(page))
    return found


def test_the_table_of_place_is_what_the_command_prints(tmp_path):
    """`equipoise place` as it stands in the README: every figure of the README's table and of start.md's, to the digit."""
    assert "equipoise place" in [line for block in blocks("README.md") for line in block]
    assert "equipoise place" in [line for block in blocks(PLACED) for line in block]
    table, terminal = placed(tmp_path)
    assert shown_in("README.md") == table
    assert shown_in(PLACED) == terminal
    promised = table.splitlines()[2].rstrip(" |").rpartition(" ")[2]
    assert f"tells {promised} jobs" in text_of("README.md")  # the sentence below it


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for page, now in zip(("README.md", PLACED), placed(Path(folder)), strict=True):
            (ROOT / page).write_text(text_of(page).replace(shown_in(page), now), encoding="utf-8")
