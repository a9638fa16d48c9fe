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

from equipoise.kernels import INDEX, ZERO, Bools, Floats, Indices, Ints, inner, kernel
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
    tasks = state.shape[1]
    shares, order, key = np.zeros(state.shape), np.empty(tasks + 1, INDEX), np.empty(tasks, np.int64)
    room = np.empty(tasks, INDEX)
    for s in range(len(state)):
        n, left = _computing(state[s], order), 1.0
        for k in range(n):
            key[k] = deadline[s, order[k]]
        _sort(order, n, key, room)
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
    shares, ranks, time, need = np.zeros(state.shape), np.zeros(state.shape, np.int64), np.empty(tasks), np.empty(tasks)
    order, room, key = np.empty(tasks + 1, INDEX), np.empty(tasks, INDEX), np.empty(tasks, np.int64)
    for s in range(len(state)):
        n, new, done, share, rank = _computing(state[s], order), 0, samples[s], shares[s], ranks[s]
        few = NEW_AMONG_FEW if n < FEW else NEW
        for k in range(n):
            new += done[order[k]] < few
        if new > 0:
            each = min(1.0, part * new) / new
            for k in range(n):
                i = order[k]
                share[i], rank[i] = each if done[i] < few else 0.0, i
            continue
        for k in range(n):
            i = order[k]
            key[k] = max(deadline[s, i] - 1 - step, 1)
            time[i] = key[k]
            need[i] = left[s, i] / time[i] / capacity if left[s, i] >= 0.0 else 0.0
        _sort(order, n, key, room)
        _sort_equals(order, n, time, need)
        used = 0.0
        for k in range(n):
            i = order[k]
            grant = min(need[i] * (FASTER if time[i] < HURRY else 1.0), part, 1.0 - used)
            rank[i] = k
            if grant > LEAST_GRANT:
                share[i] = grant
                used += grant
            if used >= 1.0:
                break
    return shares, ranks


@inner
def _computing(state: NDArray[np.int8], order: Indices) -> int:
    """Write the numbers of the tasks that compute; how many."""
    n = ZERO
    for i in range(len(state)):  # without a branch: where they are is hard to predict
        order[n] = i
        n += state[i] == COMPUTING
    return n


@inner
def _sort(order: Indices, n: int, key: Ints, room: Indices) -> None:
    """The first n of `order` in ascending key, equals as they are: each counts who comes before it, without a branch."""
    for k in range(n):
        key[k], room[k] = key[k] * 2**20 + k, order[k]
    for k in range(n):
        before, mine = ZERO, key[k]
        for j in range(n):
            before += key[j] < mine
        order[before] = room[k]


@inner
def _sort_equals(order: Indices, n: int, key: Floats, second: Floats) -> None:
    """Those of one key, which stand together, by the second; equals keep their order."""
    for k in range(1, n):
        i, at = order[k], k
        while at > 0 and key[order[at - 1]] == key[i] and second[order[at - 1]] > second[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


def caps(view: View, who: Bools | None = None, *, price: bool = True) -> Floats:
    """UARA's caps as fractions of the site; `who` are the tasks that share it, the computing ones unless given."""
    who = view.computing if who is None else who
    return _caps(who, view.samples, view.data, view.deadline, view.delay, view.state, view.ready, view.step, price)


@kernel
def _caps(
    who: Bools,
    samples: Floats,
    data: Floats,
    deadline: Ints,
    delay: float,
    state: NDArray[np.int8],
    ready: Ints,
    step: int,
    priced: bool,
) -> Floats:
    """The price is of the part of the tasks in the site that had not sent everything when the step began."""
    found = np.zeros(who.shape)
    for s in range(len(who)):
        row, here, states, able, total, sending, active = found[s], who[s], state[s], ready[s], 0.0, 0, 0
        for i in range(len(row)):
            there = (states[i] >= SENDING) & (states[i] <= COMPUTING)
            active += there
            sending += there & ((states[i] != COMPUTING) | (able[i] == step))
            weight = (1.0 + samples[s, i] / max(data[s, i], 1.0)) / max(deadline[s, i] - 1 - delay, 1.0)
            row[i] = weight if here[i] else 0.0
        for i in range(len(row)):
            total += row[i]
        price = 1.0 + 2.0 * (sending / max(active, 1)) if priced else 1.0
        for i in range(len(row)):
            row[i] = row[i] / max(total, 1e-300) / price
    return found
