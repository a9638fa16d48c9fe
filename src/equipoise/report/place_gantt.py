"""Who ran where and when: machines by slot as bars, cut to a window one can read, and the price or use of every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.place.comparison import utilisation
from equipoise.place.simulate import Result
from equipoise.present.echarts import Floats, Ints
from equipoise.present.text import count

MOST_MACHINES, MOST_SLOTS = 60, 200  # that can be told apart on a screen
MOST_BARS = 60_000  # of all policies together; a page stays small whatever the run
MOST_TIMES = 650  # points of a line over all slots
FULL = 1000  # the height of a machine's row, in which jobs are stacked
JOB, SLOT, MACHINE, WORKERS, SERVERS = range(5)  # columns of a schedule
Ints32 = NDArray[np.int32]


@dataclass(frozen=True)
class Window:
    """The machines and slots shown, the same for every policy."""

    machines: Ints
    first: int
    last: int  # the slot after
    all_machines: int
    all_slots: int

    @property
    def slots(self) -> int:
        return self.last - self.first

    @property
    def cut(self) -> str:
        """What is not shown, in words; "" when all is."""
        words = []
        if len(self.machines) < self.all_machines:
            words.append(f"the {len(self.machines)} busiest of {self.all_machines:,} machines")
        if self.slots < self.all_slots:
            which = f"{self.first:,} to {self.last - 1:,}"
            words.append(f"the busiest {count(self.slots, 'slot')} in a row ({which}) of {self.all_slots:,}")
        return f"Shown are {' and '.join(words)}; the allocations files have all of it." if words else ""


@dataclass(frozen=True)
class Bar:
    """A job on a machine through slots first..last-1 without a change."""

    job: int
    machine: int
    first: int
    last: int
    workers: int
    servers: int
    spread: bool  # the job had other machines too
    bottom: int  # of FULL
    height: int

    @property
    def rest(self) -> list[int]:
        """After job and machine, as it stands in the page; place.js reads it."""
        return [self.first, self.last, self.workers, self.servers, int(self.spread), self.bottom, self.height]


class Floor:
    """The schedules of all policies on one cluster, seen through one window."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = results
        self.cluster, self.jobs = results[0].cluster, results[0].jobs
        names = self.cluster.resources
        self.worker = np.array([[job.worker.get(r, 0) for r in names] for job in self.jobs], dtype=float)
        self.server = np.array([[(job.server or {}).get(r, 0) for r in names] for job in self.jobs], dtype=float)
        shape = (len(self.jobs), len(names))
        self.worker, self.server = self.worker.reshape(shape), self.server.reshape(shape)
        self.capacity = self.cluster.capacity[self.cluster.type_of].astype(float)

    def shares(self, rows: Ints32) -> Floats:
        """The part of each resource of its machine that each row of a schedule holds."""
        held = self.worker[rows[:, JOB]] * rows[:, WORKERS, None] + self.server[rows[:, JOB]] * rows[:, SERVERS, None]
        there = self.capacity[rows[:, MACHINE]]
        return np.asarray(np.divide(held, there, out=np.zeros_like(held), where=there > 0))

    @cached_property
    def window(self) -> Window:
        """The busiest machines and slots, fewer slots while there would be too many bars."""
        end = max(1, max(result.end for result in self.results))
        rows = np.concatenate([result.schedule for result in self.results])
        end = min(end, int(rows[:, SLOT].max(initial=0)) + 1) if len(rows) else min(end, MOST_SLOTS)
        weight = self.shares(rows).max(axis=1, initial=0.0) if len(rows) else np.zeros(0)
        busy = np.bincount(rows[:, MACHINE], weight, self.cluster.size)
        machines = np.sort(np.argsort(-busy, kind="stable")[:MOST_MACHINES])
        by_slot = np.bincount(rows[:, SLOT], weight, end)
        here = np.isin(rows[:, MACHINE], machines)
        cells = np.bincount(rows[here, SLOT], minlength=end)
        wide = min(MOST_SLOTS, end)
        while True:
            run = np.convolve(by_slot, np.ones(wide), "valid")
            first = int(np.argmax(run > run.max() - 1e-9 * (1.0 + run.max())))
            if wide <= 10 or int(cells[first : first + wide].sum()) <= 4 * MOST_BARS:
                found = Window(machines, first, first + wide, self.cluster.size, max(r.end for r in self.results))
                if wide <= 10 or sum(len(self.bars(k, found)) for k in range(len(self.results))) <= MOST_BARS:
                    return found
            wide = max(10, wide * 2 // 3)

    def within(self, k: int, window: Window) -> tuple[Ints32, NDArray[np.bool_]]:
        """The rows of a policy's schedule in the window, and whether their jobs are spread over machines then."""
        rows = self.results[k].schedule
        key = rows[:, JOB].astype(np.int64) * (int(rows[:, SLOT].max(initial=0)) + 1) + rows[:, SLOT]
        _, inverse, often = np.unique(key, return_inverse=True, return_counts=True)
        spread = often[inverse.reshape(-1)] > 1 if len(rows) else np.zeros(0, dtype=bool)
        here = (rows[:, SLOT] >= window.first) & (rows[:, SLOT] < window.last)
        here &= np.isin(rows[:, MACHINE], window.machines)
        return rows[here], spread[here]

    def bars(self, k: int, window: Window) -> list[Bar]:
        """The window's cells of a policy, run together where nothing changes, stacked in their machine's row."""
        rows, spread = self.within(k, window)
        order = np.lexsort((rows[:, JOB], rows[:, SLOT], rows[:, MACHINE]))
        rows, spread = rows[order], spread[order]
        height = np.maximum(1, np.floor(FULL * self.shares(rows).max(axis=1, initial=0.0) + 1e-6)).astype(int).tolist()
        out: list[Bar] = []
        open_: dict[int, list[int]] = {}  # by job: first, workers, servers, spread, bottom, height

        def close(machine: int, slot: int, job: int) -> None:
            first, workers, servers, apart, bottom, tall = open_.pop(job)
            out.append(Bar(job, machine, first, slot, workers, servers, bool(apart), bottom, tall))

        machine, slot = -1, -1
        edges = np.flatnonzero(np.any(rows[1:, [MACHINE, SLOT]] != rows[:-1, [MACHINE, SLOT]], axis=1)) + 1
        table, apart_of = rows.tolist(), spread.tolist()
        starts = [0, *edges.tolist(), len(table)] if table else []
        for low, high in pairwise(starts):
            here, now = table[low][MACHINE], table[low][SLOT]
            if here != machine or now != slot + 1:
                for job in list(open_):
                    close(machine, slot + 1, job)
            machine, slot = here, now
            wanted = {
                table[n][JOB]: [table[n][WORKERS], table[n][SERVERS], int(apart_of[n]), height[n]]
                for n in range(low, high)
            }
            for job in [job for job in open_ if job not in wanted]:
                close(machine, slot, job)
            places = stacked({job: (b[4], b[5]) for job, b in open_.items()}, {j: w[3] for j, w in wanted.items()})
            for job, (workers, servers, apart, _) in wanted.items():
                bottom, tall = places[job]
                if job in open_ and open_[job][1:] != [workers, servers, apart, bottom, tall]:
                    close(machine, slot, job)
                if job not in open_:
                    open_[job] = [slot, workers, servers, apart, bottom, tall]
        for job in list(open_):
            close(machine, slot + 1, job)
        return out

    def heat(self, k: int, window: Window) -> tuple[str, Floats]:
        """For every machine and slot of the window: "price" of the whole machine as its use makes it, or "use" of its
        fullest resource under a policy without prices."""
        rows, _ = self.within(k, window)
        used = np.zeros((len(window.machines), window.slots, self.capacity.shape[1]))
        where = np.searchsorted(window.machines, rows[:, MACHINE])
        np.add.at(used, (where, rows[:, SLOT] - window.first), self.shares(rows))
        prices = posted(self.results[k])
        if prices is None:
            return "use", np.asarray(used.max(axis=2, initial=0.0))
        base, growth = prices
        slots = np.minimum(np.arange(window.first, window.last), len(base) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            each = base[slots][None] * np.exp(growth * used) * self.capacity[window.machines][:, None, :]
        return "price", np.asarray(each.sum(axis=2))

    def data(self) -> dict[str, Any]:
        """What the page embeds: the bars, the heat and the lines of every policy."""
        window = self.window
        bars = [self.bars(k, window) for k in range(len(self.results))]
        jobs = sorted({bar.job for found in bars for bar in found})
        number = {job: n for n, job in enumerate(jobs)}
        row = {int(machine): n for n, machine in enumerate(window.machines)}
        policies = []
        for k, result in enumerate(self.results):
            kind, heat = self.heat(k, window)
            times, use = lines_of(utilisation(result))
            policies.append(
                {
                    "policy": result.policy.label,
                    "bars": [[number[b.job], row[b.machine], *b.rest] for b in bars[k]],
                    "unfinished": [number[job] for job in jobs if result.finish[job] < 0],
                    "heat": kind,
                    "cells": [[float(f"{value:.3g}") for value in line] for line in heat.tolist()],
                    "times": times.tolist(),
                    "use": [[round(100.0 * float(v), 1) for v in column] for column in use.T],
                }
            )
        return {
            "first": window.first,
            "last": window.last,
            "slot": self.jobs.slot,
            "machines": [self.cluster.names[m] for m in window.machines],
            "resources": list(self.cluster.resources),
            "jobs": [self.jobs[job].id for job in jobs],
            "policies": policies,
        }


def stacked(now: dict[int, tuple[int, int]], wanted: dict[int, int]) -> dict[int, tuple[int, int]]:
    """A place (bottom, height) in the row for every wanted height. Who is there stays, if all the others fit around."""
    total = sum(wanted.values())
    if total <= FULL:
        places = {job: place for job, place in now.items() if job in wanted and place[1] == wanted[job]}
        for job in sorted((j for j in wanted if j not in places), key=lambda j: (-wanted[j], j)):
            bottom = 0
            for low, tall in sorted(places.values()):
                if low - bottom >= wanted[job]:
                    break
                bottom = low + tall
            if bottom + wanted[job] > FULL:
                break
            places[job] = (bottom, wanted[job])
        if len(places) == len(wanted):
            return places
    bottom, places = 0, {}
    for job in sorted(wanted, key=lambda j: (now.get(j, (FULL, 0))[0], j)):
        tall = (
            wanted[job] if total <= FULL else max(1, wanted[job] * FULL // total)
        )  # as dominant shares may add to more
        places[job] = (bottom, tall)
        bottom += tall
    return places


def posted(result: Result) -> tuple[Floats, Floats] | None:
    """Base prices per milli-unit (a row a slot, or one) and their growth with use; None for a policy without prices."""
    told = result.detail.get("posted")
    if told is not None:
        return np.atleast_2d(np.asarray(told["base"], dtype=float)), np.asarray(told["growth"], dtype=float)
    note = result.detail.get("prices") or {}
    if "level" in note and "ratio" in note:  # the cluster's price spread over its resources by their totals
        total = np.maximum(result.cluster.total, 1.0)
        return (float(note["level"]) / total)[None, :], np.full(len(total), np.log(float(note["ratio"])))
    return None


def lines_of(use: Floats) -> tuple[Ints, Floats]:
    """Slots and values of a line, means over equal spans where there are too many slots to draw."""
    span = max(1, -(-len(use) // MOST_TIMES))
    starts = np.arange(0, len(use), span)
    if span == 1:
        return starts, use
    return starts, np.add.reduceat(use, starts, axis=0) / np.diff(np.append(starts, len(use)))[:, None]
