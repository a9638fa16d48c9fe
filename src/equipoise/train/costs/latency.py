"""The cost of waiting for work, and of the energy that speed takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from equipoise.compiled import kernel
from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.costs.cost import box, length, per_node


HALVINGS, CLOSE = 200, 4e-16


@kernel
def _response(work: Floats, energy: Floats, lo: Floats, hi: Floats, weight: Floats, level: Floats, x: Floats) -> Floats:
    """Newton from the last answer on h(x) = x + weight (3 energy x^2 - work / x^2) - level, which rises; halving where
    it would leave what is known to hold the root."""
    out = np.empty(len(x))
    for i in range(len(x)):
        low, high, at = lo[i], hi[i], min(max(x[i], lo[i]), hi[i])
        for _ in range(HALVINGS):
            h = at + weight[i] * (3.0 * energy[i] * at * at - work[i] / (at * at)) - level[i]
            slope = 1.0 + weight[i] * (6.0 * energy[i] * at + 2.0 * work[i] / (at * at * at))
            if h > 0.0:
                high = at
            else:
                low = at
            step = at - h / slope
            if abs(step - at) <= CLOSE * at or high - low <= CLOSE * high:
                at = min(max(step, low), high)
                break
            at = step if low < step < high else 0.5 * (low + high)
        out[i] = at
    return out


class Latency:
    """f_i(x) = work_i / (speed_i x) + energy_i x^3: seconds to finish, plus power that grows with the cube of speed.

    `work` in samples, `speed` in samples per second and CPU, x in CPUs; the box must keep x above 0.
    """

    def __init__(
        self,
        work: ArrayLike,
        speed: ArrayLike = 1.0,
        energy: ArrayLike = 0.0,
        *,
        lo: ArrayLike,
        hi: ArrayLike,
    ) -> None:
        self.work, self.speed = per_node("work", work), per_node("speed", speed)
        self.energy = per_node("energy", energy)
        self.lo, self.hi = per_node("lo", lo), per_node("hi", hi)
        self.nodes = length(self.work, self.speed, self.energy, self.lo, self.hi)
        for name, array in (("work", self.work), ("speed", self.speed)):
            if not (np.isfinite(array).all() and (array > 0).all()):
                raise InputError(f"Latency needs {name} > 0; the smallest given is {array.min():g}")
        if not (np.isfinite(self.energy).all() and (self.energy >= 0).all()):
            raise InputError(f"Latency needs energy >= 0; the smallest given is {self.energy.min():g}")
        if not (self.lo > 0).all():
            raise InputError(f"Latency needs lo > 0 (no CPU, no finish); the smallest given is {self.lo.min():g}")
        if not np.isfinite(self.hi).all():
            raise InputError("Latency needs a finite hi: its curvature has no bound on an unbounded box")
        box(self, self.nodes or 1)

    def value(self, x: Floats) -> Floats:
        return np.asarray(self.work / (self.speed * x) + self.energy * x**3)

    def derivative(self, x: Floats) -> Floats:
        return np.asarray(3 * self.energy * x**2 - self.work / (self.speed * x**2))

    def second(self, x: Floats) -> Floats:
        """f'' = 2 work / (speed x^3) + 6 energy x."""
        return np.asarray(2 * self.work / (self.speed * x**3) + 6 * self.energy * x)

    def response(self, weight: Floats, level: Floats, guess: Floats) -> Floats:
        """The x with x + weight f'(x) = level, or the end of the box before it."""
        each = (np.broadcast_to(part, guess.shape) for part in (self.work / self.speed, self.energy, self.lo, self.hi))
        return _response(*each, weight, level, guess)

    def curvature(self) -> tuple[Floats, Floats]:
        """f'' is convex in x: largest at an end of the box, smallest where 6 work/(speed x^4) = 6 energy."""
        with np.errstate(divide="ignore"):
            flattest = np.clip((self.work / (self.speed * self.energy)) ** 0.25, self.lo, self.hi)
        return self.second(flattest), np.maximum(self.second(self.lo), self.second(self.hi))
