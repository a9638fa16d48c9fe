"""Log-linear least squares: a straight line through (ln samples, ln error), the paper's estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.share.elementary import exp, ln
from equipoise.share.estimators.estimator import Estimate
from equipoise.share.task import COMPUTING
from equipoise.share.view import Scene, View

Floats = NDArray[np.float64]

MOMENTS = np.dtype(  # of x = ln samples, y = ln error: count, means, sums of squares about them; and ln target
    [(name, np.float64) for name in ("n", "x", "y", "xx", "xy", "yy", "aim")]
)
B_LEAST, B_MOST = 0.05, 1.5  # the paper's bounds on the slope
LOG_WORK_MOST = 15.0
ERROR_LEAST = 1e-4  # an observed error at or below zero is noise; its logarithm is taken here
TARGET_LEAST = 1e-300  # the same for a target of zero, which no curve reaches
WIDTH = 256  # tasks fitted at a time, in a tile of so many columns that stays in the nearest cache
N, DONE, X, Y, MEAN_X, MEAN_Y, XX, XY, YY, AIM, LEFT, LOG_WORK, SPREAD = (WIDTH * row for row in range(13))  # its rows


@dataclass(frozen=True)
class LogLinear:
    """Needs three observations; before that it does not know."""

    label: ClassVar[str] = "log-linear least squares"
    needs_truth: ClassVar[bool] = False

    def start(self, scene: Scene) -> LogLinearFit:
        shape = (scene.seeds, scene.tasks)
        return LogLinearFit(np.zeros(shape, MOMENTS), Estimate.nothing(shape))

    def start_needs(self, scene: Scene) -> LogLinearNeeds:
        """The same fit for policies that ask for nothing but rates: no spread, and less to carry."""
        seats = (scene.tasks + SEATS - 1) // SEATS
        sizes, who = np.zeros(scene.seeds, np.int64), np.zeros((scene.seeds, seats * SEATS), np.uint32)
        return LogLinearNeeds(sizes, who, np.zeros(who.shape, np.bool_), np.ones((scene.seeds, seats, 7 * SEATS)))


@dataclass
class LogLinearFit:
    """Running moments of every task, and what follows from them: an estimate changes only when an error is observed."""

    moments: NDArray[np.void]
    found: Estimate

    def learn(self, view: View) -> None:
        _learn(view.observed, view.samples, view.error, view.target, self.moments, self.found)

    def estimate(self, view: View) -> Estimate:
        """The fit's own arrays: read them, and do not write. A task that has left keeps its last estimate."""
        return self.found


SEATS, DESK = 64, 192  # columns of a block of seats, and of the desk, where several blocks are worked on at a time
S_N, S_X, S_Y, S_XX, S_XY, S_AIM, S_END = (SEATS * row for row in range(7))  # rows of a block
D_N, D_X, D_Y, D_XX, D_XY, D_AIM, D_END, D_SEEN, D_DONE, D_ERROR, D_LOG, D_VALUE = (DESK * row for row in range(12))


@dataclass
class LogLinearNeeds:
    """Moments of the tasks that compute, seated without gaps: they are read, fitted and kept several at a time."""

    sizes: NDArray[np.int64]  # seats taken, of each seed
    who: NDArray[np.uint32]  # the task in each seat
    seated: NDArray[np.bool_]  # of each task
    seats: Floats  # seeds, blocks, rows of SEATS columns

    def needed(self, view: View, power: float, otherwise: float) -> Floats:
        """Take in the errors of the last step; then as `needed` in policies/learning.py."""
        return _needs(
            view.step, view.state, view.deadline, view.observed, view.samples, view.error, view.target, self.sizes,
            self.who, self.seated, self.seats, power, otherwise,
        )  # fmt: skip


@kernel
def _needs(
    step: int, state: NDArray[np.int8], deadline: NDArray[np.int64], observed: NDArray[np.bool_], samples: Floats,
    error: Floats, target: Floats, sizes: NDArray[np.int64], who: NDArray[np.uint32], seated: NDArray[np.bool_],
    seats: Floats, power: float, otherwise: float,
) -> Floats:  # fmt: skip
    """Seat whoever computes; carry seats to the desk until it is full, work there, and carry them back."""
    seeds = len(state)
    given, total, known = np.zeros(state.shape), np.zeros(seeds), np.zeros(seeds, np.int64)
    desk, carried, used, blocks = np.ones(12 * DESK), np.empty((DESK, 2), np.int64), 0, 0
    new, unknown = np.empty(state.size + 1, np.int64), 0
    for s in range(seeds):
        sizes[s] = seat(state[s], deadline[s], target[s], sizes[s], who[s], seated[s], seats[s])
        for first in range(0, sizes[s], SEATS):
            here, t, at = who[s, first : min(first + SEATS, sizes[s])], seats[s, first // SEATS], used
            seen, done, errors = observed[s], samples[s], error[s]
            used += (len(here) + 7) // 8 * 8
            for j in range(used - at):
                desk[D_N + at + j], desk[D_X + at + j], desk[D_Y + at + j] = t[S_N + j], t[S_X + j], t[S_Y + j]
                desk[D_XX + at + j], desk[D_XY + at + j] = t[S_XX + j], t[S_XY + j]
                desk[D_AIM + at + j], desk[D_END + at + j] = t[S_AIM + j], t[S_END + j]
                desk[D_SEEN + at + j] = 0.0
            for j in range(len(here)):
                i = here[j]
                desk[D_SEEN + at + j], desk[D_DONE + at + j], desk[D_ERROR + at + j] = seen[i], done[i], errors[i]
            carried[blocks, 0], carried[blocks, 1] = s, first
            blocks += 1
            if used > DESK - SEATS:
                work(desk, used, step, power)
                unknown = back(desk, carried[:blocks], sizes, who, seats, given, total, known, new, unknown)
                used, blocks = 0, 0
    work(desk, used, step, power)
    unknown = back(desk, carried[:blocks], sizes, who, seats, given, total, known, new, unknown)
    rates, tasks = given.reshape(-1), state.shape[1]
    for i in new[:unknown]:
        s = i // tasks
        rates[i] = total[s] / known[s] if known[s] > 0 else otherwise
    return given


@kernel
def seat(
    states: NDArray[np.int8], deadline: NDArray[np.int64], target: Floats, n: int, who: NDArray[np.uint32],
    seated: NDArray[np.bool_], seats: Floats,
) -> int:  # fmt: skip
    """The last one takes the seat of one who left; new ones sit down behind. How many sit now."""
    j, present = 0, 0
    while j < n:
        if states[who[j]] == COMPUTING:
            j += 1
            continue
        n -= 1
        seated[who[j]] = False
        who[j] = who[n]
        to, last = seats[j // SEATS], seats[n // SEATS]
        for row in range(0, 7 * SEATS, SEATS):
            to[row + j % SEATS] = last[row + n % SEATS]
        last[S_N + n % SEATS] = 0.0
    for i in range(len(states)):
        present += states[i] == COMPUTING
    for i in range(len(states) if present > n else 0):
        if states[i] == COMPUTING and not seated[i]:
            here, column = seats[n // SEATS], n % SEATS
            for row in range(0, 7 * SEATS, SEATS):
                here[row + column] = 0.0
            here[S_AIM + column], here[S_END + column] = math.log(max(target[i], TARGET_LEAST)), deadline[i]
            who[n], seated[i], n = i, True, n + 1
    return n


@kernel
def work(d: Floats, size: int, step: int, power: float) -> None:
    """Welford's update by whoever was seen, the line that follows, and its rate; zero where too little is known."""
    now = float(step)
    for j in range(size):
        d[D_LOG + j], d[D_ERROR + j] = ln(max(d[D_DONE + j], 1.0)), ln(max(d[D_ERROR + j], ERROR_LEAST))
    for j in range(size):
        seen, x, y = d[D_SEEN + j], d[D_LOG + j], d[D_ERROR + j]
        n = d[D_N + j] + seen
        part, dx, dy = seen / max(n, 1.0), x - d[D_X + j], y - d[D_Y + j]
        mean_x, mean_y = d[D_X + j] + part * dx, d[D_Y + j] + part * dy
        xx, xy = d[D_XX + j] + seen * dx * (x - mean_x), d[D_XY + j] + seen * dx * (y - mean_y)
        d[D_N + j], d[D_X + j], d[D_Y + j], d[D_XX + j], d[D_XY + j] = n, mean_x, mean_y, xx, xy
        b = min(max(-xy / max(xx, 1e-12), B_LEAST), B_MOST)
        d[D_LOG + j] = min(max(mean_x + (mean_y - d[D_AIM + j]) / b, 0.0), LOG_WORK_MOST)
    for j in range(size):
        d[D_VALUE + j] = max(exp(d[D_LOG + j]) - d[D_DONE + j], 1.0) / max(d[D_END + j] - now, 1.0)
    if power != 1.0:
        for j in range(size):
            d[D_VALUE + j] = exp(power * ln(d[D_VALUE + j]))
    for j in range(size):
        enough = (d[D_N + j] >= 3.0) & (d[D_XX + j] > 1e-12)
        d[D_VALUE + j] = d[D_VALUE + j] if enough else 0.0


@kernel
def back(
    d: Floats, carried: NDArray[np.int64], sizes: NDArray[np.int64], who: NDArray[np.uint32], seats: Floats,
    given: Floats, total: Floats, known: NDArray[np.int64], new: NDArray[np.int64], unknown: int,
) -> int:  # fmt: skip
    """Moments to their seats, rates to their tasks; each seed's sum of rates, how many are known, and who is not."""
    at = 0
    for k in range(len(carried)):
        s, first = carried[k, 0], carried[k, 1]
        here, t, row = who[s, first : min(first + SEATS, sizes[s])], seats[s, first // SEATS], given[s]
        size = (len(here) + 7) // 8 * 8
        for j in range(size):
            t[S_N + j], t[S_X + j], t[S_Y + j] = d[D_N + at + j], d[D_X + at + j], d[D_Y + at + j]
            t[S_XX + j], t[S_XY + j] = d[D_XX + at + j], d[D_XY + at + j]
        for j in range(len(here)):
            row[here[j]] = d[D_VALUE + at + j]
            new[unknown] = s * given.shape[1] + here[j]
            unknown += d[D_VALUE + at + j] == 0.0
        parts, count = (0.0, 0.0, 0.0, 0.0), 0
        for j in range(D_VALUE + at, D_VALUE + at + size, 4):  # four sums that do not wait for each other
            parts = parts[0] + d[j], parts[1] + d[j + 1], parts[2] + d[j + 2], parts[3] + d[j + 3]
        for j in range(size):
            count += d[D_VALUE + at + j] > 0.0
        total[s] += (parts[0] + parts[1]) + (parts[2] + parts[3])
        known[s], at = known[s] + count, at + size
    return unknown


@kernel
def _learn(
    observed: NDArray[np.bool_], samples: Floats, error: Floats, target: Floats, moments: NDArray[np.void],
    found: Estimate,
) -> None:  # fmt: skip
    seen, size = observed.reshape(-1), 0
    who, tile = np.empty(len(seen) + 1, np.int64), np.ones(13 * WIDTH)
    for i in range(len(seen)):
        who[size] = i
        size += seen[i]
    for start in range(0, size, WIDTH):
        _fit(who[start : min(start + WIDTH, size)], samples, error, target, moments, found, tile)


@kernel
def _fit(
    who: NDArray[np.int64], samples: Floats, error: Floats, target: Floats, moments: NDArray[np.void],
    found: Estimate, t: Floats,
) -> None:  # fmt: skip
    """Take in one error of each task, by its place in the batch: gather, compute several at a time, scatter."""
    size = (len(who) + 31) // 32 * 32  # whole vectors; what they compute beyond is not used
    done, seen, targets, minds = samples.reshape(-1), error.reshape(-1), target.reshape(-1), moments.reshape(-1)
    for j in range(len(who)):
        i = who[j]
        m = minds[i]
        if m.n == 0.0:
            m.aim = math.log(max(targets[i], TARGET_LEAST))
        t[N + j], t[MEAN_X + j], t[MEAN_Y + j], t[AIM + j] = m.n + 1.0, m.x, m.y, m.aim
        t[XX + j], t[XY + j], t[YY + j] = m.xx, m.xy, m.yy
        t[DONE + j], t[Y + j] = done[i], max(seen[i], ERROR_LEAST)
    for j in range(size):
        t[X + j], t[Y + j] = ln(max(t[DONE + j], 1.0)), ln(t[Y + j])
    for j in range(size):  # Welford's update, and the line that follows
        n, x, y = t[N + j], t[X + j], t[Y + j]
        part, dx, dy = 1.0 / n, x - t[MEAN_X + j], y - t[MEAN_Y + j]
        mean_x, mean_y = t[MEAN_X + j] + part * dx, t[MEAN_Y + j] + part * dy
        xx, xy, yy = t[XX + j] + dx * (x - mean_x), t[XY + j] + dx * (y - mean_y), t[YY + j] + dy * (y - mean_y)
        t[MEAN_X + j], t[MEAN_Y + j], t[XX + j], t[XY + j], t[YY + j] = mean_x, mean_y, xx, xy, yy
        enough = (n >= 3.0) & (xx > 1e-12)
        xx = max(xx, 1e-12)
        b = min(max(-xy / xx, B_LEAST), B_MOST)
        log_work = min(max(mean_x + (mean_y - t[AIM + j]) / b, 0.0), LOG_WORK_MOST)
        squares = max(yy + b * (2.0 * xy + b * xx), 0.0)  # of the residuals of ln error
        far = log_work - mean_x
        variance = squares * (xx + n * far * far) / (n * xx * b * b * max(n - 2.0, 1.0))
        left = max(exp(log_work) - t[DONE + j], 0.0)
        t[LEFT + j] = left if enough else math.nan
        t[LOG_WORK + j] = log_work if enough else math.nan
        t[SPREAD + j] = math.sqrt(variance) if enough else math.inf
    lefts, log_works, spreads = found.left.reshape(-1), found.log_work.reshape(-1), found.spread.reshape(-1)
    for j in range(len(who)):
        i = who[j]
        m = minds[i]
        m.n, m.x, m.y = t[N + j], t[MEAN_X + j], t[MEAN_Y + j]
        m.xx, m.xy, m.yy = t[XX + j], t[XY + j], t[YY + j]
        lefts[i], log_works[i], spreads[i] = t[LEFT + j], t[LOG_WORK + j], t[SPREAD + j]
