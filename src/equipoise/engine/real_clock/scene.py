"""The tasks of a run, and the same tasks for the simulator: draw them, train each once alone, keep its curve and cost.

A sample of the site is a piece of CPU, the same for all: (CPUs x seconds of a step) / (samples the site does in a step).
A unit of a task costs as many samples as it took when it was recorded. Training is deterministic, so that the recorded
curve is the one that the executed task will follow. Tasks are recorded as on a crowded site, half a server's share each and
two for every server: a process that pauses often needs more CPU for the same work.
"""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from equipoise.engine.cpu_limit import CpuLimiter
from equipoise.engine.real_clock.task_processes import ENDED, ENOUGH, REACHED, Start, TaskProcesses, Work
from equipoise.errors import Failure, InputError
from equipoise.kernels import Floats
from equipoise.share.recording import Name, Recording, fit_prior
from equipoise.share.site import Site
from equipoise.share.task import Curve, Task
from equipoise.share.view import Prior
from equipoise.share.workload import Batch, Workload

Range = tuple[float, float]
Progress = Callable[[int, int], None]

PAST = 3  # tasks of each kind that are trained beforehand: what is known of speed and of curves
PAST_SEEDS = 2**30  # from here on: no task of a run is among them
POINTS = 60  # of a curve that beliefs are fitted on
LEAST_ERROR = 1e-6  # in the simulation, whose curves have logarithms
UNITS_LEAST = 3
READY_LIMIT = 30.0  # seconds in which a task must have made itself ready
CROWD = 2  # tasks to a server while they are recorded
SLOWER = 2.0  # how much longer than `patience` a task may take on a busy machine
STEP_LEAST = 0.05  # seconds
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class RealScene:
    """A site on CPUs of this machine, steps of the clock, and the ranges that tasks are drawn from.

    Parameters
    ----------
    cpus
        CPUs of this machine that are the whole site.
    step
        Seconds of a step.
    site
        Its servers, uplink and law of energy.
    arrival
        Step of arrival, floored.
    data
        Samples to send.
    deadline
        Steps from arrival to deadline, rounded.
    work
        Samples of the site, drawn log-uniformly: the target of a task is its least error within it.
    target
        The error that every task must reach, instead.
    patience
        Seconds of CPU, or asleep, without a unit after which a task counts as hung.
    trial
        Seconds of CPU of each task that is trained beforehand.
    """

    cpus: float = 1.0
    step: float = 0.4
    site: Site = field(default_factory=Site)
    arrival: Range = (0.0, 12.0)
    data: Range = (14.0, 35.0)
    deadline: Range = (16.0, 24.0)
    work: Range = (60.0, 900.0)
    target: float | None = None
    patience: float = 2.0
    trial: float = 1.0

    def __post_init__(self) -> None:
        if self.target is not None and not math.isfinite(self.target):
            raise InputError(f"target {self.target!r}: the error that a task must reach is a number")
        for name in ("cpus", "step", "patience", "trial"):
            value = getattr(self, name)
            if not 0.0 < value < float("inf"):
                raise InputError(f"{name} is {value!r}; expected a positive number", code=f"{name}.range")
        if self.step < STEP_LEAST:
            raise InputError(
                f"step is {self.step:g} s; expected {STEP_LEAST:g} or more: a share is held by pauses of 10 ms",
                code="step.range",
            )
        if self.work[0] < 1.0 or self.work[1] < self.work[0]:
            raise InputError(
                f"work is {self.work[0]:g} to {self.work[1]:g} samples; expected 1 <= low <= high", code="work.range"
            )

    @property
    def sample(self) -> float:
        """Seconds of CPU that one sample of the site is."""
        return self.cpus * self.step / self.site.capacity

    @property
    def cores(self) -> float:
        """CPUs per sample per step."""
        return self.cpus / self.site.capacity


@dataclass(frozen=True)
class Trained:
    """One task trained alone: its errors unit by unit, the CPU of a unit, and what went wrong, if anything."""

    work: Work
    errors: Floats
    unit: float  # seconds of CPU
    fault: str = ""


@dataclass(frozen=True)
class RealPlan:
    """Tasks that can be simulated and executed: the batch has one row, its works are those of the recorded curves."""

    scene: RealScene
    seed: int
    works: tuple[Work, ...]
    recorded: tuple[Trained, ...]
    samples: Floats  # per unit, by task
    batch: Batch
    prior: Prior
    units: dict[str, float]  # seconds of CPU by kind, with which targets were drawn

    @property
    def targets(self) -> Floats:
        return np.asarray(self.batch.target[0])


def make_plan(
    processes: TaskProcesses,
    cpu: CpuLimiter,
    scene: RealScene,
    kinds: Sequence[str],
    tasks: int,
    seed: int,
    *,
    units: dict[str, float] | None = None,
    past: Sequence[Trained] | None = None,
    progress: Progress | None = None,
) -> RealPlan:
    """Draw the tasks of a seed and record them. `units` (CPU of a unit by kind) repeats the targets of an earlier plan."""
    rng = np.random.default_rng([seed, tasks])
    past = record_past(processes, cpu, scene, kinds) if past is None else past
    costs = _costs(list(dict.fromkeys(kinds)), past, scene, units)
    works = tuple(Work(kinds[k % len(kinds)], seed * 100_000 + k) for k in rng.permutation(tasks).tolist())
    drawn = np.exp(rng.uniform(math.log(scene.work[0]), math.log(scene.work[1]), tasks))
    counts = [
        max(UNITS_LEAST, round(w * scene.sample / costs[work.kind])) for w, work in zip(drawn, works, strict=True)
    ]
    longest = scene.deadline[1] * scene.site.most_per_task * scene.sample
    starts = [
        Start(work, units=count) if scene.target is None else Start(work, target=scene.target, cpu=longest)
        for work, count in zip(works, counts, strict=True)
    ]
    recorded = tuple(record_all(processes, cpu, scene, starts, progress))
    samples = np.array([max(t.unit, 1e-9) / scene.sample for t in recorded])
    return RealPlan(
        scene, seed, works, recorded, samples, _batch(scene, recorded, samples, seed, rng), _prior(past, scene), costs
    )


def record_past(processes: TaskProcesses, cpu: CpuLimiter, scene: RealScene, kinds: Sequence[str]) -> list[Trained]:
    """Other tasks of each kind, trained for a second: what may be known before a run."""
    seeds = range(PAST_SEEDS, PAST_SEEDS + PAST)
    starts = [Start(Work(kind, seed), cpu=scene.trial) for seed in seeds for kind in kinds]
    return list(record_all(processes, cpu, scene, starts))


def record_all(
    processes: TaskProcesses,
    cpu: CpuLimiter,
    scene: RealScene,
    starts: Sequence[Start],
    progress: Progress | None = None,
    share: float | None = None,
) -> list[Trained]:
    """Train each at a share of so many cores (half a server unless given); one that raises or hangs keeps what it showed."""
    share = scene.site.most_per_task * scene.cores / CROWD if share is None else share
    found: dict[int, Trained] = {}
    queue = sorted(range(len(starts)), key=lambda k: starts[k].units or 0)  # the longest begins first
    running: dict[int, _Recorder] = {}
    free = list(range(min(max(1, round(scene.cpus / share)), processes.memory.slots)))
    try:
        while queue or running:
            while queue and free:
                slot, k = free.pop(), queue.pop()
                running[slot] = _Recorder(processes, cpu, scene, share, slot, k, starts[k])
            time.sleep(0.002)
            processes.check_alive()
            for slot, recorder in list(running.items()):
                if recorder.is_over():
                    found[recorder.task] = recorder.take()
                    del running[slot]
                    free.append(slot)
                    if progress is not None:
                        progress(len(found), len(starts))
    finally:
        for recorder in running.values():
            recorder.end()
    return [found[k] for k in range(len(starts))]


class _Recorder:
    """One task that is being recorded."""

    def __init__(
        self,
        processes: TaskProcesses,
        cpu: CpuLimiter,
        scene: RealScene,
        share: float,
        slot: int,
        task: int,
        start: Start,
    ) -> None:
        self.processes, self.slot, self.task, self.start, self.share = processes, slot, task, start, share
        self.limit = SLOWER * scene.patience / self.share
        pid = processes.start(slot, start)
        late = processes.wait_ready([slot], READY_LIMIT)
        self.fault = f"was not ready after {READY_LIMIT:g} s" if late else ""
        self.held = processes.held(slot, pid, cpu, self.share)
        processes.let_in(slot)
        self.units, self.since = 0, time.monotonic()

    def is_over(self) -> bool:
        """Exited, or without a unit for too long."""
        units, now = int(self.processes.memory.rows[self.slot]["units"]), time.monotonic()
        if units > self.units:
            self.units, self.since = units, now
        if self.processes.exited(self.slot) or self.fault:
            return True
        if now - self.since > self.limit:
            self.fault = f"hung: no unit in {self.limit:.3g} s at {self.share:.2g} CPUs, after {units} units"
        return bool(self.fault)

    def take(self) -> Trained:
        self.end()
        row = self.processes.memory.rows[self.slot]
        units = int(row["units"])
        status = int(row["status"])
        whole = status == ENDED and units > 0 and self.start.target is None  # as long as it is
        if status not in (REACHED, ENOUGH) and not whole and not self.fault:
            self.fault = self.processes.fault(self.slot)
        unit = float(row["cpu"]) / units if units else 0.0
        return Trained(self.start.work, self.processes.memory.seen(self.slot), unit, self.fault)

    def end(self) -> None:
        self.processes.end(self.slot, self.held)
        self.processes.wait_gone([self.slot])


def _costs(
    kinds: Sequence[str], past: Sequence[Trained], scene: RealScene, given: dict[str, float] | None
) -> dict[str, float]:
    """Mean CPU of a unit by kind, to three digits. A kind of which no trial did a unit counts as one sample: its tasks
    will fail and say why."""
    costs = {}
    for kind in kinds:
        seen = [t.unit for t in past if t.work.kind == kind and t.unit > 0]
        costs[kind] = (given or {}).get(kind) or float(f"{np.mean(seen) if seen else scene.sample:.3g}")
    if not any(t.unit > 0 for t in past):
        raise Failure(f"no trial of {', '.join(kinds)} did a unit of work: {past[0].fault.splitlines()[-1]}")
    return costs


def _batch(
    scene: RealScene, recorded: Sequence[Trained], samples: Floats, seed: int, rng: np.random.Generator
) -> Batch:
    """The tasks for the simulator: the recorded curves by samples of the site; the rest is drawn from the seed."""
    n = len(recorded)
    arrival = np.sort(np.floor(rng.uniform(*scene.arrival, n))).astype(int)
    relative = np.maximum(np.round(rng.uniform(*scene.deadline, n)), 1).astype(int)
    data = rng.uniform(*scene.data, n)
    tasks, works = [], np.empty((1, n))
    for k, trained in enumerate(recorded):
        least = float(trained.errors.min()) if len(trained.errors) else 0.0
        target = least if scene.target is None else scene.target
        reached = np.flatnonzero(trained.errors <= target)
        hopeless = not len(reached) or (trained.fault and scene.target is None)
        works[0, k] = np.inf if hopeless else (reached[0] + 1) * samples[k]
        if trained.fault and scene.target is None:
            target = 0.0  # it would have gone on; where to is not known
        curve = _curve(trained.errors, float(samples[k]))
        tasks.append(Task(int(arrival[k]), int(arrival[k] + relative[k]), float(data[k]), max(target, 0.0), curve))
    batch = Workload.of(tasks).draw(n, [seed], scene.site)
    return Batch(**{**vars(batch), "work": works})


def _curve(errors: Floats, per_unit: float) -> Curve:
    """Errors against samples of the site, from 1 on; a task that never showed one stays at 1."""
    at = per_unit * np.arange(1, len(errors) + 1)
    first = max(int(np.searchsorted(at, 1.0, "right")) - 1, 0)
    at, seen = np.maximum(at[first:], 1.0), np.maximum(errors[first:], LEAST_ERROR)
    if len(at) < 2:
        level = float(seen[0]) if len(seen) else 1.0
        return Curve.recorded([1.0, 2.0], [level, level])
    return Curve.recorded(at.tolist(), seen.tolist())


def _prior(past: Sequence[Trained], scene: RealScene) -> Prior:
    """What the trials show of (ln a, b): curves of other seeds, in samples of this site."""
    curves, names = [], []
    for trained in past:
        curve = _curve(trained.errors, trained.unit / scene.sample)
        places = np.unique(np.round(np.geomspace(1, len(curve.samples), POINTS)).astype(int)) - 1
        if len(places) >= UNITS_LEAST:
            curves.append((np.array(curve.samples)[places], np.array(curve.errors)[places]))
            names.append(Name(trained.work.kind, "", "", str(trained.work.seed)))
    return fit_prior(Recording.of(curves, names)) if len(curves) > 1 else Prior()
