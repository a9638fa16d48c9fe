"""A run for other programs: allocations as CSV, all of it as plain JSON, a slot as Ray's placement groups."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.place.ray_groups import PlacementGroup as PlacementGroup
from equipoise.place.ray_groups import placement_groups as placement_groups
from equipoise.place.schedule import by_name
from equipoise.place.verify import JOB, MACHINE, SERVERS, SLOT, WORKERS, Int32s

if TYPE_CHECKING:
    from equipoise.place.simulate import Result

__all__ = ["PlacementGroup", "allocations_csv", "placement_groups", "runs", "to_json"]

COLUMNS = ("job", "slot", "start_hours", "machine", "workers", "servers")
BLOCK = 65536  # rows written at once


def allocations_csv(result: Result, path: str | Path) -> None:
    """A row for every job, slot and machine: who sits where, and from which hour after slot 0 began."""
    names, ids, hours = result.cluster.names, [job.id for job in result.jobs], result.jobs.slot / 3600.0
    by_name(names)
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for k in range(0, len(result.schedule), BLOCK):
            block = result.schedule[k : k + BLOCK].tolist()
            writer.writerows((ids[j], t, f"{t * hours:.10g}", names[h], w, s) for j, t, h, w, s in block)


def to_json(result: Result) -> dict[str, Any]:
    """Plain values: every job with what became of it, and the schedule as runs of equal slots (`last` included)."""
    names, ids = result.cluster.names, [job.id for job in result.jobs]
    by_name(names)
    jobs = [
        {
            "job": job.id,
            "arrival": job.arrival,
            "state": state,
            "reason": next((d.reason for d in reversed(log) if d.reason), "") if finish < 0 else "",
            "finish": None if finish < 0 else finish,
            "utility": utility,
            "decisions": [dict(d.__dict__) for d in log],
        }
        for job, state, log, finish, utility in zip(
            result.jobs, result.states, result.decisions, result.finish.tolist(), result.utilities.tolist(), strict=True
        )
    ]
    schedule = [
        {"job": ids[j], "machine": names[h], "first": first, "last": last, "workers": w, "servers": s}
        for j, h, first, last, w, s in runs(result.schedule).tolist()
    ]
    return {
        "policy": result.policy.label,
        "seed": result.seed,
        "slot_seconds": float(result.jobs.slot),
        "start": result.jobs.start,
        "end": result.end,
        "utility": result.utility,
        "completed": result.completed,
        "machines": list(names),
        "jobs": jobs,
        "schedule": schedule,
    }


def runs(schedule: Int32s) -> Int32s:
    """Rows (job, machine, first slot, last slot, workers, servers): slots in a row with the same numbers are one."""
    rows = schedule[np.lexsort((schedule[:, SLOT], schedule[:, MACHINE], schedule[:, JOB]))]
    same = (rows[1:, [JOB, MACHINE, WORKERS, SERVERS]] == rows[:-1, [JOB, MACHINE, WORKERS, SERVERS]]).all(axis=1)
    same &= rows[1:, SLOT] == rows[:-1, SLOT] + 1
    first = np.flatnonzero(np.append(True, ~same)[: len(rows)])
    last = np.append(first[1:], len(rows))[: len(first)] - 1
    out = np.column_stack(
        (rows[first][:, [JOB, MACHINE, SLOT]], rows[last, SLOT], rows[first][:, [WORKERS, SERVERS]])
    ).astype(np.int32)
    return out[np.lexsort((out[:, 1], out[:, 2], out[:, 0]))]
