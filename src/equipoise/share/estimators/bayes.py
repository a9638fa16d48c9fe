"""Bayesian log-linear: every curve is drawn from a population that is learnt, with the noise, while tasks run.

ln error = ln a - b ln s. A task's belief about (ln a, b) is the population's plus its own observations, weighted by how
well they can be read: the noise is additive, so ln error is known to sigma / error (docs/share.md, 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Bools, Floats, kernel
from equipoise.share._arithmetic import ln, mean_beyond
from equipoise.share.estimators._base import Estimate
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

N, SW, SX, SXX, SY, SXY, SYY, LA, LB, VAA, VAB, VBB, LW3, SD3, MOVED, AIM = range(16)  # of a task; AIM: ln target
ODD_MOST = 7  # of a seed: the distance up to which tasks shape the population


@dataclass(frozen=True)
class Bayes:
    """`population`: learn mean, covariance and noise from all tasks; without it the told prior stands."""

    population: bool = True
    label: ClassVar[str] = "Bayesian log-linear"
    needs_truth: ClassVar[bool] = False
    rank: ClassVar[int] = 3

    def start(self, scene: Scene) -> BayesFit:
        prior = np.array([*scene.prior.mean, *scene.prior.variance, scene.prior.surprise])
        shape = (scene.seeds, scene.tasks)
        people = np.tile(np.array([*prior[:5], NOISE**2, prior[5], ODD]), (scene.seeds, 1))
        return BayesFit(np.zeros((*shape, 16)), people, prior, self.population)


@dataclass
class BayesFit:
    """`mind` holds every task's moments and belief, `people` every seed's population, noise, surprise, and who is odd.

    `whole`: it also tells the mean of the work left; a policy that looks at all quantiles can do without.
    """

    mind: Floats
    people: Floats
    prior: Floats
    population: bool
    whole: bool = True

    def learn(self, view: View) -> None:
        _learn(view, self.mind, self.people, self.prior, self.population)

    def estimate(self, view: View) -> Estimate:
        found = Estimate.nothing(view.state.shape)
        _estimate(view.active, view.samples, view.target, self.mind, self.people, self.whole, found)
        return found

    @property
    def surprise(self) -> Floats:
        """Per seed: how far early estimates have moved, squared, in their own standard deviations. 1 is as believed."""
        return np.asarray(self.people[:, 6])


@kernel
def _learn(view: View, mind: Floats, people: Floats, prior: Floats, population: bool) -> None:
    seeds, tasks = view.observed.shape
    for s in range(seeds):
        anything = False
        for i in range(tasks):
            if view.observed[s, i]:
                anything = True
                m = mind[s, i]
                if m[N] == 0.0:
                    m[AIM] = math.log(view.target[s, i])
                _take_in(m, people[s], ln(max(view.samples[s, i], 1.0)), view.error[s, i])
                believe(m, people[s])
                _judge(m)
        if anything and population:
            _learn_population(mind[s], people[s], prior)


@kernel
def _take_in(m: Floats, p: Floats, x: float, error: float) -> None:
    """Add one observation to the moments. Where noise is large against the error, the logarithm is linearised."""
    if m[N] == 0.0:
        m[LA], m[LB] = p[0], p[1]
    expected = math.exp(min(max(m[LA] - m[LB] * x, -7.0), 1.0))
    if math.sqrt(p[5]) > 0.15 * expected or error <= 0.0:
        y = math.log(expected) + min(max((error - expected) / expected, -0.9), 2.0)
    else:
        y = math.log(error)
    w = expected * expected
    m[N] += 1.0
    m[SW] += w
    m[SX] += w * x
    m[SXX] += w * x * x
    m[SY] += w * y
    m[SXY] += w * x * y
    m[SYY] += w * y * y


@kernel
def believe(m: Floats, p: Floats) -> None:
    """Posterior mean and covariance of (ln a, b): precision = population's + moments / sigma^2."""
    det = p[2] * p[4] - p[3] * p[3]
    qaa, qab, qbb = p[4] / det, -p[3] / det, p[2] / det
    ha, hb = qaa * p[0] + qab * p[1], qab * p[0] + qbb * p[1]
    precise = 1.0 / p[5]
    qaa += precise * m[SW]
    qab -= precise * m[SX]
    qbb += precise * m[SXX]
    ha += precise * m[SY]
    hb -= precise * m[SXY]
    det = qaa * qbb - qab * qab
    m[VAA], m[VAB], m[VBB] = qbb / det, -qab / det, qaa / det
    m[LA], m[LB] = m[VAA] * ha + m[VAB] * hb, m[VAB] * ha + m[VBB] * hb


@kernel
def _far(m: Floats, p: Floats) -> float:
    """How far a task is from its population: the squared distance of (ln a, b), in standard deviations."""
    a, b = m[LA] - p[0], m[LB] - p[1]
    return float((p[4] * a * a - 2.0 * p[3] * a * b + p[2] * b * b) / (p[2] * p[4] - p[3] * p[3]))


@kernel
def work_of(la: float, b: float, vaa: float, vab: float, vbb: float, log_target: float) -> tuple[float, float]:
    """ln W = (ln a - ln target) / b, and its standard deviation by the delta method."""
    b = max(b, B_LEAST)
    log_work = min(max((la - log_target) / b, 0.0), LOG_WORK_MOST)
    variance = (vaa - 2.0 * log_work * vab + log_work * log_work * vbb) / (b * b)
    return log_work, min(max(math.sqrt(max(variance, 0.0)), SPREAD_LEAST), SPREAD_MOST)


@kernel
def _judge(m: Floats) -> None:
    """How far ln W has moved since the third observation, in the standard deviations claimed then."""
    if m[N] == EARLY:
        m[LW3], m[SD3] = work_of(m[LA], m[LB], m[VAA], m[VAB], m[VBB], m[AIM])
    elif m[N] >= JUDGED:
        now, _ = work_of(m[LA], m[LB], m[VAA], m[VAB], m[VBB], m[AIM])
        move = (now - m[LW3]) / max(m[SD3], 0.05)
        m[MOVED] = max(m[MOVED], min(move * move, MOVE_MOST))


@kernel
def _learn_population(minds: Floats, p: Floats, prior: Floats) -> None:
    """Mean, covariance, noise and surprise from all tasks seen so far; the told prior counts as a few tasks."""
    n, sa, sb, saa, sab, sbb, seen, odd = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    residual, freedom, moved, judged = 0.0, 0.0, 0.0, 0.0
    for i in range(len(minds)):
        m = minds[i]
        if m[N] < 2.0:
            continue
        a, b, far = m[LA], m[LB], _far(m, p)
        seen += 1.0
        odd += far > ODD
        if far <= p[ODD_MOST]:
            n += 1.0
            sa += a
            sb += b
            saa += m[VAA] + a * a
            sab += m[VAB] + a * b
            sbb += m[VBB] + b * b
        if m[N] >= 4.0:
            rss = m[SYY] - 2.0 * a * m[SY] + 2.0 * b * m[SXY] + a * a * m[SW] - 2.0 * a * b * m[SX] + b * b * m[SXX]
            residual += max(rss, 0.0)
            freedom += m[N] - 2.0
        if m[N] >= JUDGED:
            moved += m[MOVED]
            judged += 1.0
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
def _estimate(
    active: Bools, samples: Floats, target: Floats, mind: Floats, people: Floats, whole: bool, found: Estimate
) -> None:
    """Every active task, seen or not; the spread grows with the surprise of its seed."""
    seeds, tasks = active.shape
    for s in range(seeds):
        p = people[s]
        for i in range(tasks):
            if not active[s, i]:
                continue
            m = mind[s, i]
            if m[N] > 0.0:
                believe(m, p)
                log_work, spread = work_of(m[LA], m[LB], m[VAA], m[VAB], m[VBB], m[AIM])
                if m[N] >= 2.0 and _far(m, p) > ODD:
                    spread = SPREAD_MOST  # what it is not a member of says nothing of it
            else:
                log_work, spread = work_of(p[0], p[1], p[2], p[3], p[4], math.log(target[s, i]))
            spread = min(spread * math.sqrt(p[6]), SPREAD_MOST)
            found.log_work[s, i] = log_work
            found.spread[s, i] = spread
            if whole:
                found.left[s, i] = max(mean_beyond(log_work, spread, samples[s, i]), LEFT_LEAST)
