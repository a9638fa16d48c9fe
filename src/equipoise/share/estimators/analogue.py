"""Analogues: a task is likely to go on like past tasks that have looked like it so far. At home on real curves.

A past task is a recorded curve with a target it did reach. How alike two tasks are is told by their errors relative to
their targets, along the way and now, and by the targets; alike ones vote on the work (docs/share.md, 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.errors import InputError
from equipoise.share.estimators.estimator import Estimate
from equipoise.share.normal import mean_beyond
from equipoise.share.view import Scene, View

Floats = NDArray[np.float64]

STEP, GRID = 0.15, 60  # of ln samples
TARGETS = 8  # past tasks made of one curve
PATH, NOW, GOAL = (
    0.4,
    0.3,
    0.5,
)  # widths, in ln error: of the path per unit of ln samples, of the last error, of targets
FIRST = 0.15  # weight of the first observation, in ln samples
ERROR_LEAST = 1e-4
SPREAD_LEAST, SPREAD_MOST = 0.1, 1.5
LEFT_LEAST = 3.0  # samples
WORK_MOST = 1e4  # samples; for a target that its own curve missed
DOUBT = 1e-6  # weight of a past task that is not alike at all


@dataclass(frozen=True)
class Analogue:
    widths: tuple[float, float, float] = (PATH, NOW, GOAL)
    label: ClassVar[str] = "analogues"
    needs_truth: ClassVar[bool] = False

    def start(self, scene: Scene) -> AnalogueFit:
        past = scene.prior.curves
        if past is None:
            raise InputError(
                "Analogue needs curves seen before: a workload whose prior has some, as Workload.recorded()"
            )
        grid = np.arange(GRID) * np.float64(STEP)
        paths = np.array([_resampled(grid, *past.points(k)) for k in range(len(past))])
        rows = np.repeat(np.arange(len(past)), TARGETS)
        goals = past.target_at(rows, np.tile(np.linspace(*past.targets, TARGETS), len(past)))
        table = (len(past), TARGETS)
        works = np.log(np.minimum(past.work(rows, goals), WORK_MOST))
        apart = np.zeros((scene.seeds, scene.tasks, len(past), 2), np.float32)
        last = np.full((scene.seeds, scene.tasks, 3), -1.0)
        return AnalogueFit(
            paths, np.log(goals).reshape(table), works.reshape(table), apart, last, np.array(self.widths)
        )


def _resampled(grid: Floats, samples: Floats, errors: Floats) -> Floats:
    """ln error on a grid of ln samples."""
    return np.interp(grid, np.log(samples), np.log(errors))


@dataclass
class AnalogueFit:
    """`apart` holds, for every task and past curve, the weighted sums of their distance and its square."""

    paths: Floats
    goals: Floats
    works: Floats
    apart: NDArray[np.float32]
    last: Floats  # ln samples, ln error, and the ln samples walked
    widths: Floats

    def learn(self, view: View) -> None:
        _learn(view.observed, view.samples, view.error, self.paths, self.apart, self.last)

    def estimate(self, view: View) -> Estimate:
        found = Estimate.nothing(view.state.shape)
        _estimate(view.active, view.samples, view.target, self.paths, self.goals, self.works, self.apart, self.last,
                  self.widths, found)  # fmt: skip
        return found


@kernel
def _at(paths: Floats, k: int, x: float) -> float:
    """ln error of a past curve at ln samples x."""
    place = min(x / STEP, paths.shape[1] - 1.001)
    cell = int(place)
    return float(paths[k, cell] + (place - cell) * (paths[k, cell + 1] - paths[k, cell]))


@kernel
def _learn(
    observed: NDArray[np.bool_], samples: Floats, error: Floats, paths: Floats, apart: NDArray[np.float32], last: Floats
) -> None:
    seeds, tasks = observed.shape
    for s in range(seeds):
        for i in range(tasks):
            if not observed[s, i]:
                continue
            x, y = math.log(max(samples[s, i], 1.0)), math.log(max(error[s, i], ERROR_LEAST))
            walked = FIRST if last[s, i, 0] < 0.0 else x - last[s, i, 0]
            for k in range(len(paths)):
                miss = y - _at(paths, k, x)
                apart[s, i, k, 0] += walked * miss
                apart[s, i, k, 1] += walked * miss * miss
            last[s, i, 2] = walked + max(last[s, i, 2], 0.0)
            last[s, i, 0], last[s, i, 1] = x, y


@kernel
def _estimate(
    active: NDArray[np.bool_], samples: Floats, target: Floats, paths: Floats, goals: Floats, works: Floats,
    apart: NDArray[np.float32], last: Floats, widths: Floats, found: Estimate,
) -> None:  # fmt: skip
    seeds, tasks = active.shape
    curves, targets = goals.shape
    far = np.empty((curves, targets))
    path, now, goal_width = 0.5 / widths[0] ** 2, 0.5 / widths[1] ** 2, 0.5 / widths[2] ** 2
    for s in range(seeds):
        for i in range(tasks):
            if not active[s, i]:
                continue
            goal, done = math.log(target[s, i]), math.log(max(samples[s, i], 1e-9))
            seen = last[s, i, 0] >= 0.0
            nearest = np.inf
            for k in range(curves):
                miss = last[s, i, 1] - _at(paths, k, last[s, i, 0]) if seen else 0.0
                for g in range(targets):
                    if works[k, g] <= done:
                        continue
                    c = goals[k, g] - goal  # errors are compared relative to their targets
                    gap = goal_width * c * c
                    if seen:
                        gap += path * (apart[s, i, k, 1] + 2.0 * c * apart[s, i, k, 0] + c * c * last[s, i, 2])
                        gap += now * (miss + c) ** 2
                    far[k, g] = gap
                    nearest = min(nearest, gap)
            total, mean, square = 0.0, 0.0, 0.0
            if nearest < np.inf:
                for k in range(curves):
                    for g in range(targets):
                        if works[k, g] > done:
                            w = DOUBT + (math.exp(nearest - far[k, g]) if far[k, g] - nearest < 15.0 else 0.0)
                            total += w
                            mean += w * works[k, g]
                            square += w * works[k, g] * works[k, g]
                mean /= total
                spread = math.sqrt(max(square / total - mean * mean, 0.0))
            else:
                mean, spread = done + 0.5, 0.5
            spread = min(max(spread, SPREAD_LEAST), SPREAD_MOST)
            found.log_work[s, i] = mean
            found.spread[s, i] = spread
            found.left[s, i] = max(mean_beyond(mean, spread, samples[s, i]), LEFT_LEAST)
