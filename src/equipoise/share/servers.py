"""On which server a task runs: one by one on the emptiest, on the one that is asked for, or in turns on the only one."""

from typing import Any

import numpy as np

from equipoise.kernels import INDEX, ZERO, Floats, Indices, Int32s, Ints, inner
from equipoise.share.divide import insert


@inner
def place(
    rates: Floats, home: Ints, last: Int32s, speeds: Floats, within: bool, load: Floats, ran: Floats, order: Indices
) -> tuple[float, int]:
    """Put every task on its home, else where it was, else on the emptiest server; fastest tasks first.

    `home` is empty if nobody asks; `ran`, unless it is empty, receives what each task ran on each server (1, tasks,
    servers); `order` is scratch; `last` is where each was, and becomes where it began.

    What does not fit there runs on others for the rest of the step if tasks may move `within` it, and is cut from
    `rates` if not. A task is on one server at a time: its times on all of them sum to at most one step. By the theorem
    on preemptive open shops that, and no server beyond its speed, is all it takes. Returns (cut, moves).
    """
    nodes = len(speeds)
    for j in range(nodes):
        load[j] = 0.0
    n = ZERO
    for i in range(len(rates) - 1, -1, -1):
        if rates[i] > 0.0:
            n = insert(order, n, rates, INDEX(i))
    cut, moves = 0.0, 0
    for k in range(n - 1, -1, -1):  # the last task among the slowest is first in `order`
        i = order[k]
        was = last[i]
        if len(home) > 0 and home[i] >= 0:
            first = home[i]
        elif was >= 0 and load[was] + rates[i] <= speeds[was] + 1e-9:
            first = was
        else:
            first = emptiest(speeds, load)
        time, left, node = 1.0, rates[i], first
        for _ in range(nodes):
            part = min(left, max(speeds[node] - load[node], 0.0), time * speeds[node])
            load[node] += part
            if len(ran) > 0:
                ran[0, i, node] += part
            left -= part
            if part > 0.0:
                time -= part / speeds[node]
            if not within or left <= 1e-9 or time <= 1e-12:
                break
            node = emptiest(speeds, load)
        if left > 1e-6:  # less is rounding
            cut += left
            rates[i] -= left
        if was >= 0 and was != first:
            moves += 1
        last[i] = first
    return cut, moves


@inner
def emptiest(speeds: Floats, load: Floats) -> int:
    """The server with the most room."""
    best = 0
    for j in range(1, len(speeds)):
        if speeds[j] - load[j] > speeds[best] - load[best] + 1e-12:
            best = j
    return best


def show_where(last: Int32s, compute: Floats, speed: float, ran: Floats) -> None:
    """A schedule on like servers of what the pool computed, for who keeps it: one task behind the other, and what goes
    beyond the end of a server's step is done at the beginning of the next one's (McNaughton's wrap-around)."""
    until = np.cumsum(compute, axis=1)[..., None]
    first = speed * np.arange(ran.shape[2])
    ran[:] = np.maximum(np.minimum(until, first + speed) - np.maximum(until - compute[..., None], first), 0.0)
    last[:] = np.where(compute > 0.0, ran.shape[2] - 1 - np.argmax(ran[..., ::-1] > 0.0, axis=2), last)


@inner
def settle(who: Ints, n: int, home: Ints, last: Int32s) -> int:
    """Tasks go where they are asked to be; how many move."""
    moves = 0
    for k in range(n):
        i = who[k]
        moves += (last[i] >= 0) & (last[i] != home[i])
        last[i] = home[i]
    return moves


@inner
def take_turns(who: Ints, n: int, xs: Floats, sums: Any, speed: float, cost: float) -> float:
    """Tasks hold the only server one after the other, by their number; counts switches, returns samples lost to them.

    A switch takes `cost` steps. What of that does not fit into this step is owed by the next ones; a task whose turn
    does not come is given nothing.
    """
    lost, time = 0.0, 1.0
    if cost > 0.0:
        time -= min(sums.owed, 1.0)
        sums.owed -= min(sums.owed, 1.0)
    for k in range(n):
        i = who[k]
        if time > 0.0 and sums.holder != i + 1:
            sums.switches += sums.holder > 0
            if cost > 0.0 and sums.holder > 0:
                sums.owed = max(cost - time, 0.0)
                time = max(time - cost, 0.0)
            sums.holder = i + 1
        if cost > 0.0:
            part = min(xs[i], time * speed)
            time = max(time - part / speed, 0.0)
            lost += xs[i] - part
            xs[i] = part
    return lost
