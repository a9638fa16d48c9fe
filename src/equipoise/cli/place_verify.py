"""What `equipoise place verify` does: certify a schedule from its file, its jobs and its machines alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from equipoise.cli.place_config import Scene
from equipoise.cli.place_run import file_name
from equipoise.cli.place_scene import read_jobs
from equipoise.cli.run_folder import document, to_json
from equipoise.errors import InputError
from equipoise.place import read
from equipoise.place.job import Workload
from equipoise.place.schedule import read_schedule, verify_files
from equipoise.place.traces import format_of
from equipoise.present.terminal import certificate_table, key_numbers
from equipoise.present.text import number


def run_verify(
    schedule: Path,
    jobs: Path | None,
    cluster: Path | None,
    slots: int | None,
    horizon: int | None,
    slot: str | None,
    claims: Path | None,
    *,
    quiet: bool,
) -> bool:
    """True when every check passes. In a run folder everything it needs lies beside the schedule."""
    rows = read_schedule(schedule)
    beside = schedule.parent
    jobs_file = jobs or _beside(beside / "jobs.json", "--jobs")
    cluster_file = cluster or _beside(beside / "cluster.yaml", "--cluster")
    machines = read.cluster(cluster_file)
    scene = Scene(slot=slot)
    workload = read_jobs(scene, jobs_file, format_of(jobs_file), machines)
    end = _end(workload, slots, horizon, beside if jobs is None else None)
    claims_file = claims or (beside / "outcomes.csv" if jobs is None and (beside / "outcomes.csv").is_file() else None)
    finish = None if claims_file is None else _claimed(claims_file, schedule.name)
    found = verify_files(machines, workload, rows, end=end, finish=finish)
    settings = {
        "schedule": str(schedule),
        "jobs": str(jobs_file),
        "cluster": str(cluster_file),
        "end": end,
        "claims": None if claims_file is None else str(claims_file),
    }
    result = {"cells": len(rows), "jobs": len(workload), "completed": found.completed, "utility": found.utility}
    if quiet:
        print(to_json(document("place verify", settings, result | {"finish": found.finish}, found.certificate)))
        return found.certificate.passed
    console = Console()
    numbers = {
        "cells": f"{len(rows):,}",
        "jobs done": f"{found.completed:,} of {len(workload):,}",
        "utility": number(found.utility, 6),
    }
    console.print(key_numbers(numbers))
    if finish is None:
        print("no finishes are claimed, so that work and locality have nothing to be compared with (--claims FILE)")
    console.print(certificate_table(found.certificate))
    return found.certificate.passed


def _beside(path: Path, option: str) -> Path:
    if not path.is_file():
        raise InputError(f"no {path.name} beside the schedule; say {option} FILE")
    return path


def _end(jobs: Workload, slots: int | None, horizon: int | None, folder: Path | None) -> int:
    """The first slot in which nothing may run."""
    if slots is not None:
        return slots
    if horizon is not None:
        return max(job.arrival for job in jobs) + horizon
    if folder is not None and (folder / "result.json").is_file():
        try:
            told: Any = json.loads((folder / "result.json").read_text())["result"]["end"]
            return int(told)
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{folder / 'result.json'} does not say where the run ends; say --slots") from None
    raise InputError("say where it ends: --slots T, or --horizon N slots after the last arrival")


def _claimed(path: Path, schedule: str) -> dict[str, int | None]:
    """Finish slots by job id; of a file with a column `policy`, those of the policy the schedule is named after."""
    found: dict[str, int | None] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            if not {"job", "finish"} <= set(columns):
                raise InputError(f"{path}: its first line has no columns job and finish")
            for row in reader:
                if "policy" in columns and file_name(row["policy"]) != schedule:
                    continue
                text = (row["finish"] or "").strip()
                if text and not text.isdigit():
                    raise InputError(f"{path}, line {reader.line_num}: finish is {text!r}; expected a slot, or nothing")
                found[row["job"]] = int(text) if text else None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    if not found:
        raise InputError(f"{path}: says nothing of {schedule}; expected rows job,finish")
    return found
