"""Microsoft's Philly cluster, 2017, as a table: timestamp, duration (s), num_gpus, gpu_time, cluster."""

from __future__ import annotations

from pathlib import Path

from equipoise.errors import whole_number
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow

COLUMNS = ("timestamp", "duration", "num_gpus")
EXPECTED = "a Philly table: timestamp,duration,num_gpus,gpu_time,cluster"
matches = rows.header(COLUMNS)


def philly(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    elasticity: float = 1,
    gpus_per_machine: int = 8,
    sized_utility: bool = True,
    worth: str = "none",
) -> Workload:
    """All-reduce jobs that take, at the width they asked for, exactly the time they took.

    Slot 0 starts at midnight of the first day (times as in the file), so days and weeks are whole numbers of slots.
    The trace says neither model nor worth: a measured profile is drawn by `seed`, a utility too where `worth` is "drawn".

    Parameters
    ----------
    path
        The table; a name that ends in .gz is unpacked.
    slot
        Length of a slot: "10m", or seconds.
    seed
        Of what is drawn.
    elasticity
        A job runs on at most so many times the GPUs it asked for.
    gpus_per_machine
        GPUs of a machine of the trace: jobs that asked for more ran on several.
    sized_utility
        Whether a drawn utility grows with the job's GPU time.
    worth
        "none": nothing is stated. "drawn": utilities are synthesised.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility, gpus_per_machine, worth=worth)
    return mapped.read(path, rows.table(path, COLUMNS, EXPECTED), _row, calendar=True)


def _row(line: int, cells: dict[str, str]) -> TraceRow:
    return TraceRow(
        line=line,
        id=f"philly-{line}",
        width=rows.whole(cells["num_gpus"], "num_gpus"),
        submit=rows.calendar(cells["timestamp"], "timestamp"),
        duration=rows.lasting(cells["duration"]),
        tags={"cluster": cells["cluster"]} if cells.get("cluster") else {},
    )


def gpu_cluster(machines: int, gpus_per_machine: int = 8) -> Cluster:
    """Equal machines on which GPUs are what runs out: 8 CPUs and 32 GiB for each."""
    gpus = whole_number(gpus_per_machine, "gpus_per_machine")
    return Cluster((Machine({"gpu": gpus, "cpu": 8 * gpus, "memory": f"{32 * gpus}Gi"}, machines, "gpu"),))
