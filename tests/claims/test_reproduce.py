"""`equipoise reproduce`: every claim gets its verdict, nothing differs from the recording, and the page shows it all."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.claims.ledger import RECORDED, claims
from equipoise.document import read

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import record_claims  # noqa: E402

WORDS = {"reproduced", "not reproduced", "depends", "beyond"}


def equipoise(*words, **options):
    command = [sys.executable, "-m", "equipoise", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The whole ledger in its quick form, by the command, in two processes."""
    out = tmp_path_factory.mktemp("reproduce")
    done = equipoise("reproduce", "--quick", "--workers", 2, "--out", out)
    (folder,) = out.iterdir()
    return done, folder


def test_the_whole_ledger_passes_in_its_quick_form(whole):
    """Exit 0; a verdict for every claim there is, each one of the four words, each from findings with a bound."""
    done, folder = whole
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((folder / "result.json").read_text())
    assert content["certificate"]["passed"]
    assert [entry["name"] for entry in content["result"]["claims"]] == list(claims())
    for entry in content["result"]["claims"]:
        assert entry["verdict"] in WORDS and entry["findings"] and entry["protocol"] and entry["figures"], entry["name"]
        assert entry["name"] in done.stdout
        for finding in entry["findings"]:
            assert finding["low"] is not None or finding["high"] is not None


def test_the_page_and_the_rows_have_every_claim(whole):
    """report.html needs nothing else; history.csv has a row for every finding."""
    _, folder = whole
    content = json.loads((folder / "result.json").read_text())
    page = (folder / "report.html").read_text()
    rows = list(csv.DictReader((folder / "history.csv").open()))
    for entry in content["result"]["claims"]:
        assert f'id="{entry["name"]}"' in page
        assert sum(row["claim"] == entry["name"] for row in rows) == len(entry["findings"])
        assert all(f'data-chart="{entry["name"]}-{k}"' in page for k in range(len(entry["figures"])))


def test_a_run_repeats_from_its_configuration(whole, tmp_path):
    """--config gives the same result.json, to the byte; fewer claims may be named beside it."""
    _, folder = whole
    out = tmp_path / "again"
    done = equipoise("reproduce", "sector-bound", "--config", folder / "config.yaml", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["result"]["claims"]
    first = json.loads((folder / "result.json").read_text())["result"]["claims"]
    assert one in first


def test_bad_input_is_one_line_that_helps(tmp_path):
    """An unknown claim names its neighbour; a folder that is none says what it should hold."""
    done = equipoise("reproduce", "anytime-terminaton", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean anytime-termination?" in done.stderr and done.stderr.count("\n") == 1
    done = equipoise("reproduce", "--data-dir", tmp_path / "nowhere", "--out", tmp_path)
    assert done.returncode == 2 and "MNIST" in done.stderr and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_list_names_every_claim_with_the_recorded_verdict():
    """Nothing is measured for it."""
    rows = json.loads(equipoise("reproduce", "--list", "--json").stdout)["claims"]
    assert [row["name"] for row in rows] == list(claims())
    assert {row["recorded"] for row in rows} <= WORDS


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_the_recording_has_every_claim(scale):
    """What ships with the package is of the claims as they are."""
    content = json.loads((RECORDED / f"{scale}.json").read_text())
    assert [entry["name"] for entry in content["result"]["claims"]] == list(claims())
    assert content["certificate"]["passed"] and content["config"]["quick"] == (scale == "quick")
    for entry in content["result"]["claims"]:
        claim = claims()[entry["name"]]
        assert (entry["sentence"], entry["source"], entry["unread"]) == (claim.sentence, claim.source, claim.unread)


def test_the_page_of_the_docs_is_made_from_the_full_recording():
    """docs/claims.md is what docs/record_claims.py writes, and nobody has touched it."""
    assert (ROOT / "docs/claims.md").read_text() == record_claims.page(read(RECORDED / "full.json"))
