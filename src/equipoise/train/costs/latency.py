"""The cost of waiting for work, and of the energy that speed takes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.costs._base import box, described, length, per_node
from equipoise.train.costs._kernels import LATENCY


class Latency:
    """f_i(x) = work_i / (speed_i x) + energy_i x^3: seconds to finish, plus power that grows with the cube of speed.

    `work` in samples, `speed` in samples per second and CPU, x in CPUs; the box must keep x above 0.
    """

    parameters: ClassVar[tuple[str, ...]] = ("work", "speed", "energy")  # of config.yaml; drawn by seed unless given

    @staticmethod
    def drawn(rng: np.random.Generator, nodes: int, samples: Floats | None) -> dict[str, Floats]:
        """Work as each node has samples, or equal; speeds that differ; a little energy."""
        work = np.full(nodes, 1000.0) if samples is None else samples
        speed = np.exp(0.5 * rng.standard_normal(nodes)) * work.mean() / 500.0
        return {"work": work, "speed": speed, "energy": np.full(nodes, 1e-4)}

    def __init__(
        self, work: ArrayLike, speed: ArrayLike = 1.0, energy: ArrayLike = 0.0, *, lo: ArrayLike, hi: ArrayLike
    ) -> None:
        self.work, self.speed = per_node("work", work), per_node("speed", speed)
        self.energy = per_node("energy", energy)
        self.lo, self.hi = per_node("lo", lo), per_node("hi", hi)
        self.nodes = length(self.work, self.speed, self.energy, self.lo, self.hi)
        for name, array in (("work", self.work), ("speed", self.speed)):
            if not (np.isfinite(array).all() and (array > 0).all()):
                raise InputError(
                    f"Latency needs {name} > 0; the smallest given is {array.min():g}", code=f"cost.{name}"
                )
        if not (np.isfinite(self.energy).all() and (self.energy >= 0).all()):
            raise InputError(
                f"Latency needs energy >= 0; the smallest given is {self.energy.min():g}", code="cost.energy"
            )
        if not (self.lo > 0).all():
            raise InputError(
                f"Latency needs lo > 0 (no CPU, no finish); the smallest given is {self.lo.min():g}", code="cost.lo"
            )
        if not np.isfinite(self.hi).all():
            raise InputError(
                "Latency needs a finite hi: its curvature has no bound on an unbounded box", code="cost.unbounded"
            )
        box(self, self.nodes or 1)

    __repr__ = described

    def value(self, x: Floats) -> Floats:
        return np.asarray(self.work / (self.speed * x) + self.energy * x**3)

    def derivative(self, x: Floats) -> Floats:
        return np.asarray(3 * self.energy * x**2 - self.work / (self.speed * x**2))

    def second(self, x: Floats) -> Floats:
        """f'' = 2 work / (speed x^3) + 6 energy x."""
        return np.asarray(2 * self.work / (self.speed * x**3) + 6 * self.energy * x)

    def curve(self) -> tuple[int, Floats, Floats]:
        """For kernels (costs/_kernels.py)."""
        return LATENCY, self.work / self.speed, self.energy

    def curvature(self) -> tuple[Floats, Floats]:
        """f'' is convex in x: largest at an end of the box, smallest where 6 work/(speed x^4) = 6 energy."""
        with np.errstate(divide="ignore"):
            flattest = np.clip((self.work / (self.speed * self.energy)) ** 0.25, self.lo, self.hi)
        return self.second(flattest), np.maximum(self.second(self.lo), self.second(self.hi))

    def share_at(self, price: float) -> Floats:
        """The share at which the derivative equals the price, before the box: 3 energy x^4 - price x^2 = work / speed."""
        seconds = self.work / self.speed
        root = np.hypot(price, np.sqrt(12 * self.energy * seconds))
        with np.errstate(divide="ignore", invalid="ignore"):  # without energy no share is worth a price above 0
            above = np.where(self.energy > 0, (price + root) / (6 * self.energy), np.inf)
            return np.asarray(np.sqrt(2 * seconds / (root - price) if price < 0 else above))
