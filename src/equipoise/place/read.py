"""Clusters and jobs from YAML, JSON or CSV files, and back. Every mistake is one line: file, line, value, way out.

In YAML and JSON a file of jobs holds `jobs` (a list), and may hold `slot` (its length, an hour unless given), `defaults`
(fields of every job that does not state its own), `note` and `start`. In CSV a row is a job, `worker.gpu` a column, an
empty cell a field left out; a first line `# slot: 10m` gives the slot.

Times without a unit are seconds, bandwidths bytes per second; `arrival` and the times of a utility are slots. Times may
also be said in slots ("5e-05 slots"), bandwidths as "4.5e11 B/slot" or "unlimited": what is written so is read back
exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from equipoise import units
from equipoise.errors import InputError, unknown_name
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.files import GROUPS, Scalar, Values, at, opened, refuse_unknown, said_of, save, text_of
from equipoise.place.job import KINDS, Demand, Job, Utility, Workload

HOUR = "1h"
UNLIMITED = "unlimited"
LARGEST = 1e300
WHOLE = re.compile(r"^\s*[+-]?\d{1,18}\s*$", re.ASCII)
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
DECIMAL = re.compile(rf"^\s*{NUMBER}\s*$", re.ASCII)
SLOTS = re.compile(rf"^\s*({NUMBER})\s*slots?(?:/sample)?\s*$", re.ASCII)
PER_SLOT = re.compile(rf"^\s*({NUMBER})\s*B/slot\s*$", re.ASCII)
RESOURCE = re.compile(r"^[\w./-]+$")


def cluster(path: str | Path) -> Cluster:
    """Machines, and the bandwidths inside and between them."""
    file = opened(Path(path), "machines")
    machines = []
    for where, values in file.entries:
        with at(file.path, where):
            machines.append(machine_from(values))
    with at(file.path, file.where):
        rates = file.settings.get("bandwidth", {})
        if not isinstance(rates, dict):
            raise InputError(f"bandwidth is {rates!r}; expected {{inside: 20Gbps, between: 1Gbps}}")
        refuse_unknown("bandwidth", rates, ("inside", "between"))
        speeds: dict[str, Any] = {name: units.bandwidth(rate, name) for name, rate in rates.items()}
        return Cluster(tuple(machines), **speeds)


def jobs(path: str | Path, cluster: Cluster, slot: str | float | None = None) -> Workload:
    """Jobs for this cluster. `slot` ("10m", or seconds) goes before the file's own."""
    file = opened(Path(path), "jobs", FIELDS)
    with at(file.path, file.where):
        length = units.seconds(file.settings.get("slot", HOUR) if slot is None else slot, "slot")
        if length == 0:
            raise InputError('slot is 0; expected a length such as "10m"')
        refuse_unknown("field in defaults", file.defaults, FIELDS)
    found: list[Job] = []
    seen: dict[str, str] = {}
    for where, values in file.entries:
        with at(file.path, where):
            job = job_from(_with_defaults(values, file.defaults), cluster, length)
            if job.id in seen:
                raise InputError(f"job {job.id!r} is also at {seen[job.id]}; give every job an id of its own")
        seen[job.id] = where
        found.append(job)
    note, start = (str(file.settings.get(name, "")) for name in ("note", "start"))
    return Workload(tuple(found), slot=length, source=str(path), note=note, start=start)


def write_jobs(workload: Iterable[Job], path: str | Path) -> None:
    """YAML, JSON or CSV by the name's ending; `jobs` reads equal jobs from it."""
    save(Path(path), "jobs", *_jobs_entries(workload))


def jobs_text(workload: Iterable[Job], name: str = "jobs.json") -> str:
    """What `write_jobs` writes to a file of this name."""
    return text_of(Path(name), "jobs", *_jobs_entries(workload))


def _jobs_entries(workload: Iterable[Job]) -> tuple[Values, list[Values]]:
    given = Workload.of(workload)
    settings = {"slot": float(given.slot), "note": given.note, "start": given.start}
    return {k: v for k, v in settings.items() if v}, [plain_job(job) for job in given]


def write_cluster(cluster: Cluster, path: str | Path) -> None:
    """YAML, JSON or CSV by the name's ending; `cluster` reads an equal one from it."""
    save(Path(path), "machines", *_cluster_entries(cluster))


def cluster_text(cluster: Cluster, name: str = "cluster.yaml") -> str:
    """What `write_cluster` writes to a file of this name."""
    return text_of(Path(name), "machines", *_cluster_entries(cluster))


def _cluster_entries(cluster: Cluster) -> tuple[Values, list[Values]]:
    rates = {"inside": float(cluster.inside), "between": float(cluster.between)}
    return {"bandwidth": rates}, [plain_machine(m) for m in cluster.machines]


# One entry: plain values to a machine or a job.


def machine_from(values: Values) -> Machine:
    """Equal machines of plain values."""
    refuse_unknown("field of a machine", values, ("name", "count", "capacity"))
    name = str(values.get("name") or "machine")
    with said_of(f"machine {name!r}"):
        capacity = _demand(values.get("capacity"), "capacity")
        count = _number(values.get("count", 1), "count", 0.0)
    return Machine(capacity, count, name)  # type: ignore[arg-type]


def _with_defaults(own: Values, defaults: Values) -> Values:
    """What the job states, then the defaults; null takes a default away. Work has two forms: the job's own wins."""
    if not defaults:
        return {k: v for k, v in own.items() if v is not None}
    ways = {"work"} if {"samples", "epochs"} & own.keys() else {"samples", "epochs"} if "work" in own else set()
    both = {k: v for k, v in defaults.items() if k not in ways} | own
    return {k: v for k, v in both.items() if v is not None}


def job_from(values: Values, cluster: Cluster, slot: float) -> Job:
    """A job of plain values (YAML, JSON, a request), in slots of so many seconds."""
    name = values.get("id")
    if not isinstance(name, Scalar) or not str(name).strip():
        raise InputError("a job has no id; give every job an id of its own")
    with said_of(f"job {str(name)!r}"):
        refuse_unknown("field", values, FIELDS)
        missing = [field for field in NEEDED if field not in values]
        if not {"work", "samples"} & values.keys():
            missing.append("work (or samples and epochs)")
        if missing:
            raise InputError(f"no {', no '.join(missing)}; state it in the job, or for all jobs under defaults")
        read: dict[str, Any] = {k: _cell(k, v, slot) for k, v in values.items() if k in CELLS}
        read["work"] = _work(read)
        read.setdefault("inside", cluster.inside * slot)
        read.setdefault("between", cluster.between * slot)
        for side in ("worker", "server"):
            if side in values:
                read[side] = _demand(values[side], side, cluster)
        read["utility"] = _utility(values["utility"], slot)
        if "tags" in values:
            read["tags"] = {k: str(v) for k, v in _group(values["tags"], "tags", "{team: vision}").items()}
    return Job(id=str(name), **read)


def _work(read: dict[str, Any]) -> float:
    """Samples to go through: `work`, or samples times epochs."""
    samples, epochs, work = read.pop("samples", None), read.pop("epochs", None), read.pop("work", None)
    if work is not None:
        if samples is not None or epochs is not None:
            raise InputError("work and samples or epochs are both given; keep one: work = samples x epochs")
        return float(work)
    if epochs is None:
        raise InputError("samples without epochs; give both, or work = samples x epochs")
    for name, number in (("samples", samples), ("epochs", epochs)):
        if not number > 0:
            raise InputError(f"{name} is {number!r}; expected a positive number")
    return float(samples) * float(epochs)


def _utility(given: object, slot: float) -> Utility:
    values = _group(given, "utility", "{kind: deadline, value: 10, slots: 24}")
    kind = values.pop("kind", None)
    if kind is None:
        raise InputError(f"utility has no kind; expected one of {', '.join(KINDS)}")
    if kind not in KINDS:
        raise unknown_name("utility", str(kind), KINDS)
    wanted = [field.name for field in fields(KINDS[str(kind)])]  # type: ignore[arg-type]
    refuse_unknown(f"field of utility {kind}", values, wanted)
    if missing := [name for name in wanted if name not in values]:
        raise InputError(f"utility {kind} has no {', no '.join(missing)}; expected {', '.join(wanted)}")
    return KINDS[str(kind)](**{name: _cell(f"utility.{name}", value, slot) for name, value in values.items()})


def _demand(given: object, side: str, cluster: Cluster | None = None) -> Demand:
    """Milli-units by resource; a resource the cluster lacks may only be asked for as 0."""
    out = Demand()
    for name, value in _group(given, side, "{gpu: 1, cpu: 4, memory: 16Gi}").items():
        if not RESOURCE.match(name):
            raise InputError(f"{side}: the resource {name!r} is no name; expected letters, digits, . / - or _")
        out[name] = _milli(value, f"{side}: {name}")
        if cluster is not None and out[name] and name not in cluster.resources:
            raise unknown_name(f"resource in {side}:", name, cluster.resources)
    return out


def _group(given: object, name: str, example: str) -> Values:
    if not isinstance(given, dict):
        raise InputError(f"{name} is {'missing' if given is None else repr(given)}; expected a mapping, as {example}")
    return {key: value for key, value in given.items() if value is not None}


# One cell: text or a number to what a Job holds, with times in slots.


def _number(value: Scalar, what: str, slot: float) -> int | float:
    if isinstance(value, str):
        if WHOLE.match(value):
            return int(value)
        if DECIMAL.match(value) and math.isfinite(float(value)):
            return float(value)
    elif abs(value) <= LARGEST:  # not infinite, not a number, nor an integer that no float holds
        return value
    raise InputError(f"{what} is {str(value)[:40]!r}; expected a number")


def _slots(value: Scalar, what: str, slot: float) -> float:
    """A length of time in slots; without a unit it is seconds."""
    said = SLOTS.match(value) if isinstance(value, str) else None
    return _number(said.group(1), what, slot) if said else units.seconds(value, what) / slot


def _wait(value: Scalar, what: str, slot: float) -> float:
    """A length of time in slots; without a unit it is slots."""
    bare = not isinstance(value, str) or DECIMAL.match(value)
    return _number(value, what, slot) if bare else _slots(value, what, slot)


def _arrival(value: Scalar, what: str, slot: float) -> int | float:
    """A slot number, or a time, which falls in the slot that holds it."""
    if not isinstance(value, str) or DECIMAL.match(value):
        return _number(value, what, slot)
    if said := SLOTS.match(value):
        return _number(said.group(1), what, slot)
    return Fraction(repr(units.seconds(value, what))) // Fraction(repr(slot))


def _size(value: Scalar, what: str, slot: float) -> float:
    return units.size(value, what)


def _rate(value: Scalar, what: str, slot: float) -> float:
    """Bytes per slot."""
    if isinstance(value, str):
        if value.strip() == UNLIMITED:
            return math.inf
        if said := PER_SLOT.match(value):
            return _number(said.group(1), what, slot)
    return units.bandwidth(value, what) * slot


CELLS: dict[str, Callable[[Scalar, str, float], int | float]] = {
    "arrival": _arrival,
    "work": _number,
    "samples": _number,
    "epochs": _number,
    "batch": _number,
    "time_per_sample": _slots,
    "gradient": _size,
    "workers_per_server": _number,
    "inside": _rate,
    "between": _rate,
    "requested": _number,
    "most": _number,
    "restart": _slots,
    "actual": _number,
    "utility.value": _number,
    "utility.steepness": _number,
    "utility.middle": _wait,
    "utility.slots": _wait,
}
FIELDS = ("id", *(name for name in CELLS if "." not in name), *GROUPS)
NEEDED = ("arrival", "batch", "time_per_sample", "worker", "utility")


@lru_cache(maxsize=1 << 16)  # files repeat themselves
def _cell_once(name: str, value: Scalar, slot: float) -> int | float:
    return CELLS[name](value, name, slot)


def _cell(name: str, value: object, slot: float) -> int | float:
    if not isinstance(value, Scalar):
        raise InputError(f"{name} is {value!r}; expected one value")
    if isinstance(value, str) and len(value) > units.LONGEST:
        raise InputError(f"{name} is {value[:20]!r}... of {len(value)} characters; expected a short value")
    return _cell_once(name, value, slot)


@lru_cache(maxsize=1 << 16)
def _milli(value: Scalar, what: str) -> int:
    return units.resource(value, what)


# Back to plain values.


def plain_job(job: Job) -> Values:
    """The fields of a job that `job_from` reads back to an equal one, whatever the cluster."""
    if not job.id.strip():
        raise InputError(f"a job has the id {job.id!r}, which cannot be written; expected a visible name")
    utility = {name: v if name == "kind" else float(v) for name, v in job.utility.as_dict().items()}
    plain = {
        "id": job.id,
        "arrival": job.arrival,
        "work": float(job.work),
        "batch": job.batch,
        "time_per_sample": f"{float(job.time_per_sample)!r} slots",
        "gradient": float(job.gradient),
        "worker": _plain(job.worker),
        "server": None if job.server is None else _plain(job.server),
        "workers_per_server": job.workers_per_server,
        "inside": _plain_rate(job.inside),
        "between": _plain_rate(job.between),
        "requested": job.requested,
        "most": job.most,
        "restart": f"{float(job.restart)!r} slots" if job.restart else None,
        "actual": float(job.actual) if job.actual != 1.0 else None,
        "utility": utility,
        "tags": {str(k): str(v) for k, v in job.tags.items()} or None,
    }
    return {name: value for name, value in plain.items() if value is not None}


def plain_machine(machine: Machine) -> Values:
    """What `machine_from` reads back to an equal one."""
    return {"name": machine.name, "count": machine.count, "capacity": _plain(machine.capacity)}


def _plain(held: Mapping[str, int]) -> dict[str, int | str]:
    """Milli-units as 4, "500m" or "16Gi": exact."""
    out: dict[str, int | str] = {}
    for name, milli in held.items():
        out[name] = f"{milli}m" if milli % units.MILLI else milli // units.MILLI
        for suffix, power in (("Mi", 2), ("Gi", 3), ("Ti", 4)):
            if milli and milli % (1024**power * units.MILLI) == 0:
                out[name] = f"{milli // (1024**power * units.MILLI)}{suffix}"
    return out


def _plain_rate(per_slot: float) -> str:
    return UNLIMITED if math.isinf(per_slot) else f"{float(per_slot)!r} B/slot"
