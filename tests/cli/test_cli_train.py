"""`equipoise train` as a user meets it, by output, exit code and files: in a process of its own where that may matter."""

import contextlib
import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

from equipoise.cli import main
from equipoise.train import TrainSpec

QUICK = ("--data", "none", "--rounds", "900", "--target", "1e-6")


def equipoise(*arguments, cwd, **options):
    """Run the command; what it printed and its exit code."""
    command = [sys.executable, "-c", "from equipoise.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """Run the command in this process, in tmp_path: what it printed and its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["equipoise", *arguments])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
            main()
        return subprocess.CompletedProcess(arguments, leaving.value.code or 0, out.getvalue(), err.getvalue())

    return run


def only_folder(path):
    (folder,) = (path / "runs").iterdir()
    return folder


@pytest.fixture(scope="module")
def default_run(tmp_path_factory):
    """One run with no arguments but --json, shared by the tests that read it."""
    path = tmp_path_factory.mktemp("default")
    done = equipoise("train", "--json", cwd=path)
    return path, done


def test_no_arguments_train_digits_and_pass(default_run):
    """20 centres, 10-bit messages, a switching network, 500 CPUs: certificate passed, exit 0, budget residual exactly 0."""
    _, done = default_run
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert set(content) == {"verb", "version", "config", "result", "certificate", "looks"}
    assert content["verb"] == "train"
    checks = {check["name"]: check for check in content["certificate"]["checks"]}
    assert set(checks) == {"budget", "box", "kkt", "gradient", "consensus", "gap", "baseline", "bits"}
    assert all(check["passed"] for check in checks.values())
    assert checks["budget"]["value"] == 0
    assert len(content["result"]["shares"]) == 20
    assert sum(content["result"]["shares"]) == 500


def test_every_centre_is_within_half_a_point_of_the_centralised_optimum(default_run):
    """Test accuracy of each node's own model against scikit-learn's logistic regression with the same ridge."""
    from sklearn.linear_model import LogisticRegression

    from equipoise.data import digits

    accuracy = json.loads(default_run[1].stdout)["result"]["accuracy"]
    d = digits(seed=0)
    ones, test = (np.column_stack([X, np.ones(len(X))]) for X in (d.X, d.X_test))
    theirs = LogisticRegression(C=1 / (len(d.X) * 1e-3), fit_intercept=False, tol=1e-8, max_iter=5000).fit(ones, d.y)
    central = theirs.score(test, d.y_test)
    assert accuracy["centralised"] == pytest.approx(central, abs=0.003)
    assert min(accuracy["nodes"]) >= central - 0.005
    assert len(accuracy["nodes"]) == 20


def test_the_run_folder_holds_report_result_history_and_config(default_run):
    """Four files that agree with what was printed, and arrays that load back."""
    path, done = default_run
    folder = only_folder(path)
    content = json.loads(done.stdout)
    assert json.loads((folder / "result.json").read_text()) == content
    assert "<html" in (folder / "report.html").read_text()[:300]
    rows = list(csv.DictReader((folder / "history.csv").open()))
    assert float(rows[-1]["relative_gap"]) == content["result"]["relative_gap"]
    assert {float(row["budget_residual"]) for row in rows} == {0.0}
    assert np.load(folder / "arrays.npz")["shares"].tolist() == content["result"]["shares"]
    assert yaml.safe_load((folder / "config.yaml").read_text()) == {"version": content["version"], **content["config"]}
    assert not (folder / "checkpoint.npz").exists()


def test_its_config_repeats_it_bit_for_bit(default_run, tmp_path):
    """--config with the written file prints the very same JSON."""
    path, done = default_run
    again = equipoise("train", "--config", str(only_folder(path) / "config.yaml"), "--json", cwd=tmp_path)
    assert again.stdout == done.stdout


def test_options_win_over_the_file(tmp_path, inside):
    """--config and an option: the option counts."""
    (tmp_path / "c.yaml").write_text("data: none\nrounds: 300\ntarget: 1.0e-6\nseed: 4\n")
    done = inside("train", "--config", "c.yaml", "--seed", "5", "--json")
    assert json.loads(done.stdout)["config"]["seed"] == 5


def test_the_terminal_shows_the_certificate(inside):
    """Without --json: the table with every check, the key numbers, and where the report is."""
    done = inside("train", *QUICK)
    assert done.returncode == 0
    for words in ("certificate: passed", "budget", "kkt", "10 bits per number", "CPU by links (", "report.html"):
        assert words in done.stdout


def test_too_few_rounds_fail_by_name_with_exit_1(tmp_path, inside):
    """Two rounds: the gap check fails, in words, and the exit code says so."""
    done = inside("train", "--data", "none", "--rounds", "2")
    assert done.returncode == 1
    assert "certificate: FAILED" in done.stdout
    content = json.loads((only_folder(tmp_path) / "result.json").read_text())
    assert [c["name"] for c in content["certificate"]["checks"] if not c["passed"]] == ["kkt", "gap"]


def test_divergence_is_named_with_exit_1(tmp_path):
    """alpha far past its limit: a warning with the limit, a named divergence, no NaN in any file."""
    done = equipoise("train", "--data", "breast_cancer", "--alpha", "1e6", cwd=tmp_path)
    assert done.returncode == 1
    assert "is past its limit" in done.stderr
    assert "models diverged in round" in done.stdout
    folder = only_folder(tmp_path)
    assert "nan" not in (folder / "history.csv").read_text().lower()
    assert "NaN" not in (folder / "result.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data", "digts"), "did you mean 'digits'"),
        (("--network", "rng"), "did you mean 'ring'"),
        (("--mode", "inovation"), "did you mean 'innovation'"),
        (("--split", "lable"), "did you mean 'label'"),
        (("--method", "papr"), "did you mean 'paper'"),
        (("--rond", "5"), "--rounds"),
        (("--rounds", "many"), "--rounds"),
        (("--rounds", "0"), "rounds must be 1 or more"),
        (("--rho", "0"), "rho > 0"),
        (("--budget", "10"), "budget 10 is below the sum of lo, 200"),
        (("--budget", "100000"), "above the sum of hi"),
        (("--budget", "nan"), "budget must be a finite number"),
        (("--lo", "9", "--hi", "3"), "lo > hi at node 0"),
        (("--budget-at", "300"), "expects ROUND:CPUS"),
        (("--data", "mnist"), "--data-dir"),
        (("--data", "mnist", "--data-dir", "nowhere"), "nowhere"),
        (("--data", "csv", "--data-file", "bad.csv"), "bad.csv:3"),
        (("--network", "file", "--network-file", "bad.edges"), "bad.edges:2"),
        (("--config", "bad.yaml"), "bad.yaml:2"),
        (("--config", "unknown.yaml"), "did you mean 'rounds'"),
        (("--config", "missing.yaml"), "missing.yaml"),
        (("--resume", "missing"), "missing"),
        (("--data", "digits", "--model", "smooth_svm"), "two classes"),
        (("--nodes", "5000"), "5000"),
        (("--p", "0.001"), "too small"),
        (("--step", "-1"), "step must be a number > 0"),
        (("--data", "none", "--target", "inf"), "target must be between 0 and 1"),
        (("--data", "none", "--target", "1"), "target must be between 0 and 1"),
        (("--data", "none", "--budget-at", "5:nan"), "budget must be a finite number"),
        (("--budget-at", "5:600", "--budget-at", "5:500"), "names a round twice"),
        (("--seed", "-1"), "seed must be 0 or more"),
        (("--p", "0.5", "--network", "ring"), "--p has no effect: network is ring"),
        (("--network", "complete", "--switching", "fresh"), "--switching has no effect"),
        (("--data", "none", "--alpha", "0.1"), "--alpha has no effect: there is no model"),
        (("--model", "least_squares"), "digits has classes"),
        (("--data", "csv", "--data-file", "text.csv", "--model", "least_squares"), "text.csv"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_nothing_written(tmp_path, inside, arguments, words):
    """The line names the value and the way out; no traceback; no run folder."""
    (tmp_path / "bad.csv").write_text("a,b,label\n1,2,0\n1,x,1\n1,3,1\n")
    (tmp_path / "text.csv").write_text("a,label\n1,cat\n2,dog\n3,cat\n4,dog\n")
    (tmp_path / "bad.edges").write_text("0 1\n1 two\n")
    (tmp_path / "bad.yaml").write_text("rounds: 5\n  seed: : 3\n")
    (tmp_path / "unknown.yaml").write_text("ronds: 5\n")
    done = inside("train", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--data", "digts"), "did you mean 'digits'"), (("--budget", "10"), "budget 10 is below the sum of lo, 200")],
)
def test_bad_input_ends_a_process_of_its_own_in_the_same_way(tmp_path, arguments, words):
    """Found by the command line, and by the problem: one line on standard error, exit 2, nothing else."""
    done = equipoise("train", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def long_run(path, *extra):
    """A run of many rounds, started and left running once its checkpoint exists."""
    command = [sys.executable, "-c", "from equipoise.cli import main; main()", "train", "--data", "breast_cancer"]
    running = subprocess.Popen(
        [*command, "--rounds", "1500", "--target", "1e-30", *extra], cwd=path, stderr=subprocess.PIPE
    )
    for _ in range(1200):
        if list(path.glob("runs/*/checkpoint.npz")):
            return running
        time.sleep(0.05)
    raise AssertionError("no checkpoint appeared")


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    """The folder of that run, uninterrupted."""
    path = tmp_path_factory.mktemp("alone")
    equipoise("train", "--data", "breast_cancer", "--rounds", "1500", "--target", "1e-30", cwd=path)
    return only_folder(path)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_resumes_to_the_same_result(tmp_path, left_alone, how):
    """Ctrl-C and kill -9 in mid-run: --resume ends in the same result.json as a run left alone."""
    broken = tmp_path
    running = long_run(broken)
    os.kill(running.pid, how)
    _, said = running.communicate(timeout=60)
    folder = only_folder(broken)
    assert not (folder / "result.json").exists()
    if how == signal.SIGINT:
        assert f"--resume {folder.relative_to(broken)}" in said.decode()
        assert running.returncode == 130
    equipoise("train", "--resume", str(folder), cwd=broken)
    for name in ("result.json", "history.csv"):
        assert (folder / name).read_text() == (left_alone / name).read_text()


def test_a_budget_change_from_the_command_line(tmp_path, inside):
    """--budget-at 100:600 --budget-at 200:450: the history shows all three, the residual is 0 throughout."""
    done = inside(
        "train",
        "--data",
        "none",
        "--rounds",
        "900",
        "--target",
        "1e-6",
        "--budget-at",
        "100:600",
        "--budget-at",
        "200:450",
        "--json",
    )
    content = json.loads(done.stdout)
    assert content["certificate"]["passed"], done.stdout
    assert sum(content["result"]["shares"]) == 450
    rows = list(csv.DictReader((only_folder(tmp_path) / "history.csv").open()))
    assert {float(r["budget"]) for r in rows} == {500.0, 600.0, 450.0}
    assert {float(r["budget_residual"]) for r in rows} == {0.0}


def test_csv_and_edge_files_of_a_user(tmp_path, inside):
    """A regression on a CSV file over a network from an edge list."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = X @ [2.0, -1.0] + 0.1 * rng.standard_normal(200)
    lines = ["one,two,answer"] + [f"{a},{b},{t}" for (a, b), t in zip(X, y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    (tmp_path / "net.edges").write_text("# a ring of four\n0 1\n1,2\n2 3\n3 0\n")
    done = inside(
        "train",
        "--data",
        "csv",
        "--data-file",
        "data.csv",
        "--label",
        "answer",
        "--network",
        "file",
        "--network-file",
        "net.edges",
        "--cost",
        "none",
        "--split",
        "even",
        "--json",
    )
    assert done.returncode == 0, done.stderr + done.stdout
    content = json.loads(done.stdout)
    assert content["result"]["links"] == 8
    error = content["result"]["test_error"]
    assert error["worst"] == pytest.approx(error["centralised"], rel=0.1)
    assert error["centralised"] < 0.2  # the noise that was put in is 0.1
    assert "shares" not in content["result"]


def test_mnist_label_sorted_in_its_quick_form(shared_data, tmp_path):
    """6,000 real MNIST images sorted by label over 20 centres: every centre within 1 point of the centralised softmax."""
    done = equipoise(
        "train",
        "--data",
        "mnist",
        "--data-dir",
        str(shared_data / "mnist"),
        "--samples",
        "6000",
        "--rounds",
        "600",
        "--target",
        "2e-2",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    accuracy = json.loads(done.stdout)["result"]["accuracy"]
    assert accuracy["centralised"] > 0.85
    assert accuracy["worst"] >= accuracy["centralised"] - 0.01


@pytest.mark.parametrize(
    "arguments", [("--hi", "inf"), ("--lo=-inf", "--hi", "inf"), ("--nodes", "1"), ("--nodes", "2")]
)
def test_open_boxes_and_tiny_networks(tmp_path, inside, arguments):
    """No bounds, one centre, two centres: a passed certificate and strict JSON whose config repeats the run."""
    done = inside("train", "--data", "none", "--cost", "quadratic", *arguments, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    again = inside("train", "--config", str(only_folder(tmp_path) / "config.yaml"), "--json")
    assert again.stdout == done.stdout


def test_a_terminal_sees_progress_and_an_eta(tmp_path):
    """On a pseudo-terminal the bar shows the rounds, an ETA and the gap."""
    command = [sys.executable, "-c", "from equipoise.cli import main; main()", "train", "--data", "breast_cancer"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*command, "--rounds", "400"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs
    ) as running:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end has closed
                break
            if not part:
                break
            seen += part
        running.wait(timeout=60)
    os.close(ours)
    for words in (b"training", b"rounds", b"ETA", b"gap"):
        assert words in seen


def test_weights_of_a_file_are_used_when_asked_for(tmp_path, inside):
    """--weights laplacian: the file's own weights change the run; by default they do not."""
    for name, weight in (("light", 0.1), ("heavy", 0.4)):
        (tmp_path / name).write_text(f"0 1 {weight}\n1 2 {weight}\n2 3 1\n3 0 1\n")
    common = ("train", "--data", "none", "--cost", "quadratic", "--network", "file", "--json", "--target", "1e-6")
    runs = {
        (name, kind): json.loads(inside(*common, "--network-file", name, "--weights", kind).stdout)["result"]["gap"]
        for name in ("light", "heavy")
        for kind in ("auto", "laplacian")
    }
    assert runs["light", "auto"] == runs["heavy", "auto"]
    assert runs["light", "laplacian"] != runs["heavy", "laplacian"]


def test_help_names_every_verb_and_option(inside):
    """--help of the root and of the verb; --version."""
    assert "train" in inside("--help").stdout
    shown = inside("train", "--help", columns=200).stdout
    for option in ("--data-dir", "--budget-at", "--resume", "--rho", "--json", "--config", "default: digits"):
        assert option in shown
    assert inside("--version").stdout.startswith("equipoise ")


def test_help_loads_nothing_heavy(tmp_path):
    """numpy, scipy, numba, scikit-learn and pydantic stay out of `equipoise --help`, which is why it answers at once."""
    code = (
        "import sys; sys.argv = ['equipoise', '--help']\n"
        "from equipoise.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'scipy', 'numba', 'sklearn', 'pydantic', 'yaml') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.strip() == "[]"


def test_python_and_the_command_line_leave_the_same_folder(inside, tmp_path):
    """`TrainSpec.from_yaml(...).build().run().save(...)`: the same files, result, history and configuration."""
    done = inside("train", *QUICK)
    assert done.returncode == 0, done.stderr
    folder = only_folder(tmp_path)
    again = TrainSpec.from_yaml(folder / "config.yaml").build().run().save(tmp_path / "again")
    assert {path.name for path in again.iterdir()} == {path.name for path in folder.iterdir()}
    for name in ("result.json", "history.csv", "config.yaml"):
        assert (again / name).read_text() == (folder / name).read_text()


def test_verify_reads_a_folder_and_says_by_its_exit_code(inside, tmp_path):
    """0 for a good run, 1 for one that was edited, 2 in one line for what is none; --json is a document."""
    inside("train", *QUICK)
    folder = only_folder(tmp_path)
    done = inside("train", "verify", str(folder))
    assert done.returncode == 0 and "passed" in done.stdout and "claims" in done.stdout
    told = json.loads(inside("train", "verify", str(folder), "--json").stdout)
    assert told["verb"] == "train verify" and told["certificate"]["passed"]
    with np.load(folder / "arrays.npz") as file:
        arrays = dict(file)
    arrays["units"][5, 0] += 1
    np.savez_compressed(folder / "arrays.npz", **arrays)
    done = inside("train", "verify", str(folder))
    assert done.returncode == 1 and "FAILED" in done.stdout
    (folder / "arrays.npz").write_bytes(b"PK")
    for wrong in (folder, tmp_path / "nowhere", tmp_path):
        done = inside("train", "verify", str(wrong))
        assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1
