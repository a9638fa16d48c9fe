"""Bad files are one line with the file and the way out: a config, a result folder of a newer version, a table of jobs."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import equipoise
from equipoise.cli.output import show
from equipoise.cli.service import job_table
from equipoise.serve.models import JobStatus
from refusals import refused

RECORDED = Path(__file__).parents[1] / "recorded" / "0.1.0"


@pytest.mark.parametrize(
    ("verb", "text", "words"),
    [
        ("share", "policis: [SDF]\n", ("'policis'", "'policies'")),
        ("train", "ronds: 5\n", ("'ronds'", "'rounds'")),
        ("place", "pollicy: [fifo]\n", ("'pollicy'", "'policy'")),
        ("share", "version: 9.0.0\nseeds: 2\n", ("9.0.0", equipoise.__version__)),
    ],
)
def test_a_config_that_cannot_be_read_is_one_line(verb: str, text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """The file, the wrong key and the nearest right one; or the version that wrote it. Exit 2."""
    file = tmp_path / "config.yaml"
    file.write_text(text)
    command = [sys.executable, "-m", "equipoise", verb, "--config", str(file), "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert all(word in done.stderr for word in (str(file), *words))
    assert not (tmp_path / "runs").exists()


def test_a_result_folder_of_a_newer_version_names_both_versions(tmp_path: Path) -> None:
    """It might mean something else by the same words: it is not loaded, and the way out is said."""
    folder = shutil.copytree(RECORDED / "share", tmp_path / "share")
    result = folder / "result.json"
    result.write_text(result.read_text().replace('"version": "0.1.0"', '"version": "9.0.0"'))
    with refused("newer", folder, "9.0.0", equipoise.__version__):
        equipoise.load(folder)


def test_a_table_of_jobs_fits_80_columns_and_cuts_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names and reasons are folded; columns leave before a number is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    why = "It waits: its best schedule costs more than it is worth at the prices of this week."
    job = JobStatus(
        id="j123456", name="a-long-name-of-a-nightly-training-run", tenant="vision", state="admitted", why=why
    )
    shown = io.StringIO()
    with redirect_stdout(shown):
        show(job_table([job.model_copy(update={"submitted": 1234567, "start": 1234568, "end": 1234599})]))
    assert max(map(len, shown.getvalue().splitlines())) <= 80
    assert "1234568" in shown.getvalue() and "1234599" in shown.getvalue() and "j123456" in shown.getvalue()
