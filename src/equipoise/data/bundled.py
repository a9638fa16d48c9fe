"""Data sets that scikit-learn brings: handwritten digits, and the Wisconsin breast cancer."""

from __future__ import annotations

import numpy as np

from equipoise.data.dataset import Dataset, standardised
from equipoise.data.split import hold_out

BRIGHTEST = 16  # pixel values run from 0 to 16


def digits(seed: int = 0) -> Dataset:
    """1,797 handwritten digits: ten classes, 8 x 8 pixels in [0, 1]; a fifth of each class is held out."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X / BRIGHTEST, np.asarray(y, dtype=np.int64)
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
