"""The cost of a noisy gradient: CPU buys samples, and samples buy certainty (docs/train.md, 6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs._base import Cost, box, curvature, described, length, per_node, second

MEMORY = 40.0  # rounds over which sigma is averaged
FLOOR = 1e-3  # of the largest sigma a centre has shown: what it shows later counts for at least this
UNSEEN = 1.0  # sigma of a centre that has shown nothing yet
LONE = 1e-6  # sigma of a centre with a single sample, whose gradient is exact whatever its share
AGAIN = 20  # rounds: how often a centre that can pay for one sample draws two, to see its own variance
NEWTON = 60


class Coupled:
    """f_i(x) = cost_i(x) + beta p_i^2 sigma_i^2 / (tau speed_i x): what the noise of centre i's gradient costs.

    With x CPUs a centre of `speed` (samples per CPU and second) draws tau speed x samples in a round of `tau` seconds. p_i
    is its part of all samples, `sizes` over their sum, and sigma_i^2 the variance of one sample's gradient: `sigma` where it
    is known; else every centre estimates its own from its batches, and the cost moves with it. `beta` weighs noise against
    `cost`, any other cost of CPU. Drawing without repetition takes p_i^2 sigma_i^2 / N_i off, which moves no optimum; `hi`
    should be at most N_i / (tau speed_i), where the batch is the whole shard.
    """

    never_flat = True  # f'' >= 2 noise / hi^3, and second() tells it exactly (costs/_kernels.py)

    def __init__(
        self,
        speed: ArrayLike,
        *,
        sizes: ArrayLike,
        lo: ArrayLike,
        hi: ArrayLike,
        tau: float = 1.0,
        beta: float = 1.0,
        cost: Cost | None = None,
        sigma: ArrayLike | None = None,
    ) -> None:
        given = np.asarray(sizes)
        if given.dtype.kind not in "iu" or given.ndim != 1 or (given < 1).any():
            raise InputError(
                f"Coupled needs sizes, the samples of each centre, whole numbers of at least 1; not {sizes!r}",
                code="cost.sizes",
            )
        self.sizes: Ints = given.astype(np.int64)
        self.nodes = len(given)
        self.part: Floats = self.sizes / self.sizes.sum()  # p_i
        self.speed = per_node("speed", speed, self.nodes)
        self.lo, self.hi = per_node("lo", lo, self.nodes), per_node("hi", hi, self.nodes)
        self.tau, self.beta, self.cost = float(tau), float(beta), cost
        for name, array in (("speed", self.speed), ("tau", np.array(self.tau)), ("beta", np.array(self.beta))):
            if not (np.isfinite(array).all() and (array > 0).all()):
                raise InputError(f"Coupled needs {name} > 0; the smallest given is {array.min():g}")
        if not (self.lo > 0).all():
            raise InputError(
                f"Coupled needs lo > 0 (no CPU, no gradient); the smallest given is {self.lo.min():g}", code="cost.lo"
            )
        if not np.isfinite(self.hi).all():
            raise InputError(
                "Coupled needs a finite hi: give at most sizes / (tau * speed), the whole shard each round",
                code="cost.unbounded",
            )
        if cost is not None:
            length(self.speed, per_node("lo", cost.lo), per_node("hi", cost.hi))
        box(self, self.nodes)
        self.moves = sigma is None  # whether f changes during a run
        # x(0): what would be best if all sigma_i were alike and CPU cost nothing else; a centre knows its own.
        self.first_wish: Floats | None = self.sizes / np.sqrt(self.speed) if cost is None else None
        self._known: Floats | None = None if sigma is None else per_node("sigma", sigma, self.nodes)
        if self._known is not None and not (np.isfinite(self._known).all() and (self._known > 0).all()):
            raise InputError(f"Coupled needs sigma > 0; the smallest given is {self._known.min():g}", code="cost.sigma")
        self.forget()

    def forget(self) -> None:
        """As before the first round."""
        self._sum, self._weight, self._peak = np.zeros(self.nodes), np.zeros(self.nodes), np.zeros(self.nodes)
        self._set(np.where(self.sizes > 1, UNSEEN, LONE) if self._known is None else self._known)

    def tell(self, sigma: Floats) -> None:
        """From now on sigma is this: for whoever knows better than the batches."""
        self._set(per_node("sigma", sigma, self.nodes))

    def _set(self, sigma: Floats) -> None:
        self.sigma = sigma
        self.noise = self.beta * (self.part * sigma) ** 2 / (self.tau * self.speed)

    def observe(self, spread: Floats, batch: Ints) -> None:
        """What the last batches showed of every centre's variance: the mean of the last MEMORY rounds or so, each batch with
        its degrees of freedom, so that the first rounds are not biased and a lone sample says nothing."""
        if not self.moves:
            return
        shown = np.isfinite(spread) & (batch > 1)
        freedom = np.where(shown, batch - 1, 0) / MEMORY
        keep = np.where(shown, 1.0 - 1.0 / MEMORY, 1.0)
        self._sum = keep * self._sum + freedom * np.where(shown, spread, 0.0)
        self._weight = keep * self._weight + freedom
        seen = self._weight > 0
        sigma = np.sqrt(self._sum / np.where(seen, self._weight, 1.0))
        self._peak = np.maximum(self._peak, sigma)
        self._set(np.where(seen & (self._peak > 0), np.maximum(sigma, FLOOR * self._peak), self.sigma))

    def batches(self, shares: Floats, number: int = 0) -> Ints:
        """B_i = floor(tau speed_i x_i), from 1 to the shard; where that is 1, two in the first and every AGAIN-th round."""
        affords = np.floor(self.tau * self.speed * shares * (1.0 + 1e-12)).astype(np.int64)  # 3.0000 bought is 3
        least = 2 if self.moves and number % AGAIN == 0 else 1
        return np.minimum(np.maximum(affords, least), self.sizes)

    __repr__ = described

    def value(self, x: Floats) -> Floats:
        own = self.noise / x
        return np.asarray(own if self.cost is None else own + self.cost.value(x))

    def derivative(self, x: Floats) -> Floats:
        own = -self.noise / x**2
        return np.asarray(own if self.cost is None else own + self.cost.derivative(x))

    def second(self, x: Floats) -> Floats:
        """f'' = 2 noise / x^3, and the other cost's."""
        own = 2.0 * self.noise / x**3
        return np.asarray(own if self.cost is None else own + second(self.cost, x, self.lo, self.hi))

    def curvature(self) -> tuple[Floats, Floats]:
        """Of the noise as it is now; the other cost's smallest and largest are added, a bound on both."""
        steep, flat = 2.0 * self.noise / self.lo**3, 2.0 * self.noise / self.hi**3
        if self.cost is None:
            return flat, steep
        least, most = curvature(self.cost, self.lo, self.hi)
        return flat + least, steep + most

    @property
    def share_at(self) -> Callable[[float], Floats] | None:
        """The share at which the derivative equals a price; in closed form where noise is all there is."""
        return self._share_at if self.cost is None else None

    def _share_at(self, price: float) -> Floats:
        return np.sqrt(self.noise / -price) if price < 0 else np.full(self.nodes, np.inf)

    @property
    def response(self) -> Callable[[Floats, Floats, Floats], Floats] | None:
        """The x with x + weight f'(x) = level; where noise is all there is."""
        return self._response if self.cost is None else None

    def _response(self, weight: Floats, level: Floats, guess: Floats) -> Floats:
        """x^3 - level x^2 = weight noise: Newton on x - weight noise / x^2 = level, which rises and is concave, so that from
        the left of the root it never steps over it."""
        pull = weight * self.noise
        cube = np.cbrt(pull)
        with np.errstate(divide="ignore"):
            x = np.where(
                level > 0, np.maximum(level, cube), np.minimum(0.79 * cube, np.sqrt(0.5 * pull / np.abs(level)))
            )
        moving = np.ones(len(x), dtype=np.bool_)  # who is there stays: no node's answer depends on others
        for _ in range(NEWTON):
            step = (level - x + pull / x**2) / (1.0 + 2.0 * pull / x**3)
            x = np.where(moving, x + step, x)
            moving &= np.abs(step) > 1e-15 * x
            if not moving.any():
                break
        return np.asarray(x)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {"sum": self._sum, "weight": self._weight, "peak": self._peak, "sigma": self.sigma}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self._sum, self._weight, self._peak = memory["sum"], memory["weight"], memory["peak"]
        self._set(memory["sigma"])
