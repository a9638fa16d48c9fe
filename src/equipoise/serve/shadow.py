"""A shadow of a real cluster: its jobs go to a service on a virtual clock, and the two are compared.

The real cluster is only read of, in a file. Every job is submitted in the slot of its own arrival under its own id, so
that a shadow that is stopped and started again goes on where it was.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import NoReturn

from equipoise.errors import InputError, unknown_name
from equipoise.place.job import Job, Ran, Sigmoid, Workload
from equipoise.place.spec import DRAWN
from equipoise.place.traces import TRACES
from equipoise.place.traces._rows import CPUS_PER_GPU, LARGEST
from equipoise.serve.client import Client, ServiceError, plain
from equipoise.serve.models import ClusterStatus, EventRecord
from equipoise.serve.plan.events import Body

AWAY = (0, 503)  # the service is not there, or its store is not
NOTHING_YET = "no_jobs"  # the code of a reader's error for a file in which nothing has ended


@dataclass(frozen=True)
class Reading:
    """The jobs of a file, what really became of them by id, and the trace's time at its slot 0, seconds."""

    jobs: Workload
    real: dict[str, Ran]
    zero: float


def kind_of(format: str) -> str:
    """The reader's name of a format, which may be called by its alias."""
    kinds = {choice.name: choice.name for choice in TRACES.choices() if "matches" in choice.facts}
    kinds |= {str(choice.facts["alias"]): choice.name for choice in TRACES.choices() if "alias" in choice.facts}
    if format not in kinds:
        raise unknown_name("format", format, tuple(kinds))
    return kinds[format]


class Traced:
    """`read` gives the jobs when the file has changed. With `follow` a half-written last line waits for its end."""

    def __init__(
        self, path: Path, kind: str, slot: float, *, seed: int = 0, gpus: int = 8, follow: bool = False
    ) -> None:
        self.kind = kind_of(kind)
        if follow and path.suffix == ".gz":
            raise InputError(
                f"{path}: a compressed file does not grow; expected the export itself, or no --follow",
                code="shadow.compressed",
            )
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
                if error.code == NOTHING_YET:
                    return None
                raise InputError(str(error).replace(str(copy), str(self.path)), code=error.code) from None

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
        reader = TRACES.load(self.kind)
        settings = {"slot": self.slot, "seed": self.seed, "sized_utility": False, "worth": DRAWN}
        settings["gpus_per_machine"] = self.gpus
        takes = inspect.signature(reader).parameters
        found = reader(path, **{name: value for name, value in settings.items() if name in takes})
        jobs = replace(found, jobs=tuple(_sized(job, self.slot) for job in found.jobs), source=str(self.path))
        zero = datetime.fromisoformat(found.start).replace(tzinfo=UTC).timestamp() if found.start else 0.0
        return Reading(jobs, dict(found.real), zero)


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


ZERO = "shadow_zero"  # the tag with the trace's time in slot 0, for a shadow that is started again
BAD_JOB = (400, 413, 422)
KNOWN = 409  # the id was submitted before, with another body
WAITING = ("admitted", "lent", "pending")  # states of jobs that are not over
LONGEST_KEY = 200  # characters
VARYING = re.compile(r"'[^']*'|[-+]?\d[\d.,:e+ -]*")


@dataclass(frozen=True)
class Waits:
    """Seconds from submission to start, of the jobs that both started."""

    jobs: int
    ours: float  # mean
    real: float
    ours_median: float
    real_median: float


@dataclass(frozen=True)
class Share:
    """Of a resource, the part in use: as the service planned, and as the export says, where it says when jobs ran."""

    ours: float
    real: float | None


@dataclass(frozen=True)
class Report:
    """What was fed and what became of it. Utilisation is over the slots `first` to `now` - 1, which this shadow saw."""

    fed: int
    before: int  # of them by an earlier shadow
    late: int  # fed after their slot had passed: their rows came out of order
    held_back: int
    skipped: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    waits: Waits | None = None
    utilisation: dict[str, Share] = field(default_factory=dict)
    first: int = 0
    now: int = 0

    def as_dict(self) -> Body:
        return asdict(self)


@dataclass
class Fate:
    """What became of a job, by the log: its state, the slot it was submitted in, and the one it started in, or will."""

    name: str
    submitted: int
    state: str = ""
    start: int | None = None

    def decided(self, event: EventRecord) -> None:
        """A plan replaces what the one before had still to come; a job that runs has started."""
        self.state = str(event.data.get("state", self.state))
        cells = event.data.get("cells")
        if cells is not None and (self.start is None or self.start >= event.slot):
            self.start = min((int(cell[0]) for cell in cells), default=None)


class Shadow:
    """Feeds readings of a trace to a service. `tell(fed, known)` is called after every job."""

    def __init__(self, client: Client, *, tell: Callable[[int, int], None] | None = None) -> None:
        self.client, self.tell = client, tell
        self.cluster = _checked(client.cluster())
        self.first = self.now = self.cluster.now
        self.zero: float | None = None
        self.fed: dict[str, Job] = {}
        self.rejected: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.late = self.held_back = 0
        self.real: dict[str, Ran] = {}
        self.fates: dict[str, Fate] = {}  # by the service's id
        self._turned_away: set[str] = set()
        self._sums: Counter[str] = Counter()  # of the shares used, over the slots seen
        self._seq = 0
        self._listen()
        self._before = {fate.name for fate in self.fates.values()}
        if self._before and self.zero is None:
            raise InputError(
                "the service has jobs that no shadow submitted; start one with a store of its own for it",
                code="shadow.jobs",
            )

    def feed(self, reading: Reading, *, lag: int = 0) -> int:
        """Submit what was not yet, in order of arrival; those of the newest `lag` slots are held back. How many."""
        self.real |= reading.real
        self.skipped = Counter(_kind(row.reason) for row in reading.jobs.skipped)
        shift = self._shift(reading)
        arrivals = [(job.arrival + shift, job) for job in reading.jobs]
        newest = max(slot for slot, _ in arrivals) - lag
        new = [(slot, job) for slot, job in arrivals if job.id not in self.fed and job.id not in self._turned_away]
        self.held_back = sum(slot > newest for slot, _ in new) if lag else 0
        count = 0
        for slot, job in new:
            if lag and slot > newest:
                continue
            if job.id in self._before:
                self.fed[job.id] = job
            else:
                self._submit(slot, job)
                count += 1
            if self.tell is not None:
                self.tell(len(self.fed) + len(self._turned_away), len(reading.jobs))
        return count

    def _submit(self, slot: int, job: Job) -> None:
        late = slot < self.now
        self.move(slot)
        values = plain(job)
        values["tags"] = {**values.get("tags", {}), ZERO: repr(self.zero)}
        try:
            self.client.submit(values, key=_key(job.id))
        except ServiceError as error:
            if error.status in BAD_JOB:
                self._turned_away.add(job.id)
                self.rejected[_kind(error.message)] += 1
                return
            if error.status != KNOWN:
                raise
            self._before.add(job.id)
        self.late += late
        self.fed[job.id] = job

    def move(self, slot: int) -> None:
        """Move the clock on to this slot; slot by slot while there are jobs, for only then something is in use."""
        while self.now < slot:
            status = self.client.status()
            busy = any(status.get("jobs", {}).get(state) for state in WAITING)
            self.now = self.client.advance(to=self.now + 1 if busy else slot)
            for resource, share in status.get("utilisation", {}).items():
                self._sums[resource] += share

    def finish(self) -> None:
        """Move the clock until every job is over, or as far as anything can be planned."""
        for _ in range(self.cluster.horizon):
            if not any(self.client.status().get("jobs", {}).get(state) for state in WAITING):
                return
            self.move(self.now + 1)

    def follow(
        self,
        traced: Traced,
        *,
        lag: int,
        poll: float,
        every: float,
        report: Callable[[Report], None],
        complain: Callable[[str], None],
    ) -> NoReturn:
        """Feed what is new until interrupted. A service that is away is waited for.

        Parameters
        ----------
        traced
            The file that grows.
        lag
            Slots to stay behind the newest row, for rows that come late.
        poll
            Seconds between two looks at the file.
        every
            Seconds between two reports, made when something was fed.
        report, complain
            Called with a report, and with why the service is away.
        """
        told, news = time.monotonic(), 0
        reading, away = None, False
        while True:
            reading = traced.read() or reading
            try:
                if reading is not None:
                    news += self.feed(reading, lag=lag)
                if news and time.monotonic() - told >= every:
                    report(self.report())
                    told, news = time.monotonic(), 0
                reading, away = None, False
            except ServiceError as error:  # fed again, nothing is doubled: every job has its key
                if error.status not in AWAY:
                    raise
                if not away:
                    complain(f"{error.message} (trying on)")
                away = True
            time.sleep(poll)

    def report(self) -> Report:
        """What became of the jobs fed so far."""
        self._listen()
        fates = [fate for fate in self.fates.values() if fate.name in self.fed]
        return Report(
            fed=len(self.fed),
            before=len(self._before & self.fed.keys()),
            late=self.late,
            held_back=self.held_back,
            skipped=dict(self.skipped.most_common()),
            rejected=dict(self.rejected.most_common()),
            states=dict(Counter(fate.state for fate in fates)),
            waits=_waits(fates, self.real, self.cluster.slot_seconds),
            utilisation=self._utilisation(),
            first=self.first,
            now=self.now,
        )

    def _listen(self) -> None:
        """What the log says since it was last read."""
        for event in self.client.log(self._seq):
            self._seq = event.seq
            fate = self.fates.get(event.job)
            if event.kind == "submitted":
                self.fates[event.job] = Fate(str(event.data.get("name", "")), event.slot)
                tags = event.data.get("job", {}).get("tags") or {}
                if self.zero is None and ZERO in tags:
                    self.zero = float(tags[ZERO])
            elif fate is not None and event.kind == "decided":
                fate.decided(event)
            elif fate is not None and event.kind in ("finished", "cancelled"):
                fate.state = event.kind

    def _shift(self, reading: Reading) -> int:
        """Slots from the file's slot 0 back to the service's, which the first reading settles."""
        length = self.cluster.slot_seconds
        if self.zero is None:
            begin = min(job.arrival for job in reading.jobs)
            self.zero = reading.zero - max(0, self.now - begin) * length
            self.first = max(self.now, begin)  # nothing runs before
        return int((reading.zero - self.zero) // length)

    def _utilisation(self) -> dict[str, Share]:
        """Means over the slots seen. What the cluster did is counted against the capacity of the service's machines."""
        slots = self.now - self.first
        if not slots or self.zero is None:
            return {}
        length, zero = self.cluster.slot_seconds, self.zero
        begin, end = zero + self.first * length, zero + self.now * length
        held: Counter[str] = Counter()
        for id, real in self.real.items():
            seconds = min(real.end, end) - max(real.start, begin)
            if seconds > 0 and id in self.fed:
                job = self.fed[id]
                for resource, milli in job.worker.items():
                    held[resource] += milli / 1000.0 * (job.requested or 1) * seconds  # type: ignore[assignment]
        out = {}
        for resource in self.cluster.resources:
            there = sum(machine.capacity.get(resource, 0.0) for machine in self.cluster.machines) * (end - begin)
            real_share = held[resource] / there if self.real and there else None
            out[resource] = Share(self._sums[resource] / slots, real_share)
        return out


def _checked(cluster: ClusterStatus) -> ClusterStatus:
    if cluster.clock != "virtual":
        raise InputError(
            f"the service runs on a {cluster.clock} clock, which no shadow can move; start one with "
            "`equipoise serve --clock virtual` and a store of its own"
        )
    return cluster


def _waits(fates: Iterable[Fate], real: dict[str, Ran], length: float) -> Waits | None:
    both = [
        ((fate.start - fate.submitted) * length, real[fate.name].start - real[fate.name].submit)
        for fate in fates
        if fate.start is not None and fate.name in real
    ]
    if not both:
        return None
    ours, theirs = ([pair[k] for pair in both] for k in (0, 1))
    return Waits(len(both), fmean(ours), fmean(theirs), median(ours), median(theirs))


def _key(id: str) -> str:
    """The id, as far as a header can carry it."""
    fits = id.isascii() and id.isprintable() and len(id) <= LONGEST_KEY
    return id if fits else hashlib.sha256(id.encode()).hexdigest()


def _kind(reason: str) -> str:
    """A reason without its numbers and names, so that equal ones are counted together."""
    return VARYING.sub("…", reason)
