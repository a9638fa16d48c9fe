"""Sia's and Pollux' tables: name, time (s), application, num_replicas, batch_size, and a column duration (s) to be added."""

from __future__ import annotations

from pathlib import Path

from equipoise.place.job import Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow, Unmappable

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")
EXPECTED = "a Sia table: name,time,application,num_replicas,batch_size,duration"
matches = rows.header(COLUMNS)


def sia(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    elasticity: float = 1,
    gpus_per_machine: int = 8,
    sized_utility: bool = True,
    worth: str = "none",
) -> Workload:
    """All-reduce jobs of `num_replicas` GPUs; slot 0 is the trace's own zero.

    Sia's own files do not say how long a job runs: its simulator computes that from profiles that are no part of the
    trace. A row is a job if a column `duration` says how many seconds it takes on `num_replicas` GPUs, and is skipped
    otherwise. `batch_size` is not used. The parameters are those of `philly`.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility, gpus_per_machine, worth=worth)
    return mapped.read(path, rows.table(path, COLUMNS, EXPECTED), _row, calendar=False)


def _row(line: int, cells: dict[str, str]) -> TraceRow:
    if not cells.get("duration", "").strip():
        raise Unmappable("no duration; add a column duration: seconds that the job takes on num_replicas GPUs")
    return TraceRow(
        line=line,
        id=f"sia-{line}",
        width=rows.whole(cells["num_replicas"], "num_replicas"),
        submit=rows.number(cells["time"], "time", zero=True),
        duration=rows.lasting(cells["duration"]),
        tags={"application": cells["application"]} if cells["application"] else {},
    )
