"""Analogues: a task is likely to go on like past tasks that have looked like it so far. At home on real curves.

A past task is a recorded curve with a target it did reach. How alike two tasks are is told by their errors relative to
their targets, along the way and now, and by the targets; alike ones vote on the work (docs/share.md, 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.share.estimators._base import PARTS, Estimate
from equipoise.share.view import Scene, View

STEP, GRID = 0.15, 60  # of ln samples
TARGETS = 8  # past tasks made of one curve
PATH, NOW, GOAL = 0.4, 0.3, 0.5  # widths, in ln error: of the path (per unit of ln samples), the last error, targets
FIRST = 0.15  # weight of the first observation, in ln samples
ERROR_LEAST = 1e-4
SPREAD_LEAST, SPREAD_MOST = 0.1, 1.5
LEFT_LEAST = 3.0  # samples
WORK_MOST = 1e4  # samples; for a target that its own curve missed
DOUBT = 1e-6  # weight of a past task that is not alike at all


@dataclass(frozen=True)
class Analogue:
    widths: tuple[float, float, float] = (PATH, NOW, GOAL)
    label, rank = "analogues", 4
    needs_truth = False
    needs_curves = True  # of past tasks

    def start(self, scene: Scene) -> AnalogueFit:
        past = scene.prior.curves
        if past is None:
            why = "Analogue needs curves seen before: a workload whose prior has some, as Workload.recorded()"
            raise InputError(why, code="estimator.curves")
        grid = np.arange(GRID) * np.float64(STEP)
        points = map(past.points, range(len(past)))
        paths = np.array([np.interp(grid, np.log(samples), np.log(errors)) for samples, errors in points])
        rows = np.repeat(np.arange(len(past)), TARGETS)
        goals = past.target_at(rows, np.tile(np.linspace(*past.targets, TARGETS), len(past)))
        works = np.minimum(past.work(rows, goals), WORK_MOST)
        order = np.argsort(works, kind="stable")
        apart = np.zeros((scene.seeds, scene.tasks, len(past), 2), np.float32)
        last = np.full((scene.seeds, scene.tasks, 3), -1.0)
        ahead = np.zeros((scene.seeds, scene.tasks, PARTS))
        tasks = PastTasks(paths, rows[order], np.log(goals[order]), works[order], np.array(self.widths))
        return AnalogueFit(tasks, apart, last, ahead)


class PastTasks(NamedTuple):
    """Past tasks, which ascend in work, and the widths by which they are compared."""

    paths: Floats  # of each past curve
    curve: Ints  # of each past task
    goals: Floats  # ln targets of past tasks
    works: Floats  # samples
    widths: Floats


@dataclass
class AnalogueFit:
    """`apart` holds, for every task and past curve, sums of their distance and its square."""

    past: PastTasks
    apart: NDArray[np.float32]
    last: Floats  # ln samples, ln error, and the ln samples walked
    ahead: Floats  # quantiles of the samples still needed

    def learn(self, view: View) -> None:
        _learn(view.observed, view.samples, view.error, self.past.paths, self.apart, self.last)

    def estimate(self, view: View) -> Estimate:
        found = Estimate.nothing(view.state.shape)
        _estimate(view.active, view.samples, view.target, self.past, self.apart, self.last, self.ahead, found)
        return found

    def outlook(self, view: View, estimate: Estimate) -> Floats:
        """Quantiles of the work left, straight from the votes."""
        return self.ahead


@kernel
def _at(paths: Floats, k: int, x: float) -> float:
    """ln error of a past curve at ln samples x."""
    place = min(x / STEP, paths.shape[1] - 1.001)
    cell = int(place)
    return float(paths[k, cell] + (place - cell) * (paths[k, cell + 1] - paths[k, cell]))


@kernel
def _learn(
    observed: Bools, samples: Floats, error: Floats, paths: Floats, apart: NDArray[np.float32], last: Floats
) -> None:
    for s, i in zip(*np.nonzero(observed)):  # noqa: B905  # numba knows no strict
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
    active: Bools,
    samples: Floats,
    target: Floats,
    past: PastTasks,
    apart: NDArray[np.float32],
    last: Floats,
    ahead: Floats,
    found: Estimate,
) -> None:
    paths, works = past.paths, past.works
    misses, votes = np.empty(len(paths)), np.empty(len(works))
    for s, i in zip(*np.nonzero(active)):  # noqa: B905  # numba knows no strict
        if last[s, i, 0] >= 0.0:
            for k in range(len(paths)):
                misses[k] = last[s, i, 1] - _at(paths, k, last[s, i, 0])
        first = np.searchsorted(works, samples[s, i], side="right")  # a lighter past task would be done
        goal = math.log(max(target[s, i], ERROR_LEAST))
        _vote(goal, first, past, apart[s, i], last[s, i], misses, votes)
        _believe(ahead[s, i], found, s, i, samples[s, i], works, votes, first)


@kernel
def _vote(
    goal: float, first: int, past: PastTasks, apart: NDArray[np.float32], last: Floats, misses: Floats, votes: Floats
) -> None:
    """votes[first:] of past tasks: exp of minus half their squared distances, errors relative to targets."""
    curve, goals, widths = past.curve, past.goals, past.widths
    path, now, aim = 0.5 / widths[0] ** 2, 0.5 / widths[1] ** 2, 0.5 / widths[2] ** 2
    nearest = np.inf
    for h in range(first, len(goals)):
        k, c = curve[h], goals[h] - goal
        far = aim * c * c
        if last[0] >= 0.0:
            far += path * (apart[k, 1] + 2.0 * c * apart[k, 0] + c * c * last[2]) + now * (misses[k] + c) ** 2
        votes[h] = far
        nearest = min(nearest, far)
    for h in range(first, len(goals)):
        votes[h] = DOUBT + (math.exp(nearest - votes[h]) if votes[h] - nearest < 15.0 else 0.0)


@kernel
def _believe(
    ahead: Floats, found: Estimate, s: int, i: int, done: float, works: Floats, votes: Floats, first: int
) -> None:
    """Mean, spread and quantiles of the votes; a task heavier than all past ones is believed half as heavy again."""
    total, mean, middle, square = 0.0, 0.0, 0.0, 0.0
    for h in range(first, len(works)):
        x = math.log(works[h])
        total += votes[h]
        mean += votes[h] * works[h]
        middle += votes[h] * x
        square += votes[h] * x * x
    if first == len(works):
        ahead[:] = 0.5 * done
        found.left[s, i], found.log_work[s, i], found.spread[s, i] = 0.5 * done, math.log(1.5 * done), SPREAD_MOST
        return
    middle /= total
    found.left[s, i] = max(mean / total - done, LEFT_LEAST)
    found.log_work[s, i] = middle
    found.spread[s, i] = min(max(math.sqrt(max(square / total - middle * middle, 0.0)), SPREAD_LEAST), SPREAD_MOST)
    passed, h = 0.0, first
    for k in range(len(ahead)):
        while h < len(works) - 1 and passed + votes[h] < (k + 0.5) / len(ahead) * total:
            passed += votes[h]
            h += 1
        ahead[k] = works[h] - done
