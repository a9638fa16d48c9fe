"""Handwritten digits, 8 x 8 pixels, 1,797 images; bundled with scikit-learn."""

from __future__ import annotations

import numpy as np

from equipoise.data.dataset import Dataset
from equipoise.data.split import hold_out

BRIGHTEST = 16  # pixel values run from 0 to 16


def digits(seed: int = 0) -> Dataset:
    """Ten classes, 64 pixels in [0, 1]; a fifth of each class is held out."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X / BRIGHTEST, np.asarray(y, dtype=np.int64)
    train, test = hold_out(y, 0.2, seed)
    return Dataset("digits", X[train], y[train], X[test], y[test], classes=10)
