"""`equipoise share execute` as a user meets it: by its output, exit code and files."""

import csv
import json
import sys

import pytest
import yaml

from equipoise.cli import main
from equipoise.engine.real_clock.spec import ExecuteSpec

QUICK = (
    "--tasks",
    "3",
    "--step",
    "0.15",
    "--cpus",
    "0.8",
    "--arrival",
    "0:2",
    "--deadline",
    "10:12",
    "--length",
    "10:40",
    "--patience",
    "5",
    "--trial",
    "0.05",
)
WORK = """
def learns(seed):
    for k in range(1, 10000):
        sum(range(20000))
        yield 1.0 / k

def raises(seed):
    yield 0.9
    raise ValueError("the table has no rows")
"""


@pytest.fixture
def execute(tmp_path, monkeypatch, capsys):
    """Run the command in this process, in a folder with my.py; its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "my.py").write_text(WORK)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["equipoise", "share", "execute", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return run


def test_a_run_prints_both_and_leaves_a_folder(execute, tmp_path):
    """The table, the certificate, and four files; config.yaml has the tasks' costs, so that it repeats their targets."""
    code, out, _ = execute(*QUICK, "--policies", "Uniform,SDF", "--work", "my.py:learns")
    assert code == 0, out
    assert "Uniform" in out and "SDF" in out and "certificate: passed" in out and "held by" in out
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("share-execute-")
    assert {f.name for f in folder.iterdir()} == {"report.html", "result.json", "history.csv", "config.yaml"}
    content = json.loads((folder / "result.json").read_text())
    assert content["verb"] == "share execute" and content["certificate"]["passed"]
    rows = {row["policy"]: row for row in content["result"]["rows"]}
    assert set(rows) == {"Uniform", "SDF"}
    tasks = content["result"]["tasks"]
    assert len(tasks) == 6
    done = [task["done_executed"] is not None for task in tasks if task["policy"] == "SDF"]
    assert rows["SDF"]["success_executed"] == pytest.approx(100 * sum(done) / 3)
    again = ExecuteSpec.from_yaml(folder / "config.yaml")
    assert again.units == content["config"]["units"] and again.work == str(tmp_path / "my.py:learns")
    with (folder / "history.csv").open() as file:
        steps = list(csv.DictReader(file))
    assert {row["state"] for row in steps} <= {"sending", "delayed", "computing"}
    assert all(float(row["compute"]) == 0 for row in steps if row["state"] != "computing")
    page = (folder / "report.html").read_text()
    assert "Simulated and executed" in page and "my.py:learns" in page


def test_a_repeated_config_has_the_same_tasks(execute, tmp_path):
    """The clock is real; targets, arrivals and deadlines are not a matter of the clock."""
    arguments = (*QUICK, "--policies", "Uniform", "--json")
    code, out, _ = execute(*arguments, "--work", "my.py:learns")
    assert code == 0
    first = json.loads(out)
    (folder,) = (tmp_path / "runs").iterdir()
    assert yaml.safe_load((folder / "config.yaml").read_text())["tasks"] == 3
    code, out, _ = execute("--config", str(folder / "config.yaml"), "--json")
    again = json.loads(out)
    for name in ("kind", "work_seed", "arrival", "deadline", "target"):
        assert [t[name] for t in first["result"]["tasks"]] == [t[name] for t in again["result"]["tasks"]]


def test_a_task_that_raises_is_named_and_the_exit_code_says_so(execute):
    """The run goes on to its end and prints its table; 1, for a check of the certificate failed."""
    code, out, err = execute(*QUICK, "--policies", "Uniform", "--work", "my.py:raises")
    assert code == 1
    assert err.count("failed: ValueError: the table has no rows") == 3 and "task 0" in err
    assert "certificate: FAILED" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kinds", "sdg"), "did you mean 'sgd'"),
        (("--policies", "Unifrom"), "did you mean 'Uniform'"),
        (("--cpus", "1000"), "this machine has"),
        (("--cpus", "-1"), "cpus is -1"),
        (("--step", "0.001"), "step is 0.001"),
        (("--tasks", "0"), "tasks must be 1 or more"),
        (("--repeats", "0"), "repeats must be 1 or more"),
        (("--seed", "-3"), "seed must be 0"),
        (("--length", "9:3"), "0 <= LO <= HI"),
        (("--limiter", "magic"), "magic"),
        (("--work", "my.py"), "FILE.py"),
        (("--work", "nothere.py:train"), "cannot read"),
        (("--work", "my.py:lerns"), "did you mean 'learns'"),
        (("--work", "my.py:learns", "--kinds", "mlp"), "--kinds has no effect"),
        (("--power", "nuclear"), "nuclear"),
        (("--servers", "5y30"), "expected servers such as 5x30"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(execute, arguments, said, tmp_path):
    code, out, err = execute(*QUICK, *arguments)
    assert code == 2 and said in err, err
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err and not out
    assert not (tmp_path / "runs").exists()
