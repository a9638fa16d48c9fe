"""Log-linear least squares: a straight line through (ln samples, ln error), the paper's estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.share.estimators.estimator import Estimate
from equipoise.share.view import Scene, View

Floats = NDArray[np.float64]

MOMENTS = 6  # n, sum x, sum y, sum xx, sum xy, sum yy with x = ln samples, y = ln error
B_LEAST, B_MOST = 0.05, 1.5  # the paper's bounds on the slope
LOG_WORK_MOST = 15.0
ERROR_LEAST = 1e-4  # an observed error at or below zero is noise; its logarithm is taken here


@dataclass(frozen=True)
class LogLinear:
    """Needs three observations; before that it does not know."""

    label: ClassVar[str] = "log-linear least squares"
    needs_truth: ClassVar[bool] = False

    def start(self, scene: Scene) -> LogLinearFit:
        return LogLinearFit(np.zeros((scene.seeds, scene.tasks, MOMENTS)))


@dataclass
class LogLinearFit:
    """Running moments of every task."""

    moments: Floats

    def learn(self, view: View) -> None:
        _learn(view.observed, view.samples, view.error, self.moments)

    def estimate(self, view: View) -> Estimate:
        found = Estimate.nothing(view.state.shape)
        _estimate(view.active, view.samples, view.target, self.moments, found)
        return found


@kernel
def _learn(observed: NDArray[np.bool_], samples: Floats, error: Floats, moments: Floats) -> None:
    seeds, tasks = observed.shape
    for s in range(seeds):
        for i in range(tasks):
            if observed[s, i]:
                x, y = math.log(max(samples[s, i], 1.0)), math.log(max(error[s, i], ERROR_LEAST))
                m = moments[s, i]
                m[0] += 1.0
                m[1] += x
                m[2] += y
                m[3] += x * x
                m[4] += x * y
                m[5] += y * y


@kernel
def _estimate(active: NDArray[np.bool_], samples: Floats, target: Floats, moments: Floats, found: Estimate) -> None:
    seeds, tasks = active.shape
    for s in range(seeds):
        for i in range(tasks):
            n = moments[s, i, 0]
            if not active[s, i] or n < 3.0:
                continue
            mean_x, mean_y = moments[s, i, 1] / n, moments[s, i, 2] / n
            sxx = moments[s, i, 3] - n * mean_x * mean_x
            sxy = moments[s, i, 4] - n * mean_x * mean_y
            syy = moments[s, i, 5] - n * mean_y * mean_y
            if sxx <= 1e-12:
                continue
            b = min(max(-sxy / sxx, B_LEAST), B_MOST)
            log_work = (mean_y + b * mean_x - math.log(target[s, i])) / b
            log_work = min(max(log_work, 0.0), LOG_WORK_MOST)
            noise = max(syy + 2.0 * b * sxy + b * b * sxx, 0.0) / (n - 2.0)  # residual variance of ln error
            far = log_work - mean_x
            found.log_work[s, i] = log_work
            found.left[s, i] = max(math.exp(log_work) - samples[s, i], 0.0)
            found.spread[s, i] = math.sqrt(noise * (1.0 / n + far * far / sxx)) / b
