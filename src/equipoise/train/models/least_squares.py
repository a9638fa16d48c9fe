"""Linear regression by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, lsmr

from equipoise.errors import InputError
from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.models._base import (
    Features,
    Shard,
    ShardModel,
    Shards,
    largest_eigenvalue,
    read_shards,
    squared_rows,
)

FEW_COLUMNS = 128  # up to which X_i'X_i is kept whatever X_i is: rounds in compiled code want it
LARGE = 1e9  # bytes of all X_i'X_i, from which they are kept only if the data is larger
TIGHT = 1e-14  # of |A| |r|: how flat LSMR makes A'r
POLISHED = 3  # times that LSMR begins again from what it missed
STEPS = 20_000


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

    Each node keeps X_i'X_i, so a round costs size^2 per node whatever the shard's length. X may be SciPy sparse; then, from
    129 columns on, nothing of size^2 is made (`matrix_free`), and a round costs two passes over the data.
    """

    words = "least squares"
    task = "numbers"
    quick_totals = True
    matrix_free = False  # whether nothing of size^2 is kept
    hessian: Floats  # X_i'X_i / N and the ridge, [nodes, size, size]; refused where the model is matrix-free

    def __init__(self, shards: Sequence[Shard], *, reg: float = 0.0) -> None:
        if not reg >= 0:
            raise InputError(f"reg must be >= 0, not {reg}")
        data = read_shards(shards, sparse=True)
        self.nodes, self.size, self.reg = data.nodes, data.features, float(reg)
        self.convexity = self.reg
        self._data, self._answers, self.sizes = data, data.y, data.sizes
        N, n = data.samples, data.nodes
        self.matrix_free = not _keeps_products(data)
        if self.matrix_free:
            self.quick_totals = False  # a pass over the data for each
        else:
            products = np.stack([(X.T @ X).toarray() if issparse(X) else X.T @ X for X in data.X])
            self.hessian = products / N + (reg / n) * np.eye(self.size)
        self.slope = np.stack([X.T @ t / N for X, t in zip(data.X, data.y, strict=True)])
        self._constant = np.array([float(np.dot(t, t)) / (2 * N) for t in (y.astype(float) for y in data.y)])

    def __getattr__(self, name: str) -> Any:
        if name == "hessian" and self.matrix_free:
            raise InputError(
                f"this LeastSquares has {self.size:,} columns and keeps no Hessian ({self.size**2 * 8 / 1e9:.3g} GB for "
                "each node): use gradient(node, y)",
                code="model.hessian",
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _missed(self, node: int, y: Floats) -> Floats:
        """X_i y - t_i."""
        return np.asarray(self._data.X[node] @ y - self._answers[node])

    def loss(self, node: int, y: Floats) -> float:
        if self.matrix_free:
            miss = self._missed(node, y)
            return float(0.5 * (miss @ miss) / self._data.samples + 0.5 * (self._ridge(y) @ y))
        return float(0.5 * y @ self.hessian[node] @ y - self.slope[node] @ y + self._constant[node])

    def gradient(self, node: int, y: Floats) -> Floats:
        if self.matrix_free:
            return np.asarray(self._data.X[node].T @ self._missed(node, y) / self._data.samples + self._ridge(y))
        return np.asarray(self.hessian[node] @ y - self.slope[node])

    def gradients(self, Y: Floats) -> Floats:
        if self.matrix_free:
            return super().gradients(Y)
        out = np.empty((self.nodes, self.size))
        gradients(self.hessian, self.slope, Y, out)
        return out

    def _drawn(self, X: Features, answers: AnyArray, y: Floats) -> tuple[Floats, float]:
        miss = X @ y - answers
        return miss @ X / len(miss), miss**2 @ squared_rows(X)

    def part(self, nodes: Ints) -> Self:
        mine = super().part(nodes)
        mine.slope, mine._constant = self.slope[nodes], self._constant[nodes]
        if not self.matrix_free:
            mine.hessian = self.hessian[nodes]
        return mine

    def total(self, y: Floats) -> tuple[float, Floats]:
        if self.matrix_free:
            return super().total(y)
        H, s = self.hessian.sum(axis=0), self.slope.sum(axis=0)
        return float(0.5 * y @ H @ y - s @ y + self._constant.sum()), np.asarray(H @ y - s)

    def totals(self, Y: Floats) -> Floats:
        if self.matrix_free:
            return super().totals(Y)
        H, s = self.hessian.sum(axis=0), self.slope.sum(axis=0)
        return np.asarray(0.5 * np.einsum("ij,jk,ik->i", Y, H, Y) - Y @ s + self._constant.sum())

    def error(self, y: Floats, X: Features, answers: Floats) -> float:
        """Root mean square error on given data."""
        return float(np.sqrt(np.mean((X @ y - answers) ** 2)))

    def smoothness(self) -> Floats:
        if self.matrix_free:
            top = np.array([largest_eigenvalue(X, intercept=False) for X in self._data.X])
            return np.asarray(top / self._data.samples + self.reg / self._data.all_nodes)
        return np.asarray(np.linalg.eigvalsh(self.hessian)[:, -1])

    def optimum(self) -> Floats | None:
        """By QR on the pooled rows (LSMR where there is nothing of size^2), not from the sums the rounds use."""
        return self.optimum_of(np.arange(self.nodes))

    def optimum_of(self, nodes: Ints) -> Floats:
        """The same for some nodes only, each with its part of the ridge."""
        N, X, y = self._data.samples, self._data.X, self._data.y
        ridge = np.sqrt(self.reg * N * len(nodes) / self._data.all_nodes)
        if self.matrix_free or self._data.sparse:
            return least([X[i] for i in nodes], np.concatenate([y[i] for i in nodes]).astype(np.float64), ridge)
        rows, answers = np.concatenate([X[i] for i in nodes]), np.concatenate([y[i] for i in nodes]).astype(np.float64)
        if self.reg:
            rows = np.concatenate([rows, ridge * np.eye(self.size)])
            answers = np.concatenate([answers, np.zeros(self.size)])
        return np.asarray(np.linalg.lstsq(rows, answers, rcond=None)[0])


def _keeps_products(data: Shards) -> bool:
    """Whether X_i'X_i of each node is worth its memory."""
    if data.features <= FEW_COLUMNS:
        return True
    bytes_kept, bytes_given = 8.0 * data.nodes * data.features**2, 8.0 * data.samples * data.features
    return not data.sparse and (bytes_kept <= LARGE or bytes_kept <= bytes_given)


def least(parts: list[Features], answers: Floats, ridge: float) -> Floats:
    """argmin |X y - t|^2 + ridge^2 |y|^2 of the rows of all parts, by LSMR on columns of length 1.

    One-hot columns differ in length as the square roots of their frequencies; made alike, they need few steps.
    """
    lengths = np.sqrt(sum(_squared_columns(X) for X in parts) + ridge**2)
    scale = 1.0 / np.where(lengths > 0, lengths, 1.0)
    size, rows = len(scale), len(answers)
    ends = np.cumsum([X.shape[0] for X in parts])[:-1]

    def apply(z: Floats) -> Floats:
        y = scale * z.ravel()
        return np.concatenate([*(X @ y for X in parts), ridge * y])

    def transposed(u: Floats) -> Floats:
        found = ridge * u[rows:]
        for X, mine in zip(parts, np.split(u[:rows], ends), strict=True):
            found = found + X.T @ mine
        return np.asarray(scale * found)

    pooled = LinearOperator((rows + size, size), matvec=apply, rmatvec=transposed, dtype=np.float64)
    given, z = np.concatenate([answers, np.zeros(size)]), np.zeros(size)
    for _ in range(POLISHED):
        z = z + lsmr(pooled, given - apply(z), atol=TIGHT, btol=TIGHT, conlim=0.0, maxiter=STEPS)[0]
    return np.asarray(scale * z)


def _squared_columns(X: Features) -> Floats:
    """|column|^2 of each feature."""
    return np.asarray((X**2).sum(axis=0) if issparse(X) else np.einsum("ij,ij->j", X, X))
