"""A training job: its work, its shape, how fast it runs, and what finishing it is worth (spec, section 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from equipoise import units
from equipoise._short import short
from equipoise.errors import InputError, refuse_if, refuse_unknown, refuse_words, unknown_name
from equipoise.kernels import Floats, Int32s, kernel
from equipoise.units import Demand as Demand

if TYPE_CHECKING:
    from equipoise.place.durations import Durations

SIGMOID, DEADLINE, LINEAR, UNSTATED = 0, 1, 2, 3
JOB, SLOT, MACHINE, WORKERS, SERVERS = range(5)  # columns of a schedule
MOST_WORTH = 1e12  # a worth or a time beyond this is a slip


@kernel
def worth(kind: int, value: float, rate: float, when: float, slots: float) -> float:
    """u(d): th1 / (1 + exp(th2 (d - th3))), or a step at `when`, or a line that reaches 0 at `when`, or the same always."""
    if kind == SIGMOID:
        exponent = rate * (slots - when)
        return value / (1.0 + math.exp(exponent)) if exponent < 700.0 else 0.0
    if kind == DEADLINE:
        return value if slots <= when else 0.0
    if kind == UNSTATED:
        return value
    return value * max(0.0, 1.0 - slots / when)


@kernel
def worth_over(kind: int, value: float, rate: float, when: float, first: int, count: int) -> Floats:
    """u(first), u(first + 1), ..., `count` of them."""
    out = np.empty(count)
    for k in range(count):
        out[k] = worth(kind, value, rate, when, float(first + k))
    return out


class Utility:
    """One of the kinds below; u(0) is for finishing in the slot of arrival."""

    kind: ClassVar[int]
    name: ClassVar[str]
    positive: ClassVar[tuple[str, ...]] = ()  # fields that may not be zero

    def __post_init__(self) -> None:
        kind = type(self).__name__
        refuse_words(kind, **vars(self))
        for name, number in vars(self).items():
            if not 0.0 <= number <= MOST_WORTH or (name in self.positive and number == 0.0):
                wanted = "a positive number" if name in self.positive else "zero or more"
                why = f"{name} is {number!r}; expected {wanted}, at most {MOST_WORTH:g}"
                raise InputError(why, code="number.range", about=kind)

    @property
    def parameters(self) -> tuple[float, float, float]:
        """Value, rate and time, as `worth` takes them."""
        value, *rate, when = (float(number) for number in vars(self).values())
        return value, rate[0] if rate else 0.0, when

    def __call__(self, slots: float) -> float:
        """The worth of finishing `slots` after arrival."""
        return float(worth(self.kind, *self.parameters, float(slots)))

    def as_dict(self) -> dict[str, object]:
        """Plain values that `utility()` reads back."""
        return {"kind": self.name, **self.__dict__}


@dataclass(frozen=True)
class Sigmoid(Utility):
    """th1 / (1 + exp(th2 (d - th3))): near th1 before th3 slots, near 0 after. th2 = 0 is th1 / 2 for every d."""

    value: float
    steepness: float
    middle: float
    kind: ClassVar[int] = SIGMOID
    name: ClassVar[str] = "sigmoid"


@dataclass(frozen=True)
class Deadline(Utility):
    """`value` when finished within `slots` of arrival, else nothing."""

    value: float
    slots: float
    kind: ClassVar[int] = DEADLINE
    name: ClassVar[str] = "deadline"


@dataclass(frozen=True)
class Linear(Utility):
    """`value` at arrival, falling on a line to nothing at `slots`."""

    value: float
    slots: float
    kind: ClassVar[int] = LINEAR
    name: ClassVar[str] = "linear"
    positive: ClassVar[tuple[str, ...]] = ("slots",)


@dataclass(frozen=True)
class Unstated(Utility):
    """Nothing is stated: 1 whenever the job finishes. Policies that order by worth know no haste; `slowdown` counts it."""

    kind: ClassVar[int] = UNSTATED
    name: ClassVar[str] = "unstated"

    @property
    def parameters(self) -> tuple[float, float, float]:
        return 1.0, 0.0, 0.0


KINDS: dict[str, type[Utility]] = {"sigmoid": Sigmoid, "deadline": Deadline, "linear": Linear, "unstated": Unstated}


def utility(values: Mapping[str, Any]) -> Utility:
    """A utility from plain values, as {"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": 6}."""
    kind = values.get("kind")
    if kind is None:
        raise InputError(f"utility has no kind; expected one of {', '.join(KINDS)}", code="job.utility")
    if not isinstance(kind, str) or kind not in KINDS:
        raise unknown_name("utility", str(kind), KINDS)
    given = {name: value for name, value in values.items() if name != "kind"}
    wanted = [field.name for field in fields(KINDS[kind])]  # type: ignore[arg-type]
    refuse_unknown(f"field of utility {kind}", given, wanted)
    missing = [name for name in wanted if name not in given]
    why = f"utility {kind} has no {', no '.join(missing)}; expected {', '.join(wanted)}"
    refuse_if(missing, why, code="utility.form")
    return KINDS[kind](**given)


MOST, MOST_PRIORITY = 1e15, 1e6
COUNTS = {"arrival": 0, "batch": 1, "workers_per_server": 1, "requested": 1, "most": 1}  # and the least of each
AMOUNTS = dict.fromkeys(("work", "time_per_sample", "gradient", "restart", "actual"), MOST)  # and the most of each
AMOUNTS |= dict.fromkeys(("inside", "between", "across"), math.inf) | {"priority": MOST_PRIORITY}
MAY_BE_ZERO = ("gradient", "restart")


@dataclass(frozen=True)
class Job:
    """Times in slots, sizes in bytes, bandwidths in bytes per slot; demands take human quantities, hold milli-units.

    `server` None is an all-reduce job. `batch` is the global batch F: at most that many workers at once, or `most` if
    given. `requested` is the width a fixed-width policy gives it. `restart` is the part of a slot lost whenever
    width or placement changed. `actual` is the true work over the stated one: policies are told `work`, never this.
    `speeds` are the types of machines it takes, each with a factor on its rate, or with a table: samples per slot of 1, 2,
    ... workers on one machine. More workers than that are no faster; spread, they lose the part that the rate loses. None:
    every type, at factor 1.
    `user` is who submitted it ("": nobody said), `priority` how much more it counts than another job of the same kind.
    """

    id: str
    arrival: int
    work: float  # V, samples
    batch: int  # F
    time_per_sample: float  # tau, slots
    worker: Mapping[str, int]
    utility: Utility = Unstated()
    server: Mapping[str, int] | None = None
    workers_per_server: int = 1  # gamma
    gradient: float = 0.0  # g, bytes
    inside: float = math.inf  # b_i, bytes per slot
    between: float = math.inf  # b_e
    requested: int | None = None
    most: int | None = None
    restart: float = 0.0
    actual: float = 1.0
    user: str = ""
    priority: float = 1.0
    tags: Mapping[str, str] = field(default_factory=dict)
    speeds: Mapping[str, float | Sequence[float]] | None = None
    across: float | None = None  # bytes per slot between racks; None: as between machines

    def __repr__(self) -> str:
        workers = self.requested or "any number of"
        return f"<Job {self.id}: slot {self.arrival}, {self.work:g} samples, {workers} workers>"

    def __post_init__(self) -> None:
        try:
            self._check()
        except InputError as error:
            raise InputError(f"job {self.id!r}: {error}", code=error.code) from error

    def _check(self) -> None:
        for name in (*COUNTS, *AMOUNTS):
            value = getattr(self, name)
            if value is None and name in ("requested", "most", "across"):
                continue
            if not _is_number(value):
                raise InputError(f"{name} is {value!r}; expected a number", code="number.form")
            if name in COUNTS:
                if not COUNTS[name] <= value <= MOST or value != int(value):
                    why = f"{name} is {value!r}; expected a whole number of {COUNTS[name]} or more"
                    raise InputError(why, code="number.whole")
                object.__setattr__(self, name, int(value))
            elif not 0 <= value <= AMOUNTS[name] or (value == 0 and name not in MAY_BE_ZERO):
                wanted = "a number of zero or more" if name in MAY_BE_ZERO else "a positive number"
                most = f", at most {AMOUNTS[name]:g}" if math.isfinite(AMOUNTS[name]) else ""
                raise InputError(f"{name} is {value!r}; expected {wanted}{most}", code="number.range")
        if (self.across or 0.0) > self.between:
            raise InputError(f"across is {self.across!r}; expected at most between", code="number.range")
        if not isinstance(self.utility, Utility):
            why = f"utility is {self.utility!r}; expected Sigmoid, Deadline, Linear or Unstated"
            raise InputError(why, code="job.utility")
        worker = _demand(self.worker, "worker")
        server = None if self.server is None else _demand(self.server, "server")
        if not any(worker.values()):
            raise InputError("a worker asks for nothing; expected some of at least one resource", code="job.empty")
        speeds = None if self.speeds is None else _speeds(self.speeds)
        held = {"id": str(self.id), "user": str(self.user), "worker": worker, "server": server, "speeds": speeds}
        for name, value in held.items():  # not by __dict__: a job whose dict was asked for is slower and larger
            object.__setattr__(self, name, value)

    def but(self, **changes: Any) -> Job:
        """The same job with some fields changed. Demands already in milli-units are kept as they are."""
        return replace(self, **changes)

    @property
    def widest(self) -> int:
        """The most workers at once."""
        most = self.batch if self.most is None else min(self.batch, self.most)
        tables = [len(speed) for speed in (self.speeds or {}).values() if isinstance(speed, tuple)]
        return min(most, max(tables)) if tables and len(tables) == len(self.speeds or {}) else most

    def takes(self, type: str) -> bool:
        """Whether it may sit on machines of a type."""
        return self.speeds is None or type in self.speeds

    def servers(self, workers: int) -> int:
        """Parameter servers that so many workers need: ceil(w / gamma), none in an all-reduce job."""
        return 0 if self.server is None else -(-workers // self.workers_per_server)

    def sigma(self, bandwidth: float) -> float:
        """Slots per sample and worker of a parameter-server job: tau + (gamma / F)(2 g / b)."""
        return self.time_per_sample + self.workers_per_server / self.batch * (2.0 * self.gradient / bandwidth)

    def rate(self, workers: int, *, together: bool, type: str | None = None, across: bool = False) -> float:
        """Samples per slot with so many workers, all on one machine (`together`) or not, on machines of one type, which may
        be in several racks (`across`).

        Without a type it is that of the fastest type it takes.
        """
        if workers == 0:
            return 0.0
        law = self._law(workers, together, across)
        if self.speeds is None:
            return law
        if type is None:
            return max(self.rate(workers, together=together, type=name, across=across) for name in self.speeds)
        speed = self.speeds.get(type, 0.0)
        if not isinstance(speed, Sequence):
            return law * speed
        best = speed[min(workers, len(speed)) - 1]
        return best if together else best * (law / self._law(workers, True))

    def bandwidth(self, together: bool, across: bool) -> float:
        """Bytes per slot between its workers."""
        return self.inside if together else self.across if across and self.across is not None else self.between

    def _law(self, workers: int, together: bool, across: bool = False) -> float:
        """The rate at factor 1."""
        bandwidth = self.bandwidth(together, across)
        if self.server is not None:
            return workers / self.sigma(bandwidth)
        exchange = 2.0 * (workers - 1) / workers * self.gradient / bandwidth
        return self.batch / (self.time_per_sample * self.batch / workers + exchange)

    def rates(self, widest: int, *, together: bool) -> Floats:
        """`rate` for 0, 1, ..., widest workers."""
        return np.array([self.rate(w, together=together) for w in range(widest + 1)])


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _demand(values: Mapping[str, object], who: str) -> Demand:
    if isinstance(values, Demand):
        return values
    if not isinstance(values, Mapping):
        why = f'{who} is {values!r}; expected resources, as {{"gpu": 1, "cpu": 4, "memory": "16Gi"}}'
        raise InputError(why, code="job.resources")
    return Demand({str(r): units.resource(v, f"{who}: {r}") for r, v in values.items()})


def _speeds(values: Mapping[str, float | Sequence[float]]) -> dict[str, float | tuple[float, ...]]:
    """A positive factor, or a table that does not fall, for every type."""
    if not isinstance(values, Mapping) or not values:
        raise InputError(f'speeds is {values!r}; expected types, as {{"a100": 2.0, "v100": 1.0}}', code="job.speeds")
    out: dict[str, float | tuple[float, ...]] = {}
    for name, speed in values.items():
        table = list(speed) if isinstance(speed, Sequence) and not isinstance(speed, str) else [speed]
        if not table or not all(_is_number(number) and 0 < number <= MOST for number in table):
            wanted = "a positive number, or samples per slot of 1, 2, ... workers. A type that is not taken is left out"
            raise InputError(f"speeds: {name} is {short(str(speed))}; expected {wanted}", code="job.speed")
        for width, (less, more) in enumerate(pairwise(table), 2):
            if more < less:
                why = f"speeds: {name} falls from {less:g} to {more:g} at {width} workers; expected it not to fall"
                raise InputError(why, code="job.speeds_fall")
        out[str(name)] = float(speed) if table[0] is speed else tuple(float(number) for number in table)
    return out


@dataclass(frozen=True)
class Skipped:
    """A row of a trace that could not be a job: where, and why."""

    line: int
    reason: str


class Ran(NamedTuple):
    """What a cluster did with a job: unix seconds, or seconds of the trace's own time."""

    submit: float
    start: float
    end: float


@dataclass(frozen=True)
class Workload(Sequence[Job]):
    """Jobs in order of arrival, the length of a slot in seconds, and where they came from."""

    jobs: tuple[Job, ...]
    slot: float = 3600.0
    source: str = "given"
    note: str = ""  # such as "utilities synthesised, seed 7"
    skipped: tuple[Skipped, ...] = ()
    start: str = ""  # the calendar time of slot 0, where known
    durations: Durations | None = None  # learnt from history: what is planned for jobs over what they state
    real: Mapping[str, Ran] = field(default_factory=dict, compare=False)  # by id, of a trace that says when jobs ran

    def __repr__(self) -> str:
        return f"<Workload: {len(self.jobs)} jobs, slots of {self.slot:g} s, {short(self.source)}>"

    def __post_init__(self) -> None:
        jobs = tuple(sorted(self.jobs, key=lambda job: job.arrival))
        object.__setattr__(self, "jobs", jobs)
        why = f"Workload: slot is {self.slot!r}; expected a positive number of seconds"
        refuse_if(not self.slot > 0, why, code="slot.range")
        seen: set[str] = set()
        for job in jobs:
            if job.id in seen:
                raise InputError(f"two jobs have the id {job.id!r}; ids must differ", code="job.twice")
            seen.add(job.id)

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> Workload:
        """The same workload, or a list of jobs as one with slots of an hour."""
        if isinstance(jobs, Workload):
            return jobs
        given = tuple(jobs) if isinstance(jobs, Iterable) else ()
        if not isinstance(jobs, Iterable) or not all(isinstance(job, Job) for job in given):
            raise InputError(f"jobs are {type(jobs).__name__}; expected a list of Job, or a Workload")
        return cls(given)

    @classmethod
    def from_frame(cls, frame: Any, cluster: Any, slot: str | float | None = None) -> Workload:
        """Jobs from a pandas frame with the columns of a CSV of jobs (`worker.gpu`, `utility.kind`), for this cluster."""
        from equipoise.place.tables import jobs_from

        return jobs_from(frame, cluster, slot)

    def to_frame(self) -> Any:
        """A pandas frame with one row per job; `from_frame` reads equal jobs from it."""
        from equipoise.place.tables import jobs_frame

        return jobs_frame(self)

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> Workload: ...
    def __getitem__(self, index: int | slice) -> Job | Workload:
        return replace(self, jobs=self.jobs[index]) if isinstance(index, slice) else self.jobs[index]

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def held(self, schedule: Int32s, resources: Sequence[str], dtype: DTypeLike = float) -> NDArray[Any]:
        """Milli-units that each row (job, slot, machine, workers, servers) of a schedule holds, by resource."""
        worker = np.column_stack([np.array([job.worker.get(r, 0) for job in self], dtype) for r in resources])
        server = np.column_stack([np.array([(job.server or {}).get(r, 0) for job in self], dtype) for r in resources])
        own = schedule[:, JOB]
        return np.asarray(worker[own] * schedule[:, [WORKERS]] + server[own] * schedule[:, [SERVERS]])

    def between(self, first: int, last: int) -> Workload:
        """Jobs that arrive in slots first..last-1, with slot 0 moved to `first`, and its calendar time where known."""
        chosen = (job.but(arrival=job.arrival - first) for job in self.jobs if first <= job.arrival < last)
        try:
            start = (datetime.fromisoformat(self.start) + timedelta(seconds=first * self.slot)).isoformat()
        except (ValueError, OverflowError):  # no date
            start = ""
        return replace(self, jobs=tuple(chosen), start=start)
