"""`equipoise train` on files of the user's own, as she meets it: by exit code, report and files."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

from equipoise.data.own_files import OwnFiles
from equipoise.data.problems import Problems
from equipoise.train import Network, Problem, Softmax, TrainSpec, solve
from refusals import refused
from small_files import equipoise, frame, trained


def check(content, name):
    (found,) = [check for check in content["certificate"]["checks"] if check["name"] == name]
    return found


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """A folder with five files of different sizes, one of them with one class, and the run on them."""
    folder = tmp_path_factory.mktemp("five")
    for number in range(5):
        one = frame(60 + 30 * number, number)
        (one[one["answer"] == "no"] if number == 3 else one).to_csv(folder / f"c{number}.csv", index=False)
    return folder, *trained(folder, *[f"c{number}.csv" for number in range(5)], "--label", "answer")


# what was wrong in version 0.1.0


def clinics(folder):
    """Two files whose classes and scales differ: a has b and c, b has a and c; rows of three classes to predict."""
    rng = np.random.default_rng(0)
    middles = {"a": (100.0, 0.0), "b": (0.0, 30.0), "c": (120.0, 40.0)}

    def rows(names):
        points = np.array([middles[name] for name in names]) + rng.normal(scale=4.0, size=(len(names), 2))
        return pd.DataFrame({"p": points[:, 0], "q": points[:, 1], "class": [*names]})

    files = [rows("b" * 60 + "c" * 40), rows("a" * 50 + "c" * 80)]
    for name, one in zip(("a.csv", "b.csv"), files, strict=True):
        one.to_csv(folder / name, index=False)
    new = rows("abc" * 40)
    new.drop(columns="class").to_csv(folder / "new.csv", index=False)
    return files, new


def test_labels_and_scales_file_by_file_were_wrong_with_a_passed_certificate(tmp_path):
    """As the tutorial of version 0.1.0 read a file, each by itself: three classes become two, a certificate passes, and
    most answers are wrong. The command on the same files is right."""
    files, new = clinics(tmp_path)
    shards = []
    for one in files:
        raw, (names, answers) = one[["p", "q"]].to_numpy(), np.unique(one["class"], return_inverse=True)
        shards.append(((raw - raw.mean(axis=0)) / raw.std(axis=0), answers))
    run = solve(Problem(model=Softmax(shards, reg=1e-2)), Network.path(2), target=1e-4)
    assert run.certificate().passed
    raw = files[0][["p", "q"]].to_numpy()
    names = np.unique(files[0]["class"])
    W = run.models[0].reshape(3, -1)
    said = names[(((new[["p", "q"]] - raw.mean(axis=0)) / raw.std(axis=0)).to_numpy() @ W[:-1] + W[-1]).argmax(axis=1)]
    assert balanced_accuracy_score(new["class"], said) < 0.7

    content, _, made = trained(tmp_path, "a.csv", "b.csv", "--label", "class")
    assert content["certificate"]["passed"]
    assert content["result"]["data"]["classes"].keys() == {"a", "b", "c"}
    equipoise(tmp_path, "predict", made, "new.csv", "--out", "said.csv")
    assert balanced_accuracy_score(new["class"], pd.read_csv(tmp_path / "said.csv")["class"]) > 0.95


# a run on five files


def test_five_files_are_five_centres(five):
    """Exit 0, a passed certificate, and a run folder with the schema and what left each centre."""
    _, content, _, made = five
    assert content["certificate"]["passed"]
    assert content["config"]["nodes"] == 5
    assert [row["file"] for row in content["result"]["left"]] == [f"c{k}.csv" for k in range(5)]
    assert {"schema.json", "left.json", "report.html", "config.yaml"} <= {file.name for file in made.iterdir()}


def test_a_fifth_of_each_file_is_held_out(five):
    """By file, 20 % of its rows, to the nearest row; the rest is trained on."""
    folder, content, *_ = five
    for row in content["result"]["left"]:
        rows = len(pd.read_csv(folder / row["file"]))
        assert row["held_out"] == round(0.2 * rows)
        assert row["trained_on"] == rows - row["held_out"]


def test_scores_stand_beside_the_majority(five):
    """The best, the median and the worst centre, a central solver and the constant answer, with recalls and AUC."""
    _, content, *_ = five
    rows = content["result"]["scores"]
    assert [row["model"] for row in rows][-2:] == ["centralised", "always no"]
    assert rows[-1]["balanced_accuracy"] == 0.5
    assert {"accuracy", "balanced_accuracy", "auc", "recall of no", "recall of yes"} <= rows[0].keys()
    assert check(content, "baseline")["value"] == pytest.approx(1 - rows[2]["balanced_accuracy"])


def test_the_terminal_tells_what_runs_where_and_what_left(five):
    """A simulation that reads all files, a table of what left each centre, and the majority beside the models."""
    folder, *_ = five
    done = equipoise(folder, "train", ".", "--label", "answer")
    assert done.returncode == 0
    assert done.stdout.startswith("Simulation: ")
    for words in ("What left each centre", "How useful the models are", "always no", "balanced accuracy"):
        assert words in " ".join(done.stdout.split())


def test_a_folder_is_all_files_in_it(five):
    """The same run, bit for bit, as with its files by name."""
    folder, content, _, made = five
    again, _, other = trained(folder, ".", "--label", "answer")
    assert again["result"]["data"]["digests"] == content["result"]["data"]["digests"]
    assert same_arrays(made, other)


def same_arrays(one, other):
    with np.load(one / "arrays.npz") as mine, np.load(other / "arrays.npz") as theirs:
        assert set(mine) == set(theirs)
        return all(mine[name].tobytes() == theirs[name].tobytes() for name in mine if name != "seconds")


def test_config_repeats_the_run_bit_for_bit(five):
    """From another folder too; schema, words and models are the same bytes."""
    folder, _, _, made = five
    (folder / "elsewhere").mkdir()
    _, _, other = trained(folder / "elsewhere", "--config", made / "config.yaml")
    assert same_arrays(made, other)
    for name in ("schema.json", "left.json", "config.yaml", "history.csv"):
        assert (made / name).read_bytes() == (other / name).read_bytes(), name


def test_verify_passes_and_notices_another_schema(five, tmp_path):
    """From the files alone; classes exchanged in schema.json, which predict reads, are found out."""
    folder, _, _, made = five
    done = equipoise(folder, "train", "verify", made, "--json")
    assert done.returncode == 0, done.stdout
    assert {"schema", "baseline"} <= {one["name"] for one in json.loads(done.stdout)["certificate"]["checks"]}
    schema = (made / "schema.json").read_text()
    try:
        (made / "schema.json").write_text(
            schema.replace('"no"', '"?"').replace('"yes"', '"no"').replace('"?"', '"yes"')
        )
        assert equipoise(folder, "train", "verify", made).returncode != 0
    finally:
        (made / "schema.json").write_text(schema)


def test_verify_refuses_data_that_have_changed(tmp_path):
    """A label of one row is another now: no certificate can be made anew, and the file is named."""
    for number in range(2):
        frame(60, number).to_csv(tmp_path / f"{number}.csv", index=False)
    _, _, made = trained(tmp_path, "0.csv", "1.csv")
    changed = (tmp_path / "1.csv").read_text().replace(",no\n", ",yes\n", 1)
    (tmp_path / "1.csv").write_text(changed)
    done = equipoise(tmp_path, "train", "verify", made)
    assert done.returncode != 0
    assert "1.csv" in done.stderr


@pytest.mark.parametrize("part", [-0.1, 1, 1.5, "nan"])
def test_parts_to_hold_out_are_from_0_to_below_1(tmp_path, part):
    """Anything else is refused by its value, before a file is read."""
    done = equipoise(tmp_path, "train", "0.csv", "1.csv", "--held-out", part)
    assert done.returncode == 2
    assert str(part) in done.stderr
    assert "--held-out" in done.stderr


def test_fewer_rows_than_centres_are_refused_by_file(tmp_path):
    """Five rows, of which one is held out, and 20 nodes unless told otherwise: the file, its rows and the option."""
    frame(5, 1).to_csv(tmp_path / "five.csv", index=False)
    done = equipoise(tmp_path, "train", "five.csv")
    assert done.returncode == 2
    for words in ("five.csv: 4 rows", "20 nodes", "--nodes 4"):
        assert words in done.stderr
    with refused("split.nodes", "five.csv", "--nodes 4"):
        OwnFiles.read([tmp_path / "five.csv"]).dealt_to(5, "even", 1.0, 0)


def test_small_files_are_warned_of(tmp_path):
    """The sums of a file with four rows to train on nearly tell what stands in them."""
    frame(60, 0).to_csv(tmp_path / "large.csv", index=False)
    frame(5, 1).to_csv(tmp_path / "small.csv", index=False)
    done = equipoise(tmp_path, "train", "large.csv", "small.csv", "--rounds", 20)
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert any("small.csv" in line for line in warnings)
    assert not any("large.csv" in line for line in warnings)


@pytest.mark.parametrize("centres", [1, 2])
def test_one_file_is_dealt_to_centres(tmp_path, centres):
    """--nodes says to how many; every row is trained on or held out once, and no value is hidden from its own file."""
    frame(90, 1).to_csv(tmp_path / "one.csv", index=False)
    content, *_ = trained(tmp_path, "one.csv", "--nodes", centres, "--network", "path", "--switching", 0)
    left = content["result"]["left"]
    assert len(left) == centres
    assert sum(row["trained_on"] for row in left) == 72
    assert sum(row["held_out"] for row in left) == 18
    assert content["result"]["data"]["min_count"] == 1
    assert len(content["result"]["scores"]) == 5


# options


def test_numbers_only_names_nothing(tmp_path):
    """No column, no class and no value by name in what centres say; text is refused, in every file at once."""
    for number in range(2):
        one = frame(60, number)
        one.assign(answer=(one["answer"] == "yes") + 0).to_csv(tmp_path / f"{number}.csv", index=False)
    refused = equipoise(tmp_path, "train", "0.csv", "1.csv", "--numbers-only")
    assert refused.returncode == 2
    assert [line.count("'colour'") for line in refused.stderr.splitlines()] == [1, 1]
    _, _, made = trained(tmp_path, "0.csv", "1.csv", "--numbers-only", "--drop", "colour")
    words = (made / "left.json").read_text()
    assert not re.search(r'"(x|z|colour|answer|yes|no|red)"', words)
    assert '"x"' in (made / "schema.json").read_text()


def test_numbers_only_names_columns_of_other_files_in_its_refusals(tmp_path):
    """This process reads all files: a column that one lacks is told by its name, not by a fingerprint."""
    (tmp_path / "a.csv").write_text("x,z,y\n1,2,0\n2,3,1\n")
    (tmp_path / "b.csv").write_text("x,z,y\n1,4,0\n2,5,1\n")
    (tmp_path / "c.csv").write_text("x,y\n1,0\n2,1\n")
    done = equipoise(tmp_path, "train", "a.csv", "b.csv", "c.csv", "--numbers-only")
    assert done.returncode == 2
    assert "'z'" in done.stderr


def test_min_count_says_which_values_are_named(tmp_path):
    """blue has fewer than ten rows in each file: with the default it is one of the others, with 1 it is named."""
    for number in range(2):
        frame(60, number).to_csv(tmp_path / f"{number}.csv", index=False)
    found = {}
    for least in (None, 1):
        option = [] if least is None else ["--min-count", least]
        _, _, made = trained(tmp_path, "0.csv", "1.csv", *option)
        (colour,) = json.loads((made / "schema.json").read_text())["texts"]
        found[least] = {*colour["counts"]}, colour["other"] > 0
        assert ("blue" in (made / "left.json").read_text()) == (least == 1)
    assert found == {None: ({"green", "red"}, True), 1: ({"blue", "green", "red"}, False)}


def test_ids_are_warned_of_and_dropped(tmp_path):
    """A column whose values are all different: a warning that names --drop, which takes it out."""
    for number in range(2):
        one = frame(60, number)
        one.insert(0, "id", np.arange(60) + 60 * number)
        one.to_csv(tmp_path / f"{number}.csv", index=False)
    _, said, _ = trained(tmp_path, "0.csv", "1.csv")
    assert "--drop id" in said
    _, said, made = trained(tmp_path, "0.csv", "1.csv", "--drop", "id")
    assert "--drop id" not in said
    assert "id" not in [column["name"] for column in json.loads((made / "schema.json").read_text())["numbers"]]


def test_balanced_weights_find_rare_positives(tmp_path):
    """5 % positives: --class-weight balanced has the better balanced accuracy at the worst centre."""
    for number in range(3):
        frame(400, number, rare=0.05).to_csv(tmp_path / f"{number}.csv", index=False)
    found = []
    for option in ([], ["--class-weight", "balanced"]):
        content, *_ = trained(tmp_path, ".", "--label", "answer", *option)
        found.append(content["result"]["scores"][2]["balanced_accuracy"])
    assert found[1] > found[0] + 0.05


def test_a_number_to_predict(tmp_path):
    """Regression: R2 beside the mean; scikit-learn's least squares on the pooled rows has nearly the same coefficients."""
    from sklearn.linear_model import Ridge

    rng, files = np.random.default_rng(0), []
    for number in range(3):
        x = rng.normal(3, 5, size=(80, 2))
        files.append(pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": 2 * x[:, 0] - x[:, 1] + rng.normal(size=80)}))
        files[-1].to_csv(tmp_path / f"{number}.csv", index=False)
    content, _, made = trained(tmp_path, ".", "--label", "y", "--held-out", 0, "--reg", "1e-6", "--target", "1e-8")
    assert content["result"]["model"]["kind"] == "LeastSquares"
    assert content["result"]["data"]["classes"] == {}
    import equipoise as package

    pipeline, pooled = package.load(made).to_sklearn(), pd.concat(files)
    central = Ridge(alpha=1e-6).fit(pooled[["x", "z"]], pooled["y"]).predict(pooled[["x", "z"]])
    np.testing.assert_allclose(pipeline.predict(pooled), central, atol=0.02)
    content, *_ = trained(tmp_path, ".", "--label", "y")
    scores = content["result"]["scores"]
    assert scores[0]["r2"] > 0.9
    assert abs(scores[-1]["r2"]) < 0.1
    assert check(content, "baseline")["passed"]


# how files are written


def test_one_is_one_whether_a_number_or_text(tmp_path):
    """Labels 0 and 1 as numbers in a CSV, quoted in another, as strings in parquet, as floats in a fourth: two classes."""
    files = [frame(60, number).assign(answer=lambda one: (one["answer"] == "yes").astype(int)) for number in range(4)]
    files[0].to_csv(tmp_path / "a.csv", index=False)
    files[1].assign(answer=files[1]["answer"].map('"{}"'.format)).to_csv(tmp_path / "b.csv", index=False, quoting=3)
    files[2].assign(answer=files[2]["answer"].astype(str)).to_parquet(tmp_path / "c.parquet")
    files[3].assign(answer=files[3]["answer"].astype(float)).to_csv(tmp_path / "d.csv", index=False)
    content, *_ = trained(tmp_path, ".", "--label", "answer")
    pooled = sum(len(one) for one in files)
    assert content["result"]["data"]["classes"].keys() == {"0", "1"}
    assert sum(row["trained_on"] + row["held_out"] for row in content["result"]["left"]) == pooled


def test_other_ways_to_write_are_read_with_a_note(tmp_path):
    """A byte-order mark, semicolons, decimal commas: the same run as from a plain file, and a note for each."""
    plain, odd = tmp_path / "plain", tmp_path / "odd"
    for folder in (plain, odd):
        folder.mkdir()
        frame(60, 0).to_csv(folder / "a.csv", index=False)
    frame(60, 1).to_csv(plain / "b.csv", index=False)
    frame(60, 1).to_csv(odd / "b.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    _, said, made = trained(plain, "a.csv", "b.csv")
    _, noted, other = trained(odd, "a.csv", "b.csv")
    assert (made / "schema.json").read_bytes() == (other / "schema.json").read_bytes()
    assert same_arrays(made, other)
    notes = [line for line in noted.splitlines() if line.startswith("note: b.csv")]
    for words in ("byte-order mark", "separated by ;", "decimal commas"):
        assert any(words in line for line in notes), words
    assert "note: b.csv" not in said


# bad input

GOOD = "x,c,y\n1,a,no\n2,b,yes\n3,a,no\n4,b,yes\n"
OTHER = "x,c,y\n5,a,no\n6,b,yes\n7,a,no\n8,b,no\n"
THIRD = "x,c,y\n5,a,no\n6,b,yes\n7,a,no\n9,b,no\n"
BAD = {
    "duplicate headers": ("x,c,c,y\n1,a,2,no\n3,b,4,yes\n", 1, "table.names"),
    "another column": ("x,d,y\n1,a,no\n2,b,yes\n", 1, "table.columns"),
    "no label": ("x,c\n1,a\n2,b\n", 1, "table.column"),
    "text where others have numbers": ("x,c,y\nold,a,no\nnew,b,yes\n", 2, "table.kinds"),
    "not UTF-8": (b"x,c,y\n1,a,no\n2,\xff,yes\n", 3, "file.read"),
    "empty": ("", None, "table.empty"),
    "no rows": ("x,c,y\n", 1, "table.rows"),
    "the same file again": (GOOD, 1, "table.twice"),
    "dates": ("x,c,y\n2024-01-31,a,no\n2024-02-01,b,yes\n", 2, "table.dates"),
    "row too long": ("x,c,y\n1,a,no\n2,b,yes,4\n", 3, "table.width"),
    "no value of the label": ("x,c,y\n1,a,no\n2,b,\n", 3, "table.label"),
}


def write(folder, files):
    """Files by name; their names."""
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [*files]


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_file_and_line(tmp_path, case):
    """Exit 2, one line with file and line, its code, and nothing written."""
    content, line, code = BAD[case]
    names = write(tmp_path, {"a.csv": GOOD, "b.csv": OTHER, "c.csv": THIRD, "bad.csv": content})
    done = equipoise(tmp_path, "train", *names, "--label", "y")
    assert done.returncode == 2
    assert done.stdout == ""
    at = f"bad.csv:{line}: " if line else "bad.csv: "
    lines = done.stderr.splitlines()
    assert lines and all(one.startswith("error: ") and at in one for one in lines), done.stderr
    with pytest.raises(Problems) as caught:
        TrainSpec(files=[str(tmp_path / name) for name in names], label="y").build()
    assert caught.value.code == code
    assert not (tmp_path / "runs").exists()
    assert len([*tmp_path.iterdir()]) == len(names)


def test_all_problems_of_all_files_are_in_one_report(tmp_path):
    """Eleven bad files and three good ones: each bad one is named, no good one is."""
    names = write(tmp_path, {"a.csv": GOOD, "b.csv": OTHER, "c.csv": THIRD})
    names += write(tmp_path, {f"{case.replace(' ', '-')}.csv": content for case, (content, *_) in BAD.items()})
    done = equipoise(tmp_path, "train", *names, "--label", "y")
    assert done.returncode == 2
    for case, (_, line, _) in BAD.items():
        assert f"{case.replace(' ', '-')}.csv:{'' if line is None else line}" in done.stderr, case
    for name in ("a.csv", "b.csv", "c.csv"):
        assert not re.search(rf"^error: \S*/{name}:", done.stderr, re.MULTILINE)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_name_lists_the_columns_of_all_files(tmp_path):
    """--drop of a column that only looks like one of the second file: its columns are in the list."""
    names = write(tmp_path, {"a.csv": "x,y\n1,no\n2,yes\n", "b.csv": "x,extra,y\n1,2,no\n2,3,yes\n"})
    done = equipoise(tmp_path, "train", *names, "--drop", "Extras")
    assert done.returncode == 2
    for words in ("--drop Extras", "2 files", "x, y, extra", "did you mean 'extra'?"):
        assert words in done.stderr


def test_a_label_with_one_value_in_all_files_is_refused(tmp_path):
    """In one file it is welcome, in all of them nothing can be learnt."""
    names = write(tmp_path, {"a.csv": GOOD.replace("yes", "no"), "b.csv": OTHER.replace("yes", "no")})
    done = equipoise(tmp_path, "train", *names, "--label", "y")
    assert done.returncode == 2
    assert "a.csv:2: " in done.stderr
    assert "'no'" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("scale", ["e300", "e-200", "e307"])
def test_numbers_of_any_size_train(tmp_path, scale):
    """Squares beyond all floats, or below: the columns are scaled as any others, and nothing is warned of."""
    rng = np.random.default_rng(0)
    for name in ("a.csv", "b.csv"):
        values = rng.choice([-7.5, 1.25, 3.5], 40)
        rows = [f"{value}{scale},{int(value > 0)}" for value in values]
        (tmp_path / name).write_text("\n".join(["x,y", *rows]) + "\n")
    content, said, _ = trained(tmp_path, "a.csv", "b.csv")
    assert "warning" not in said
    assert content["result"]["scores"][2]["accuracy"] == 1.0
    assert check(content, "schema")["passed"]
