"""A model as some of its nodes see it: the problem that survivors are left with."""

from __future__ import annotations

import numpy as np

from equipoise.train.arrays import Floats, Ints
from equipoise.train.models._base import Model
from equipoise.train.models.least_squares import LeastSquares


class Subset(Model):
    """The losses g_i of these nodes only, each as it was."""

    def __init__(self, model: Model, nodes: Ints) -> None:
        self.whole, self.chosen = model, nodes
        self.nodes, self.size = len(nodes), model.size
        self.convexity = model.convexity * len(nodes) / model.nodes  # a ridge is dealt out evenly
        self.quick_totals = isinstance(model, LeastSquares)

    def loss(self, node: int, y: Floats) -> float:
        return self.whole.loss(int(self.chosen[node]), y)

    def gradient(self, node: int, y: Floats) -> Floats:
        return self.whole.gradient(int(self.chosen[node]), y)

    def totals(self, Y: Floats) -> Floats:
        if not isinstance(self.whole, LeastSquares):
            return super().totals(Y)
        best = self.whole.optimum_of(self.chosen)
        least, _ = self.total(best)
        H = self.whole.hessian[self.chosen].sum(axis=0)
        return np.asarray(least + 0.5 * np.einsum("ij,jk,ik->i", Y - best, H, Y - best))

    def optimum(self) -> Floats | None:
        """By QR on the pooled rows of these nodes, where the model is least squares."""
        if not isinstance(self.whole, LeastSquares):
            return None
        return self.whole.optimum_of(self.chosen)
