"""Work for `equipoise share execute --work examples/train_perceptron.py:train`: any generator that yields its error.

Called with the task's seed, in a process of its own. Every `yield` ends a unit of work; what is imported and loaded up here
is done once, before the first task starts.
"""

import numpy as np
from sklearn.linear_model import Perceptron

from equipoise.data import load

DIGITS = load("digits")


def train(seed):
    rng, model = np.random.default_rng(seed), Perceptron(penalty="l2", alpha=1e-4, random_state=seed)
    while True:
        rows = rng.integers(0, len(DIGITS.y), 8)
        model.partial_fit(DIGITS.X[rows], DIGITS.y[rows], classes=np.arange(10))
        yield float(np.mean(model.predict(DIGITS.X_test) != DIGITS.y_test))
