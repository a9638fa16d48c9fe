"""Log-linear least squares: a straight line through (ln samples, ln error) of all observations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import INDEX, ZERO, Bools, Floats, Indices, Ints, inner, kernel
from equipoise.share._arithmetic import exp, ln
from equipoise.share.estimators._base import Estimate
from equipoise.share.view import Scene, View

MOMENTS = np.dtype(  # of x = ln samples, y = ln error: count, means, sums of squares about them; and ln target
    [(name, np.float64) for name in ("n", "x", "y", "xx", "xy", "yy", "aim")]
)
B_LEAST, B_MOST = 0.05, 1.5  # bounds on the slope
LOG_WORK_MOST = 15.0
AUTHORS_LEAST, AUTHORS_LEFT = 0.1, 10_000.0  # in Hasan and Peña's code: least a and b, most samples left
LOG_AUTHORS_LEAST = math.log(AUTHORS_LEAST)
ERROR_LEAST = 1e-4  # an observed error at or below zero is noise; its logarithm is taken here
TARGET_LEAST = 1e-300  # the same for a target of zero, which no curve reaches
BLOCK = 512  # tasks looked at together; those observed are fitted in a tile of so many columns
N, DONE, X, Y, MEAN_X, MEAN_Y, XX, XY, YY, AIM, B, LEFT, LOG_WORK = (BLOCK * row for row in range(13))  # its rows


@dataclass(frozen=True)
class LogLinear:
    """Needs three observations; before that it does not know. Where the slope is out of bounds, the line is turned.

    `separate`: as in Hasan and Peña's code two observations are enough, and slope and intercept are bounded separately.
    """

    separate: bool = False
    label, rank = "log-linear least squares", 1
    needs_truth = False

    def start(self, scene: Scene) -> LogLinearFit:
        shape = (scene.seeds, scene.tasks)
        return LogLinearFit(np.zeros(shape, MOMENTS), Estimate.nothing(shape), self.separate)


class Told(NamedTuple):
    """What a fit needs of the view."""

    observed: Bools
    samples: Floats
    error: Floats
    ready: Ints
    target: Floats
    first_error: Floats


@dataclass
class LogLinearFit:
    """Running moments of every task, and what follows from them: an estimate changes only when an error is observed.

    `whole`: it also tells the work in all and its spread; a policy that looks only at the work left can do without.
    """

    moments: NDArray[np.void]
    found: Estimate
    separate: bool = False
    whole: bool = True

    def learn(self, view: View) -> None:
        told = (view.observed, view.samples, view.error, view.ready, view.target, view.first_error)
        _learn(view.step, told, self.moments, tuple(self.found), self.separate, self.whole)

    def estimate(self, view: View) -> Estimate:
        """The fit's own arrays: read them, and do not write. A task that has left keeps its last estimate."""
        return self.found


@kernel
def _learn(step: int, told: Any, moments: NDArray[np.void], found: Any, separate: bool, whole: bool) -> None:
    """Tasks of all seeds in one row, a block at a time."""
    observed, samples, error, ready, target, first_error = told
    left, log_work, spread = found
    observed = observed.ravel()
    row = Told(observed, samples.ravel(), error.ravel(), ready.ravel(), target.ravel(), first_error.ravel())
    said = Estimate(left.ravel(), log_work.ravel(), spread.ravel())
    who, tile, every = np.empty(BLOCK + 1, INDEX), np.ones(13 * BLOCK), moments.ravel()
    for start in range(0, len(observed), BLOCK):
        n = ZERO
        for i in range(start, min(start + BLOCK, len(observed))):  # without a branch: where they are is hard to predict
            who[n] = i
            n += observed[i]
        _fit(step, who, n, row, every, said, separate, whole, tile)


@inner
def _fit(
    step: int,
    who: Indices,
    count: int,
    told: Told,
    moments: NDArray[np.void],
    found: Estimate,
    separate: bool,
    whole: bool,
    t: Floats,
) -> None:
    """Take in one error of each of the first `count` of `who`: gather, compute several at a time, scatter."""
    size = (count + 7) // 8 * 8  # whole vectors; what they compute beyond is not used
    for j in range(count):
        i, m = who[j], moments[who[j]]
        if m.n == 0.0:
            m.aim = math.log(max(told.target[i], TARGET_LEAST))
            if told.ready[i] == step:  # the site looks at once: its first error is a point too
                m.n, m.y = 1.0, math.log(max(told.first_error[i], ERROR_LEAST))
        t[N + j], t[MEAN_X + j], t[MEAN_Y + j], t[AIM + j] = m.n + 1.0, m.x, m.y, m.aim
        t[XX + j], t[XY + j], t[DONE + j], t[Y + j] = m.xx, m.xy, told.samples[i], max(told.error[i], ERROR_LEAST)
    for j in range(size):  # loops of their own, which have fewer numbers to hold at once
        t[X + j] = ln(max(t[DONE + j], 1.0))
    for j in range(size):
        t[Y + j] = ln(t[Y + j])
    for j in range(size):  # Welford's update
        x, y, mean_x, mean_y = t[X + j], t[Y + j], t[MEAN_X + j], t[MEAN_Y + j]
        part, dx, dy = 1.0 / t[N + j], x - mean_x, y - mean_y
        mean_x, mean_y = mean_x + part * dx, mean_y + part * dy
        xx, xy = t[XX + j] + dx * (x - mean_x), t[XY + j] + dx * (y - mean_y)
        t[MEAN_X + j], t[MEAN_Y + j], t[XX + j], t[XY + j], t[YY + j] = mean_x, mean_y, xx, xy, dy * (y - mean_y)
    for j in range(size):  # the line that follows; nan where nothing is known
        n, mean_x, mean_y, xx, xy = t[N + j], t[MEAN_X + j], t[MEAN_Y + j], max(t[XX + j], 1e-12), t[XY + j]
        b = min(max(-xy / xx, B_LEAST), B_MOST)
        if separate:
            log_a = max(mean_y - xy / xx * mean_x, LOG_AUTHORS_LEAST)
            b = max(-xy / xx, AUTHORS_LEAST)
            mean_y = log_a - b * mean_x  # the line that they take, where it passes the mean
        log_work = min(max(mean_x + (mean_y - t[AIM + j]) / b, 0.0), LOG_WORK_MOST)
        enough = (n >= (2.0 if separate else 3.0)) & (xx > 1e-12)
        t[B + j], t[LOG_WORK + j] = b, log_work if enough else math.nan
    for j in range(size):
        log_work = t[LOG_WORK + j]
        left = min(max(exp(log_work) - t[DONE + j], 0.0), AUTHORS_LEFT if separate else math.inf)
        t[LEFT + j] = left if log_work == log_work else math.nan
    for j in range(count):
        i, m = who[j], moments[who[j]]
        m.n, m.x, m.y, m.xx, m.xy = t[N + j], t[MEAN_X + j], t[MEAN_Y + j], t[XX + j], t[XY + j]
        found.left[i] = t[LEFT + j]
    for j in range(count if whole else 0):
        i, m = who[j], moments[who[j]]
        m.yy += t[YY + j]
        n, xx, xy, b, log_work = t[N + j], max(t[XX + j], 1e-12), t[XY + j], t[B + j], t[LOG_WORK + j]
        squares = max(m.yy + b * (2.0 * xy + b * xx), 0.0)  # of the residuals of ln error
        far = log_work - t[MEAN_X + j]
        variance = squares * (xx + n * far * far) / (n * xx * b * b * max(n - 2.0, 1.0))
        found.log_work[i], found.spread[i] = log_work, math.sqrt(variance) if log_work == log_work else math.inf
