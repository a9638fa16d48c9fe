"""Reading LCDB's accuracy table."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from equipoise.share import Workload, policies, simulate
from equipoise.share.record import read_lcdb
from refusals import refused

HEAD = "openmlid,learner,size_train,size_test,outer_seed,inner_seed,traintime,score_train,score_valid,score_test\n"

# A real slice of LCDB 0.1.0 (MIT licence, F. Mohr): iris, two outer and two inner seeds.
IRIS = """\
61,SVC_linear,16,15,0,0,0.0027,0.9375,0.9286,0.9333
61,SVC_linear,23,15,0,0,0.0019,0.9565,1.0,0.9333
61,SVC_linear,32,15,0,0,0.0023,0.9688,0.9286,0.9333
61,SVC_linear,45,15,0,0,0.0029,0.9778,0.9286,1.0
61,SVC_linear,64,15,0,0,0.0039,0.9688,0.9286,1.0
61,SVC_linear,121,15,0,0,0.0063,0.9669,1.0,0.8667
61,SVC_linear,16,15,0,1,0.0014,1.0,1.0,0.8667
61,SVC_linear,23,15,0,1,0.0018,1.0,1.0,0.8667
61,SVC_linear,32,15,0,1,0.0024,1.0,1.0,0.8667
61,SVC_linear,45,15,0,1,0.0031,0.9778,0.9286,0.8667
61,SVC_linear,64,15,0,1,0.0038,1.0,1.0,0.8667
61,SVC_linear,121,15,0,1,0.0066,0.9669,0.9286,0.9333
61,SVC_linear,16,15,1,0,0.0026,0.9375,0.8571,0.8667
61,SVC_linear,23,15,1,0,0.0021,1.0,0.9286,1.0
61,SVC_linear,32,15,1,0,0.0024,1.0,0.8571,1.0
61,SVC_linear,45,15,1,0,0.0029,0.9778,0.8571,0.9333
61,SVC_linear,64,15,1,0,0.0038,0.9531,0.8571,0.9333
61,SVC_linear,121,15,1,0,0.0063,0.9669,0.9286,1.0
61,SVC_linear,16,15,1,1,0.0015,1.0,0.8571,0.9333
61,SVC_linear,23,15,1,1,0.0019,0.9565,0.8571,0.9333
61,SVC_linear,32,15,1,1,0.0026,0.9688,0.7857,0.9333
61,SVC_linear,45,15,1,1,0.003,0.9778,0.8571,1.0
61,SVC_linear,64,15,1,1,0.0037,0.9688,0.9286,1.0
61,SVC_linear,121,15,1,1,0.0063,0.9669,1.0,1.0
"""


def table(path: Path, rows: str, head: str = HEAD) -> Path:
    path.write_text(head + rows)
    return path


def rows(learner: str, scores: dict[int, float], test: int = 50, seed: int = 0) -> str:
    return "".join(f"7,{learner},{size},{test},{seed},0,0.1,0.9,0.9,{score}\n" for size, score in scores.items())


def test_a_real_slice_becomes_the_mean_test_error_by_training_size(tmp_path: Path):
    """Iris by a linear SVM. By hand at 16: 1 - (.9333 + .8667 + .8667 + .9333) / 4 = .1; at 121: .05."""
    recording = read_lcdb(table(tmp_path / "a.csv", IRIS))
    assert [str(name) for name in recording.names] == ["SVC_linear, OpenML 61, seed mean of all"]
    assert recording.samples[0].tolist() == [16, 23, 32, 45, 64, 121]
    assert recording.errors[0, [0, -1]] == pytest.approx([0.1, 0.05])
    scores = np.array([float(line.split(",")[-1]) for line in IRIS.splitlines()]).reshape(4, 6)
    assert recording.errors[0] == pytest.approx(1 - scores.mean(axis=0))


def test_a_seed_that_lacks_a_size_does_not_count_there(tmp_path: Path):
    """Scores .6 and .8 at 16, only .9 at 100: errors .3 and .1."""
    text = rows("A", {16: 0.6, 23: 0.7, 32: 0.7, 45: 0.7, 100: 0.9}) + rows("A", {16: 0.8, 23: 0.7}, seed=1)
    recording = read_lcdb(table(tmp_path / "a.csv", text))
    assert recording.errors[0] == pytest.approx([0.3, 0.3, 0.3, 0.3, 0.1])


def test_a_perfect_score_counts_as_half_a_mistake(tmp_path: Path):
    """Two perfect runs on 50 test samples each: half of one in a hundred."""
    perfect = {16: 0.9, 23: 0.9, 32: 0.9, 45: 0.9, 64: 1.0}
    recording = read_lcdb(table(tmp_path / "a.csv", rows("A", perfect) + rows("A", perfect, seed=1)))
    assert recording.errors[0, -1] == pytest.approx(0.005)


def test_short_curves_are_left_out(tmp_path: Path):
    """Four sizes show no shape; if no curve has five, the file is refused."""
    short, long = rows("A", dict.fromkeys((16, 23, 32, 45), 0.5)), rows("B", dict.fromkeys((16, 23, 32, 45, 64), 0.5))
    assert [name.model for name in read_lcdb(table(tmp_path / "a.csv", short + long)).names] == ["B"]
    with refused("curves.none", 5):
        read_lcdb(table(tmp_path / "b.csv", short))


def test_the_unit_scales_all_curves_alike(tmp_path: Path):
    """Two training samples to one of the site: half the sizes. Sizes of less than one sample of the site are dropped."""
    path = table(tmp_path / "a.csv", IRIS)
    assert read_lcdb(path, unit=2).samples[0].tolist() == [8, 11.5, 16, 22.5, 32, 60.5]
    assert read_lcdb(path, unit=20).samples[0].tolist() == [1.15, 1.6, 2.25, 3.2, 6.05]
    with refused("unit.range", 0):
        read_lcdb(path, unit=0)


def test_a_compressed_table_is_the_same_table(tmp_path: Path):
    """The file as PyPI ships it, and packed with gzip."""
    plain, packed = table(tmp_path / "a.csv", IRIS), tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    np.testing.assert_array_equal(read_lcdb(packed).errors, read_lcdb(plain).errors)


@pytest.mark.parametrize(
    ("head", "text", "refusal"),
    [
        (HEAD.replace("score_test", "score"), IRIS, ("lcdb.column", "score_test", "database-accuracy.csv")),
        ("", "", ("lcdb.column", "openmlid, learner")),
        (HEAD, IRIS + "61,SVC_linear,16,15,2,0,.1,.1,.1,\n", ("lcdb.row", "line 26")),
        (HEAD, IRIS + "61,SVC_linear,16\n", ("lcdb.row", "line 26")),
        (HEAD, IRIS + "61,SVC_linear,16,15,2,0,.1,.1,.1,8.84\n", ("lcdb.row", "line 26", 8.84, 15, 16)),
        (HEAD, IRIS + "61,SVC_linear,16,15,2,0,.1,.1,.1,nan\n", ("lcdb.row", "line 26", "nan")),
        (HEAD, IRIS + "61,SVC_linear,0,15,2,0,.1,.1,.1,.5\n", ("lcdb.row", "line 26", 0.5, 15, 0)),
    ],
)
def test_a_table_that_is_not_lcdbs_is_refused_in_one_line(
    tmp_path: Path, head: str, text: str, refusal: tuple[object, ...]
):
    """The message names the file, the line, and which of LCDB's files is wanted (a log-loss table is not)."""
    path = table(tmp_path / "a.csv", text, head)
    with refused(*refusal, path):
        read_lcdb(path)


@pytest.mark.parametrize(("name", "content"), [("a.csv.gz", b"plain"), ("a.csv", b"\xff\xfe\x00"), ("none.csv", None)])
def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes | None):
    """Not packed though it says so, not text, not there."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with refused("file.read", path):
        read_lcdb(path)


def test_tasks_can_be_drawn_from_it(tmp_path: Path):
    """Two learners: one gives the prior, the other is replayed, and the site runs them."""
    sizes = {16: 0.5, 64: 0.7, 256: 0.8, 512: 0.85, 700: 0.9}
    recording = read_lcdb(table(tmp_path / "a.csv", rows("A", sizes) + rows("B", {n: s / 2 for n, s in sizes.items()})))
    workload = Workload.recorded(recording)
    assert workload.curves is not None and len(workload.curves) == 1
    assert simulate(policies.SRTF(), workload, load=5, seeds=3).successes.sum() > 0
