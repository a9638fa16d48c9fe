"""From settings to a cluster, the jobs that are scored, and the history that prices come from."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.cli.place_config import Priced, Scene
from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.job import Workload
from equipoise.place.traces import format_of

DRAWN, DRAWN_SLOTS, DRAWN_MACHINES = 60, 24, 20  # the built-in example: an overloaded day
OTHER_SEEDS, HISTORIES = 1000, 4  # its history: so many other draws, from this seed on
GPUS = 8
PLANNED_AHEAD = 48 * 3600.0  # seconds, where nothing is said
FIRST_LINES = 3  # of skipped rows that are named
NODE_LIST, CLUSTER_TABLE = {"cpu_milli", "memory_mib", "gpu"}, {"num_switch", "num_gpu_p_node"}
VARYING = re.compile(r"'[^']*'|[-+]?\d[\d.,:e+ -]*")


@dataclass(frozen=True)
class Ready:
    """Everything a run needs but the policies. `notes` are for the user, in order."""

    cluster: Cluster
    jobs: Workload
    pasts: tuple[Workload, ...]
    slots: int | None
    horizon: int | None
    notes: tuple[str, ...]

    @property
    def window(self) -> dict[str, int | None]:
        return {"slots": self.slots, "horizon": self.horizon}


def ready(config: Scene, *, history: bool) -> Ready:
    """Read all files; `history` says whether past jobs are needed."""
    scene = _read(config, history=history)
    names = scene.cluster.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two machines have the name {twice!r}; give the machine types of the cluster different names")
    return scene


def _read(config: Scene, *, history: bool) -> Ready:
    if config.slots is not None and config.horizon is not None:
        raise InputError(
            f"--slots {config.slots} and --horizon {config.horizon} are both given; keep one: a fixed end, or rolling"
        )
    notes: list[str] = []
    if config.jobs is None:
        cluster, jobs, pasts, slots = _example(config, history, notes)
        horizon = config.horizon
    else:
        kind = config.format if config.format != "auto" else format_of(Path(config.jobs))
        cluster = read_cluster(config, kind)
        jobs = read_jobs(config, Path(config.jobs), kind, cluster)
        notes += _told(jobs, "")
        slots, horizon = config.slots, config.horizon
        if slots is None and horizon is None:
            horizon = max(1, round(PLANNED_AHEAD / jobs.slot))
        pasts = _pasts(config, kind, cluster, notes) if history and isinstance(config, Priced) else ()
        jobs, pasts, moved = _split(config, jobs, pasts, history, notes)
        if slots is not None:
            slots -= moved
            if slots < 1:
                raise InputError(f"--slots {config.slots}: nothing is left to score, which starts in slot {moved}")
    jobs = _disturbed(config, jobs, 0)
    if config.wrong:
        notes.append(f"durations are wrong by up to ±{100 * config.wrong:g} %, seed {config.seed}")
    if config.restart:
        notes.append(f"a job loses {config.restart} whenever it starts, moves or is resized")
    pasts = tuple(_disturbed(config, past, k + 1) for k, past in enumerate(pasts))
    return Ready(cluster, jobs, pasts, slots, horizon, tuple(notes))


def _example(
    config: Scene, history: bool, notes: list[str]
) -> tuple[Cluster, Workload, tuple[Workload, ...], int | None]:
    """The built-in example; history is the same generator with other seeds, or files."""
    from equipoise.place import traces

    for name in ("slot", "elasticity", "gpus_per_machine", "window"):
        if getattr(config, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} has no effect: no JOBS are given, so that they are drawn")
    count, machines = config.draw or DRAWN, config.machines or DRAWN_MACHINES
    span = config.slots or DRAWN_SLOTS
    cluster = traces.synthetic_cluster(machines) if config.cluster is None else read_cluster(config, "own")
    jobs = traces.synthetic(count, seed=config.seed, slots=span)
    first = config.seed + OTHER_SEEDS
    pasts: tuple[Workload, ...] = tuple(traces.synthetic(count, seed=first + k, slots=span) for k in range(HISTORIES))
    notes.append(f"no JOBS given: {count} synthetic jobs over {span} slots of an hour, seed {config.seed}")
    said = f"{HISTORIES} other draws of the same kind, seeds {first} to {first + HISTORIES - 1}"
    if isinstance(config, Priced) and config.history is not None:
        pasts = _pasts(config, "own", cluster, notes)
    elif history:
        notes.append(f"history: {said}; the scored jobs are never seen by calibration")
    return cluster, jobs, pasts, None if config.horizon is not None else span


def _pasts(config: Priced, kind: str, cluster: Cluster, notes: list[str]) -> tuple[Workload, ...]:
    """Past jobs from files."""
    found = []
    for name in config.history or ():
        path = Path(name)
        asked = config.history_format or ("auto" if config.jobs is None else config.format)
        past = read_jobs(config, path, asked if asked != "auto" else format_of(path), cluster)
        notes.append(f"history: {path.name}, {len(past):,} jobs")
        notes += _told(past, f"{path.name}: ")
        found.append(past)
    return tuple(found)


def _split(
    config: Scene, jobs: Workload, pasts: tuple[Workload, ...], history: bool, notes: list[str]
) -> tuple[Workload, tuple[Workload, ...], int]:
    """The jobs that are scored, history (given, or the jobs before them), and the slot of the file that is now 0.

    The run follows on history without a gap, so that its load can be seen to rise or fall.
    """
    span, last = config.span(), max(job.arrival for job in jobs) + 1
    if span is not None:
        cut, first, last = span[0], max(0, 2 * span[0] - span[1]), span[1]
    elif history and not pasts and isinstance(config, Priced):
        cut, first = _cut(config, jobs), jobs[0].arrival
    else:
        return jobs, pasts, 0
    chosen = _stretch(jobs, cut, last)
    if not len(chosen):
        known = f"{jobs[0].arrival} to {jobs[-1].arrival}"
        raise InputError(f"--window {config.window}: no job arrives in it; arrivals are in slots {known}")
    if history and not pasts:
        past = _stretch(jobs, first, cut)
        if not len(past):
            raise InputError(f"--window {config.window}: no job arrives before it to calibrate on; give --history FILE")
        pasts = (past,)
        when = f"slot {first}" if cut == first + 1 else f"slots {first} to {cut - 1}"
        notes.append(
            f"no --history: prices come from the {len(past):,} jobs that arrive in {when}, which are not scored"
        )
    moved = f"; slot 0 is slot {cut} of the file" if cut else ""
    notes.append(f"scored: the {len(chosen):,} jobs that arrive in slots {cut} to {last - 1}{moved}")
    return chosen, pasts, cut


def _stretch(jobs: Workload, first: int, last: int) -> Workload:
    """Jobs of some slots with the first of them as slot 0, its calendar time told where the file's start is a date."""
    found = replace(jobs, start="").between(first, last)
    try:
        start = datetime.fromisoformat(jobs.start) + timedelta(seconds=first * jobs.slot)
    except (ValueError, OverflowError):
        return found
    return replace(found, start=start.isoformat())


def _cut(config: Priced, jobs: Workload) -> int:
    """The slot from which jobs are scored: those before it are about the share that is history."""
    cut = jobs[min(len(jobs) - 1, max(1, round(config.history_share * len(jobs))))].arrival
    if cut == jobs[0].arrival:
        cut = next((job.arrival for job in jobs if job.arrival > cut), cut)
    if cut == jobs[0].arrival:
        raise InputError(
            f"{jobs.source}: every job arrives in slot {cut}, so that none can be history; give --history FILE of past "
            "jobs, or --prices fixed, or policies without prices (--policy fifo,drf,srtf)"
        )
    return cut


def _disturbed(config: Scene, jobs: Workload, stream: int) -> Workload:
    """Restart times, and true durations that are not the stated ones."""
    changes: list[dict[str, Any]] = [{} for _ in jobs]
    if config.restart is not None:
        from equipoise.units import seconds

        for change in changes:
            change["restart"] = seconds(config.restart, "restart") / jobs.slot
    if config.wrong:
        off = np.random.default_rng([config.seed, 11, stream]).uniform(-config.wrong, config.wrong, len(jobs))
        for change, part in zip(changes, off, strict=True):
            change["actual"] = float(1.0 + part)
    if not any(changes):
        return jobs
    return replace(jobs, jobs=tuple(job.but(**change) for job, change in zip(jobs, changes, strict=True)))


def _told(jobs: Workload, whose: str) -> list[str]:
    """What a workload says of itself: its note, and rows that were skipped."""
    out = [whose + jobs.note] if jobs.note else []
    return out + [whose + line for line in skipped_lines(jobs)]


def skipped_lines(jobs: Workload) -> list[str]:
    """Rows that could not be jobs: how many for each reason, and where the first are."""
    kinds: Counter[str] = Counter()
    where: dict[str, list[int]] = {}
    shown: dict[str, str] = {}
    for row in jobs.skipped:
        kind = VARYING.sub("…", row.reason)
        kinds[kind] += 1
        shown.setdefault(kind, row.reason)
        where.setdefault(kind, []).append(row.line)
    total = len(jobs) + len(jobs.skipped)
    out = []
    for kind, count in kinds.most_common():
        lines = ", ".join(map(str, where[kind][:FIRST_LINES])) + (", ..." if count > FIRST_LINES else "")
        said = f"line{'s' if count > 1 else ''} {lines}"
        out.append(f"skipped {count:,} of {total:,} rows: {shown[kind]} ({said})")
    return out


# Files.


def read_jobs(config: Scene, path: Path, kind: str, cluster: Cluster | None) -> Workload:
    """Our own format for this cluster, or a trace with what the settings say of it."""
    from equipoise.place import read, traces

    if kind == "own":
        for name in ("elasticity", "gpus_per_machine"):
            if getattr(config, name) is not None and config.machines is None:
                raise InputError(f"--{name.replace('_', '-')} has no effect: {path.name} is no trace")
        if cluster is None:
            raise InputError(f"{path.name} is in our own format already; expected a trace (--format philly, ...)")
        return read.jobs(path, cluster, config.slot)
    reader = traces.TRACES.load(kind)
    given = {
        "slot": config.slot,
        "seed": config.seed,
        "elasticity": config.elasticity,
        "gpus_per_machine": config.gpus_per_machine,
        "sized_utility": config.sized_utility,
    }
    takes = inspect.signature(reader).parameters
    given = {name: value for name, value in given.items() if value is not None}
    if "elasticity" in given and "elasticity" not in takes:
        raise InputError(f"--elasticity has no effect: jobs of a trace of format {kind} have the width they asked for")
    return reader(path, **{name: value for name, value in given.items() if name in takes})


def read_cluster(config: Scene, kind: str) -> Cluster:
    """From a file, or so many equal GPU machines."""
    from equipoise.place import read, traces

    if config.cluster is not None:
        if config.machines is not None:
            raise InputError(f"--cluster and --machines {config.machines} are both given; keep one")
        path = Path(config.cluster)
        if path.suffix.lower() == ".csv":
            columns = _columns(path)
            if columns >= NODE_LIST:
                return traces.alibaba_cluster(path)
            if columns >= CLUSTER_TABLE:
                return traces.tiresias_cluster(path)
        return read.cluster(path)
    if config.machines is None:
        raise InputError("no cluster: say what the jobs run on, --cluster FILE, or --machines COUNT of 8 GPUs each")
    return traces.gpu_cluster(config.machines, config.gpus_per_machine or GPUS)


def _first_line(path: Path) -> str:
    from equipoise.place.traces._rows import opened

    return next(iter(opened(path, "jobs, or a trace")), "").strip()


def _columns(path: Path) -> set[str]:
    return {cell.strip().lower() for cell in _first_line(path).split(",")}
