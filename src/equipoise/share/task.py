"""One learning task: when it arrives, what it must send, when it must be done, how it learns; and tasks as rows of a table.

Columns of a frame: arrival, deadline, data, target; where they are not as usual a, b, floor (of the learning curve),
delay, sigma. A recorded curve is two lists in the cells of `samples` and `errors`. An empty cell is a value left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Row
from equipoise.errors import InputError, refuse_words, unknown_name
from equipoise.frames import Frame, need_columns, rows_of
from equipoise.kernels import kernel

if TYPE_CHECKING:
    from equipoise.share.workload import Batch

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The true error after s samples: a s^-b + floor, or a recorded table, linear in ln s between its points."""

    a: float = 1.0
    b: float = 0.36
    floor: float = 0.0
    samples: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.samples or self.errors:
            _refuse_broken_table(self.samples, self.errors)
            return
        for name in ("a", "b", "floor"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0 or (value == 0 and name == "a"):
                wanted = "a positive number" if name == "a" else "zero or more"
                raise InputError(f"Curve: {name} is {value!r}; expected {wanted}")

    @classmethod
    def recorded(cls, samples: Sequence[float], errors: Sequence[float]) -> Curve:
        """A curve through measured points (samples seen so far, error there)."""
        return cls(samples=tuple(map(float, samples)), errors=tuple(map(float, errors)))

    def error(self, samples: float) -> float:
        """The true error after so many samples; fewer than one count as one."""
        s = max(float(samples), 1.0)
        if self.samples:
            return float(table_error(np.array(self.samples), np.array(self.errors), s))
        return float(self.a * s**-self.b + self.floor)

    def work(self, target: float) -> float:
        """Samples until the error first reaches `target`; infinite when it never does."""
        if self.samples:
            return float(table_work(np.array(self.samples), np.array(self.errors), float(target)))
        return float(power_work(self.a, self.b, self.floor, float(target)))


def _refuse_broken_table(samples: Sequence[float], errors: Sequence[float]) -> None:
    if len(samples) != len(errors) or len(samples) < 2:
        raise InputError(
            f"Curve.recorded: {len(samples)} sample counts and {len(errors)} errors; expected two or more of each, as many"
        )
    s, e = np.array(samples), np.array(errors)
    if not (np.isfinite(s).all() and np.isfinite(e).all()):
        raise InputError("Curve.recorded: every sample count and error must be a finite number")
    if s[0] < 1 or (np.diff(s) <= 0).any():
        raise InputError("Curve.recorded: sample counts must rise strictly, from 1 or more")
    if (e < 0).any():
        raise InputError(f"Curve.recorded: error {e[e < 0][0]:g} is negative")


@kernel
def power_work(a: float, b: float, floor: float, target: float) -> float:
    """W = (a / (target - floor))^(1/b), at least one sample."""
    room = target - floor
    if a <= room:
        return 1.0
    if room <= 0.0 or b <= 0.0:
        return math.inf
    exponent = math.log(a / room) / b
    return math.exp(exponent) if exponent < 700.0 else math.inf


@kernel
def table_error(samples: Floats, errors: Floats, s: float) -> float:
    """The recorded error at s: linear in ln s between points, level outside them."""
    last = len(samples) - 1
    if s <= samples[0]:
        return float(errors[0])
    if s >= samples[last]:
        return float(errors[last])
    k = np.searchsorted(samples, s)
    share = math.log(s / samples[k - 1]) / math.log(samples[k] / samples[k - 1])
    return float(errors[k - 1] + share * (errors[k] - errors[k - 1]))


@kernel
def table_work(samples: Floats, errors: Floats, target: float) -> float:
    """Samples at which a recorded curve first reaches the target."""
    if errors[0] <= target:
        return 1.0
    for k in range(1, len(samples)):
        if errors[k] <= target:
            share = (errors[k - 1] - target) / (errors[k - 1] - errors[k])
            return float(samples[k - 1] * (samples[k] / samples[k - 1]) ** share)
    return math.inf


PENDING, SENDING, DELAYED, COMPUTING, DONE, FAILED = range(6)
STATES = ("pending", "sending", "delayed", "computing", "done", "failed")


@dataclass(frozen=True)
class Task:
    """A task given by hand. Times are steps; data is samples to send; it succeeds when its error reaches `target`."""

    arrival: int
    deadline: int
    data: float
    target: float
    curve: Curve = field(default_factory=Curve)
    delay: int | None = None  # steps between the last byte sent and the first that may compute; None draws the site's
    sigma: float = 0.0  # standard deviation of the noise in what is observed

    def __post_init__(self) -> None:
        for name in ("arrival", "deadline", "data", "target", "sigma"):
            value = getattr(self, name)
            refuse_words("Task", **{name: value})
            if not math.isfinite(value) or value < 0:
                raise InputError(f"Task: {name} is {value!r}; expected a number of zero or more")
        for name in ("arrival", "deadline", "delay"):
            value = getattr(self, name)
            if value is not None and (not math.isfinite(value) or value < 0 or value != int(value)):
                raise InputError(f"Task: {name} is {value!r}; expected a whole number of steps, zero or more")
        if self.deadline <= self.arrival:
            raise InputError(f"Task: deadline {self.deadline} is not after arrival {self.arrival}")

    @property
    def work(self) -> float:
        """Samples it must compute; infinite when its curve never reaches the target."""
        return self.curve.work(self.target)


NEEDED = ("arrival", "deadline", "data", "target")
LAW, TABLE = ("a", "b", "floor"), ("samples", "errors")
FIELDS = {"arrival": int, "deadline": int, "data": float, "target": float}  # of a task in a file
OPTIONS = {"a": float, "b": float, "floor": float, "delay": int, "sigma": float}
KNOWN = (*NEEDED, *LAW, "delay", "sigma", *TABLE)
DRAWN = ("arrival", "deadline", "data", "target", "sigma", "delay", "a", "b", "floor")


def tasks_from(frame: Frame) -> list[Task]:
    """A task a row; a column nobody knows is refused, `seed` and `task` (of `drawn_rows`) are passed over."""
    rows = rows_of(frame, "Workload.from_frame")
    need_columns(frame, NEEDED, "Workload.from_frame")
    for name in map(str, frame.columns):
        if name not in (*KNOWN, "seed", "task"):
            raise unknown_name("column of tasks", name, KNOWN)
    if "seed" in frame.columns and len(set(frame["seed"])) > 1:
        raise InputError("Workload.from_frame: the frame has several seeds; keep the rows of one")
    return [_task(k, row) for k, row in enumerate(rows)]


def _task(k: int, row: Row) -> Task:
    try:
        given = {name: row[name] for name in (*NEEDED, "delay", "sigma") if name in row}
        whole = {name: _whole(given[name]) for name in ("arrival", "deadline", "delay") if name in given}
        law: dict[str, Any] = {name: float(row[name]) for name in LAW if name in row}
        recorded = all(name in row for name in TABLE)
        curve = Curve.recorded(row["samples"], row["errors"]) if recorded else Curve(**law)
        return Task(curve=curve, **(given | whole))
    except InputError as error:
        raise InputError(f"row {k}: {error}") from None
    except TypeError:
        missing = next((name for name in NEEDED if name not in row), "a value")
        raise InputError(f"row {k}: {missing} is missing; every task needs {', '.join(NEEDED)}") from None


def _whole(value: Any) -> Any:
    """A column with an empty cell holds floats: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def rows_from(tasks: Iterable[Task]) -> list[Row]:
    """What `tasks_from` reads back to equal tasks."""
    found = []
    for task in tasks:
        row: Row = {name: getattr(task, name) for name in (*NEEDED, "delay", "sigma")}
        names = TABLE if task.curve.samples else LAW
        found.append(row | {name: getattr(task.curve, name) for name in names})
    return found


def drawn_rows(batch: Batch) -> list[Row]:
    """Tasks as they were drawn, seed by seed; a recorded curve has no law, and its points stay in the recording."""
    columns = {name: getattr(batch, name) for name in DRAWN}
    return [
        {"seed": int(seed), "task": j} | {name: column[k, j].item() for name, column in columns.items()}
        for k, seed in enumerate(batch.seeds)
        for j in range(batch.shape[1])
    ]


def read_tasks(value: object) -> list[Task]:
    """Tasks from a file's list of mappings; mistakes name the task, counted from 0 as everywhere."""
    if not isinstance(value, list) or not value:
        raise InputError(f"expected a list of tasks, each with {', '.join(FIELDS)}")
    found = []
    for k, entry in enumerate(value):
        given = _task_numbers(k, entry)
        curve = {name: given.pop(name) for name in ("a", "b", "floor") if name in given}
        try:
            found.append(Task(curve=Curve(**curve), **given))  # type: ignore[arg-type]  # whole numbers are whole there
        except InputError as error:
            raise InputError(f"task {k}: {str(error).partition(': ')[2]}") from None
    return found


def _task_numbers(k: int, entry: object) -> dict[str, float]:
    if not isinstance(entry, dict):
        raise InputError(f"task {k}: expected `name: value` pairs, not {entry!r}")
    kinds: dict[str, type] = FIELDS | OPTIONS
    for name in entry:
        if name not in kinds:
            raise InputError(f"task {k}: {unknown_name('field', str(name), kinds)}")
    for name in FIELDS:
        if name not in entry:
            raise InputError(f"task {k}: {name} is missing")
    given: dict[str, float] = {}
    for name, number in entry.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"task {k}: {name} is {number!r}; expected a number")
        if kinds[name] is int and number != (number if not math.isfinite(number) else int(number)):
            raise InputError(f"task {k}: {name} is {number!r}; expected a whole number of steps")
        given[name] = int(number) if kinds[name] is int and math.isfinite(number) else float(number)
    return given
