"""Data sets by name: scikit-learn's bundled ones against scikit-learn, and what `load` refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits

from equipoise.data import LOADERS, breast_cancer, digits, load
from refusals import refused


def rows(X):
    """Rows in an order that depends on values only."""
    return X[np.lexsort(X.T)]


def test_digits_are_those_of_scikit_learn():
    """Both parts together are scikit-learn's images over 16, each once, with their labels."""
    X, y = load_digits(return_X_y=True)
    data = digits(seed=0)
    ours = np.column_stack([np.concatenate([data.X, data.X_test]), np.concatenate([data.y, data.y_test])])
    assert_array_equal(rows(ours), rows(np.column_stack([X / 16, y])))
    assert data.X.sum() + data.X_test.sum() == pytest.approx(X.sum() / 16)
    assert (data.name, data.classes, data.X.dtype, data.y.dtype) == ("digits", 10, np.float64, np.int64)


def test_breast_cancer_is_that_of_scikit_learn():
    """Undoing the standardisation by hand gives back scikit-learn's rows, each once; the class counts agree."""
    X, y = load_breast_cancer(return_X_y=True)
    data = breast_cancer(seed=0)
    assert (len(data.y) + len(data.y_test), data.X.shape[1], data.classes) == (569, 30, 2)
    assert_array_equal(np.bincount(np.concatenate([data.y, data.y_test])), np.bincount(y))
    ours = np.concatenate([data.X, data.X_test])
    # Standardising is affine: mapping each feature's range back to scikit-learn's must restore every cell.
    low, high = ours.min(axis=0), ours.max(axis=0)
    undone = X.min(axis=0) + (ours - low) / (high - low) * np.ptp(X, axis=0)
    assert_allclose(rows(undone), rows(X), rtol=1e-6, atol=1e-9)


def test_breast_cancer_is_standardised_by_the_training_part():
    """Mean 0 and deviation 1 hold for the training part exactly, for the held-out part only roughly."""
    data = breast_cancer(seed=0)
    assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    assert_allclose(data.X.std(axis=0), 1, atol=1e-12)
    assert np.abs(data.X_test.mean(axis=0)).max() > 1e-3


@pytest.mark.parametrize("loader", [digits, breast_cancer])
def test_a_fifth_of_each_class_is_held_out(loader):
    """In every class the held-out count is within one sample of 20 %."""
    data = loader(seed=5)
    train, test = np.bincount(data.y), np.bincount(data.y_test)
    assert np.all(np.abs(test - 0.2 * (train + test)) < 1)


@pytest.mark.parametrize("loader", [digits, breast_cancer])
def test_the_seed_decides_what_is_held_out(loader):
    """One seed, one held-out part; another seed, another."""
    assert_array_equal(loader(seed=1).X_test, loader(seed=1).X_test)
    assert not np.array_equal(loader(seed=1).y_test, loader(seed=2).y_test)


def test_load_finds_a_data_set_by_name_and_passes_the_seed():
    """`load` is the loader of that name, with the seed it was given."""
    assert_array_equal(load("digits", seed=3).X_test, digits(seed=3).X_test)
    assert load("breast_cancer").name == "breast_cancer"


def test_load_reads_a_table(tmp_path):
    """`csv` gets its path, label column and seed."""
    path = tmp_path / "mine.csv"
    path.write_text("kind,size\n" + "a,1\nb,2\n" * 10)
    data = load("csv", path=path, label="kind", seed=1)
    assert (data.name, data.classes, data.X.shape) == ("mine", 2, (16, 1))


@pytest.mark.parametrize(
    ("name", "options", "refusal"),
    [
        ("digit", {}, ("unknown", "'digits'", "breast_cancer, csv, digits, mnist")),
        ("mnist", {}, ("dataset.place", "--data-dir")),
        ("csv", {"label": "y"}, ("dataset.place", "--data-file")),
        ("digits", {"path": "a.csv"}, ("dataset.unused", "--data-file", "(a.csv)")),
        ("csv", {"path": "a.csv", "folder": "b"}, ("dataset.unused", "--data-dir", "(b)")),
        ("digits", {"label": "y"}, ("dataset.unused", "(y)")),
    ],
)
def test_load_refuses_what_it_cannot_use(name, options, refusal):
    """An unknown name, a missing place to read from, and an option that would be ignored silently."""
    with refused(*refusal, f"'{name}'"):
        load(name, **options)


def test_the_registry_is_complete():
    """The names a user can give, as documented."""
    assert set(LOADERS) == {"digits", "breast_cancer", "mnist", "csv"}


def test_importing_the_package_stays_light():
    """scikit-learn takes a second to import: it waits until a bundled set is asked for, and model_selection forever."""
    script = (
        "import sys, equipoise.data as d; print('sklearn' in sys.modules);"
        "d.digits(); print('sklearn' in sys.modules); d.breast_cancer();"
        "print('sklearn' in sys.modules, 'sklearn.model_selection' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "False"]
