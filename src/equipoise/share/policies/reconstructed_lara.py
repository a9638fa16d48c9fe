"""LARA (Wang et al., ICML 2024), reconstructed from what others say of it: explore evenly, then plan again in every step.

Its plan is the best for the estimated curves, whose errors it follows from one task to another and back: many switches.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.kernels import INDEX, Bools, Floats, Ints, kernel
from equipoise.share.divide import equal, greedy
from equipoise.share.policies._moore_hodgson import JOB, keep_most
from equipoise.share.policies._time_sharing import LOG_MOST, Line, Remembering, logs
from equipoise.share.view import Decision, Policy, Scene, View, served

LATER = 1e12  # added to a key: behind all others


@dataclass(frozen=True)
class ReconstructedLARA(Remembering):
    """`explore`: steps of one server that a task is served for before it is planned with."""

    explore: float = 10.0
    discount: float = 0.99
    ridge: float = 0.1

    label, colour, marker, rank = "LARA, reconstructed", "#7c2d12", "emptyRect", 20

    def start(self, scene: Scene) -> Policy:
        return Planning(self, Line((scene.seeds, scene.tasks), self.discount, self.ridge))


@dataclass
class Planning:
    """In a run: the line of every task."""

    policy: ReconstructedLARA
    line: Line

    def decide(self, view: View) -> Decision:
        (x, y, goal), ready = logs(view), view.computing
        if view.observed.any():
            self.line.learn(view.observed, x, y)
        new = ready & (view.samples < self.policy.explore * view.task_cap)
        compute = equal(new, view.task_cap, view.capacity)
        left = self.work_left(goal, view.samples)
        kept = most_in_time(ready & ~new, left, view.time_left, view.capacity)
        turn = np.where(kept, view.deadline, LATER + np.minimum(left, LATER))
        rest = np.maximum(view.capacity - compute.sum(axis=1), 0.0)
        return served(view, compute + greedy(turn, ready & ~new, view.task_cap, rest))

    def work_left(self, goal: Floats, samples: Floats) -> Floats:
        """(a / target)^(1/b) - s samples, at least one; infinite where the line does not fall, or not in time."""
        slope, level = self.line.theta
        with np.errstate(divide="ignore", invalid="ignore"):
            log_work = np.where(slope < 0.0, (goal - level) / slope, np.inf)
        return np.maximum(np.exp(np.minimum(log_work, LOG_MOST)) - samples, 1.0)


@kernel
def most_in_time(who: Bools, left: Floats, time: Ints, rate: float) -> Bools:
    """The most tasks that `rate` can finish in time, one after the other (Moore and Hodgson)."""
    seeds, tasks = who.shape
    found, jobs, heap = np.zeros(who.shape, np.bool_), np.empty(tasks, JOB), np.empty(tasks, INDEX)
    for s in range(seeds):
        n = 0
        order = np.argsort(time[s])
        for i in order:
            if who[s, i]:
                jobs[n].work, jobs[n].due = left[s, i], time[s, i]
                n += 1
        keep_most(jobs, n, rate, heap)
        n = 0
        for i in order:
            if who[s, i]:
                found[s, i] = jobs[n].kept
                n += 1
    return found
