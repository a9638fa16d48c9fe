"""What policies for one resource shared in time have in common: two ways to learn the line ln loss = slope ln s + level.

Discounted least squares says where the line is now; a Kalman filter, in which the line moves and speeds up, where it will
be (docs/share.md, 8). Arrays have the shape (seeds, tasks, ...); `who` are the tasks that have just shown a loss.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import Bools, Floats, Ints
from equipoise.share.site import Server, Site
from equipoise.share.view import Decision, Policy, Prior, Scene, View, name_of

TINY = 1e-9  # a loss at or below zero has no logarithm
LOG_MOST = 30.0  # of samples or of a loss; beyond, an exponential says nothing


@dataclass(frozen=True)
class Remembering:
    """A policy that keeps a memory in a run; asked without a run it decides as in a first step."""

    called: str = field(default="", kw_only=True)  # another name, so that two settings can be compared

    def start(self, scene: Scene) -> Policy:
        raise InputError(f"{name_of(self)} does not say how it decides: define start(scene)")

    def decide(self, view: View) -> Decision:
        site = Site(servers=(Server(view.capacity / view.servers),) * view.servers)
        seeds, tasks = view.state.shape
        return self.start(Scene(site, Prior(), seeds, tasks, view.step + 1)).decide(view)


def logs(view: View) -> tuple[Floats, Floats, Floats]:
    """ln of the samples, of the loss and of the target of every task."""
    error, target = np.maximum(view.error, TINY), np.maximum(view.target, TINY)
    return np.log(np.maximum(view.samples, 1.0)), np.log(error), np.log(target)


class Line:
    """theta = (slope, level) = argmin ridge |theta|² + sum of discount^(n-i) (X_i' theta - y_i)², with X = (ln s, 1)."""

    def __init__(self, shape: tuple[int, int], discount: float, ridge: float) -> None:
        self.discount, self.ridge = discount, ridge
        self.squares = np.zeros((3, *shape))  # sums of x², x, 1
        self.products = np.zeros((2, *shape))  # sums of x y, y

    def learn(self, who: Bools, x: Floats, y: Floats) -> None:
        x, y = x[who], y[who]
        self.squares[:, who] = self.discount * self.squares[:, who] + np.array([x * x, x, np.ones_like(x)])
        self.products[:, who] = self.discount * self.products[:, who] + np.array([x * y, y])

    def _inverse(self) -> tuple[Floats, Floats, Floats]:
        """Of V = ridge I + sum of discount^(n-i) X X': its entries for x², x and 1."""
        xx, x, n = self.squares[0] + self.ridge, self.squares[1], self.squares[2] + self.ridge
        whole = xx * n - x * x
        return n / whole, -x / whole, xx / whole

    @property
    def theta(self) -> tuple[Floats, Floats]:
        """Slope and level."""
        xx, x, n = self._inverse()
        xy, y = self.products
        return xx * xy + x * y, x * xy + n * y

    def width(self, x: Floats) -> Floats:
        """|X|_(V^-1) at X = (x, 1)."""
        xx, both, n = self._inverse()
        return np.asarray(np.sqrt(np.maximum(xx * x * x + 2.0 * both * x + n, 0.0)))

    def confidence(self, x: Floats, count: Ints, bound: float, noise: float, doubt: float) -> Floats:
        """beta of the optimistic estimate: a bound on |theta|, the noise of ln loss, how often it may be wrong."""
        grown = (x * x + 1.0) * (1.0 - self.discount ** (2.0 * count))
        shrink = 2.0 * self.ridge * max(1.0 - self.discount**2, 1e-12)
        spread = np.sqrt(2.0 * math.log(1.0 / doubt) + 2.0 * np.log1p(grown / shrink))
        return np.asarray(math.sqrt(self.ridge) * bound + noise * spread)


@dataclass(frozen=True)
class Motion:
    """Of theta, its velocity and its acceleration: what moves each between two losses, and what is known at first."""

    drift: tuple[float, float, float] = (1e-6, 1e-9, 1e-13)  # variances
    first: tuple[float, float, float] = (3e-3, 3e-9, 3e-13)  # variances
    slope: float = -0.7  # the mean, at first
    noise: float = 0.3  # standard deviation of ln loss


class LookAhead:
    """A Kalman filter for Theta = (theta, theta', theta''), one step of its clock for each loss."""

    def __init__(self, shape: tuple[int, int], motion: Motion) -> None:
        self.motion = motion
        self.forward = np.kron([[1.0, 1.0, 0.5], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]], np.eye(2))
        self.drift = np.kron(np.diag(motion.drift), np.eye(2))
        self.mean = np.zeros((*shape, 6))
        self.mean[..., 0] = motion.slope
        self.spread = np.tile(np.kron(np.diag(motion.first), np.eye(2)), (*shape, 1, 1))

    def learn(self, who: Bools, x: Floats, y: Floats) -> None:
        """Predict, then correct by what was seen: gain = P H / (R + H'PH) with H = (ln s, 1, 0, 0, 0, 0)."""
        mean = self.mean[who] @ self.forward.T
        spread = self.forward @ self.spread[who] @ self.forward.T + self.drift
        seen = np.zeros_like(mean)
        seen[:, 0], seen[:, 1] = x[who], 1.0
        shadow = (spread @ seen[:, :, None])[:, :, 0]  # P H
        gain = shadow / (self.motion.noise**2 + (seen * shadow).sum(axis=1))[:, None]
        self.mean[who] = mean + gain * (y[who] - (seen * mean).sum(axis=1))[:, None]
        self.spread[who] = spread - gain[:, :, None] * shadow[:, None, :]

    def predict(self, x: Floats, losses: Floats) -> Floats:
        """ln loss at x = ln s after so many more losses: theta + G theta' + G²/2 theta''."""
        line, speed, turn = self.mean[..., 0:2], self.mean[..., 2:4], self.mean[..., 4:6]
        ahead = losses[..., None]
        slope, level = np.moveaxis(line + ahead * speed + 0.5 * ahead**2 * turn, -1, 0)
        return np.asarray(slope * x + level)
