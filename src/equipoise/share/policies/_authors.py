"""What the five policies of Hasan and Peña's code share: fractions of the site, in the arithmetic of their code.

    LARA:  new = fewer than 100 samples (50 if ten tasks or more compute); if any is new, min(1, new/servers)/new each;
           else by (time left, need): min(need (1.5 if less than 5 steps are left), 1/servers, what is left), if above 0.01
    UARA:  cap_i = weight_i / (sum of weights) / price,   weight_i = (1 + samples_i/data_i) / (deadline_i - delay),
           price = 1 + 2 (tasks that have not sent everything) / (tasks in the site)

`deadline_i` is the last step in which the task may compute: the view's deadline less 1. Their 0.2 is what
one task may get of the site at most: one of five servers.
"""

from typing import Any

import numpy as np

from equipoise.kernels import INDEX, ZERO, Floats, Indices, Ints, inner, kernel
from equipoise.share.divide import send_evenly, those_in
from equipoise.share.task import COMPUTING, SENDING
from equipoise.share.view import Decision, View

FEW, NEW_AMONG_FEW, NEW = 10, 100.0, 50.0  # computing tasks; samples below which a task is new
HURRY, FASTER = 5, 1.5  # steps left below which a task gets so much more than it needs
LEAST_GRANT = 0.01  # of the site
EVEN, URGENT, LEARNED = range(3)  # fractions: the same for all; one server's part each, by deadline; LARA's
NOBODY, THOSE_WHO_COMPUTE, THOSE_SERVED, EVERYBODY = range(4)  # who share the site by UARA's weights
NOTHING = np.empty((0, 0))


def decision(view: View, kind: int, left: Floats = NOTHING, *, capped: int = NOBODY, price: bool = True) -> Decision:
    """Fractions of the site as samples per step; the uplink, where it is the policy's, in equal parts.

    LARA's come from the work that is estimated to be left, and say in which order tasks are served.
    """
    bandwidth, compute, ranks = _decide(tuple(view), left, kind, capped, price)
    return Decision(bandwidth, compute, order=ranks if kind == LEARNED else None)


@kernel
def _decide(plain: Any, left: Floats, kind: int, capped: int, priced: bool) -> tuple[Floats, Floats, Ints]:
    """What stands under k is of the k-th task that computes: close together, so that loops run several at a time."""
    view = View(*plain)
    seeds, tasks = view.state.shape
    bandwidth, compute, ranks = np.zeros((seeds, tasks)), np.zeros((seeds, tasks)), np.zeros((seeds, tasks), np.int64)
    who, there, order = np.empty(tasks + 1, INDEX), np.empty(tasks + 1, INDEX), np.empty(tasks, INDEX)
    share, time, need, done = np.ones(tasks + 32), np.ones(tasks + 32), np.ones(tasks + 32), np.ones(tasks + 32)
    key, weight = np.empty(tasks, np.int64), np.empty(tasks)
    for s in range(seeds):
        n, new = those_in(COMPUTING, COMPUTING, s, view.state, who), 0
        few = NEW_AMONG_FEW if n < FEW else NEW
        for k in range(n):
            i = who[k]
            share[k], key[k] = 1.0 / n if kind == EVEN else 0.0, view.deadline[s, i]
            new += view.samples[s, i] < few
        if kind == URGENT:  # the rounding of five fifths leaves a sixth task a trace, as theirs
            _sort(n, key, order)
            rest = 1.0
            for k in range(n):
                share[order[k]] = min(view.part, rest)
                rest -= share[order[k]]
        elif kind == LEARNED and new > 0:  # explore
            each = min(1.0, view.part * new) / new
            for k in range(n):
                i = who[k]
                share[k], ranks[s, i] = each if view.samples[s, i] < few else 0.0, i
        elif kind == LEARNED:  # exploit
            for k in range(n):
                key[k] = max(key[k] - 1 - view.step, 1)
                time[k], need[k] = key[k], left[s, who[k]]
            for k in range((n + 31) // 32 * 32):  # whole vectors; what they compute beyond is not used
                need[k] = need[k] / time[k] / view.capacity if need[k] >= 0.0 else 0.0
            _sort(n, key, order)
            _sort_equals(order, n, time, need)
            used = 0.0
            for rank in range(n):
                k = order[rank]
                grant = min(need[k] * (FASTER if time[k] < HURRY else 1.0), view.part, 1.0 - used)
                ranks[s, who[k]] = rank
                if grant > LEAST_GRANT:
                    share[k] = grant
                    used += grant
                if used >= 1.0:
                    break
        if capped != NOBODY:
            # The price is of the part of the tasks in the site that had not sent everything when the step began.
            active, sending, total, m = 0, 0, 0.0, n
            for i in range(tasks):
                state = view.state[s, i]
                here = (state >= SENDING) & (state <= COMPUTING)
                active += here
                sending += here & ((state != COMPUTING) | (view.ready[s, i] == view.step))
            price = 1.0 + 2.0 * (sending / max(active, 1)) if priced else 1.0
            for k in range(n):
                there[k] = who[k]
            if capped == EVERYBODY:
                m = those_in(SENDING, COMPUTING, s, view.state, there)
            for k in range(m):
                i = there[k]
                done[k], need[k], time[k] = view.samples[s, i], view.data[s, i], view.deadline[s, i] - 1 - view.delay
            for k in range((m + 31) // 32 * 32):
                need[k] = (1.0 + done[k] / max(need[k], 1.0)) / max(time[k], 1.0)
            for k in range(m):
                if capped == THOSE_SERVED and share[k] <= 0.0:
                    need[k] = 0.0
                total += need[k]
                weight[there[k]] = need[k]
            for k in range(n):
                need[k] = weight[who[k]]
            for k in range((n + 31) // 32 * 32):
                share[k] = min(share[k], need[k] / max(total, 1e-300) / price)
        for k in range(n):
            i = who[k]
            compute[s, i] = min(view.capacity * share[k], view.task_cap[s, i])
        send_evenly(s, view.state, view.data_left, view.bandwidth, there, bandwidth)
    return bandwidth, compute, ranks


@inner
def _sort(n: int, key: Ints, order: Indices) -> None:
    """The numbers below n in ascending key, equals as they are: each counts who comes before it, without a branch."""
    for k in range(n):
        key[k] = key[k] * 2**20 + k
    for k in range(n):
        before, mine = ZERO, key[k]
        for j in range(n):
            before += key[j] < mine
        order[before] = k


@inner
def _sort_equals(order: Indices, n: int, key: Floats, second: Floats) -> None:
    """Those of one key, which stand together, by the second; equals keep their order."""
    for k in range(1, n):
        i, at = order[k], k
        while at > 0 and key[order[at - 1]] == key[i] and second[order[at - 1]] > second[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
