"""Schedules for other programs: CSV files written, read back and certified; JSON; slots as Ray's placement groups.

Nothing here imports Ray. Bundles name the node they are planned on by its label (tried with Ray 2.60): a strategy alone,
STRICT_PACK included, says how close bundles are and never on which node.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from equipoise.certificate import Certificate
from equipoise.errors import InputError, refuse_if, whole_number
from equipoise.kernels import Int32s, Ints
from equipoise.place.calendar import Calendar
from equipoise.place.cluster import Cluster
from equipoise.place.files import reading
from equipoise.place.job import JOB, MACHINE, SERVERS, SLOT, WORKERS, Job, Workload
from equipoise.place.verify import measure
from equipoise.place.verify_promises import named
from equipoise.units import MILLI

if TYPE_CHECKING:
    from equipoise.place.simulate import Result

COLUMNS = ("job", "slot", "machine", "workers", "servers")
MOST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class ScheduleRows:
    """A schedule by names: codes into `jobs` and `machines`, and the line each row stands on."""

    source: str
    jobs: tuple[str, ...]
    machines: tuple[str, ...]
    table: Int32s = field(repr=False)  # job code, slot, machine code, workers, servers
    lines: Ints = field(repr=False)

    def __len__(self) -> int:
        return len(self.table)

    @classmethod
    def of(cls, rows: ScheduleRows | Iterable[tuple[str, int, str, int, int]]) -> ScheduleRows:
        """The same, or plain tuples (job, slot, machine, workers, servers); a row's line is then its number from 1."""
        if isinstance(rows, ScheduleRows):
            return rows
        return _kept("schedule", ((k, [str(cell) for cell in row]) for k, row in enumerate(rows, 1)))


def _kept(source: str, rows: Iterable[tuple[int, list[str]]]) -> ScheduleRows:
    """Lines and their cells, kept small as they come: names as codes, numbers in 32 bits."""
    jobs: dict[str, int] = {}
    machines: dict[str, int] = {}
    table, lines = array("i"), array("q")
    for line, row in rows:
        if len(row) != len(COLUMNS):
            raise _wrong(source, line, f"{len(row)} cells; expected {len(COLUMNS)}: {','.join(COLUMNS)}")
        cells = [cell.strip() for cell in row]
        for k in (SLOT, WORKERS, SERVERS):
            if not _is_whole(cells[k]):
                message = f"{COLUMNS[k]} is {row[k][:40]!r}; expected a whole number from 0 to {MOST:,}"
                raise _wrong(source, line, message)
        slot, workers, servers = (int(cells[k]) for k in (SLOT, WORKERS, SERVERS))
        if workers == servers == 0:
            raise _wrong(source, line, "no workers and no servers; leave the row out")
        job, machine = jobs.setdefault(cells[JOB], len(jobs)), machines.setdefault(cells[MACHINE], len(machines))
        table.extend((job, slot, machine, workers, servers))
        lines.append(line)
    numbers = np.array(table, dtype=np.int32).reshape(-1, 5)
    return ScheduleRows(source, tuple(jobs), tuple(machines), numbers, np.array(lines, dtype=np.int64))


def _wrong(source: str, line: int, message: str, code: str = "schedule.row") -> InputError:
    return InputError(f"{source}, line {line}: {message}", code=code)


def _is_whole(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell) <= MOST


def write_schedule(result: Result, path: str | Path) -> None:
    """The schedule of a run as CSV: job,slot,machine,workers,servers, by job ids and machine names."""
    _write(path, COLUMNS, _named_rows(result))


def read_schedule(path: str | Path) -> ScheduleRows:
    """A schedule from CSV with the columns job, slot, machine, workers and servers; what else it has is left alone."""
    path = Path(path)
    with reading(path, "a CSV file"), path.open(encoding="utf-8-sig", newline="") as stream:
        return _kept(str(path), _lines(str(path), stream))


def _lines(source: str, stream: TextIO) -> Iterator[tuple[int, list[str]]]:
    """The line of each row below the header, and its cells of COLUMNS."""
    lines = csv.reader(stream, strict=True)
    try:
        header = next(lines, [])
        heads = [cell.strip() for cell in header]
        if any(heads.count(name) != 1 for name in COLUMNS):
            raise _wrong(source, 1, f"the header is {','.join(header)[:80]!r}; expected {','.join(COLUMNS)}")
        places = [heads.index(name) for name in COLUMNS]
        for row in filter(None, lines):
            if len(row) != len(heads):
                raise _wrong(source, lines.line_num, f"{len(row)} cells; expected {len(heads)}: {','.join(heads)}")
            yield lines.line_num, [row[k] for k in places]
    except csv.Error as error:
        raise _wrong(source, lines.line_num, f"not CSV ({error}); correct it there") from None


@dataclass(frozen=True)
class Verified:
    """What a schedule made by anybody comes to. `finish` is by job id, None where the job is never done."""

    certificate: Certificate
    finish: dict[str, int | None]
    utility: float
    schedule: Int32s = field(repr=False)  # as in a Result

    @property
    def completed(self) -> int:
        return sum(slot is not None for slot in self.finish.values())


def verify_files(
    cluster: Cluster,
    jobs: Iterable[Job],
    schedule_rows: ScheduleRows | Iterable[tuple[str, int, str, int, int]],
    *,
    end: int,
    finish: Mapping[str, int | None] | None = None,
    calendar: Calendar | None = None,
) -> Verified:
    """Certify rows by names, and say when each job is done and what that is worth.

    `finish` is what is claimed, by job id (None or left out: not finished); without it there is nothing to compare with,
    and only capacity, ratio and arrival are certified.
    """
    workload, rows = Workload.of(jobs), ScheduleRows.of(schedule_rows)
    for job in workload:
        cluster.demand(job.worker, named(job)), cluster.demand(job.server or {}, named(job))
    index = {job.id: j for j, job in enumerate(workload)}
    table = rows.table.copy()
    table[:, JOB] = _coded(rows, JOB, rows.jobs, index)
    table[:, MACHINE] = _coded(rows, MACHINE, rows.machines, cluster.machine_ids)
    _refuse_twice(rows, table)
    claimed = None
    if finish is not None:
        for name in finish:
            why = f"finish: unknown job {name!r}; it is not among the {len(index):,} jobs given"
            refuse_if(name not in index, why, code="unknown")
        told = [finish.get(job.id) for job in workload]
        claimed = np.array([-1 if slot is None else int(slot) for slot in told], dtype=np.int64)
    certificate, found, utility, ordered = measure(cluster, workload, table, end, claimed, calendar)
    by_id = {job.id: None if slot < 0 else int(slot) for job, slot in zip(workload, found, strict=True)}
    return Verified(certificate, by_id, utility, ordered)


def _coded(rows: ScheduleRows, column: int, given: tuple[str, ...], known: Mapping[str, int]) -> Int32s:
    """Names as numbers; the first row with a name nobody knows is refused."""
    codes = np.array([known.get(name, -1) for name in given], dtype=np.int32)
    out = codes[rows.table[:, column]] if len(rows) else np.empty(0, np.int32)
    if (out < 0).any():
        k = int((out < 0).argmax())
        name, line = given[rows.table[k, column]], int(rows.lines[k])
        why = f"unknown {COLUMNS[column]} {name!r}; expected one of the {len(known):,} given"
        raise _wrong(rows.source, line, why, "unknown")
    return out


def _refuse_twice(rows: ScheduleRows, table: Int32s) -> None:
    order = np.lexsort((table[:, MACHINE], table[:, SLOT], table[:, JOB]))  # of equal rows the earlier line first
    ordered = table[order][:, [JOB, SLOT, MACHINE]]
    again = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    if len(again):
        k = again[order[again + 1].argmin()]
        first, line = rows.lines[order[k : k + 2]].tolist()
        why = f"the same job, slot and machine as line {first}; expected one row for each"
        raise _wrong(rows.source, line, why, "schedule.twice")


BLOCK = 65536  # rows written at once


def allocations_csv(result: Result, path: str | Path) -> None:
    """A row for every job, slot and machine: who sits where, and from which hour after slot 0 began."""
    hours = result.jobs.slot / 3600.0
    columns = ("job", "slot", "start_hours", "machine", "workers", "servers")
    _write(path, columns, ((job, t, f"{t * hours:.10g}", *rest) for job, t, *rest in _named_rows(result)))


def _named_rows(result: Result) -> Iterator[tuple[str, int, str, int, int]]:
    """The rows of its schedule by job ids and machine names, a block at a time."""
    names, ids = tuple(result.cluster.machine_ids), [job.id for job in result.jobs]
    blocks = (result.schedule[k : k + BLOCK].tolist() for k in range(0, len(result.schedule), BLOCK))
    return ((ids[j], t, names[h], w, s) for block in blocks for j, t, h, w, s in block)


def _write(path: str | Path, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(chain((columns,), rows))


def to_json(result: Result) -> dict[str, object]:
    """Plain values: every job with what became of it, and the schedule as runs of equal slots (`last` included)."""
    names, ids = tuple(result.cluster.machine_ids), [job.id for job in result.jobs]
    told = [[dict(decision.__dict__) for decision in log] for log in result.decisions]
    jobs = [result.outcome(j) | {"decisions": log} for j, log in enumerate(told)]
    schedule = [
        {"job": ids[j], "machine": names[h], "first": first, "last": last, "workers": w, "servers": s}
        for j, h, first, last, w, s in runs(result.schedule).tolist()
    ]
    return {
        "policy": result.policy.label,
        "seed": result.seed,
        "slot_seconds": float(result.jobs.slot),
        "start": result.jobs.start,
        "end": result.end,
        "utility": result.utility,
        "completed": result.completed,
        "machines": list(names),
        "jobs": jobs,
        "schedule": schedule,
    }


def runs(schedule: Int32s) -> Int32s:
    """Rows (job, machine, first slot, last slot, workers, servers): slots in a row with the same numbers are one."""
    rows = schedule[np.lexsort((schedule[:, SLOT], schedule[:, MACHINE], schedule[:, JOB]))]
    same = (rows[1:, [JOB, MACHINE, WORKERS, SERVERS]] == rows[:-1, [JOB, MACHINE, WORKERS, SERVERS]]).all(axis=1)
    same &= rows[1:, SLOT] == rows[:-1, SLOT] + 1
    first = np.flatnonzero(np.append(True, ~same)[: len(rows)])
    last = np.append(first[1:], len(rows))[: len(first)] - 1
    parts = rows[first][:, [JOB, MACHINE, SLOT]], rows[last, SLOT], rows[first][:, [WORKERS, SERVERS]]
    out = np.column_stack(parts).astype(np.int32)
    return out[np.lexsort((out[:, 1], out[:, 2], out[:, 0]))]


LABEL = "equipoise.io/machine"  # the label a Ray node carries to say which machine of the cluster it is
NAMES = {"gpu": "GPU", "cpu": "CPU", "memory": "memory"}  # resources Ray has a word for; all others are custom ones
PACK = "PACK"  # keep close where that can be: every bundle says itself where it must be
LEAST = {"CPU": 1 / MILLI}  # a bundle may not be empty: what one that asks for nothing is given
VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)  # what Ray takes as a label's value


@dataclass(frozen=True)
class PlacementGroup:
    """One job in one slot: one bundle per worker, then one per server. `roles` and `machines` are in their order."""

    job: str
    slot: int
    bundles: tuple[Mapping[str, float], ...]
    roles: tuple[str, ...]  # worker, server
    machines: tuple[str, ...]
    strategy: str = PACK

    @property
    def bundle_label_selector(self) -> list[dict[str, str]]:
        """The node each bundle must be on."""
        return [{LABEL: name} for name in self.machines]

    def arguments(self) -> dict[str, object]:
        """For ray.util.placement_group(**arguments)."""
        return {
            "bundles": [dict(bundle) for bundle in self.bundles],
            "strategy": self.strategy,
            "name": f"{self.job}@{self.slot}",
            "bundle_label_selector": self.bundle_label_selector,
        }

    def as_dict(self) -> dict[str, object]:
        which = {"job": self.job, "slot": self.slot, "roles": list(self.roles), "machines": list(self.machines)}
        return which | self.arguments()


def amounts(demand: Mapping[str, int], *, memory_unit: float = 1.0) -> dict[str, float]:
    """Milli-units by our names as units by Ray's: gpu -> GPU, cpu -> CPU, memory -> memory in bytes, others as they are.

    `memory_unit` is how many bytes the cluster calls one: 1 where it was given as "512Gi", 2**30 where as 512.
    """
    out: dict[str, float] = {}
    for name, milli in demand.items():
        if not milli:
            continue
        ray = NAMES.get(name, name)
        why = f"two resources are called {ray} in Ray, {name!r} and another; rename one of them"
        refuse_if(ray in out, why, code="ray.resource")
        if ray == "memory":
            out[ray] = -(-milli * int(memory_unit) // MILLI)  # whole bytes
        else:
            out[ray] = milli // MILLI if milli % MILLI == 0 else milli / MILLI
        why = f"{out[ray]:g} GPUs for one worker: Ray gives parts of one GPU, or whole ones"
        refuse_if(ray == "GPU" and out[ray] > 1 and milli % MILLI, why, code="ray.gpus")
    return out


def nodes(cluster: Cluster, *, memory_unit: float = 1.0) -> list[dict[str, object]]:
    """How to start the Ray node of every machine: num_cpus, num_gpus, memory, resources, labels.

    As ray.cluster_utils.Cluster.add_node takes them; for `ray start` they are --num-cpus, --num-gpus, --memory,
    --resources and --labels.
    """
    out = []
    for name, kind in zip(cluster.machine_ids, cluster.type_of, strict=True):
        has = amounts(cluster.machines[int(kind)].capacity, memory_unit=memory_unit)
        node = {"num_cpus": has.pop("CPU", 0), "num_gpus": has.pop("GPU", 0)}
        for what, count in node.items():
            refuse_if(count != int(count), f"machine {name!r}: {what} is {count:g}; a Ray node has a whole number")
        if "memory" in has:
            node["memory"] = has.pop("memory")
        out.append({**node, "resources": has, "labels": {LABEL: _label(name)}})
    return out


def placement_groups(result: Result, slot: int, *, memory_unit: float = 1.0) -> list[PlacementGroup]:
    """A placement group for every job that runs in the slot, in order of arrival."""
    whole_number(slot, "slot", 0, result.end - 1, code="slot.range")
    names = tuple(result.cluster.machine_ids)
    rows = result.schedule[result.schedule[:, SLOT] == slot]
    groups = []
    for j in dict.fromkeys(rows[:, JOB].tolist()):
        job, cells = result.jobs[j], rows[rows[:, JOB] == j]
        parts: list[tuple[Mapping[str, float], str, str]] = []  # of each bundle: what it needs, its role, its machine
        for role, demand, column in (("worker", job.worker, WORKERS), ("server", job.server or {}, SERVERS)):
            need = amounts(demand, memory_unit=memory_unit) or LEAST
            for cell in cells.tolist():
                if cell[column]:
                    parts += cell[column] * [(need, role, _label(names[cell[MACHINE]]))]
        bundles, roles, machines = zip(*parts, strict=True)
        groups.append(PlacementGroup(job.id, slot, bundles, roles, machines))
    return groups


def _label(name: str) -> str:
    taken = "up to 63 letters, digits, '-', '_' and '.', from a letter or digit to one"
    why = f"machine {name!r}: Ray takes labels of {taken}; rename the machine"
    refuse_if(not VALUE.fullmatch(name), why, code="ray.label")
    return name
