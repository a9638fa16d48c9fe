"""Multinomial logistic regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

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

AT_ONCE = 4096  # samples of a gradient that are read at a time: the second product finds them in the cache


class Softmax(ShardModel):
    """g_i(y) = (1/N) sum of cross-entropies + (reg/2n) |y|^2; y is W [features, classes] then the biases, row by row.

    Labels are integers 0..classes-1; a node need not hold every class, so give `classes` when no shard has the last.
    X may be SciPy sparse, and stays so. `class_weight` has one weight per class, which multiplies the loss of each sample of
    that class; N stays the number of samples.
    """

    words = "softmax"
    task = "classes"

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        classes: int | None = None,
        reg: float = 1e-3,
        class_weight: ArrayLike | None = None,
    ) -> None:
        if not reg > 0:
            raise InputError(
                f"Softmax needs reg > 0 (its optimum is not unique without); given {reg}", code="model.reg"
            )
        data = read_shards(shards, sparse=True)
        for node, labels in enumerate(data.y):
            if (labels != np.floor(labels)).any() or (labels < 0).any():
                raise InputError(
                    f"Softmax needs labels 0, 1, 2, ...; shard {node} has {labels.min()!s}", code="model.labels"
                )
        found = int(max(labels.max() for labels in data.y)) + 1
        if classes is not None and found > classes:
            raise InputError(
                f"Softmax was told {classes} classes but a shard has label {found - 1}: raise classes",
                code="model.classes",
            )
        self.classes = max(classes or found, 2)
        self.class_weight = class_weights(class_weight, [str(k) for k in range(self.classes)])
        self.nodes, self.features, self.reg = data.nodes, data.features, float(reg)
        self.convexity = self.reg
        self.size = (self.features + 1) * self.classes
        self.sizes = data.sizes
        self._data, self._answers = data, [y.astype(np.int64) for y in data.y]

    def _scores(self, X: Features, y: Floats) -> Floats:
        """[classes, samples]: classes in rows, which reads X fastest and reduces along contiguous memory."""
        W = y.reshape(self.features + 1, self.classes)
        if issparse(X):
            return np.ascontiguousarray((X @ W[:-1] + W[-1]).T)
        return np.asarray(W[:-1].T @ X.T + W[-1][:, None])

    def loss(self, node: int, y: Floats) -> float:
        scores, labels = self._scores(self._data.X[node], y), self._answers[node]
        return self._cross_entropy(scores, labels) + float(0.5 * self.reg / self._data.all_nodes * (y @ y))

    def _cross_entropy(self, scores: Floats, labels: AnyArray) -> float:
        top = scores.max(axis=0)
        log_sum = np.log(np.exp(scores - top).sum(axis=0)) + top
        each = log_sum - scores[labels, np.arange(len(labels))]
        return float(each.sum() if self.class_weight is None else self.class_weight[labels] @ each) / self._data.samples

    def gradient(self, node: int, y: Floats) -> Floats:
        X, labels = self._data.X[node], self._answers[node]
        if issparse(X) or len(labels) <= AT_ONCE:
            return self._gradient(X, labels, self._scores(X, y), y)
        W = y.reshape(self.features + 1, self.classes)
        found: Floats = self._ridge(y).reshape(W.shape)
        for first in range(0, len(labels), AT_ONCE):
            part = X[first : first + AT_ONCE]
            miss = self._missed(self._scores(part, y), labels[first : first + AT_ONCE])
            miss /= self._data.samples
            found[:-1] += (miss @ part).T
            found[-1] += miss.sum(axis=1)
        return found.ravel()

    def _gradient(self, X: Features, labels: AnyArray, miss: Floats, y: Floats) -> Floats:
        """From the scores, which are overwritten by the predicted minus the true probabilities."""
        self._missed(miss, labels)
        miss /= self._data.samples
        gradient = np.concatenate([(miss @ X).T.ravel(), miss.sum(axis=1)])
        gradient += self.reg / self._data.all_nodes * y
        return gradient

    def _missed(self, scores: Floats, labels: AnyArray) -> Floats:
        """Scores become the derivatives of each sample's loss by them, in place."""
        miss = _probabilities(scores)
        miss[labels, np.arange(len(labels))] -= 1.0
        if self.class_weight is not None:
            miss *= self.class_weight[labels]
        return miss

    def _drawn(self, X: Features, answers: AnyArray, y: Floats) -> tuple[Floats, float]:
        miss = self._missed(self._scores(X, y), answers)
        mean = np.concatenate([(miss @ X).T.ravel(), miss.sum(axis=1)]) / len(answers)
        return mean, (miss**2).sum(axis=0) @ (squared_rows(X) + 1.0)  # |outer(miss, [x 1])|^2, summed

    def total(self, y: Floats) -> tuple[float, Floats]:
        """Loss and gradient from the same scores."""
        loss, gradient = 0.5 * self.convexity * float(y @ y), np.zeros(self.size)
        for X, labels in zip(self._data.X, self._answers, strict=True):
            scores = self._scores(X, y)
            loss += self._cross_entropy(scores, labels)
            gradient += self._gradient(X, labels, scores, y)
        return loss, gradient

    def totals(self, Y: Floats) -> Floats:
        """All rows in one product per shard: the data is read once, whatever the number of models."""
        W = Y.reshape(len(Y), self.features + 1, self.classes)
        stacked = W[:, :-1].transpose(0, 2, 1).reshape(-1, self.features)
        biases = W[:, -1].reshape(-1, 1)
        losses = 0.5 * self.reg * np.einsum("ij,ij->i", Y, Y)
        for X, labels in zip(self._data.X, self._answers, strict=True):
            scores = (stacked @ X.T + biases).reshape(len(Y), self.classes, len(labels))
            losses += [self._cross_entropy(each, labels) for each in scores]
        return np.asarray(losses)

    def smoothness(self) -> Floats:
        """The softmax Hessian is at most 1/2 in every direction."""
        weights = [None if self.class_weight is None else self.class_weight[labels] for labels in self._answers]
        top = np.array([largest_eigenvalue(X, True, w) for X, w in zip(self._data.X, weights, strict=True)])
        return np.asarray(0.5 * top / self._data.samples + self.reg / self._data.all_nodes)

    def accuracy(self, y: Floats, X: Features, answers: AnyArray) -> float | None:
        return float(np.mean(self._scores(X, y).argmax(axis=0) == answers))


def _probabilities(scores: Floats) -> Floats:
    """Scores [classes, samples] become probabilities, in place."""
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=0)
    return scores
