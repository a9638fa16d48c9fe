"""Tasks as the rows of a pandas frame, and back.

Columns: arrival, deadline, data, target; and where they are not as usual a, b, floor (of the learning curve), delay, sigma.
A recorded curve is two lists in the cells of `samples` and `errors`. An empty cell is a value left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from equipoise.errors import InputError, unknown_name
from equipoise.frames import Frame, Row, need_columns, rows_of
from equipoise.share.curve import Curve
from equipoise.share.task import Task

if TYPE_CHECKING:
    from equipoise.share.workload import Batch

NEEDED = ("arrival", "deadline", "data", "target")
LAW, TABLE = ("a", "b", "floor"), ("samples", "errors")
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
