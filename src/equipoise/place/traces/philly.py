"""Microsoft's Philly cluster, 2017, as a table: timestamp, duration (s), num_gpus, gpu_time, cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.errors import InputError
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow

COLUMNS = ("timestamp", "duration", "num_gpus")
EXPECTED = "a Philly table: timestamp,duration,num_gpus,gpu_time,cluster"


def matches(first_lines: Sequence[str]) -> bool:
    """Whether these are the first lines of a Philly table."""
    return {"timestamp", "num_gpus", "duration"} <= rows.columns(first_lines)


def philly(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    elasticity: float = 1,
    gpus_per_machine: int = 8,
    sized_utility: bool = True,
) -> Workload:
    """All-reduce jobs that take, at the width they asked for, exactly the time they took.

    Slot 0 starts at midnight of the first day (times as in the file), so days and weeks are whole numbers of slots.
    The trace says neither model nor worth: a measured profile and a utility are drawn by `seed`.

    Parameters
    ----------
    path
        The table; a name that ends in .gz is unpacked.
    slot
        Length of a slot: "10m", or seconds.
    seed
        Draws profiles and utilities.
    elasticity
        A job runs on at most so many times the GPUs it asked for.
    gpus_per_machine
        GPUs of a machine of the trace: jobs that asked for more ran on several.
    sized_utility
        Whether a utility grows with the job's GPU time.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility)
    limit = fits(gpus_per_machine)

    def row(line: int, cells: dict[str, str]) -> TraceRow:
        width = rows.whole(cells["num_gpus"], "num_gpus")
        return TraceRow(
            line=line,
            id=f"philly-{line}",
            submit=rows.calendar(cells["timestamp"], "timestamp"),
            duration=rows.lasting(cells["duration"]),
            width=width,
            together=width <= limit,
            tags={"cluster": cells["cluster"]} if cells.get("cluster") else {},
        )

    found, skipped = rows.collected(rows.table(path, COLUMNS, EXPECTED), row)
    return mapped.workload(found, skipped, str(path), calendar=True)


def fits(gpus_per_machine: int) -> int:
    """The widest job that ran on one machine."""
    if isinstance(gpus_per_machine, bool) or not isinstance(gpus_per_machine, int) or gpus_per_machine < 1:
        raise InputError(f"gpus_per_machine is {gpus_per_machine!r}; expected a whole number of 1 or more")
    return gpus_per_machine


def gpu_cluster(machines: int, gpus_per_machine: int = 8) -> Cluster:
    """Equal machines on which GPUs are what runs out: 8 CPUs and 32 GiB for each."""
    gpus = fits(gpus_per_machine)
    return Cluster((Machine({"gpu": gpus, "cpu": 8 * gpus, "memory": f"{32 * gpus}Gi"}, machines, "gpu"),))
