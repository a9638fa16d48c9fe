"""Data of scikit-learn, of pandas and of ours goes straight to shards."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_iris, make_regression

from equipoise.data import breast_cancer, shards, split
from equipoise.train import Softmax
from refusals import refused


def pooled(parts):
    """Every row with its answer, as a sorted list: what is dealt out must be what was given."""
    return sorted((*x, t) for X, y in parts for x, t in zip(X.tolist(), y.tolist(), strict=True))


@pytest.mark.parametrize("how", ["even", "label", "dirichlet"])
def test_a_bunch_arrays_and_frames_of_scikit_learn_are_the_same_data(how):
    """Iris in four dresses: the same shards, no row lost, and those of `split` on the raw arrays."""
    X, y = load_iris(return_X_y=True)
    dresses = [load_iris(), (X, y), load_iris(as_frame=True), load_iris(return_X_y=True, as_frame=True)]
    truth = split(X, y, 6, how, 0.5, seed=3)
    for dress in dresses:
        parts = shards(dress, 6, how, concentration=0.5, seed=3)
        assert all(np.array_equal(a, b) and np.array_equal(s, t) for (a, s), (b, t) in zip(parts, truth, strict=True))
    assert pooled(truth) == pooled([(X, y)])
    assert Softmax(parts).nodes == 6


def test_a_frame_names_its_centres():
    """Rows go to the centre that their column says, in sorted order; the others are features."""
    frame = pd.DataFrame({"age": [30, 40, 50], "hospital": ["Rome", "Oslo", "Rome"], "ill": ["yes", "no", "no"]})
    (oslo, rome) = shards(frame, label="ill", by="hospital")
    assert (oslo[0].tolist(), oslo[1].tolist()) == ([[40.0]], [0])
    assert (rome[0].tolist(), rome[1].tolist()) == ([[30.0], [50.0]], [1, 0])


def test_labels_signs_and_standard_features():
    """Text becomes classes in sorted order, two classes signs; features get mean 0 and deviation 1 over all centres."""
    frame = load_breast_cancer(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "malignant", 1: "benign"})
    parts = shards(frame, 4, label="target", standardise=True, signs=True)
    X, y = np.concatenate([x for x, _ in parts]), np.concatenate([t for _, t in parts])
    assert X.mean(axis=0) == pytest.approx(np.zeros(30), abs=1e-12) and X.std(axis=0) == pytest.approx(np.ones(30))
    assert int((y == 1).sum()) == 212 and int((y == -1).sum()) == 357  # malignant is later in the alphabet


def test_targets_that_are_floats_stay_numbers():
    """A regression of scikit-learn's: the targets themselves, dense or sparse."""
    X, y = make_regression(40, 3, random_state=0)
    for features in (X, csr_array(X)):
        assert pooled(shards((features, y), 4)) == pooled([(X, y)])


def test_a_data_set_of_ours_gives_its_training_part():
    """The loader's own split between training and test is kept."""
    data = breast_cancer()
    assert sum(len(y) for _, y in shards(data)) == len(data.y) and len(shards(data)) == 20


FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "site": ["s", None]})


@pytest.mark.parametrize(
    ("given", "options", "refusal"),
    [
        (FRAME, {}, ("shards.label",)),
        (FRAME, {"label": "z"}, ("frame.column", "'z'")),
        (FRAME, {"label": "b", "by": "b"}, ("shards.by", "'b'")),
        (FRAME, {"label": "b", "by": "site"}, ("shards.empty", "'site'")),
        (FRAME, {"label": "a"}, ("shards.numbers", "'x'")),
        (FRAME.drop(columns="site"), {"label": "b", "by": "a", "centres": 3}, ("shards.centres", 2)),
        (load_iris(), {"signs": True}, ("shards.classes", "signs=True")),
        (load_iris(), {"label": "b"}, ("shards.columns",)),
        (load_iris(), {"how": "odd"}, ("unknown", "'odd'")),
        (3, {}, ("shards.type", "int")),
        (([[1.0], [2.0]], [1]), {"centres": 1}, ("split.rows", 2, 1)),
        (([[1.0], [np.nan]], [1, 2]), {"centres": 1}, ("shards.finite",)),
    ],
)
def test_what_cannot_be_shards_is_refused(given, options, refusal):
    """One line that names the value and the way out."""
    with refused(*refusal):
        shards(given, **options)
