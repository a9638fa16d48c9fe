"""The site once more, one seed in plain Python, from docs/share.md alone: it shares no step with the compiled loop.

The authors' published run is played by it (published.py), for it can draw from their one generator in their order; and the
certificate follows recorded decisions with it (audit.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import RandomState

from equipoise.share._arithmetic import normal, uniform
from equipoise.share.site import Site
from equipoise.share.task import COMPUTING, DELAYED, DONE, FAILED, PENDING, SENDING

if TYPE_CHECKING:
    from equipoise.share.workload import Batch

LEAST_SEEN = 1e-4  # of an error that is looked at
NOTHING = 1e-9  # samples that count as none


@dataclass(frozen=True)
class Keyed:
    """The compiled loop's luck: a hash of the seed, the task's number and what is drawn for it.

    A rate is uniform in 0 to 1, a look and a test standard normal; look 0 is at the step from which it can compute.
    """

    keys: Sequence[np.uint64]

    def rate(self, task: int, step: int) -> float:
        return uniform(self.keys[task], 2**41 + step)

    def look(self, task: int, number: int) -> float:
        return normal(self.keys[task], 2**40 + number)

    def test(self, task: int, number: int) -> float:
        return normal(self.keys[task], 1 + number)


@dataclass(frozen=True)
class Streams:
    """The same luck from generators that are asked one draw after the other: the authors have one for everything."""

    jitter: RandomState
    noise: RandomState

    def rate(self, task: int, step: int) -> float:
        return self.jitter.random_sample()

    def look(self, task: int, number: int) -> float:
        return self.noise.normal()

    def test(self, task: int, number: int) -> float:
        return self.noise.normal()


Draws = Keyed | Streams


@dataclass
class Played:
    """What one seed came to."""

    done_at: list[int]  # the step after its success; -1: none
    arrival: list[int]
    energy: float = 0.0
    sent: float = 0.0  # samples
    lucky: int = 0  # successes whose true error was above the target

    @property
    def success(self) -> float:
        return 100.0 * sum(t >= 0 for t in self.done_at) / len(self.done_at)

    @property
    def latency(self) -> float:
        spent = [end - 1 - start for end, start in zip(self.done_at, self.arrival, strict=True) if end >= 0]
        return sum(spent) / len(spent) if spent else 0.0

    @property
    def efficiency(self) -> float:
        return self.success / max(self.energy, 1.0)


@dataclass
class Plain:
    """One seed at work: `open` a step, look at the tasks, `close` it with what each is given."""

    batch: Batch
    row: int
    site: Site
    draws: Draws
    state: list[int] = field(init=False)
    errors: list[float] = field(init=False)

    def __post_init__(self) -> None:
        n = self.batch.shape[1]
        self.tasks = range(n)
        self.state, self.errors, self.firsts = [PENDING] * n, [1.0] * n, [1.0] * n
        self.samples, self.sent, self.since, self.ready = [0.0] * n, [0.0] * n, [0] * n, [-1] * n
        self.looks, self.tests = [0] * n, [0] * n
        names = ("arrival", "deadline", "data", "target", "delay", "a", "b", "floor", "sigma", "table", "work")
        self.of = {name: getattr(self.batch, name)[self.row].tolist() for name in names}
        self.cap = np.minimum(self.batch.speed[self.row], self.site.most_per_task).tolist()
        self.size = float(self.site.capacities.sum()) / len(self.site.servers)  # of a server, in the mean
        self.played = Played([-1] * n, self.of["arrival"])

    def open(self, step: int, watched: bool = True) -> None:
        """Arrivals, delays that end, deadlines; an equal uplink; looks at all who are ready, if anybody watches."""
        equal, of, state, deadline = self.site.uplink == "equal", self.of, self.state, self.of["deadline"]
        live = [i for i in self.tasks if state[i] < DONE]
        for i in live:
            if state[i] == PENDING and of["arrival"][i] <= step:
                state[i], self.since[i] = (DELAYED if equal or of["data"][i] <= NOTHING else SENDING), step
            if state[i] == DELAYED and step >= self.since[i] + of["delay"][i]:
                state[i] = SENDING if equal else COMPUTING
                self.ready[i] = -1 if equal else step
            if step >= deadline[i] and SENDING <= state[i] <= COMPUTING:
                state[i] = FAILED
        if equal:
            self._send_equally(step, live)
        if self.site.observes == "ready" and watched:
            for i in live:
                if state[i] == COMPUTING:
                    self.looks[i] += 1
                    self.errors[i] = self.seen(i, self.draws.look(i, self.looks[i]))

    def _send_equally(self, step: int, live: Sequence[int]) -> None:
        waiting = [i for i in live if SENDING <= self.state[i] <= DELAYED]
        least, most, bandwidth = 1.0 - self.site.rate_jitter, 1.0 + self.site.rate_jitter, self.site.bandwidth
        for i in waiting:
            if self.state[i] == SENDING:
                part = bandwidth / len(waiting) * (least + (most - least) * self.draws.rate(i, step))
                if math.isinf(bandwidth):  # all of it, and no more
                    part = self.of["data"][i]
                self.sent[i] += part
                self.played.sent += part
                if self.sent[i] >= self.of["data"][i] - NOTHING:
                    self.state[i], self.ready[i] = COMPUTING, step
                    if self.site.observes == "ready":
                        self.firsts[i] = self.seen(i, self.draws.look(i, 0))

    def true(self, i: int) -> float:
        """The error of a task at what it has computed."""
        done, table = max(self.samples[i], 1.0), self.of["table"][i]
        if table < 0:
            return float(self.of["a"][i] * done ** -self.of["b"][i] + self.of["floor"][i])
        points = np.log(self.batch.table_samples[table])
        return float(np.interp(math.log(done), points, self.batch.table_errors[table]))

    def seen(self, i: int, luck: float) -> float:
        return float(max(self.true(i) + self.of["sigma"][i] * luck, LEAST_SEEN))

    def close(self, step: int, compute: Sequence[float], bandwidth: Sequence[float], order: Sequence[int]) -> None:
        """Send and compute what was decided, in this order of tasks."""
        site, total = self.site, 0.0
        for i in self.tasks if site.uplink == "decided" else ():
            if bandwidth[i] > 0.0:
                part = min(bandwidth[i], self.of["data"][i] - self.sent[i])
                self.sent[i] += part
                self.played.sent += part
                if self.sent[i] >= self.of["data"][i] - NOTHING:
                    self.state[i], self.since[i] = DELAYED, step + 1
        anyone = COMPUTING in self.state
        for i in order:
            if compute[i] <= 0.0:
                continue
            total += compute[i]
            self.samples[i] += compute[i]
            self.tests[i] += 1
            if site.power == "per_sample":
                self.played.energy += site.busy_power * compute[i]
            if site.success == "observed":
                done = self.seen(i, self.draws.test(i, self.tests[i])) <= self.of["target"][i]
                self.played.lucky += done and self.true(i) > self.of["target"][i]
            else:
                done = self.samples[i] >= self.of["work"][i] - NOTHING
            if done:
                self.state[i], self.played.done_at[i] = DONE, step + 1
        if site.power == "per_sample" and anyone:
            idle = len(site.servers) - math.ceil(total / self.size)
            self.played.energy += site.idle_power * max(idle, 0)
