"""`equipoise train verify`: a good folder passes, and whoever edits a file of one is caught by name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from equipoise.train import TrainSpec
from equipoise.train.verify import verify
from equipoise.train.verify_anew import LinkCount, Prices, code_bits, price_spread
from refusals import refused

ROOT = Path(__file__).parents[1]
SHARED = {"data": "none", "rounds": 400, "nodes": 8, "target": 1e-6, "every": 1, "lo": 5.0, "hi": 36.0}
LEARNT = {"data": "breast_cancer", "nodes": 4, "network": "ring", "switching": 0, "rounds": 300, "target": 1e-2}


def saved(folder, **settings):
    """The folder of a run of these settings."""
    return TrainSpec(**settings).build().run().save(folder, report=False)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """CPU alone, graphs in turn, every round recorded."""
    return saved(tmp_path_factory.mktemp("shared") / "run", **SHARED)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A model and CPU, on a ring."""
    return saved(tmp_path_factory.mktemp("learnt") / "run", **LEARNT)


@pytest.fixture
def copy(tmp_path):
    """A copy of a folder, to edit."""

    def made(folder):
        return Path(shutil.copytree(folder, tmp_path / "copy"))

    return made


def failed(folder):
    """The checks that do not pass."""
    return [check.name for check in verify(folder).certificate if check.passed is not True]


def edit_arrays(folder, **changes):
    """Write arrays.npz again with these changed: each a function that changes the array in place, or gives another."""
    with np.load(folder / "arrays.npz") as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changes.items():
        given = change(arrays[name])
        arrays[name] = arrays[name] if given is None else given
    np.savez_compressed(folder / "arrays.npz", **arrays)


def edit_result(folder, change):
    path = folder / "result.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize("folder", ["shared", "learnt"])
def test_a_good_run_passes(folder, request):
    """All checks are made and pass, the files' own among them."""
    document = verify(request.getfixturevalue(folder))
    assert document.certificate.passed, document.certificate
    assert {"files", "budget", "box", "kkt", "gap", "bits", "claims"} <= {check.name for check in document.certificate}
    assert document.result["rounds_of_shares"] == document.result["rounds"] + 1


def test_a_run_that_missed_its_target_is_said_to_have(tmp_path):
    """The gap does not pass here either, and the claims, which say so, do."""
    assert failed(saved(tmp_path / "run", **SHARED | {"rounds": 10})) == ["kkt", "gap"]


def test_a_unit_moved_in_one_round_is_found(shared, copy):
    """Sum and boxes hold; the shares of history.csv are others."""
    folder = copy(shared)

    def move(units):
        units[len(units) // 2, [2, 5]] += [1, -1]

    edit_arrays(folder, units=move)
    found = verify(folder).certificate
    assert failed(folder) == ["files"]
    assert f"round {(verify(folder).result['rounds'] + 1) // 2}: other shares" in found["files"].meaning


def test_a_unit_lost_in_one_round_is_found(learnt, copy):
    """In a round that is not recorded: the budget is missed by 2^-k CPUs, and that is too much."""
    folder = copy(learnt)

    def lose(units):
        units[-2, 1] -= 1

    edit_arrays(folder, units=lose)
    found = verify(folder).certificate
    assert failed(folder) == ["budget", "claims"]
    assert 0.0 < found["budget"].value < 1e-12


def test_a_share_outside_its_box_in_one_round_is_found(learnt, copy):
    """In a round that is not recorded, with the budget kept."""
    folder = copy(learnt)

    def leave(units):
        more = 20 * 2**44
        units[3, [0, 1]] += [more, -more]

    edit_arrays(folder, units=leave)
    assert failed(folder) == ["box", "claims"]


def test_models_that_were_replaced_are_found(learnt, copy):
    """By others that are as good but not the same: the gap claimed is not theirs. By none: the gap itself."""
    folder = copy(learnt)
    noise = 1e-3 * np.random.default_rng(0).standard_normal((4, 62))
    edit_arrays(folder, models=lambda models: models + noise)
    assert "claims" in failed(folder)
    edit_arrays(folder, models=lambda models: models[:, :5])
    assert "files" in failed(folder)
    edit_arrays(folder, models=lambda _: np.zeros((4, 62)))
    assert {"gap", "claims"} <= set(failed(folder))


def test_final_shares_that_were_replaced_are_found(shared, copy):
    """Better shares than the run's own: its best ones."""
    folder = copy(shared)
    edit_arrays(
        folder, shares=lambda _: np.array(json.loads((folder / "result.json").read_text())["result"]["optimal_shares"])
    )
    assert "files" in failed(folder)
    edit_result(folder, lambda found: found["result"].update(shares=found["result"]["optimal_shares"]))
    assert "files" in failed(folder)


@pytest.mark.parametrize("folder", ["shared", "learnt"])
@pytest.mark.parametrize(
    "change", [lambda bits: bits // 2, lambda bits: bits - 54], ids=["halved", "a float in 10 bits"]
)
def test_bits_of_one_link_that_were_edited_are_found(folder, change, request, copy):
    """Also where all totals were edited with them."""
    folder = copy(request.getfixturevalue(folder))
    before = json.loads((folder / "result.json").read_text())["result"]["bits"]

    def less(bits):
        bits[3] = change(bits[3])

    edit_arrays(folder, link_bits=less)
    assert {"files", "bits"} <= set(failed(folder))
    after = int(np.load(folder / "arrays.npz")["link_bits"].sum())

    def total(found):
        found["result"]["bits"] = after
        found["result"]["bits_for"]["prices"] -= before - after
        next(check for check in found["certificate"]["checks"] if check["name"] == "bits")["value"] = float(after)

    edit_result(folder, total)
    path = folder / "history.csv"
    path.write_text(path.read_text().replace(f",{before},", f",{after},"))
    assert "bits" in failed(folder)


def test_a_chord_is_found(learnt, copy):
    """0 and 2 are no neighbours on a ring of 4."""
    folder = copy(learnt)
    edit_arrays(
        folder,
        link_senders=lambda nodes: np.append(nodes, 0),
        link_receivers=lambda nodes: np.append(nodes, 2),
        link_bits=lambda bits: np.append(bits, bits[0]),
    )
    assert "bits" in failed(folder)
    assert "a chord: 0 to 2" in verify(folder).certificate["bits"].meaning


@pytest.mark.parametrize("column", ["cpu_gap", "kkt", "gap", "relative_gap", "bits", "budget", "share_3", "round"])
def test_a_row_of_history_that_was_edited_is_found(column, shared, copy):
    """Any cell, by its round."""
    folder = copy(shared)
    lines = (folder / "history.csv").read_text().splitlines()
    at, cells = lines[0].split(",").index(column), lines[8].split(",")
    cells[at] = str(float(cells[at]) * 1.001) if column not in ("bits", "round") else str(int(cells[at]) * 40)
    lines[8] = ",".join(cells)
    (folder / "history.csv").write_text("\n".join(lines) + "\n")
    assert "files" in failed(folder)


def test_a_row_of_model_gaps_that_was_edited_is_found(learnt, copy):
    """The models of that round are not kept: gap and relative_gap give it away."""
    folder = copy(learnt)
    lines = (folder / "history.csv").read_text().splitlines()
    at, cells = lines[0].split(",").index("model_gap"), lines[3].split(",")
    cells[at] = str(float(cells[at]) / 2)
    (folder / "history.csv").write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]) + "\n")
    assert failed(folder) == ["files"]


def test_a_gap_that_was_edited_is_found(shared, copy):
    """In the result: files. In the certificate: claims."""
    folder = copy(shared)
    edit_result(folder, lambda found: found["result"].update(relative_gap=1e-9))
    assert failed(folder) == ["files"]
    edit_result(folder, lambda found: found["certificate"]["checks"][3].update(value=1e-9))
    assert failed(folder) == ["files", "claims"]


def test_a_verdict_that_was_edited_is_found(tmp_path):
    """A run that missed its target claims to have reached it."""
    folder = saved(tmp_path / "run", **SHARED | {"rounds": 10})

    def passed(found):
        for check in found["certificate"]["checks"]:
            check["passed"] = True

    edit_result(folder, passed)
    assert failed(folder) == ["kkt", "gap", "claims"]


def test_a_seed_that_was_edited_is_found(shared, copy):
    """In config.yaml alone, and in result.json too: then costs and graphs are not those of the seed."""
    folder = copy(shared)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"seed": 3}))
    assert {"files", "bits"} <= set(failed(folder))
    edit_result(folder, lambda found: found["config"].update(seed=3))
    found = verify(folder).certificate
    assert not found["files"].passed and not found["bits"].passed
    assert "cost_" in found["files"].meaning


def test_budgets_that_change_are_those_of_the_config(tmp_path, copy):
    """A change has a row of its own; a budget of config.yaml that was not in force is found."""
    folder = saved(tmp_path / "run", **SHARED | {"budgets": {40: 240.0, 90: 180.0}})
    document = verify(folder)
    assert document.certificate.passed
    assert document.result["rounds_of_shares"] == document.result["rounds"] + 3
    folder = copy(folder)
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("240.0", "241.0"))
    edit_result(folder, lambda found: found["config"].update(budgets={"40": 241.0, "90": 180.0}))
    assert "budget" in failed(folder)


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"switching": "fresh"}, ["bits", "steps"]),
        ({"loss": 0.2}, ["bits", "steps"]),
        ({"crash": ["3@10"], "loss": 0.1}, ["box", "kkt", "gap", "bits", "steps"]),
        ({"directed": True}, ["bits", "steps"]),
        ({"lo": 24.5, "hi": 25.5}, ["bits", "steps"]),
        ({"rho": 0.5, "switching": 0}, []),
        ({"quantizer": "exact"}, []),
        ({"cost": "quadratic", "lo": -np.inf, "hi": np.inf, "rounds": 600}, []),
    ],
    ids=["markets", "losses", "a crash", "one way", "narrow boxes", "coarse", "exact", "open boxes"],
)
def test_what_the_files_cannot_show_is_named(settings, left, tmp_path):
    """Not made, and so not passed; all else is."""
    certificate = verify(saved(tmp_path / "run", **SHARED | settings)).certificate
    assert [check.name for check in certificate if check.passed is None] == left
    assert all(check.passed is not False for check in certificate), certificate


def test_mini_batches_leave_models_unproven(tmp_path):
    """Without a target their limit is an estimate of the run's; trackers are in no file."""
    folder = saved(tmp_path / "run", **LEARNT | {"batch": 8, "rounds": 20, "target": None})
    names = {check.name: check.passed for check in verify(folder).certificate}
    assert [names[name] for name in ("tracker", "consensus", "gap", "bits")] == [None] * 4
    assert names["files"] and names["budget"] and names["box"] and names["claims"]


def test_a_resumed_run_says_which_rounds_it_kept(tmp_path):
    """Shares before the checkpoint are gone: the meaning says so."""
    job = TrainSpec(**SHARED).build()
    checkpoint = tmp_path / "checkpoint.npz"
    job.run(progress=lambda unit, done, total, note: done == 30, checkpoint=checkpoint)
    folder = job.run(resume=checkpoint).save(tmp_path / "run", report=False)
    document = verify(folder)
    assert document.certificate.passed, document.certificate
    kept = document.result["rounds_of_shares"] > document.result["rounds"]
    assert kept or "not kept" in document.certificate["budget"].meaning


def test_what_is_no_run_is_refused_in_one_line(shared, copy, tmp_path):
    """No folder, another verb, one of 0.1.0, a damaged archive, no config."""
    with refused("file.missing", "nowhere"):
        verify(tmp_path / "nowhere")
    with refused("verify.verb", "place"):
        verify(ROOT / "recorded/0.1.0/place")
    with refused("verify.version", "0.1.0", "equipoise train --config"):
        verify(ROOT / "recorded/0.1.0/train")
    folder = copy(shared)
    archive = folder / "arrays.npz"
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with refused("arrays.form", "arrays.npz"):
        verify(folder)
    archive.write_bytes(whole[:200] + bytes(40) + whole[240:])
    with refused("arrays.form", "arrays.npz"):
        verify(folder)
    archive.unlink()
    with refused("verify.folder", "link_senders"):
        verify(folder)
    archive.write_bytes(whole)
    (folder / "config.yaml").unlink()
    with refused("verify.folder", "config.yaml"):
        verify(folder)


@pytest.mark.parametrize("name", ["link_senders", "shares"])
def test_arrays_that_fit_nowhere_are_refused_in_one_line(name, shared, copy):
    """A number less than there are links, or nodes."""
    folder = copy(shared)
    edit_arrays(folder, **{name: lambda array: array[:-1]})
    with refused("verify.form"):
        verify(folder)


def test_a_row_that_stands_twice_hides_nothing(shared, copy):
    """The first of the two has another gap, and the second the right one."""
    folder = copy(shared)
    lines = (folder / "history.csv").read_text().splitlines()
    at, cells = lines[0].split(",").index("gap"), lines[8].split(",")
    cells[at] = str(2.0 * float(cells[at]))
    (folder / "history.csv").write_text("\n".join([*lines[:8], ",".join(cells), *lines[8:]]) + "\n")
    assert "round 7: gap and relative_gap" in verify(folder).certificate["files"].meaning


def test_bits_by_hand():
    """A ring of 3, two rounds, a price with a box: 16 of elasticity; 64 and 2 flags; then 10 and 2 flags."""
    network = TrainSpec(data="none", nodes=3, network="ring", switching=0).build().network
    count = LinkCount(network, 0.125, cpu=True, boxed=True, size=0, steepness=None)
    least, most = count.allowed(2)
    assert least.tolist() == [16 + 66 + 12] * 6
    assert (most - least).tolist() == [2 * 16 + 20 + 67] * 6
    assert count.total(2) == (6 * 94, 6 * (94 + 119))
    assert code_bits(0.125) == 10 and code_bits(0.0) == 64
    # A model of 2 numbers; L is largest at node 0, and its two neighbours know it after one round.
    count = LinkCount(network, 0.125, cpu=False, boxed=False, size=2, steepness=np.array([2.0, 1.0, 1.0]))
    assert count.allowed(3)[0].tolist() == count.allowed(3)[1].tolist() == [64 + 2 * (64 + 20)] * 6


def test_best_shares_by_hand():
    """Quadratics (x - c)^2 with c = 1, 5, 9 and a budget of 9: the first ends at its bound 0, the others give up 2.5."""
    from equipoise.train import Quadratic

    cost = Quadratic(2.0, np.array([1.0, 5.0, 9.0]), lo=0.0, hi=20.0)
    slope = cost.derivative(np.array([2.0, 6.0, 10.0]))
    scale = float(slope[0])  # of (x - c) = 1
    found = Prices(cost, np.zeros(3), np.full(3, 20.0), 2.0**-40, 9.0, np.full(3, 3.0))
    assert found.wanted == pytest.approx([0.0, 2.5, 6.5], abs=1e-9)
    assert found.price == pytest.approx(-2.5 * scale)
    x = np.array([1.0, 2.0, 6.0])  # costs more by its own f and no constraint: sum f(x) - sum f(best)
    assert found.gap(x) == pytest.approx(float(cost.value(x).sum() - cost.value(found.wanted).sum()))
    # Prices are 0, -3, -3 (x - c); the first could go down by 1 at most, so a common price of -2 is 1 away from all.
    spread = price_spread(x, cost.derivative(x), np.full(3, scale), np.zeros(3), np.full(3, 20.0))
    assert spread == pytest.approx(scale)


def test_a_run_of_workers_is_verified_by_its_recorded_rounds(tmp_path):
    """Their folder has no shares of every round; here every round is recorded."""
    from equipoise.engine import Workers

    with Workers(2) as crew:
        folder = TrainSpec(**SHARED).build().run(engine=crew).save(tmp_path / "run", report=False)
    document = verify(folder)
    assert document.certificate.passed, document.certificate
    assert document.result["rounds_of_shares"] == document.result["rounds"] + 1


def test_a_failed_baseline_cannot_be_left_out(tmp_path):
    """Labels that no column tells: the check fails, and fails again where result.json leaves it out."""
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = (
            f"{x:.3f},{label}\n" for x, label in zip(rng.normal(size=100), rng.choice(["no", "yes"], 100), strict=True)
        )
        (tmp_path / f"{name}.csv").write_text("x,answer\n" + "".join(rows))
    folder = saved(tmp_path / "run", files=[str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert "baseline" in failed(folder)

    def left_out(found):
        checks = found["certificate"]["checks"]
        found["certificate"]["checks"] = [check for check in checks if check["name"] != "baseline"]

    edit_result(folder, left_out)
    assert "baseline" in failed(folder)


def test_scores_that_were_edited_are_found(tmp_path):
    """The table that users read: accuracy of the worst centre, raised."""
    run = (
        TrainSpec(data="digits", nodes=4, switching=0, network="ring", samples=300, rounds=400, target=1e-3)
        .build()
        .run()
    )
    folder = run.save(tmp_path / "run", report=False)
    assert verify(folder).certificate["files"].passed
    content = json.loads((folder / "result.json").read_text())
    content["result"]["scores"][2]["accuracy"] += 0.05
    (folder / "result.json").write_text(json.dumps(content))
    assert verify(folder).certificate["files"].passed is False
