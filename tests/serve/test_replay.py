"""Whatever is asked of the planner in whatever order: its laws hold after every command, and replay gives the same state.

The laws are checked by a second reading of the events in plain Python, which shares the rate law `Job.rate` with the
planner and nothing else.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from equipoise.errors import InputError
from equipoise.place import Cluster, Machine
from equipoise.place.job import Job
from equipoise.place.job_spec import job_from, machine_from
from equipoise.serve.certify import certify
from equipoise.serve.plan.decide import Conflict, NotFound, Scheduler, opening
from equipoise.serve.plan.events import Event
from equipoise.serve.plan.machines import Machines
from equipoise.serve.plan.state import State, digest_of

SLOT = 600.0
HORIZON = 12
QUOTAS: dict[str, dict[str, int]] = {"tight": {"gpu": 3000, "jobs": 6}, "wide": {"cpu": 40_000}}
TENANTS = ("", "tight", "wide")
TROUBLE = ("machine_down", "late", "overdue")
CLOSE = 1e-6  # of a job's work: sums in another order


@dataclass
class Known:
    """A job as the plain reader knows it; cells are lists [slot, machine, workers, servers]."""

    job: Job
    tenant: str
    state: str = "pending"
    reason: str = ""
    cells: list[list[int]] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)  # the last slot carried out
    done: float = 0.0
    pace: float = 1.0
    promised: bool = False

    def gain(self, cells: list[list[int]], before: list[list[int]]) -> float:
        """Samples of one slot's cells by the rate law, less the restart where the placement is not the last slot's."""
        rate = self.job.rate(sum(c[2] for c in cells), together=len(cells) == 1)
        stays = before and before[0][0] == cells[0][0] - 1 and _placed(before) == _placed(cells)
        return rate if stays else rate * max(0.0, 1.0 - self.job.restart)

    def settle(self, now: int) -> None:
        for cells in _by_slot(c for c in self.cells if c[0] < now):
            self.done = min(self.job.work, self.done + self.gain(cells, self.before) * self.pace)
            self.before = cells
        self.cells = [c for c in self.cells if c[0] >= now]

    def planned(self) -> float:
        """Samples its cells to come will do."""
        total, before = 0.0, self.before
        for cells in _by_slot(self.cells):
            total += self.gain(cells, before) * self.pace
            before = cells
        return total


def _by_slot(cells) -> list[list[list[int]]]:
    slots: dict[int, list[list[int]]] = defaultdict(list)
    for cell in cells:
        slots[cell[0]].append(cell)
    return [slots[t] for t in sorted(slots)]


def _placed(cells: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(c[1:]) for c in cells}


def worth(job: Job, late: float) -> float:
    """What finishing so many slots after arrival is worth: the three formulas, said again."""
    said = job.utility.as_dict()
    if said["kind"] == "deadline":
        return said["value"] if late <= said["slots"] else 0.0
    if said["kind"] == "linear":
        return said["value"] * max(0.0, 1.0 - late / said["slots"])
    return said["value"] / (1.0 + math.exp(said["steepness"] * (late - said["middle"])))


class Plain:
    """The laws, event by event. Every broken one is an AssertionError that names it."""

    def __init__(self) -> None:
        self.jobs: dict[str, Known] = {}
        self.over: dict[str, str] = {}
        self.names: list[str] = []
        self.capacity: list[dict[str, int]] = []
        self.status: list[str] = []
        self.now = self.seq = 0
        self.real = False
        self.hit: set[str] = set()  # jobs whose machine failed in this command

    @property
    def first(self) -> int:
        return self.now + self.real

    def take(self, events: list[Event]) -> None:
        self.hit.clear()
        for event in events:
            assert event.seq == self.seq + 1 and event.slot == self.now
            self.seq = event.seq
            getattr(self, f"_{event.kind}")(event)
        self.laws()

    def _opened(self, event: Event) -> None:
        self.real = event.data["clock"] == "real"
        self._machines([machine_from(m) for m in event.data["floor"]["machines"]])

    def _machines(self, given) -> None:
        for machine in given:
            self.capacity += [dict(machine.capacity)] * machine.count
            self.status += ["up"] * machine.count
        self.cluster = Cluster((*getattr(getattr(self, "cluster", None), "machines", ()), *given))
        self.names = list(self.cluster.names)

    def _submitted(self, event: Event) -> None:
        job = job_from(event.data["job"], self.cluster, SLOT)
        assert job.arrival == self.now
        self.jobs[event.job] = Known(job, event.tenant)

    def _decided(self, event: Event) -> None:
        one, data = self.jobs[event.job], event.data
        if one.state == "admitted" and data["state"] != "admitted":
            assert event.job in self.hit or one.reason == "late" or data["reason"] in TROUBLE, "a promise was dropped"
        one.state, one.reason = data["state"], data["reason"]
        one.promised |= one.state == "admitted"
        if "cells" in data:
            self._planned(event.job, one, data["cells"])
        if one.state == "admitted" and not data["reason"]:
            last = max(c[0] for c in one.cells)
            assert data["worth"] >= data["cost"] * (1 - 1e-9), "a promise that does not pay"
            assert data["worth"] == pytest.approx(worth(one.job, last - one.job.arrival), rel=1e-9)
        if one.state == "refused":
            self.over[event.job] = "refused"
            del self.jobs[event.job]

    def _planned(self, id: str, one: Known, cells: list[list[int]]) -> None:
        old = {tuple(c) for c in one.cells}
        assert [c[0] for c in cells] == sorted(c[0] for c in cells), "cells out of order"
        for cell in cells:
            slot, machine, workers, servers = cell
            kept = tuple(cell) in old
            assert self.status[machine] == "up" or (kept and self.status[machine] == "draining"), "machine not up"
            assert slot >= self.first or slot == self.now, "planned in the past"
            assert slot >= self.first or kept or one.state == "lent", "planned in a slot that has begun"
            assert slot < one.job.arrival + HORIZON + self.real, "planned past its horizon"
            assert slot <= self.now + HORIZON, "planned out of view"
            assert workers >= 0 and servers >= 0 and workers + servers > 0
        for here in _by_slot(cells):
            width = sum(c[2] for c in here)
            assert 1 <= width <= one.job.widest, "wider than the job may be"
            assert sum(c[3] for c in here) == one.job.servers(width), "servers other than ceil(w / gamma)"
            assert len({c[1] for c in here}) == len(here), "a machine twice in a slot"
        one.cells = [list(c) for c in cells]
        self._quota(one.tenant)

    def _quota(self, tenant: str) -> None:
        limit = QUOTAS.get(tenant, {})
        used: Counter[tuple[int, str]] = Counter()
        for one in self.jobs.values():
            if one.tenant == tenant:
                for slot, _, w, s in one.cells:
                    for r in limit:
                        used[slot, r] += w * one.job.worker.get(r, 0) + s * (one.job.server or {}).get(r, 0)
        for (slot, r), amount in used.items():
            assert r == "jobs" or amount <= limit[r], f"tenant {tenant} holds {amount} {r} in slot {slot}"

    def _tick(self, event: Event) -> None:
        to = event.data["slot"]
        assert to > self.now, "time does not go back"
        assert to == self.now + 1 or not any(one.cells for one in self.jobs.values()), "slots with work were skipped"
        self.now = to
        for one in self.jobs.values():
            one.settle(self.now)

    def _progress(self, event: Event) -> None:
        one = self.jobs[event.job]
        one.done, one.pace = event.data["done"], event.data["pace"]
        assert 0.0 <= one.done <= one.job.work and 0.0 < one.pace < math.inf

    def _finished(self, event: Event) -> None:
        one = self.jobs.pop(event.job)
        assert event.data["reason"] in ("early", "late") or one.done >= one.job.work * (1 - CLOSE), "finished too early"
        self.over[event.job] = "finished"

    def _cancelled(self, event: Event) -> None:
        self.jobs.pop(event.job)
        self.over[event.job] = "cancelled"

    def _machine(self, event: Event) -> None:
        data = event.data
        if data["status"] == "added":
            self._machines([machine_from(data["machine"])])
            return
        h = self.names.index(data["name"])
        self.status[h] = data["status"]
        if data["status"] == "down":
            self.hit |= {id for id, one in self.jobs.items() if any(c[1] == h for c in one.cells)}

    def _prices(self, event: Event) -> None:
        pass

    def laws(self) -> None:
        """After a command: no machine holds more than it has, or anything while down; promises suffice."""
        used: Counter[tuple[int, int, str]] = Counter()
        for id, one in self.jobs.items():
            for slot, machine, w, s in one.cells:
                assert self.status[machine] != "down", f"{id} has a cell on {self.names[machine]}, which is down"
                for side, count in ((one.job.worker, w), (one.job.server or {}, s)):
                    for r, amount in side.items():
                        used[slot, machine, r] += count * amount
            if one.state == "admitted" and one.reason != "late" and one.done < one.job.work * (1 - CLOSE):
                assert one.done + one.planned() >= one.job.work * (1 - CLOSE), f"{id} has too few cells for its work"
        for (slot, machine, r), amount in used.items():
            assert amount <= self.capacity[machine].get(r, 0), f"{self.names[machine]} is over in slot {slot}: {r}"
        for tenant, limit in QUOTAS.items():
            if "jobs" in limit:
                assert sum(one.tenant == tenant for one in self.jobs.values()) <= limit["jobs"]


# What is asked, as small numbers that shrink well.

WORKERS = ({"gpu": 1, "cpu": 4, "memory": "16Gi"}, {"cpu": 6}, {"gpu": "500m", "cpu": 1}, {"gpu": 2, "cpu": 2})
small = st.integers(0, 7)
asked = st.one_of(
    st.tuples(st.just("short"), small, small, small, small),
    st.tuples(st.just("short"), small, small, small, small),
    st.tuples(st.just("long"), small, small, small, small),
    st.tuples(st.just("long"), small, small, small, small),
    st.tuples(st.just("tick"), st.sampled_from((1, 1, 1, 2, 5))),
    st.tuples(st.just("tick"), st.sampled_from((1, 1, 1, 2, 5))),
    st.tuples(st.just("cancel"), small),
    st.tuples(st.just("finish"), small),
    st.tuples(st.just("progress"), small, small, small),
    st.tuples(st.just("progress"), small, small, small),
    st.tuples(st.just("add"), small),
    st.tuples(st.sampled_from(("down", "up", "draining")), small),
    st.tuples(st.just("prices"), small, small),
)


def short_form(a: int, b: int, c: int, d: int) -> dict[str, Any]:
    body: dict[str, Any] = {"name": f"s{a}", "worker": WORKERS[a % 4], "workers": 1 + b, "value": 1.0 + c}
    body["duration"] = f"{(5, 10, 20, 30, 45, 60, 90, 120)[d]}m"
    if c % 2:
        body["deadline"] = f"{1 + b % 3}h"
    return body


def long_form(a: int, b: int, c: int, d: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": f"l{a}",
        "worker": WORKERS[a % 4],
        "batch": 1 + 2 * b,
        "time_per_sample": ("1s", "40ms")[c % 2],
        "work": (100.0, 3000.0, 20_000.0, 90_000.0)[d % 4],
        "utility": {"kind": "sigmoid", "value": 2.0 + a, "steepness": 0.5, "middle": 1 + c},
    }
    if b % 2:
        body |= {"server": {"cpu": 2}, "workers_per_server": 1 + c % 3, "gradient": "100MB"}
    elif c > 3:
        body["gradient"] = "1GB"
    if d > 3:
        body["restart"] = ("1m", "3m", "8m", "20m")[a % 4]
    if c == 2:
        body["requested"] = 2
    return body


class World:
    """A scheduler, what it recorded, and the plain reader beside it."""

    def __init__(self, clock: str, finish: str, priced: bool) -> None:
        boxes = (Machine({"gpu": 4, "cpu": 16, "memory": "64Gi"}, 2, "a"), Machine({"cpu": 24, "gpu": 1}, 1, "c"))
        base = np.array([0.05e-3, 0.002e-3, 0.0]) if priced else np.zeros(3)
        machines = Machines(Cluster(boxes), HORIZON + 1, base, np.full(3, 2.3))
        self.state, self.plain, self.log = State(), Plain(), list[Event]()
        self.kept: list[dict[str, Any]] = []
        self.scheduler = Scheduler(
            self.state, lambda: float(len(self.log)), lambda tenant: QUOTAS.get(tenant, {}), finish=finish
        )
        self.scheduler.record("opened", **opening(machines, slot_seconds=SLOT, horizon=HORIZON, start=0.0, clock=clock))
        self.clock, self.added = clock, 0
        self._read()

    def _read(self) -> None:
        fresh = self.scheduler.taken()
        self.log += fresh
        self.plain.take(fresh)
        self.state.over.clear()
        assert self.state.audit() == ""
        assert set(self.state.jobs) == set(self.plain.jobs)
        for id, held in self.state.jobs.items():
            one = self.plain.jobs[id]
            assert held.cells.tolist() == one.cells and (held.state, held.reason) == (one.state, one.reason)
            assert held.done == pytest.approx(one.done, rel=CLOSE, abs=CLOSE * one.job.work)

    def do(self, verb: str, *numbers: int) -> None:
        ids = list(self.state.jobs)
        id = ids[numbers[0] % len(ids)] if ids and verb in ("cancel", "finish", "progress") else "j0"
        try:
            if verb == "short":
                self.scheduler.submit(short_form(*numbers), TENANTS[numbers[1] % 3])
            elif verb == "long":
                self.scheduler.submit(long_form(*numbers), TENANTS[numbers[2] % 3])
            elif verb == "tick":
                self.scheduler.tick(self.state.now + numbers[0])
            elif verb == "cancel":
                self.scheduler.cancel(id)
            elif verb == "finish":
                self.scheduler.finished(id)
            elif verb == "progress":
                work = self.scheduler.job(id).job.work
                self.scheduler.progress(id, work * numbers[1] / 7, numbers[2] / 7 if self.clock == "real" else 0.0)
            elif verb == "add":
                self.added += 1
                new = {"tpu": 2} if numbers[0] == 7 else {}
                self.scheduler.add_machines(
                    {"name": f"n{self.added}", "capacity": {"gpu": 2, "cpu": 8, **new}, "count": 1 + numbers[0] % 2}
                )
            elif verb == "prices":
                self.scheduler.set_prices({"gpu": numbers[0] / 10}, 1 + numbers[1])
            else:
                names = self.state.machines.names
                self.scheduler.set_machine(names[numbers[0] % len(names)], verb)
        except (Conflict, NotFound, InputError):
            pass
        self._read()
        if len(self.log) % 3 == 0:
            self.kept.append(json.loads(json.dumps(self.state.plain(), allow_nan=False)))


def told_again(log: list[Event]) -> list[Event]:
    """Events as a store gives them back."""
    rows = ([e.seq, e.slot, e.at, e.kind, e.job, e.tenant, e.data] for e in log)
    return [Event(*json.loads(json.dumps(row, allow_nan=False))) for row in rows]


def walked(commands: Iterable[tuple[Any, ...]], clock: str, finish: str, priced: bool) -> None:
    """Carry the commands out under the laws; then replay, every snapshot, and the certificate."""
    world = World(clock, finish, priced)
    for verb, *numbers in commands:
        world.do(verb, *numbers)
    digest, events = world.state.digest(), told_again(world.log)
    again = State()
    for event in events:
        again.apply(event)
    assert again.digest() == digest and again.audit() == ""
    for plain in world.kept:
        restored = State.restored(plain)
        assert restored.digest() == digest_of(plain)
        for event in events[plain["seq"] :]:
            restored.apply(event)
        assert restored.digest() == digest and restored.audit() == ""
    certificate, seq = certify(iter(events))
    assert seq == len(events)
    assert [check for check in certificate if not check.passed] == []


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    commands=st.lists(asked, min_size=1, max_size=40),
    clock=st.sampled_from(("virtual", "real")),
    finish=st.sampled_from(("assumed", "reported")),
    priced=st.booleans(),
)
def test_the_laws_hold_after_every_command_and_replay_gives_the_same_state(commands, clock, finish, priced):
    """Capacity, outages, drains, quotas, horizons, promises; then replay, every snapshot, and the certificate."""
    walked(commands, clock, finish, priced)


@pytest.mark.parametrize("number", range(16))
def test_the_same_on_long_days(number):
    """60 commands each, drawn by a seed: cluster full, machines failing and coming back, jobs of every form."""
    draw = random.Random(number)
    commands = [drawn(draw) for _ in range(60)]
    walked(commands, ("virtual", "real")[number % 2], ("assumed", "reported")[number // 2 % 2], number % 3 > 0)


def drawn(draw: random.Random) -> tuple[Any, ...]:
    often = {"short": 2, "long": 2, "tick": 3, "progress": 2, "up": 2}
    once = ("cancel", "finish", "down", "draining", "prices", "add")
    verb = draw.choice([*once, *(verb for verb, times in often.items() for _ in range(times))])
    if verb == "tick" or (verb == "add" and draw.random() < 0.7):
        return "tick", draw.choice((1, 1, 1, 2, 5))
    count = {"short": 4, "long": 4, "progress": 3, "prices": 2}.get(verb, 1)
    return verb, *(draw.randrange(8) for _ in range(count))


@pytest.mark.parametrize("number", range(12))
def test_on_a_virtual_clock_many_slots_at_once_are_the_same_as_one_by_one(number):
    """Whoever moves the clock, and in what steps: the same jobs run, wait and end in the same way."""
    seen = []
    for together in (True, False):
        draw = random.Random(number)
        world = World("virtual", ("assumed", "reported")[number % 2], number % 3 > 0)
        for _ in range(40):
            verb, *numbers = drawn(draw)
            if verb == "tick" and not together:
                for _ in range(numbers[0]):
                    world.do("tick", 1)
            else:
                world.do(verb, *numbers)
        held = {id: (one.state, one.reason, one.cells, one.done) for id, one in world.plain.jobs.items()}
        seen.append((world.state.now, held, world.plain.over))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("clock", "finish", "commands"),
    [
        # cancelled in its last slot on a real clock: its work is done by the rate law, and nobody claims a finish
        ("real", "assumed", [("long", 6, 1, 2, 0), ("tick", 1), ("cancel", 6)]),
        # done and not yet reported, with overtime after it
        ("virtual", "reported", [("short", 6, 4, 5, 0), ("tick", 2), ("finish", 0)]),
        # done, never reported, and its horizon passes
        ("real", "reported", [("long", 2, 3, 0, 1), ("short", 1, 3, 1, 6), ("tick", 5), ("tick", 5), ("tick", 5)]),
        # displaced twice, promised again, and its end not reported while all machines are down or draining
        (
            "real",
            "reported",
            [("long", 4, 3, 5, 5), ("tick", 1), ("down", 0), ("up", 0), ("down", 1), ("draining", 2), ("tick", 2)],
        ),
    ],
)
def test_days_that_once_broke_a_law(clock, finish, commands):
    for priced in (False, True):
        walked(commands, clock, finish, priced)
