"""Schedules as files: rows of job, slot, machine, workers and servers by name, written, read back, and certified."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equipoise.certificate import Certificate
from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job, Workload
from equipoise.place.verify import JOB, MACHINE, SERVERS, SLOT, WORKERS, Int32s, Ints, measure, named

if TYPE_CHECKING:
    from equipoise.place.simulate import Result

COLUMNS = ("job", "slot", "machine", "workers", "servers")
MOST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Rows:
    """A schedule by names: codes into `jobs` and `machines`, and the line each row stands on."""

    source: str
    jobs: tuple[str, ...]
    machines: tuple[str, ...]
    table: Int32s = field(repr=False)  # job code, slot, machine code, workers, servers
    lines: Ints = field(repr=False)

    def __len__(self) -> int:
        return len(self.table)

    @classmethod
    def of(cls, rows: Rows | Iterable[tuple[str, int, str, int, int]]) -> Rows:
        """The same, or plain tuples (job, slot, machine, workers, servers); a row's line is then its number from 1."""
        if isinstance(rows, Rows):
            return rows
        reading = _Reading("schedule")
        for k, row in enumerate(rows):
            reading.add(k + 1, [str(cell) for cell in row])
        return reading.rows()


class _Reading:
    """Rows as they come, kept small: names as codes, numbers in 32 bits."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.codes: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.table, self.lines = array("i"), array("q")

    def add(self, line: int, row: list[str]) -> None:
        if len(row) != len(COLUMNS):
            raise self.error(line, f"{len(row)} cells; expected {len(COLUMNS)}: {','.join(COLUMNS)}")
        jobs, machines = self.codes
        job, slot, machine, workers, servers = row
        try:
            numbers = [self.whole(cell) for cell in (slot, workers, servers)]
        except ValueError:
            at = next(k for k in (SLOT, WORKERS, SERVERS) if not _is_whole(row[k]))
            message = f"{COLUMNS[at]} is {row[at][:40]!r}; expected a whole number from 0 to {MOST:,}"
            raise self.error(line, message) from None
        if numbers[1] == numbers[2] == 0:
            raise self.error(line, "no workers and no servers; leave the row out")
        self.table.extend(
            (
                jobs.setdefault(job.strip(), len(jobs)),
                numbers[0],
                machines.setdefault(machine.strip(), len(machines)),
                numbers[1],
                numbers[2],
            )
        )
        self.lines.append(line)

    @staticmethod
    def whole(cell: str) -> int:
        if not _is_whole(cell):
            raise ValueError
        return int(cell.strip())

    def error(self, line: int, message: str) -> InputError:
        return InputError(f"{self.source}, line {line}: {message}")

    def rows(self) -> Rows:
        jobs, machines = self.codes
        table = np.frombuffer(self.table, dtype=np.int32).reshape(-1, 5) if len(self.table) else np.empty((0, 5), "i4")
        lines = np.frombuffer(self.lines, dtype=np.int64) if len(self.lines) else np.empty(0, np.int64)
        return Rows(self.source, tuple(jobs), tuple(machines), table, lines)


def _is_whole(cell: str) -> bool:
    cell = cell.strip()
    return cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell) <= MOST


def write_schedule(result: Result, path: str | Path) -> None:
    """The schedule of a run as CSV: job,slot,machine,workers,servers, by job ids and machine names."""
    names, ids = result.cluster.names, [job.id for job in result.jobs]
    by_name(names)
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for k in range(0, len(result.schedule), 65536):
            block = result.schedule[k : k + 65536].tolist()
            writer.writerows((ids[j], t, names[h], w, s) for j, t, h, w, s in block)


def read_schedule(path: str | Path) -> Rows:
    """A schedule from CSV with the columns job, slot, machine, workers and servers; what else it has is left alone."""
    path = Path(path)
    reading = _Reading(str(path))
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = next(reader, [])
            heads = [cell.strip() for cell in header]
            if any(heads.count(name) != 1 for name in COLUMNS):
                given = ",".join(header)[:80]
                raise reading.error(1, f"the header is {given!r}; expected {','.join(COLUMNS)}")
            places = [heads.index(name) for name in COLUMNS]
            for row in reader:
                if row and len(row) != len(heads):
                    raise reading.error(reader.line_num, f"{len(row)} cells; expected {len(heads)}: {','.join(heads)}")
                if row:
                    reading.add(reader.line_num, [row[k] for k in places])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path (from {Path.cwd()})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); expected a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; save it as UTF-8") from None
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not CSV ({error}); correct it there") from None
    return reading.rows()


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
    schedule_rows: Rows | Iterable[tuple[str, int, str, int, int]],
    *,
    end: int,
    finish: Mapping[str, int | None] | None = None,
) -> Verified:
    """Certify rows by names, and say when each job is done and what that is worth.

    `finish` is what is claimed, by job id (None or left out: not finished); without it there is nothing to compare with,
    and only capacity, ratio and arrival are certified.
    """
    workload, rows = Workload.of(jobs), Rows.of(schedule_rows)
    for job in workload:
        cluster.demand(job.worker, named(job)), cluster.demand(job.server or {}, named(job))
    index = {job.id: j for j, job in enumerate(workload)}
    table = rows.table.copy()
    table[:, JOB] = _coded(rows, JOB, rows.jobs, index)
    table[:, MACHINE] = _coded(rows, MACHINE, rows.machines, by_name(cluster.names))
    _refuse_twice(rows, table)
    claimed = None
    if finish is not None:
        for name in finish:
            if name not in index:
                raise InputError(f"finish: unknown job {name!r}; it is not among the {len(index):,} jobs given")
        told = [finish.get(job.id) for job in workload]
        claimed = np.array([-1 if slot is None else int(slot) for slot in told], dtype=np.int64)
    certificate, found, utility, ordered = measure(cluster, workload, table, end, claimed)
    by_id = {job.id: None if slot < 0 else int(slot) for job, slot in zip(workload, found, strict=True)}
    return Verified(certificate, by_id, utility, ordered)


def by_name(names: tuple[str, ...]) -> dict[str, int]:
    out = {name: h for h, name in enumerate(names)}
    if len(out) < len(names):
        twice = next(name for h, name in enumerate(names) if out[name] != h)
        raise InputError(f"two machines have the name {twice!r}; give the machine types of the cluster different names")
    return out


def _coded(rows: Rows, column: int, given: tuple[str, ...], known: Mapping[str, int]) -> Int32s:
    """Names as numbers; the first row with a name nobody knows is refused."""
    codes = np.array([known.get(name, -1) for name in given], dtype=np.int32)
    out = codes[rows.table[:, column]] if len(rows) else np.empty(0, np.int32)
    if (out < 0).any():
        k = int((out < 0).argmax())
        name, line = given[rows.table[k, column]], int(rows.lines[k])
        kind = COLUMNS[column]
        raise InputError(
            f"{rows.source}, line {line}: unknown {kind} {name!r}; expected one of the {len(known):,} given"
        )
    return out


def _refuse_twice(rows: Rows, table: Int32s) -> None:
    order = np.lexsort((rows.lines, table[:, MACHINE], table[:, SLOT], table[:, JOB]))
    ordered = table[order][:, [JOB, SLOT, MACHINE]]
    again = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    if len(again):
        k = min(again, key=lambda i: int(rows.lines[order[i + 1]]))
        first, line = int(rows.lines[order[k]]), int(rows.lines[order[k + 1]])
        message = "the same job, slot and machine as line"
        raise InputError(f"{rows.source}, line {line}: {message} {first}; expected one row for each")
