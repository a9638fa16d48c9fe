"""A linear model in columns of a scale of its own, with the penalty of the columns as they were given.

Rounds are many where columns differ in scale. Dividing column j by t_j makes its parameter t_j times as large; a penalty of
reg / t_j^2 instead of reg on it then makes the same optimum. An intercept has a penalty of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.dynamics.summed import MATRIX_COLUMNS
from equipoise.train.models._base import Model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.models.softmax import Softmax

MOST_STACKED = 1_000_000  # numbers that are copied so that all nodes' gradients are three products
SMALL = 1e-6  # curvature to reckon with where nothing is penalised: beyond what steps follow


class Rescaled(Model):
    """`inner`, a Softmax or LeastSquares on columns that were divided, with a penalty for each parameter.

    Parameters
    ----------
    inner
        The model on the divided columns; its own ridge is replaced.
    ridge
        The penalty of each parameter, array of shape (inner.size,): the sum of losses has sum_j ridge_j y_j^2 / 2.
    frozen
        Parameters that count as 0 whatever they are, as a mask of shape (inner.size,): an intercept that is not wanted.
    """

    def __init__(self, inner: Softmax | LeastSquares, ridge: Floats, frozen: Any = None) -> None:
        self.inner, self.nodes, self.size = inner, inner.nodes, inner.size
        self.words, self.task, self.quick_totals = inner.words, inner.task, inner.quick_totals
        self.ridge, self.more = ridge, ridge - inner.reg
        self.open = None if frozen is None else 1.0 - np.asarray(frozen, dtype=np.float64)
        self.quadratic = isinstance(inner, LeastSquares) and not inner.matrix_free and inner.size <= MATRIX_COLUMNS
        if self.quadratic:
            self.convexity = max(0.0, float(np.linalg.eigvalsh(self.hessian.sum(axis=0))[0]))
        else:  # what has no penalty is held by the data
            self.convexity = 0.0 if frozen is not None else float(ridge.min())
        self.stacked = Stacked.of(inner) if isinstance(inner, Softmax) else None
        self.flattest = float(ridge[ridge > 0].min(initial=np.inf)) if (ridge > 0).any() else SMALL

    @property
    def hessian(self) -> Floats:
        """Of least squares, as `inner` has it, with the penalties as they are here."""
        assert isinstance(self.inner, LeastSquares)
        return np.asarray(self.inner.hessian + np.diag(self.more / self.nodes))

    @property
    def slope(self) -> Floats:
        assert isinstance(self.inner, LeastSquares)
        return self.inner.slope

    def _opened(self, y: Floats) -> Floats:
        return y if self.open is None else y * self.open

    def loss(self, node: int, y: Floats) -> float:
        y = self._opened(y)
        return self.inner.loss(node, y) + 0.5 / self.nodes * float(self.more @ y**2)

    def gradient(self, node: int, y: Floats) -> Floats:
        y = self._opened(y)
        return self._opened(self.inner.gradient(node, y) + self.more / self.nodes * y)

    def gradients(self, Y: Floats) -> Floats:
        Y = self._opened(Y)
        if self.stacked is not None:
            return self._opened(self.stacked.gradients(Y) + self.ridge / self.nodes * Y)
        return self._opened(self.inner.gradients(Y) + self.more / self.nodes * Y)

    def total(self, y: Floats) -> tuple[float, Floats]:
        y = self._opened(y)
        loss, gradient = self.inner.total(y)
        return loss + 0.5 * float(self.more @ y**2), self._opened(gradient + self.more * y)

    def totals(self, Y: Floats) -> Floats:
        Y = self._opened(Y)
        return np.asarray(self.inner.totals(Y) + 0.5 * (Y**2 @ self.more))

    def smoothness(self) -> Floats:
        return np.asarray(self.inner.smoothness() + max(0.0, float(self.more.max())) / self.nodes)

    def optimum(self) -> Floats | None:
        """Of least squares on dense rows by QR on the pooled rows; a centralised solver finds the others."""
        data = self.inner._data
        if not isinstance(self.inner, LeastSquares) or data.sparse:
            return None
        rows = np.concatenate([*data.X, np.diag(np.sqrt(self.ridge * data.samples))])
        answers = np.concatenate([*data.y, np.zeros(self.size)])
        return np.asarray(np.linalg.lstsq(rows, answers, rcond=None)[0])


@dataclass(frozen=True, eq=False)
class Stacked:
    """The shards of a Softmax as one array, for centres of about the same size: a round then costs a few products, and not
    some for each centre."""

    X: Floats  # [nodes, most samples of a node, features and 1]; rows of 0 fill it up
    truth: Floats  # [nodes, samples, classes]: 1 at the label
    weight: Floats  # [nodes, samples, 1]: of the sample's class, over all samples; 0 for what fills up

    @classmethod
    def of(cls, model: Softmax) -> Stacked | None:
        """None where shards are sparse, large, or of sizes too different."""
        data, sizes = model._data, model._data.sizes
        most, columns = int(sizes.max()), model.features + 1
        cells = data.nodes * most
        if data.sparse or cells > 2 * data.samples or cells * (columns + model.classes) > MOST_STACKED:
            return None
        X, truth = np.zeros((data.nodes, most, columns)), np.zeros((data.nodes, most, model.classes))
        weight = np.zeros((data.nodes, most, 1))
        of_class = np.ones(model.classes) if model.class_weight is None else model.class_weight
        for node, (rows, labels) in enumerate(zip(data.X, model._answers, strict=True)):
            count: AnyArray = np.arange(len(labels))
            X[node, count, :-1], X[node, count, -1] = rows, 1.0
            truth[node, count, labels] = 1.0
            weight[node, count, 0] = of_class[labels] / data.samples
        return cls(X, truth, weight)

    def gradients(self, Y: Floats) -> Floats:
        """Of the losses alone, without any penalty."""
        scores = self.X @ Y.reshape(len(Y), self.X.shape[2], -1)
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=2, keepdims=True)
        scores -= self.truth
        scores *= self.weight
        return np.asarray((self.X.transpose(0, 2, 1) @ scores).reshape(Y.shape))
