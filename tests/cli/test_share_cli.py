"""`equipoise share` as a user meets it: by its output, exit code and files."""

import contextlib
import csv
import dataclasses
import gzip
import io
import json
import os
import re
import subprocess
import sys
import typing

import numpy as np
import pytest
import yaml

from equipoise.cli import main
from equipoise.cli.options import with_options
from equipoise.share.spec import ShareSpec, read_range, read_servers
from refusals import refused

QUICK = ("--loads", "10,60", "--seeds", "6", "--oracle", "2")
POLICY = """
import numpy as np
from equipoise.share import Decision, greedy

class ShortestFirst:
    def decide(self, view):
        return Decision(
            bandwidth=greedy(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=greedy(view.target, view.computing, view.task_cap, view.capacity),
        )

class Broken:
    def decide(self, view):
        return view.nothing

class Needy:
    def __init__(self, what): ...

class Idle: ...

class Flat:
    def decide(self, view):
        return Decision(np.zeros(3), np.zeros(3))
"""
MOODY = """
class Still:
    def decide(self, view):
        return Decision(np.zeros(view.data.shape), np.zeros(view.data.shape))

class Moody(ShortestFirst):
    played = 0

    def start(self, scene):
        Moody.played += 1
        return ShortestFirst() if Moody.played == 1 else Still()
"""
TASKS = """
servers: [{capacity: 30, power_cap: 4}, {capacity: 60}]
tasks:
  - {arrival: 0, deadline: 40, data: 20, target: 0.15, a: 1.0, b: 0.4}
  - {arrival: 0, deadline: 30, data: 100, target: 0.5, delay: 3}
  - {arrival: 2, deadline: 30, data: 10, target: 0.1, floor: 0.12}
"""


def equipoise(*arguments, cwd, **options):
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", "from equipoise.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def share(tmp_path, monkeypatch):
    """Run `equipoise share` in this process, in an empty folder; its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["equipoise", "share", *arguments])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
            main()
        return leaving.value.code, out.getvalue(), err.getvalue()

    return run


def only_folder(path):
    (folder,) = (path / "runs").iterdir()
    return folder


def success(content, load):
    return {row["policy"]: row["success"] for row in content["result"]["rows"] if row["load"] == load}


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """One small comparison in a process of its own, shared by the tests that read it."""
    path = tmp_path_factory.mktemp("quick")
    return path, equipoise("share", *QUICK, "--json", cwd=path)


def test_the_usual_policies_are_compared_and_certified(quick_run):
    """Exit 0, strict JSON alone on standard output, every check made and passed."""
    _, done = quick_run
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert set(content) == {"verb", "version", "config", "result", "certificate", "looks"}
    checks = {check["name"]: check["passed"] for check in content["certificate"]["checks"]}
    assert checks == dict.fromkeys(
        ("capacity", "bandwidth", "states", "outcomes", "servers", "energy", "idle-while-work", "liveness", "oracle"),
        True,
    )
    assert set(success(content, 60)) == {"Uniform", "SDF", "LARA", "UARA", "UARA+LARA", "EDF", "Hybrid"}
    assert content["result"]["baseline"] == "Uniform"


def test_history_holds_every_seed_and_its_means_are_the_rows(quick_run):
    """Means, standard errors and efficiency of result.json recomputed from history.csv with NumPy."""
    folder = only_folder(quick_run[0])
    history = list(csv.DictReader((folder / "history.csv").open()))
    rows = json.loads((folder / "result.json").read_text())["result"]["rows"]
    assert len(history) == 6 * len(rows)
    for row in rows:
        mine = [h for h in history if h["policy"] == row["policy"] and int(h["load"]) == row["load"]]
        assert sorted(int(h["seed"]) for h in mine) == list(range(6))
        found, energy = (np.array([float(h[name]) for h in mine]) for name in ("success", "energy"))
        assert row["success"] == pytest.approx(found.mean())
        assert row["success_se"] == pytest.approx(found.std(ddof=1) / np.sqrt(6))
        assert row["efficiency"] == pytest.approx(found.mean() / energy.mean())
        bounds = [float(h["oracle"]) for h in mine if h["oracle"]]
        assert row["oracle"] == pytest.approx(100 * np.mean(bounds) / row["load"])


def test_paired_differences_are_those_of_the_history(quick_run):
    """Each policy minus the baseline, seed by seed."""
    folder = only_folder(quick_run[0])
    history = list(csv.DictReader((folder / "history.csv").open()))

    def seeds(policy):
        return np.array([float(h["success"]) for h in history if h["policy"] == policy and h["load"] == "60"])

    paired = json.loads((folder / "result.json").read_text())["result"]["paired"]
    at_60 = {gap["one"]: gap for gap in paired if gap["measure"] == "success" and gap["load"] == 60}
    assert "Uniform" not in at_60
    for name, gap in at_60.items():
        by_hand = seeds(name) - seeds("Uniform")
        assert gap["difference"] == pytest.approx(by_hand.mean())
        assert gap["standard_error"] == pytest.approx(by_hand.std(ddof=1) / np.sqrt(6))


def test_its_config_repeats_it_bit_for_bit(quick_run, tmp_path):
    """--config with the written file, in another folder, prints the very same JSON and writes the same history."""
    path, done = quick_run
    folder = only_folder(path)
    again = equipoise("share", "--config", str(folder / "config.yaml"), "--json", cwd=tmp_path)
    assert again.stdout == done.stdout
    assert (only_folder(tmp_path) / "history.csv").read_bytes() == (folder / "history.csv").read_bytes()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config.pop("version") and config == json.loads(done.stdout)["config"]


def test_python_leaves_the_same_folder(quick_run, tmp_path):
    """The spec of the written file, built, run and saved: every file of the command line's folder, byte for byte."""
    folder = only_folder(quick_run[0])
    saved = ShareSpec.from_yaml(folder / "config.yaml").build().run().save(tmp_path / "mine")
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }


def test_the_page_is_written(quick_run):
    """report.html is a page that names the policies."""
    text = (only_folder(quick_run[0]) / "report.html").read_text()
    assert "<html" in text[:300]
    assert "UARA+LARA" in text and "Hybrid" in text


def test_the_timeline_shows_a_task_that_is_starved(quick_run):
    """Chosen on its own: UARA+LARA fails it with compute idle, another policy finishes it."""
    from equipoise.share import policies, simulate
    from equipoise.share.task import COMPUTING, DONE

    timeline = json.loads(quick_run[1].stdout)["result"]["timeline"]
    assert (timeline["load"], timeline["seed"]) == (60, 0)
    task = timeline["task"]
    starver, *others = (simulate(policy(), load=60, seeds=[0], trace=True) for policy in policies.PUBLISHED[::-1])
    assert starver.state[0, task] != DONE
    assert any(run.state[0, task] == DONE for run in others)
    waiting = starver.trace.state[:, 0, task] == COMPUTING
    assert (starver.trace.compute[waiting, 0].sum(axis=1) < 149).any()


def test_the_terminal_shows_the_papers_table_and_the_certificate(share):
    """Success by load, the full table, the paper's numbers beside ours, paired differences, certificate, page."""
    code, out, _ = share(*QUICK)
    assert code == 0
    for words in (
        "success, % of tasks",
        "oracle's bound",
        "at 60 tasks",
        "the paper's is one run",
        "1,852 ·",
        "3,080 ·",
        "difference to Uniform",
        "certificate: passed",
        "report.html",
    ):
        assert words in " ".join(out.split())
    assert max(len(line) for line in out.splitlines()) <= 100


def test_the_authors_own_run_from_the_command_line(share, tmp_path):
    """Twenty cells of Table 1 beside ours, all the same; the folder holds a row for every run; the certificate passes."""
    code, out, err = share("--published-run", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert len(content["result"]["table"]) == 20 and all(cell["same"] for cell in content["result"]["table"])
    assert content["certificate"]["passed"] and content["verb"] == "share published"
    folder = only_folder(tmp_path)
    assert len(list(csv.DictReader((folder / "history.csv").open()))) == 35
    assert json.loads((folder / "result.json").read_text()) == content


@pytest.mark.parametrize("arguments", [("--loads", "10"), ("--loads", "60", "--preset", "network-heavy")])
def test_the_papers_table_stands_only_beside_its_own_case(share, arguments):
    """Another load, another workload: no comparison with numbers that mean something else."""
    _, out, _ = share("--seeds", "2", "--oracle", "0", "--policies", "Uniform,SDF", *arguments)
    assert "paper's table" not in out
    assert "oracle" not in out
    assert "difference to Uniform on" in out


def test_network_heavy_moves_the_bottleneck_to_the_uplink(share):
    """The same policies use four times the network and finish less."""
    common = ("--loads", "60", "--seeds", "4", "--oracle", "0", "--policies", "SDF", "--json")
    paper, heavy = (json.loads(share("--preset", name, *common)[1]) for name in ("described", "network-heavy"))
    one, other = (content["result"]["rows"][0] for content in (paper, heavy))
    assert other["network"] > 3 * one["network"]
    assert other["success"] < one["success"]


def test_every_constant_of_site_and_workload_can_be_set():
    """No field of Site or Workload is out of reach; defaults are those of the classes."""
    from equipoise.share import Site, Workload

    settable = set(ShareSpec.model_fields)
    assert {field.name for field in dataclasses.fields(Site)} <= settable
    beyond = {"prior", "horizon_per_task", "site", "draws"}  # shifted by prior_shift; 0 with a horizon; by the preset
    assert {field.name for field in dataclasses.fields(Workload)} - settable == beyond
    for preset, site in (("authors", Site.authors()), ("described", Site())):
        job = ShareSpec(preset=preset).build()
        assert job.site == site and job.workload == getattr(Workload, preset)()
    assert ShareSpec().build().workload == Workload.authors()


def test_settings_reach_the_site_and_the_workload():
    """One of everything, from the command line's text."""
    chosen = {
        "servers": "2x30@4,60",
        "bandwidth": 80.0,
        "delay": 2.0,
        "jitter": 0.5,
        "task_cap": 20.0,
        "power": "linear",
        "idle_power": 0.1,
        "busy_power": 5.0,
        "migration": "between",
        "arrival": "0:10",
        "data": "5:6",
        "deadline": "20:30",
        "a": "1:1.1",
        "b": "0.3:0.4",
        "target": "0.2",
        "sigma": 0.01,
        "horizon": 50,
        "prior_shift": -0.1,
        "preset": "described",
    }
    job = ShareSpec.read(None, chosen).build()
    assert [(server.capacity, server.power_cap) for server in job.site.servers] == [(30, 4), (30, 4), (60, None)]
    for name in ("bandwidth", "delay", "jitter", "task_cap", "power", "idle_power", "busy_power", "migration"):
        assert getattr(job.site, name) == chosen[name]
    assert (job.workload.arrival, job.workload.data, job.workload.deadline) == ((0, 10), (5, 6), (20, 30))
    assert (job.workload.a, job.workload.b, job.workload.target) == ((1, 1.1), (0.3, 0.4), (0.2, 0.2))
    assert (job.workload.sigma, job.workload.horizon) == (0.01, 50)
    assert job.workload.prior.mean[1] == pytest.approx(0.3585 - 0.1)


def test_power_caps_slow_a_site_down(share):
    """5x30@4 draws at most 4 a server: fewer successes, less energy, capacity still certified."""
    common = ("--preset", "described", "--loads", "60", "--seeds", "3", "--oracle", "0", "--policies", "SDF", "--json")
    free, capped = (json.loads(share("--servers", text, *common)[1]) for text in ("5x30", "5x30@4"))
    assert capped["certificate"]["passed"]
    one, other = (content["result"]["rows"][0] for content in (free, capped))
    assert other["success"] < one["success"]
    assert other["energy"] < one["energy"]
    assert other["energy"] <= 5 * 4 * 83


def test_ranges_and_servers_as_text():
    """`lo:hi`, one number for both ends; counts, capacities and power caps."""
    assert read_range("14:35") == (14, 35)
    assert read_range([1, 2]) == (1, 2)
    assert read_range("3") == (3, 3)
    assert read_servers("2x30@4, 60") == [{"capacity": 30, "power_cap": 4}] * 2 + [{"capacity": 60}]


def test_a_named_preset_is_the_site_of_tasks_by_hand(share, tmp_path):
    """Energy per sample on the authors' site, cubic on the described one, which is the usual; a run folder repeats it."""
    (tmp_path / "tasks.yaml").write_text(TASKS)
    energy = {}
    for preset in ((), ("--preset", "described"), ("--preset", "authors")):
        code, out, err = share("--config", "tasks.yaml", *preset, "--seeds", "2", "--policies", "Uniform", "--json")
        assert code == 0, err
        energy[preset] = json.loads(out)["result"]["rows"][0]["energy"]
        assert ("preset" in json.loads(out)["config"]) == bool(preset)
    assert energy[()] == energy["--preset", "described"] != energy["--preset", "authors"]


def test_tasks_one_by_one_from_a_file(share, tmp_path):
    """Three tasks and two servers in YAML; the one that cannot succeed is named; the written file repeats the run."""
    (tmp_path / "tasks.yaml").write_text(TASKS)
    code, out, err = share("--config", "tasks.yaml", "--seeds", "2", "--policies", "SDF,Uniform", "--json")
    assert code == 0, err
    assert err.startswith("warning: task 2 can never succeed: its target 0.1 is below its curve's floor 0.12\n")
    assert err.count("warning: ") == 1
    content = json.loads(out)
    assert success(content, 3)["SDF"] == pytest.approx(200 / 3)
    assert content["result"]["rows"][0]["oracle"] == pytest.approx(200 / 3)
    again = share("--config", str(only_folder(tmp_path) / "config.yaml"), "--json")
    assert again[1] == out


def test_drawn_tasks_that_cannot_succeed_are_counted(share):
    """b = 0 never falls: all 20 drawn tasks."""
    code, _, err = share(
        "--b", "0", "--loads", "10", "--seeds", "2", "--oracle", "1", "--policies", "SDF,UARA", "--json"
    )
    assert code == 0, err
    assert "20 of 20 drawn tasks at 10 can never succeed" in err


def test_a_policy_of_ones_own(share, tmp_path):
    """From a file of fifteen lines, beside ours, under its own name; the config repeats it from elsewhere."""
    (tmp_path / "my.py").write_text(POLICY)
    common = ("--loads", "10", "--seeds", "3", "--oracle", "0", "--policies", "SDF")
    code, out, err = share(*common, "--policy-file", "my.py:ShortestFirst", "--json")
    assert code == 0, err
    assert set(success(json.loads(out), 10)) == {"SDF", "ShortestFirst"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = equipoise("share", "--config", str(only_folder(tmp_path) / "config.yaml"), "--json", cwd=elsewhere)
    assert again.stdout == out


def test_clairvoyant_twins_and_groups_by_name(share):
    """`published` is five, a twin stands under its own name, nobody twice."""
    _, out, _ = share(
        "--policies", "published,LARA:clairvoyant,uniform", "--loads", "10", "--seeds", "1", "--oracle", "0", "--json"
    )
    names = list(success(json.loads(out), 10))
    assert names == ["Uniform", "SDF", "LARA", "UARA", "UARA+LARA", "LARA (clairvoyant)"]


def test_first_seed_moves_all_seeds(share, tmp_path):
    """Seeds 7 to 9, and no others, in the history."""
    share("--first-seed", "7", "--seeds", "3", "--loads", "5", "--oracle", "0", "--policies", "SDF", "--json")
    seeds = {row["seed"] for row in csv.DictReader((only_folder(tmp_path) / "history.csv").open())}
    assert seeds == {"7", "8", "9"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policies", "SDFF"), "did you mean 'SDF'"),
        (("--policies", "SDF:clairvoyant"), "SDF estimates nothing, so that it has no clairvoyant twin"),
        (("--policies", ","), "expected names"),
        (("--preset", "author"), "did you mean 'authors'"),
        (("--power", "cubic"), "unknown power law 'cubic'"),
        (("--migration", "never"), "unknown migration 'never'"),
        (("--success", "x"), "unknown success rule 'x'"),
        (("--uplink", "x"), "unknown uplink 'x'"),
        (("--observes", "x"), "unknown observes 'x'"),
        (("--rate-jitter", "1.5"), "rate_jitter is 1.5"),
        (("--preset", "described", "--rate-jitter", "0.1"), "rate_jitter is 0.1 with uplink 'decided'"),
        (("--speed", "0:10"), "speed starts at 0"),
        (("--published-run", "--seeds", "3"), "--seeds has no effect: --published-run"),
        (("--published-run", "--timeline-task", "3"), "--timeline-task has no effect: --published-run"),
        (("--published-run", "--config", "server.yaml"), "--config has no effect: --published-run"),
        (("--config", "still.yaml"), "task 0: speed is 0"),
        (("--loads", "ten"), "--loads: expected numbers of tasks"),
        (("--loads", "60:10:10"), "--loads: expected"),
        (("--loads", "0"), "at least one task"),
        (("--seeds", "0"), "seeds must be 1 or more"),
        (("--seeds", "many"), "--seeds"),
        (("--first-seed", "-1"), "first_seed must be 0 or more"),
        (("--oracle", "-1"), "oracle must be 0 or more"),
        (("--bandwidth", "0"), "bandwidth is 0.0; expected a positive number"),
        (("--bandwidth", "nan"), "bandwidth is nan"),
        (("--delay", "-1"), "delay is -1.0"),
        (("--jitter", "nan"), "jitter is nan"),
        (("--sigma", "-1"), "sigma is -1.0"),
        (("--servers", "5x"), "--servers: expected servers such as 5x30"),
        (("--servers", "0x30"), "expected 1 to 1,000 servers"),
        (("--servers=-30",), "capacity is -30.0"),
        (("--servers", "5x30@0.1"), "power_cap of 0.1 but draws 0.1 when idle"),
        (("--task-cap", "50"), "--task-cap 50 has no effect"),
        (("--a", "2:1"), "--a: expected a range LO:HI"),
        (("--b", "nan:1"), "--b: expected a range"),
        (("--data", "1:2:3"), "--data: expected a range"),
        (("--deadline", "0:3"), "deadline starts at 0"),
        (("--horizon", "0"), "horizon must be 1 or more"),
        (("--prior-shift", "nan"), "prior_shift must be -1 to 1"),
        (("--preset", "recorded", "--a", "1:2"), "--a has no effect: preset is recorded"),
        (("--curves", "x.csv.gz"), "--curves has no effect: preset is authors"),
        (("--preset", "recorded", "--curves", "gone.csv.gz"), "gone.csv.gz"),
        (("--timeline-task", "60", "--loads", "60"), "tasks 0 to 59"),
        (("--policy-file", "my.py"), "expected FILE.py:CLASS"),
        (("--policy-file", "gone.py:A"), "gone.py"),
        (("--policy-file", "my.py:Shortest"), "did you mean 'ShortestFirst'"),
        (("--policy-file", "my.py:Needy"), "cannot be made without arguments"),
        (("--policy-file", "my.py:Idle"), "no method decide(view)"),
        (("--policy-file", "my.py:Broken", "--seeds", "1", "--loads", "5"), "AttributeError"),
        (("--policy-file", "my.py:Flat", "--seeds", "1", "--loads", "5"), "Flat, step 0: bandwidth has shape (3,)"),
        (("--policy-file", "bad.py:A"), "bad.py:1"),
        (("--policy-file", "missing_import.py:A"), "missing_import.py:1: ModuleNotFoundError"),
        (("--policy-file", "my.py:ShortestFirst,my.py:ShortestFirst"), "two policies are called 'ShortestFirst'"),
        (("--config", "late.yaml"), "task 1: deadline 3 is not after arrival 5"),
        (("--config", "short.yaml"), "task 0: target is missing"),
        (("--config", "word.yaml"), "task 0: data is 'much'"),
        (("--config", "half.yaml"), "task 0: arrival is 0.5; expected a whole number"),
        (("--config", "extra.yaml"), "task 0: unknown field 'dead'"),
        (("--config", "both.yaml"), "--a has no effect: the tasks are given one by one"),
        (("--config", "time.yaml"), "YAML reads 14:35 as minutes and seconds"),
        (("--config", "times.yaml"), "YAML reads 10:50:10"),
        (("--config", "server.yaml"), "servers"),
        (("--config", "unknown.yaml"), "did you mean 'loads'"),
        (("--loads", f"1:{10**21}:1"), "at most 1000 of them"),
        (("--seeds", "3", "bundles"), "options stand after the command"),
        (("ladder", "--policies", "SDF"), "equipoise share --preset described"),
        (("ladder", "--help"), "--power linear"),
        (("estimators", "--json"), "python benchmarks/share/estimators.py"),
        (("check", "my.py:Nobody"), "unknown policy 'Nobody'"),
        (("check", "SDFF"), "did you mean 'SDF'"),
        (("chekc",), "check"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_nothing_written(share, tmp_path, arguments, words):
    """The line names the option, field or task; no traceback; no run folder."""
    task = "{arrival: 0, deadline: 9, data: 1, target: 0.2}"
    files = {
        "my.py": POLICY,
        "bad.py": "def (:",
        "missing_import.py": "import nowhere_at_all",
        "late.yaml": f"tasks: [{task}, {{arrival: 5, deadline: 3, data: 1, target: 0.2}}]",
        "still.yaml": "tasks: [{arrival: 0, deadline: 9, data: 1, target: 0.2, speed: 0}]",
        "short.yaml": "tasks: [{arrival: 0, deadline: 9, data: 1}]",
        "word.yaml": "tasks: [{arrival: 0, deadline: 9, data: much, target: 0.2}]",
        "half.yaml": "tasks: [{arrival: 0.5, deadline: 9, data: 1, target: 0.2}]",
        "extra.yaml": "tasks: [{arrival: 0, dead: 9, data: 1, target: 0.2}]",
        "both.yaml": f"tasks: [{task}]\na: [1, 2]",
        "time.yaml": "data: 14:35",
        "times.yaml": "loads: 10:50:10",
        "server.yaml": "servers: [{capacity: fast}]",
        "unknown.yaml": "load: [10]",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, out, err = share(*arguments)
    assert code == 2, out + err
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--curves", "empty.gz"), "curves: "),
        (("--curves", "nobody.gz"), "curves: "),
        (("--curves", "hollow.gz"), "line 4: 0 sample counts and 0 errors"),
        (("--curves", "level.gz"), "none of 1 curves falls"),
        (("--curves", "nowhere.gz"), "cannot read"),
        (("--units", "1"), "units"),
        (("--switch-cost", "-1"), "switch_cost"),
        (("--loads", "0"), "every load is at least one task"),
        (("--policies", "LaiRa2"), "did you mean 'LaiRA'"),
        (("--config", "unknown.yaml"), "did you mean 'loads'"),
    ],
)
def test_bundles_without_losses_are_refused_and_nothing_is_written(share, tmp_path, arguments, words):
    """One line that names the field: an empty file, a file without curves, a curve without points, one that is level."""
    head = "# equipoise recording 1\n# targets 0.62 1.0\nmodel,data,settings,seed,samples,errors\n"
    texts = {"nobody.gz": head, "hollow.gz": head + "m,d,,0,,\n", "level.gz": head + "m,d,,0,1 10,0.5 0.4\n"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    (tmp_path / "empty.gz").write_bytes(b"")
    (tmp_path / "unknown.yaml").write_text("load: [10]")
    code, out, err = share("bundles", *arguments)
    assert code == 2, out + err
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_bundles_from_the_command_line(share, tmp_path):
    """The table, the verdict, and a run folder whose config repeats it."""
    small = ("bundles", "--seeds", "4", "--units", "60", "--loads", "4", "--switch-cost", "0.2")
    code, out, err = share(*small)
    assert code == 0, err
    for words in ("finished of 4", "switches", "LARA, reconstructed", "A single bundle shows LaiRA ahead by 3 or more"):
        assert words in " ".join(out.split())
    folder = only_folder(tmp_path)
    assert folder.name.startswith("share-bundles-")
    assert {file.name for file in folder.iterdir()} == {"result.json", "history.csv", "config.yaml"}
    _, again, _ = share("bundles", "--config", str(folder / "config.yaml"), "--json")
    assert json.loads(again) == json.loads((folder / "result.json").read_text())


def test_a_failed_certificate_exits_1(share, tmp_path):
    """A policy that plays differently when it is played again: the audit catches it, by name, and the exit code says so."""
    (tmp_path / "moody.py").write_text(POLICY + MOODY)
    code, out, _ = share(
        "--policies", "SDF", "--policy-file", "moody.py:Moody", "--loads", "5", "--seeds", "2", "--oracle", "0"
    )
    assert code == 1
    assert "certificate: FAILED" in out


def test_check_passes_a_sound_policy_and_fails_a_broken_one(share, tmp_path):
    """Exit 0 with a table of checks; exit 1 with the failed one named, and no traceback."""
    (tmp_path / "my.py").write_text(POLICY)
    code, out, _ = share("check", "my.py:ShortestFirst")
    assert (code, "certificate: passed" in out) == (0, True)
    code, out, err = share("check", "my.py:Flat")
    assert (code, "FAILED" in out) == (1, True)
    assert "Traceback" not in out + err


def test_record_writes_curves_that_can_be_replayed(share, tmp_path):
    """Three quick curves on one data set; `--preset recorded --curves` plays them, and says which file it played."""
    code, out, err = share(
        "record",
        "mine.csv.gz",
        "--models",
        "naive-bayes-gaussian,naive-bayes-bernoulli",
        "--data",
        "breast-cancer",
        "--repeats",
        "1",
    )
    assert code == 0, out + err
    common = ("--preset", "recorded", "--loads", "5", "--seeds", "2", "--policies", "SDF", "--json")
    code, out, err = share(*common, "--curves", "mine.csv.gz")
    assert code == 0, err
    assert json.loads(out)["config"]["curves"] == str(tmp_path / "mine.csv.gz")
    assert json.loads(out)["result"] != json.loads(share(*common)[1])["result"]


def test_help_names_the_options_and_commands(tmp_path):
    """In a process of its own: panels, defaults, subcommands; the root knows the verb."""
    assert "share" in equipoise("--help", cwd=tmp_path).stdout
    shown = equipoise("share", "--help", cwd=tmp_path, env=os.environ | {"COLUMNS": "200"}).stdout
    for words in (
        "--policy-file",
        "--prior-shift",
        "5x30 (usual)",
        "--published-run",
        "Workload",
        "Site",
        "bundles",
        "record",
        "check",
    ):
        assert words in shown


def test_numbers_that_may_be_left_out_are_numbers_in_the_help(share):
    """--timeline-load and its like take a number, not a text."""
    options = with_options(ShareSpec)(lambda chosen: None).__signature__.parameters
    for name in ("timeline_load", "timeline_seed", "timeline_task", "horizon"):
        assert typing.get_args(options[name].annotation)[0] == int | None
    _, out, _ = share("--help")
    for flag in ("--timeline-load", "--timeline-seed", "--timeline-task"):
        assert re.search(rf"{flag} +<int>", out)


def test_a_range_cannot_be_a_bare_number_in_a_file():
    """875 may be 14:35 read as a time: refused rather than taken for a range."""
    with refused("range.form", "[14, 35]", 875):
        read_range(875)
