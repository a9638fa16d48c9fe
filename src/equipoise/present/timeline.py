"""Machines by slot: who ran where and when under each policy, and the price or the use of every machine.

A page shows a window of it that one can read: the busiest machines and the busiest slots in a row. A paper shows all of it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.document import CELLS, Document, Row, rows_of
from equipoise.errors import InputError
from equipoise.present.echarts import Floats, Ints, Option, frame, grid, tooltip, x_axis, y_axis
from equipoise.present.figures import HUES, Axis, Dash, Drawing, Figure, Panel, Series, Sheet
from equipoise.present.text import count, duration
from equipoise.present.values import Choice, Controls, Widget
from equipoise.units import resource

MOST_MACHINES, MOST_SLOTS = 60, 200  # that can be told apart on a screen
MOST_BARS = 60_000  # of all policies together; a page stays small whatever the run
MOST_TIMES = 650  # points of a line over all slots
FULL = 1000  # the height of a machine's row, in which jobs are stacked
ZOOM_FROM = 60  # slots: fewer can be told apart without
CELL = np.dtype([*((name, np.int64) for name in (*CELLS, "spread")), ("share", np.float64)])  # of a schedule
Cells = NDArray[np.void]


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


class Bar(NamedTuple):
    """A job on a machine through slots first..last-1 without a change. The page has its fields in this order."""

    job: int
    machine: int
    first: int
    last: int
    workers: int
    servers: int
    spread: int  # 1: the job had other machines too
    bottom: int  # of FULL
    height: int


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
        cells = cells_of(document, self.jobs, self.machines)
        self.schedules = [cells[name] for name in self.policies]
        self.use = [_table(rows_of(document, "history", policy=name), self.resources) for name in self.policies]
        self.windows = rows_of(document, "windows")
        growth = result.get("growth") or {}
        self.posted = [
            (_table(base, self.resources), np.array([growth[name][r] for r in self.resources]))
            if (base := rows_of(document, "prices", policy=name))
            else None
            for name in self.policies
        ]

    @cached_property
    def window(self) -> Window:
        """The busiest machines and slots, fewer slots while there would be too many bars."""
        cells, size = np.concatenate(self.schedules), len(self.machines)
        end = min(max(1, self.end), int(cells["slot"].max()) + 1 if len(cells) else MOST_SLOTS)
        busy = np.bincount(cells["machine"], cells["share"], size)
        machines = np.sort(np.argsort(-busy, kind="stable")[:MOST_MACHINES])
        by_slot = np.bincount(cells["slot"], cells["share"], end)
        shown = np.bincount(cells["slot"][np.isin(cells["machine"], machines)], minlength=end)
        wide = min(MOST_SLOTS, end)
        while True:
            run = np.convolve(by_slot, np.ones(wide), "valid")
            first = int(np.argmax(run > run.max() - 1e-9 * (1.0 + run.max())))
            if wide <= 10 or int(shown[first : first + wide].sum()) <= 4 * MOST_BARS:
                found = Window(machines, first, first + wide, size, self.end)
                if wide <= 10 or sum(len(self.bars(k, found)) for k in range(len(self.policies))) <= MOST_BARS:
                    return found
            wide = max(10, wide * 2 // 3)

    def within(self, k: int, window: Window) -> Cells:
        """The cells of a policy in the window."""
        cells = self.schedules[k]
        here = (cells["slot"] >= window.first) & (cells["slot"] < window.last)
        return cells[here & np.isin(cells["machine"], window.machines)]

    def bars(self, k: int, window: Window) -> list[Bar]:
        """The bars of a policy in the window."""
        return bars_of(self.within(k, window))

    def heat(self, k: int, window: Window) -> tuple[str, Floats]:
        """For every machine and slot of the window: "price" of the whole machine as its use makes it, or "use" of its
        fullest resource under a policy without prices."""
        cells = self.within(k, window)
        held = self.worker[cells["job"]] * cells["workers"][:, None]
        held += self.server[cells["job"]] * cells["servers"][:, None]
        there = self.capacity[cells["machine"]]
        used = np.zeros((len(window.machines), window.slots, self.capacity.shape[1]))
        where = (np.searchsorted(window.machines, cells["machine"]), cells["slot"] - window.first)
        np.add.at(used, where, np.divide(held, there, out=np.zeros_like(held), where=there > 0))
        posted = self.posted[k]
        if posted is None:
            return "use", np.asarray(used.max(axis=2, initial=0.0))
        base, growth = posted
        slots = np.minimum(np.arange(window.first, window.last), len(base) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            each = base[slots][None] * np.exp(growth * used) * self.capacity[window.machines][:, None, :]
        return "price", np.asarray(each.sum(axis=2))

    def data(self, stories: Sequence[str]) -> Row:
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
            told: Row = {"policy": name, "story": f"{stories[k]}; on average it used {mean}."}
            told |= {"times": times.tolist(), "use": percents, "end": self.end}
            told |= {"heat": kind, "cells": [[float(f"{value:.3g}") for value in cells] for cells in heat.tolist()]}
            told["bars"] = [[code[bar.job], row[bar.machine], *bar[2:]] for bar in bars[k]]
            policies.append(told | {"unfinished": [code[job] for job in jobs if not self.finished[k, job]]})
        shown: Row = {"first": window.first, "last": window.last, "slot": self.slot, "resources": self.resources}
        shown |= {"machines": [self.machines[m] for m in window.machines], "jobs": [self.jobs[job] for job in jobs]}
        there = {self.machines[machine]: n for machine, n in row.items()}
        shown["windows"] = [
            [there[one["machine"]], one["first"], one["last"], one["share"], one["kind"]]
            for one in self.windows
            if one["machine"] in there and one["first"] < window.last and one["last"] > window.first
        ]
        return shown | {"policies": policies}

    def widget(self, chosen: int, stories: Sequence[str]) -> Widget:
        """Three panels of one policy's schedule, which the reader chooses: machines, their prices or use, resources."""
        window, unit, priced = self.window, f"slot of {duration(self.slot)}", any(self.posted)
        choice = Choice("shown-policy", "Schedule under", self.policies, chosen)
        heat, words = f"{'Price' if priced else 'Use'} of every machine by slot", PRICED if priced else UNPRICED
        both = {"wide": True, "tall": True}
        span = -(-window.all_slots // MOST_TIMES)
        used = "Of the whole cluster, under the policy chosen."
        used += f" Means over spans of {span} slots." if span > 1 else ""
        used += " The band is the window shown above." if window.slots < window.all_slots else ""
        lines = [
            Series(name, [], [], "step", colour=HUES[(3 * k) % len(HUES)], dash=PAGE_DASHES[k % len(PAGE_DASHES)])
            for k, name in enumerate(self.resources)
        ]
        x, y = Axis(unit, whole=True, point="slot {value}, % in use"), Axis("% in use", low=0, high=100)
        label = "Lines: percent of each resource of the whole cluster in use, by slot"
        blocks = (
            Controls("Who ran where and when", [choice], story=f"{stories[chosen]}.", caption=window.cut),
            Drawing(
                "gantt",
                "Machines by slot, coloured by job",
                GANTT,
                f"{BARS} {WINDOWS}" if self.windows else BARS,
                _gantt(unit, window.slots),
                **both,
            ),
            Drawing(
                "heat", heat, "Heat map: machines by slot, coloured by price or by use", words, _heat(unit), **both
            ),
            Figure("Use of each resource", x, y, lines, caption=used, key="use", label=label, legend=True, wide=True),
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


def cells_of(document: Document, jobs: Sequence[str], machines: Sequence[str]) -> dict[str, Cells]:
    """Who was where under each policy, jobs and machines as indices; `spread` is 1 where a job had other machines too."""
    job_of, machine_of = ({name: k for k, name in enumerate(names)} for names in (jobs, machines))
    rows = rows_of(document, "allocations")
    often = Counter((row["policy"], row["job"], row["slot"]) for row in rows)
    found: dict[str, list[tuple[float, ...]]] = {str(row["policy"]): [] for row in document.rows("rows")}
    for row in rows:
        spread = often[row["policy"], row["job"], row["slot"]] > 1
        where = (job_of[str(row["job"])], row["slot"], machine_of[str(row["machine"])])
        found[str(row["policy"])].append((*where, row["workers"], row["servers"], spread, row["share"]))
    return {name: np.array(cells, CELL) for name, cells in found.items()}


def bars_of(cells: Cells) -> list[Bar]:
    """Cells of one schedule, run together where nothing changes, stacked in their machine's row."""
    out: list[Bar] = []
    open_: dict[int, Bar] = {}  # by job, those that the next slot may prolong

    def close(jobs: Iterable[int], slot: int) -> None:
        out.extend(open_.pop(job)._replace(last=slot) for job in jobs)

    machine, slot = -1, -1
    order = np.lexsort((cells["job"], cells["slot"], cells["machine"]))
    for (here, now), group in groupby(cells[order].tolist(), key=itemgetter(2, 1)):
        if (here, now) != (machine, slot + 1):
            close(list(open_), slot + 1)
        machine, slot = here, now
        held = {job: rest for job, _, _, *rest in group}
        close([job for job in open_ if job not in held], slot)
        there = {job: (bar.bottom, bar.height) for job, bar in open_.items()}
        places = stacked(there, {job: max(1, int(FULL * share + 1e-6)) for job, (*_, share) in held.items()})
        for job, (workers, servers, spread, _) in held.items():
            bar = Bar(job, machine, slot, slot, workers, servers, spread, *places[job])
            if job in open_ and open_[job][4:] != bar[4:]:
                close([job], slot)
            open_.setdefault(job, bar)
    close(list(open_), slot + 1)
    return out


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

GANTT = "Gantt chart: a row per machine, a bar per job over the slots in which it ran there"
BARS = (
    "A bar is a job on a machine; its height is the share of the machine's resource it needs most, and jobs on "
    "one machine are stacked. Pale bars are jobs that did not finish. Hover or touch one to read it."
)
WINDOWS = (
    "A grey frame is what the calendar takes, as high as its part of the machine; jobs beside it may cover some of it."
)
PRICED = (
    "What all of a machine costs for a slot at the use it had in the end: its resources at their posted prices, "
    "which rise with use, before any discount for slots that are near. A policy without prices shows the use of "
    "the machine's fullest resource instead."
)
UNPRICED = "No policy here posts prices: the use of each machine's fullest resource."
# Resources are often used in one proportion: the line below shows through.
PAGE_DASHES: tuple[Dash, ...] = ("solid", "solid", "dashed", "dotted")


def _by_slot(unit: str, name: str, x: Sequence[int], y: int, **parts: object) -> Option:
    """Cells in rows of machines; `x` and `y` are the fields of a cell that say where it lies."""
    slots = x_axis(unit, pointer="slot {value}", minInterval=1)
    slots["axisLabel"] |= {"showMaxLabel": False}  # the end is the window's, not round
    rows = y_axis("", "category", data=[], inverse=True, axisTick={"show": False})
    rows["axisLabel"] |= {"width": 96, "overflow": "truncate"}
    rows["splitLine"]["show"] = True
    cells: Option = {"type": "custom", "clip": True, "progressive": 0, "data": [], "name": name}
    taken = {**cells, "name": "calendar", "z": 1, "encode": {"x": [1, 2], "y": 0}}
    series = [cells | {"encode": {"x": x, "y": y}}, *([taken] if name == "jobs" else [])]
    return frame(tooltip=tooltip("item"), xAxis=slots, yAxis=rows, series=series, **parts)


def _gantt(unit: str, slots: int) -> Option:
    if slots <= ZOOM_FROM:
        return _by_slot(unit, "jobs", [2, 3], 1, grid=grid())
    bar = {"type": "slider", "xAxisIndex": 0, "bottom": 4, "height": 18, "filterMode": "weakFilter"}
    quiet = {"showDataShadow": False, "showDetail": False, "brushSelect": False, "borderColor": "@rule"}
    colours = {"fillerColor": "rgba(120,140,165,.22)", "handleStyle": {"color": "@paper", "borderColor": "@soft"}}
    return _by_slot(unit, "jobs", [2, 3], 1, grid=grid() | {"bottom": 40}, dataZoom=[bar | quiet | colours])


def _heat(unit: str) -> Option:
    place = {"orient": "horizontal", "left": "center", "bottom": 0, "itemWidth": 12, "itemHeight": 140}
    look = {"textStyle": {"color": "@soft"}, "inRange": {"color": ["@low", "@high"]}, "hoverLink": False}
    scale = {"type": "continuous", "dimension": 3, "min": 0, "max": 1, **place, **look}
    return _by_slot(unit, "machines", [0, 1], 2, grid=grid(legend=True), visualMap=scale)


# For a paper.

# Neighbours in the list differ in hue and in lightness; a job has the same colour everywhere in a figure.
JOBS = ("#4477aa", "#ee8866", "#228833", "#eedd88", "#aa3377", "#99ddff", "#bbcc33", "#775544", "#ffaabb", "#44bb99")
CLOSED = "#c8ccd2"  # what the calendar takes
USES = ("@blue", "@amber", "@teal", "@violet", "@ink")
DASHES: tuple[Dash, ...] = ("solid", "dashed", "dotted")
NAMED = 24  # machines up to which every one is named
TALLEST = 5.0  # inches
BAND = 0.88  # of a machine's row


def schedule(document: Document, policy: str) -> Sheet:
    """Who ran on which machine in which slot, and below it the part of every resource in use."""
    names = [str(row["policy"]) for row in document.rows("rows")]
    if policy not in names:
        raise InputError(f"no policy {policy!r} here; there are {', '.join(names)}", code="unknown")
    machines = [str(row["machine"]) for row in document.rows("machines")]
    jobs = list(dict.fromkeys(str(row["job"]) for row in document.rows("outcomes")))
    cells = cells_of(document, jobs, machines)[policy]
    if not len(cells):
        raise InputError(f"{policy} gave no job a machine: there is no schedule to draw")
    first = {job: k for k, job in enumerate(dict.fromkeys(cells["job"][np.argsort(cells["slot"], kind="stable")]))}
    edge = 0.5 - BAND / 2
    row_of = {name: k for k, name in enumerate(machines)}
    spans = [
        (one["first"], one["last"], row_of[one["machine"]], edge + BAND * (1 - one["share"]), edge + BAND, CLOSED)
        for one in rows_of(document, "windows")
    ]
    for bar in bars_of(cells):
        low = edge + BAND * bar.bottom / FULL
        high = low + BAND * bar.height / FULL
        spans.append((bar.first, bar.last, bar.machine, low, high, JOBS[first[bar.job] % len(JOBS)]))
    slots, row = rows_of(document, "history", policy=policy), rows_of(document, "rows", policy=policy)[0]
    title = f"{policy}: {row['completed']} of {document.result['jobs']} jobs done"
    x = Axis(f"slot of {float(document.result['slot']) / 3600.0:g} h", low=0, high=len(slots), whole=True)
    few = len(machines) <= NAMED
    y = Axis(groups=machines) if few else Axis(f"{len(machines)} machines", low=-0.5, high=len(machines) - 0.5)
    at = [*(slot["slot"] for slot in slots), slots[-1]["slot"] + 1]
    resources = [name for name in slots[0] if name not in ("policy", "slot", "completed", "utility")]
    lines = [
        Series(name, at, [*(slot[name] for slot in slots), slots[-1][name]], "step", colour=colour, dash=dash)
        for name, colour, dash in zip(resources, cycle(USES), cycle(DASHES))
    ]
    rows = Figure(title, x, y, legend=False, down=True)
    use = Figure("", x, Axis("% in use", low=0, high=1.05, form="percent"), lines)
    tall = min(TALLEST, max(1.1, 0.35 + 0.13 * len(machines)))
    return Sheet([Panel(rows, tall, spans), Panel(use, 1.1, below=True)])
