"""What the five policies of Hasan and Peña's code share: fractions of the site, in the arithmetic of their code.

    LARA:  new = fewer than 100 samples (50 if ten tasks or more compute); if any is new, min(1, new/servers)/new each;
           else by (time left, need): min(need (1.5 if less than 5 steps are left), 1/servers, what is left), if above 0.01
    UARA:  cap_i = weight_i / (sum of weights) / price,   weight_i = (1 + samples_i/data_i) / (deadline_i - delay),
           price = 1 + 2 (tasks that have not sent everything) / (tasks in the site)

`deadline_i` is the last step in which the task may compute: the view's deadline less 1. Their 0.2 is what
one task may get of the site at most: one of five servers.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.kernels import Bools, Floats, Ints, inner, kernel
from equipoise.share.divide import count, equal
from equipoise.share.task import COMPUTING, SENDING
from equipoise.share.view import Decision, View

FEW, NEW_AMONG_FEW, NEW = 10, 100.0, 50.0  # computing tasks; samples below which a task is new
HURRY, FASTER = 5, 1.5  # steps left below which a task gets so much more than it needs
LEAST_GRANT = 0.01  # of the site


def decision(view: View, shares: Floats, order: ArrayLike | None = None) -> Decision:
    """Fractions of the site as samples per step; the uplink, where it is the policy's, in equal parts."""
    uplink = equal(view.sending, view.data_left, view.bandwidth)
    ranks = None if order is None else np.asarray(order)
    return Decision(uplink, _samples(shares, view.task_cap, view.capacity), order=ranks)


@kernel
def _samples(shares: Floats, task_cap: Floats, capacity: float) -> Floats:
    for s in range(len(shares)):
        row, most = shares[s], task_cap[s]
        for i in range(len(row)):
            row[i] = min(capacity * row[i], most[i])
    return shares


def even_shares(view: View) -> Floats:
    """The same fraction for every computing task."""
    computing = view.computing
    return np.where(computing, 1.0 / count(computing), 0.0)


def urgent_shares(view: View) -> Floats:
    """One server's part for each task by deadline; the rounding of five fifths leaves a sixth task a trace, as theirs."""
    return _urgent(view.state, view.deadline, view.part)


@kernel
def _urgent(state: NDArray[np.int8], deadline: Ints, part: float) -> Floats:
    shares, order, time = np.zeros(state.shape), np.empty(state.shape[1], np.int64), np.empty(state.shape[1])
    for s in range(len(state)):
        n, left = _computing(state[s], order), 1.0
        for k in range(n):
            i = order[k]
            time[i] = deadline[s, i]
        _sort(order, n, time, time)
        for k in range(n):
            i = order[k]
            if left <= 0.0:
                break
            shares[s, i] = min(part, left)
            left -= shares[s, i]
    return shares


def explore_then_exploit(view: View, left: Floats) -> tuple[Floats, Ints]:
    """LARA's fractions from the work that is estimated to be left, and the order in which tasks are served."""
    return _explore_then_exploit(view.step, view.state, view.samples, view.deadline, left, view.capacity, view.part)


@kernel
def _explore_then_exploit(
    step: int, state: NDArray[np.int8], samples: Floats, deadline: Ints, left: Floats, capacity: float, part: float
) -> tuple[Floats, Ints]:
    tasks = state.shape[1]
    shares, ranks = np.zeros(state.shape), np.zeros(state.shape, np.int64)
    order, time, need = np.empty(tasks, np.int64), np.empty(tasks), np.empty(tasks)
    for s in range(len(state)):
        n, new = _computing(state[s], order), 0
        few = NEW_AMONG_FEW if n < FEW else NEW
        for k in range(n):
            i = order[k]
            new += samples[s, i] < few
        if new > 0:
            for k in range(n):
                i = order[k]
                shares[s, i] = min(1.0, part * new) / new if samples[s, i] < few else 0.0
                ranks[s, i] = i
            continue
        for k in range(n):
            i = order[k]
            time[i] = max(deadline[s, i] - 1 - step, 1)
            need[i] = left[s, i] / time[i] / capacity if left[s, i] >= 0.0 else 0.0
        _sort(order, n, time, need)
        used = 0.0
        for k in range(n):
            i = order[k]
            grant = min(need[i] * (FASTER if time[i] < HURRY else 1.0), part, 1.0 - used)
            ranks[s, i] = k
            if grant > LEAST_GRANT:
                shares[s, i] = grant
                used += grant
            if used >= 1.0:
                break
    return shares, ranks


@inner
def _computing(state: NDArray[np.int8], order: Ints) -> int:
    """Write the numbers of the tasks that compute; how many."""
    n = 0
    for i in range(len(state)):
        if state[i] == COMPUTING:
            order[n] = i
            n += 1
    return n


@inner
def _sort(order: Ints, n: int, key: Floats, second: Floats) -> None:
    """The first n of `order` by key, then by the second key; equals keep their order."""
    for k in range(1, n):
        i, at = order[k], k
        while at > 0:
            j = order[at - 1]
            if key[j] < key[i] or (key[j] == key[i] and second[j] <= second[i]):
                break
            order[at] = j
            at -= 1
        order[at] = i


def caps(view: View, who: Bools | None = None, *, price: bool = True) -> Floats:
    """UARA's caps as fractions of the site; `who` are the tasks that share it, the computing ones unless given."""
    who = view.computing if who is None else who
    weight = _weights(who, view.samples, view.data, view.deadline, view.delay)
    busy = _busy(view.state, view.ready, view.step) if price else np.zeros(len(who))
    return _caps(weight, busy)


@kernel
def _weights(who: Bools, samples: Floats, data: Floats, deadline: Ints, delay: float) -> Floats:
    found = np.zeros(who.shape)
    for s in range(len(who)):
        for i in range(who.shape[1]):
            if who[s, i]:
                found[s, i] = (1.0 + samples[s, i] / max(data[s, i], 1.0)) / max(deadline[s, i] - 1 - delay, 1.0)
    return found


@kernel
def _busy(state: NDArray[np.int8], ready: Ints, step: int) -> Floats:
    """Of the tasks in the site, the part that had not sent everything when the step began."""
    found = np.empty(len(state))
    for s in range(len(state)):
        sending, active = 0, 0
        for i in range(state.shape[1]):
            here = (state[s, i] >= SENDING) & (state[s, i] <= COMPUTING)
            active += here
            sending += here & ((state[s, i] != COMPUTING) | (ready[s, i] == step))
        found[s] = sending / max(active, 1)
    return found


@kernel
def _caps(weight: Floats, busy: Floats) -> Floats:
    for s in range(len(weight)):
        row, total = weight[s], 0.0
        for i in range(len(row)):
            total += row[i]
        for i in range(len(row)):
            row[i] = row[i] / max(total, 1e-300) / (1.0 + 2.0 * busy[s])
    return weight
