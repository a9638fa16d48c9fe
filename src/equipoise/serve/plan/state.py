"""The state of the service: jobs that are not over, the machines, the slot it is.

`apply` is the only way it changes, and an event says all that there is to change: replay plans nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import numpy as np

from equipoise.place.cluster import Cluster
from equipoise.place.execution import ADMITTED, PENDING, REFUSED, carry_out, fastest
from equipoise.place.job import Job
from equipoise.place.job_spec import job_from, machine_from
from equipoise.place.planner import NO_CELLS
from equipoise.place.planner.job_arrays import JobArrays, arrays_of
from equipoise.place.planner.packing import ROUNDING, SLOT
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.events import (
    Body,
    DecidedData,
    Event,
    FinishedData,
    MachineData,
    OpenedData,
    PricesData,
    ProgressData,
    SubmittedData,
    TickData,
    attributes,
)
from equipoise.serve.plan.machines import DOWN, Holding, Int32s, Machines, held_by

FORMAT = 1  # of events: every version reads those of all versions before it
FORM = 3  # of the plain state in snapshots: another form is not read, the log is replayed instead
FINISHED, CANCELLED = "finished", "cancelled"


@dataclass(slots=True)
class Held:
    """A job that is not over. `done` and `reported` in samples; `pace` its measured speed over the rate law's."""

    n: int
    id: str
    name: str
    tenant: str
    job: Job
    shape: JobArrays
    at: float  # unix seconds of submission
    body: Body = field(default_factory=dict, repr=False)  # the job in plain values, as the log has it
    state: str = PENDING
    reason: str = ""
    worth: float = 0.0
    cost: float = 0.0
    decided: int = 0  # slot of the last decision
    cells: Int32s = field(default_factory=lambda: NO_CELLS)  # not yet carried out, in order of slots
    last: Int32s = field(default_factory=lambda: NO_CELLS)  # the placement in the last slot carried out
    done: float = 0.0
    pace: float = 1.0
    reported: float = -1.0  # samples at the last report; -1: never
    mark: float = 0.0  # samples when its pace was last measured
    since: float = 0.0  # samples by the rate law since then, up to the slot that has begun
    seq: int = 0  # of the last event about it
    began: int | None = None  # the first slot it ran in
    finish: int | None = None
    # Known when first needed, and forgotten when machines are added:
    fastest: float = -1.0  # samples per slot alone on all machines
    speed: float = -1.0  # samples per slot at the width it asked for, on one machine
    share: float = -1.0  # of the cluster, at that width
    # Of the planner alone, and forgotten at a restart:
    density: tuple[int, float, float, float] = (-1, 0.0, 0.0, 0.0)  # the slot, done and pace it is of, and what it is
    tried: int = 0  # when it was last offered a promise

    def copied(self) -> Held:
        """As it is now; its arrays are never changed, only replaced."""
        return Held(*_FIELDS(self))

    @property
    def left(self) -> float:
        """Samples to go, by what was stated and reported."""
        return max(self.job.work - self.done, 0.0)

    @property
    def complete(self) -> bool:
        return self.done >= self.job.work * (1.0 - ROUNDING)

    def before(self, slot: int) -> Int32s:
        """Its cells in the slot before `slot`, where it ran or will run in it."""
        if len(self.cells) and self.cells[0, SLOT] < slot:
            return np.asarray(self.cells[self.cells[:, SLOT] == slot - 1])
        return self.last if len(self.last) and self.last[0, SLOT] == slot - 1 else NO_CELLS

    def settle(self, now: int) -> None:
        """Count the work of slots before `now` as done, at the job's pace."""
        if not len(self.cells) or self.cells[0, SLOT] >= now:
            return
        cut = int(np.searchsorted(self.cells[:, SLOT], now))
        past, self.cells = self.cells[:cut], self.cells[cut:]
        if self.began is None:
            self.began = int(past[0, SLOT])
        before = self.last if len(self.last) and self.last[0, SLOT] == past[0, SLOT] - 1 else NO_CELLS
        both = np.concatenate((before, past)) if len(before) else past
        missing = self.left / self.pace
        _, left = carry_out(both, len(before), self.shape, missing, ROUNDING * self.job.work / self.pace)
        self.since += missing - left
        self.done = self.job.work if left <= 0.0 else self.done + (missing - left) * self.pace
        self.last = past[past[:, SLOT] == past[-1, SLOT]]

    def plain(self) -> Body:
        """All that a snapshot keeps."""
        cells = {"cells": self.cells.tolist(), "last": self.last.tolist()}
        return attributes(self, *_KEPT) | {"job": self.body} | cells


_KEPT = (
    *("n", "id", "name", "tenant", "at", "state", "reason", "worth", "cost", "decided", "done", "pace", "reported"),
    *("mark", "since", "seq", "began"),
)
_NUMBERS = ("seq", "now", "count", "slot_seconds", "horizon", "start", "clock")  # of a State, as a snapshot keeps them
_FIELDS = attrgetter(*(field.name for field in fields(Held)))


class State:
    """Empty until the event `opened`. `over`: jobs that ended since it was last emptied; their rows are to be stored."""

    slot_seconds: float
    horizon: int
    start: float  # unix seconds of slot 0
    clock: str
    machines: Machines

    def __init__(self) -> None:
        self.seq = self.now = self.count = 0
        self.jobs: dict[str, Held] = {}
        self.waiting: dict[str, Held] = {}  # those of them without promise
        self.over: dict[str, Held] = {}

    @property
    def cluster(self) -> Cluster:
        return self.machines.cluster

    def holding(self) -> list[Holding]:
        return [(held.shape, held.cells) for held in self.jobs.values() if len(held.cells)]

    def apply(self, event: Event) -> None:
        """One event of the log, the next one."""
        if event.seq != self.seq + 1:
            raise ValueError(f"event {event.seq} does not follow event {self.seq}: the log has a gap")
        _APPLY[event.kind](self, event, event.data)
        self.seq = event.seq

    def _opened(self, event: Event, data: OpenedData) -> None:
        if data["format"] > FORMAT:
            raise ValueError(f"the log has format {data['format']}; this version reads up to {FORMAT}")
        self.slot_seconds, self.horizon = float(data["slot_seconds"]), int(data["horizon"])
        self.start, self.clock = float(data["start"]), str(data["clock"])
        self.now = event.slot
        self.machines = Machines.restored(data["floor"], event.slot)

    def _submitted(self, event: Event, data: SubmittedData) -> None:
        job = job_from(data["job"], self.cluster, self.slot_seconds)
        self._enter(event, job, arrays_of(job, self.cluster))

    def submit(self, event: Event, job: Job, shape: JobArrays) -> None:
        """The same as `apply`, for the caller that has just written `job` into the event."""
        self._enter(event, job, shape)
        self.seq = event.seq

    def _enter(self, event: Event, job: Job, shape: JobArrays) -> None:
        self.count += 1
        self.jobs[event.job] = self.waiting[event.job] = Held(
            n=self.count,
            id=event.job,
            name=event.data["name"],
            tenant=event.tenant,
            job=job,
            shape=shape,
            at=event.at,
            body=event.data["job"],
            decided=event.slot,
            seq=event.seq,
        )

    def _decided(self, event: Event, data: DecidedData) -> None:
        held = self.jobs[event.job]
        held.state, held.reason = data["state"], data["reason"]
        held.worth, held.cost = data["worth"], data["cost"]
        held.decided, held.seq = event.slot, event.seq
        if "cells" in data:
            self._give_back(held)
            held.cells = cells_of(data["cells"])
            self.machines.take(held.shape, held.cells)
        if held.state == REFUSED:
            self._end(held)
        elif held.state == ADMITTED:
            self.waiting.pop(held.id, None)
        else:
            self.waiting[held.id] = held

    def _give_back(self, held: Held) -> None:
        if len(held.cells):
            self.machines.release(held.shape, held.cells)
            held.cells = NO_CELLS

    def _end(self, held: Held) -> None:
        self._give_back(held)
        self.waiting.pop(held.id, None)
        self.over[held.id] = self.jobs.pop(held.id)

    def _tick(self, event: Event, data: TickData) -> None:
        self.now = int(data["slot"])
        for held in self.jobs.values():
            held.settle(self.now)
        self.machines.advance(self.now)

    def _progress(self, event: Event, data: ProgressData) -> None:
        held = self.jobs[event.job]
        held.done, held.pace, held.reported = data["done"], data["pace"], data["reported"]
        held.mark, held.since, held.seq = data["mark"], data["since"], event.seq

    def _finished(self, event: Event, data: FinishedData) -> None:
        held = self.jobs[event.job]
        held.state, held.reason, held.finish, held.seq = FINISHED, data["reason"], data["slot"], event.seq
        held.done = held.job.work
        self._end(held)

    def _cancelled(self, event: Event, data: Body) -> None:
        held = self.jobs[event.job]
        held.state, held.reason, held.seq = CANCELLED, "", event.seq
        self._end(held)

    def _machine(self, event: Event, data: MachineData) -> None:
        if data["status"] == "added":
            self.machines.enlarge(self.machines.grown(machine_from(data["machine"])))
            for held in self.jobs.values():
                held.shape = arrays_of(held.job, self.cluster)
                held.fastest = held.speed = held.share = -1.0
                held.density = (-1, 0.0, 0.0, 0.0)
            self.machines.fill_from(self.holding())
        else:
            self.machines.set(self.machines.machine(data["name"]), data["status"], self.holding())

    def _prices(self, event: Event, data: PricesData) -> None:
        self.machines.reprice(np.array(data["base"]), np.array(data["growth"]), self.holding())

    # Snapshots, and what must be equal after replay.

    def plain(self) -> Body:
        """All of it as plain JSON."""
        jobs = [held.plain() for held in self.jobs.values()]
        return attributes(self, *_NUMBERS) | {"form": FORM, "floor": self.machines.plain(), "jobs": jobs}

    def digest(self) -> str:
        """The same for equal states to the last bit, and for no others."""
        return digest_of(self.plain())

    @classmethod
    def restored(cls, plain: Body) -> State:
        """The state that `plain` describes."""
        if plain.get("form") != FORM:
            raise ValueError(f"the snapshot has form {plain.get('form')}; this version reads form {FORM}")
        state = cls()
        for name in _NUMBERS:
            setattr(state, name, plain[name])
        state.machines = Machines.restored(plain["floor"], state.now)
        for values in plain["jobs"]:
            job = job_from(values["job"], state.cluster, state.slot_seconds)
            rest = {name: values[name] for name in _KEPT} | {name: cells_of(values[name]) for name in ("cells", "last")}
            held = Held(job=job, body=values["job"], shape=arrays_of(job, state.cluster), **rest)
            state.jobs[held.id] = held
            if held.state != ADMITTED:
                state.waiting[held.id] = held
        state.machines.fill_from(state.holding())
        return state

    def audit(self) -> str:
        """Where the book differs from what jobs hold, or a machine holds more than it has or anything while down; ""."""
        machines, now = self.machines, self.now
        really = np.zeros((machines.window, *machines.capacity.shape), np.int64)
        for shape, cells in self.holding():
            if len(cells) and (cells[0, SLOT] < now or cells[-1, SLOT] >= now + machines.window):
                return f"cells of slots {cells[0, SLOT]} to {cells[-1, SLOT]} are out of view in slot {now}"
            np.add.at(really, (cells[:, SLOT] - now, cells[:, 1]), held_by(shape, cells))
        if (really > machines.capacity).any():
            t, h, r = np.argwhere(really > machines.capacity)[0].tolist()
            return f"{machines.names[h]} holds more {self.cluster.resources[r]} than it has in slot {now + t}"
        shut = machines.shut()
        for h in shut:
            if machines.status[h] == DOWN and really[:, h].any():
                return f"{machines.names[h]} is down and holds a job"
        expected = really.copy()
        expected[:, shut] = machines.capacity[shut]
        for t in range(machines.window):
            if not np.array_equal(machines.planner.used(now + t), expected[t]):
                return f"the book of slot {now + t} is not what jobs hold"
        return ""

    def alone(self, held: Held) -> float:
        """Samples per slot of a job alone on all machines, up or not."""
        if held.fastest < 0.0:
            held.fastest = float(fastest(self.cluster.capacity, self.cluster.counts, held.shape))
        return held.fastest


_APPLY: dict[str, Callable[[State, Event, Any], None]] = {
    kinds.OPENED: State._opened,
    kinds.SUBMITTED: State._submitted,
    kinds.DECIDED: State._decided,
    kinds.TICK: State._tick,
    kinds.PROGRESS: State._progress,
    kinds.FINISHED: State._finished,
    kinds.CANCELLED: State._cancelled,
    kinds.MACHINE: State._machine,
    kinds.PRICES: State._prices,
}


def cells_of(rows: list[list[int]]) -> Int32s:
    return np.array(rows, np.int32).reshape(-1, 4) if rows else NO_CELLS


def digest_of(plain: Body) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
