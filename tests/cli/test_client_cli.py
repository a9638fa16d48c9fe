"""`equipoise jobs` and `equipoise admin machines` and `shadow` as a user meets them, with a running service."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from equipoise.cli import main
from equipoise.cli.output import show
from equipoise.cli.service import job_table
from equipoise.serve import _connection as connection
from equipoise.serve.client import Client
from equipoise.serve.local import started
from equipoise.serve.models import JobStatus

CLUSTER = "machines:\n  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}\n"
SHORT = ("--worker", "gpu=1,cpu=4,memory=16Gi", "--workers", "2", "--duration", "2h", "--value", "40")
COMMANDS = ("jobs submit", "jobs", "jobs show", "jobs cancel", "admin machines", "admin shadow")
ROLES = ("read", "submit", "admin")
NOBODY = "http://127.0.0.1:9"  # the discard port: nobody answers there
SACCT = "JobID|Submit|Start|End|ElapsedRaw|AllocTRES|State\n"


@pytest.fixture(scope="module")
def machines(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture(scope="module")
def address(machines) -> Iterator[str]:
    with started(machines, "10m") as url:
        yield url


@pytest.fixture(autouse=True)
def _here(address, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_URL", address)
    monkeypatch.delenv("EQUIPOISE_TOKEN", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.01)


def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["equipoise", *words], io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as left:
            main()
    finally:
        sys.argv, sys.stdin = before
    return int(left.value.code or 0), out.getvalue(), err.getvalue()


def told(*words: str, stdin: str = "", code: int = 0) -> Any:
    """The JSON that a command prints, and nothing else."""
    left, out, err = run(*words, "--json", stdin=stdin)
    assert left == code, err
    return json.loads(out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_the_exit_codes_mean(command):
    """0, 1 and 2 stand in --help."""
    code, out, _ = run(*command.split(), "--help")
    words = " ".join(out.split())
    assert code == 0 and "Exit 0" in words and re.search(r"\b1\b", words) and re.search(r"\b2\b", words)


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "submit", *SHORT),
        ("jobs",),
        ("jobs", "show", "j1"),
        ("jobs", "cancel", "j1"),
        ("admin", "machines"),
        ("admin", "machines", "up", "box-0"),
    ],
)
def test_no_service_there_is_one_line_and_exit_2(words):
    """It says where it looked."""
    code, out, err = run(*words, "--url", NOBODY)
    assert (code, out) == (2, "") and err.count("\n") == 1 and NOBODY in err and "equipoise serve" in err


# submit


def test_a_job_from_options_is_admitted_and_shown():
    """The table has its id, name and state."""
    code, out, _ = run("jobs", "submit", *SHORT, "--name", "by hand")
    assert code == 0 and "by hand" in out and "admitted" in out and re.search(r"\bj\d+\b", out)


def test_a_file_of_one_job_and_the_same_from_standard_input(tmp_path):
    """YAML and JSON say the same; numbers with an exponent and quantities go through."""
    job = {
        "name": "one",
        "worker": {"gpu": 1, "cpu": "500m", "memory": "16Gi"},
        "work": 2e6,
        "batch": 64,
        "time_per_sample": "4ms",
        "utility": {"kind": "deadline", "value": 50, "slots": 100},
    }
    text = "name: one\nworker: {gpu: 1, cpu: 500m, memory: 16Gi}\nwork: 2e6\nbatch: 64\ntime_per_sample: 4ms\n"
    text += "server: null\nutility: {kind: deadline, value: 50, slots: 100}\n"
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    (tmp_path / "job.yaml").write_text(text)
    answers = [
        told("jobs", "submit", str(path)),
        told("jobs", "submit", str(tmp_path / "job.yaml")),
        told("jobs", "submit", "-", stdin=text),
    ]
    for answer in answers:
        assert (answer["name"], answer["work"], answer["worker"]["cpu"]) == ("one", 2e6, 0.5)


def test_many_jobs_with_defaults_come_back_in_order(tmp_path):
    """The second has its own value of what the defaults say; a name that looks like a number stays a name."""
    text = """
defaults: {worker: {gpu: 1, cpu: 1}, workers: 1, duration: 10m, value: 30}
jobs:
  - {name: a}
  - {name: 007, worker: {gpu: 2, cpu: 1}, duration: 20m, tags: {run: 1e3}}
"""
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    jobs = told("jobs", "submit", str(path))["jobs"]
    assert [(job["name"], job["worker"]["gpu"], job["work"]) for job in jobs] == [("a", 1, 1.0), ("007", 2, 2.0)]


def test_a_file_for_place_can_be_submitted(tmp_path):
    """Its id is the name, its arrival is now, as a note says; its slot must be the service's."""
    job = {"id": "vgg", "arrival": 3, "work": 1e5, "batch": 8, "time_per_sample": "4ms", "worker": {"gpu": 1}}
    job["utility"] = {"kind": "linear", "value": 9, "slots": 50}
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump({"slot": "10m", "jobs": [job]}))
    code, out, err = run("jobs", "submit", str(path), "--json")
    assert code == 0 and json.loads(out)["jobs"][0]["name"] == "vgg" and "arrival is not sent" in err
    path.write_text(yaml.safe_dump({"slot": "1h", "jobs": [job]}))
    code, _, err = run("jobs", "submit", str(path))
    assert code == 2 and "the file's slot is 1h, the service's 600 s" in err


def test_the_same_key_submits_a_file_once(tmp_path):
    """Sent twice: the same two ids."""
    path = tmp_path / "jobs.yaml"
    path.write_text("jobs:\n" + "  - {worker: {gpu: 1}, workers: 1, duration: 10m}\n" * 2)
    one, two = (told("jobs", "submit", str(path), "--key", "nightly") for _ in range(2))
    assert [job["id"] for job in one["jobs"]] == [job["id"] for job in two["jobs"]]
    assert len({job["id"] for job in one["jobs"]}) == 2


def test_a_dry_run_tells_the_decision_and_stores_nothing():
    """No id, and no more jobs than before."""
    before = told("jobs", "--limit", "1000")["jobs"]
    assert told("jobs", "submit", *SHORT, "--dry-run")["id"] == ""
    code, out, _ = run("jobs", "submit", *SHORT, "--dry-run")
    assert code == 0 and "nothing was stored" in out
    assert len(told("jobs", "--limit", "1000")["jobs"]) == len(before)


def test_a_refused_job_is_exit_1_with_the_reason():
    """No machine has 64 GPUs."""
    answer = told("jobs", "submit", "--worker", "gpu=64", "--duration", "1h", code=1)
    assert (answer["state"], answer["reason"]) == ("refused", "infeasible_alone") and answer["why"]


def test_a_bad_job_in_a_file_is_named_and_those_before_it_stay(tmp_path):
    """The second of three: exit 2, the first is submitted and shown, the third is not sent."""
    path = tmp_path / "jobs.yaml"
    good = "{worker: {gpu: 1}, workers: 1, duration: 10m, name: %s}"
    path.write_text(
        f"jobs:\n  - {good % 'first-of-three'}\n  - {{worker: {{tpu: 1}}, workers: 1, duration: 1h}}\n  - {good % 'third'}\n"
    )
    code, out, err = run("jobs", "submit", str(path))
    assert code == 2 and "first-of-three" in out and "third" not in out
    assert "job 2 of 3" in err and "tpu" in err


def test_waiting_for_the_end_is_exit_0_when_finished_and_1_when_time_is_up(address):
    """A clock that somebody moves ends the job; one that stands does not."""
    moving = subprocess.Popen(
        [sys.executable, "-m", "equipoise", "jobs", "submit", *SHORT, "--wait", "--json", "--url", address],
        stdout=subprocess.PIPE,
        text=True,
    )
    with Client(address) as client:
        until = time.monotonic() + 60
        while moving.poll() is None and time.monotonic() < until:
            client.advance(1)
            time.sleep(0.05)
    out, _ = moving.communicate(timeout=10)
    assert moving.returncode == 0 and json.loads(out)["state"] == "finished"
    code, out, err = run("jobs", "submit", *SHORT, "--wait", "--timeout", "0.2", "--json")
    assert code == 1 and json.loads(out)["state"] == "admitted" and "admitted after" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no FILE and no --worker"),
        (("--worker", "gpu=1"), "no FILE and no --duration"),
        (("--worker", "gpu", "--duration", "1h"), "'gpu' is no amount"),
        (("--worker", "gpu=1,gpu=2", "--duration", "1h"), "'gpu' is given twice"),
        (("nowhere.yaml",), "no such file"),
        (("-", "--name", "a"), "a file and --name are both given"),
        ((*SHORT, "--dry-run", "--wait"), "--dry-run and --wait"),
        ((*SHORT, "--timeout", "3"), "no effect without --wait"),
        (("--worker", "gpu=1", "--duration", "soon"), "duration is 'soon'"),
    ],
)
def test_slips_in_options_are_one_line(words, said):
    """Exit 2, nothing on standard output."""
    code, out, err = run("jobs", "submit", *words)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("- 1\n", "a list; expected"),
        ("jobs: []", "no jobs"),
        ("jobs: [3]", "'3' in jobs"),
        ("a: [", "not YAML"),
        ("jobs: [{name: a}]\nworker: {gpu: 1}", "unknown field 'worker'"),
        ("worker: {gpu: 1}\nduration: 1h\nwide: 3", "wide"),
        ("!!python/object:os.system {duration: 1h}", "the tag"),
    ],
)
def test_slips_in_files_are_one_line(text, said):
    """Exit 2 and what was expected."""
    code, out, err = run("jobs", "submit", "-", stdin=text)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


# jobs, job, cancel


def test_jobs_are_listed_by_state_and_name():
    """Newest first, or oldest; as many as asked for, and a word when there are more."""
    ids = [told("jobs", "submit", *SHORT, "--name", f"listed-{k}")["id"] for k in range(3)]
    run("jobs", "cancel", ids[0])
    assert [job["id"] for job in told("jobs", "--name", "listed-")["jobs"]] == ids[::-1]
    assert [job["id"] for job in told("jobs", "--name", "listed-", "--oldest")["jobs"]] == ids
    assert [job["id"] for job in told("jobs", "--name", "listed-", "--state", "cancelled")["jobs"]] == ids[:1]
    code, out, _ = run("jobs", "--name", "listed-", "--limit", "2")
    assert code == 0 and ids[2] in out and ids[0] not in out.split() and "there are more" in out
    code, _, err = run("jobs", "--state", "pendign")
    assert code == 2 and "did you mean 'pending'?" in err


def test_a_name_cannot_steer_the_terminal():
    """Colours of rich are shown as text; so are a terminal's escapes, should a service let them through."""
    told("jobs", "submit", *SHORT, "--name", "[red]evil")
    code, out, _ = run("jobs", "--name", "evil")
    assert code == 0 and "[red]evil" in out
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        show(job_table([JobStatus(id="j1", name="wipe\x1b[2J", why="a\rb")]))
    assert "wipe·[2J" in shown.getvalue() and "\x1b" not in shown.getvalue() and "\r" not in shown.getvalue()


def test_one_job_with_its_explanation_and_history():
    """The sheet, then why, then what happened; as JSON all in one."""
    id = told("jobs", "submit", *SHORT, "--name", "shown")["id"]
    code, out, _ = run("jobs", "show", id, "--explain", "--history")
    assert code == 0 and "shown" in out and "submitted" in out and "decided" in out
    answer = told("jobs", "show", id, "--explain", "--history")
    assert answer["explain"]["text"] and [event["kind"] for event in answer["history"]][:2] == ["submitted", "decided"]
    code, out, err = run("jobs", "show", "j999999")
    assert (code, out) == (2, "") and "j999999" in err


def test_cancelling_tries_every_job():
    """One that is over is exit 1, one that is not there exit 2; the good one is cancelled in both."""
    ids = [told("jobs", "submit", *SHORT)["id"] for _ in range(3)]
    assert [job["state"] for job in told("jobs", "cancel", ids[0])["jobs"]] == ["cancelled"]
    answer = told("jobs", "cancel", ids[0], ids[1], code=1)
    assert [job["id"] for job in answer["jobs"]] == ids[1:2] and answer["errors"][0]["status"] == 409
    code, out, err = run("jobs", "cancel", "j999999", ids[2])
    assert code == 2 and f"{ids[2]}: cancelled" in out and "j999999" in err


# machines


def test_machines_are_added_and_change_their_status():
    """Two of one kind; one is drained, taken down and brought back."""
    added = told("admin", "machines", "add", "extra", "--capacity", "gpu=2,cpu=8,memory=32Gi", "--count", "2")[
        "machines"
    ]
    assert len(added) == 2 and added[0]["capacity"]["gpu"] == 2
    name = added[0]["name"]
    for change, status in (("drain", "draining"), ("down", "down"), ("up", "up")):
        assert told("admin", "machines", change, name)["machine"]["status"] == status
        code, out, _ = run("admin", "machines")
        line = next(line for line in out.splitlines() if line.startswith(name + " "))
        assert code == 0 and status in line and "of 32Gi" in line
    assert name in {machine["name"] for machine in told("admin", "machines")["machines"]}


def test_options_of_machines_stand_after_the_command():
    """Said so, and not dropped."""
    code, _, err = run("admin", "machines", "--json", "up", "box-0")
    assert code == 2 and "options stand after the command" in err


# tokens


def test_a_token_says_what_its_bearer_may(machines, tmp_path, monkeypatch):
    """None: nothing. read: look. submit: jobs too, no machines. admin, from the environment: all. Else exit 2, one line."""
    store = f"sqlite:///{tmp_path}/kept.db"
    tokens = {role: told("admin", "token", "add", role, "--role", role, "--store", store)["token"] for role in ROLES}
    with started(machines, "10m", "--store", store) as url:
        monkeypatch.setenv("EQUIPOISE_URL", url)
        for words, role, code in (
            (("jobs",), None, 2),
            (("jobs",), "wrong", 2),
            (("jobs",), "read", 0),
            (("jobs", "submit", *SHORT), "read", 2),
            (("jobs", "submit", *SHORT), "submit", 0),
            (("admin", "machines", "drain", "box-0"), "submit", 2),
        ):
            bearer = () if role is None else ("--token", tokens.get(role, "wrong"))
            left, out, err = run(*words, *bearer)
            assert left == code, (words, role, err)
            assert (out == "" and err.count("\n") == 1) == (code == 2)
        monkeypatch.setenv("EQUIPOISE_TOKEN", tokens["admin"])
        assert run("admin", "machines", "drain", "box-0")[0] == 0


# shadow


def sacct(count: int, first: int = 1) -> str:
    """Jobs of one GPU that arrive every ten minutes from 08:00 on, wait five and run for twenty."""
    lines = []
    for k in range(first, first + count):
        at = [8 * 3600 + 600 * (k - 1) + s for s in (0, 300, 1500)]
        times = "|".join(f"2024-03-01T{t // 3600:02d}:{t // 60 % 60:02d}:00" for t in at)
        lines.append(f"{k}|{times}|1200|cpu=2,gres/gpu=1,mem=4G,node=1|COMPLETED\n")
    return "".join(lines)


def test_a_shadow_with_a_service_of_its_own_reports_both_sides(machines, tmp_path):
    """Ten jobs and a row that cannot be one; here every job starts at once where it really waited five minutes."""
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + sacct(10) + "11|x|y|z|0||PENDING\n")
    answer = told("admin", "shadow", str(path), "--inside", str(machines), "--finish")
    assert (answer["fed"], answer["states"], answer["format"]) == (10, {"finished": 10}, "slurm")
    assert sum(answer["skipped"].values()) == 1
    assert (answer["waits"]["ours"], answer["waits"]["real"]) == (0, 300)
    code, out, _ = run("admin", "shadow", str(path), "--format", "sacct", "--inside", str(machines))
    assert code == 0 and "10 jobs fed" in out and "skipped: 1 rows" in out and "5.0 min" in out


def test_a_shadow_follows_a_file_that_grows_and_reports_when_stopped(machines, tmp_path):
    """Three jobs, then two more and half a line; a report a line, the last at Ctrl-C, of five. No other file is written."""
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + sacct(3))
    with started(machines, "10m") as url, Client(url) as client:
        command = [
            sys.executable,
            "-m",
            "equipoise",
            "shadow",
            str(path),
            "--follow",
            "--poll",
            "0.1",
            "--url",
            url,
            "--json",
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _until(client, 3)
        with path.open("a") as end:
            end.write(sacct(2, first=4) + sacct(1, first=6)[:30])
        _until(client, 5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        reports = [json.loads(line)["fed"] for line in out.splitlines()]
        assert reports == sorted(reports) and reports[-1] == 5
        assert [job.submitted for job in client.jobs(order="oldest")] == [48, 49, 50, 51, 52]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sacct.txt"]


def test_a_shadow_that_is_terminated_reports_and_takes_its_own_service_with_it(machines, tmp_path):
    """SIGTERM while it follows with --inside: the report of two, exit 0, and nobody listens any more."""
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + sacct(2))
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "admin",
        "shadow",
        str(path),
        "--follow",
        "--poll",
        "0.1",
        "--every",
        "0.1",
    ]
    process = subprocess.Popen([*command, "--inside", str(machines), "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and json.loads(process.stdout.readline())["fed"] == 2
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and json.loads(out.splitlines()[-1])["fed"] == 2
    assert children and not any(Path(f"/proc/{child}").exists() for child in children)


def test_a_shadow_waits_for_a_service_that_is_away(machines, tmp_path):
    """The service ends, rows come, it starts again on its store: they are fed in their slots, and nothing twice."""
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + sacct(2))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ("--store", f"sqlite:///{tmp_path}/kept.db", "--port", port)
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "admin",
        "shadow",
        str(path),
        "--follow",
        "--poll",
        "0.1",
        "--url",
        url,
    ]
    with started(machines, "10m", *options), Client(url) as client:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _until(client, 2)
    with path.open("a") as end:
        end.write(sacct(2, first=3))
    assert process.stderr is not None and "trying on" in process.stderr.readline()
    with started(machines, "10m", *options), Client(url) as client:
        _until(client, 4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and "4 jobs fed" in out, err
        assert [(job.name, job.submitted) for job in client.jobs(order="oldest")] == [
            (f"slurm-{k}", 47 + k) for k in (1, 2, 3, 4)
        ]


def _until(client: Client, count: int) -> None:
    until = time.monotonic() + 60
    while sum(client.status()["jobs"].values()) < count:
        assert time.monotonic() < until, f"{count} jobs were to come"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.txt",), "no such file"),
        (("FILE", "--format", "sact"), "did you mean 'sacct'?"),
        (("FILE", "--follow", "--finish"), "keep one"),
        (("FILE", "--lag", "1h"), "no effect without --follow"),
    ],
)
def test_slips_of_a_shadow_are_one_line(tmp_path, words, said):
    """Exit 2."""
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + sacct(1))
    code, out, err = run("admin", "shadow", *(str(path) if word == "FILE" else word for word in words))
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_a_shadow_needs_a_virtual_clock(machines, tmp_path):
    """A real one cannot be moved."""
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + sacct(1))
    with started(machines, "10m", "--clock", "real") as url:
        code, _, err = run("admin", "shadow", str(path), "--url", url)
    assert code == 2 and "--clock virtual" in err
