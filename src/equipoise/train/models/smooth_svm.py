"""A linear support vector machine with a smooth hinge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.models._base import Shard, ShardModel, largest_eigenvalue, read_shards


class SmoothSVM(ShardModel):
    """g_i(w, v) = (1/N) sum of (1/mu) log(1 + exp(mu (1 - l (w.x - v)))) + (reg/2n) |w|^2, labels l of -1 and +1.

    The last parameter is the bias v. A larger `mu` is nearer to the hinge and less smooth (curvature mu/4).
    """

    words = "a smooth SVM"
    task = "two classes"

    def __init__(self, shards: Sequence[Shard], *, mu: float = 3.0, reg: float = 0.01) -> None:
        if not (mu > 0 and reg > 0):
            raise InputError(f"SmoothSVM needs mu > 0 and reg > 0; given mu={mu}, reg={reg}", code="model.reg")
        data = read_shards(shards)
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
        self.sizes = data.sizes
        self._data, self._answers = data, [y.astype(np.float64) for y in data.y]

    def _margins(self, node: int, y: Floats) -> Floats:
        """mu (1 - l (w.x - v)) for each sample."""
        return np.asarray(self.mu * (1.0 - self._answers[node] * (self._data.X[node] @ y[:-1] - y[-1])))

    def loss(self, node: int, y: Floats) -> float:
        hinge = np.logaddexp(0.0, self._margins(node, y)).sum() / (self.mu * self._data.samples)
        return float(hinge + 0.5 * self.reg / self._data.all_nodes * (y[:-1] @ y[:-1]))

    def gradient(self, node: int, y: Floats) -> Floats:
        pull = -self._answers[node] * _sigmoid(self._margins(node, y)) / self._data.samples
        w = self._data.X[node].T @ pull + self.reg / self._data.all_nodes * y[:-1]
        return np.append(w, -pull.sum())

    def _drawn(self, X: Floats, answers: AnyArray, y: Floats) -> tuple[Floats, float]:
        pull = -answers * _sigmoid(self.mu * (1.0 - answers * (X @ y[:-1] - y[-1])))
        mean = np.append(pull @ X, -pull.sum()) / len(answers)
        return mean, pull**2 @ ((X**2).sum(axis=1) + 1.0)  # |pull [x -1]|^2, summed

    def _ridge(self, y: Floats) -> Floats:
        return np.append(super()._ridge(y[:-1]), 0.0)  # the bias has none

    def smoothness(self) -> Floats:
        top = np.array([largest_eigenvalue(X, intercept=True) for X in self._data.X])
        return np.asarray(self.mu / 4 * top / self._data.samples + self.reg / self._data.all_nodes)

    def accuracy(self, y: Floats, X: Floats, answers: AnyArray) -> float | None:
        return float(np.mean(np.where(X @ y[:-1] - y[-1] >= 0, 1, -1) == answers))


def _sigmoid(t: Floats) -> Floats:
    """1 / (1 + exp(-t)) without overflow."""
    e = np.exp(-np.abs(t))
    return np.asarray(np.where(t >= 0, 1.0, e) / (1.0 + e))
