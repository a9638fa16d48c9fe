"""equipoise admin prices, against a real service: shown, set, and learned from what it was asked for."""

import contextlib
import io
import json
import subprocess
import sys

import pytest

from equipoise.cli import main
from equipoise.serve import local_service

MACHINES = {"machines": [{"name": "gpu", "count": 2, "capacity": {"gpu": 4}}]}


@pytest.fixture(scope="module")
def client():
    with local_service(MACHINES, "--horizon", "24") as one:
        yield one


def equipoise(client, *words):
    """Run the command in this process: what it printed and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["equipoise", "admin", "prices", *words, "--url", str(client.url)])
        with pytest.raises(SystemExit) as leaving:
            main()
    return subprocess.CompletedProcess(words, leaving.value.code or 0, out.getvalue(), err.getvalue())


def test_prices_that_are_set_are_charged(client):
    """2 for a GPU and slot on an empty machine: a job of 4 GPU-slots worth 7 does not pay, one worth 9 does; by hand, 8."""
    assert equipoise(client, "set", "gpu=2", "--ratio", "1").returncode == 0
    job = {"worker": {"gpu": 1}, "workers": 2, "duration": "20m", "deadline": "4h"}
    assert client.submit(job | {"value": 7}, dry_run=True).reason == "priced_out"
    paid = client.submit(job | {"value": 9}, dry_run=True)
    assert (paid.state, paid.cost) == ("admitted", pytest.approx(8.0))
    shown = json.loads(equipoise(client, "--json").stdout)
    assert shown["mean"]["gpu"][0] == pytest.approx(2.0)
    assert equipoise(client, "set", "gpu=0").returncode == 0


def test_calibrating_learns_from_what_was_asked_for(client):
    """Too little to learn from is said; then a crowd of cheap jobs before dear ones: prices above nothing are found, said
    and, unless it is a dry run, posted."""
    few = equipoise(client, "calibrate")
    assert few.returncode == 2 and "expected at least 20" in few.stderr
    for k in range(60):
        worth = 100 if k % 3 == 2 else 1
        job = {"worker": {"gpu": 1}, "workers": 4, "duration": "1h", "value": worth, "deadline": "90m"}
        client.submit(job)
        if k % 4 == 3:
            client.advance(1)
    tried = equipoise(client, "calibrate", "--dry-run", "--json")
    found = json.loads(tried.stdout)
    assert found["jobs"] == 60 and found["utility"] > found["utility_free"] and not found["set"]
    assert client.prices()["mean"]["gpu"][-1] == 0.0
    done = equipoise(client, "calibrate")
    assert done.returncode == 0 and "60 past jobs earn" in done.stdout
    assert client.prices()["mean"]["gpu"][-1] == pytest.approx(found["base"]["gpu"])


@pytest.mark.parametrize(
    "words", [("set", "gpu=much"), ("set", "gpu"), ("set", "tpu=1"), ("set", "gpu=1", "--ratio", "0")]
)
def test_a_slip_is_one_line(client, words):
    answer = equipoise(client, *words)
    assert answer.returncode == 2
    assert len(answer.stderr.strip().splitlines()) == 1
