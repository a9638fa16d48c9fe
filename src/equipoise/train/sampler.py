"""Where gradients come from: the whole shard, or a mini-batch drawn by (seed, round, node)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.models._base import Model


class Sampler:
    """Every node's gradient in a round. Without a batch it is exact; with one, `spread` holds what the last batch showed
    of each node's gradient variance (docs/train.md, 6)."""

    def __init__(self, model: Model, batch: ArrayLike | None = None, seed: int = 0) -> None:
        self.model, self.seed = model, seed
        self.at_nodes: Ints = np.arange(model.nodes)  # their numbers in the whole network, which draws depend on
        self.batch: Ints | None = None if batch is None else _checked(model, batch)
        self.samples = 0  # drawn so far, over all nodes
        self.spread: Floats | None = None
        self._last: tuple[int, Ints | None] = (0, self.batch)

    @property
    def exact(self) -> bool:
        return self.batch is None

    def at(self, Y: Floats, number: int) -> Floats:
        """Gradients after `number` rounds, one row per node."""
        if self.batch is None:
            return self.model.gradients(Y)
        gradients, self.spread = self.model.sampled(Y, self.rows(number, self.batch))
        self.samples += int(self.batch.sum())
        self._last = number, self.batch.copy()
        return gradients

    def drawn_last(self, number: int) -> None:
        """Note that the last draw, made elsewhere, was this round's."""
        self._last = number, None if self.batch is None else self.batch.copy()

    def again(self, Y: Floats) -> Floats:
        """The same draw as the last one, for whoever checks."""
        number, batch = self._last
        return self.model.gradients(Y) if batch is None else self.model.sampled(Y, self.rows(number, batch))[0]

    def rows(self, number: int, batch: Ints) -> list[Ints]:
        """Rows of each node's own shard, without repetition."""
        sizes = self.model.sizes
        assert sizes is not None
        return [
            drawn_rows(self.seed, number, int(node), int(size), int(b))
            for node, size, b in zip(self.at_nodes, sizes, batch, strict=True)
        ]

    def memory(self) -> dict[str, Ints]:
        """What a checkpoint must keep."""
        number, batch = self._last
        kept = {"samples": np.array(self.samples), "last": np.array(number)}
        return kept if batch is None else kept | {"batch": batch}

    def restore(self, memory: dict[str, Ints]) -> None:
        self.samples = int(memory["samples"])
        self._last = int(memory["last"]), memory.get("batch")


def drawn_rows(seed: int, number: int, node: int, size: int, batch: int) -> Ints:
    """The rows that a node draws in a round, from its arguments alone."""
    return np.random.default_rng([seed, 11, number, node]).choice(size, min(batch, size), replace=False)


def _checked(model: Model, batch: ArrayLike) -> Ints:
    if model.sizes is None:
        raise InputError(
            f"batch needs a model that can be sampled; {type(model).__name__} has no sampled(Y, rows)",
            code="batch.model",
        )
    given = np.asarray(batch)
    if given.dtype.kind not in "iu" or given.shape not in ((), (model.nodes,)) or (given < 1).any():
        raise InputError(
            f"batch must be a whole number of samples, at least 1, for all or per node; not {batch!r}",
            code="batch.range",
        )
    return np.asarray(np.minimum(np.broadcast_to(given, (model.nodes,)), model.sizes), dtype=np.int64)
