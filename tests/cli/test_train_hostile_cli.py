"""`equipoise train` on hostile networks, coupled, and with nets: options, files, output and exit codes."""

import json
import sys

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from equipoise.cli.train import app
from equipoise.train import TrainSpec
from equipoise.train.coupling.study import AllocationRow
from equipoise.train.hostile.faults import Bursts, Faults, Partition, faults_of
from refusals import refused

QUICK = ("--data", "none", "--nodes", "8", "--rounds", "400")
FAULTS = ("--loss", "0.2", "--delay", "2", "--crash", "7@60", "--join", "3@40", "--leave", "5@90")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def invoked(*options):
    """The command in this process; errors of the user are raised as they are."""
    done = CliRunner().invoke(app, list(options), env={"COLUMNS": "160"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def train(*options):
    """Output and exit code."""
    done = invoked(*options)
    return done.output, done.exit_code


def result(*options):
    done = invoked(*options, "--json")
    return json.loads(done.stdout), done.exit_code


def only_folder(path):
    (folder,) = (path / "runs").iterdir()
    return folder


def test_every_fault_reaches_the_run_as_it_was_written():
    """Ranges, lists, bursts, open ends: the command line's words against the library's own objects."""
    config = TrainSpec(
        loss="bursts:0.05, 0.3, 0.9",
        delay=4,
        fixed_delay=True,
        crash=["3,7@137", "1@9"],
        leave="0-2@50",
        join=["9@200"],
        straggle=["4,6:5"],
        partition=["0-4,8@100..400", "1@500.."],
        notice=7,
        seed=3,
    )
    assert faults_of(config) == Faults(
        loss=Bursts(0.05, 0.3, 0.9),
        delay=4,
        jitter=False,
        crash=[(3, 137), (7, 137), (1, 9)],
        leave={0: 50, 1: 50, 2: 50},
        join={9: 200},
        straggle={4: 5, 6: 5},
        partition=[Partition(frozenset({0, 1, 2, 3, 4, 8}), 100, 400), Partition(frozenset({1}), 500)],
        notice=7,
        seed=3,
    )


def test_a_run_with_faults_says_what_happened_and_passes():
    """Events by round, who is there, packets lost, CPU in flight; shares and what is in flight are the budget exactly."""
    output, code = train(*QUICK, *FAULTS)
    assert code == 0, output
    for words in (
        "round 40: centre 3 joins",
        "round 60: centre 7 crashes",
        "round 65: the loss of centre 7 is noticed",
        "round 90: centre 5 leaves",
        "6 of 8 are there; gone: 5, 7",
        "lost (",
        "in nobody's share",
        "certificate: passed",
        "overdraft",
    ):
        assert words in output


def test_its_config_repeats_it_bit_for_bit(tmp_path):
    """config.yaml holds the faults as they were written, and gives the same result.json."""
    content, code = result(*QUICK, *FAULTS, "--straggle", "1:3", "--loss", "bursts:0.1,0.5")
    assert code == 0
    folder = only_folder(tmp_path)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert (config["crash"], config["straggle"], config["loss"]) == (["7@60"], ["1:3"], "bursts:0.1,0.5")
    again, _ = result("--config", str(folder / "config.yaml"))
    assert again == content
    assert sum(content["result"]["shares"]) + content["result"]["in_flight"] == content["result"]["budget"]
    assert content["result"]["present"] == [0, 1, 2, 3, 4, 6]


def test_an_interrupted_run_goes_on_to_the_same_result(tmp_path, monkeypatch):
    """Stopped between a crash and its notice, resumed: result.json as of a run left alone, trouble and all."""
    from equipoise.train import job

    options = ("--data", "none", "--nodes", "8", "--hi", "26", "--rounds", "90", "--loss", "0.2", "--crash", "7@60")
    whole, _ = result(*options, "--out", "alone")
    solve = job.solve

    def cut_short(*arguments, callback, **options):
        return solve(*arguments, callback=lambda moment: callback(moment) or moment.number == 62, **options)

    monkeypatch.setattr(job, "solve", cut_short)
    _, code = train(*options)
    assert code == 130
    monkeypatch.setattr(job, "solve", solve)
    folder = only_folder(tmp_path)
    assert not (folder / "result.json").exists()
    train("--resume", str(folder))
    assert json.loads((folder / "result.json").read_text())["result"] == whole["result"]


def test_trouble_is_named_and_exits_1():
    """Boxes too small for the survivors, and a split that never heals: both by name, red in the certificate."""
    output, code = train("--data", "none", "--nodes", "6", "--hi", "28", "--rounds", "80", "--crash", "5@20")
    assert code == 1
    assert "the survivors' boxes hold 140 of 150 CPUs; 10 stay in escrow" in output
    content, code = result(*QUICK, "--partition", "0-3@100..")
    assert code == 1
    assert content["result"]["trouble"] == ["the network is split"]
    assert "reach" in [check["name"] for check in content["certificate"]["checks"] if not check["passed"]]


def test_one_way_links():
    """--directed with and without CPU: a passed certificate, and arrows in the report."""
    content, code = result(
        "--data",
        "breast_cancer",
        "--cost",
        "none",
        "--nodes",
        "6",
        "--p",
        "0.6",
        "--directed",
        "--rounds",
        "60",
        "--target",
        "0.9",
    )
    assert code == 0, content["certificate"]
    content, code = result(
        "--data", "none", "--nodes", "6", "--p", "0.6", "--directed", "--rounds", "600", "--out", "two"
    )
    assert code == 0, content["certificate"]


def test_defaults_that_fit_a_hostile_network():
    """As much is asked of them as of any other; mini-batches are held to their noise."""
    assert TrainSpec().target == 1e-4
    assert TrainSpec(loss=0.3).target == 1e-4
    assert TrainSpec(loss=0.3, data="none").target == 1e-4
    assert TrainSpec(loss=0.3, target=1e-4).target == 1e-4
    assert TrainSpec(batch=8).target is None
    for settings in ({"loss": 0.3}, {"batch": 8}, {"couple": True}, {"couple": True, "model": "mlp"}, {"model": "mlp"}):
        config = TrainSpec(**settings)
        assert TrainSpec(**json.loads(config.model_dump_json(exclude_none=True))) == config  # as config.yaml has it


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--crash", "7"), ("fault.form", "--crash", "'7'")),
        (("--crash", "seven@4"), ("fault.form", "'seven@4'")),
        (("--crash", "3,3@4"), ("fault.nodes", "centre 3")),
        (("--crash", "99@5"), ("schedule.node", "centre 99", "0..19")),
        (("--crash", "7@9999"), ("schedule.round", "round 9999", "0..2999")),
        (("--crash", "7@50", "--join", "7@52"), ("schedule.notice", "round 50")),
        (("--leave", "3@-1"), ("fault.form", "'3@-1'")),
        (("--join", "9-4@5"), ("fault.nodes", "9-4")),
        (("--join", "0-19@5"), ("schedule.empty", "round 0")),
        (("--straggle", "4"), ("fault.form", "--straggle", "NODES:ROUNDS")),
        (("--straggle", "4:0"), ("fault.form", "'4:0'")),
        (("--straggle", "4:2", "--straggle", "4:3"), ("fault.twice", "--straggle", 2, 3)),
        (("--partition", "0-9@100"), ("fault.form", "--partition", "NODES@BEGIN..END")),
        (("--partition", "0-9@100..50"), ("partition.order", 100, 50)),
        (("--partition", "0-19@5..9"), ("partition.nodes", 20)),
        (("--loss", "1"), ("fault.form", "--loss", 1)),
        (("--loss", "often"), ("fault.form", "'often'")),
        (("--loss", "bursts:0.1"), ("fault.form", "'bursts:0.1'")),
        (("--loss", "bursts:0.1,0"), ("bursts.leave", 0)),
        (("--delay", "-1"), ("delay.range", -1)),
        (("--delay", "99"), ("delay.range", 60, 99)),
        (("--fixed-delay",), ("option.unused", "--fixed-delay", "--delay")),
        (("--notice", "9"), ("option.unused", "--notice")),
        (("--network", "path", "--directed"), ("network.one_way", "path")),
        (("--loss", "0.1", "--budget-at", "5:600"), ("unsound.budget",)),
        (("--loss", "0.1", "--method", "paper"), ("unsound.flows",)),
        (("--model", "mlp", "--rivals", "--loss", "0.1"), ("option.hostile", "--rivals", "--loss")),
        (("--couple", "--nodes", "5"), ("option.unused", "--nodes", "--couple")),
        (("--couple", "--loss", "0.1"), ("option.unused", "--loss", "--couple")),
        (("--couple", "--model", "smooth_svm"), ("model.studied", "--couple", "smooth_svm")),
        (("--seeds", "3"), ("option.unused", "--seeds")),
        (("--passes", "2"), ("option.unused", "--passes", "--batch")),
        (("--rivals",), ("option.unused", "--rivals")),
        (("--batch", "0"), ("batch.range", 0)),
        (("--fade", "0"), ("fade.range", 0)),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(tmp_path, options, refusal):
    """The value, what was expected, the fix."""
    extra = (
        () if {"--model", "--couple"} & set(options) or options[0] in ("--passes", "--rivals") else ("--data", "none")
    )
    if options[0] in ("--batch", "--fade"):
        extra = ()
    with refused(*refusal):
        train(*options, *extra)
    assert not list(tmp_path.iterdir())


def test_a_number_in_a_file_that_yaml_misread(tmp_path):
    """4:5 without quotes is 245 to YAML: the error says to quote it."""
    (tmp_path / "c.yaml").write_text("data: none\nstraggle: [4:5]\n")
    with refused("fault.form", "straggle", "'4:5'", 245):
        train("--config", "c.yaml")


@pytest.mark.parametrize("command", ["analyse", "compare"])
def test_analyse_and_compare_refuse_faults_by_name(command):
    """Both name every fault that was asked for."""
    with refused("option.hostile", command, "--directed", "--loss", "--crash"):
        train(command, "--loss", "0.3", "--crash", "7@3", "--crash", "8@3", "--directed")


def test_analyse_refuses_nets_and_batches():
    with refused("model.convex", "mlp"):
        train("analyse", "--model", "mlp")
    with refused("option.batch", "--couple"):
        train("analyse", "--couple")


def test_the_help_has_a_panel_of_faults():
    output, _ = train("--help")
    assert "Hostile networks" in output
    assert "--partition" in output
    assert "equipoise train --loss 0.3" in output


class Row:
    """A row of the study, as it would come out of a long run."""

    as_dict = AllocationRow.as_dict

    def __init__(self, name, label, seconds):
        self.allocation, self.label, self.cpu_seconds, self.missed = name, label, np.array(seconds), 0
        self.mean, self.error = float(np.mean(seconds)), float("nan")
        self.saved_against_equal, self.saved_against_equal_error = 0.25, float("nan")
        self.saved_against_data, self.saved_against_data_error = 0.125, 0.01


def test_coupling_ends_with_cpu_seconds_per_allocation(tmp_path, monkeypatch):
    """The run is real and short, the study's rows are given: table, result.json and chart hold them, cheapest first."""
    from equipoise.train.coupling import study
    from equipoise.train.coupling.instance import draw

    asked = []

    def rows(model, seeds, equal, progress):
        asked.append((model, list(seeds), equal))
        for seed in seeds:
            progress(f"seed {seed}")
        return [Row("equal", "equal shares", [400.0, 600.0]), Row("coupled", "coupled (sigma learnt)", [300.0, 350.0])]

    monkeypatch.setattr(study, "study", rows)
    small = {"n": 6, "copies": 1}
    monkeypatch.setattr(study.Setting, "draw", lambda own, seed: draw(own.factory, seed, noise=own.blur, **small))
    output, _ = train("--couple", "--seed", "4", "--seeds", "2", "--rounds", "10")
    assert asked == [("softmax", [4, 5], False), ("softmax", [4, 5], True)]
    table = output[output.index("allocation ") : output.index("certificate")]
    assert table.index("coupled") < table.rindex("equal shares")
    assert "325" in table and "25.0%" in table and "12.5% ± 1.0%" in table and "equal centres" in table
    folder = only_folder(tmp_path)
    found = json.loads((folder / "result.json").read_text())["result"]
    assert [row["mean"] for row in found["allocations"]["rows"]] == [325.0, 500.0]
    assert found["allocations"]["rows"][0]["error"] is None
    page = (folder / "report.html").read_text()
    assert "CPU-seconds to target accuracy per allocation" in page and "The same on equal centres" in page
    assert sum(found["shares"]) == found["budget"]
    rows = np.genfromtxt(folder / "history.csv", delimiter=",", names=True)
    assert rows["cpu_seconds"][-1] == pytest.approx(10 * found["budget"])
    assert rows["samples"][-1] > rows["samples"][0]


def test_a_net_learns_and_is_shown_beside_rivals(tmp_path):
    """A few rounds of an MLP: loss and accuracy of every centre, a row for each way to train, and no gap of a model."""
    pytest.importorskip("torch")
    content, code = result(
        "--model",
        "mlp",
        "--cost",
        "none",
        "--nodes",
        "4",
        "--samples",
        "300",
        "--passes",
        "2",
        "--batch",
        "15",
        "--rivals",
    )
    assert code == 0, content["certificate"]
    found = content["result"]
    assert found["rounds"] == 10  # 2 x 300 / (4 x 15)
    assert len(found["losses"]["nodes"]) == len(found["accuracy"]["nodes"]) == 4
    assert found["relative_gap"] is None
    assert [row["way"] for row in found["rivals"]] == ["tracking", "decentralised", "local", "centralised"]
    page = (only_folder(tmp_path) / "report.html").read_text()
    assert "4 centres trained a net with one hidden layer on digits: certificate passed" in page
    assert '"losses":' in page and '"rivals":' in page


def test_without_torch_one_line_says_what_to_install(monkeypatch):
    import scipy.stats  # noqa: F401  # looks at torch while it loads

    monkeypatch.setitem(sys.modules, "torch", None)
    with refused("library.missing", "--model", "'equipoise[torch]'"):
        train("--model", "mlp")


def test_a_cnn_needs_images_of_28_by_28():
    pytest.importorskip("torch")
    with refused("model.features", "28 x 28"):
        train("--model", "cnn")


def test_small_batches_of_a_convex_model():
    """--batch with --target: a noisy run that reaches what was asked for."""
    content, code = result(
        "--data",
        "breast_cancer",
        "--cost",
        "none",
        "--nodes",
        "4",
        "--batch",
        "20",
        "--rounds",
        "100",
        "--target",
        "0.5",
    )
    assert code == 0, content["certificate"]
