"""UARA as we read it in the text of Hasan and Peña: two transfers at once, compute capped at capacity / everyone there.

Each computing task is associated with a server (the one with the fewest). The cap counts tasks that cannot compute.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import Ints, kernel
from equipoise.share.policies._described import EQUAL, decision
from equipoise.share.task import COMPUTING
from equipoise.share.view import Decision, Policy, Scene, View


@dataclass(frozen=True)
class DescribedUARA:
    label, colour, marker, rank = "DescribedUARA", "#67e8f9", "emptyDiamond", 8
    frugal = True  # leaves compute idle by design
    blind = True  # to errors

    def start(self, scene: Scene) -> Policy:
        return Associating(np.full((scene.seeds, scene.tasks), -1), len(scene.site.servers))

    def decide(self, view: View) -> Decision:
        """A single decision; a run calls `start` first, and then also associates tasks with servers."""
        return decision(view, EQUAL, two=True)


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
