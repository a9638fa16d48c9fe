"""Jobs, machines and results as rows of a pandas frame. Columns are those of the CSV files that `read` knows: `worker.gpu`.

What holds for all rows (the slot's length, bandwidths) is kept in `frame.attrs`, and may be given instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise import units
from equipoise.document import Row
from equipoise.errors import InputError, said_of
from equipoise.frames import Frame, frame_of, rows_of
from equipoise.kernels import Floats, Int32s
from equipoise.place.calendar import Calendar
from equipoise.place.cluster import Cluster
from equipoise.place.files import BANDWIDTHS, flat, grouped, read_cluster, read_jobs
from equipoise.place.job import MACHINE, SLOT, Workload
from equipoise.place.job_spec import HOUR, KINDS, Values, job_from, machine_from, plain_job, plain_machine

if TYPE_CHECKING:
    from equipoise.place.simulate import Result

LEAST_SHARE = 1e-3  # of a machine: a job that holds next to nothing of it is still seen


def jobs_frame(jobs: Workload) -> Frame:
    """A row a job; `jobs_from` reads equal jobs from it."""
    settings = {"slot": float(jobs.slot), "note": jobs.note, "start": jobs.start}
    return frame_of([flat(plain_job(job)) for job in jobs], **{k: v for k, v in settings.items() if v})


def jobs_from(frame: Frame, cluster: Cluster, slot: str | float | None) -> Workload:
    """Jobs for this cluster. `slot` ("10m", or seconds) goes before the frame's own, which is an hour unless told."""
    rows = rows_of(frame, "Workload.from_frame")
    told = frame.attrs
    length = units.seconds(told.get("slot", HOUR) if slot is None else slot, "slot")
    if not length > 0:
        raise InputError('slot is 0; expected a length such as "10m"', code="slot.range")
    found = []
    for k, row in enumerate(rows):
        with said_of(f"row {k}"):
            found.append(job_from(_grouped(row), cluster, length))
    note, start = (str(told.get(name, "")) for name in ("note", "start"))
    return Workload(tuple(found), slot=length, source="a frame", note=note, start=start)


def cluster_frame(cluster: Cluster) -> Frame:
    """A row for every type of machines; `cluster_from` reads an equal cluster from it."""
    rows = [flat(plain_machine(machine)) for machine in cluster.machines]
    rates = {name: float(rate) for name in BANDWIDTHS if (rate := getattr(cluster, name)) is not None}
    return frame_of(rows, **rates)


def cluster_from(frame: Frame, **bandwidths: Any) -> Cluster:
    """`inside` and `between`, bandwidths such as "20Gbps", go before the frame's own."""
    machines = []
    for k, row in enumerate(rows_of(frame, "Cluster.from_frame")):
        own: Values = {name: row.pop(name) for name in ("name", "count", *KINDS) if name in row}
        with said_of(f"row {k}"):
            machines.append(machine_from(own | {"capacity": row}))
    told = {name: frame.attrs[name] for name in BANDWIDTHS if name in frame.attrs}
    return Cluster(tuple(machines), **(told | {k: v for k, v in bandwidths.items() if v is not None}))


def _grouped(row: Row) -> Values:
    out: Values = {}
    for column, value in row.items():
        group, name = grouped(column)
        (out.setdefault(group, {}) if group else out)[name] = value
    return out


# A result as rows: the tables of a run folder.


def slot_rows(result: Result) -> list[Row]:
    """Jobs done and utility so far, and the part of each resource in use, slot by slot."""
    done = result.finish >= 0
    completed = np.cumsum(np.bincount(result.finish[done], minlength=result.end))
    earned = np.cumsum(np.bincount(result.finish[done], result.utilities[done], minlength=result.end))
    return [
        {"policy": result.policy.label, "slot": t, "completed": int(completed[t]), "utility": float(earned[t])}
        | dict(zip(result.cluster.resources, used, strict=True))
        for t, used in enumerate(utilisation(result).tolist())
    ]


def utilisation(result: Result) -> Floats:
    """The part of each resource in use: a row for each slot, a column for each resource of the cluster."""
    cluster, rows = result.cluster, result.schedule
    out = np.zeros((result.end, len(cluster.resources)))
    for r, held in enumerate(result.jobs.held(rows, cluster.resources).T):
        if len(rows) and cluster.total[r] > 0:
            out[:, r] = np.bincount(rows[:, SLOT], held, result.end)[: result.end] / cluster.total[r]
    return out


def posted(result: Result) -> tuple[Floats, Floats] | None:
    """Prices per unit on an empty machine (a row for each slot, or one for all) and their growth with use; or None."""
    told = result.detail.get("posted")
    if told is None:
        return None
    return units.MILLI * np.atleast_2d(np.asarray(told["base"], dtype=float)), np.asarray(told["growth"], dtype=float)


def price_rows(result: Result) -> list[Row]:
    """Posted prices per unit and slot on an empty machine, slot by slot; one row where they stay; none without prices."""
    found = posted(result)
    label, names = result.policy.label, result.cluster.resources
    rows = () if found is None else enumerate(found[0].tolist())
    return [{"policy": label, "slot": slot} | dict(zip(names, base, strict=True)) for slot, base in rows]


def growth_of(result: Result) -> dict[str, float]:
    """How posted prices grow with use: a full machine's is exp(growth) times an empty one's. Empty without prices."""
    found = posted(result)
    return {} if found is None else dict(zip(result.cluster.resources, found[1].tolist(), strict=True))


def outcome_rows(result: Result) -> list[Row]:
    """What became of every job; finish is a slot, None if it was never done."""
    rows: list[Row] = [{"policy": result.policy.label} | result.outcome(j) for j in range(len(result.jobs))]
    for row, slowdown, in_time in zip(rows, result.waits.slowdown, result.waits.in_time, strict=True):
        row["reason"] = (row["reason"] or "unfinished") if row["finish"] is None else None
        row |= {"slowdown": None if np.isnan(slowdown) else float(slowdown), "in_time": int(in_time)}
    return rows


def allocation_rows(result: Result) -> list[Row]:
    """Who was where: one row per job, slot and machine, with the part of the machine's scarcest resource that it held."""
    names, ids, label = result.cluster.names, [job.id for job in result.jobs], result.policy.label
    share = held_shares(result.cluster, result.jobs, result.schedule)
    columns = "policy", "job", "slot", "machine", "workers", "servers", "share"
    return [
        dict(zip(columns, (label, ids[j], slot, names[h], workers, servers, part), strict=True))
        for (j, slot, h, workers, servers), part in zip(result.schedule.tolist(), share, strict=True)
    ]


def machine_rows(cluster: Cluster) -> list[Row]:
    """Every machine by name, with what it has of each resource, in units."""
    held = cluster.capacity[cluster.type_of] / units.MILLI
    return [
        {"machine": name} | dict(zip(cluster.resources, row, strict=True))
        for name, row in zip(cluster.names, held.tolist(), strict=True)
    ]


def window_rows(calendar: Calendar, cluster: Cluster, end: int) -> list[Row]:
    """What a calendar takes: a row for each window and machine, with the part of the resource it takes most of."""
    capacity = np.maximum(cluster.capacity[cluster.type_of], 1)
    return [
        {"machine": cluster.names[h], "first": one.first, "last": one.last, "kind": one.kind, "share": float(part)}
        for one in calendar.on(cluster, end)
        for h, part in zip(one.machines.tolist(), (one.amounts / capacity[one.machines]).max(axis=1), strict=True)
    ]


def tables_beside(folder: Path, allocations: list[Row]) -> dict[str, list[Row]]:
    """Of a run folder, whose cluster and jobs lie beside the result: allocations with what each held, and the machines."""
    there = read_cluster(folder / "cluster.yaml")
    jobs = read_jobs(folder / "jobs.json", there)
    job_of, machine_of = {job.id: j for j, job in enumerate(jobs)}, there.machine_ids
    cells = [
        (job_of[row["job"]], row["slot"], machine_of[row["machine"]], row["workers"], row["servers"])
        for row in allocations
    ]
    shares = held_shares(there, jobs, np.array(cells, dtype=np.int32).reshape(-1, 5))
    told = [row | {"share": share} for row, share in zip(allocations, shares, strict=True)]
    return {"allocations": told, "machines": machine_rows(there)}


def held_shares(cluster: Cluster, jobs: Workload, schedule: Int32s) -> list[float]:
    """Of each row of a schedule: the largest part of any of the machine's resources that it holds."""
    room = cluster.capacity[cluster.type_of][schedule[:, MACHINE]].astype(float)
    held = jobs.held(schedule, cluster.resources)
    part = np.divide(held, room, out=np.zeros_like(held), where=room > 0).max(axis=1, initial=0.0)
    return [float(p) for p in np.clip(part, LEAST_SHARE, 1.0)]
