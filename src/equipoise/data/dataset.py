"""What every loader returns: samples to train on and samples held out; and the data sets that scikit-learn brings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.split import Floats, Targets, hold_out, stratified
from equipoise.errors import InputError

BRIGHTEST = 16  # pixel values of digits run from 0 to 16


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training part and a held-out part (which may be empty); classes is 0 for regression.

    X is float64 [samples, features]; y holds int64 labels 0..classes-1, or float64 targets.
    """

    name: str
    X: Floats
    y: Targets
    X_test: Floats
    y_test: Targets
    classes: int

    def __repr__(self) -> str:
        kind = f"{self.classes} classes" if self.classes else "regression"
        size = f"{len(self.y)} samples of {self.X.shape[1]} features"
        return f"<Dataset {self.name}: {size}, {len(self.y_test)} held out, {kind}>"

    def __post_init__(self) -> None:
        for part, X, y in (("training", self.X, self.y), ("held-out", self.X_test, self.y_test)):
            where = f"data set {self.name!r}, {part} part"
            if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
                raise InputError(
                    f"{where}: X is {X.shape} and y is {y.shape}; give X [N, features] and y [N]", code="dataset.shape"
                )
            if X.shape[1] != self.X.shape[1]:
                raise InputError(
                    f"{where}: {X.shape[1]} features, but {self.X.shape[1]} in the training part",
                    code="dataset.features",
                )
            kind = np.int64 if self.classes else np.float64
            if X.dtype != np.float64 or y.dtype != kind:
                raise InputError(
                    f"{where}: X is {X.dtype} and y is {y.dtype}; with classes={self.classes}"
                    f" give X as float64 and y as {kind.__name__}",
                    code="dataset.type",
                )
            if self.classes and len(y) and not (y.min() >= 0 and y.max() < self.classes):
                raise InputError(
                    f"{where}: labels run from {y.min()} to {y.max()}; with classes={self.classes}"
                    f" give labels 0 to {self.classes - 1}",
                    code="dataset.labels",
                )

    def error_of(self, said: NDArray[np.generic]) -> float:
        """Of answers for the held-out part, (wrong + 1/2) / (held out + 1): a perfect score, too, has a logarithm."""
        return (int((said != self.y_test).sum()) + 0.5) / (len(self.y_test) + 1)

    def limited(self, samples: int, seed: int) -> Dataset:
        """At most this many training samples, classes in proportion, for quick runs; the held-out part stays whole."""
        if samples < 1:
            raise InputError(f"cannot limit {self.name!r} to {samples} samples; give 1 or more", code="dataset.limit")
        if samples >= len(self.y):
            return self
        rows = stratified(self.y, samples, seed)
        return replace(self, X=self.X[rows], y=self.y[rows])


def standardised(X: Floats, X_test: Floats) -> tuple[Floats, Floats]:
    """Both parts shifted and scaled so that each training feature has mean 0 and deviation 1 (0 if it is constant)."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    # Rounding can leave a constant feature with a tiny deviation; dividing by that would blow up the held-out part.
    varies = (np.ptp(X, axis=0) > 0) & (deviation > 0)
    scale = np.where(varies, deviation, 1.0)
    mean = np.where(varies, mean, X[0])
    return (X - mean) / scale, (X_test - mean) / scale


def _table_of_digits() -> Floats:
    """64 pixels and the digit of each row: scikit-learn's own file, without loading scikit-learn for most of a second."""
    folder = Path(find_spec("sklearn").submodule_search_locations[0])  # type: ignore[union-attr, index]
    file = folder / "datasets" / "data" / "digits.csv.gz"
    if file.exists():
        return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits  # it may have moved its file

    return np.column_stack(load_digits(return_X_y=True))


def digits(seed: int = 0) -> Dataset:
    """1,797 handwritten digits: ten classes, 8 x 8 pixels in [0, 1]; a fifth of each class is held out."""
    table = _table_of_digits()
    X, y = table[:, :-1] / BRIGHTEST, table[:, -1].astype(np.int64)
    train, test = hold_out(y, 0.2, seed)
    return Dataset("digits", X[train], y[train], X[test], y[test], classes=10)


def breast_cancer(seed: int = 0) -> Dataset:
    """569 tumours with 30 measurements, malignant (0) or benign (1); a fifth of each class is held out.

    Features are standardised by the training part.
    """
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    y = np.asarray(y, dtype=np.int64)
    train, test = hold_out(y, 0.2, seed)
    X_train, X_test = standardised(X[train], X[test])
    return Dataset("breast_cancer", X_train, y[train], X_test, y[test], classes=2)
