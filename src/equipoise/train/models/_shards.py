"""Data shards: one (X, y) pair per node, checked once at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats, Ints

Shard = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class Shards:
    """What each node holds: features X_i [samples, features] and answers y_i [samples]."""

    X: tuple[Floats, ...]
    y: tuple[AnyArray, ...]
    whole: tuple[int, int] | None = None  # nodes and samples of all, where these are some nodes of more

    @property
    def nodes(self) -> int:
        return len(self.X)

    @property
    def all_nodes(self) -> int:
        """Nodes of the whole, which a ridge is dealt out to."""
        return self.nodes if self.whole is None else self.whole[0]

    @property
    def features(self) -> int:
        return int(self.X[0].shape[1])

    @property
    def sizes(self) -> AnyArray:
        """Samples of each node."""
        return np.array([len(y) for y in self.y])

    @property
    def samples(self) -> int:
        """Samples of all nodes together, of the whole."""
        return int(self.sizes.sum()) if self.whole is None else self.whole[1]

    def part(self, nodes: Ints) -> Shards:
        """What these nodes hold, and nobody else's data."""
        X, y = tuple(self.X[i] for i in nodes), tuple(self.y[i] for i in nodes)
        return Shards(X, y, (self.all_nodes, self.samples))


def read_shards(shards: Sequence[Shard]) -> Shards:
    """Check a list of (X, y) arrays: not empty, same features everywhere, as many answers as rows, all finite."""
    if len(shards) == 0:
        raise InputError("no shards: give a list of (X, y) arrays, one per node", code="shards.none")
    all_x: list[Floats] = []
    all_y: list[AnyArray] = []
    for node, shard in enumerate(shards):
        try:
            x_given, y_given = shard
            X, y = np.asarray(x_given, dtype=np.float64), np.asarray(y_given)
        except (TypeError, ValueError):
            raise InputError(f"shard {node} is not a pair (X, y) of numeric arrays") from None
        if X.ndim != 2:
            raise InputError(
                f"shard {node}: X must be [samples, features]; its shape is {X.shape}", code="shards.shape"
            )
        if len(X) == 0:
            raise InputError(
                f"shard {node} is empty: give every node at least one sample, or fewer nodes", code="shards.empty"
            )
        if y.shape != (len(X),):
            raise InputError(
                f"shard {node}: X has {len(X)} rows but y has shape {y.shape}: one answer per row", code="split.rows"
            )
        if all_x and X.shape[1] != all_x[0].shape[1]:
            raise InputError(
                f"shard {node} has {X.shape[1]} features but shard 0 has {all_x[0].shape[1]}", code="shards.features"
            )
        if not np.isfinite(X).all():
            raise InputError(f"shard {node}: X holds a value that is not finite; drop or fill it", code="shards.finite")
        if y.dtype.kind not in "fiub" or not np.isfinite(y.astype(np.float64)).all():
            raise InputError(f"shard {node}: y must hold finite numbers; its type is {y.dtype}")
        all_x.append(X)
        all_y.append(y)
    return Shards(tuple(all_x), tuple(all_y))


def largest_eigenvalue(X: Floats, intercept: bool, rounds: int = 60) -> float:
    """Largest eigenvalue of [X 1]' [X 1] (or X'X), by power iteration; 5% above what was found, as a safe bound."""
    rng = np.random.default_rng(0)
    v: Floats = np.asarray(1.0 + 0.1 * rng.standard_normal(X.shape[1]))
    b = 1.0 if intercept else 0.0
    found = 0.0
    for _ in range(rounds):
        score = X @ v + b
        v = X.T @ score
        b = float(score.sum()) if intercept else 0.0
        size = float(np.sqrt(v @ v + b * b))
        if size == 0.0:
            return 0.0
        v, b = v / size, b / size
        if abs(size - found) <= 1e-4 * size:
            found = size
            break
        found = size
    return 1.05 * found


def variance(squares: float, mean: Floats, count: int) -> float:
    """sigma^2 of one sample's gradient from the sum of squared gradients and their mean; not a number from one sample."""
    return max(0.0, (squares - count * float(mean @ mean)) / (count - 1)) if count > 1 else float("nan")
