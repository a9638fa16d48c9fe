"""Round robin: every task holds a server for a few steps, then the next in the order of their numbers.

As robust as even shares, with few switches; it knows neither deadlines nor curves.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.errors import refuse_negative
from equipoise.kernels import Ints
from equipoise.share.divide import greedy
from equipoise.share.policies._time_sharing import Remembering
from equipoise.share.view import Decision, Policy, Scene, View, served


@dataclass(frozen=True)
class RoundRobin(Remembering):
    """`length`: steps of a turn."""

    length: int = 5

    label, colour, marker, rank = "RoundRobin", "#a16207", "arrow", 23
    blind = True  # to errors

    def __post_init__(self) -> None:
        refuse_negative("RoundRobin", zero=False, length=self.length)

    def start(self, scene: Scene) -> Policy:
        return Turns(self.length, np.zeros(scene.seeds, np.int64), np.full(scene.seeds, self.length))


@dataclass
class Turns:
    """Round robin in a run: whose turn it is, the first of as many as there are servers, and for how many more steps."""

    length: int
    first: Ints
    left: Ints

    def decide(self, view: View) -> Decision:
        ready, tasks = view.computing, view.state.shape[1]
        ring = np.where(ready, self._behind(tasks), tasks)
        gone = np.take_along_axis(ring, self.first[:, None], axis=1)[:, 0] > 0
        ended = gone | (self.left <= 0)
        passed = np.where(gone | (ready.sum(axis=1) <= view.servers), 0, view.servers)
        following = np.take_along_axis(np.argsort(ring, axis=1, kind="stable"), passed[:, None], axis=1)[:, 0]
        self.first = np.where(ended, following, self.first)
        self.left = np.where(ended, self.length, self.left) - 1
        return served(view, greedy(self._behind(tasks), ready, view.task_cap, view.capacity))

    def _behind(self, tasks: int) -> Ints:
        """How many places each task stands behind the first, in a ring."""
        return np.asarray((np.arange(tasks) - self.first[:, None]) % tasks)
