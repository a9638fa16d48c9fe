"""What the policies that the text of Hasan and Peña describes have in common, as we read it.

uplink:   equal parts; or two transfers at once, in the order of arrival, and a congested queue throttles it
compute:  an equal part of the site, also for tasks that cannot compute yet;
          or by need: (estimated work left / steps left)^power, of a task not estimated yet the mean of the others
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import INDEX, ZERO, Floats, Indices, Ints, inlined, kernel
from equipoise.share._arithmetic import exp, ln
from equipoise.share.divide import send_evenly, those_in
from equipoise.share.task import COMPUTING, SENDING
from equipoise.share.view import Decision, View

EQUAL, IN_PROPORTION, CAPPED = range(3)  # parts of the site: the same; by need; what is needed, at most an equal part
POWER = 0.4  # of the need in proportions; fitted to the paper's table before its code was known
MARGIN = 1.4  # asked over needed, where it is capped
LEAST = 1.0  # samples; an estimate that says "done" of a task that is not is worth one more
CONGESTED, THROTTLE = 100.0, 0.94  # above so many samples in the queue, bandwidth is throttled
NOTHING = np.empty((0, 0))


def decision(
    view: View, kind: int, left: Floats = NOTHING, *, two: bool = False, corrected: bool = False, floor: float = 0.0
) -> Decision:
    """`two` transfers at once; equal parts are `corrected` to count who can compute; `floor` of one is guaranteed."""
    return Decision(*_decide(tuple(view), kind, left, two, corrected, floor))


@kernel
def _decide(plain: Any, kind: int, left: Floats, two: bool, corrected: bool, floor: float) -> tuple[Floats, Floats]:
    """What stands under k is of the k-th task that computes: close together, so that loops run several at a time."""
    view = View(*plain)
    (seeds, tasks), state, arrival, data, total = (
        view.state.shape,
        view.state,
        view.arrival,
        view.data_left,
        view.bandwidth,
    )
    bandwidth, compute, who = np.zeros((seeds, tasks)), np.zeros((seeds, tasks)), np.empty(tasks + 1, INDEX)
    value, time, work = np.ones(tasks + 8), np.ones(tasks + 8), np.ones(tasks + 8)
    for s in range(seeds):
        n, counted = those_in(COMPUTING, COMPUTING, s, state, who), 0
        size = (n + 7) // 8 * 8  # whole vectors; what they compute beyond is not used
        for i in range(0 if kind == IN_PROPORTION else tasks):
            counted += (state[s, i] >= SENDING) & (state[s, i] <= COMPUTING)
        part = view.capacity / max(n if corrected else counted, 1)
        if kind != EQUAL:
            for k in range(n):
                work[k], time[k] = left[s, who[k]], view.deadline[s, who[k]] - view.step
            for k in range(size):
                value[k] = max(work[k] if work[k] >= 0.0 else LEAST, LEAST) / max(time[k], 1.0)
        if kind == IN_PROPORTION:
            for k in range(size):  # loops of their own, which have fewer numbers to hold at once
                value[k] = ln(value[k])
            for k in range(size):
                value[k] = exp(POWER * value[k])
        if kind != EQUAL:
            known, needed = ZERO, 0.0
            for k in range(n):
                known += work[k] >= 0.0
                needed += value[k] if work[k] >= 0.0 else 0.0
            if known < n:  # exploration; if none is known, all the same: as much as they may get
                mean = needed / known if known > 0 else 1.0 if kind == IN_PROPORTION else math.inf
                needed = 0.0
                for k in range(n):
                    value[k] = value[k] if work[k] >= 0.0 else mean
                    needed += value[k]
            unit = view.capacity / max(needed, 1e-12)
        for k in range(n):
            i = who[k]
            cap = view.task_cap[s, i]
            if kind == IN_PROPORTION:
                compute[s, i] = min(value[k] * unit, cap)
            elif kind == CAPPED:
                cap = min(part, cap)
                compute[s, i] = max(min(MARGIN * value[k], cap), floor * cap)
            else:
                compute[s, i] = min(part, cap)
    for s in range(seeds if two else 0):
        _send_two(s, state, arrival, data, total, who, bandwidth)
    for s in range(0 if two else seeds):
        send_evenly(s, state, data, total, who, bandwidth)
    return bandwidth, compute


@inlined
def _send_two(
    s: int, state: NDArray[np.int8], arrival: Ints, data: Floats, total: float, who: Indices, given: Floats
) -> None:
    """To the two that came first, max-min fair: to the one with less data at most half, and the rest to the other."""
    n, queue, one, other = those_in(SENDING, SENDING, s, state, who), 0.0, who[0], who[0]
    for k in range(n):
        i = who[k]
        queue += data[s, i]
        if k > 0 and arrival[s, i] < arrival[s, one]:
            one, other = i, one
        elif k == 1 or arrival[s, i] < arrival[s, other]:
            other = i
    left, most = total * (THROTTLE if queue > CONGESTED else 1.0), min(n, 2)
    for k in range(most):
        i = one if (data[s, one] <= data[s, other]) == (k == 0) else other
        given[s, i] = min(data[s, i], left / (most - k))
        left -= given[s, i]
