"""equipoise jobs progress and equipoise admin clock, against a real service on a virtual clock."""

import contextlib
import io
import json
import subprocess
import sys

import pytest

from equipoise.cli import main
from equipoise.serve import local_service

MACHINES = {"machines": [{"name": "gpu", "count": 1, "capacity": {"gpu": 1}}]}
JOB = {"worker": {"gpu": 1}, "workers": 1, "duration": "40m", "value": 5}


@pytest.fixture(scope="module")
def client():
    with local_service(MACHINES, "--horizon", "24") as one:
        yield one


def equipoise(client, *words):
    """Run the command in this process: what it printed and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["equipoise", *words, "--url", str(client.url)])
        with pytest.raises(SystemExit) as leaving:
            main()
    return subprocess.CompletedProcess(words, leaving.value.code or 0, out.getvalue(), err.getvalue())


def test_a_script_moves_the_clock_and_reports_a_slow_job_to_its_end(client):
    """4 slots of work, a quarter of it done after 2: half as fast, so the 3 slots' work left take 6, slots 2 to 7."""
    job = client.submit(JOB)
    assert json.loads(equipoise(client, "admin", "clock", "--advance", "2", "--json").stdout)["now"] == 2
    told = json.loads(equipoise(client, "jobs", "progress", job.id, "--percent", "25", "--json").stdout)
    assert (told["pace"], told["reason"], told["end"]) == (pytest.approx(0.5), "late", 7)
    assert "Finished in slot 2" in equipoise(client, "jobs", "progress", job.id, "--finished").stdout
    assert client.job(job.id).state == "finished"
    assert equipoise(client, "jobs", "progress", job.id, "--finished").returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "progress", "j1"),
        ("jobs", "progress", "j1", "--done", "1", "--finished"),
        ("admin", "clock", "--advance", "1", "--to", "9"),
    ],
)
def test_a_slip_is_one_line(client, words):
    answer = equipoise(client, *words)
    assert answer.returncode == 2 and len(answer.stderr.strip().splitlines()) == 1
