"""What a model is: a loss g_i(y) and its gradient on each node's own shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.train.arrays import AnyArray, Floats, Ints


class Model:
    """A model trained together: subclass it with `nodes`, `size`, `loss(node, y)` and `gradient(node, y)`.

    The rest has defaults built from those four; override what can be done faster for all nodes at once.
    """

    words: str = ""  # what it is called in a sentence; the name of its class unless given
    task: str = ""  # answers it takes: "classes" (0, 1, ...), "two classes" (-1, +1) or "numbers"
    nodes: int
    size: int
    convexity: float = 0.0  # a curvature that the sum of losses is known to have everywhere (a ridge)
    quick_totals: bool = False  # whether totals() costs little beside gradients()
    convex: bool = True  # False: no centralised optimum to hold a run against
    sizes: Ints | None = None  # samples of each node, where sampled() is offered

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.nodes} nodes, {self.size} parameters>"

    def loss(self, node: int, y: Floats) -> float:
        """g_node(y): the loss of one parameter vector on one node's shard."""
        raise TypeError(f"{type(self).__name__} must define loss(node, y)")

    def gradient(self, node: int, y: Floats) -> Floats:
        """The gradient of g_node at y."""
        raise TypeError(f"{type(self).__name__} must define gradient(node, y)")

    def gradients(self, Y: Floats) -> Floats:
        """Every node's gradient at its own parameters: row i is grad g_i(Y[i])."""
        return np.stack([self.gradient(i, Y[i]) for i in range(self.nodes)])

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        """Every node's gradient from these rows of its own shard, scaled so that its mean is grad g_i(Y[i]); and sigma_i^2,
        the variance of one sample's gradient (of the unscaled loss, summed over parameters) as these rows show it."""
        raise TypeError(f"{type(self).__name__} cannot be sampled: define sampled(Y, rows) and sizes")

    def total(self, y: Floats) -> tuple[float, Floats]:
        """sum_i g_i(y) and its gradient: the pooled problem that a centralised solver would see."""
        loss = sum(self.loss(i, y) for i in range(self.nodes))
        gradient = np.sum([self.gradient(i, y) for i in range(self.nodes)], axis=0)
        return float(loss), np.asarray(gradient)

    def totals(self, Y: Floats) -> Floats:
        """sum_i g_i at each row of Y: how good each node's own model is on everybody's data."""
        return np.array([sum(self.loss(i, y) for i in range(self.nodes)) for y in Y])

    def smoothness(self) -> Floats:
        """L_i: a bound on the curvature of each g_i. Estimated from gradient differences unless overridden."""
        return np.array([_probe_smoothness(self, i) for i in range(self.nodes)])

    def optimum(self) -> Floats | None:
        """The centralised optimum in closed form, where there is one."""
        return None

    def accuracy(self, y: Floats, X: Floats, answers: AnyArray) -> float | None:
        """The share of right answers on given data; None where the model does not classify."""
        return None


class UserModel(Model):
    """Gives the defaults to any object that has nodes, size, loss and gradient."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.nodes, self.size = wrapped, int(wrapped.nodes), int(wrapped.size)
        self.convexity = float(getattr(wrapped, "convexity", 0.0))
        for name in ("gradients", "sampled", "total", "totals", "smoothness", "optimum", "accuracy"):
            if callable(getattr(wrapped, name, None)):
                setattr(self, name, getattr(wrapped, name))
        self.convex = bool(getattr(wrapped, "convex", True))
        self.sizes = getattr(wrapped, "sizes", None)

    def loss(self, node: int, y: Floats) -> float:
        value: float = self.wrapped.loss(node, y)
        return value

    def gradient(self, node: int, y: Floats) -> Floats:
        return np.asarray(self.wrapped.gradient(node, y), dtype=np.float64)


def _probe_smoothness(model: Model, node: int, probes: int = 20) -> float:
    """Largest |grad(y + d) - grad(y)| / |d| found by power-like steps from 0, with half again as margin."""
    rng = np.random.default_rng(node)
    origin = np.zeros(model.size)
    at_origin = model.gradient(node, origin)
    direction = rng.standard_normal(model.size)
    found = 0.0
    for _ in range(probes):
        direction /= np.linalg.norm(direction) or 1.0
        change = model.gradient(node, origin + direction) - at_origin
        found = max(found, float(np.linalg.norm(change)))
        if not np.any(change):
            break
        direction = change
    return 1.5 * found
