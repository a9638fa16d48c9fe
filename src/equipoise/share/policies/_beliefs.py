"""What Hybrid believes of the work of a task: what the estimator says, as far as this run's own tasks have borne it out.

An estimator takes curves for something, say power laws. Every task that finishes is a test of that: what was said of it
when it had done a third or less of its work is held against "nothing is known", which is the spread of the works of the
run. The share of tasks that the estimator is right about follows, and a belief is a mixture of both (docs/share.md, 3).

Where nothing is known of the law of curves, landmarks are: how much longer finished tasks went on, in ln samples, from
where a part of the way from their first error to their target was gone. Who is not at a landmark yet has that still to go.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from equipoise.kernels import Floats, Indices, inner
from equipoise.share._arithmetic import below, exp, ln
from equipoise.share.task import DONE

SHARE, STRENGTH = 0.8, 2.0  # of tasks that the estimator is taken to be right about, and the weight of that in tasks
WIDE = 1.2  # standard deviation of ln work when nothing is known
EARLY = 3.0  # a note counts if it was made at this part of the work or before
NOTE = 4.0  # samples grow by this factor from note to note
SURE_MOST = 0.1  # no note is taken to be surer than this standard deviation
GAIN, LOSS = 2.0, -4.0  # the most that one task may say for and against the estimator, in nats
NEAR = 3.0  # ln of the factor by which the work may exceed what is done, for a test: what is far is never tested
CERTAIN = 0.8  # a probability from which the estimator alone is believed
RARELY = 4  # steps after which unfinished tasks are asked again what they say of others
WAY = np.array([0.1, 0.3, 0.5, 0.7, 0.85])  # landmarks: parts of the way from ln of the first error to ln of the target
PASSES = 3.0  # finished tasks that a landmark needs to say anything
PLAIN = 1.3  # of the spread of works: a landmark that leaves more says nothing
NARROW = 0.05  # of the variance of works: no landmark is taken to leave less
SHORTEST = 0.8  # standard deviations below its mean: the least that is still to go from a landmark

AT, LOG_WORK, SPREAD, LOG_BEFORE, SPREAD_BEFORE, SEEN, END, ODDS = range(8)  # of a task's note
FIRST, LEVEL, GONE, MARK = range(8, 12)  # ln first error, error of the next landmark, landmarks behind, ln samples then
MEAN, SD, RIGHT, PASSED, MOVED, TESTS, ENDED, FROM = range(8)  # of a seed: ln works, the share of right estimates,
# tests, tasks that are done, and FROM each landmark on count, sum and squares of what was still to come


class Beliefs(NamedTuple):
    """What was noted of tasks, and what follows for their seeds."""

    note: Floats  # (seeds, tasks, 16): the last two notes, samples when last seen, ln work when done, odds, landmarks
    seed: Floats  # (seeds, 22)

    @classmethod
    def start(cls, seeds: int, tasks: int) -> "Beliefs":
        seed = np.zeros((seeds, FROM + 3 * len(WAY)))
        seed[:, SD], seed[:, RIGHT] = WIDE, SHARE
        return cls(np.zeros((seeds, tasks, MARK + len(WAY))), seed)


@inner
def judge(tasks: Any, shown: Indices, n: int, usual: float, now: int, note: Floats, seed: Floats) -> None:
    """Note what is said of the n tasks that the last step showed, as their samples grow; score it when one is done.

    All tasks of the seed learn from that. `usual`: samples that a task could compute in its time, on average.
    """
    news = now % RARELY == 0
    for k in range(n):
        i, task = shown[k], tasks[shown[k]]
        step, note[i, SEEN] = task.done - note[i, SEEN], task.done
        if task.state == DONE:
            news |= seed[RIGHT] <= CERTAIN  # else it can wait
            _score(note, i, task.done - 0.5 * step, step, seed)
            continue
        if note[i, LEVEL] == 0.0:
            note[i, FIRST] = math.log(max(task.error, task.target))
            note[i, LEVEL] = _level(note, i, task.log_target)
        while note[i, GONE] < len(WAY) and task.error <= note[i, LEVEL]:
            note[i, MARK + int(note[i, GONE])] = math.log(max(task.done - 0.5 * step, 1.0))
            note[i, GONE] += 1.0
            note[i, LEVEL] = _level(note, i, task.log_target)
        if task.done >= NOTE * max(note[i, AT], 0.5):
            if note[i, AT] > 0.0 and task.log_work < ln(task.done) + NEAR:
                _test(note[i, LOG_WORK], note[i, SPREAD], task.log_work, seed)
            note[i, LOG_BEFORE], note[i, SPREAD_BEFORE] = note[i, LOG_WORK], note[i, SPREAD]
            note[i, AT], note[i, LOG_WORK], note[i, SPREAD] = max(task.done, 1.0), task.log_work, task.spread
    if news or seed[MEAN] == 0.0:
        _learn(note, math.log(usual / 3.0), seed)


@inner
def _level(note: Floats, i: int, log_target: float) -> float:
    """The error of a task's next landmark."""
    part = WAY[min(int(note[i, GONE]), len(WAY) - 1)]
    return float(exp((1.0 - part) * note[i, FIRST] + part * log_target))


@inner
def known_of(note: Floats, i: int, done: float, seed: Floats) -> tuple[float, float, float]:
    """Mean and spread of ln work of a task if its estimate is not believed, from its last landmark on or of all tasks;
    and the least work, by the landmark that it has not reached."""
    mean, sd, least, gone = seed[MEAN], seed[SD], done, int(note[i, GONE])
    more, spread = _from(seed, gone - 1)
    if spread < PLAIN * sd and ln(max(done, 1.0)) < note[i, MARK + gone - 1] + more:
        mean, sd = note[i, MARK + gone - 1] + more, spread
    more, spread = _from(seed, gone if note[i, LEVEL] > 0.0 else -1)
    if spread < PLAIN * seed[SD]:
        least = done * exp(max(more - SHORTEST * spread, 0.0))
    return mean, sd, least


@inner
def _from(seed: Floats, k: int) -> tuple[float, float]:
    """Mean and spread of how much longer tasks go on from a landmark, in ln samples; an infinite spread: nobody knows."""
    count = seed[FROM + 3 * k] if 0 <= k < len(WAY) else 0.0
    if count < PASSES:
        return 0.0, math.inf
    more = seed[FROM + 3 * k + 1] / count
    rest = max(seed[FROM + 3 * k + 2] - count * more * more, 0.0)
    return more, math.sqrt(rest / count + (1.0 / count + NARROW) * seed[SD] ** 2)


@inner
def _score(note: Floats, i: int, work: float, step: float, seed: Floats) -> None:
    """What a finished task says for the estimator: how much likelier it made this work than ignorance did."""
    x = ln(max(work, 1.0))
    note[i, END] = max(x, 1e-9)
    seed[ENDED] += 1.0
    gone, close = int(note[i, GONE]), EARLY * step <= work  # then what it jumped over is its end
    for k in range(len(WAY) if close else gone):
        more, at = x - note[i, MARK + k] if k < gone else 0.0, FROM + 3 * k
        seed[at] += 1.0
        seed[at + 1] += more
        seed[at + 2] += more * more
    early = work >= EARLY * note[i, AT]
    said, spread = (note[i, LOG_WORK], note[i, SPREAD]) if early else (note[i, LOG_BEFORE], note[i, SPREAD_BEFORE])
    if spread > 0.0:
        coarse = (step / work) ** 2 / 12.0
        sd = math.sqrt(max(spread, SURE_MOST) ** 2 + coarse + 0.0025)
        wide = math.sqrt(seed[SD] ** 2 + 0.25 + coarse)
        a, b = (x - said) / sd, (x - seed[MEAN]) / wide
        _test(said, spread, x, seed)
        note[i, ODDS] = exp(min(max(0.5 * (b * b - a * a) + ln(wide / sd), LOSS), GAIN))


@inner
def _test(said: float, spread: float, now: float, seed: Floats) -> None:
    """Work that is not clearly more than was said passes; one that fails takes two passes away."""
    late = now - said > math.sqrt(max(spread, SURE_MOST) ** 2 + 0.0025)
    seed[PASSED] = max(seed[PASSED] + (-2.0 if late else 1.0), 0.0)
    seed[MOVED] += now - said
    seed[TESTS] += 1.0


@inner
def _learn(note: Floats, first: float, seed: Floats) -> None:
    """Mean and spread of ln works, of finished tasks and, as far as they have come, of others; and who was right."""
    if seed[MEAN] == 0.0:
        seed[MEAN] = first
    old, sd = seed[MEAN], seed[SD]
    n, total, square = 1.0, first, first * first + WIDE * WIDE
    member, judged = SHARE * STRENGTH, STRENGTH
    for i in range(len(note)):
        if note[i, ODDS] != 0.0:
            member, judged = member + chance(seed[RIGHT], note[i, ODDS]), judged + 1.0
        if note[i, END] > 0.0:
            n, total, square = n + 1.0, total + note[i, END], square + note[i, END] * note[i, END]
        elif note[i, SEEN] > 0.0:
            z = (ln(max(note[i, SEEN], 1.0)) - old) / sd
            if z > -1.0:  # it needs more than it has done: mean and variance of the rest of the distribution
                hazard = exp(-0.5 * z * z) / (2.5066 * max(below(-z), 1e-6))
                mean = old + sd * hazard
                n, total = n + 1.0, total + mean
                square += mean * mean + sd * sd * max(1.0 + z * hazard - hazard * hazard, 0.0)
    mean = total / n
    seed[MEAN], seed[SD] = mean, max(math.sqrt(max(square / n - mean * mean, 0.0)), 0.2)
    seed[RIGHT] = member / judged


@inner
def chance(right: float, odds: float) -> float:
    """P(the estimator is right about a task), given the share of those and what the task itself said."""
    odds *= right
    return odds / (odds + 1.0 - right + 1e-12)
