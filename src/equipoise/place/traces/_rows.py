"""What all importers share: reading a file row by row, and turning rows into jobs (spec, section 5)."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TypeVar, cast

import numpy as np

from equipoise import units
from equipoise.errors import InputError, refuse_if, unknown_name, whole_number
from equipoise.kernels import Floats
from equipoise.place.files import reading
from equipoise.place.job import Deadline, Demand, Job, Ran, Sigmoid, Skipped, Unstated, Utility, Workload
from equipoise.place.spec import DRAWN, OWN, TRACES, WORTHS

C = TypeVar("C")
M = TypeVar("M")
GPU_WORKER = Demand(gpu=1000, cpu=4000, memory=16 * 2**30 * 1000)  # 1 gpu, 4 cpu, 16 GiB (spec, section 5)
CPUS_PER_GPU = 4.0  # how many CPUs count as a GPU where a job has none
WIDEST = 1_000_000  # workers: more than this in one row is a slip
LONGEST = 20 * 365 * 86400.0  # seconds
YEARS = (1990, 2200)
EPOCH = datetime(1970, 1, 1)
PROFILED = "; batch, gradient and bandwidths are of measured models, drawn by that seed"


class Unmappable(Exception):
    """This row cannot be a job; the message is the reason that is counted."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A job as a trace tells it: seconds, workers it asked for, what each needs."""

    line: int
    id: str
    submit: float  # seconds since 1970, or since the trace's own zero
    duration: float  # seconds
    width: int
    worker: Demand = field(default_factory=lambda: GPU_WORKER)
    together: bool | None = None  # at that width its workers were on one machine; None: if it has GPUs enough
    communicates: bool = True  # has gradients to exchange; the profile is drawn
    actual: float = 1.0  # what it really took over `duration`, where that is only what it stated
    user: str = ""
    due: float | None = None  # seconds after submission by which it is worth 1; None: the trace states no worth
    rigid: bool = False  # never wider than it asked for, whatever the elasticity
    tags: Mapping[str, str] = field(default_factory=dict)
    type: str = ""  # of the machines it takes; "": any
    real: Ran | None = None  # when it really ran, where the trace says so

    @property
    def gpu_hours(self) -> float:
        """GPU-hours, four CPUs counted as one GPU where there is none."""
        gpus = self.worker.get("gpu", 0) / 1000.0 or self.worker.get("cpu", 0) / 1000.0 / CPUS_PER_GPU
        return max(gpus, 0.001) * self.width * self.duration / 3600.0


@dataclass(frozen=True)
class Mapped:
    """How rows become jobs: the slot's length, the seed, how much wider than asked a job may run, GPUs of a machine."""

    slot: float
    seed: int
    elasticity: float
    sized: bool
    gpus: int
    drawn: bool  # utilities are; else nothing is stated

    @classmethod
    def of(
        cls,
        slot: object,
        seed: int,
        elasticity: float,
        sized: bool,
        gpus_per_machine: int = WIDEST,
        worth: str = WORTHS[0],
    ) -> Mapped:
        """Checked settings."""
        length = units.seconds(slot, "slot")
        why = f'slot is {slot!r}; expected a positive time such as "10m"'
        refuse_if(not length > 0, why, code="slot.range")
        seed = whole_number(seed, "seed", 0)
        good = isinstance(elasticity, int | float) and not isinstance(elasticity, bool) and 1 <= elasticity <= 1000
        why = f"elasticity is {elasticity!r}; expected a number from 1 to 1000 (times the GPUs asked for)"
        refuse_if(not good, why, code="elasticity.range")
        gpus = whole_number(gpus_per_machine, "gpus_per_machine")
        if worth not in WORTHS:
            raise unknown_name("worth", str(worth), WORTHS)
        return cls(length, seed, float(elasticity), bool(sized), gpus, worth == DRAWN)

    def read(
        self,
        path: str | Path,
        entries: Iterable[tuple[int, C | None]],
        row: Callable[[int, C], TraceRow],
        calendar: bool,
    ) -> Workload:
        """The workload of a file whose entries, each a line number and its cells, are made rows by `row`."""
        return self.workload(*collected(entries, row), str(path), calendar=calendar)

    def workload(
        self, rows: Sequence[TraceRow], skipped: Sequence[Skipped], source: str, *, calendar: bool
    ) -> Workload:
        """Rows as jobs. Slot 0 starts at midnight of the first day, or without a calendar at the trace's own zero."""
        if not rows:
            why = f"; the first of {len(skipped)}: line {skipped[0].line}, {skipped[0].reason}" if skipped else ""
            raise InputError(f"{source}: no row could be made a job{why}", code="no_jobs")
        rows = _unique(rows)
        first = min(row.submit for row in rows)
        origin = first // 86400 * 86400 if calendar else 0.0
        model = UtilityModel(self.slot, median(row.gpu_hours for row in rows), self.sized)
        # One line of draws for each line of the file: a row more or less changes no other job.
        draws = np.random.default_rng([self.seed, 5]).random((max(row.line for row in rows) + 1, DRAWS + 1))
        jobs = [self._job(row, int((row.submit - origin) // self.slot), model, draws[row.line]) for row in rows]
        start = datetime.fromtimestamp(origin, UTC).replace(tzinfo=None).isoformat() if calendar else ""
        if all(row.due is not None for row in rows):
            worth = f"seed {self.seed}; utilities: 1 by the trace's deadline, 0 later"
        else:
            worth = model.describe(self.seed) if self.drawn else f"seed {self.seed}; the trace states no worth"
        real = {row.id: row.real for row in rows if row.real is not None}
        return Workload(tuple(jobs), self.slot, source, worth + PROFILED, tuple(skipped), start, real=real)

    def _job(self, row: TraceRow, arrival: int, model: UtilityModel, u: Floats) -> Job:
        """Its work is what it does at the width it asked for in the time it took: then it takes exactly that time."""
        most = row.width if row.rigid else int(self.elasticity * row.width)
        tags = dict(row.tags)
        if row.communicates:
            profile = PROFILES[int(u[DRAWS] * len(PROFILES))]
            tags["model"] = profile.model
            batch, tau = max(most, row.width * profile.local_batch), profile.per_sample / self.slot
            gradient = NOMINAL_GRADIENT
            inside, between = gradient / profile.inside * self.slot, gradient / profile.between * self.slot
            together = row.width <= self.gpus if row.together is None else row.together
            exchange = 2.0 * (row.width - 1) / row.width * gradient / (inside if together else between)
            rate = batch / (tau * batch / row.width + exchange)
        else:  # a sample is one worker for one slot
            batch, tau, gradient, inside, between, rate = most, 1.0, 0.0, math.inf, math.inf, float(row.width)
        return Job(
            id=row.id,
            arrival=arrival,
            work=rate * row.duration / self.slot,
            batch=batch,
            time_per_sample=tau,
            worker=row.worker,
            utility=self._utility(row, model, u),
            gradient=gradient,
            inside=inside,
            between=between,
            requested=row.width,
            most=most,
            actual=row.actual,
            user=row.user,
            tags=tags,
            speeds={row.type: 1.0} if row.type else None,
        )

    def _utility(self, row: TraceRow, model: UtilityModel, u: Floats) -> Utility:
        """1 by the trace's own deadline, of which slot 0 after arrival is the first that counts; else drawn, or unstated."""
        if row.due is not None:
            return Deadline(1.0, max(0, math.ceil(row.due / self.slot) - 1))
        return model(row.duration, row.gpu_hours, u[:DRAWS]) if self.drawn else Unstated()


def _unique(rows: Iterable[TraceRow]) -> list[TraceRow]:
    """Rows of which each has an id of its own: with its line where an earlier row has it."""
    found: dict[str, TraceRow] = {}
    for row in rows:
        own = replace(row, id=f"{row.id}#{row.line}") if row.id in found else row
        found[own.id] = own
    return list(found.values())


def columns(first_lines: Sequence[str]) -> set[str]:
    """The names in the header of a table, in small letters."""
    return {cell.strip().lower() for cell in first_lines[0].split(",")} if first_lines else set()


def header(needed: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """A `matches`: whether first lines are those of a table with these columns."""
    return lambda first_lines: {*needed} <= columns(first_lines)


def opened(path: str | Path, expected: str) -> Iterator[str]:
    """The lines of a text file, gzipped or not. One that cannot be read or holds nothing is one line of error."""
    where, empty = Path(path), True
    unpacked = gzip.open if where.suffix == ".gz" else open
    with reading(where, expected), unpacked(where, "rt", encoding="utf-8-sig", newline="") as file:
        for text in file:
            empty = False
            yield text
    if empty:
        raise InputError(f"{path}: is empty; expected {expected}", code="trace.empty")


def table(
    path: str | Path, needed: Sequence[str], expected: str, *, delimiter: str = ","
) -> Iterator[tuple[int, dict[str, str] | None]]:
    """(line, cells by column name) for each row of a file with a header; None where the cells are too few or too many.

    A row is a line: a quote nobody closes spoils its own row, not the rest of the file.
    """
    names: list[str] = []
    for line, text in enumerate(opened(path, expected), start=1):
        cells = _cells(text.rstrip("\r\n"), delimiter)
        if not names:
            names = [name.strip().lower() for name in cells]
            for name in needed:
                why = f"{path}: its first line has no column {name!r}; expected {expected}"
                refuse_if(name not in names, why, code="trace.column")
        elif cells != [""]:
            yield line, dict(zip(names, cells, strict=True)) if len(cells) == len(names) else None


def collected(entries: Iterable[tuple[int, C | None]], read: Callable[[int, C], M]) -> tuple[list[M], list[Skipped]]:
    """What `read` makes of the rows that it can, and the others with the reason. An entry is a line number and its cells."""
    found: list[M] = []
    skipped: list[Skipped] = []
    for line, cells in entries:
        try:
            if cells is None:
                raise Unmappable("wrong number of columns")
            found.append(read(line, cells))
        except Unmappable as reason:
            skipped.append(Skipped(line, str(reason)))
    return found, skipped


OWN_ENDINGS, OWN_COLUMNS = (".yaml", ".yml", ".json"), ("id", "arrival")  # of our own format


def format_of(path: Path) -> str:
    """The format of a file of jobs, by its ending and its first lines; "own" is ours."""
    bare = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    ending = bare.suffix.lower()
    if ending in OWN_ENDINGS:
        return OWN
    for choice in TRACES.choices():
        if ending and ending == choice.facts.get("ending"):
            return choice.name
    first = next(iter(opened(path, "jobs, or a trace")), "").strip()
    if {*OWN_COLUMNS} <= columns([first]) or (first[:1] == "#" and ending == ".csv"):
        return OWN
    try:
        return TRACES.detect(path)
    except InputError as error:
        if error.code != "registry.format":
            raise
        known = ", ".join((OWN, *TRACES.names("matches")))
        near = _nearly(columns([first.replace("|", ",")]))
        why = "is none that is known" if near is None else f"has no column {near[1]!r}, as format {near[0]} needs"
        code = error.code if near is None else "trace.column"
        raise InputError(f"{path}: its first line {why}; say --format {known}", code=code) from None


def _nearly(there: set[str]) -> tuple[str, str] | None:
    """The format of which just one column is not there, and that column; of several the one with most columns."""
    needed: dict[str, tuple[str, ...]] = {OWN: OWN_COLUMNS}
    needed |= {choice.name: cast("tuple[str, ...]", choice.facts.get("COLUMNS", ())) for choice in TRACES.choices()}
    for kind in sorted(needed, key=lambda kind: -len(needed[kind])):
        missing = [name for name in needed[kind] if name not in there]
        if len(missing) == 1 and len(needed[kind]) > 1:
            return kind, missing[0]
    return None


def every(path: str | Path, needed: Sequence[str], expected: str, read: Callable[[int, dict[str, str]], M]) -> list[M]:
    """What `read` makes of each row of a table; a row that cannot be read is an error."""
    found, skipped = collected(table(path, needed, expected), read)
    for row in skipped:
        raise InputError(f"{path}: line {row.line}: {row.reason}; expected {expected}", code="trace.row")
    if not found:
        raise InputError(f"{path}: has no row; expected {expected}", code="trace.empty")
    return found


def _cells(text: str, delimiter: str) -> list[str]:
    if delimiter != "," or '"' not in text:  # only commas come with quotes
        return text.split(delimiter)
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error:
        return []


def number(text: str, what: str, *, zero: bool = False) -> float:
    """A finite number above 0 (or from 0 on) or the reason why not."""
    try:
        value = float(text)
    except ValueError:
        said = text.strip()
        raise Unmappable(f"{what} is {said!r}; expected a number" if said else f"{what} is missing") from None
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise Unmappable(f"{what} is {text.strip()}; expected {'zero or more' if zero else 'more than zero'}")
    return value


def whole(text: str, what: str, *, zero: bool = False, most: int = WIDEST) -> int:
    """A count, at most `most`, or the reason why not."""
    value = number(text, what, zero=zero)
    if not value.is_integer() or value > most:
        raise Unmappable(f"{what} is {text.strip()}; expected a whole number of at most {most:,}")
    return int(value)


def lasting(text: str, what: str = "duration") -> float:
    """Seconds above 0, at most LONGEST, or the reason why not."""
    value = number(text, what)
    if value > LONGEST:
        raise Unmappable(f"{what} is {text.strip()}; more than twenty years is a slip")
    return value


def calendar(text: str, what: str) -> float:
    """Seconds since 1970 of "2017-10-09 06:13:03", or the reason why not; a time without a zone is taken as UTC."""
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Unmappable(f"{what} is {text.strip()!r}; expected a time such as 2017-10-09 06:13:03") from None
    if when.tzinfo is not None:
        when = when.astimezone(UTC).replace(tzinfo=None)
    if not YEARS[0] <= when.year < YEARS[1]:
        raise Unmappable(f"{what} is {text.strip()!r}; expected a year from {YEARS[0]} on")
    return (when - EPOCH).total_seconds()


NOMINAL_GRADIENT = 1e8  # bytes; only gradient / bandwidth enters the rate, and only that was measured


@dataclass(frozen=True)
class Profile:
    """Seconds: per sample on one GPU, and to move one gradient one way inside a node and between nodes."""

    model: str
    per_sample: float  # tau
    inside: float  # g / b_i
    between: float  # g / b_e
    local_batch: int  # samples per GPU and step


PROFILES: tuple[Profile, ...] = (
    Profile("bert", 0.075652, 0.058745, 0.52842, 12),
    Profile("cifar10", 0.00068516, 0.0049174, 0.039906, 1024),
    Profile("deepspeech2", 0.031738, 0.062183, 0.18148, 80),
    Profile("yolov3", 0.035629, 0.025135, 0.42666, 16),
)


FLAT, GENTLE = 0.10, 0.55  # the rest, 35%, is steep (spec, section 3)
GENTLE_RANGE = (0.01, 1.0)  # th2
STEEP_RANGE = (4.0, 6.0)
VALUE_RANGE = (1.0, 100.0)  # th1
MIDDLE_RANGE = (1.0, 15.0)  # th3
LARGEST = 30.0  # the most by which size multiplies a value
UNIT = 600.0  # seconds: the spec's slot, for a trace
DRAWS = 4  # uniform numbers a utility takes: value, class, steepness, middle


def between(bounds: tuple[float, float], u: float) -> float:
    """The point a share u of the way."""
    return bounds[0] + (bounds[1] - bounds[0]) * u


def steepness(which: float, u: float) -> float:
    """th2 of the spec's mix: none for 10%, gentle for 55%, steep for 35%."""
    if which < FLAT:
        return 0.0
    return between(GENTLE_RANGE if which < FLAT + GENTLE else STEEP_RANGE, u)


@dataclass(frozen=True)
class UtilityModel:
    """Sigmoids for jobs of a trace, with the spec's ranges read in units of ten minutes from the job's own duration on.

    th1 = U(1, 100), and when `sized` times sqrt(GPU-hours / the median job's), at most 30 times;
    th2 = 0, U(.01, 1) or U(4, 6) a unit (10, 55, 35%); th3 = duration + U(1, 15) units.
    A job that starts at once is worth nearly th1; the sqrt lets a long job be worth more, yet less per GPU-hour.
    """

    slot: float  # seconds
    median: float  # GPU-hours
    sized: bool = True

    def __post_init__(self) -> None:
        why = f"UtilityModel: slot is {self.slot!r}, median {self.median!r}; expected positive numbers"
        refuse_if(not (self.slot > 0 and self.median > 0), why, code="utility.range")

    def __call__(self, seconds: float, gpu_hours: float, draws: Floats) -> Sigmoid:
        """The utility of a job that runs so long, from DRAWS uniform numbers."""
        value, which, steep, middle = (float(u) for u in draws)
        size = min(LARGEST, (gpu_hours / self.median) ** 0.5) if self.sized else 1.0
        return Sigmoid(
            value=between(VALUE_RANGE, value) * size,
            steepness=steepness(which, steep) * self.slot / UNIT,
            middle=(seconds + UNIT * between(MIDDLE_RANGE, middle)) / self.slot,
        )

    def describe(self, seed: int) -> str:
        """One line for the workload's note."""
        size = " x sqrt(GPU-hours / median), at most 30 times" if self.sized else ", whatever the job's size"
        return f"utilities synthesised, seed {seed}: sigmoid, U(1, 100){size}; half worth 10-150 min past the duration"
