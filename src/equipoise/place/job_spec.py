"""Jobs and machines as users write them: one schema for files, requests, logs and tables. A field of a job is a line here.

In YAML and JSON a file of jobs holds `jobs` (a list), and may hold `slot` (its length, an hour unless given), `defaults`
(fields of every job that does not state its own), `note` and `start`. In CSV a row is a job, `worker.gpu` a column, an
empty cell a field left out; a first line `# slot: 10m` gives the slot.

Times without a unit are seconds, bandwidths bytes per second; `arrival` and the times of a utility are slots. Times may
also be said in slots ("5e-05 slots"), bandwidths as "4.5e11 B/slot" or "unlimited": what is written so is read back
exactly. Every mistake is one line: file, line, value, way out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise import units
from equipoise.errors import InputError, refuse_if, refuse_unknown, said_of, unknown_name
from equipoise.place.calendar import RESERVATION, Window
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Demand, Job, Unstated, Utility, Workload, utility

Scalar = str | int | float
Values = dict[str, Any]  # a Scalar, a dict of them, or None: left out
HOUR = "1h"
UNLIMITED = "unlimited"
LARGEST = 1e300
LONGEST_NAME, MOST_TAGS, MOST_WORKERS = 200, 32, 1_000_000
MOST_TABLE = 1024  # widths of a table of rates
KINDS = ("type", "rack")  # fields of machines that jobs may mind
DEFAULT_VALUE = 1.0  # of a job that says nothing of what it is worth
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
WHOLE = re.compile(r"^\s*[+-]?\d{1,18}\s*$", re.ASCII)
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
DECIMAL = re.compile(rf"^\s*{NUMBER}\s*$", re.ASCII)
EACH_SLOT = re.compile(rf"^({NUMBER})/slot$", re.ASCII)
SLOTS = re.compile(rf"^\s*({NUMBER})\s*slots?(?:/sample)?\s*$", re.ASCII)
PER_SLOT = re.compile(rf"^\s*({NUMBER})\s*B/slot\s*$", re.ASCII)
DATE = re.compile(r"^\s*\d{4}-\d\d-\d\d")
RESOURCE = re.compile(r"^[\w./-]+$")
DEMAND = "{gpu: 1, cpu: 4, memory: 16Gi}"
EXAMPLES = {"worker": DEMAND, "server": DEMAND, "capacity": DEMAND, "tags": "{team: vision}"}
EXAMPLES["speeds"] = '{a100: 2.5, v100: 1}, or {a100: "90 170 240"}, samples per second of 1, 2, ... workers'
EXAMPLES["utility"] = "{kind: deadline, value: 10, slots: 24}"

# One value: text or a number to what a Job holds, with times in slots.


def _number(value: Scalar, what: str, slot: float = 0.0) -> int | float:
    if isinstance(value, str):
        if WHOLE.match(value):
            return int(value)
        if DECIMAL.match(value) and math.isfinite(float(value)):
            return float(value)
    elif abs(value) <= LARGEST:  # not infinite, not a number, nor an integer that no float holds
        return value
    raise InputError(f"{what} is {str(value)[:40]!r}; expected a number")


def _slots(value: Scalar, what: str, slot: float) -> float:
    """A length of time in slots; without a unit it is seconds."""
    said = SLOTS.match(value) if isinstance(value, str) else None
    return _number(said.group(1), what, slot) if said else units.seconds(value, what) / slot


def _wait(value: Scalar, what: str, slot: float) -> float:
    """A length of time in slots; without a unit it is slots."""
    bare = not isinstance(value, str) or DECIMAL.match(value)
    return _number(value, what, slot) if bare else _slots(value, what, slot)


def _arrival(value: Scalar, what: str, slot: float) -> int | float:
    """A slot number, or a time, which falls in the slot that holds it."""
    if not isinstance(value, str) or DECIMAL.match(value):
        return _number(value, what, slot)
    if said := SLOTS.match(value):
        return _number(said.group(1), what, slot)
    return Fraction(repr(units.seconds(value, what))) // Fraction(repr(slot))


def _rate(value: Scalar, what: str, slot: float) -> float:
    """Bytes per slot."""
    if isinstance(value, str):
        if value.strip() == UNLIMITED:
            return math.inf
        if said := PER_SLOT.match(value):
            return _number(said.group(1), what, slot)
    return units.bandwidth(value, what) * slot


def _speed(value: Scalar | list[Scalar], what: str, slot: float) -> float | tuple[float, ...]:
    """A factor; or samples per slot, of several numbers or with "/slot" behind them, which without it are per second."""
    told = value if isinstance(value, list) else value.split() if isinstance(value, str) else [value]
    if not isinstance(value, list) and len(told) == 1 and not EACH_SLOT.match(str(told[0])):
        return _number(told[0], what)
    said = [(EACH_SLOT.match(str(one)), one) for one in told]
    return tuple(_number(each.group(1), what) if each else _number(one, what) * slot for each, one in said)


def _in_slots(value: float) -> str:
    return f"{float(value)!r} slots"


def _per_slot(value: float) -> str:
    return UNLIMITED if math.isinf(value) else f"{float(value)!r} B/slot"


@dataclass(frozen=True)
class Cell:
    """How the value of a field is read into a Job and written back; `omit` is what a Job has that does not state it."""

    read: Callable[[Scalar, str, float], int | float]
    write: Callable[[float], int | float | str] = float
    omit: float | None = None


# The schema.

Number = Annotated[float, Field(allow_inf_nan=False)]
Quantity = Annotated[str, Field(max_length=100)] | Number
Amounts = Annotated[dict[Annotated[str, Field(max_length=60)], Quantity], Field(max_length=64)]
Count = Annotated[int | None, Cell(_number, int)]
Amount = Annotated[Number | None, Cell(_number)]
Span = Annotated[Quantity | None, Cell(_slots, _in_slots, omit=0.0)]
Size = Annotated[Quantity | None, Cell(lambda value, what, slot: units.size(value, what))]
Rate = Annotated[Quantity | None, Cell(_rate, _per_slot)]
Table = Annotated[str, Field(max_length=50_000)] | Number | Annotated[list[Quantity], Field(max_length=MOST_TABLE)]
Speeds = Annotated[dict[Annotated[str, Field(max_length=60)], Table], Field(max_length=64)]


class Written(BaseModel):
    """What a user writes: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid")
    field_name: ClassVar[str] = "field"

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """From plain values: a request, or a mapping. Fields that are None are left out; a mistake is an InputError."""
        given = {name: value for name, value in values.items() if value is not None}
        refuse_unknown(cls.field_name, [str(name)[:60] for name in given], cls.model_fields)
        try:
            spec = cls.model_validate(given)
        except ValidationError as error:
            raise InputError(_first_mistake(error)) from None
        for name, value in given.items():
            spec.__dict__[name] = _exact(value, spec.__dict__[name])
        return spec


class JobSpec(Written):
    """A job: `workers` for `duration`, or the long form (`work` or `samples` and `epochs`, `batch`, `time_per_sample`)."""

    name: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    work: Amount = Field(None, description="samples to go through")
    samples: Amount = None
    epochs: Amount = None
    batch: Count = Field(None, description="global batch: at most so many workers")
    workers: int | None = Field(None, description="short form: so many workers at once, never more", examples=[4])
    duration: Quantity | None = Field(None, description="short form: for so long", examples=["2h"])
    time_per_sample: Span = Field(None, examples=["4ms"])
    gradient: Size = Field(None, examples=["440MB"])
    worker: Amounts = Field(description="what one worker needs", examples=[{"gpu": 1, "cpu": 4, "memory": "16Gi"}])
    server: Amounts | None = Field(None, description="what a parameter server needs; none: all-reduce")
    workers_per_server: Count = None
    inside: Rate = Field(None, description="bandwidth inside a machine", examples=["20Gbps"])
    between: Rate = None
    across: Rate = Field(None, description="bandwidth between racks")
    requested: Count = Field(None, description="workers it is lent when it has no promise")
    most: Count = None
    restart: Span = Field(None, description="time lost whenever width or machines change")
    utility: Annotated[dict[str, Quantity], Field(max_length=8)] | None = Field(
        None, examples=[{"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": 6}]
    )
    value: Number | None = Field(None, description="what finishing is worth, without a utility", examples=[10])
    deadline: Quantity | None = Field(None, description="nothing is worth after it", examples=["24h"])
    user: Annotated[str, Field(max_length=LONGEST_NAME)] | None = Field(None, description="who submits it")
    priority: Annotated[Number | None, Cell(_number, omit=1.0)] = Field(
        None, description="how much more it counts than another job", examples=[2]
    )
    tags: dict[str, str] | None = None
    speeds: Speeds | None = Field(
        None,
        description="types of machines it takes: a factor, or samples per second of 1, 2, ... workers on one machine",
    )

    def build(self, cluster: Cluster, *, id: str, slot: float, now: int, horizon: int | None = None) -> Job:
        """The job for a cluster.

        Parameters
        ----------
        cluster
            Where it runs: it has the resources, and the bandwidths of a job that states none.
        id
            Its name among the jobs of the run.
        slot
            Seconds of a slot.
        now
            The slot it arrives in.
        horizon
            Slots that are planned ahead: in the service a value without a deadline fades over twice as many.
        """
        who = self._who(id)
        with said_of(who):
            self._refuse_control()
            read = self._read(cluster, slot, horizon)
        try:
            return Job(id=id, arrival=now, **read)
        except InputError as error:
            with said_of(who):
                raise (error.__cause__ or error) from None

    def _read(self, cluster: Cluster, slot: float, horizon: int | None) -> dict[str, Any]:
        """What a Job takes, in its units."""
        values = {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}
        values |= self._short_form(slot)
        if (worth := self._worth(horizon)) is not None:
            values["utility"] = worth
        missing = [name for name in ("batch", "time_per_sample", "worker", "utility") if name not in values]
        if not {"work", "samples"} & values.keys():
            missing.append("work (or samples and epochs)")
        _refuse_missing(missing)
        read: dict[str, Any] = {k: _cell(k, v, slot) for k, v in values.items() if k in CELLS}
        read["work"] = _work(read)
        read.setdefault("inside", cluster.inside * slot)
        read.setdefault("between", cluster.between * slot)
        if cluster.across is not None:
            read.setdefault("across", min(read["between"], cluster.across * slot))
        for side in ("worker", "server"):
            if side in values:
                read[side] = _demand(values[side], side, cluster)
        if "speeds" in values:
            cluster.typed(values["speeds"], "speeds")
            read["speeds"] = {name: _speed(told, f"speeds: {name}", slot) for name, told in values["speeds"].items()}
        read["utility"] = _utility(values["utility"], slot)
        return read | {name: values[name] for name in ("user", "tags") if name in values}

    def _who(self, id: str) -> str:
        """Whom a mistake is of: what the user calls it."""
        return f"job {self.name!r}" if self.name else ""

    def _refuse_control(self) -> None:
        """A name and tags are shown in terminals and logs: without control characters, and not too many."""
        tags = self.tags or {}
        words = [("name", self.name), ("user", self.user), *(("a tag", word) for word in (*tags, *tags.values()))]
        for what, said in words:
            if said is not None and CONTROL.search(said):
                raise InputError(f"{what} is {said[:40]!r}; expected text without control characters")
        if len(tags) > MOST_TAGS:
            raise InputError(f"{len(tags)} tags; expected at most {MOST_TAGS}")

    def _short_form(self, slot: float) -> Values:
        """`workers` for `duration` as work: a sample is one worker for one slot; never wider than asked."""
        given = [name for name in ("workers", "duration") if getattr(self, name) is not None]
        if not given:
            return {}
        long = ("work", "samples", "epochs", "batch", "time_per_sample", "gradient", "requested", "most")
        for name in long:
            clash = getattr(self, name) is not None
            refuse_if(clash, f"{given[0]} and {name} are both given; expected workers and duration, or the long form")
        if self.duration is None:
            raise InputError('workers without duration; expected both, as "workers": 4, "duration": "2h"')
        workers = 1 if self.workers is None else self.workers
        if not 1 <= workers <= MOST_WORKERS:
            raise InputError(f"workers is {workers!r}; expected a whole number from 1 to {MOST_WORKERS:,}")
        seconds = units.seconds(self.duration, "duration")
        if seconds == 0:
            raise InputError(f'duration is {self.duration!r}; expected a time such as "2h"')
        return {"work": workers * seconds / slot, "batch": workers, "time_per_sample": "1 slots", "requested": workers}

    def _worth(self, horizon: int | None) -> Values | None:
        """`utility` as given; else a value that is lost at the deadline, or fades over twice the horizon; else unstated."""
        if self.utility is not None:
            for name in ("value", "deadline"):
                refuse_if(getattr(self, name) is not None, f"utility and {name} are both given; keep one")
            return None
        value = DEFAULT_VALUE if self.value is None else self.value
        if self.deadline is not None:
            units.seconds(self.deadline, "deadline")
            bare = not isinstance(self.deadline, str) or not self.deadline.strip()[-1:].isalpha()
            return {"kind": "deadline", "value": value, "slots": f"{self.deadline}s" if bare else self.deadline}
        if horizon is None:
            return {"kind": Unstated.name} if self.value is None else None
        return {"kind": "linear", "value": value, "slots": 2 * horizon}


class JobEntry(JobSpec):
    """A job in a file, a table or a log: with its id, the slot it arrives in, and its true work over the stated."""

    id: str
    arrival: Annotated[Quantity, Cell(_arrival, int)]
    actual: Annotated[Number | None, Cell(_number, omit=1.0)] = None

    def _who(self, id: str) -> str:
        return f"job {id!r}"

    def _refuse_control(self) -> None:
        """What somebody's own files say is taken as it is."""


class MachineSpec(Written):
    """Equal machines."""

    field_name: ClassVar[str] = "field of a machine"
    name: str = "machine"
    capacity: Amounts = Field(examples=[{"gpu": 8, "cpu": 64, "memory": "512Gi"}])
    count: int = 1
    type: Annotated[str, Field(max_length=60)] = Field("", description="what jobs state their speeds for")
    rack: Annotated[str, Field(max_length=60)] = ""

    def build(self) -> Machine:
        """The machines of a cluster."""
        with said_of(f"machine {self.name!r}"):
            capacity = _demand(self.capacity, "capacity")
        return Machine(capacity, self.count, self.name, self.type, self.rack)


class WindowSpec(Written):
    """A window of the calendar. Times are slots, lengths after slot 0 ("36h"), or dates ("2026-11-20 08:00")."""

    field_name: ClassVar[str] = "field of a window"
    machine: str = ""
    first: Quantity
    last: Quantity | None = None
    kind: str = RESERVATION
    notice: Quantity = 0
    amount: Amounts | None = None

    def build(self, jobs: Workload, end: int | None, moved: int) -> Window | None:
        """The window in the slots of the jobs, of which slot 0 is slot `moved` of the file; None: it is over by then."""
        if self.last is None and end is None:
            raise InputError("no last; say the first slot after it")
        first = _moment(self.first, "first", jobs, moved, math.floor)
        last = int(end or 0) if self.last is None else _moment(self.last, "last", jobs, moved, math.ceil)
        if first < last <= 0:
            return None
        amount = None if self.amount is None else _demand(self.amount, "amount")
        notice = math.ceil(_wait(self.notice, "notice", jobs.slot))
        return Window(self.machine, max(first, 0) if moved else first, last, amount, self.kind, notice)

    @staticmethod
    def plain(window: Window) -> Values:
        """What is read back to an equal one."""
        plain: Values = {name: getattr(window, name) for name in WINDOW_FIELDS}
        return plain if window.amount is None else plain | {"amount": _plain(window.amount)}


WINDOW_FIELDS = tuple(name for name in WindowSpec.model_fields if name != "amount")
CELLS = {
    name: cell
    for name, field in JobEntry.model_fields.items()
    for cell in field.metadata
    if isinstance(cell, Cell) and name != "arrival"
}
UTILITY_CELLS = {"value": _number, "steepness": _number, "middle": _wait, "slots": _wait}
NUMBERS = tuple(name for name, cell in CELLS.items() if cell.read is _number)  # fields that files may write as text
FIELDS = tuple(JobEntry.model_fields)
GROUPS = tuple(name for name in FIELDS if name in EXAMPLES)  # fields with fields of their own: worker.gpu


def _refuse_missing(names: list[str]) -> None:
    if names:
        said = f"no {', no '.join(names)}"
        raise InputError(f"{said}; state it in the job, or for all jobs under defaults", code="job.missing")


def _first_mistake(error: ValidationError) -> str:
    """The first of pydantic's mistakes in our words."""
    first = error.errors(include_url=False, include_context=False)[0]
    name, value = str(first["loc"][0]), first["input"]
    within = first["loc"][1:]
    if first["type"] == "missing":
        return f"no {name}"
    if first["type"] == "dict_type":
        return f"{name} is {value!r}; expected a mapping, as {EXAMPLES[name]}"
    if first["type"] == "too_long":
        return f"{name} has too many entries; expected {EXAMPLES.get(name, 'fewer')}"
    where = f"{name}: {within[0]}" if name in EXAMPLES and within else name
    if isinstance(value, str) and first["type"] == "string_too_long":
        return f"{where} is {value[:20]!r}... of {len(value)} characters; expected a short value"
    if not isinstance(value, Scalar) or isinstance(value, bool):
        return f"{where} is {value!r}; expected one value"
    whole = first["type"] in ("int_from_float", "int_parsing")
    return f"{where} is {str(value)[:40] if isinstance(value, str) else value!r}; expected a {'whole ' * whole}number"


def _exact(given: object, read: object) -> object:
    """What was read, with whole numbers as they were given: a float does not hold each of them."""
    if isinstance(given, dict) and isinstance(read, dict):
        return {name: _exact(given[name], value) for name, value in read.items()}
    return given if isinstance(given, int) and not isinstance(given, bool) and isinstance(read, float) else read


def _work(read: dict[str, Any]) -> float:
    """Samples to go through: `work`, or samples times epochs."""
    samples, epochs, work = read.pop("samples", None), read.pop("epochs", None), read.pop("work", None)
    if work is not None:
        if samples is not None or epochs is not None:
            raise InputError("work and samples or epochs are both given; keep one: work = samples x epochs")
        return float(work)
    if epochs is None:
        raise InputError("samples without epochs; give both, or work = samples x epochs")
    for name, number in (("samples", samples), ("epochs", epochs)):
        if not number > 0:
            raise InputError(f"{name} is {number!r}; expected a positive number")
    return float(samples) * float(epochs)


def _utility(given: Mapping[str, Scalar], slot: float) -> Utility:
    cells = {name: cell for name, cell in UTILITY_CELLS.items() if name in given}
    return utility({**given, **{name: cell(given[name], f"utility.{name}", slot) for name, cell in cells.items()}})


def _demand(given: Mapping[str, Scalar], side: str, cluster: Cluster | None = None) -> Demand:
    """Milli-units by resource; a resource the cluster lacks may only be asked for as 0."""
    out = Demand()
    for name, value in given.items():
        if not RESOURCE.match(name):
            raise InputError(f"{side}: the resource {name!r} is no name; expected letters, digits, . / - or _")
        out[name] = _milli(value, f"{side}: {name}")
        if cluster is not None and out[name] and name not in cluster.resources:
            raise unknown_name(f"resource in {side}:", name, cluster.resources)
    return out


@lru_cache(maxsize=1 << 16)  # files repeat themselves
def _cell(name: str, value: Scalar, slot: float) -> int | float:
    return CELLS[name].read(value, name, slot)


_milli = lru_cache(maxsize=1 << 16)(units.resource)


# Entries of files, tables and logs.


def job_from(values: Mapping[str, object], cluster: Cluster, slot: float) -> Job:
    """A job of plain values, numbers may be text, in slots of so many seconds."""
    name = values.get("id")
    if not isinstance(name, Scalar) or not str(name).strip():
        raise InputError("a job has no id; give every job an id of its own")
    with said_of(f"job {str(name)!r}"):
        refuse_unknown("field", values, FIELDS)
        _refuse_missing([field for field in ("arrival", "worker") if field not in values])
        told = dict(values)
        for field in NUMBERS:
            if isinstance(text := told.get(field), str):
                told[field] = _number(text, field)
        if isinstance(user := told.get("user"), Scalar):
            told["user"] = str(user)
        for group in GROUPS:
            if isinstance(inner := told.get(group), dict):
                kept = {word: said for word, said in inner.items() if said is not None}
                told[group] = {word: str(said) for word, said in kept.items()} if group == "tags" else kept
        entry = JobEntry.of(told | {"id": str(name)})
        arrival = _arrival(entry.arrival, "arrival", slot)
    return entry.build(cluster, id=str(name), slot=slot, now=arrival)  # type: ignore[arg-type]  # Job says if not whole


def machine_from(values: Mapping[str, object]) -> Machine:
    """Equal machines of plain values; numbers may be text."""
    refuse_unknown(MachineSpec.field_name, values, MachineSpec.model_fields)
    name, count = str(values.get("name") or "machine"), values.get("count")
    with said_of(f"machine {name!r}"):
        why = f"capacity is missing; expected a mapping, as {DEMAND}"
        refuse_if(values.get("capacity") is None, why, code="machine.capacity")
        told = {"count": _number(count, "count")} if isinstance(count, str) else {}
        spec = MachineSpec.of({**values, **told, "name": name, **{k: str(values.get(k) or "") for k in KINDS}})
    return spec.build()


def _moment(value: Scalar, what: str, jobs: Workload, moved: int, whole: Callable[[Fraction], int]) -> int:
    """A slot of the file, or a time, as a slot of the jobs."""
    start, slot = jobs.start, Fraction(repr(jobs.slot))
    if isinstance(value, str) and DATE.match(value):
        try:
            since = (datetime.fromisoformat(value) - datetime.fromisoformat(start)).total_seconds()
        except (ValueError, TypeError):
            why = f"slot 0 is {start}" if start else "the jobs' file states no start"
            raise InputError(f"{what} is {value!r}, a date, and {why}; say a slot, or a length such as 36h") from None
        return whole(Fraction(repr(since)) / slot)
    if not isinstance(value, str) or DECIMAL.match(value):
        found = _number(value, what)
        if found != int(found):
            raise InputError(f"{what} is {value!r}; expected a slot, a whole number")
        return int(found) - moved
    return whole(Fraction(repr(units.seconds(value, what))) / slot) - moved


def plain_job(job: Job) -> Values:
    """The fields of a job that `job_from` reads back to an equal one, whatever the cluster."""
    if not job.id.strip():
        raise InputError(f"a job has the id {job.id!r}, which cannot be written; expected a visible name")
    plain: Values = {"id": job.id, "arrival": job.arrival}
    for name in FIELDS:
        value = getattr(job, name, None)
        if name in WRITERS and value is not None and value != OMITTED.get(name):
            plain[name] = WRITERS[name](value)
    return plain


def plain_machine(machine: Machine) -> Values:
    """What `machine_from` reads back to an equal one."""
    kinds = {k: value for k in KINDS if (value := getattr(machine, k))}
    return {"name": machine.name, "count": machine.count, **kinds, "capacity": _plain(machine.capacity)}


def _plain(held: Mapping[str, int]) -> dict[str, int | str]:
    return {name: units.exact(milli) for name, milli in held.items()}


def _plain_speed(speed: float | Sequence[float]) -> float | str:
    return speed if isinstance(speed, float) else " ".join(f"{rate!r}/slot" for rate in speed)


WRITERS: dict[str, Callable[[Any], object]] = {name: cell.write for name, cell in CELLS.items()} | {
    "worker": _plain,
    "server": _plain,
    "utility": lambda one: {"kind": one.name} | {part: float(value) for part, value in vars(one).items()},
    "user": str,
    "tags": lambda tags: {str(tag): str(value) for tag, value in tags.items()},
    "speeds": lambda speeds: {on: _plain_speed(speed) for on, speed in speeds.items()},
}
OMITTED = {name: cell.omit for name, cell in CELLS.items()} | {"utility": Unstated(), "user": "", "tags": {}}
