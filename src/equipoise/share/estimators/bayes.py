"""Bayesian log-linear: every curve is drawn from a population that is learnt, with the noise, while tasks run.

ln error = ln a - b ln s. A task's belief about (ln a, b) is the population's plus its own observations, weighted by how
well they can be read: the noise is additive, so ln error is known to sigma / error (docs/share.md, 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import Bools, Floats, borrowed, inner, kernel
from equipoise.share._arithmetic import exp, ln, mean_beyond
from equipoise.share.estimators._base import Estimate
from equipoise.share.task import COMPUTING, PENDING, SENDING
from equipoise.share.view import Scene, View

# Strength of what is believed before anything is seen, in tasks or observations (tuned on seeds 4000-4599).
MEAN_SPREAD = 0.1  # how far a told prior mean may be off
COVARIANCE_TASKS = 5.0
NOISE, NOISE_OBSERVATIONS = 0.02, 4.0
B_LEAST = 0.02
LOG_WORK_MOST = 9.0
SPREAD_LEAST, SPREAD_MOST = 0.02, 1.5
LEFT_LEAST = 3.0  # samples
EARLY, JUDGED, MOVE_MOST = 3, 6, 25.0  # observations before an estimate is noted, and judged; cap of one judgement
JUDGEMENTS = 6.0  # weight of the prior surprise, in tasks
SURPRISE_MOST = 16.0
ODD = 9.0  # squared distance from the population from which a task is not taken to be of it
LARGEST = 1e300  # of such distances
TARGET_LEAST = 1e-300  # a target of zero, which no curve reaches, has no logarithm

WIDTH = 64  # tasks of a tile, which computes several of them at a time
N, SW, SX, SXX, SY, SXY, SYY, LA, LB, VAA, VAB, VBB, LW3, SD3, MOVED, AIM = (WIDTH * row for row in range(16))
ROOM = 16 * WIDTH  # rows of a tile: count and moments, the belief, what was said early and how far it moved, ln target
SAW, X, Y, LOG, LINE, EXPECTED = (WIDTH * row for row in range(6))  # rows beside it, of the last step
Last = tuple[Bools, Floats, Floats]  # of the view: who was observed, samples, errors
States = NDArray[np.int8]
ODD_MOST = 7  # of a seed: the distance up to which tasks shape the population


@dataclass(frozen=True)
class Bayes:
    """`population`: learn mean, covariance and noise from all tasks; without it the told prior stands."""

    population: bool = True
    label, rank = "Bayesian log-linear", 3
    needs_truth = False

    def start(self, scene: Scene) -> BayesFit:
        prior = np.array([*scene.prior.mean, *scene.prior.variance, scene.prior.surprise])
        shape = (scene.seeds, scene.tasks)
        people = np.tile(np.array([*prior[:5], NOISE**2, prior[5], ODD]), (scene.seeds, 1))
        mind = np.zeros((scene.seeds, -(-scene.tasks // WIDTH), ROOM))
        return BayesFit(mind, people, prior, Estimate.nothing(shape), self.population, np.ones(13 * WIDTH))


@dataclass
class BayesFit:
    """`mind` holds tiles of tasks, their moments and beliefs; `people` every seed's population, noise, surprise, who is odd.

    `found` is what it says: of a task that has left, what it said last. `whole`: it also tells the mean of the work left;
    a policy that looks at all quantiles can do without.
    """

    mind: Floats
    people: Floats
    prior: Floats
    found: Estimate
    population: bool
    room: Floats
    whole: bool = True

    def learn(self, view: View) -> None:
        last = (view.observed, view.samples, view.error)
        _learn(last, self.mind, self.people, self.prior, self.population, self.room)

    def estimate(self, view: View) -> Estimate:
        _estimate(view.state, view.target, self.mind, self.people, self.found, self.room)
        if self.whole:
            _tell_left(view.state, view.samples, self.found)
        return self.found

    @property
    def surprise(self) -> Floats:
        """Per seed: how far early estimates have moved, squared, in their own standard deviations. 1 is as believed."""
        return np.asarray(self.people[:, 6])


@kernel
def _learn(last: Last, mind: Floats, people: Floats, prior: Floats, population: bool, room: Floats) -> None:
    (observed, samples, error), mind, people, prior, w = borrowed((last, mind, people, prior, room))
    for s in range(len(observed)):
        anything, p = False, people[s]
        for k in range(mind.shape[1]):
            n, first, end = min(observed.shape[1] - WIDTH * k, WIDTH), WIDTH, 0
            for j in range(n):
                saw = observed[s, WIDTH * k + j]
                first, end = min(first, j if saw else WIDTH), max(end, j + 1 if saw else 0)
                w[SAW + j] = 1.0 if saw else 0.0
                w[X + j], w[Y + j] = max(samples[s, WIDTH * k + j], 1.0), error[s, WIDTH * k + j]
            t, first = mind[s, k], min(first, end) // 8 * 8
            size = (end - first + 7) // 8 * 8  # whole vectors; what they compute beyond is not used
            for j in range(n, WIDTH):
                w[SAW + j] = 0.0
            mine, news = t[first:], w[first:]
            _take_in(mine, news, size, p)
            believe(t, (n + 7) // 8 * 8, p)
            _judge(mine, news, size)
            anything |= end > 0
        if anything and population:
            _learn_population(mind[s], w, p, prior)


@inner
def _take_in(t: Floats, w: Floats, size: int, p: Floats) -> None:
    """Add an observation to the moments. Where noise is large against the error, the logarithm is linearised."""
    a, b, noise = p[0], p[1], math.sqrt(p[5])
    for j in range(size):
        w[X + j] = ln(w[X + j])
    for j in range(size):
        w[LOG + j] = ln(max(w[Y + j], 1e-300))
    for j in range(size):
        old = t[N + j] > 0.0
        line = (t[LA + j] if old else a) - (t[LB + j] if old else b) * w[X + j]
        w[LINE + j] = min(max(line, -7.0), 1.0)
        w[EXPECTED + j] = exp(w[LINE + j])
    for j in range(size):
        error, expected, x = w[Y + j], w[EXPECTED + j], w[X + j]
        line = w[LINE + j] + min(max((error - expected) / expected, -0.9), 2.0)
        y = line if (noise > 0.15 * expected) | (error <= 0.0) else w[LOG + j]
        weight = w[SAW + j] * expected * expected
        t[N + j] += w[SAW + j]
        t[SW + j] += weight
        t[SX + j] += weight * x
        t[SXX + j] += weight * x * x
        t[SY + j] += weight * y
        t[SXY + j] += weight * x * y
        t[SYY + j] += weight * y * y


@inner
def believe(t: Floats, size: int, p: Floats) -> None:
    """Posterior mean and covariance of (ln a, b): precision = population's + moments / sigma^2."""
    whole = p[2] * p[4] - p[3] * p[3]
    paa, pab, pbb, precise = p[4] / whole, -p[3] / whole, p[2] / whole, 1.0 / p[5]
    pa, pb = paa * p[0] + pab * p[1], pab * p[0] + pbb * p[1]
    for j in range(size):
        qaa, qab, qbb = paa + precise * t[SW + j], pab - precise * t[SX + j], pbb + precise * t[SXX + j]
        ha, hb = pa + precise * t[SY + j], pb - precise * t[SXY + j]
        part = 1.0 / (qaa * qbb - qab * qab)
        vaa, vab, vbb = qbb * part, -qab * part, qaa * part
        t[VAA + j], t[VAB + j], t[VBB + j] = vaa, vab, vbb
        t[LA + j], t[LB + j] = vaa * ha + vab * hb, vab * ha + vbb * hb


@inner
def work_of(la: float, b: float, vaa: float, vab: float, vbb: float, log_target: float) -> tuple[float, float]:
    """ln W = (ln a - ln target) / b, and its standard deviation by the delta method."""
    b = max(b, B_LEAST)
    log_work = min(max((la - log_target) / b, 0.0), LOG_WORK_MOST)
    variance = (vaa - 2.0 * log_work * vab + log_work * log_work * vbb) / (b * b)
    return log_work, min(max(math.sqrt(max(variance, 0.0)), SPREAD_LEAST), SPREAD_MOST)


@inner
def _judge(t: Floats, w: Floats, size: int) -> None:
    """How far ln W has moved since the third observation, in the standard deviations claimed then."""
    for j in range(size):
        now, sd = work_of(t[LA + j], t[LB + j], t[VAA + j], t[VAB + j], t[VBB + j], t[AIM + j])
        early, late = (w[SAW + j] > 0.0) & (t[N + j] == EARLY), (w[SAW + j] > 0.0) & (t[N + j] >= JUDGED)
        move = (now - t[LW3 + j]) / max(t[SD3 + j], 0.05)
        t[LW3 + j], t[SD3 + j] = now if early else t[LW3 + j], sd if early else t[SD3 + j]
        t[MOVED + j] = max(t[MOVED + j], min(move * move, MOVE_MOST) if late else 0.0)


@inner
def _far(a: float, b: float, vaa: float, vab: float, vbb: float) -> float:
    """How far a task is from its population, whose (ln a, b) differs by this: squared, in standard deviations."""
    return (vbb * a * a - 2.0 * vab * a * b + vaa * b * b) * (1.0 / (vaa * vbb - vab * vab))  # once for all tasks


@inner
def _learn_population(minds: Floats, w: Floats, p: Floats, prior: Floats) -> None:
    """Mean, covariance, noise and surprise from all tasks seen so far; the told prior counts as a few tasks."""
    sums, odd_most = w[12 * WIDTH :], p[ODD_MOST]
    pa, pb, paa, pab, pbb = p[0], p[1], p[2], p[3], p[4]
    for row in range(12):
        sums[row] = 0.0
    for k in range(len(minds)):
        t = minds[k]
        for j in range(WIDTH):  # what each adds, in rows
            a, b, count = t[LA + j], t[LB + j], t[N + j]
            far = _far(a - pa, b - pb, paa, pab, pbb)
            rss = t[SYY + j] - 2.0 * a * t[SY + j] + 2.0 * b * t[SXY + j]
            rss += a * a * t[SW + j] - 2.0 * a * b * t[SX + j] + b * b * t[SXX + j]
            some, many, late, member = count >= 2.0, count >= 4.0, count >= JUDGED, (count >= 2.0) & (far <= odd_most)
            w[j], w[1 * WIDTH + j] = 1.0 if some else 0.0, 1.0 if some & (far > ODD) else 0.0
            w[2 * WIDTH + j], w[3 * WIDTH + j] = 1.0 if member else 0.0, a if member else 0.0
            w[4 * WIDTH + j], w[5 * WIDTH + j] = b if member else 0.0, t[VAA + j] + a * a if member else 0.0
            w[6 * WIDTH + j] = t[VAB + j] + a * b if member else 0.0
            w[7 * WIDTH + j] = t[VBB + j] + b * b if member else 0.0
            w[8 * WIDTH + j], w[9 * WIDTH + j] = max(rss, 0.0) if many else 0.0, count - 2.0 if many else 0.0
            w[10 * WIDTH + j], w[11 * WIDTH + j] = t[MOVED + j] if late else 0.0, 1.0 if late else 0.0
        for row in range(0, 12 * WIDTH, WIDTH):  # its sum, eight at a time
            for j in range(row, row + 8):
                for first in range(8, WIDTH, 8):
                    w[j] += w[first + j]
            for j in range(row, row + 8):
                sums[row // WIDTH] += w[j]
    seen, odd, n, sa, sb, saa = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    sab, sbb, residual, freedom, moved, judged = sums[6], sums[7], sums[8], sums[9], sums[10], sums[11]
    p[ODD_MOST] = ODD if 2.0 * odd < seen else LARGEST  # the odd do not shape it, unless they are most of it
    ka, kb = p[2] / MEAN_SPREAD**2, p[4] / MEAN_SPREAD**2
    a, b = (prior[0] * ka + sa) / (ka + n), (prior[1] * kb + sb) / (kb + n)
    # Sums of squares about the mean, and of what is not known of each task.
    vaa = COVARIANCE_TASKS * prior[2] + max(saa - a * (2.0 * sa - n * a), 0.0)
    vab = COVARIANCE_TASKS * prior[3] + sab - a * sb - b * sa + n * a * b
    vbb = COVARIANCE_TASKS * prior[4] + max(sbb - b * (2.0 * sb - n * b), 0.0)
    p[0], p[1] = a, b
    p[2], p[3], p[4] = vaa / (COVARIANCE_TASKS + n), vab / (COVARIANCE_TASKS + n), vbb / (COVARIANCE_TASKS + n)
    p[5] = (NOISE_OBSERVATIONS * NOISE**2 + residual) / (NOISE_OBSERVATIONS + freedom)
    p[6] = min(max((JUDGEMENTS * prior[5] + moved) / (JUDGEMENTS + judged), 1.0), SURPRISE_MOST)


@kernel
def _estimate(state: States, target: Floats, mind: Floats, people: Floats, found: Estimate, room: Floats) -> None:
    """Every active task, seen or not; the spread grows with the surprise of its seed."""
    state, target, mind, people, found, w = borrowed((state, target, mind, people, found, room))
    for s in range(len(people)):
        p = people[s]
        a, b, vaa, vab, vbb, wider = p[0], p[1], p[2], p[3], p[4], math.sqrt(p[6])
        for k in range(mind.shape[1]):
            t, first, here, new = mind[s, k], WIDTH * k, False, False
            stage, log_work, spread = state[s, first:], found.log_work[s, first:], found.spread[s, first:]
            n = min(len(stage), WIDTH)
            for j in range(n):
                here |= (stage[j] >= SENDING) & (stage[j] <= COMPUTING)
                new |= (stage[j] != PENDING) & (t[AIM + j] == 0.0)
            if not here:
                continue
            for j in range(n if new else 0):
                if t[AIM + j] == 0.0 and stage[j] != PENDING:
                    t[AIM + j] = math.log(max(target[s, first + j], TARGET_LEAST))
            believe(t, (n + 7) // 8 * 8, p)
            for j in range((n + 7) // 8 * 8):
                w[j], sd = work_of(t[LA + j], t[LB + j], t[VAA + j], t[VAB + j], t[VBB + j], t[AIM + j])
                # What it is not a member of says nothing of it.
                odd = (t[N + j] >= 2.0) & (_far(t[LA + j] - a, t[LB + j] - b, vaa, vab, vbb) > ODD)
                w[WIDTH + j] = min((SPREAD_MOST if odd else sd) * wider, SPREAD_MOST)
            for j in range(n):
                here = (stage[j] >= SENDING) & (stage[j] <= COMPUTING)
                log_work[j], spread[j] = w[j] if here else log_work[j], w[WIDTH + j] if here else spread[j]


@kernel
def _tell_left(state: States, samples: Floats, found: Estimate) -> None:
    """The mean of the work left of every active task; compiled for who asks."""
    for s in range(len(state)):
        for i in range(state.shape[1]):
            if SENDING <= state[s, i] <= COMPUTING:
                left = mean_beyond(found.log_work[s, i], found.spread[s, i], samples[s, i])
                found.left[s, i] = max(left, LEFT_LEAST)
