"""What the command says of files that can be read, and yet may not be what their owner thinks."""

from __future__ import annotations

import pandas as pd

from small_files import equipoise, frame, trained


def test_a_folder_says_what_of_it_is_not_read(tmp_path):
    """Another kind of file, and a folder inside."""
    (tmp_path / "files" / "old").mkdir(parents=True)
    (tmp_path / "files" / "c.xlsx").write_bytes(b"PK")
    for name in ("a", "b"):
        frame(120, ord(name)).to_csv(tmp_path / "files" / f"{name}.csv", index=False)
    _, said, _ = trained(tmp_path, "files", "--label", "answer", "--target", "0.01")
    assert "note: files: c.xlsx, old/ not read" in said


def test_classes_that_look_like_typing_mistakes_are_named(tmp_path):
    """Another case, and a class with one row; the classes stay as they are written."""
    for name in ("a", "b"):
        made = frame(120, ord(name))
        made.loc[:9, "answer"] = "Yes"
        made.loc[made.index[-12:], "answer"] = "no"
        if name == "a":
            made.loc[20, "answer"] = "noo"
        made.to_csv(tmp_path / f"{name}.csv", index=False)
    content, said, _ = trained(tmp_path, "a.csv", "b.csv", "--label", "answer", "--held-out", "0", "--target", "0.01")
    assert "'Yes', 'yes' differ in case or spaces only" in said
    assert "class 'noo' has 1 row" in said
    assert set(content["result"]["data"]["classes"]) == {"Yes", "no", "noo", "yes"}


def test_centres_with_the_same_rows_have_a_certificate(tmp_path):
    """All know the largest curvature from the start, so nobody tells it: fewer bits, and a recount that allows them."""
    made = frame(150, 1)
    made.to_csv(tmp_path / "a.csv", index=False)
    made.to_csv(tmp_path / "b.csv", index=False, quoting=1)
    content, _, run = trained(tmp_path, "a.csv", "b.csv", "--label", "answer", "--held-out", "0")
    assert {check["name"]: check["passed"] for check in content["certificate"]["checks"]}["bits"]
    assert equipoise(tmp_path, "train", "verify", run).returncode == 0


def test_the_folder_of_all_runs_and_swapped_arguments_are_refused_with_the_way_out(tmp_path):
    """The latest run by name; the order of the arguments."""
    for name in ("a", "b"):
        frame(120, ord(name)).to_csv(tmp_path / f"{name}.csv", index=False)
    _, _, run = trained(tmp_path, "a.csv", "b.csv", "--label", "answer", "--target", "0.01")
    parent = equipoise(tmp_path, "predict", "runs", "a.csv")
    assert (parent.returncode, run.name in parent.stderr) == (2, True)
    swapped = equipoise(tmp_path, "predict", "a.csv", run)
    assert (swapped.returncode, f"predict {run} a.csv" in swapped.stderr) == (2, True)
    assert len(pd.read_csv(tmp_path / "a.csv")) == 120


def test_values_that_are_written_in_two_ways_are_named(tmp_path):
    """A postcode with and without .0, a town in capitals: they stay values of their own, and the run says so."""
    for name, code, town in (("a", "10115", "Bonn"), ("b", "10115.0", "BONN")):
        made = frame(120, ord(name)).assign(code=code, town=town)
        made.loc[::3, "code"], made.loc[::2, "town"] = "50667", "Ulm"
        made.to_csv(tmp_path / f"{name}.csv", index=False)
    _, said, _ = trained(tmp_path, "a.csv", "b.csv", "--label", "answer", "--text", "code", "--target", "0.01")
    assert "column 'code': are '10115', '10115.0' the same?" in said
    assert "column 'town': are 'BONN', 'Bonn' the same?" in said
