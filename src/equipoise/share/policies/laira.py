"""LaiRA (Wang, Liu and Zhou, AAAI 2026): slices of time, each to the feasible task whose curve falls fastest for its need.

Made for one resource shared in time; what the paper leaves open is in docs/share.md, 8. It serves whoever falls fastest,
not whoever is due, and who is nearly there may be late.
"""

from dataclasses import dataclass, field

import numpy as np

from equipoise.kernels import Bools, Floats, Ints
from equipoise.share.divide import first, greedy
from equipoise.share.policies._time_sharing import LOG_MOST, Line, LookAhead, Motion, Remembering, logs
from equipoise.share.view import Decision, Policy, Scene, View, served

SEEN = 3  # losses before a task is judged
KEPT = 3  # errors of slices that the length of the next looks back on


@dataclass(frozen=True)
class LaiRA(Remembering):
    """Slice lengths are steps. `gains` are negative: a growing error of prediction shortens the next slice."""

    length: float = 3.0  # of the first slices
    longest: float = 5.0
    gains: tuple[float, float] = (-60.0, -20.0)  # on the change of the error, and on the change of that
    discount: float = 0.99
    ridge: float = 0.1
    bound: float = 3.0  # on |theta|
    doubt: float = 0.1
    motion: Motion = field(default_factory=Motion)

    label, colour, marker, rank = "LaiRA", "#c026d3", "triangle", 21
    looks_ahead = True

    def start(self, scene: Scene) -> Policy:
        return Slices(self, scene)


class Slices:
    """LaiRA in a run. A slice is held by as many tasks as there are servers."""

    def __init__(self, policy: LaiRA, scene: Scene) -> None:
        shape = (scene.seeds, scene.tasks)
        self.policy = policy
        self.line = Line(shape, policy.discount, policy.ridge)
        self.ahead = LookAhead(shape, policy.motion) if policy.looks_ahead else None
        self.holds = np.zeros(shape, np.bool_)
        self.hoped: Floats = np.zeros(shape)  # loss that was predicted for its end
        self.left: Ints = np.zeros(scene.seeds, np.int64)  # steps of the slice
        self.length = np.full(scene.seeds, policy.length)
        self.wrong = np.zeros((KEPT, scene.seeds))  # errors of the last slices, the latest first
        self.slices = np.zeros(scene.seeds, np.int64)

    def decide(self, view: View) -> Decision:
        x, y, goal = logs(view)
        if view.observed.any():
            self.line.learn(view.observed, x, y)
            if self.ahead is not None:
                self.ahead.learn(view.observed, x, y)
        ready = view.computing
        holding = (self.holds & ready).sum(axis=1)
        over = (self.left <= 0) | (holding < np.minimum(ready.sum(axis=1), view.servers))
        if over.any():
            self._measure(over, view)
            self._choose(over, view, x, y, goal)
        self.left -= 1
        return served(view, greedy(np.where(self.holds, -1, view.deadline), ready, view.task_cap, view.capacity))

    def _measure(self, over: Bools, view: View) -> None:
        """How wrong the prediction for the slice was, and how long the next is."""
        policy, held = self.policy, np.maximum(self.holds.sum(axis=1), 1)
        missed = np.where(self.holds, np.abs(self.hoped - view.error), 0.0).sum(axis=1) / held
        known = over & self.holds.any(axis=1)
        self.slices[known] += 1
        self.wrong[:, known] = np.array([missed, *self.wrong[:-1]])[:, known]
        last, before, earlier = self.wrong
        change, bend = policy.gains
        length = self.length + change * (last - before) + bend * (last - 2.0 * before + earlier)
        length = np.clip(np.floor(length), 1.0, policy.longest)
        self.length = np.where(known & (self.slices >= KEPT), length, self.length)

    def _choose(self, over: Bools, view: View, x: Floats, y: Floats, goal: Floats) -> None:
        """The most (optimistic) expected slope for the slope that is needed; tasks hardly seen first, least data first."""
        policy, ready = self.policy, view.computing
        time, length = view.time_left, self.length[:, None]
        alone = np.logaddexp(x, np.log(view.task_cap * time))  # ln of the samples it would have with all the time left
        soon = np.logaddexp(x, np.log(view.task_cap * length))
        slope, level = self.line.theta
        beta = self.line.confidence(x, view.observations, policy.bound, policy.motion.noise, policy.doubt)
        guess = np.clip(slope * soon + level, -LOG_MOST, LOG_MOST)
        expected = (y - guess + beta * self.line.width(soon)) / (soon - x)
        needed = np.maximum(y - goal, 1e-6) / (alone - x)
        new = ready & (view.observations < SEEN)
        able = ready & ~new
        if self.ahead is not None:
            able &= self.ahead.predict(alone, time.astype(float)) <= goal
            able |= ready & ~new & ~able.any(axis=1, keepdims=True)  # nobody is feasible: anybody
        score = np.where(new, 1e12 - view.samples, np.where(able, expected / needed, -1e12))
        chosen = first(view.servers, -score, ready)
        rows = over[:, None]
        self.holds = np.where(rows, chosen, self.holds)
        self.hoped = np.where(rows, np.exp(guess), self.hoped)
        self.left[over] = self.length[over].astype(np.int64)
