"""`equipoise train analyse` as a user meets it."""

import json
import re

import pytest
from typer.testing import CliRunner

from equipoise.cli.train import app
from refusals import refused

SMALL = ("--data", "breast_cancer", "--model", "smooth_svm", "--nodes", "4", "--network", "ring", "--switching", "0")


def analyse(*options):
    """The command's standard output; errors of the user are raised as they are."""
    done = CliRunner().invoke(app, ["analyse", *options], env={"COLUMNS": "140"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def test_a_table_of_one_line_a_quantity_and_no_run(tmp_path, monkeypatch):
    """A ring of four by hand: 4 edges, diameter 2, lambda_2 = (2 - 2 cos 90)/3 = 2/3, gap 1 - cos 90 = 1; no folder."""
    monkeypatch.chdir(tmp_path)
    lines = {line.split("  ")[0].strip(): line for line in analyse(*SMALL).splitlines()}
    for quantity, value in {
        "edges": "4",
        "diameter": "2",
        "paper: lambda_2": "0.6667",
        "bits per number": "10",
    }.items():
        assert re.search(rf"\s{re.escape(value)}\s", lines[quantity])
    assert re.search(r"\s1\s", lines["gap"])
    assert {"CPU theta", "CPU relax", "model theta", "local steps", "learning rounds", "paper: crossing"} <= set(lines)
    assert not {"alpha", "momentum", "theta"} & set(lines)
    assert "never" in lines["paper: in time"]
    assert not list(tmp_path.iterdir())


def test_where_links_do_not_return_it_speaks_of_markets_and_averages():
    """A fresh graph each round: steps that were chosen, a line that there is no theory, and the paper's beside it."""
    fresh = (*SMALL[:-3], "erdos_renyi", "--p", "0.6", "--switching", "fresh")
    lines = {line.split("  ")[0].strip(): line for line in analyse(*fresh).splitlines()}
    assert {"alpha", "alpha limit", "momentum", "theta", "paper: crossing"} <= set(lines)
    assert "no theory of markets" in lines["CPU rounds"] and "no theory of averages" in lines["learning rounds"]
    assert not set(lines) & {"gap", "CPU theta", "model theta"}


def test_json_has_the_verb_and_plain_numbers():
    """Strict JSON with the configuration that gave it, and the same crossing as the sweep's."""
    content = json.loads(analyse(*SMALL, "--json", "--sweep", "--target", "1e-5"))
    assert set(content) == {"verb", "version", "config", "result", "certificate", "looks"}
    assert content["verb"] == "train analyse" and content["config"]["nodes"] == 4
    result = content["result"]
    assert result["target"] == 1e-5 and (result["cpu"], result["learning"]) == ("links", "links")
    assert result["alpha"] is None and result["tracking_limit"] < result["tracking_crossing"]
    radii = [row["radius"] for row in result["sweep"]]
    assert min(radii) < 1 < max(radii)


def test_the_papers_method_is_described_as_itself():
    """No averages, no momentum: lambda_2 and the step are its own, and nothing stands beside it for comparison."""
    lines = {line.split("  ")[0].strip() for line in analyse(*SMALL, "--method", "paper").splitlines()}
    assert {"step", "lambda_2", "lambda_2 / L", "alpha crossing"} <= lines
    assert not lines & {"momentum", "theta", "paper: crossing"}


def test_a_sweep_marks_where_rounds_become_unstable():
    """One line of the second table says so."""
    assert analyse(*SMALL, "--sweep").count("unstable here") == 1


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--data", "none", "--sweep"), ("problem.model",)),
        (("--rho", "-1"), ("quantizer.rho", -1.0)),
        (("--target", "2"), ("target.range", 2.0)),
    ],
)
def test_mistakes_are_one_line(options, refusal):
    """Each is an InputError, which the program prints as one line with exit code 2."""
    with refused(*refusal):
        analyse("--data", "none", *options)
