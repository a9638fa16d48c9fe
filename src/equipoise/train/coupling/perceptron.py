"""A net with one hidden layer, in NumPy: small batches of twenty centres cost less than a framework's calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.models._base import Model, Shard, read_shards, variance

PROBES = 8
REACH = 1e-2  # of the first parameters' size: how far curvature is looked for


class Perceptron(Model):
    """g_i(y) = (1/N) sum of cross-entropies + (reg/2n) |y|^2 of softmax(V' tanh(W' x + b) + c); y is W, b, V, c in a row."""

    words = "a net"
    convex = False

    def __init__(
        self, shards: Sequence[Shard], *, classes: int, hidden: int = 32, reg: float = 1e-3, seed: int = 0
    ) -> None:
        data = read_shards(shards)
        self.nodes, self.features, self.hidden, self.classes = data.nodes, data.features, hidden, classes
        self.size = (data.features + 1) * hidden + (hidden + 1) * classes
        self.reg, self.sizes, self.samples, self.seed = float(reg), data.sizes, data.samples, seed
        self._X, self._labels = data.X, [y.astype(np.int64) for y in data.y]

    def start(self, seed: int | None = None) -> Floats:
        """First parameters: weights of sd 1/sqrt(3 inputs), by seed."""
        rng = np.random.default_rng([self.seed if seed is None else seed, 31])
        W = rng.standard_normal((self.features, self.hidden)) / np.sqrt(3.0 * self.features)
        V = rng.standard_normal((self.hidden, self.classes)) / np.sqrt(3.0 * self.hidden)
        return np.concatenate([W.ravel(), np.zeros(self.hidden), V.ravel(), np.zeros(self.classes)])

    def _layers(self, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        cut = self.features * self.hidden
        W, b = y[:cut].reshape(self.features, self.hidden), y[cut : cut + self.hidden]
        V = y[cut + self.hidden : -self.classes].reshape(self.hidden, self.classes)
        return W, b, V, y[-self.classes :]

    def _forward(self, X: Floats, y: Floats) -> tuple[Floats, Floats]:
        W, b, V, c = self._layers(y)
        inner = np.tanh(X @ W + b)
        return inner, inner @ V + c

    def _backward(self, X: Floats, labels: Ints, y: Floats) -> tuple[float, Floats, float]:
        """Summed cross-entropy, its gradient, and the sum of squared gradients of single samples."""
        inner, scores = self._forward(X, y)
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        each = np.arange(len(labels))
        loss = float((np.log(total[:, 0]) + top[:, 0] - scores[each, labels]).sum())
        miss = weights / total
        miss[each, labels] -= 1.0
        back = (miss @ self._layers(y)[2].T) * (1.0 - inner**2)
        gradient = np.concatenate([(X.T @ back).ravel(), back.sum(axis=0), (inner.T @ miss).ravel(), miss.sum(axis=0)])
        first = (back**2).sum(axis=1) @ ((X**2).sum(axis=1) + 1.0)  # |outer([x 1], back)|^2, summed
        return loss, gradient, float(first + (miss**2).sum(axis=1) @ ((inner**2).sum(axis=1) + 1.0))

    def loss(self, node: int, y: Floats) -> float:
        loss, _, _ = self._backward(self._X[node], self._labels[node], y)
        return loss / self.samples + 0.5 * self.reg / self.nodes * float(y @ y)

    def gradient(self, node: int, y: Floats) -> Floats:
        _, gradient, _ = self._backward(self._X[node], self._labels[node], y)
        return np.asarray(gradient / self.samples + self.reg / self.nodes * y)

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        gradients, spread = np.empty((self.nodes, self.size)), np.empty(self.nodes)
        for node, (picked, y) in enumerate(zip(rows, Y, strict=True)):
            _, gradient, squares = self._backward(self._X[node][picked], self._labels[node][picked], y)
            mean = gradient / len(picked)
            spread[node] = variance(squares, mean, len(picked))
            gradients[node] = len(self._labels[node]) / self.samples * mean + self.reg / self.nodes * y
        return gradients, spread

    def total(self, y: Floats) -> tuple[float, Floats]:
        parts = [self._backward(X, labels, y) for X, labels in zip(self._X, self._labels, strict=True)]
        loss, gradient = sum(part[0] for part in parts), np.sum([part[1] for part in parts], axis=0)
        return loss / self.samples + 0.5 * self.reg * float(y @ y), gradient / self.samples + self.reg * y

    def smoothness(self) -> Floats:
        """An estimate, for a net has no bound: the largest curvature along power steps around start(), and half again."""
        here = self.start()
        reach = REACH * float(np.linalg.norm(here))
        return np.array([1.5 * self._steepest(node, here, reach) for node in range(self.nodes)])

    def _steepest(self, node: int, here: Floats, reach: float) -> float:
        direction, found = np.random.default_rng(node).standard_normal(self.size), 0.0
        for _ in range(PROBES):
            direction *= reach / max(float(np.linalg.norm(direction)), 1e-30)
            change = self.gradient(node, here + direction) - self.gradient(node, here - direction)
            found = max(found, float(np.linalg.norm(change)) / (2.0 * reach))
            direction = change
        return found

    def accuracy(self, y: Floats, X: Floats, answers: AnyArray) -> float | None:
        return float(np.mean(self._forward(X, y)[1].argmax(axis=1) == answers))
