"""Linear regression by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.models._base import Shard, ShardModel, read_shards


@kernel
def gradients(hessian: Floats, slope: Floats, Y: Floats, out: Floats) -> None:
    """H_i y_i - s_i of every node, column by column (H is symmetric: its rows are its columns)."""
    nodes, size = slope.shape
    for i in range(nodes):
        for c in range(size):
            out[i, c] = -slope[i, c]
        for k in range(size):
            y = Y[i, k]
            for c in range(size):
                out[i, c] += hessian[i, k, c] * y


class LeastSquares(ShardModel):
    """g_i(y) = (1/2N) |X_i y - t_i|^2 + (reg/2n) |y|^2 with N samples over n nodes: together the mean square error / 2.

    Each node keeps X_i'X_i, so a round costs size^2 per node whatever the shard's length.
    """

    words = "least squares"
    task = "numbers"
    quick_totals = True

    def __init__(self, shards: Sequence[Shard], *, reg: float = 0.0) -> None:
        if not reg >= 0:
            raise InputError(f"reg must be >= 0, not {reg}")
        data = read_shards(shards)
        self.nodes, self.size, self.reg = data.nodes, data.features, float(reg)
        self.convexity = self.reg
        self._data, self._answers, self.sizes = data, data.y, data.sizes
        N, n = data.samples, data.nodes
        self.hessian = np.stack([X.T @ X / N for X in data.X]) + (reg / n) * np.eye(self.size)
        self.slope = np.stack([X.T @ t / N for X, t in zip(data.X, data.y, strict=True)])
        self._constant = np.array([float(np.dot(t, t)) / (2 * N) for t in (y.astype(float) for y in data.y)])

    def loss(self, node: int, y: Floats) -> float:
        return float(0.5 * y @ self.hessian[node] @ y - self.slope[node] @ y + self._constant[node])

    def gradient(self, node: int, y: Floats) -> Floats:
        return np.asarray(self.hessian[node] @ y - self.slope[node])

    def gradients(self, Y: Floats) -> Floats:
        out = np.empty((self.nodes, self.size))
        gradients(self.hessian, self.slope, Y, out)
        return out

    def _drawn(self, X: Floats, answers: AnyArray, y: Floats) -> tuple[Floats, float]:
        miss = X @ y - answers
        return miss @ X / len(miss), miss**2 @ (X**2).sum(axis=1)

    def part(self, nodes: Ints) -> Self:
        mine = super().part(nodes)
        mine.hessian, mine.slope, mine._constant = self.hessian[nodes], self.slope[nodes], self._constant[nodes]
        return mine

    def total(self, y: Floats) -> tuple[float, Floats]:
        H, s = self.hessian.sum(axis=0), self.slope.sum(axis=0)
        return float(0.5 * y @ H @ y - s @ y + self._constant.sum()), np.asarray(H @ y - s)

    def totals(self, Y: Floats) -> Floats:
        H, s = self.hessian.sum(axis=0), self.slope.sum(axis=0)
        return np.asarray(0.5 * np.einsum("ij,jk,ik->i", Y, H, Y) - Y @ s + self._constant.sum())

    def error(self, y: Floats, X: Floats, answers: Floats) -> float:
        """Root mean square error on given data."""
        return float(np.sqrt(np.mean((X @ y - answers) ** 2)))

    def smoothness(self) -> Floats:
        return np.asarray(np.linalg.eigvalsh(self.hessian)[:, -1])

    def optimum(self) -> Floats | None:
        """By QR on the pooled rows, not from the sums the rounds use."""
        return self.optimum_of(np.arange(self.nodes))

    def optimum_of(self, nodes: Ints) -> Floats:
        """The same for some nodes only, each with its part of the ridge."""
        N, X, y = self._data.samples, self._data.X, self._data.y
        rows, answers = np.concatenate([X[i] for i in nodes]), np.concatenate([y[i] for i in nodes]).astype(np.float64)
        if self.reg:
            rows = np.concatenate([rows, np.sqrt(self.reg * N * len(nodes) / self._data.all_nodes) * np.eye(self.size)])
            answers = np.concatenate([answers, np.zeros(self.size)])
        return np.asarray(np.linalg.lstsq(rows, answers, rcond=None)[0])
