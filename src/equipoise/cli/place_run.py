"""What `equipoise place` does once its settings are known: compare with progress, write the folder, print the tables."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from equipoise.cli import place_tables
from equipoise.cli.output import LINE_SECONDS, Meter, metered
from equipoise.cli.place_config import PlaceConfig
from equipoise.cli.place_policies import baseline_of, needs_history, players
from equipoise.cli.place_scene import Ready, ready
from equipoise.cli.policy_file import fault_in
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.errors import InputError
from equipoise.place.comparison import CALIBRATING, Comparison, Progress, compare, utilisation
from equipoise.place.read import write_cluster, write_jobs
from equipoise.place.schedule import write_schedule

TOLD = 20  # jobs that gained and that lost, of each policy, in result.json; outcomes.csv has all
OUTCOMES = ("policy", "job", "arrival", "state", "reason", "finish", "utility")


def run_place(config: PlaceConfig, out: Path, *, quiet: bool, report: bool, workers: int | None = 1) -> bool:
    """One comparison from settings to folder; True when its certificate passes. `workers` as in `compare`."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    scene = ready(config, history=needs_history(config))
    policies = players(config, scene)
    baseline = baseline_of(config, [policy.label for policy in policies])
    folder = run_folder(out, "place", settings)
    found = play(config, scene, policies, quiet=quiet, workers=workers)
    gains = found.gains(baseline)
    content = document("place", settings, summary(found, scene, gains), found.certificate)
    if report:
        from equipoise.report.place import page

        text = page(found, title(found), baseline=baseline, config=settings)
    _write(folder, settings, content, found)
    if report:
        (folder / "report.html").write_text(text, encoding="utf-8")
    if quiet:
        print(to_json(content))
        for line in scene.notes:
            if "skipped" in line:
                print(f"warning: {line}", file=sys.stderr)
    else:
        _print(found, scene, gains)
        print(folder / "report.html" if report else folder)
    return found.certificate.passed


def play(
    config: PlaceConfig, scene: Ready, policies: Sequence[Any], *, quiet: bool, workers: int | None = 1
) -> Comparison:
    """Compare with progress; a fault inside a user's policy becomes one line that names the place in her file."""
    files = [name.rpartition(":")[0] for name in config.policy if ".py" in name]
    if not quiet:
        _warn_of_compiling()
    try:
        with metered("comparing", "slot", None, quiet=quiet) as meter:
            found = compare(
                scene.cluster,
                scene.jobs,
                policies,
                slots=scene.slots,
                horizon=scene.horizon,
                seed=config.seed,
                bound="auto" if config.bound else False,
                progress=_shown(meter),
                workers=workers,
            )
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        fault = fault_in(error, files)
        if fault:
            raise InputError(fault) from None
        raise
    return replace(found, note="; ".join([*scene.notes, *of_bound(found)]))


def _shown(meter: Meter) -> Progress:
    """Slots of all policies; what takes no slots, such as calibrating, is named and not counted."""
    last, said = 0, -math.inf

    def show(done: int, total: int, doing: str) -> None:
        nonlocal last, said
        if done > last:
            last = done
            meter.show(done, total, doing=doing, note="" if meter.silent else doing)
            return
        meter.bar.update(meter.task, total=total, description=doing)
        if not meter.silent and CALIBRATING in doing and time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            print(doing, file=sys.stderr, flush=True)

    return show


def _warn_of_compiling() -> None:
    """The first run after installing compiles the kernels; what it is doing should not be a riddle."""
    from equipoise.place import planner

    home = Path(str(planner.__file__)).parent
    if os.access(home, os.W_OK) and not any(home.glob("__pycache__/*.nbi")):
        print("compiling, once after installing: a minute or two", file=sys.stderr, flush=True)


def title(found: Comparison) -> str:
    """60 jobs on 20 machines, 24 slots of 1 h: the page adds who earned most."""
    return place_tables.headline(found).rpartition(":")[0] or place_tables.headline(found)


def summary(found: Comparison, scene: Ready, gains: list[dict[str, Any]]) -> dict[str, Any]:
    """Plain values that repeat bit for bit: no times."""
    limit = found.bound
    content = {
        "jobs": len(found.jobs),
        "slot": found.jobs.slot,
        "machines": found.cluster.size,
        "resources": dict(zip(found.cluster.resources, (found.cluster.total / 1000.0).tolist(), strict=True)),
        "slots": found.slots,
        "horizon": found.horizon,
        "end": found.results[0].end,
        "history": [len(past) for past in scene.pasts],
        "notes": [*scene.notes, *of_bound(found)],
        "rows": found.table,
        "bound": None
        if limit is None
        else {"utility": limit.utility, "kind": limit.kind, "status": limit.status, "coarsen": limit.coarsen},
        "reasons": {result.policy.label: result.reasons for result in found.results},
        "hopeless": found.hopeless,
        "prices": {
            result.policy.label: result.detail["prices"] for result in found.results if "prices" in result.detail
        },
        "calibration": found.calibration,
        "gains": [
            row
            | {
                "gained": row["gained"][:TOLD],
                "lost": row["lost"][:TOLD],
                "jobs_gained": len(row["gained"]),
                "jobs_lost": len(row["lost"]),
            }
            for row in gains
        ],
    }
    plain: dict[str, Any] = _plain(content)
    return plain


def of_bound(found: Comparison) -> list[str]:
    """What is to be said of the bound: that it is coarse, or why there is none."""
    return [part for part in found.note.split("; ") if part.startswith(("no bound", "bound:"))]


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, so that JSON takes them; what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value


def file_name(label: str) -> str:
    """allocations-pdors-recalled.csv for PDORS recalled."""
    return f"allocations-{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-') or 'policy'}.csv"


def _write(folder: Path, settings: dict[str, Any], content: dict[str, Any], found: Comparison) -> None:
    """result.json, history.csv (a slot a row), outcomes.csv (a job a row), allocations, and what they were made from."""
    text = to_json(content) + "\n"
    make_folder(folder)
    write_config(folder, settings)
    (folder / "result.json").write_text(text)
    rows = (row for result in found.results for row in _slots(result))
    _table(folder / "history.csv", ("policy", "slot", "completed", "utility", *found.cluster.resources), rows)
    _table(folder / "outcomes.csv", OUTCOMES, (row for result in found.results for row in _outcomes(result)))
    write_cluster(found.cluster, folder / "cluster.yaml")
    write_jobs(found.jobs, folder / "jobs.json")
    for result in found.results:
        write_schedule(result, folder / file_name(result.policy.label))


def _table(path: Path, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _slots(result: Any) -> Iterable[list[Any]]:
    """Jobs done and utility so far, and the part of each resource in use."""
    done = result.finish[result.finish >= 0]
    completed = np.cumsum(np.bincount(done, minlength=result.end))
    earned = np.cumsum(np.bincount(done, result.utilities[result.finish >= 0], minlength=result.end))
    for slot, used in enumerate(utilisation(result).tolist()):
        yield [result.policy.label, slot, int(completed[slot]), float(earned[slot]), *used]


def _outcomes(result: Any) -> Iterable[list[Any]]:
    for j, job in enumerate(result.jobs):
        finish, log = int(result.finish[j]), result.decisions[j]
        reason = "" if finish >= 0 else next((d.reason for d in reversed(log) if d.reason), "unfinished")
        when = "" if finish < 0 else finish
        yield [result.policy.label, job.id, job.arrival, result.states[j], reason, when, float(result.utilities[j])]


def _print(found: Comparison, scene: Ready, gains: list[dict[str, Any]]) -> None:
    from equipoise.present.terminal import certificate_table

    console = Console()

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=False)

    console.print(f"[bold]{place_tables.headline(found)}[/]", highlight=False)
    for line in scene.notes:
        say(f"- {line}")
    console.print(place_tables.policy_table(found))
    for line in of_bound(found):
        say(line)
    reasons = place_tables.reason_table(found)
    if reasons is not None:
        console.print(reasons)
    for line in (*place_tables.hopeless_lines(found), *place_tables.calibration_lines(found)):
        say(line)
    if gains:
        console.print(place_tables.gain_table(gains))
        losers = place_tables.loser_table(gains[0])
        if losers is not None:
            console.print(losers)
    console.print()
    console.print(certificate_table(found.certificate))
