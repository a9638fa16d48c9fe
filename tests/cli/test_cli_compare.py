"""`equipoise train compare` as a user meets it: by its output, exit code and files."""

import contextlib
import csv
import io
import json
import signal
import sys

import pytest
import yaml

from equipoise.cli import main
from equipoise.train import CompareSpec
from refusals import refused

QUICK = ("--nodes", "8", "--seeds", "2", "--rounds", "60", "--entrants", "Ours,ADMM,laplacianlog")


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Run `equipoise train compare` in this process, in an empty folder; its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments, verb="compare"):
        monkeypatch.setattr(sys, "argv", ["equipoise", "train", verb, *arguments])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
            main()
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # what an interrupt left would be heard by no other test
        return leaving.value.code, out.getvalue(), err.getvalue()

    return run


def only_folder(path):
    (folder,) = (path / "runs").iterdir()
    return folder


def test_a_table_a_certificate_and_the_path_of_the_page(compare, tmp_path):
    """Exit 0; every entrant in the table, every check in the certificate, the page where the last line says."""
    code, out, _ = compare(*QUICK)
    assert code == 0
    assert all(word in out for word in ("Ours", "ADMM", "LaplacianLog", "same instances", "certificate: passed"))
    page = tmp_path / out.strip().splitlines()[-1]
    assert "is the last of" in out and "Ours'" not in out  # how the round of the first table was chosen
    assert page.name == "report.html" and "</html>" in page.read_text()
    assert {file.name for file in page.parent.iterdir()} == {"report.html", "result.json", "history.csv", "config.yaml"}


def test_json_is_all_that_is_printed_and_history_holds_every_track(compare, tmp_path):
    """Strict JSON in the form of all verbs; a row per entrant, seed and round."""
    code, out, err = compare(*QUICK, "--json")
    content = json.loads(out, parse_constant=lambda word: pytest.fail(word))
    assert code == 0 and err.startswith("Simulation: ") and err.count("\n") == 1  # what runs where
    assert set(content) == {"verb", "version", "config", "result", "certificate", "looks"}
    assert content["verb"] == "train compare" and content["certificate"]["passed"]
    assert [row["entrant"] for row in content["result"]["summary"]] == ["Ours", "ADMM", "LaplacianLog"]
    with (only_folder(tmp_path) / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * 61
    assert all(float(row["violation"]) == 0 for row in rows if row["entrant"] == "Ours")


def test_its_config_repeats_it_bit_for_bit(compare, tmp_path):
    """The same result and history from the file alone; an option given beside it wins."""
    compare(*QUICK, "--json", "--boxes", "--switching", "3", "--out", "one")
    (first,) = (tmp_path / "one").iterdir()
    compare("--config", str(first / "config.yaml"), "--json", "--out", "two")
    (second,) = (tmp_path / "two").iterdir()
    for name in ("result.json", "history.csv", "config.yaml", "report.html"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    _, out, _ = compare("--config", str(first / "config.yaml"), "--seeds", "1", "--json", "--out", "three")
    assert json.loads(out)["config"]["seeds"] == 1
    assert yaml.safe_load((first / "config.yaml").read_text())["entrants"] == ["Ours", "ADMM", "LaplacianLog"]


def test_too_few_rounds_fail_the_certificate(compare):
    """Ours does not arrive in 3 rounds: exit 1, the check named."""
    code, out, _ = compare("--nodes", "8", "--seeds", "1", "--rounds", "3", "--entrants", "Ours")
    assert code == 1 and "certificate: FAILED" in out


@pytest.mark.parametrize("study", ["rho", "alpha"])
def test_a_study_writes_its_rows(compare, tmp_path, study):
    """One knob at a time: rows in result.json and history.csv, and a page."""
    code, out, _ = compare("--study", study, "--nodes", "8", "--seeds", "1", "--json")
    content = json.loads(out)
    assert code == 0 and content["result"]["study"] == study and content["result"]["rows"]
    folder = only_folder(tmp_path)
    assert len((folder / "history.csv").read_text().splitlines()) == 1 + len(content["result"]["rows"])
    assert "data-chart" in (folder / "report.html").read_text()


def test_all_leaves_out_who_cannot_play_and_says_so(compare):
    """Ratio consensus on latency costs; named, it is refused."""
    code, out, _ = compare("--cost", "latency", "--nodes", "4", "--seeds", "1", "--rounds", "40", "--p", "0.7")
    assert "Left out: RatioConsensus needs Quadratic costs" in out.replace("\n", " ")
    assert code in (0, 1)
    code, _, err = compare("--cost", "latency", "--entrants", "RatioConsensus")
    assert code == 2 and "RatioConsensus needs Quadratic costs" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--entrants", "ADM"), "did you mean 'ADMM'"),
        (("--entrants", "ADMM,admm"), "named twice"),
        (("--study", "rhoo"), "did you mean 'rho'"),
        (("--study", "rho", "--rho", "0.5"), "--rho has no effect: study rho sets it itself"),
        (("--network", "ring", "--p", "0.5"), "--p has no effect: network is ring"),
        (("--cost", "latency", "--boxes"), "--boxes has no effect"),
        (("--seeds", "0"), "seeds must be 1 or more, not 0"),
        (("--target", "2"), "target must be between 0 and 1"),
        (("--budget", "100", "--price", "3"), "give one"),
    ],
)
def test_bad_input_gets_one_line_and_exit_2(compare, arguments, said):
    """What was given, why not, and the way out; never a traceback."""
    code, out, err = compare(*arguments)
    assert code == 2 and said in err and "Traceback" not in err and out == ""


@pytest.mark.parametrize(
    ("verb", "place"),
    [("compare", "equipoise.train.job.compare"), ("analyse", "equipoise.train.theory.analysis.analyse")],
)
def test_an_interrupt_is_one_line_and_exit_130(compare, monkeypatch, tmp_path, verb, place):
    """Nothing on standard output but what runs where, no traceback, no folder."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    code, out, err = compare("--nodes", "4", verb=verb)
    assert (code, err) == (130, "interrupted\n")
    assert out.partition(":")[0] in ("", "Simulation") and "certificate" not in out
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_is_too_large_names_the_largest_that_is_not(compare, monkeypatch):
    """Before the analysis; and the number it names works."""
    settings = ("--sweep", "--data", "breast_cancer", "--network", "ring", "--switching", "0")
    code, out, err = compare(*settings, "--nodes", "4", verb="analyse")
    assert code == 0 and "rounds become unstable here" in out
    monkeypatch.setattr("equipoise.train.theory.analysis.analyse", lambda *_, **__: pytest.fail("it was computed"))
    code, out, err = compare(*settings, "--nodes", "5", verb="analyse")
    assert code == 2 and "at most 4 nodes with 62 parameters, not 5" in err and out == ""
    code, _, err = compare("--sweep", "--data", "none", verb="analyse")
    assert code == 2 and "--sweep needs a model" in err


def test_node_wise_codes_have_a_residual_in_the_analysis(compare):
    """A number where the formula holds, none where a share is full, no line for our own codes."""
    quadratic = ("--data", "none", "--cost", "quadratic", "--json")
    free = ("--lo=-1000", "--hi", "1000")
    for arguments, known in ((("--method", "paper", *free), True), (("--method", "paper"), False), (free, False)):
        _, out, _ = compare(*quadratic, *arguments, verb="analyse")
        assert (json.loads(out)["result"]["node_residual"] is not None) == known
    _, out, _ = compare(*quadratic[:-1], "--method", "paper", *free, verb="analyse")
    assert "or until the residual" in " ".join(out.split()) and "may stand still" in out


def test_every_setting_that_a_study_sets_itself_is_refused():
    """The study of alpha has its own model: no prices, boxes and rounds."""
    for name, value in (("price", 3.0), ("boxes", True), ("rounds", 50), ("entrants", "ADMM")):
        with refused("option.unused", f"--{name}"):
            CompareSpec.read(None, {"study": "alpha", name: value}).build()


def test_the_study_of_the_claim_is_the_claim(compare, monkeypatch):
    """`--study claim` of 0.1.0 hands over to `equipoise reproduce fifty-percent-better`."""
    called = []
    monkeypatch.setattr("equipoise.cli.reproduce.app", lambda arguments, **_: called.append(arguments))
    code, _, err = compare("--study", "claim", "--json")
    assert code == 0 and "equipoise reproduce fifty-percent-better" in err
    assert called == [["fifty-percent-better", "--out", "runs", "--json"]]
