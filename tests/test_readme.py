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


def test_a_policy_of_ones_own_is_shown_and_hybrid_is_ahead(plays):
    """Every policy is in the table it prints, the policy passes its checks, and Hybrid is ahead on the same seeds."""
    ((names, printed),) = [(names, printed) for names, printed in plays if "result" in names]
    assert printed.startswith("True") and all(name in printed for name in names["result"].names)
    (gap,) = names["result"].paired("Hybrid", "ShortestFirst")
    assert gap.difference > 3 * gap.standard_error
