"""Wisconsin breast cancer, 569 tumours with 30 measurements; bundled with scikit-learn."""

from __future__ import annotations

import numpy as np

from equipoise.data.dataset import Dataset, standardised
from equipoise.data.split import hold_out


def breast_cancer(seed: int = 0) -> Dataset:
    """Malignant (0) or benign (1), features standardised by the training part; a fifth of each class is held out."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    y = np.asarray(y, dtype=np.int64)
    train, test = hold_out(y, 0.2, seed)
    X_train, X_test = standardised(X[train], X[test])
    return Dataset("breast_cancer", X_train, y[train], X_test, y[test], classes=2)
