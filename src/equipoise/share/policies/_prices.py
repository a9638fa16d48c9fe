"""What a task costs Hybrid: quantiles of the work it has left, and the samples per success that follow, many at a time."""

import math
from statistics import NormalDist

import numpy as np

from equipoise.kernels import INDEX, Floats, inner
from equipoise.share._arithmetic import exp, ln
from equipoise.share.estimators._base import PARTS

LEFT_LEAST = 0.1  # samples

# Quantiles (k + 1/2) / PARTS of a normal variable that exceeds z, a row for each of these z; below them nothing is cut off.
BEYOND_FIRST, BEYOND_LAST, BEYOND_STEP = -3.5, 5.5, 0.25
_tails = [NormalDist().cdf(-z) for z in np.arange(BEYOND_FIRST, BEYOND_LAST + BEYOND_STEP, BEYOND_STEP)]
BEYOND = np.array([-NormalDist().inv_cdf((1 - (k + 0.5) / PARTS) * tail) for tail in _tails for k in range(PARTS)])
LAST_PLACE = len(_tails) - 1.001

WIDTH = 64  # tasks priced at a time: columns of a tile that stays in the nearest cache
LAW = 0  # its rows: first the quantiles of the work left, as the estimator has it; then of each task
MEAN, SD, DONE, LEAST, MOST, SURE, PRICE, SPENT, HOPE = (WIDTH * (PARTS + row) for row in range(9))
PLACE, PART, OVER = PRICE, HOPE, SPENT  # while it looks ahead
ONE, ROOM = WIDTH * (PARTS + 9), WIDTH * (PARTS + 9) + PARTS  # the quantiles of ONE task
# MEAN and SD of ln work; samples DONE; the LEAST work there is; the MOST it can still compute in time; how SURE the
# estimator is right about it; its PRICE; samples SPENT on the way; HOPE, P(success in time).


@inner
def look_ahead(t: Floats, n: int) -> None:
    """Quantiles of the work left of n tasks, given that it is more than LEAST in all."""
    size = (n + 7) // 8 * 8  # whole vectors; what they compute beyond is not used
    for j in range(size):
        t[SPENT + j] = ln(max(t[LEAST + j], 1e-9))
    for j in range(size):
        z = (t[SPENT + j] - t[MEAN + j]) / t[SD + j]
        place = min(max((z - BEYOND_FIRST) / BEYOND_STEP, 0.0), LAST_PLACE)
        low = math.floor(place)
        t[PLACE + j], t[PART + j], t[OVER + j] = low, place - low, max(z - BEYOND_LAST, 0.0)
    for j in range(n):  # all quantiles of a task at a time: their places in the table are neighbours
        at, mean, sd, done = INDEX(t[PLACE + j]) * INDEX(PARTS), t[MEAN + j], t[SD + j], t[DONE + j]
        part, over = t[PART + j], t[OVER + j]
        for k in range(PARTS):
            low, high = BEYOND[at + INDEX(k)], BEYOND[at + INDEX(PARTS + k)]
            z = low + part * (high - low) + over
            t[ONE + k] = max(exp(mean + sd * z) - done, 0.0)
        for k in range(PARTS):
            t[WIDTH * k + j] = t[ONE + k]


@inner
def price_all(t: Floats, n: int) -> None:
    """Prices of n tasks about which the estimator is right: samples per success, run until the best point to give up.

    min over d of E[min(left, d)] / P(left <= d); infinite if success is out of reach. SPENT is the mean of the work left.
    """
    size = (n + 7) // 8 * 8
    for j in range(size):
        t[PRICE + j], t[SPENT + j], t[HOPE + j] = np.inf, 0.0, 0.0
    for k in range(PARTS):
        passed = (k + 1.0) / PARTS
        for j in range(size):
            left = max(t[WIDTH * k + j], LEFT_LEAST)
            fits, spent = left <= t[MOST + j], t[SPENT + j] + left / PARTS
            price = (spent + left * (1.0 - passed)) / passed
            t[SPENT + j] = spent
            t[PRICE + j] = min(t[PRICE + j], price if fits else np.inf)
            t[HOPE + j] = passed if fits else t[HOPE + j]


@inner
def price_mixed(t: Floats, j: int, part: float, free: Floats) -> float:
    """The same of one task of which either is true, what the estimator says or the quantiles of `free` (a tile like it).

    Gives the quantile `part` of the work left.
    """
    sure, most = t[SURE + j], t[MOST + j]
    price, spent, passed, middle, reached, a, b = np.inf, 0.0, 0.0, -1.0, 0.0, 0, 0
    while a < PARTS or b < PARTS:
        if b >= PARTS or (a < PARTS and t[WIDTH * a + j] <= free[WIDTH * b + j]):
            left, weight, a = t[WIDTH * a + j], sure / PARTS, a + 1
        else:
            left, weight, b = free[WIDTH * b + j], (1.0 - sure) / PARTS, b + 1
        left = max(left, LEFT_LEAST)
        passed += weight
        if middle < 0.0 and passed >= part:
            middle = left
        if left <= most:
            reached = passed
            spent += weight * left
            price = min(price, (spent + left * max(1.0 - passed, 0.0)) / passed)
        elif middle >= 0.0:
            break
    t[PRICE + j], t[HOPE + j] = price, reached
    return middle
