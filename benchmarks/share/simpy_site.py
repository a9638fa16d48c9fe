"""The site as a SimPy model, the way one is written: a process a task, and one for the site. Uniform; no curve is fitted.

Tasks act for themselves: each resumes in every slot in which it sends or computes, takes what the site grants, and goes
on. (`lean=True` uses SimPy as little more than a clock: the site serves all tasks from lists, and a task's process only
arrives and waits. It is faster, and hardly SimPy.)
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from equipoise.share.workload import Batch

Steps = Generator[simpy.Event, Any, None]
DUST = 1e-9


@dataclass(slots=True, eq=False)
class Job:
    """One task: what it needs and what it still needs."""

    arrival: int
    deadline: int
    delay: int
    data_left: float
    work_left: float
    sent: simpy.Event
    granted: float = 0.0
    done_at: int = -1


@dataclass(slots=True)
class SimPySite:
    """Servers as one pool, and one uplink. Slot t is decided at t + 1/2: what happens at t happens before it."""

    env: simpy.Environment
    capacity: float
    task_cap: float
    bandwidth: float
    slot: simpy.Event
    sending: list[Job]
    waiting: list[Job]
    computing: list[Job]
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

    def run(self, idle: float, busy: float, nodes: int, lean: bool) -> Steps:
        """Every slot: drop the late, divide, let the tasks take it, pay."""
        yield self.env.timeout(0.5)
        while True:
            step = int(self.env.now)
            self.sending = [job for job in self.sending if job.deadline > step]
            self.waiting = [job for job in self.waiting if job.deadline > step]
            self.computing = [job for job in self.computing if job.deadline > step]
            active = len(self.sending) + len(self.waiting) + len(self.computing)
            part = min(self.capacity / max(active, 1), self.task_cap)
            self.energy += nodes * (idle + busy * (part * len(self.computing) / self.capacity) ** 3)
            self.divide_bandwidth()
            if lean:
                self.serve(step, part)
            else:
                for job in self.computing:
                    job.granted = part
                slot, self.slot = self.slot, self.env.event()
                slot.succeed()
            yield self.env.timeout(1)

    def divide_bandwidth(self) -> None:
        """Max-min fair: the smallest first, each at most an equal part of what is left."""
        left, over = self.bandwidth, len(self.sending)
        for job in sorted(self.sending, key=lambda job: job.data_left):
            job.granted = min(job.data_left, left / over)
            left, over = left - job.granted, over - 1

    def serve(self, step: int, part: float) -> None:
        """What the tasks do for themselves when the model is not lean."""
        for job in self.sending:
            job.data_left -= job.granted
            if job.data_left <= DUST:
                job.sent.succeed()
        for job in self.computing:
            job.work_left -= part
            if job.work_left <= DUST:
                job.done_at = step + 1
        self.computing = [job for job in self.computing if job.done_at < 0]


def simulate_with_simpy(
    batch: Batch, *, capacity: float = 150.0, task_cap: float = 30.0, bandwidth: float = 100.0, lean: bool = False
) -> tuple[list[list[int]], list[float]]:
    """Completion step of every task (-1: none) and the energy, seed by seed."""
    columns = [getattr(batch, name).tolist() for name in ("arrival", "deadline", "delay", "data", "work")]
    done, energy = [], []
    for rows in zip(*columns, strict=True):
        env = simpy.Environment()
        site = SimPySite(env, capacity, task_cap, bandwidth, env.event(), [], [], [])
        jobs = [Job(t, end, wait, data, work, env.event()) for t, end, wait, data, work in zip(*rows, strict=True)]
        for job in jobs:
            env.process(site.live_leanly(job) if lean else site.live(job))
        env.process(site.run(0.25, 7.5, 5, lean))
        env.run(until=batch.horizon)
        done.append([job.done_at for job in jobs])
        energy.append(site.energy)
    return done, energy
