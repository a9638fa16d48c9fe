"""Machines by slot: who ran where and when under each policy, and the price or the use of every machine.

A page shows a window of it that one can read: the busiest machines and the busiest slots in a row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Document, Row
from equipoise.present.echarts import Option, frame, grid, legend, line, tooltip, x_axis, y_axis
from equipoise.present.looks import HUES
from equipoise.present.text import count, duration
from equipoise.present.values import Choice, Controls, Drawing, Widget
from equipoise.units import resource

MOST_MACHINES, MOST_SLOTS = 60, 200  # that can be told apart on a screen
MOST_BARS = 60_000  # of all policies together; a page stays small whatever the run
MOST_TIMES = 650  # points of a line over all slots
FULL = 1000  # the height of a machine's row, in which jobs are stacked
ZOOM_FROM = 60  # slots: fewer can be told apart without
JOB, SLOT, MACHINE, WORKERS, SERVERS = range(5)  # columns of a schedule
DASHES = ("solid", "solid", [7, 6], [2, 5])  # resources are often used in one proportion: the line below shows through
CELLS: Option = {"type": "custom", "clip": True, "progressive": 0, "data": []}
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
        """After job and machine, as it stands in the page; timeline.js reads it."""
        return [self.first, self.last, self.workers, self.servers, int(self.spread), self.bottom, self.height]


class Timeline:
    """The schedules of all policies on one cluster, read from the document of a comparison."""

    def __init__(self, document: Document) -> None:
        result = document.result
        self.slot, self.end = float(result["slot"]), int(result["end"])
        self.policies = [str(row["policy"]) for row in document.rows("rows")]
        machines = document.rows("machines")
        self.machines = [str(row["machine"]) for row in machines]
        self.resources = [name for name in machines[0] if name != "machine"]
        self.capacity = _table(machines, self.resources)
        outcomes = document.columns("outcomes")
        self.jobs = [str(job) for job in outcomes["job"][: result["jobs"]]]
        done = np.array([slot is not None for slot in outcomes["finish"]], dtype=bool)
        self.finished = done.reshape(len(self.policies), len(self.jobs))
        self.worker, self.server = _demands(document, self.jobs, self.resources)
        self.schedules = _schedules(document, self.policies, self.jobs, self.machines)
        history = document.rows("history")
        self.use = [_table([row for row in history if row["policy"] == name], self.resources) for name in self.policies]
        posted = document.rows("prices") if "prices" in document.names else []
        growth = result.get("growth") or {}
        self.posted = [
            (_table(base, self.resources), np.array([growth[name][r] for r in self.resources]))
            if (base := [row for row in posted if row["policy"] == name])
            else None
            for name in self.policies
        ]

    def shares(self, rows: Ints) -> Floats:
        """The part of each resource of its machine that each row of a schedule holds."""
        held = self.worker[rows[:, JOB]] * rows[:, WORKERS, None] + self.server[rows[:, JOB]] * rows[:, SERVERS, None]
        there = self.capacity[rows[:, MACHINE]]
        return np.asarray(np.divide(held, there, out=np.zeros_like(held), where=there > 0))

    @cached_property
    def window(self) -> Window:
        """The busiest machines and slots, fewer slots while there would be too many bars."""
        end, size = max(1, self.end), len(self.machines)
        rows = np.concatenate(self.schedules)
        end = min(end, int(rows[:, SLOT].max(initial=0)) + 1) if len(rows) else min(end, MOST_SLOTS)
        weight = self.shares(rows).max(axis=1, initial=0.0) if len(rows) else np.zeros(0)
        busy = np.bincount(rows[:, MACHINE], weight, size)
        machines = np.sort(np.argsort(-busy, kind="stable")[:MOST_MACHINES])
        by_slot = np.bincount(rows[:, SLOT], weight, end)
        here = np.isin(rows[:, MACHINE], machines)
        cells = np.bincount(rows[here, SLOT], minlength=end)
        wide = min(MOST_SLOTS, end)
        while True:
            run = np.convolve(by_slot, np.ones(wide), "valid")
            first = int(np.argmax(run > run.max() - 1e-9 * (1.0 + run.max())))
            if wide <= 10 or int(cells[first : first + wide].sum()) <= 4 * MOST_BARS:
                found = Window(machines, first, first + wide, size, self.end)
                if wide <= 10 or sum(len(self.bars(k, found)) for k in range(len(self.policies))) <= MOST_BARS:
                    return found
            wide = max(10, wide * 2 // 3)

    def within(self, k: int, window: Window) -> tuple[Ints, Flags]:
        """The rows of a policy's schedule in the window, and whether their jobs are spread over machines then."""
        rows = self.schedules[k]
        key = rows[:, JOB] * (int(rows[:, SLOT].max(initial=0)) + 1) + rows[:, SLOT]
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
        posted = self.posted[k]
        if posted is None:
            return "use", np.asarray(used.max(axis=2, initial=0.0))
        base, growth = posted
        slots = np.minimum(np.arange(window.first, window.last), len(base) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            each = base[slots][None] * np.exp(growth * used) * self.capacity[window.machines][:, None, :]
        return "price", np.asarray(each.sum(axis=2))

    def data(self, stories: Sequence[str]) -> dict[str, object]:
        """What the page embeds: the bars, the heat, the lines and a sentence (`stories`) of every policy."""
        window = self.window
        bars = [self.bars(k, window) for k in range(len(self.policies))]
        jobs = sorted({bar.job for found in bars for bar in found})
        code = {job: n for n, job in enumerate(jobs)}
        row = {int(machine): n for n, machine in enumerate(window.machines)}
        policies = []
        for k, name in enumerate(self.policies):
            kind, heat = self.heat(k, window)
            times, use = lines_of(self.use[k])
            percents = [[round(100.0 * float(v), 1) for v in column] for column in use.T]
            means = [sum(column) / max(1, len(column)) for column in percents]
            mean = ", ".join(f"{m:.0f} % of {r}" for r, m in zip(self.resources, means, strict=True))
            policies.append(
                {
                    "policy": name,
                    "bars": [[code[b.job], row[b.machine], *b.rest] for b in bars[k]],
                    "unfinished": [code[job] for job in jobs if not self.finished[k, job]],
                    "heat": kind,
                    "cells": [[float(f"{value:.3g}") for value in cells] for cells in heat.tolist()],
                    "times": times.tolist(),
                    "use": percents,
                    "end": self.end,
                    "story": f"{stories[k]}; on average it used {mean}.",
                }
            )
        return {
            "first": window.first,
            "last": window.last,
            "slot": self.slot,
            "machines": [self.machines[m] for m in window.machines],
            "resources": self.resources,
            "jobs": [self.jobs[job] for job in jobs],
            "policies": policies,
        }

    def widget(self, chosen: int, stories: Sequence[str]) -> Widget:
        """Three panels of one policy's schedule, which the reader chooses: machines, their prices or use, resources."""
        window, unit = self.window, f"slot of {duration(self.slot)}"
        priced = any(self.posted)
        bars = (
            "A bar is a job on a machine; its height is the share of the machine's resource it needs most, and jobs on "
            "one machine are stacked. Pale bars are jobs that did not finish. Hover or touch one to read it."
        )
        heat = (
            "What all of a machine costs for a slot at the use it had in the end: its resources at their posted prices, "
            "which rise with use, before any discount for slots that are near. A policy without prices shows the use of "
            "the machine's fullest resource instead."
            if priced
            else "No policy here posts prices: the use of each machine's fullest resource."
        )
        span = -(-window.all_slots // MOST_TIMES)
        mean = f" Means over spans of {span} slots." if span > 1 else ""
        marked = " The band is the window shown above." if window.slots < window.all_slots else ""
        choice = Choice("shown-policy", "Schedule under", self.policies, chosen)
        blocks = (
            Controls("Who ran where and when", [choice], story=f"{stories[chosen]}.", caption=window.cut),
            Drawing(
                "gantt",
                "Machines by slot, coloured by job",
                "Gantt chart: a row per machine, a bar per job over the slots in which it ran there",
                bars,
                _gantt(unit, zoom=window.slots > ZOOM_FROM),
                wide=True,
                tall=True,
            ),
            Drawing(
                "heat",
                "Price of every machine by slot" if priced else "Use of every machine by slot",
                "Heat map: machines by slot, coloured by price or by use",
                heat,
                _heat(unit),
                wide=True,
                tall=True,
            ),
            Drawing(
                "use",
                "Use of each resource",
                "Lines: percent of each resource of the whole cluster in use, by slot",
                f"Of the whole cluster, under the policy chosen.{mean}{marked}",
                _use(unit, self.resources),
                wide=True,
            ),
        )
        return Widget("timeline", self.data(stories), blocks)


def _table(rows: Sequence[Row], names: Sequence[str]) -> Floats:
    """Rows of a document as numbers, a column for each name."""
    found = [[row[name] for name in names] for row in rows]
    return np.array(found, dtype=float).reshape(len(found), len(names))


def _demands(document: Document, jobs: Sequence[str], names: Sequence[str]) -> tuple[Floats, Floats]:
    """What a worker and a server of each job take of each resource, in units."""
    told = json.loads(document.files["jobs.json"])["jobs"] if "jobs.json" in document.files else []
    by_id = {str(job["id"]): job for job in told}
    sides = []
    for side in ("worker", "server"):
        held = [by_id.get(job, {}).get(side) or {} for job in jobs]
        milli = [[resource(taken.get(name, 0), name) for name in names] for taken in held]
        sides.append(np.array(milli, dtype=float).reshape(len(jobs), len(names)) / 1000.0)
    return sides[0], sides[1]


def _schedules(document: Document, policies: Sequence[str], jobs: Sequence[str], machines: Sequence[str]) -> list[Ints]:
    """For each policy rows of job, slot, machine, workers and servers, the first and third as indices."""
    job_of, machine_of = ({name: k for k, name in enumerate(names)} for names in (jobs, machines))
    found: dict[str, list[tuple[int, ...]]] = {name: [] for name in policies}
    for row in document.rows("allocations") if "allocations" in document.names else ():
        job, machine = job_of[str(row["job"])], machine_of[str(row["machine"])]
        found[str(row["policy"])].append((job, row["slot"], machine, row["workers"], row["servers"]))
    return [np.array(found[name], dtype=np.int64).reshape(-1, 5) for name in policies]


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
        # dominant shares may add to more than the machine
        tall = wanted[job] if total <= FULL else max(1, wanted[job] * FULL // total)
        places[job] = (bottom, tall)
        bottom += tall
    return places


def lines_of(use: Floats) -> tuple[Ints, Floats]:
    """Slots and values of a line, means over equal spans where there are too many slots to draw."""
    span = max(1, -(-len(use) // MOST_TIMES))
    starts = np.arange(0, len(use), span)
    if span == 1:
        return starts, use
    return starts, np.add.reduceat(use, starts, axis=0) / np.diff(np.append(starts, len(use)))[:, None]


# Panels without data: timeline.js fills in the policy chosen.


def _rows() -> Option:
    rows = y_axis("", "category", data=[], inverse=True)
    rows["axisLabel"] |= {"width": 96, "overflow": "truncate"}
    rows["splitLine"] = {"show": True, "lineStyle": {"color": "@rule"}}
    return rows | {"axisTick": {"show": False}}


def _slots(unit: str) -> Option:
    found = x_axis(unit, pointer="slot {value}", minInterval=1)
    found["axisLabel"] |= {"showMaxLabel": False}  # the end is the window's, not round
    return found


def _gantt(unit: str, *, zoom: bool) -> Option:
    option = frame(
        grid=grid() | ({"bottom": 40} if zoom else {}),
        tooltip=tooltip("item"),
        xAxis=_slots(unit),
        yAxis=_rows(),
        series=[CELLS | {"name": "jobs", "encode": {"x": [2, 3], "y": 1}}],
    )
    if zoom:
        bar = {"type": "slider", "xAxisIndex": 0, "bottom": 4, "height": 18, "filterMode": "weakFilter"}
        quiet = {"showDataShadow": False, "showDetail": False, "brushSelect": False, "borderColor": "@rule"}
        colours = {"fillerColor": "rgba(120,140,165,.22)", "handleStyle": {"color": "@paper", "borderColor": "@soft"}}
        option["dataZoom"] = [bar | quiet | colours]
    return option


def _heat(unit: str) -> Option:
    scale = {
        "type": "continuous",
        "dimension": 3,
        "min": 0,
        "max": 1,
        "orient": "horizontal",
        "left": "center",
        "bottom": 0,
        "itemWidth": 12,
        "itemHeight": 140,
        "textStyle": {"color": "@soft"},
        "inRange": {"color": ["@low", "@high"]},
        "hoverLink": False,
    }
    return frame(
        grid=grid(legend=True),
        tooltip=tooltip("item"),
        xAxis=_slots(unit),
        yAxis=_rows(),
        visualMap=scale,
        series=[CELLS | {"name": "machines", "encode": {"x": [0, 1], "y": 2}}],
    )


def _use(unit: str, resources: Sequence[str]) -> Option:
    series = [
        line(name, [], HUES[(3 * k) % len(HUES)], step="end", stroke={"type": DASHES[k % len(DASHES)]})
        for k, name in enumerate(resources)
    ]
    return frame(
        grid=grid(legend=True) | {"top": 26},
        legend=legend(),
        tooltip=tooltip("axis", formatter="@useAt"),
        xAxis=_slots(unit),
        yAxis=y_axis("% in use", min=0, max=100),
        series=series,
    )
