"""Answers about files alone, as documents: certify a schedule, bound what any could earn, turn a trace into our format."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document, Row, allocations_of, read as load, read_table
from equipoise.errors import InputError
from equipoise.place import files
from equipoise.place.bound import bound
from equipoise.place.cluster import Cluster
from equipoise.place.execution import end_of
from equipoise.place.job import Workload
from equipoise.place.scene import read_cluster, read_jobs, read_scene, skipped_lines, slot_hint
from equipoise.place.schedule import read_schedule, verify_files
from equipoise.place.spec import AUTO, OWN, BoundSpec, SceneSpec
from equipoise.place.traces._rows import format_of
from equipoise.place.verify_promises import claims as claims_of


def bound_of(spec: BoundSpec) -> Document:
    """The most utility that any schedule of a scene could reach, with everything known in advance."""
    scene = read_scene(spec, history=False)
    limits = {"exact": spec.exact, "coarsen": spec.coarsen, "time_limit": spec.time_limit}
    found = bound(scene.cluster, scene.jobs, slots=scene.end, **limits)  # type: ignore[arg-type]
    result = {name: getattr(found, name) for name in ("utility", "kind", "status", "coarsen", "note")}
    result |= {"jobs": len(scene.jobs), "machines": scene.cluster.size, "end": scene.end}
    result |= {"completed": float(found.completion.sum()), "notes": list(scene.notes)}
    return Document("place bound", result, config=spec.plain())


def import_trace(spec: SceneSpec, out: Path, cluster_out: Path | None = None) -> Document:
    """Write the jobs of a trace in our own format; rows that cannot be jobs are counted with their lines.

    Parameters
    ----------
    spec
        Its `jobs` is the trace.
    out
        The file of jobs to write: .yaml, .json or .csv.
    cluster_out
        The file of machines to write: those of the spec's `cluster` or `machines`.
    """
    for name in ("restart", "draw", "horizon", "slots", "window", "wrong"):
        if getattr(spec, name):
            raise InputError(f"--{name} has no effect on import; give it to `place`")
    for file in filter(None, (out, cluster_out)):
        files.ending_of(file)
    if cluster_out is None and (spec.machines or spec.cluster):
        raise InputError("--machines and --cluster have no effect without --cluster-out FILE")
    path = Path(str(spec.jobs))
    kind = spec.format if spec.format != AUTO else format_of(path)
    if kind == OWN:
        raise InputError(f"{path.name} is in our own format already; expected a trace (--format philly, ...)")
    cluster = None if cluster_out is None else read_cluster(spec)
    jobs = read_jobs(spec, path, kind, cluster)
    files.write_jobs(jobs, out)
    if cluster is not None and cluster_out is not None:
        files.write_cluster(cluster, cluster_out)
    result = {"format": kind, "jobs": len(jobs), "slot": jobs.slot, "last_arrival": max(job.arrival for job in jobs)}
    result["skipped"] = [{"line": row.line, "reason": row.reason} for row in jobs.skipped]
    lines = skipped_lines(jobs) + slot_hint(spec, kind, jobs)
    result |= {"note": jobs.note, "start": jobs.start, "lines": lines, "out": str(out)}
    result |= {} if cluster is None else {"cluster_out": str(cluster_out), "machines": cluster.size}
    return Document("place import", result, config=spec.plain())


def verify_schedule(
    schedule: Path,
    *,
    jobs: Path | None = None,
    cluster: Path | None = None,
    slots: int | None = None,
    horizon: int | None = None,
    slot: str | None = None,
    claims: Path | None = None,
    calendar: Path | None = None,
) -> Document:
    """Certify a schedule made by anybody: its certificate, what it completes and earns, and when each job finishes.

    Parameters
    ----------
    schedule
        A CSV file with the columns job, slot, machine, workers and servers.
    jobs, cluster
        Its jobs and machines; without, jobs.json and cluster.yaml beside it, as in a run folder.
    slots
        Nothing may run from this slot on.
    horizon
        Or: so many slots after the last arrival. Without both, the end that result.json beside it states.
    slot
        Length of a slot, such as "10m"; without, the file's own.
    claims
        What is claimed of it, a CSV file with the columns job and finish, and where it has them utility, due (the slot
        promised) and state; without, outcomes.csv beside it.
    calendar
        What jobs could not have; without, calendar.yaml beside it. What they lost to it is lost.csv beside the schedule.
    """
    rows = read_schedule(schedule)
    beside = schedule.parent
    jobs_file = jobs or _beside(beside / "jobs.json", "--jobs")
    cluster_file = cluster or _beside(beside / "cluster.yaml", "--cluster")
    machines = files.read_cluster(cluster_file)
    workload = read_jobs(SceneSpec(slot=slot), jobs_file, format_of(jobs_file), machines)
    end = _end(workload, slots, horizon, beside if jobs is None else None)
    near = {file.name: file for file in beside.iterdir()} if jobs is None else {}
    claims_file, calendar_file = claims or near.get("outcomes.csv"), calendar or near.get(files.CALENDAR)
    told = None if claims_file is None else _claimed(claims_file, schedule.stem)
    kept = None if calendar_file is None else files.read_calendar(calendar_file, workload, end=end)[0]
    finish = None if told is None else {name: row["finish"] for name, row in told.items()}
    found = verify_files(machines, workload, rows, end=end, finish=finish, calendar=kept)
    certificate = found.certificate
    if told is not None:
        truly = np.array([-1 if last is None else last for last in found.finish.values()], dtype=np.int64)
        blocked = () if kept is None else kept.on(machines, end)
        lost = _lost(beside / "lost.csv", schedule.stem, workload, machines)
        certificate = Certificate((*certificate, *claims_of(workload, found.schedule, truly, told, blocked, lost)))
    config = {"schedule": str(schedule), "jobs": str(jobs_file), "cluster": str(cluster_file), "end": end}
    config["calendar"] = None if calendar_file is None else str(calendar_file)
    config["claims"] = None if claims_file is None else str(claims_file)
    result = {"cells": len(rows), "jobs": len(workload), "completed": found.completed, "utility": found.utility}
    return Document("place verify", result | {"finish": found.finish}, certificate, config)


def _lost(path: Path, schedule: str, jobs: Workload, cluster: Cluster) -> list[tuple[int, int, int]]:
    """Job, slot and machine of the cells that the policy of a schedule says jobs lost; a name nobody has is -1."""
    rows = read_table(path) if path.is_file() else []
    index = {job.id: j for j, job in enumerate(jobs)}
    return [
        (index.get(str(row.get("job")), -1), slot, cluster.machine_ids.get(str(row.get("machine")), -1))
        for row in rows
        if allocations_of(str(row.get("policy"))) == schedule and isinstance(slot := row.get("slot"), int)
    ]


def _beside(path: Path, option: str) -> Path:
    if not path.is_file():
        raise InputError(f"no {path.name} beside the schedule; say {option} FILE")
    return path


def _end(jobs: Workload, slots: int | None, horizon: int | None, folder: Path | None) -> int:
    """The first slot in which nothing may run."""
    if slots is not None or horizon is not None:
        return end_of(jobs, slots, horizon)
    if folder is not None and (folder / "result.json").is_file():
        end = load(folder / "result.json").result.get("end")
        if not isinstance(end, int):
            raise InputError(f"{folder / 'result.json'} does not say where the run ends; say --slots")
        return end
    raise InputError("say where it ends: --slots T, or --horizon N slots after the last arrival")


def _claimed(path: Path, schedule: str) -> dict[str, Row]:
    """Rows by job id; of a file with a column `policy`, those of the policy the schedule is named after."""
    rows = read_table(path)
    if not rows or not {"job", "finish"} <= rows[0].keys():
        raise InputError(f"{path}: its first line has no columns job and finish")
    found: dict[str, Row] = {}
    for row in rows:
        if "policy" in row and allocations_of(str(row["policy"])) != schedule:
            continue
        for name in ("finish", "due"):
            slot = row.get(name)
            if slot is not None and not (isinstance(slot, int) and slot >= 0):
                raise InputError(f"{path}: {name} of job {row['job']} is {slot!r}; expected a slot, or nothing")
        if not isinstance(row.get("utility") or 0.0, int | float):
            value = row["utility"]
            raise InputError(f"{path}: utility of job {row['job']} is {value!r}; expected a number, or nothing")
        found[str(row["job"])] = row
    if not found:
        raise InputError(f"{path}: says nothing of {schedule}; expected rows job,finish")
    return found
