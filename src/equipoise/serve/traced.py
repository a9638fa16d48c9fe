"""A file of jobs that may still grow: complete lines as jobs, and when the cluster really ran them. It is only read."""

from __future__ import annotations

import hashlib
import inspect
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from equipoise.errors import InputError, unknown_name
from equipoise.place.job import Job, Workload
from equipoise.place.traces import FORMATS, rows
from equipoise.place.traces.alibaba import COLUMNS as POD_COLUMNS
from equipoise.place.traces.alibaba import EXPECTED as PODS
from equipoise.place.traces.rows import CPUS_PER_GPU, Unmappable
from equipoise.place.traces.slurm import COLUMNS as SACCT_COLUMNS
from equipoise.place.traces.slurm import EXPECTED as SACCT
from equipoise.place.traces.swf import EXPECTED as SWF
from equipoise.place.traces.swf import RUN, START, SUBMIT
from equipoise.place.traces.utilities import LARGEST
from equipoise.place.utility import Sigmoid

ALIASES = {"sacct": "slurm"}
NOTHING_YET = "no row could be made a job"  # what a reader says of a file in which nothing has ended
SWF_WAIT = 2  # its field of seconds waited, from 0


@dataclass(frozen=True)
class Real:
    """What the cluster did with a job: unix seconds, or seconds of the trace's own time."""

    submit: float
    start: float
    end: float


@dataclass(frozen=True)
class Reading:
    """The jobs of a file, what really became of them by id, and the trace's time at its slot 0, seconds."""

    jobs: Workload
    real: dict[str, Real]
    zero: float


def kind_of(format: str) -> str:
    """The reader's name of a format."""
    kind = ALIASES.get(format, format)
    if kind not in FORMATS:
        raise unknown_name("format", format, (*FORMATS, *ALIASES))
    return kind


class Traced:
    """`read` gives the jobs when the file has changed. With `follow` a half-written last line waits for its end."""

    def __init__(
        self, path: Path, kind: str, slot: float, *, seed: int = 0, gpus: int = 8, follow: bool = False
    ) -> None:
        self.kind = kind_of(kind)
        if follow and path.suffix == ".gz":
            raise InputError(f"{path}: a compressed file does not grow; expected the export itself, or no --follow")
        self.path, self.slot, self.seed, self.gpus, self.follow = path, slot, seed, gpus, follow
        self.rewritten = 0  # how often it was cut, replaced or changed before its end
        self._stamp: tuple[int, int, int] | None = None
        self._length, self._digest = 0, hashlib.sha256().digest()

    def read(self) -> Reading | None:
        """All its jobs; None while nothing is new, or nothing in it can be a job yet."""
        if not self.follow:
            return self._parsed(self.path)
        text = self._complete()
        if not text:
            return None
        with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
            copy = Path(folder) / self.path.name
            copy.write_bytes(text)
            try:
                return self._parsed(copy)
            except InputError as error:
                if NOTHING_YET in str(error):
                    return None
                raise InputError(str(error).replace(str(copy), str(self.path))) from None

    def _complete(self) -> bytes | None:
        """The complete lines, where the file has changed. One that is away for a moment is being rotated."""
        try:
            seen = self.path.stat()
            stamp = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if stamp == self._stamp:
                return None
            text = self.path.read_bytes()
        except FileNotFoundError:
            if self._stamp is None:
                raise InputError(f"{self.path}: no such file; expected one that grows") from None
            return None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from None
        self._stamp = stamp
        if hashlib.sha256(text[: self._length]).digest() != self._digest:
            self.rewritten += 1
        text = text[: text.rfind(b"\n") + 1]
        self._length, self._digest = len(text), hashlib.sha256(text).digest()
        return text

    def _parsed(self, path: Path) -> Reading:
        reader = FORMATS[self.kind]
        settings = {"slot": self.slot, "seed": self.seed, "sized_utility": False, "gpus_per_machine": self.gpus}
        takes = inspect.signature(reader).parameters
        found = reader(path, **{name: value for name, value in settings.items() if name in takes})
        jobs = replace(found, jobs=tuple(_sized(job, self.slot) for job in found.jobs), source=str(self.path))
        zero = datetime.fromisoformat(found.start).replace(tzinfo=UTC).timestamp() if found.start else 0.0
        wanted = {job.id for job in jobs}
        lines = {row.line for row in found.skipped}
        real = {id: real for id, real in _real(path, self.kind, lines) if id in wanted}
        return Reading(jobs, real, zero)


def _sized(job: Job, slot: float) -> Job:
    """Worth times sqrt(GPU-hours): as `UtilityModel`, but against one GPU-hour, so that no other job matters.

    A file that grows has no median that stays, and a job sent again must be the same job.
    """
    if not isinstance(job.utility, Sigmoid):
        return job
    gpus = job.worker.get("gpu", 0) / 1000.0 or job.worker.get("cpu", 0) / 1000.0 / CPUS_PER_GPU
    width = job.requested or 1
    hours = job.work / job.rate(width, together=True) * slot / 3600.0
    size = min(LARGEST, math.sqrt(max(gpus, 0.001) * width * hours))
    return job.but(utility=replace(job.utility, value=job.utility.value * size))


# When the cluster really started and ended each job, where the format says so.


def _real(path: Path, kind: str, skipped: set[int]) -> Iterator[tuple[str, Real]]:
    """(id, what really happened), with the ids that the reader gave."""
    if kind == "slurm":
        yield from _slurm(path, skipped)
    elif kind == "alibaba":
        yield from _alibaba(path, skipped)
    elif kind == "swf":
        yield from _swf(path, skipped)


def _slurm(path: Path, skipped: set[int]) -> Iterator[tuple[str, Real]]:
    names: set[str] = set()
    for line, cells in rows.table(path, SACCT_COLUMNS, SACCT, delimiter="|"):
        if cells is None or line in skipped or "." in cells["jobid"]:
            continue
        id = rows.unique(f"slurm-{cells['jobid'].strip()}", line, names)
        try:
            submit = rows.calendar(cells["submit"], "Submit")
            start, end = (rows.calendar(cells.get(name, ""), name) for name in ("start", "end"))
        except Unmappable:
            continue
        yield id, Real(submit, start, end)


def _alibaba(path: Path, skipped: set[int]) -> Iterator[tuple[str, Real]]:
    names: set[str] = set()
    for line, cells in rows.table(path, POD_COLUMNS, PODS):
        if cells is not None and line not in skipped:
            id = rows.unique(cells["name"].strip() or "pod", line, names)
            yield id, Real(*(float(cells[name]) for name in ("creation_time", "scheduled_time", "deletion_time")))


def _swf(path: Path, skipped: set[int]) -> Iterator[tuple[str, Real]]:
    start = 0.0
    for line, text in enumerate(rows.opened(path, SWF), start=1):
        said = text.strip()
        if said.startswith(";"):
            header = START.match(said)
            start = float(header.group(1)) if header and int(header.group(1)) < 2**33 else start
        elif said and line not in skipped:
            cells = said.split()
            try:
                waited = rows.number(cells[SWF_WAIT], "wait", zero=True)
            except Unmappable:  # -1: not known; or anything else
                continue
            submit = start + float(cells[SUBMIT])
            yield f"swf-{line}", Real(submit, submit + waited, submit + waited + float(cells[RUN]))
