"""What a log says, put together from `/v1/log` alone with dictionaries and whole numbers: nothing of equipoise is used.

The model holds, for every machine and slot, what jobs were given there in milli-units, and complains at the first event
after which that is more than the machine has. It is written for a virtual clock, where the slot `now` can still be planned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

MILLI = 1000
SUFFIXES = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4}
OPEN, OVER = ("admitted", "lent", "pending"), ("refused", "finished", "cancelled")


class Broken(AssertionError):
    """The service did not keep its word."""


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def milli(quantity: int | str) -> int:
    """8, "500m" or "512Gi" in thousandths."""
    if isinstance(quantity, int):
        return quantity * MILLI
    if quantity.endswith("m"):
        return int(quantity[:-1])
    return int(quantity[:-2]) * SUFFIXES[quantity[-2:]] * MILLI


def in_milli(quantities: dict[str, int | str] | None) -> dict[str, int]:
    return {resource: milli(quantity) for resource, quantity in (quantities or {}).items()}


@dataclass
class LoggedJob:
    """A job as the log tells it. `cells`: [slot, machine, workers, servers] of this slot and later ones."""

    id: str
    name: str
    worker: dict[str, int]
    server: dict[str, int]
    state: str = ""
    reason: str = ""
    seq: int = 0
    finish: int | None = None
    cells: list[list[int]] = field(default_factory=list)
    first: dict[str, Any] = field(default_factory=dict)  # its first decision
    reports: dict[float, int] = field(default_factory=dict)  # samples reported: the event that says so


class LogModel:
    """`take` every event in order; it raises Broken where the log contradicts itself or a machine holds too much."""

    def __init__(self) -> None:
        self.seq = self.now = self.window = 0
        self.names: list[str] = []
        self.capacity: list[dict[str, int]] = []
        self.status: list[str] = []
        self.jobs: dict[str, LoggedJob] = {}
        self.by_name: dict[str, LoggedJob] = {}
        self.ends: dict[int, tuple[str, str]] = {}  # seq: (kind, job) of every finish and cancellation
        self.used: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))  # (machine, slot)
        self._failing = -1  # a machine that went down and whose jobs are being moved

    def take(self, event: dict[str, Any]) -> None:
        kind, data = event["kind"], event["data"]
        expect(event["seq"] == self.seq + 1, f"event {event['seq']} follows event {self.seq}")
        expect((self.seq == 0) == (kind == "opened"), f"event {event['seq']} is {kind!r}")
        if self._failing >= 0 and kind not in ("decided", "progress"):
            self._left_alone(self._failing)
            self._failing = -1
        self.seq = event["seq"]
        if event["job"] and kind != "submitted":
            job = self.jobs[event["job"]]
            expect(job.state not in OVER, f"{kind} at {self.seq}: job {job.id} was {job.state} before")
            job.seq = self.seq
            {"decided": self._decided, "progress": self._progress}.get(kind, self._ended)(job, event)
        elif kind == "submitted":
            self._submitted(event)
        elif kind == "tick":
            expect(data["slot"] == self.now + 1, f"slot {data['slot']} follows slot {self.now} at {self.seq}")
            self.now = data["slot"]
            for job in self.jobs.values():
                if job.cells and job.cells[0][0] < self.now:
                    job.cells = [cell for cell in job.cells if cell[0] >= self.now]
        elif kind == "machine":
            self._machine(data)
        elif kind == "opened":
            self.window = data["floor"]["window"]
            for machine in data["floor"]["machines"]:
                expect(machine["count"] == 1, "the model wants every machine by its own name")
                self._add(machine["name"], machine["capacity"])
        else:
            expect(kind == "prices", f"event {self.seq} is {kind!r}")

    # Machines.

    def _add(self, name: str, capacity: dict[str, int | str]) -> None:
        expect(name not in self.names, f"machine {name} was added twice")
        self.names.append(name)
        self.capacity.append(in_milli(capacity))
        self.status.append("up")

    def _machine(self, data: dict[str, Any]) -> None:
        if data["status"] == "added":
            for name in data["names"]:
                self._add(name, data["machine"]["capacity"])
            return
        machine = self.names.index(data["name"])
        self.status[machine] = data["status"]
        self._failing = machine if data["status"] == "down" else -1

    def _left_alone(self, machine: int) -> None:
        """Once a failure has been dealt with, nobody holds anything there from this slot on."""
        for job in self.jobs.values():
            if any(cell[1] == machine for cell in job.cells):
                raise Broken(f"{job.id} still holds {self.names[machine]}, which is down, after event {self.seq}")

    # Jobs.

    def _submitted(self, event: dict[str, Any]) -> None:
        name, asked = event["data"]["name"], event["data"]["job"]
        expect(event["job"] == f"j{len(self.jobs) + 1}", f"job {event['job']} follows j{len(self.jobs)}")
        expect(name not in self.by_name, f"{name!r} was submitted twice, again as {event['job']}")
        job = LoggedJob(event["job"], name, in_milli(asked["worker"]), in_milli(asked.get("server")), seq=self.seq)
        self.jobs[job.id] = self.by_name[name] = job

    def _decided(self, job: LoggedJob, event: dict[str, Any]) -> None:
        data = event["data"]
        if not job.first:
            job.first = data | {"seq": self.seq}
        job.state, job.reason = data["state"], data["reason"]
        if "cells" in data:
            self._let_go(job)
            self._hold(job, data["cells"])
        if job.state in OVER:
            self._let_go(job)

    def _progress(self, job: LoggedJob, event: dict[str, Any]) -> None:
        job.reports.setdefault(event["data"]["reported"], self.seq)

    def _ended(self, job: LoggedJob, event: dict[str, Any]) -> None:
        job.state, data = event["kind"], event["data"]
        expect(job.state in OVER, f"event {self.seq} is {job.state!r}")
        expect(data["first"] == self.now, f"{job.id} ended at {self.seq}: it gives back from slot {data['first']} on")
        job.reason, job.finish = data.get("reason", ""), data.get("slot")
        self.ends[self.seq] = (job.state, job.id)
        self._let_go(job)

    def _hold(self, job: LoggedJob, cells: list[list[int]]) -> None:
        for slot, machine, workers, servers in cells:
            where = f"{job.id} at {self.seq}, slot {slot} on {self.names[machine]}"
            expect(self.now <= slot < self.now + self.window, f"{where}: out of view in slot {self.now}")
            expect(self.status[machine] == "up", f"{where}: the machine is {self.status[machine]}")
            held, most = self.used[machine, slot], self.capacity[machine]
            for resource, amount in need(job, workers, servers).items():
                held[resource] += amount
                expect(held[resource] <= most.get(resource, 0), f"{where}: {held[resource]} milli-{resource} held")
        job.cells = cells

    def _let_go(self, job: LoggedJob) -> None:
        """Of this slot and later ones: `cells` has no others."""
        for slot, machine, workers, servers in job.cells:
            held = self.used[machine, slot]
            for resource, amount in need(job, workers, servers).items():
                held[resource] -= amount
                expect(held[resource] >= 0, f"{job.id} at {self.seq} gives back more {resource} than it had")
        job.cells = []


def need(job: LoggedJob, workers: int, servers: int) -> dict[str, int]:
    """Milli-units of a cell."""
    both = job.worker.keys() | job.server.keys()
    return {r: workers * job.worker.get(r, 0) + servers * job.server.get(r, 0) for r in both}
