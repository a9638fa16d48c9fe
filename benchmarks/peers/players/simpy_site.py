"""The site as a SimPy model, the way one is written: a process per task, and one for the site. No curve is fitted.

Tasks act for themselves: each resumes in every slot in which it sends or computes, takes what the site grants, and goes
on. (`lean=True` uses SimPy as little more than a clock: the site serves all tasks from lists, and a task's process only
arrives and waits. It is faster, and hardly SimPy.) Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from line import Request, listen, timed

Steps = Generator[simpy.Event, Any, None]
COLUMNS = ("arrival", "deadline", "delay", "data", "work")
DUST = 1e-9


@dataclass(slots=True, eq=False)
class Job:
    """One task: what it needs and what it still needs."""

    index: int
    arrival: int
    deadline: int
    delay: int
    data_left: float
    work_left: float
    sent: simpy.Event
    granted: float = 0.0
    done_at: int = -1


@dataclass(frozen=True)
class Power:
    """A server's energy in a step: idle + busy u^3, u the use of the whole site."""

    idle: float
    busy: float
    servers: int


@dataclass
class SimPySite:
    """Servers as one pool, and one uplink. Slot t is decided at t + 1/2: what happens at t happens before it."""

    env: simpy.Environment
    policy: str
    capacity: float
    task_cap: float
    bandwidth: float
    power: Power
    lean: bool
    slot: simpy.Event
    sending: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    computing: list[Job] = field(default_factory=list)
    energy: float = 0.0

    def live(self, job: Job) -> Steps:
        """Arrive, send, wait, compute: in every slot what is granted."""
        yield self.env.timeout(job.arrival)
        self.sending.append(job)
        while job.data_left > DUST:
            yield self.slot
            if self.env.now >= job.deadline:
                return
            job.data_left -= job.granted
        self.sending.remove(job)
        self.waiting.append(job)
        yield self.env.timeout(job.delay + 0.5)  # sent at the half of a slot, ready at the start of one
        if self.env.now >= job.deadline:
            return
        self.waiting.remove(job)
        self.computing.append(job)
        while job.work_left > DUST:
            yield self.slot
            if self.env.now >= job.deadline:
                return
            job.work_left -= job.granted
        self.computing.remove(job)
        job.done_at = int(self.env.now) + 1

    def live_leanly(self, job: Job) -> Steps:
        """Arrive, be sent, wait."""
        yield self.env.timeout(job.arrival)
        self.sending.append(job)
        yield job.sent
        self.sending.remove(job)
        self.waiting.append(job)
        yield self.env.timeout(job.delay + 0.5)
        if self.env.now < job.deadline:
            self.waiting.remove(job)
            self.computing.append(job)

    def run(self) -> Steps:
        """Every slot: drop the late, divide, let the tasks take it, pay."""
        yield self.env.timeout(0.5)
        while True:
            step = int(self.env.now)
            self.sending = [job for job in self.sending if job.deadline > step]
            self.waiting = [job for job in self.waiting if job.deadline > step]
            self.computing = [job for job in self.computing if job.deadline > step]
            if self.policy == "Uniform":
                self.divide_equally()
            else:
                self.serve_the_most_urgent()
            self.pay()
            if self.lean:
                self.serve(step)
            else:
                slot, self.slot = self.slot, self.env.event()
                slot.succeed()
            yield self.env.timeout(1)

    def divide_equally(self) -> None:
        """Uniform: compute by everyone in the site; the uplink max-min fair, the smallest first."""
        active = len(self.sending) + len(self.waiting) + len(self.computing)
        part = min(self.capacity / max(active, 1), self.task_cap)
        for job in self.computing:
            job.granted = part
        left, over = self.bandwidth, len(self.sending)
        for job in sorted(self.sending, key=lambda job: job.data_left):
            job.granted = min(job.data_left, left / over)
            left, over = left - job.granted, over - 1

    def serve_the_most_urgent(self) -> None:
        """SDF: by deadline, each fully, in both stages."""
        left = self.bandwidth
        for job in sorted(self.sending, key=lambda job: (job.deadline, job.index)):
            job.granted = min(job.data_left, left)
            left -= job.granted
        left = self.capacity
        for job in sorted(self.computing, key=lambda job: (job.deadline, job.index)):
            job.granted = min(self.task_cap, left)
            left -= job.granted

    def pay(self) -> None:
        use = sum(job.granted for job in self.computing) / self.capacity
        self.energy += self.power.servers * (self.power.idle + self.power.busy * use**3)

    def serve(self, step: int) -> None:
        """What the tasks do for themselves when the model is not lean."""
        for job in self.sending:
            job.data_left -= job.granted
            if job.data_left <= DUST:
                job.sent.succeed()
        for job in self.computing:
            job.work_left -= job.granted
            if job.work_left <= DUST:
                job.done_at = step + 1
        self.computing = [job for job in self.computing if job.done_at < 0]


def simulate_with_simpy(
    tasks: Mapping[str, Any],
    horizon: int,
    policy: str,
    *,
    capacity: float = 150.0,
    task_cap: float = 30.0,
    bandwidth: float = 100.0,
    idle: float = 0.25,
    busy: float = 7.5,
    servers: int = 5,
    lean: bool = False,
    kind: type[SimPySite] = SimPySite,
) -> tuple[list[list[int]], list[float]]:
    """Completion step of every task (-1: none) and the energy, seed by seed; `tasks` has arrays with a row per seed."""
    columns = [np.asarray(tasks[name]).tolist() for name in COLUMNS]
    done, energy = [], []
    for rows in zip(*columns, strict=True):
        env = simpy.Environment()
        site = kind(env, policy, capacity, task_cap, bandwidth, Power(idle, busy, servers), lean, env.event())
        jobs = [Job(k, *row, env.event()) for k, row in enumerate(zip(*rows, strict=True))]
        for job in jobs:
            env.process(site.live_leanly(job) if lean else site.live(job))
        env.process(site.run())
        env.run(until=horizon)
        done.append([job.done_at for job in jobs])
        energy.append(site.energy)
    return done, energy


def play(request: Request) -> Request:
    """A policy on the tasks in `file`, with the site's figures; completions and energy as they came out."""
    tasks = np.load(request["file"])
    (done, energy), spent = timed(
        lambda: simulate_with_simpy(
            tasks, request["horizon"], request["policy"], lean=request["lean"], **request["site"]
        )
    )
    return {**spent, "done": done, "energy": energy}


if __name__ == "__main__":
    listen(play)
