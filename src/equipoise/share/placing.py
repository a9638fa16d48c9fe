"""Which server runs which task in a step, given the rates a policy chose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.share.split import insert

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def place(
    rates: Floats,
    home: Ints,
    last: NDArray[np.int32],
    speeds: Floats,
    within: bool,
    load: Floats,
    ran: Floats,
    order: Ints,
) -> tuple[float, int]:
    """Put every task on its home, else where it was, else on the emptiest server; fastest tasks first.

    `home` is empty if nobody asks; `ran`, unless it is empty, receives what each task ran on each server (1, tasks,
    servers); `order` is scratch; `last` is where each was, and becomes where it began.

    What does not fit there runs on others for the rest of the step if tasks may move `within` it, and is cut from
    `rates` if not. A task is on one server at a time: its times on all of them sum to at most one step. By the theorem
    on preemptive open shops that, and no server beyond its speed, is all it takes. Returns (cut, moves).
    """
    nodes = len(speeds)
    load[:] = 0.0
    n = 0
    for i in range(len(rates) - 1, -1, -1):
        if rates[i] > 0.0:
            n = insert(order, n, rates, i)
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


@kernel
def emptiest(speeds: Floats, load: Floats) -> int:
    """The server with the most room."""
    best = 0
    for j in range(1, len(speeds)):
        if speeds[j] - load[j] > speeds[best] - load[best] + 1e-12:
            best = j
    return best
