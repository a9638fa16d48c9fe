"""The certificate of a service, from its log alone: nothing the planner, the book or the state counted is trusted.

Events are walked once; what every job held in every slot is put together from them and checked by `place.verify`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from equipoise.certificate import Certificate, Check
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Job, Workload
from equipoise.place.job_spec import job_from, machine_from
from equipoise.place.verify import measure
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.events import Event

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
# Spelled anew: nothing of the planner is used here.
LATE = ("late", "overdue")
TROUBLE = ("machine_down", *LATE)


@dataclass
class Walked:
    """A job according to the log. `held`: cells of slots that passed, or that it still has."""

    job: Job
    cells: list[list[int]] = field(default_factory=list)
    held: list[list[int]] = field(default_factory=list)
    state: str = "pending"
    promised: bool = False
    trouble: bool = False  # a machine failed under it, or it was slower than it said
    late: bool = False
    reported: bool = False
    finish: int = -1

    def lawful(self, waits: bool) -> bool:
        """Whether the rate law alone says when it is done: it reported nothing, was not late, and was not cancelled halfway.

        Where reports are waited for, only finished jobs count: an open one may be done and not have said so.
        """
        told = self.reported or self.late or self.state == "cancelled"
        return not told and (self.state == "finished" or not waits)

    def keep(self, before: int) -> None:
        """Cells of slots before `before` were held; the rest is given back."""
        self.held += [cell for cell in self.cells if cell[0] < before]
        self.cells = []


class Walk:
    """All of a log, event by event."""

    def __init__(self) -> None:
        self.jobs: dict[str, Walked] = {}
        self.machines: list[Machine] = []
        self.down: dict[str, int] = {}
        self.outages: list[tuple[str, int, int]] = []  # machine, the slot it failed in, the slot it came back in
        self.seq = self.now = self.gaps = self.misplaced = 0
        self.waits_for_reports = False

    def take(self, events: Iterable[Event]) -> Walk:
        for event in events:
            self.gaps += event.seq != self.seq + 1
            self.misplaced += event.kind != kinds.OPENED and event.slot != self.now
            self.seq = event.seq
            self._one(event)
        return self

    def _one(self, event: Event) -> None:
        data = event.data
        if event.kind == kinds.OPENED:
            machines = data["floor"]
            self.machines = [machine_from(values) for values in machines["machines"]]
            self.rates = machines["inside"], machines["between"], machines.get("across")
            self.slot_seconds, self.window = data["slot_seconds"], machines["window"]
            self.now = event.slot
        elif event.kind == kinds.SUBMITTED:
            self.jobs[event.job] = Walked(job_from(data["job"], self.cluster, self.slot_seconds))
        elif event.kind == kinds.TICK:
            self.now = data["slot"]
            self.waits_for_reports |= data.get("finish") == "reported"
        elif event.kind == kinds.MACHINE:
            self._machine(event)
        elif event.job:
            self._about(self.jobs[event.job], event)

    def _about(self, walked: Walked, event: Event) -> None:
        data = event.data
        if event.kind == kinds.DECIDED:
            walked.state = data["state"]
            walked.promised |= data["state"] == "admitted"
            if data["state"] == "admitted" and not data["reason"]:
                walked.trouble = False  # a new promise, made knowing what had happened
            walked.trouble |= data["reason"] in TROUBLE
            walked.late |= data["reason"] in LATE
            if "cells" in data:
                walked.keep(event.slot)
                walked.cells = data["cells"]
        elif event.kind == kinds.PROGRESS:
            walked.reported = True
        elif event.kind == kinds.FINISHED:
            walked.state, walked.finish = "finished", data["slot"]
            walked.reported |= bool(data["reason"])
            walked.keep(data["first"])
        elif event.kind == kinds.CANCELLED:
            walked.state = "cancelled"
            walked.keep(data["first"])

    def _machine(self, event: Event) -> None:
        data = event.data
        if data["status"] == "added":
            self.machines.append(machine_from(data["machine"]))
            self.__dict__.pop("_cluster", None)
        elif data["status"] == "down":
            self.down.setdefault(data["name"], event.slot)
        elif data["name"] in self.down:
            self.outages.append((data["name"], self.down.pop(data["name"]), event.slot))

    @property
    def cluster(self) -> Cluster:
        if "_cluster" not in self.__dict__:
            self._cluster = Cluster(tuple(self.machines), *self.rates)
        return self._cluster

    def rows(self, walked: list[Walked]) -> Int32s:
        """job, slot, machine, workers, servers: held, or still to come."""
        made = [[j, *cell] for j, one in enumerate(walked) for cell in (*one.held, *one.cells)]
        return np.array(made, np.int32).reshape(-1, 5)


def certify(events: Iterable[Event]) -> tuple[Certificate, int]:
    """The certificate of a log, and the seq it was made at."""
    walk = Walk().take(events)
    order = sorted(walk.jobs.values(), key=lambda one: one.job.arrival)
    end = walk.now + walk.window
    rows = walk.rows(order)
    whole, _, _, _ = measure(walk.cluster, _workload(order, walk), rows, end, None)
    meaning = f"Gaps in the numbers of {walk.seq:,} events, and events of another slot than the clock had reached."
    gapless = Check.at_most("log", walk.gaps + walk.misplaced, 0, meaning)
    checks = [gapless, *whole, _outages(walk, rows), _promises(order), _room(order, walk, end)]
    plain = [one for one in order if one.lawful(walk.waits_for_reports)]
    claimed = np.array([one.finish for one in plain], np.int64)
    kept = [_until(one, walk.now) for one in plain]
    law, _, _, _ = measure(walk.cluster, _workload(plain, walk), walk.rows(kept), end, claimed)
    checks += [law["work"], law["locality"]]
    return Certificate(tuple(checks)), walk.seq


def _workload(walked: list[Walked], walk: Walk) -> Workload:
    return Workload(tuple(one.job for one in walked), slot=walk.slot_seconds, source="log")


def _until(one: Walked, now: int) -> Walked:
    """Without cells still to come: they would count as work done."""
    return Walked(one.job, [], one.held + [cell for cell in one.cells if cell[0] < now])


def _outages(walk: Walk, rows: Int32s) -> Check:
    """Cells on a machine in the slots after it failed and before it was back."""
    names, wrong = walk.cluster.names, 0
    spans = [*walk.outages, *((name, since, 2**31 - 1) for name, since in walk.down.items())]
    index = {name: h for h, name in enumerate(names)}
    for name, since, until in spans:
        wrong += int(((rows[:, 2] == index[name]) & (rows[:, 1] > since) & (rows[:, 1] < until)).sum())
    return Check.at_most("outages", wrong, 0, "Cells on a machine while it was down", f"{len(spans):,} outages")


def _room(walked: list[Walked], walk: Walk, end: int) -> Check:
    """Whether the cells of every open promise suffice for its work, where the rate law alone says how fast it is."""
    open_ = [one for one in walked if one.state == "admitted" and one.lawful(False)]
    _, finish, _, _ = measure(walk.cluster, _workload(open_, walk), walk.rows(open_), end, None)
    short = int((finish < 0).sum())
    return Check.at_most("room", short, 0, "Open promises whose cells do not suffice", f"{len(open_):,} open")


def _promises(walked: list[Walked]) -> Check:
    """A promise may end only in a finish, at the owner's wish, or where a machine failed or the job was slower than said."""
    given = [one for one in walked if one.promised]
    broken = [one for one in given if one.state in ("pending", "lent", "refused")]
    excused = sum(one.trouble for one in broken)
    meaning = "Promises broken without a machine's failure or a job's own delay"
    return Check.at_most("promise", len(broken) - excused, 0, meaning, f"{len(given):,} given, {excused:,} excused")
