"""One policy on the real clock: the simulator's step (docs/share.md, 1), with real processes in place of curves.

Arrivals, transfers, delays and deadlines are the simulator's own, paced by the clock. Compute is real: a decision of x
samples becomes a share of CPU that the task's process is held to, and what it did with it is read from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from equipoise.engine.cpu_limit import CpuLimiter, Held
from equipoise.engine.cpu_limit.process_tree import facts
from equipoise.engine.real_clock.scene import READY_LIMIT, RealPlan
from equipoise.engine.real_clock.task_processes import OVER, REACHED, Start, TaskProcesses
from equipoise.kernels import Floats, Ints
from equipoise.share import step as site_step
from equipoise.share.simulate import Run, Trace, arrays_of, fresh, refuse, run_of
from equipoise.share.site import PER_NODE, cheapest_loads, step_energy
from equipoise.share.task import COMPUTING, DONE, FAILED, SENDING
from equipoise.share.view import Policy, View

Progress = Callable[[int, int], None]

FIRST_SHARE = 0.01  # cores, for the moment between being held and being paused
SAME = 1e-9  # cores
# A smaller share than this is this one for a part of the step: a quota of 1 ms needs long periods, and the kernel ends an
# old period before it begins with a new share.
SMALL = 0.05  # cores
DOZING = 0.1  # of the CPU it may have: a task that takes less and sleeps waits for something, not for CPU
STRETCH = 0.5  # of a step: if the driver is later than that, the clock waits for it


@dataclass(frozen=True)
class Fault:
    """A task that could not go on, and why."""

    task: int
    step: int
    why: str


@dataclass(frozen=True)
class Executed:
    """What happened. `run` has the simulator's shape, its trace the decisions and what was really done."""

    run: Run
    finished: Floats  # steps from the start to reaching the target, on the clock; nan: never
    units: Ints
    errors: tuple[Floats, ...]  # as the processes showed them, by task
    asked: Floats  # seconds of CPU by task, while it could use them
    got: Floats
    above: Floats  # seconds of CPU by task above what its shares allow
    inside: Floats  # seconds of the clock in which it could run
    took: Floats  # CPU in samples of the site, by step and task
    faults: tuple[Fault, ...]
    late: Floats  # seconds by which each step began late
    stretched: int  # steps that had to wait for the driver

    @property
    def shortfall(self) -> float:
        """Part of the CPU asked for that tasks did not get."""
        missed = np.maximum(self.asked - self.got, 0.0).sum()
        return float(missed / self.asked.sum()) if self.asked.sum() > 0 else 0.0


class Clock:
    """Steps of equal length; one that cannot be kept is stretched, and counted."""

    def __init__(self, step: float) -> None:
        self.step, self.began, self.late, self.stretched = step, time.monotonic(), list[float](), 0

    def wait_for(self, number: int) -> None:
        self.sleep_until(self.due(number))
        late = time.monotonic() - self.due(number)
        self.late.append(late)
        if late > STRETCH * self.step:
            self.began += late
            self.stretched += 1

    def due(self, number: int) -> float:
        return self.began + number * self.step

    def sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            time.sleep(left)

    def steps(self, at: float) -> float:
        return (at - self.began) / self.step


def execute(
    policy: Policy, plan: RealPlan, processes: TaskProcesses, cpu: CpuLimiter, progress: Progress | None = None
) -> Executed:
    """The main loop. Leaves no process behind."""
    tasks = _RunningTasks(plan, processes, cpu)
    try:
        tasks.assemble()
        return _run(policy, plan, tasks, progress)
    finally:
        tasks.clear()


def _run(policy: Policy, plan: RealPlan, tasks: _RunningTasks, progress: Progress | None) -> Executed:
    scene, batch, site = plan.scene, plan.batch, plan.scene.site
    decider = fresh(policy, batch, site, plan.prior)
    endless = replace(batch, work=np.full(batch.shape, np.inf))  # tasks end when their processes say so
    now, rule = site_step.start(endless, site), site_step.rules(site)
    view, kept = site_step.empty_view(batch.shape, rule), Trace.empty(batch, len(site.servers))
    energy, idle, took = 0.0, 0.0, np.zeros((batch.horizon, batch.shape[1]))
    clock = Clock(scene.step)
    for step in range(batch.horizon):
        site_step.open_step(step, now, view, rule, False)
        tasks.tend(step, now, clock)
        view.state[:] = now.state
        decision = decider.decide(view._replace(step=step))
        bandwidth, compute, server = arrays_of(decision, policy, step, batch.shape, own=True)
        kept.before(step, now.state, view, compute)
        able = bool((now.state == COMPUTING).any())
        fault = site_step.close_step(step, now, view, bandwidth, compute, server, rule, False, kept.ran[step])
        refuse(fault, policy, step, batch, now.state, rule)
        tasks.give(compute[0] * scene.cores)
        tasks.rest(clock, step + 1)
        took[step] = tasks.read(step, now, view, clock)
        energy += step_cost(took[step], rule)
        idle += max(rule.capacity - float(took[step].sum()), 0.0) if able else 0.0
        kept.after(step, bandwidth, compute, now, view)
        if progress is not None:
            progress(step + 1, batch.horizon)
    run = replace(run_of(policy, site, batch, now, kept), energy=np.array([energy]), idle=np.array([idle]))
    return Executed(
        run,
        tasks.finished,
        tasks.units,
        tasks.errors(),
        tasks.asked,
        tasks.got,
        np.maximum(tasks.got - tasks.allowed, 0.0),
        tasks.inside_for,
        took,
        tuple(tasks.faults),
        np.array(clock.late),
        clock.stretched,
    )


def step_cost(did: Floats, rule: site_step.Rules) -> float:
    """Energy of a step, by the site's law, from the CPU that tasks really took, in samples."""
    total, load = float(min(did.sum(), rule.capacity)), np.zeros(len(rule.speeds))
    if rule.law == PER_NODE:
        rates = np.minimum(did[did > 0], rule.task_cap)
        cheapest_loads(rates, len(rates), load)
    return float(step_energy(rule.law, rule.idle, rule.busy, rule.capacities, total, load))


class _RunningTasks:
    """The processes of a run: who is held to what, and what each has shown so far."""

    def __init__(self, plan: RealPlan, processes: TaskProcesses, cpu: CpuLimiter) -> None:
        self.plan, self.processes, self.cpu, self.n = plan, processes, cpu, len(plan.works)
        self.held: list[Held | None] = [None] * self.n
        self.inside = np.zeros(self.n, bool)  # let in, not over
        self.shares, self.enforced, self.since = np.zeros(self.n), np.zeros(self.n), time.monotonic()
        self.units, self.seen = np.zeros((2, self.n), np.int64)  # seen: steps that showed an error
        self.finished = np.full(self.n, np.nan)
        self.asked, self.allowed, self.got, self.quiet = (np.zeros(self.n) for _ in range(4))  # seconds of CPU
        self.asleep, self.read_at = np.zeros(self.n), time.monotonic()  # seconds of the clock
        self.inside_for = np.zeros(self.n)  # the same since it was let in
        self.faults: list[Fault] = []
        self.started: list[int] = []
        self.pulses: list[tuple[float, int]] = []  # when a small share ends, and whose

    def assemble(self) -> None:
        """All processes, ready and paused, before the clock starts."""
        targets = self.plan.targets
        for k, work in enumerate(self.plan.works):
            pid = self.processes.start(k, Start(work, target=float(targets[k])))
            self.started.append(k)
            self.processes.wait_ready([k], READY_LIMIT)
            held = self.held[k] = self.processes.held(k, pid, self.cpu, FIRST_SHARE)
            if held is not None:
                held.set(0.0)

    def tend(self, step: int, now: site_step.Now, clock: Clock) -> None:
        """Let tasks in that may compute; end those that failed; report those that cannot go on."""
        state = now.state[0]
        for k in range(self.n):
            if self.held[k] is None and SENDING <= state[k] <= COMPUTING:
                why = self.processes.fault(k) or f"was not ready after {READY_LIMIT:g} s"
                self._fail(k, step, why, now)
            elif state[k] == COMPUTING and not self.inside[k]:
                self.inside[k] = True
                self.processes.let_in(k)
            elif state[k] == FAILED and self.inside[k]:
                self._end(k)

    def give(self, shares: Floats) -> None:
        """Hold every process to its share, less what it took too much before; those that get less first.

        A limiter works in periods, and a change may begin a new one early: of a small share that is a part worth taking
        back. What was missed is never given back: a share is a ceiling. A very small one is given in one piece.
        """
        now = time.monotonic()
        self._count(now, np.full(self.n, now))
        self.shares = np.where(self.inside, shares, 0.0)
        overdrawn = np.maximum(self.got - self.allowed, 0.0) / self.plan.scene.step
        wanted = np.maximum(self.shares - overdrawn, 0.0)
        small = (wanted > SAME) & (wanted < SMALL)
        self.pulses = [(now + wanted[k] / SMALL * self.plan.scene.step, k) for k in np.flatnonzero(small).tolist()]
        wanted = np.where(small, SMALL, wanted)
        for k in np.argsort(wanted - self.enforced).tolist():
            held = self.held[k]
            if held is not None and abs(wanted[k] - self.enforced[k]) > SAME:
                held.set(float(wanted[k]))
        self.enforced = wanted

    def rest(self, clock: Clock, step: int) -> None:
        """Until the next step; who has a small share is paused when it has had it."""
        for end, k in sorted(self.pulses):
            clock.sleep_until(min(end, clock.due(step)))
            held = self.held[k]
            if held is not None:
                held.set(0.0)
            self.enforced[k] = 0.0
        clock.wait_for(step)

    def _count(self, now: float, until: Floats) -> Floats:
        """What shares have allowed since the last count; and asked, of a task that is over only until then."""
        asked = self.shares * np.clip(until - self.since, 0.0, now - self.since)
        self.allowed += self.shares * (now - self.since)
        self.inside_for += np.where(self.inside, now - self.since, 0.0)
        self.asked += asked
        self.since = now
        return np.asarray(asked)

    def read(self, step: int, now: site_step.Now, view: View, clock: Clock) -> Floats:
        """Write what happened in the step into the simulator's state; returns the CPU that each task took, in samples."""
        self.processes.check_alive()
        rows, time_now = self.processes.memory.rows[: self.n].copy(), time.monotonic()
        over = np.isin(rows["status"], OVER) & (rows["units"] > self.units)
        asked = self._count(time_now, np.where(over, rows["at"], time_now))
        elapsed, self.read_at = time_now - self.read_at, time_now
        did = np.zeros(self.n)
        view.observed[:] = False
        for k in np.flatnonzero(self.inside).tolist():
            row = rows[k]
            took = self._cpu(k, float(row["cpu"])) - self.got[k]
            done = int(row["units"]) - self.units[k]
            did[k] = took / self.plan.scene.sample
            self.got[k] += took
            self.quiet[k] = 0.0 if done else self.quiet[k] + took
            dozes = not done and asked[k] > 0.0 and took < DOZING * asked[k] and sleeps(self.held[k])
            self.asleep[k] = self.asleep[k] + elapsed if dozes else 0.0
            self.units[k] += done
            self._show(k, done, float(row["error"]), now, view)
            self._conclude(k, step, int(row["status"]), float(row["at"]), now, clock)
        return did

    def _show(self, k: int, done: int, error: float, now: site_step.Now, view: View) -> None:
        """What a policy may see of a task: its samples, and its last error if there was a new one."""
        samples = self.units[k] * self.plan.samples[k]
        now.curve["samples"][0, k] = view.samples[0, k] = samples
        self.seen[k] += done > 0
        view.observations[0, k] = now.curve["observations"][0, k] = self.seen[k]
        if done:
            view.error[0, k], view.observed[0, k] = error, True

    def _conclude(self, k: int, step: int, status: int, at: float, now: site_step.Now, clock: Clock) -> None:
        if status == REACHED:
            now.state[0, k], now.due[0, k], now.task["done_at"][0, k] = DONE, site_step.NEVER, step + 1
            self.finished[k] = clock.steps(at)
            self._end(k)
            return
        patience = self.plan.scene.patience
        why = self.processes.fault(k)
        if not why and self.quiet[k] > patience:
            why = f"hung: no unit in {patience:g} s of CPU, after {self.units[k]} units"
        if not why and self.asleep[k] > patience:
            why = f"hung: asleep for {patience:g} s while it had CPU, after {self.units[k]} units"
        if why:
            self._fail(k, step, why, now)

    def _fail(self, k: int, step: int, why: str, now: site_step.Now) -> None:
        self.faults.append(Fault(k, step, why))
        now.state[0, k], now.due[0, k] = FAILED, site_step.NEVER
        self._end(k)

    def _cpu(self, k: int, shown: float) -> float:
        """Seconds of CPU of the task since it was let in: as its limiter measures, or as it says if that is more."""
        held = self.held[k]
        return max(shown, float(self.got[k]), 0.0 if held is None else held.usage().cpu_seconds)

    def errors(self) -> tuple[Floats, ...]:
        """Of every task, as far as they were read: one may do a unit more before it is ended."""
        return tuple(self.processes.memory.seen(k)[: self.units[k]] for k in range(self.n))

    def _end(self, k: int) -> None:
        """Its process gets no more time, and is dead soon."""
        self.inside[k], self.shares[k], self.enforced[k] = False, 0.0, 0.0
        self.processes.end(k, self.held[k])

    def clear(self) -> None:
        """Whatever happened: nothing is left held or running."""
        for k in self.started:
            self.processes.end(k, self.held[k])
        self.processes.wait_gone(self.started)


def sleeps(held: Held | None) -> bool:
    """Whether a task's process waits for something: one without CPU is runnable, one that is paused is stopped."""
    now = None if held is None else facts(held.pid)
    return now is not None and now.state in "SD"
