"""UARA as we read it in the text of Hasan and Peña: two transfers at once, compute capped at capacity / everyone there.

Each computing task is associated with a server (the one with the fewest). The cap counts tasks that cannot compute.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import INDEX, ZERO, Floats, Ints, kernel
from equipoise.share.divide import count, insert, to_each
from equipoise.share.task import COMPUTING, SENDING
from equipoise.share.view import Decision, Policy, Scene, View

TRANSFERS = 2  # at once
CONGESTED, THROTTLE = 100.0, 0.94  # above so many samples in the queue, bandwidth is throttled


def uara_bandwidth(view: View) -> Floats:
    """Two transfers at once, in the order of arrival; a congested queue throttles the uplink."""
    return _bandwidth(view.state, view.arrival, view.data_left, view.bandwidth)


@kernel
def _bandwidth(state: NDArray[np.int8], arrival: Ints, data_left: Floats, total: float) -> Floats:
    given = np.zeros(state.shape)
    tasks = state.shape[1]
    senders, order = np.empty(tasks + 1, INDEX), np.empty(tasks, INDEX)
    for s in range(len(state)):
        states, data, n, chosen, queue = state[s], data_left[s], 0, ZERO, 0.0
        for i in range(tasks):
            senders[n] = i
            n += states[i] == SENDING
        for k in range(n):
            i = senders[k]
            queue += data[i]
            chosen = min(insert(order, chosen, arrival[s], INDEX(i)), TRANSFERS)
        left = total * (THROTTLE if queue > CONGESTED else 1.0)
        n = ZERO
        for k in range(chosen):
            n = insert(senders, n, data, order[k])
        for k in range(n):  # max-min fair: the smallest first, each at most an equal part of what is left
            part = min(data[senders[k]], left / (n - k))
            given[s, senders[k]] = part
            left -= part
    return given


@dataclass(frozen=True)
class DescribedUARA:
    label, colour, marker, rank = "DescribedUARA", "#67e8f9", "emptyDiamond", 8
    frugal = True  # leaves compute idle by design
    blind = True  # to errors

    def start(self, scene: Scene) -> Policy:
        return Associating(np.full((scene.seeds, scene.tasks), -1), len(scene.site.servers))

    def decide(self, view: View) -> Decision:
        """A single decision; a run calls `start` first, and then also associates tasks with servers."""
        part = view.capacity / count(view.active)
        return Decision(uara_bandwidth(view), to_each(view.computing, part, view.task_cap))


@dataclass
class Associating:
    """UARA in a run: a task that begins to compute joins the server with the fewest tasks, and stays."""

    home: Ints
    servers: int

    def decide(self, view: View) -> Decision:
        _associate(view.state, self.home, self.servers)
        return DescribedUARA().decide(view)._replace(server=self.home)


@kernel
def _associate(state: NDArray[np.int8], home: Ints, servers: int) -> None:
    """Whoever left is forgotten; whoever is new joins the server with the fewest, the first of equals."""
    members, new = np.empty(servers, np.int64), np.empty(home.shape[1], np.int64)
    for s in range(len(home)):
        for j in range(servers):
            members[j] = 0
        states, homes, n = state[s], home[s], 0
        for i in range(len(states)):
            if states[i] != COMPUTING:
                homes[i] = -1
            elif homes[i] >= 0:
                members[homes[i]] += 1
            else:
                new[n] = i
                n += 1
        for k in range(n):
            i, fewest = new[k], 0
            for j in range(1, servers):
                if members[j] < members[fewest]:
                    fewest = j
            homes[i] = fewest
            members[homes[i]] += 1
