"""One learning task: when it arrives, what it must send, when it must be done, how it learns; and tasks as rows of a table.

Columns of a frame: arrival, deadline, data, target; where they are not as usual a, b, floor (of the learning curve),
delay, sigma, speed. A recorded curve is two lists in the cells of `samples` and `errors`. An empty cell is a value left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.document import Row
from equipoise.errors import InputError, refuse_if, refuse_negative, refuse_unknown, refuse_words, said_of
from equipoise.frames import Frame, need_columns, rows_of
from equipoise.kernels import Floats, Indices, Ints, kernel
from equipoise.share._arithmetic import normal

if TYPE_CHECKING:
    from equipoise.share.workload import Batch


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
            if fault := table_fault(np.array(self.samples), np.array(self.errors)):
                raise InputError(fault, code="curve.table", about="Curve.recorded")
            return
        refuse_negative("Curve", zero=False, a=self.a)
        refuse_negative("Curve", b=self.b, floor=self.floor)

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


def table_fault(samples: Floats, errors: Floats, *, positive: bool = False) -> str:
    """What is wrong with the points of a curve, or nothing; `positive` errors have logarithms."""
    if len(samples) != len(errors) or len(samples) < 2:
        return f"{len(samples)} sample counts and {len(errors)} errors; expected two or more of each, as many"
    if not (np.isfinite(samples).all() and np.isfinite(errors).all()):
        return "a sample count or error is not a finite number"
    if samples[0] < 1 or (np.diff(samples) <= 0).any():
        return "sample counts must rise strictly, from 1 or more"
    if errors.min() < 0 or (positive and errors.min() == 0):
        return f"error {errors.min():g} is {'not positive' if positive else 'negative'}"
    return ""


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
    low, k = 0, last
    while low < k:  # the first point that is not below s
        middle = (low + k) // 2
        if samples[middle] < s:
            low = middle + 1
        else:
            k = middle
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


@kernel
def least_work(
    keys: Indices, tests: Ints, laws: Floats, table: Ints, samples: Floats, errors: Floats, least: Floats
) -> None:
    """Lower `least` to the work at which one of a task's tests would accept its error, each with its own noise.

    `laws`: a, b, floor, target, sigma, and what a task can compute in a slot; the k-th test comes after k slots. `table` is
    the row of its recorded curve, or -1: a power law.
    """
    for i in range(len(least)):
        for k in range(1, tests[i] + 1):
            target = laws[3, i] - laws[4, i] * normal(keys[i], k + 1)
            if table[i] >= 0:
                work = table_work(samples[table[i]], errors[table[i]], target)
            else:
                work = power_work(laws[0, i], laws[1, i], laws[2, i], target)
            if work <= k * laws[5, i]:
                least[i] = min(least[i], work)


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
    speed: float | None = None  # samples per step that it can use at most; None: what the site gives to one task

    def __post_init__(self) -> None:
        refuse_negative("Task", **{name: getattr(self, name) for name in (*NEEDED, "sigma")})
        if self.speed is not None:
            refuse_negative("Task", zero=False, speed=self.speed)
        for name in STEPS:
            value = 0 if getattr(self, name) is None else getattr(self, name)
            refuse_words("Task", **{name: value})
            why = f"{name} is {value!r}; expected a whole number of steps, zero or more"
            whole = math.isfinite(value) and value >= 0 and value == int(value)
            refuse_if(not whole, why, about="Task", code="number.whole")
        why = f"deadline {self.deadline} is not after arrival {self.arrival}"
        refuse_if(self.deadline <= self.arrival, why, code="task.deadline", about="Task")

    @property
    def work(self) -> float:
        """Samples it must compute; infinite when its curve never reaches the target."""
        return self.curve.work(self.target)


NEEDED = ("arrival", "deadline", "data", "target")
STEPS = ("arrival", "deadline", "delay")  # whole numbers
LAW, TABLE = ("a", "b", "floor"), ("samples", "errors")
OPTIONS = ("delay", "sigma", "speed")
IN_FILES = (*NEEDED, *LAW, *OPTIONS)
KNOWN = (*IN_FILES, *TABLE)
DRAWN = (*NEEDED, *OPTIONS, *LAW)


def tasks_from(frame: Frame) -> list[Task]:
    """A task per row; a column nobody knows is refused, `seed` and `task` (of `drawn_rows`) are passed over."""
    rows = rows_of(frame, "Workload.from_frame")
    need_columns(frame, NEEDED, "Workload.from_frame")
    columns = [str(name) for name in frame.columns if name not in ("seed", "task")]
    refuse_unknown("column of tasks", columns, KNOWN)
    if "seed" in frame.columns and len(set(frame["seed"])) > 1:
        raise InputError("Workload.from_frame: the frame has several seeds; keep the rows of one", code="frame.seeds")
    return [_task(f"row {k}", row) for k, row in enumerate(rows)]


def read_tasks(value: object) -> list[Task]:
    """Tasks from a file's list of mappings; mistakes name the task, counted from 0 as everywhere."""
    if not isinstance(value, list) or not value:
        raise InputError(f"expected a list of tasks, each with {', '.join(NEEDED)}")
    for k, entry in enumerate(value):
        refuse_if(not isinstance(entry, dict), f"task {k}: expected `name: value` pairs, not {entry!r}")
        with said_of(f"task {k}"):
            refuse_unknown("field", map(str, entry), IN_FILES)
        refuse_words(f"task {k}", **entry)
    return [_task(f"task {k}", entry) for k, entry in enumerate(value)]


def _task(who: str, row: Row) -> Task:
    """A task by the names of its values."""
    for name in NEEDED:
        if name not in row:
            raise InputError(f"{name} is missing; every task needs {', '.join(NEEDED)}", code="task.missing", about=who)
    given = {name: row[name] for name in (*NEEDED, *OPTIONS) if name in row}
    given = {name: (_whole if name in STEPS else _float)(value) for name, value in given.items()}
    try:
        if all(name in row for name in TABLE):
            curve = Curve.recorded(row["samples"], row["errors"])
        else:
            curve = Curve(**{name: _read(row[name]) for name in LAW if name in row})
        return Task(curve=curve, **given)
    except InputError as error:
        raise InputError(error.what, code=error.code, about=who) from None
    except (TypeError, ValueError):
        raise InputError("samples and errors are no lists of numbers; give one of each, as long", about=who) from None


def _whole(value: Any) -> Any:
    """A column with an empty cell holds floats: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _float(value: Any) -> Any:
    """A whole number as a float; what is no number is left for `Task` to refuse."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read(value: Any) -> Any:
    """Text of a frame as the number that it states; other text is left for `Curve` to refuse."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def rows_from(tasks: Iterable[Task]) -> list[Row]:
    """What `tasks_from` reads back to equal tasks."""
    found = []
    for task in tasks:
        row: Row = {name: getattr(task, name) for name in (*NEEDED, *OPTIONS)}
        names = TABLE if task.curve.samples else LAW
        found.append(row | {name: getattr(task.curve, name) for name in names})
    return found


def drawn_rows(batch: Batch) -> list[Row]:
    """Tasks as they were drawn, seed by seed; a recorded curve has no law, and its points stay in the recording."""
    columns = {name: getattr(batch, name) for name in DRAWN}
    return [
        {"seed": int(seed), "task": j}
        | {name: column[k, j].item() for name, column in columns.items() if column[k, j] < np.inf}
        for k, seed in enumerate(batch.seeds)
        for j in range(batch.shape[1])
    ]
