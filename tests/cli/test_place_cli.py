"""`equipoise place` as a user meets it: by its output, exit code and files."""

import contextlib
import csv
import io
import json
import subprocess
import sys

import pytest
import yaml

from equipoise import load
from equipoise.cli import main
from equipoise.place.files import read_cluster, read_jobs

EVERY = ("Dated", "PDORS", "OASiS", "FIFO", "EASY", "DRF", "Dorm-style", "SRTF", "LAS")
PAPER = ("--format", "synthetic")  # worth is stated: prices, PDORS, a bound of utility
QUICK = ("--draw", "12", "--slots", "12", "--machines", "4", *PAPER, "--replan", "4", "--seed", "3")
CLUSTER = """
bandwidth: {inside: 20Gbps, between: 1Gbps}
machines:
  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}
"""
DEFAULTS = """
slot: 10m
defaults:
  batch: 16
  time_per_sample: 10ms
  gradient: 100MB
  requested: 2
  most: 4
  worker: {gpu: 1, cpu: 4, memory: 16Gi}
  utility: {kind: deadline, value: 10, slots: 6}
"""
JOBS = (
    DEFAULTS
    + "jobs:\n"
    + "".join(f"  - {{id: j{k}, arrival: {k // 2}, work: {60000 * (1 + k % 3)}}}\n" for k in range(12))
)
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"2017-10-09 {6 + k // 6:02d}:{10 * (k % 6):02d}:03,{900 + 60 * k},{1 + k % 4},1,a\n" for k in range(16)
)
SPOILT = PHILLY + "2017-10-09 09:00:03,0,1,1,a\n2017-10-09 09:00:03,-5,1,1,a\nyesterday,60,1,1,a\n1,2\n"
POLICY = """
from dataclasses import dataclass
import numpy as np
from equipoise.place.placers import Slotwise

class Session(Slotwise):
    def seats(self, queue):
        return self.in_order(queue[::-1], fixed=False)

class LastFirst:
    def start(self, run, seed):
        return Session(run)

class Broken:
    def start(self, run, seed):
        return run.nothing

class Waiting:
    def decide(self, view): ...

class Crowd:
    def start(self, run, seed):
        return Crowded(run)

class Crowded:
    def __init__(self, run): self.run = run
    def arrive(self, job): self.run.assign(job, np.array([[self.run.now, 0, 4, 0]], np.int32))
    def slot(self): ...
    def finished(self, job): ...
    def unfinished(self, job): ...
"""


def equipoise(*arguments, cwd):
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", "from equipoise.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Run `equipoise place` in this process, in a folder with a cluster, jobs, a trace and policies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    files = {"cluster.yaml": CLUSTER, "jobs.yaml": JOBS, "trace.csv": PHILLY, "spoilt.csv": SPOILT, "my.py": POLICY}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["equipoise", "place", *arguments])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
            main()
        return leaving.value.code, out.getvalue(), err.getvalue()

    return run


MINE = ("jobs.yaml", "--cluster", "cluster.yaml", "--replan", "2", "--no-report")


def only_folder(path):
    (folder,) = (path / "runs").iterdir()
    return folder


def rows_of(content):
    return {row["policy"]: row for row in content["result"]["rows"]}


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """The synthetic jobs, few of them, in a process of its own, shared by the tests that read it."""
    path = tmp_path_factory.mktemp("quick")
    return path, equipoise("place", *QUICK, "--policy", "all", "--json", cwd=path)


def test_the_example_compares_all_policies_and_certifies_them(quick_run):
    """Exit 0, strict JSON alone on standard output, every check made and passed, the bound above everybody."""
    _, done = quick_run
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Simulation: ") and done.stderr.count("\n") == 1  # what runs where, and no warning
    content = json.loads(done.stdout)
    assert set(content) == {"verb", "version", "config", "result", "certificate", "looks"}
    checks = {check["name"]: check["passed"] for check in content["certificate"]["checks"]}
    names = ("capacity", "ratio", "work", "arrival", "locality", "utility", "promise", "bound")
    assert checks == dict.fromkeys(names, True)
    assert tuple(rows_of(content)) == EVERY
    for row in rows_of(content).values():
        assert row["utility"] <= row["bound"] * (1 + 1e-6)
        assert row["share_of_bound"] == pytest.approx(row["utility"] / content["result"]["bound"]["utility"])
        assert "seconds_per_decision" not in row


def test_the_run_folder_holds_what_was_decided(quick_run):
    """A row per slot, a row per job, an allocation a policy; utilities and completed jobs are those of result.json."""
    folder = only_folder(quick_run[0])
    content = json.loads((folder / "result.json").read_text())
    assert "<html" in (folder / "report.html").read_text()[:300]
    outcomes = list(csv.DictReader((folder / "outcomes.csv").open()))
    history = list(csv.DictReader((folder / "history.csv").open()))
    assert len(outcomes) == 12 * len(EVERY)
    assert len(history) == 12 * len(EVERY)
    for name, row in rows_of(content).items():
        mine = [job for job in outcomes if job["policy"] == name]
        assert sum(float(job["utility"]) for job in mine) == pytest.approx(row["utility"])
        assert sum(bool(job["finish"]) for job in mine) == row["completed"]
        slots = [slot for slot in history if slot["policy"] == name]
        assert int(slots[-1]["completed"]) == row["completed"]
        held = sum(float(slot["gpu"]) for slot in slots) * 4 * 36  # hours: a slot is one, a machine has 36
        assert held == pytest.approx(row["gpu_hours"])
        assert max(float(slot["gpu"]) for slot in slots) <= 1
        assert (folder / f"allocations-{name.lower()}.csv").is_file()


def test_reasons_and_gains_count_every_job(quick_run):
    """Jobs done and reasons make all jobs; gained, lost and unchanged make all jobs; the gain is the difference."""
    content = json.loads(quick_run[1].stdout)
    rows, result = rows_of(content), content["result"]
    for name, row in rows.items():
        assert row["completed"] + sum(result["reasons"][name].values()) == 12
    assert {gain["policy"] for gain in result["gains"]} == set(EVERY) - {"FIFO"}
    for gain in result["gains"]:
        assert gain["baseline"] == "FIFO"
        assert gain["jobs_gained"] + gain["jobs_lost"] + gain["same"] == 12
        assert gain["utility"] == pytest.approx(rows[gain["policy"]]["utility"] - rows["FIFO"]["utility"])
        moved = sum(job["utility_after"] - job["utility_before"] for job in gain["gained"] + gain["lost"])
        assert moved == pytest.approx(gain["utility"])


def test_the_chosen_price_is_the_best_trial(quick_run):
    """Of all that were replayed the marked one earned most in history."""
    trials = json.loads(quick_run[1].stdout)["result"]["calibration"]
    (chosen,) = [trial for trial in trials if trial["chosen"]]
    assert chosen["utility"] == max(trial["utility"] for trial in trials)


def test_its_config_repeats_it_bit_for_bit(quick_run, tmp_path):
    """--config with the written file, in another folder: the same JSON, history and allocations."""
    path, done = quick_run
    folder = only_folder(path)
    again = equipoise("place", "--config", str(folder / "config.yaml"), "--json", "--no-report", cwd=tmp_path)
    assert again.stdout == done.stdout
    for name in ("history.csv", "outcomes.csv", "allocations-pdors.csv", "jobs.json"):
        assert (only_folder(tmp_path) / name).read_bytes() == (folder / name).read_bytes()
    written = yaml.safe_load((folder / "config.yaml").read_text())
    assert written == {"version": written["version"]} | json.loads(done.stdout)["config"]
    assert not (only_folder(tmp_path) / "report.html").exists()


def test_a_schedule_of_a_run_is_verified_from_its_files_alone(quick_run, place):
    """Everything lies beside it; the utility found is the one claimed, in all and job by job."""
    folder = only_folder(quick_run[0])
    code, out, _ = place("verify", str(folder / "allocations-pdors.csv"), "--json")
    assert code == 0
    content = json.loads(out)
    assert content["result"]["utility"] == pytest.approx(rows_of(json.loads(quick_run[1].stdout))["PDORS"]["utility"])
    assert {check["name"] for check in content["certificate"]["checks"]} == {
        "capacity",
        "ratio",
        "work",
        "arrival",
        "locality",
        "utility",
        "promise",
        "state",
    }


def test_a_tampered_schedule_exits_1(quick_run, place, tmp_path):
    """Nine hundred workers put in, a finished job's rows taken out: each is caught, by name."""
    folder = only_folder(quick_run[0])
    lines = (folder / "allocations-pdors.csv").read_text().splitlines()
    crowded = lines[1].split(",")
    crowded[3] = "900"
    outcomes = csv.DictReader((folder / "outcomes.csv").open())
    done = next(row["job"] for row in outcomes if row["policy"] == "PDORS" and row["finish"])
    beside = ("--jobs", str(folder / "jobs.json"), "--cluster", str(folder / "cluster.yaml"), "--slots", "12")
    for rows, words in (
        ([lines[0], ",".join(crowded), *lines[2:]], "capacity"),
        ([line for line in lines if not line.startswith(f"{done},")], "work"),
    ):
        (tmp_path / "allocations-pdors.csv").write_text("\n".join(rows) + "\n")
        claims = ("--claims", str(folder / "outcomes.csv"))
        code, out, _ = place("verify", "allocations-pdors.csv", *beside, *claims, "--json")
        assert code == 1
        failed = [check["name"] for check in json.loads(out)["certificate"]["checks"] if not check["passed"]]
        assert words in failed
    code, out, _ = place("verify", "allocations-pdors.csv", *beside)
    assert "nothing to be compared with" in out


def test_the_terminal_shows_everything_in_100_columns(place, tmp_path):
    """Own jobs on an own cluster: the table, reasons, prices, gains, the certificate, and that history was split off."""
    code, out, err = place(*MINE, "--policy", "pdors,srtf,fifo", "--horizon", "8")
    assert code == 0, err
    text = " ".join(out.split())
    for words in (
        "10 jobs on 2 machines, slots of 10 min, planned 8 ahead: 3 policies",
        "upper bound",
        "prices of PDORS",
        "no --history: the past is the 2 jobs that arrive in slot 0, which are not scored",
        "certificate: passed",
        "What you would have gained over FIFO",
    ):
        assert words in text
    assert "calibrating prices on history" in err  # no terminal: said in a line
    assert max(len(line) for line in out.splitlines()) <= 100
    assert out.rstrip().endswith(only_folder(tmp_path).name)


def test_tables_fit_80_columns_without_cutting_a_number(place, monkeypatch):
    """Every number of the wide table that has a column in the narrow one stands there whole; no line is longer."""
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = place(*MINE, "--policy", "pdors,oasis,srtf,fifo,drf,las", "--horizon", "8", "--seed", "1")
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    content = json.loads(place(*MINE, "--policy", "fifo", "--horizon", "8", "--json")[1])
    assert f"{rows_of(content)['FIFO']['gpu_hours']:,.0f}" in out


def test_history_from_a_file_scores_every_job(place):
    """With --history nothing is split off, and no line says so."""
    _, out, _ = place(
        *MINE, "--history", "jobs.yaml", "--policy", "pdors,drf", "--horizon", "8", "--json", "--no-bound"
    )
    result = json.loads(out)["result"]
    assert result["jobs"] == 12
    assert result["history"] == [12]
    assert result["bound"] is None
    assert not any("not scored" in note for note in result["notes"])


def test_policies_without_prices_need_no_history(place):
    """FIFO and DRF score all twelve jobs; the baseline may be chosen."""
    code, out, _ = place(*MINE, "--policy", "drf,fifo", "--baseline", "drf", "--slots", "20", "--json")
    assert code == 0
    result = json.loads(out)["result"]
    assert (result["jobs"], result["history"]) == (12, [])
    assert [(gain["policy"], gain["baseline"]) for gain in result["gains"]] == [("FIFO", "DRF")]


def test_kinds_of_prices_side_by_side(place):
    """pdors:plain and pdors:fixed beside each other, under their own names; high fixed prices admit nobody."""
    code, out, _ = place(
        *MINE,
        "--policy",
        "pdors:fixed,fifo",
        "--prices",
        "fixed",
        "--fixed-prices",
        "gpu=1000",
        "--no-backfill",
        "--replan",
        "0",
        "--horizon",
        "8",
        "--json",
    )
    assert code == 0
    content = json.loads(out)
    assert rows_of(content)["PDORS fixed"]["admitted"] == 0
    assert content["result"]["reasons"]["PDORS fixed"] == {"priced_out": 12}


def test_a_job_larger_than_every_machine_is_counted_not_an_error(place, tmp_path):
    """Five GPUs in one worker on machines of four: refused by everyone, told in the output."""
    (tmp_path / "big.yaml").write_text(JOBS + "  - {id: big, arrival: 2, work: 10, worker: {gpu: 5}}\n")
    arguments = ("big.yaml", "--cluster", "cluster.yaml", "--policy", "drf,fifo", "--no-report")
    code, out, err = place(*arguments)
    assert code == 0, err
    assert "1 job (7.7 %) is larger than the cluster's machines (infeasible_alone)" in out
    result = json.loads(place(*arguments, "--json")[1])["result"]
    assert result["reasons"]["FIFO"]["infeasible_alone"] == 1
    assert result["hopeless"]["infeasible_alone"]["jobs"] == 1


def test_jobs_beyond_the_horizon_are_counted_with_their_share_of_time(place, tmp_path):
    """Two equal jobs, one with nine times the work of the other and more than fits: 90 % of GPU time."""
    (tmp_path / "two.yaml").write_text(
        DEFAULTS + "jobs:\n  - {id: short, arrival: 0, work: 60000}\n  - {id: long, arrival: 0, work: 540000}\n"
    )
    _, out, _ = place(
        "two.yaml", "--cluster", "cluster.yaml", "--policy", "fifo", "--horizon", "2", "--json", "--no-report"
    )
    beyond = json.loads(out)["result"]["hopeless"]["beyond_horizon"]
    assert beyond["jobs"] == 1
    assert beyond["resource_time"]["gpu"] == pytest.approx(0.9)


def test_wrong_durations_are_drawn_by_seed(place):
    """True work within 50 % of the stated, the same for the same seed, other for another; the certificate holds."""
    common = (
        "trace.csv",
        "--machines",
        "1",
        "--policy",
        "srtf,las",
        "--wrong",
        "0.5",
        "--restart",
        "30s",
        "--no-report",
    )
    one, again, other = (place(*common, "--seed", seed, "--json") for seed in ("1", "1", "2"))
    assert one[0] == 0
    assert one[1] == again[1]
    assert json.loads(one[1])["result"]["rows"] != json.loads(other[1])["result"]["rows"]
    assert any("±50 %" in note for note in json.loads(one[1])["result"]["notes"])


@pytest.mark.parametrize("command", [("trace.csv", "--policy", "srtf", "--no-report"), ("import", "trace.csv")])
def test_who_does_not_say_how_long_a_slot_of_a_trace_is_is_told(place, command):
    """Ten minutes, by the format; with --slot, nothing."""
    machines = ("--machines", "1") if command[0] != "import" else ()
    for slot, told in (((), 1), (("--slot", "10m"), 0)):
        code, out, _ = place(*command, *machines, *slot, *(("--out", f"{len(slot)}.yaml") if not machines else ()))
        assert code == 0 and out.count("- slots of 10 min, as usual for philly: --slot was not said") == told


def test_a_trace_with_spoilt_rows_counts_them_with_lines(place):
    """Four rows of twenty: by reason, with their lines; nothing lost silently, in JSON mode on standard error."""
    code, out, err = place("spoilt.csv", "--machines", "1", "--policy", "srtf", "--no-report", "--json")
    assert code == 0
    notes = json.loads(out)["result"]["notes"]
    assert any(note.startswith("seed 0; the trace states no worth") for note in notes)
    skipped = [note for note in notes if note.startswith("skipped")]
    assert "skipped 2 of 20 rows: duration is 0; expected more than zero (lines 18, 19)" in skipped
    assert sum(int(note.split()[1]) for note in skipped) == 4
    assert err.count("warning: skipped") == len(skipped) == 3


def test_a_window_is_calibrated_on_the_stretch_before_it(place):
    """Jobs of hours 8 and later; history is as many slots before."""
    _, out, _ = place(
        "trace.csv",
        "--machines",
        "1",
        "--policy",
        "pdors",
        "--prices",
        "recalled",
        "--replan",
        "0",
        "--window",
        "45:53",
        "--no-report",
        "--json",
    )
    result = json.loads(out)["result"]
    assert result["jobs"] == 7
    assert result["history"] == [8]


def test_a_fixed_end_is_a_slot_of_the_file(place, tmp_path):
    """Two slots go to history, so that an end in slot 20 is 18 slots of the run; the run says which slot is its first."""
    (tmp_path / "late.yaml").write_text(JOBS.replace("slot: 10m", "slot: 10m\nstart: Monday"))
    common = (
        "late.yaml",
        "--cluster",
        "cluster.yaml",
        "--policy",
        "pdors",
        "--prices",
        "recalled",
        "--history-share",
        "0.4",
    )
    _, out, _ = place(*common, "--slots", "20", "--no-report", "--json")
    result = json.loads(out)["result"]
    assert (result["slots"], result["end"], result["jobs"], result["history"]) == (18, 18, 8, [4])
    assert "scored: the 8 jobs that arrive in slots 2 to 5; slot 0 is slot 2 of the file" in result["notes"]
    assert {job.arrival for job in read_jobs(only_folder(tmp_path) / "jobs.json", read_cluster("cluster.yaml"))} == {
        0,
        1,
        2,
        3,
    }
    code, _, err = place(*common, "--slots", "2")
    assert code == 2
    assert "nothing is left to score" in err


def test_a_policy_of_ones_own_stands_beside_ours(place):
    """From a file of ten lines, under the name of its class, certified like the others."""
    code, out, err = place(*MINE, "--policy", "fifo,my.py:LastFirst", "--json")
    assert code == 0, err
    assert set(rows_of(json.loads(out))) == {"FIFO", "LastFirst"}


def test_a_policy_that_overfills_machines_fails_the_certificate(place):
    """Everybody on the first machine: capacity fails by name, exit 1, and whose it is is said."""
    code, out, _ = place(*MINE, "--policy", "fifo,my.py:Crowd", "--no-bound")
    assert code == 1
    assert "certificate: FAILED" in out
    assert "fails for Crowd" in " ".join(out.replace("│", " ").split())


def test_the_bound_alone(place):
    """LP at least the optimum; both to the end that is given."""
    common = ("bound", "jobs.yaml", "--cluster", "cluster.yaml", "--slots", "8")
    lp = json.loads(place(*common, "--json")[1])["result"]
    (code, out, err) = place(*common)
    assert code == 0, err
    assert "no schedule earns more than" in out
    assert lp["kind"] == "lp"
    assert 0 < lp["utility"] <= 120 * (1 + 1e-6)


def test_explain_names_the_reason(place, tmp_path):
    """From the options, and from a run folder: the same text about the same job."""
    options = ("--policy", "pdors", "--prices", "fixed", "--fixed-prices", "gpu=1000", "--replan", "0", "--no-backfill")
    code, out, err = place("explain", "j5", "jobs.yaml", "--cluster", "cluster.yaml", *options)
    assert code == 0, err
    assert "j5" in out
    assert "priced_out" in out
    assert place("jobs.yaml", "--cluster", "cluster.yaml", *options, "--no-report")[0] == 0
    assert place("explain", "j5", "--run", str(only_folder(tmp_path)))[1] == out
    assert json.loads(place("explain", "j5", "--run", str(only_folder(tmp_path)), "--json")[1])["result"]


def test_what_if_of_a_run_folder_is_shown_and_loads_back(place, tmp_path):
    """Another policy on the jobs of a run: both side by side, who gains and loses, and the same in the folder it leaves."""
    assert place("jobs.yaml", "--cluster", "cluster.yaml", "--policy", "fifo,drf", "--no-bound", "--no-report")[0] == 0
    code, out, err = place("whatif", "--run", str(only_folder(tmp_path)), "--instead", "srtf", "--out", "other")
    assert code == 0, err
    assert (
        "SRTF instead of FIFO" in out and "As it is, and as it would be" in out and "Dates promised: 0 earlier" in out
    )
    (folder,) = (tmp_path / "other").iterdir()
    found = load(folder)
    assert [(row["case"], row["policy"]) for row in found.rows("rows")] == [("now", "FIFO"), ("then", "SRTF")]
    gained = [row["id"] for row in found.rows("changes") if row["change"] == "gained"]
    assert len(gained) == found.result["jobs_gained"] and all(name in out for name in gained[:5])


def test_calibrated_prices_are_a_file_that_prices_take(place, tmp_path):
    """Every trial is shown, best first; a run with the file calibrates nothing and has its level."""
    common = ("--cluster", "cluster.yaml", "--horizon", "8", "--replan", "0")
    code, out, err = place("calibrate", "--history", "jobs.yaml", *common, "--prices", "replay", "--out", "p.yaml")
    assert code == 0, err
    assert "->" in out
    written = yaml.safe_load((tmp_path / "p.yaml").read_text())
    assert (written["kind"], written["calibrated"]["jobs"]) == ("level", 12)
    _, out, _ = place("jobs.yaml", *common, "--policy", "pdors", "--prices", "p.yaml", "--no-report", "--json")
    result = json.loads(out)["result"]
    assert result["jobs"] == 12
    assert result["calibration"] == []
    assert result["prices"]["PDORS"]["level"] == written["level"]
    _, direct, _ = place(
        "jobs.yaml",
        *common,
        "--policy",
        "pdors",
        "--prices",
        "replay",
        "--history",
        "jobs.yaml",
        "--no-report",
        "--json",
    )
    assert rows_of(json.loads(direct)) == rows_of(json.loads(out))


def test_prices_that_were_the_better_of_two_kinds_are_replay(place, tmp_path):
    """`best` of 0.1.0, in a config.yaml and as an option: one note, and the run is that of replay."""
    run = ("jobs.yaml", "--cluster", "cluster.yaml", "--horizon", "8", "--no-bound", "--no-report", "--json")
    (tmp_path / "old.yaml").write_text("prices: best\npolicy: [pdors]\nreplan: 0\n")
    (tmp_path / "now.yaml").write_text("prices: replay\npolicy: [pdors]\nreplan: 0\n")
    done = [place(*run, "--config", "old.yaml"), place(*run, "--config", "now.yaml")]
    done += [place(*run, "--config", "now.yaml", "--prices", "best")]
    assert [code for code, _, _ in done] == [0, 0, 0]
    assert [json.loads(out)["result"]["rows"] for _, out, _ in done[1:]] == [
        json.loads(done[0][1])["result"]["rows"]
    ] * 2
    assert json.loads(done[0][1])["config"]["prices"] == "replay"
    assert [err.count("prices best is read as replay") for _, _, err in done] == [1, 0, 1]


@pytest.mark.parametrize("ending", ["yaml", "csv", "json"])
def test_an_imported_trace_reads_back_equal(place, tmp_path, ending):
    """The same jobs from the trace and from what import wrote, and a cluster beside."""
    from equipoise.place import traces

    name = f"imported.{ending}"
    code, out, err = place(
        "import", "spoilt.csv", "--out", name, "--cluster-out", "c.yaml", "--machines", "2", "--seed", "7"
    )
    assert code == 0, err
    assert f"{name}: 16 jobs from spoilt.csv (philly), slots 0 to 51 of 10 min" in out
    assert "(lines 18, 19)" in out
    assert "20.0 % of the rows skipped in all" in out
    cluster = read_cluster(tmp_path / "c.yaml")
    assert cluster.size == 2
    assert read_jobs(tmp_path / name, cluster).jobs == traces.philly(tmp_path / "spoilt.csv", seed=7).jobs


def test_help_lists_the_commands_and_the_options(place):
    """`place --help` is readable: the commands, then what the default takes."""
    code, out, _ = place("--help")
    assert code == 0
    for words in ("bound", "verify", "explain", "calibrate", "import", "--cluster", "--policy", "--horizon", "JOBS"):
        assert words in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gone.yaml", "--cluster", "cluster.yaml"), "gone.yaml: no such file of jobs"),
        (("veryfy",), "did you mean the command 'verify'?"),
        (("jobs.yaml",), "no cluster: say what the jobs run on, --cluster FILE, or --machines COUNT"),
        (("trace.csv",), "no cluster"),
        (("jobs.yaml", "--cluster", "gone.yaml"), "gone.yaml: no such file"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--machines", "3"), "both given; keep one"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--slots", "3", "--horizon", "3"), "are both given; keep one"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--slots", "0"), "--slots: 0 is no count"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--slot", "10x"), "the unit 'x' is not known"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--slot", "0"), "slot is '0'"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--restart", "fast"), "restart is 'fast'"),
        (("jobs.yaml", "--cluster", "cluster.yaml", "--elasticity", "2"), "jobs.yaml is no trace"),
        (("trace.csv", "--machines", "1", "--elasticity", "0.5"), "--elasticity: 0.5 times"),
        (("trace.csv", "--machines", "1", "--wrong", "1.5"), "--wrong: 1.5 is no part"),
        (("trace.csv", "--machines", "1", "--history-share", "1"), "--history-share: 1.0 is no part"),
        (("trace.csv", "--machines", "1", "--window", "9"), "expected slots FROM:TO"),
        (("trace.csv", "--machines", "1", "--window", "900:999"), "no job arrives in it"),
        (("trace.csv", "--machines", "1", "--format", "phily"), "did you mean 'philly'"),
        (("trace.csv", "--machines", "1", "--format", "alibaba"), "trace.csv: its first line has no column 'name'"),
        (("my.py", "--machines", "1"), "my.py: its first line is none that is known; say --format"),
        (("--policy", "drff"), "did you mean 'drf'"),
        (("--policy", ","), "expected names"),
        (("--policy", "fifo:bid"), "fifo comes in no kinds"),
        (("--policy", "pdors:recaled"), "did you mean 'recalled'"),
        (
            ("--policy", "pdors:bid"),
            "pdors:bid went in 0.2: replay was chosen over it in all four regimes measured; say pdors:replay",
        ),
        (
            ("--prices", "bid"),
            "prices bid went in 0.2: replay was chosen over it in all four regimes measured; say replay",
        ),
        (("--policy", "pdors", "--prices", "bid.yaml"), "bid.yaml: kind bid went in 0.2"),
        (("--config", "bids.yaml"), "bids.yaml: prices: prices bid went in 0.2"),
        (("--policy", "elasticflow:bid"), "known: priced"),
        (("--policy", "fifo,drf", "--baseline", "srtf"), "--baseline: unknown policy 'srtf'"),
        (("--policy", "my.py"), "expected FILE.py:CLASS"),
        (("--policy", "my.py:LastFist"), "did you mean 'LastFirst'"),
        (("--policy", "my.py:Waiting"), "Waiting is not a policy of place: it has no method start(run, seed)"),
        (("--policy", "my.py:Broken", *QUICK[:6]), "AttributeError"),
        (("--prices", "cheap"), "unknown prices 'cheap'"),
        (("--prices", "fixed"), "say --policy pdors"),
        (("--policy", "pdors", "--prices", "fixed"), "say --fixed-prices"),
        (("--prices", "fixed", "--fixed-prices", "gpu"), "'gpu' is no price"),
        (("--policy", "pdors", "--prices", "fixed", "--fixed-prices", "tpu=1"), "unknown resource 'tpu'"),
        (("--policy", "pdors", "--fixed-prices", "gpu=1"), "--fixed-prices has no effect"),
        (("--policy", "pdors", "--prices", "gone.yaml"), "gone.yaml"),
        (("--policy", "pdors", "--prices", "cluster.yaml"), "kind is None; expected level"),
        (("--packing", "best"), "unknown packing 'best'"),
        (("--placer", "best"), "unknown packing 'best'"),
        (("--replan", "-1"), "--replan: -1 steps"),
        (("--seed", "-1"), "--seed: -1 is no count"),
        (("--slot", "1h"), "--slot has no effect: no JOBS are given"),
        ((*PAPER, "--elasticity", "2"), "--elasticity has no effect: no JOBS are given"),
        (("--config", "unknown.yaml"), "did you mean 'policy'"),
        (("unknown_resource.yaml", "--cluster", "cluster.yaml"), "resource.yaml, line 12: job 'a': unknown resource"),
        (("negative.yaml", "--cluster", "cluster.yaml"), "negative.yaml, line 12: job 'a': worker: gpu is '-1'"),
        (("batch.yaml", "--cluster", "cluster.yaml"), "batch is 0; expected a whole number of 1 or more"),
        (("twice.yaml", "--cluster", "cluster.yaml"), "twice.yaml, line 13: job 'a' is also at line 12"),
        (("units.yaml", "--cluster", "cluster.yaml"), "units.yaml, line 12: job 'a': worker: memory is '16Gx'"),
        (
            ("at_once.yaml", "--cluster", "cluster.yaml", "--policy", "pdors"),
            "none can be history; give --history FILE",
        ),
        (("bound", "jobs.yaml"), "no cluster"),
        (("jobs.yaml", "--cluster", "names.yaml"), "two machines have the name 'a-0'"),
        (("verify", "jobs.yaml"), "expected job,slot,machine,workers,servers"),
        (("verify", "gone.csv", "--jobs", "jobs.yaml", "--cluster", "cluster.yaml", "--slots", "9"), "no such file"),
        (("explain", "j99", "jobs.yaml", "--cluster", "cluster.yaml"), "no job 'j99' among the"),
        (("explain", "j0", "jobs.yaml", "--cluster", "cluster.yaml"), "it is history"),
        (("explain", "j0", "--run", "nowhere"), "nowhere: no run folder of place"),
        (("whatif", "--policy", "fifo"), "nothing is other"),
        (("whatif", "--policy", "fifo", "--machine", "huge"), "unknown machine 'huge'"),
        (("whatif", "--policy", "fifo", "--instead", "srtff"), "did you mean 'srtf'"),
        (("calibrate", "--cluster", "cluster.yaml"), "no history: say --history FILE"),
        (("calibrate", "--prices", "recalled"), "nothing to calibrate"),
        (("import", "jobs.yaml"), "is in our own format already"),
        (("import", "trace.csv", "--out", "x.txt"), "ends in '.txt'; expected .yaml, .json or .csv"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_nothing_written(place, tmp_path, arguments, words):
    """The line names the option, or the file and line; no traceback; no run folder."""
    job = "  - {{id: a, arrival: 0, work: 9{}}}\n"
    files = {
        "unknown_resource.yaml": job.format(", worker: {tpu: 1}"),
        "negative.yaml": job.format(", worker: {gpu: -1}"),
        "batch.yaml": job.format(", batch: 0"),
        "twice.yaml": job.format("") * 2,
        "units.yaml": job.format(", worker: {memory: 16Gx}"),
        "at_once.yaml": job.format("") + job.format("").replace("id: a", "id: b"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(DEFAULTS + "jobs:\n" + text)
    (tmp_path / "unknown.yaml").write_text("polici: fifo")
    (tmp_path / "bids.yaml").write_text("prices: bid")
    (tmp_path / "bid.yaml").write_text("{kind: bid, scale: 1.0, growth: 0.0, resources: [gpu], base: [[1.0]]}")
    machine = "{name: %s, count: %d, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}"
    (tmp_path / "names.yaml").write_text(f"machines: [{machine % ('a', 2)}, {machine % ('a-0', 1)}]")
    code, out, err = place(*arguments)
    assert code == 2, out + err
    assert words in err
    said = [line for line in err.strip().splitlines() if line.startswith("error:")]
    assert len(said) == 1
    assert "Traceback" not in err
    assert not list(tmp_path.glob("runs/*"))
