"""A linear support vector machine with a smooth hinge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.models._base import (
    Features,
    Shard,
    ShardModel,
    class_weights,
    largest_eigenvalue,
    read_shards,
    squared_rows,
)


class SmoothSVM(ShardModel):
    """g_i(w, v) = (1/N) sum of (1/mu) log(1 + exp(mu (1 - l (w.x - v)))) + (reg/2n) |w|^2, labels l of -1 and +1.

    The last parameter is the bias v. A larger `mu` is nearer to the hinge and less smooth (curvature mu/4).
    X may be SciPy sparse, and stays so. `class_weight` has two weights, for -1 and for +1, which multiply the loss of each
    sample of that class; N stays the number of samples.
    """

    words = "a smooth SVM"
    task = "two classes"

    def __init__(
        self, shards: Sequence[Shard], *, mu: float = 3.0, reg: float = 0.01, class_weight: ArrayLike | None = None
    ) -> None:
        if not (mu > 0 and reg > 0):
            raise InputError(f"SmoothSVM needs mu > 0 and reg > 0; given mu={mu}, reg={reg}", code="model.reg")
        data = read_shards(shards, sparse=True)
        for node, labels in enumerate(data.y):
            wrong = labels[(labels != 1) & (labels != -1)]
            if len(wrong):
                raise InputError(
                    f"SmoothSVM needs labels -1 and +1; shard {node} has {wrong[0]!s} "
                    "(for labels 0 and 1 pass 2*y - 1; for more classes use Softmax)",
                    code="model.labels",
                )
        self.nodes, self.size = data.nodes, data.features + 1
        self.mu, self.reg = float(mu), float(reg)
        if data.sparse:
            self.flattest = self.reg  # of all but the bias: many columns are as flat as the ridge alone
        self.sizes = data.sizes
        self.class_weight = class_weights(class_weight, ("-1", "+1"))
        self._data, self._answers = data, [y.astype(np.float64) for y in data.y]

    def _margins(self, node: int, y: Floats) -> Floats:
        """mu (1 - l (w.x - v)) for each sample."""
        return np.asarray(self.mu * (1.0 - self._answers[node] * (self._data.X[node] @ y[:-1] - y[-1])))

    def _weights(self, answers: AnyArray) -> Floats | None:
        """The weight of each sample, where classes have one."""
        return None if self.class_weight is None else self.class_weight[(answers > 0).astype(np.int64)]

    def loss(self, node: int, y: Floats) -> float:
        each, weights = np.logaddexp(0.0, self._margins(node, y)), self._weights(self._answers[node])
        hinge = (each.sum() if weights is None else weights @ each) / (self.mu * self._data.samples)
        return float(hinge + 0.5 * self.reg / self._data.all_nodes * (y[:-1] @ y[:-1]))

    def gradient(self, node: int, y: Floats) -> Floats:
        pull = self._pull(self._answers[node], self._margins(node, y)) / self._data.samples
        w = self._data.X[node].T @ pull + self.reg / self._data.all_nodes * y[:-1]
        return np.append(w, -pull.sum())

    def _pull(self, answers: AnyArray, margins: Floats) -> Floats:
        """The derivative of each sample's loss by its score w.x - v."""
        pull, weights = -answers * _sigmoid(margins), self._weights(answers)
        return np.asarray(pull if weights is None else weights * pull)

    def _drawn(self, X: Features, answers: AnyArray, y: Floats) -> tuple[Floats, float]:
        pull = self._pull(answers, self.mu * (1.0 - answers * (X @ y[:-1] - y[-1])))
        mean = np.append(pull @ X, -pull.sum()) / len(answers)
        return mean, float(pull**2 @ (squared_rows(X) + 1.0))  # |pull [x -1]|^2, summed

    def _ridge(self, y: Floats) -> Floats:
        return np.append(super()._ridge(y[:-1]), 0.0)  # the bias has none

    def smoothness(self) -> Floats:
        weights = map(self._weights, self._answers)
        top = np.array([largest_eigenvalue(X, True, w) for X, w in zip(self._data.X, weights, strict=True)])
        return np.asarray(self.mu / 4 * top / self._data.samples + self.reg / self._data.all_nodes)

    def accuracy(self, y: Floats, X: Features, answers: AnyArray) -> float | None:
        return float(np.mean(np.where(X @ y[:-1] - y[-1] >= 0, 1, -1) == answers))


def _sigmoid(t: Floats) -> Floats:
    """1 / (1 + exp(-t)) without overflow."""
    e = np.exp(-np.abs(t))
    return np.asarray(np.where(t >= 0, 1.0, e) / (1.0 + e))
