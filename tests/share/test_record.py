"""Recording real learning curves: scikit-learn models trained sample by sample."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.naive_bayes import MultinomialNB

from equipoise.cli.share import record as run_record
from equipoise.data import Dataset
from equipoise.share.record import DATA, GRID, MINI_BATCH, MODELS, REPEATS, prepare, record
from equipoise.share.recording import Name, Recording, recording_numbers, shipped
from refusals import refused


@pytest.mark.parametrize(
    ("model", "data"), [("perceptron", "digits-look-alike"), ("naive-bayes-gaussian", "breast-cancer-wrong-labels")]
)
def test_the_shipped_curves_come_out_again(model: str, data: str):
    """Two settings each, trained anew: the errors in the shipped file, exactly."""
    again, kept = record([model], [data], repeats=1), shipped()
    assert len(again) == 2
    for name, errors in zip(again.names, again.errors, strict=True):
        np.testing.assert_array_equal(errors, kept.errors[kept.names.index(name)])


def test_nothing_recorded_was_left_out():
    """The shipped file holds every model, setting, data set and seed of the plan: no curve was chosen for its looks."""
    settings = sum(len(model.settings) for model in MODELS.values())
    names = shipped().names
    assert len(names) == len(set(names)) == settings * len(DATA) * REPEATS
    assert {name.data for name in names} == set(DATA) and {name.model for name in names} == set(MODELS)


def test_an_error_is_that_of_a_model_trained_on_the_samples_seen():
    """Naive Bayes needs no order: trained from nothing on the first n samples, scikit-learn scores what was recorded."""
    recording = record(["naive-bayes-multinomial"], ["digits-blurred"], repeats=1)
    data, stream = what_it_saw(recording.names[0])
    for place in (15, 30, 45):
        rows = stream[: GRID[place] * MINI_BATCH]
        model = MultinomialNB(alpha=1.0).fit(data.X[rows], data.y[rows])
        right = accuracy_score(data.y_test, model.predict(data.X_test), normalize=False)
        held = len(data.y_test)
        assert recording.errors[0, place] == pytest.approx((held - right + 0.5) / (held + 1), abs=1e-12)


def what_it_saw(name: Name) -> tuple[Dataset, NDArray[np.int64]]:
    """The material and the order of samples that belong to a name."""
    rng = np.random.default_rng([int(name.seed), zlib.crc32(str(name[:3]).encode())])
    data = prepare(DATA[name.data], rng)
    rng.integers(2**31)
    return data, np.concatenate([rng.permutation(len(data.y)) for _ in range(30)])


@pytest.mark.parametrize("material", DATA)
def test_half_of_every_class_is_held_out_and_features_are_in_the_unit_box(material: str):
    """Counts of each class differ by what rounding does; labels are 0 to classes - 1; no feature leaves [0, 1]."""
    data = prepare(DATA[material], np.random.default_rng(1))
    assert abs(len(data.y) - len(data.y_test)) <= 1
    assert set(data.y) == set(data.y_test) == set(range(data.classes))
    if not DATA[material].wrong_labels:
        counts = np.bincount(data.y) - np.bincount(data.y_test)
        assert np.abs(counts).max() <= 2
    for X in (data.X, data.X_test):
        assert X.min() >= 0 and X.max() <= 1


def test_no_sample_is_both_taught_and_held_out():
    """Breast cancer has no two equal rows: the two parts share none, and together they are all 569."""
    data = prepare(DATA["breast-cancer"], np.random.default_rng(1))
    taught, held = ({tuple(row) for row in X} for X in (data.X, data.X_test))
    assert taught.isdisjoint(held) and len(taught) + len(held) == 569


def test_wrong_labels_are_taught_but_not_held_out():
    """The same draw with and without wrong labels: a fifth of the taught ones differ, of the held-out ones none."""
    wrong, right = (prepare(DATA[name], np.random.default_rng(2)) for name in ("digits-wrong-labels", "digits"))
    assert np.mean(wrong.y != right.y) == pytest.approx(0.2, abs=0.04)
    np.testing.assert_array_equal(wrong.y_test, right.y_test)
    np.testing.assert_array_equal(wrong.X, right.X)


def test_a_perfect_score_has_a_logarithm():
    """No wrong answer of 285 counts as half a one of 286; all wrong as 285.5."""
    data = prepare(DATA["breast-cancer"], np.random.default_rng(1))

    class Knowing:
        def __init__(self, flip: int) -> None:
            self.flip = flip

        def predict(self, X: object) -> object:
            return data.y_test ^ self.flip

    held = len(data.y_test)
    assert data.error_of(Knowing(0).predict(data.X_test)) == 0.5 / (held + 1)
    assert data.error_of(Knowing(1).predict(data.X_test)) == (held + 0.5) / (held + 1)


def test_a_curve_depends_on_its_name_only():
    """Alone, among others, or as a later repeat: the same curve. Another seed: another curve."""
    alone = record(["perceptron"], ["breast-cancer"], repeats=1, seed=1)
    among = record(["perceptron"], ["breast-cancer-blurred", "breast-cancer"], repeats=2)
    for name, errors in zip(alone.names, alone.errors, strict=True):
        np.testing.assert_array_equal(errors, among.errors[among.names.index(name)])
        assert (errors != among.errors[among.names.index(name._replace(seed="0"))]).any()


def test_progress_is_told_after_every_curve():
    """One setting on two data sets with two seeds: four calls, counting up, each with the curve's name."""
    told: list[tuple[int, int, Name]] = []
    recording = record(
        ["naive-bayes-multinomial"], ["breast-cancer", "breast-cancer-blurred"], 2, lambda *now: told.append(now)
    )
    assert told == [(k + 1, 4, name) for k, name in enumerate(recording.names)]


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        ({"models": ["percepton"]}, ("unknown", "'perceptron'")),
        ({"data": ["digit"]}, ("unknown", "'digits'")),
        ({"models": []}, ("record.none", "sgd")),
        ({"repeats": 0}, ("repeats.range", 0)),
        ({"seed": -1}, ("seed.range", -1)),
    ],
)
def test_what_cannot_be_recorded_is_refused(wanted: dict[str, object], refusal: tuple[object, ...]):
    """Before anything is trained, with the way out."""
    with refused(*refusal):
        record(**wanted)  # type: ignore[arg-type]


def test_the_command_writes_the_file_and_says_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The file reads back as recorded; the table has the count and the median R^2 of numpy's corrcoef."""
    out = tmp_path / "mine.csv.gz"
    run_record(out, 1, "naive-bayes-gaussian", "breast-cancer", 0, False)
    recording = Recording.load(out)
    fits = [
        np.corrcoef(np.log(s), np.log(e))[0, 1] ** 2 for s, e in zip(recording.samples, recording.errors, strict=True)
    ]
    assert recording_numbers(recording)["median R² of a power law"] == f"{np.median(fits):.2f}"
    shown = capsys.readouterr().out
    assert "2, 2 kinds" in shown and f"{np.median(fits):.2f}" in shown


def test_the_command_can_be_silent_and_does_not_train_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Quiet prints nothing; a place that cannot be written is refused before training."""
    run_record(tmp_path / "mine.csv.gz", 1, "naive-bayes-multinomial", "breast-cancer", 0, True)
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""
    for out in (tmp_path, tmp_path / "no" / "a.csv.gz"):
        with refused("file.folder", out):
            run_record(out, 1, None, None, 0, True)
