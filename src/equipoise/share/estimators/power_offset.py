"""Power law with an offset: error = c + a s^-b, for curves that level off above zero.

For each b of a grid the best c >= 0 and a >= 0 are a bounded line through (s^-b, error); the b whose line leaves the
least is kept. Running sums suffice, so an observation is forgotten once it is taken in (docs/share.md, 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equipoise.kernels import Bools, Floats, kernel
from equipoise.share.estimators._base import Estimate
from equipoise.share.view import Scene, View

B_GRID = np.geomspace(0.05, 1.5, 96)  # bounds as of the log-linear fit; with 48 the step in b shows in the work
N, SE, SEE, SHARED = 0, 1, 2, 3  # sums of 1, e, e^2; then for each b those of g, g^2 and g e, with g = s^-b
NEEDED = 4  # observations: one more than a, b and c
LOG_WORK_MOST = 15.0
SPREAD_LEAST, SPREAD_MOST = 0.02, 3.0
NOISE_LEAST = 1e-12  # variance of an error; less is rounding


@dataclass(frozen=True)
class PowerOffset:
    """Needs four observations; before that it does not know."""

    label, rank = "power law with offset", 2
    needs_truth = False

    def start(self, scene: Scene) -> PowerOffsetFit:
        return PowerOffsetFit(np.zeros((scene.seeds, scene.tasks, SHARED + 3 * len(B_GRID))))


@dataclass
class PowerOffsetFit:
    """Running sums of every task."""

    sums: Floats

    def learn(self, view: View) -> None:
        _learn(view.observed, view.samples, view.error, self.sums)

    def estimate(self, view: View) -> Estimate:
        found = Estimate.nothing(view.state.shape)
        _estimate(view.active, view.samples, view.target, self.sums, found)
        return found


@kernel
def _learn(observed: Bools, samples: Floats, error: Floats, sums: Floats) -> None:
    for s, i in zip(*np.nonzero(observed)):  # noqa: B905  # numba knows no strict
        x, e, m = math.log(max(samples[s, i], 1.0)), error[s, i], sums[s, i]
        m[N] += 1.0
        m[SE] += e
        m[SEE] += e * e
        for k in range(len(B_GRID)):
            g = math.exp(-B_GRID[k] * x)
            m[SHARED + 3 * k] += g
            m[SHARED + 3 * k + 1] += g * g
            m[SHARED + 3 * k + 2] += g * e


@kernel
def bounded_line(n: float, se: float, see: float, sg: float, sgg: float, sge: float) -> tuple[float, float, float]:
    """a >= 0 and c >= 0 with the least sum of (e - c - a g)^2, and that sum."""
    det = n * sgg - sg * sg
    a = (n * sge - sg * se) / det if det > 1e-12 * n * sgg else 0.0
    c = (se - a * sg) / n
    if a <= 0.0:  # errors that do not fall
        a, c = 0.0, max(se / n, 0.0)
    elif c < 0.0:
        a, c = max(sge / sgg, 0.0), 0.0
    rest = see - 2.0 * (a * sge + c * se) + a * a * sgg + 2.0 * a * c * sg + c * c * n
    return a, c, max(rest, 0.0)


@kernel
def log_work_of(a: float, b: float, c: float, target: float) -> float:
    """ln of the samples after which c + a s^-b reaches the target, from 0 to LOG_WORK_MOST: it never may."""
    if target - c >= a:
        return 0.0
    if target <= c:
        return LOG_WORK_MOST
    return min(math.log(a / (target - c)) / b, LOG_WORK_MOST)


@kernel
def _estimate(active: Bools, samples: Floats, target: Floats, sums: Floats, found: Estimate) -> None:
    """The best of the grid; its spread is that over the grid, by likelihood, and what the noise leaves open of a, c."""
    grid = len(B_GRID)
    rest, work = np.empty(grid), np.empty(grid)
    for s, i in zip(*np.nonzero(active)):  # noqa: B905  # numba knows no strict
        m, goal = sums[s, i], target[s, i]
        n = m[N]
        if n < NEEDED:
            continue
        best, best_a, best_c = 0, 0.0, 0.0
        for k in range(grid):
            at = SHARED + 3 * k
            a, c, rest[k] = bounded_line(n, m[SE], m[SEE], m[at], m[at + 1], m[at + 2])
            work[k] = log_work_of(a, B_GRID[k], c, goal)
            if k == 0 or rest[k] < rest[best]:
                best, best_a, best_c = k, a, c
        noise = max(rest[best] / (n - 3.0), NOISE_LEAST)
        total, apart = 0.0, 0.0
        for k in range(grid):
            w = math.exp(-0.5 * (rest[k] - rest[best]) / noise)
            total += w
            apart += w * (work[k] - work[best]) ** 2
        at = SHARED + 3 * best
        apart = apart / total + _open(best_a, B_GRID[best], best_c, goal, noise, n, m[at], m[at + 1])
        found.log_work[s, i] = work[best]
        found.left[s, i] = max(math.exp(work[best]) - samples[s, i], 0.0)
        found.spread[s, i] = min(max(math.sqrt(apart), SPREAD_LEAST), SPREAD_MOST)


@kernel
def _open(a: float, b: float, c: float, target: float, noise: float, n: float, sg: float, sgg: float) -> float:
    """Variance of ln work at a given b, by the delta method: ln work = (ln a - ln (target - c)) / b."""
    if a <= 0.0 or target <= c:
        return SPREAD_MOST**2
    by_a, by_c = 1.0 / (a * b), 1.0 / ((target - c) * b)
    det = n * sgg - sg * sg
    if c <= 0.0 or det <= 1e-12 * n * sgg:  # at the bound only a is open
        return noise * by_a * by_a / sgg
    return noise * (n * by_a * by_a - 2.0 * sg * by_a * by_c + sgg * by_c * by_c) / det
