"""The quadratic cost of missing a wished-for share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.costs._base import box, described, length, per_node
from equipoise.train.costs._kernels import QUADRATIC


class Quadratic:
    """f_i(x) = a_i (x - c_i)^2 / 2: `a` is the curvature, `c` the share node i would like. Scalars broadcast."""

    parameters: ClassVar[tuple[str, ...]] = ("a", "c")  # of config.yaml; drawn by seed unless given

    @staticmethod
    def drawn(rng: np.random.Generator, nodes: int, samples: Floats | None) -> dict[str, Floats]:
        """Curvatures and wishes for so many nodes."""
        return {"a": rng.uniform(0.5, 3.0, nodes), "c": rng.uniform(10.0, 60.0, nodes)}

    def __init__(self, a: ArrayLike, c: ArrayLike, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> None:
        self.a, self.c = per_node("a", a), per_node("c", c)
        self.lo, self.hi = per_node("lo", lo), per_node("hi", hi)
        self.nodes = length(self.a, self.c, self.lo, self.hi)
        if not (np.isfinite(self.a).all() and (self.a > 0).all()):
            raise InputError(
                f"Quadratic needs curvature a > 0 (convex); the smallest given is {self.a.min():g}",
                code="cost.curvature",
            )
        if not np.isfinite(self.c).all():
            raise InputError("Quadratic needs finite wishes c")
        box(self, self.nodes or 1)

    __repr__ = described

    def value(self, x: Floats) -> Floats:
        return np.asarray(0.5 * self.a * (x - self.c) ** 2)

    def derivative(self, x: Floats) -> Floats:
        return np.asarray(self.a * (x - self.c))

    def second(self, x: Floats) -> Floats:
        """f'' = a."""
        return np.asarray(np.broadcast_to(self.a, x.shape))

    def curve(self) -> tuple[int, Floats, Floats]:
        """For kernels (costs/_kernels.py)."""
        return QUADRATIC, self.a, self.c

    def curvature(self) -> tuple[Floats, Floats]:
        return self.a, self.a

    def share_at(self, price: float) -> Floats:
        """The share at which the derivative equals the price, before the box."""
        return np.asarray(price / self.a + self.c)
