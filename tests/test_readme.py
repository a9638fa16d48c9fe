"""The README's Python blocks run as they stand. Its commands are checked with those of the docs (test_docs_commands)."""

import contextlib
import io
import re

import pytest

from shown import text_of

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
