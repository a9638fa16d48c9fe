"""CPU that buys learning (docs/train.md, 6): between the halves of a round, shares decide how many samples are drawn, and
samples what a share is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs.coupled import Coupled
from equipoise.train.method import Method
from equipoise.train.problem import Problem
from equipoise.train.sampler import Sampler


class CouplingLink:
    """Holds a Coupled cost to the batches of the same run, and counts CPU-seconds."""

    def __init__(self, cost: Coupled) -> None:
        self.cost = cost
        self.cpu_seconds = 0.0
        cost.forget()

    @classmethod
    def of(cls, problem: Problem, method: Method, batch: ArrayLike | None) -> CouplingLink | None:
        """None where the cost is not Coupled, or there is nothing to learn."""
        cost, model = problem.cost, problem.model
        if not isinstance(cost, Coupled) or model is None:
            return None
        if batch is not None:
            raise InputError("a Coupled cost sets the batches by the shares: leave batch out", code="coupled.batch")
        if model.sizes is None:
            raise InputError(
                f"Coupled needs a model that can be sampled; {type(model).__name__} has no sampled(Y, rows)"
            )
        if not np.array_equal(model.sizes, cost.sizes):
            raise InputError(
                f"Coupled speaks of {int(cost.sizes.sum())} samples over {cost.nodes} centres, the model of "
                f"{int(np.sum(model.sizes))} over {model.nodes}: give sizes=[len(y) for X, y in shards]",
                code="coupled.sizes",
            )
        if cost.moves and not method.by_markets:
            raise InputError(
                "a Coupled cost that learns sigma moves, and steps along edges are chosen for costs that do not: "
                "leave step, cpu_weights and box alone, or give sigma",
                code="coupled.steps",
            )
        return cls(cost)

    def first(self, shares: Floats) -> Ints:
        """Batches of the draw before the first round."""
        return self.cost.batches(shares)

    def before(self, shares: Floats, sampler: Sampler, number: int) -> None:
        """A round begins: every centre will draw what its share buys."""
        sampler.batch = self.cost.batches(shares, number + 1)

    def after(self, sampler: Sampler) -> None:
        """A round has been played, and its batches have been seen."""
        if sampler.spread is not None and sampler.batch is not None:
            self.cost.observe(sampler.spread, sampler.batch)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return self.cost.memory() | {"cpu_seconds": np.array(self.cpu_seconds)}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.cost.restore(memory)
        self.cpu_seconds = float(memory["cpu_seconds"])
