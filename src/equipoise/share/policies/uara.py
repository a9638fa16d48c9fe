"""UARA as published: at most two transfers at once, and compute capped at capacity / everyone in the site.

Each computing task is associated with a server (the one with the fewest). The cap counts tasks that cannot compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.share.split import count, equal, first
from equipoise.share.view import Decision, Policy, Scene, View

TRANSFERS = 2  # at once
CONGESTED, THROTTLE = 100.0, 0.94  # above so many samples in the queue, bandwidth is throttled


def uara_bandwidth(view: View) -> NDArray[np.float64]:
    """Two transfers at once, in the order of arrival; a congested queue throttles the uplink."""
    queue = np.where(view.sending, view.data_left, 0.0).sum(axis=1)
    total = view.bandwidth * np.where(queue > CONGESTED, THROTTLE, 1.0)
    return equal(first(TRANSFERS, view.arrival, view.sending), view.data_left, total)


@dataclass(frozen=True)
class UARA:
    label: ClassVar[str] = "UARA"
    colour: ClassVar[str] = "#0e7490"
    marker: ClassVar[str] = "diamond"
    blind: ClassVar[bool] = True  # to errors

    def start(self, scene: Scene) -> Policy:
        return Associating(np.full((scene.seeds, scene.tasks), -1), len(scene.site.servers))

    def decide(self, view: View) -> Decision:
        """A single decision; a run calls `start` first, and then also associates tasks with servers."""
        part = np.minimum(view.capacity / count(view.active), view.task_cap)
        return Decision(uara_bandwidth(view), np.where(view.computing, part, 0.0))


@dataclass
class Associating:
    """UARA in a run: a task that begins to compute joins the server with the fewest tasks, and stays."""

    home: NDArray[np.int64]
    servers: int

    def decide(self, view: View) -> Decision:
        _associate(view.computing, self.home, self.servers)
        return UARA().decide(view)._replace(server=self.home)


@kernel
def _associate(computing: NDArray[np.bool_], home: NDArray[np.int64], servers: int) -> None:
    """Whoever left is forgotten; whoever is new joins the server with the fewest, the first of equals."""
    members = np.empty(servers, np.int64)
    for s in range(len(home)):
        members[:] = 0
        for i in range(home.shape[1]):
            if not computing[s, i]:
                home[s, i] = -1
            elif home[s, i] >= 0:
                members[home[s, i]] += 1
        for i in range(home.shape[1]):
            if computing[s, i] and home[s, i] < 0:
                home[s, i] = members.argmin()
                members[home[s, i]] += 1
