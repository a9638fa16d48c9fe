"""Clusters and jobs from YAML, JSON or CSV files, and back. Every mistake is one line: file, line, value, way out.

In YAML and JSON a file of jobs holds `jobs` (a list), and may hold `slot` (its length, an hour unless given), `defaults`
(fields of every job that does not state its own), `note` and `start`. In CSV a row is a job, `worker.gpu` a column, an
empty cell a field left out; a first line `# slot: 10m` gives the slot.

Times without a unit are seconds, bandwidths bytes per second; `arrival` and the times of a utility are slots. Times may
also be said in slots ("5e-05 slots"), bandwidths as "4.5e11 B/slot" or "unlimited": what is written so is read back
exactly.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from equipoise.errors import InputError, unknown_name
from equipoise.place import quantity
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Demand, Job, Workload
from equipoise.place.utility import KINDS, Utility

HOUR = "1h"
UNLIMITED = "unlimited"
DEEPEST = 20  # levels of a YAML file; ours need four
LONGEST = 400  # characters of a message: one line that a terminal can show
WHOLE = re.compile(r"^\s*[+-]?\d{1,18}\s*$", re.ASCII)
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
DECIMAL = re.compile(rf"^\s*{NUMBER}\s*$", re.ASCII)
SLOTS = re.compile(rf"^\s*({NUMBER})\s*slots?(?:/sample)?\s*$", re.ASCII)
PER_SLOT = re.compile(rf"^\s*({NUMBER})\s*B/slot\s*$", re.ASCII)
YAML_KINDS = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "value", "merge")
RESOURCE = re.compile(r"^[\w./-]+$")

Scalar = str | int | float
Values = dict[str, Any]  # a Scalar, a dict of them, or None: left out


def cluster(path: str | Path) -> Cluster:
    """Machines, and the bandwidths inside and between them."""
    file = _open(Path(path), "machines")
    machines = []
    for where, values in file.entries:
        with _at(file.path, where):
            machines.append(_machine(values))
    with _at(file.path, file.where):
        rates = file.settings.get("bandwidth", {})
        if not isinstance(rates, dict):
            raise InputError(f"bandwidth is {rates!r}; expected {{inside: 20Gbps, between: 1Gbps}}")
        _known("bandwidth", rates, ("inside", "between"))
        speeds: dict[str, Any] = {name: quantity.bandwidth(rate, name) for name, rate in rates.items()}
        return Cluster(tuple(machines), **speeds)


def jobs(path: str | Path, cluster: Cluster, slot: str | float | None = None) -> Workload:
    """Jobs for this cluster. `slot` ("10m", or seconds) goes before the file's own."""
    file = _open(Path(path), "jobs")
    with _at(file.path, file.where):
        length = quantity.seconds(file.settings.get("slot", HOUR) if slot is None else slot, "slot")
        if length == 0:
            raise InputError('slot is 0; expected a length such as "10m"')
        _known("field in defaults", file.defaults, FIELDS)
    found: list[Job] = []
    seen: dict[str, str] = {}
    for where, values in file.entries:
        with _at(file.path, where):
            job = _job(_with_defaults(values, file.defaults), cluster, length)
            if job.id in seen:
                raise InputError(f"job {job.id!r} is also at {seen[job.id]}; give every job an id of its own")
        seen[job.id] = where
        found.append(job)
    note, start = (str(file.settings.get(name, "")) for name in ("note", "start"))
    return Workload(tuple(found), slot=length, source=str(path), note=note, start=start)


def write_jobs(workload: Iterable[Job], path: str | Path) -> None:
    """YAML, JSON or CSV by the name's ending; `jobs` reads equal jobs from it."""
    given = Workload.of(workload)
    settings = {"slot": float(given.slot), "note": given.note, "start": given.start}
    _save(Path(path), "jobs", {k: v for k, v in settings.items() if v}, [_plain_job(job) for job in given])


def write_cluster(cluster: Cluster, path: str | Path) -> None:
    """YAML, JSON or CSV by the name's ending; `cluster` reads an equal one from it."""
    rates = {"inside": float(cluster.inside), "between": float(cluster.between)}
    machines = [{"name": m.name, "count": m.count, "capacity": _plain(m.capacity)} for m in cluster.machines]
    _save(Path(path), "machines", {"bandwidth": rates}, machines)


# One entry: plain values to a machine or a job.


def _machine(values: Values) -> Machine:
    _known("field of a machine", values, ("name", "count", "capacity"))
    name = str(values.get("name") or "machine")
    with _as(f"machine {name!r}"):
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


def _job(values: Values, cluster: Cluster, slot: float) -> Job:
    name = values.get("id")
    if not isinstance(name, Scalar) or not str(name).strip():
        raise InputError("a job has no id; give every job an id of its own")
    with _as(f"job {str(name)!r}"):
        _known("field", values, FIELDS)
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
    return float(samples * epochs)


def _utility(given: object, slot: float) -> Utility:
    values = _group(given, "utility", "{kind: deadline, value: 10, slots: 24}")
    kind = values.pop("kind", None)
    if kind is None:
        raise InputError(f"utility has no kind; expected one of {', '.join(KINDS)}")
    if kind not in KINDS:
        raise unknown_name("utility", str(kind), KINDS)
    wanted = [field.name for field in fields(KINDS[str(kind)])]  # type: ignore[arg-type]
    _known(f"field of utility {kind}", values, wanted)
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


def _known(kind: str, values: Iterable[str], known: Iterable[str]) -> None:
    for name in values:
        if name not in known:
            raise unknown_name(kind, name, known)


# One cell: text or a number to what a Job holds, with times in slots.


def _number(value: Scalar, what: str, slot: float) -> int | float:
    if isinstance(value, str):
        if WHOLE.match(value):
            return int(value)
        if DECIMAL.match(value) and math.isfinite(float(value)):
            return float(value)
    elif math.isfinite(value):
        return value
    raise InputError(f"{what} is {value!r}; expected a number")


def _slots(value: Scalar, what: str, slot: float) -> float:
    """A length of time in slots; without a unit it is seconds."""
    said = SLOTS.match(value) if isinstance(value, str) else None
    return _number(said.group(1), what, slot) if said else quantity.seconds(value, what) / slot


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
    return Fraction(repr(quantity.seconds(value, what))) // Fraction(repr(slot))


def _size(value: Scalar, what: str, slot: float) -> float:
    return quantity.size(value, what)


def _rate(value: Scalar, what: str, slot: float) -> float:
    """Bytes per slot."""
    if isinstance(value, str):
        if value.strip() == UNLIMITED:
            return math.inf
        if said := PER_SLOT.match(value):
            return _number(said.group(1), what, slot)
    return quantity.bandwidth(value, what) * slot


CELLS: dict[str, Callable[[Scalar, str, float], int | float]] = {
    "arrival": _arrival, "work": _number, "samples": _number, "epochs": _number, "batch": _number,
    "time_per_sample": _slots, "gradient": _size, "workers_per_server": _number, "inside": _rate, "between": _rate,
    "requested": _number, "most": _number, "restart": _slots, "actual": _number,
    "utility.value": _number, "utility.steepness": _number, "utility.middle": _wait, "utility.slots": _wait,
}  # fmt: skip
GROUPS = ("worker", "server", "utility", "tags")
FIELDS = ("id", *(name for name in CELLS if "." not in name), *GROUPS)
NEEDED = ("arrival", "batch", "time_per_sample", "worker", "utility")


@lru_cache(maxsize=1 << 16)  # files repeat themselves
def _cell_once(name: str, value: Scalar, slot: float) -> int | float:
    return CELLS[name](value, name, slot)


def _cell(name: str, value: object, slot: float) -> int | float:
    if not isinstance(value, Scalar):
        raise InputError(f"{name} is {value!r}; expected one value")
    if isinstance(value, str) and len(value) > quantity.LONGEST:
        raise InputError(f"{name} is {value[:20]!r}... of {len(value)} characters; expected a short value")
    return _cell_once(name, value, slot)


@lru_cache(maxsize=1 << 16)
def _milli(value: Scalar, what: str) -> int:
    return quantity.resource(value, what)


# Back to plain values.


def _plain_job(job: Job) -> Values:
    """The fields of a job that `_job` reads back to an equal one, whatever the cluster."""
    if not job.id.strip():
        raise InputError(f"a job has the id {job.id!r}, which cannot be written; expected a visible name")
    utility = {name: v if name == "kind" else float(v) for name, v in job.utility.as_dict().items()}
    plain = {
        "id": job.id, "arrival": job.arrival, "work": float(job.work), "batch": job.batch,
        "time_per_sample": f"{float(job.time_per_sample)!r} slots", "gradient": float(job.gradient),
        "worker": _plain(job.worker), "server": None if job.server is None else _plain(job.server),
        "workers_per_server": job.workers_per_server, "inside": _plain_rate(job.inside),
        "between": _plain_rate(job.between), "requested": job.requested, "most": job.most,
        "restart": f"{float(job.restart)!r} slots" if job.restart else None,
        "actual": float(job.actual) if job.actual != 1.0 else None,
        "utility": utility, "tags": {str(k): str(v) for k, v in job.tags.items()} or None,
    }  # fmt: skip
    return {name: value for name, value in plain.items() if value is not None}


def _plain(held: Mapping[str, int]) -> dict[str, int | str]:
    """Milli-units as 4, "500m" or "16Gi": exact."""
    out: dict[str, int | str] = {}
    for name, milli in held.items():
        out[name] = f"{milli}m" if milli % quantity.MILLI else milli // quantity.MILLI
        for suffix, power in (("Mi", 2), ("Gi", 3), ("Ti", 4)):
            if milli and milli % (1024**power * quantity.MILLI) == 0:
                out[name] = f"{milli // (1024**power * quantity.MILLI)}{suffix}"
    return out


def _plain_rate(per_slot: float) -> str:
    return UNLIMITED if math.isinf(per_slot) else f"{float(per_slot)!r} B/slot"


# Files.


@dataclass
class _File:
    """What a file says: settings that hold for all, and the entries, each with where it stands."""

    path: Path
    where: str
    settings: Values
    defaults: Values
    entries: list[tuple[str, Values]]


def _one_line(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 120]} ... {line[-110:]}"


@contextmanager
def _at(path: Path, where: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(_one_line(f"{path}, {where}: {error}")) from None


@contextmanager
def _as(who: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{who}: {error}") from None


def _ending(path: Path) -> str:
    ending = path.suffix.lower().replace(".yml", ".yaml")
    if ending not in (".yaml", ".json", ".csv"):
        raise InputError(_one_line(f"{path}: the name ends in {path.suffix!r}; expected .yaml, .json or .csv"))
    return ending


def _open(path: Path, many: str) -> _File:
    ending = _ending(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(_one_line(f"{path}: no such file; check the path (from {Path.cwd()})")) from None
    except OSError as error:
        raise InputError(_one_line(f"{path}: cannot be read ({error.strerror}); expected a file")) from None
    except UnicodeDecodeError as error:
        raise InputError(_one_line(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8 text")) from None
    try:
        file = {".yaml": _from_yaml, ".json": _from_json, ".csv": _from_csv}[ending](path, text, many)
    except RecursionError:
        raise InputError(_one_line(f"{path}: nested too deeply; expected a list of {many}")) from None
    if not file.entries:
        raise InputError(_one_line(f"{path}: no {many}; expected at least one"))
    return file


def _document(path: Path, many: str, top: Values, entries: list[tuple[str, object]], where: str = "line 1") -> _File:
    """Check the top of a YAML or JSON file, and that every field is one value or a mapping of values."""
    with _at(path, where):
        _known("field", top, (many, "slot", "defaults", "note", "start") if many == "jobs" else (many, "bandwidth"))
        settings = _fields({k: v for k, v in top.items() if k != many and v is not None})
        defaults = settings.pop("defaults", {})
        if not isinstance(defaults, dict):
            raise InputError(f"defaults is {defaults!r}; expected a mapping of fields")
        if many not in top:
            raise InputError(f"no {many}; expected a list under `{many}:`")
    checked = []
    for spot, values in entries:
        with _at(path, spot):
            if not isinstance(values, dict):
                raise InputError(f"{_named(values)} in {many}; expected a mapping of fields")
            name = values.get("id" if many == "jobs" else "name")
            with _as(f"{many[:-1]} {name!r}" if isinstance(name, Scalar) else f"a {many[:-1]}"):
                checked.append((spot, _fields(values)))
    return _File(path, where, settings, defaults, checked)


def _fields(values: dict[str, Any], depth: int = 2) -> Values:
    for name, value in values.items():
        if isinstance(value, dict) and depth:
            with _as(name):
                _fields(value, depth - 1 if name == "defaults" else 0)
        elif isinstance(value, bool | list | dict):
            raise InputError(f"{name} is {_named(value)}; expected one value")
    return values


def _named(value: object) -> str:
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else repr(value)


def _pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping in which no key comes twice."""
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            whose = f" by {out['id']!r}" if "id" in out else ""
            raise InputError(f"{key!r} is given twice{whose}; keep one")
        out[key] = value
    return out


def _from_json(path: Path, text: str, many: str) -> _File:
    try:
        top = json.loads(text, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        raise InputError(_one_line(f"{path}, line {error.lineno}: not JSON ({error.msg}); correct it there")) from None
    except ValueError as error:  # a key twice, or a number of thousands of digits
        raise InputError(_one_line(f"{path}: {error}")) from None
    if not isinstance(top, dict):
        raise InputError(_one_line(f"{path}: {_named(top)}; expected a mapping with `{many}`"))
    found = top.get(many, [])
    if not isinstance(found, list):
        raise InputError(_one_line(f"{path}: {many} is {_named(found)}; expected a list"))
    entries = [(f"entry {k} of {many}", values) for k, values in enumerate(found, 1)]
    return _document(path, many, top, entries, "top")


def _from_yaml(path: Path, text: str, many: str) -> _File:
    """Only composed, never constructed: a tag cannot run anything, and every node knows its line."""
    import yaml

    class Shallow(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """libyaml's composer recurses in C, and thousands of brackets would end the process: count them."""

        depth = 0

        def descend_resolver(self, parent: object, index: object) -> None:
            self.depth += 1
            if self.depth > DEEPEST:
                raise RecursionError

        def ascend_resolver(self) -> None:
            self.depth -= 1

    try:
        root = yaml.compose(text, Loader=Shallow)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        since = f", {error.context} from line {error.context_mark.line + 1}" if error.context_mark else ""
        raise InputError(_one_line(f"{path}{line}: not YAML ({error.problem}{since}); correct it there")) from None
    except yaml.YAMLError as error:
        raise InputError(_one_line(f"{path}: not YAML ({error}); correct it")) from None
    if root is None:
        raise InputError(_one_line(f"{path}: empty; expected a list under `{many}:`"))

    def spot(node: yaml.Node) -> str:
        return f"line {node.start_mark.line + 1}"

    def refuse(node: yaml.Node, message: str) -> NoReturn:
        raise InputError(_one_line(f"{path}, {spot(node)}: {message}"))

    def lower(node: yaml.Node, depth: int) -> Any:
        """Scalars stay text; a list, or what lies too deep, is only named."""
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in YAML_KINDS:
            refuse(node, f"the tag {node.tag!r} is not read; expected plain values")
        if isinstance(node, yaml.ScalarNode):
            if kind == "bool":
                return node.value.lower() in ("yes", "true", "on")
            return None if kind == "null" else str(node.value)
        out: dict[str, Any] = {}
        if not isinstance(node, yaml.MappingNode):
            return []
        for name, value in node.value if depth else ():
            if not isinstance(name, yaml.ScalarNode):
                refuse(name, "a name is a list or a mapping; expected a word")
            if name.tag.endswith(":merge"):
                refuse(name, "`<<` is not read; put what jobs share under `defaults:`")
            if name.value in out:
                refuse(name, f"{name.value!r} is given twice; keep one")
            out[str(name.value)] = lower(value, depth - 1)
        return out

    top = lower(root, 3)
    if not isinstance(top, dict):
        raise InputError(_one_line(f"{path}, line 1: {_named(top)}; expected a list under `{many}:`"))
    entries: list[tuple[str, object]] = []
    for name, node in root.value:
        if name.value == many:
            if not isinstance(node, yaml.SequenceNode):
                refuse(node, f"{many} is {_named(top[many])}; expected a list")
            entries = [(spot(one), lower(one, 2)) for one in node.value]
    return _document(path, many, top, entries)


def _from_csv(path: Path, text: str, many: str) -> _File:
    """A row an entry. Lines `# name: value` before the header are settings, where the name is one; else comments."""
    stream = io.StringIO(text, newline="")
    settings: dict[str, Any] = {}
    above, start = 0, 0
    while (line := stream.readline()).startswith("#"):
        above, start = above + 1, stream.tell()
        name, _, value = line.lstrip("# ").partition(":")
        if many == "jobs" and name.strip() in ("slot", "note", "start"):
            settings[name.strip()] = value.strip()
        elif many == "machines" and name.strip() in ("inside", "between"):
            settings.setdefault("bandwidth", {})[name.strip()] = value.strip()
    stream.seek(start)
    rows = csv.reader(stream, strict=True)
    columns: list[str] = []
    places: list[tuple[str, str]] = []  # group ("" for none) and name of every column
    entries: list[tuple[str, Values]] = []
    first = above + 1
    try:
        for row in rows:
            where, first = f"line {first}", above + rows.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if not columns:
                columns = [cell.strip() for cell in row]
                with _at(path, where):
                    places = _columns(columns, many)
            elif len(row) != len(columns):
                message = (
                    f"{len(row)} cells under {len(columns)} columns; expected as many, empty where nothing is said"
                )
                raise InputError(_one_line(f"{path}, {where}: {message}"))
            else:
                values: Values = {}
                for (group, name), cell in zip(places, row, strict=True):
                    if cell and not cell.isspace():
                        (values.setdefault(group, {}) if group else values)[name] = cell
                entries.append((where, values))
    except csv.Error as error:
        raise InputError(_one_line(f"{path}, line {first}: not CSV ({error}); correct it there")) from None
    return _File(path, "line 1", settings, {}, entries)


def _columns(columns: list[str], many: str) -> list[tuple[str, str]]:
    _pairs((name, None) for name in columns)
    if many == "machines":
        return [("", name) if name in ("name", "count") else ("capacity", name) for name in columns]
    places = []
    for column in columns:
        group, dot, name = column.partition(".")
        if group in GROUPS and not name:
            raise InputError(f"the column {column!r} is a group; expected one column each, as 'worker.gpu'")
        if not (dot and group in GROUPS):
            _known("column", [column], FIELDS)
        places.append((group, name) if group in GROUPS else ("", column))
    return places


def _save(path: Path, many: str, settings: Values, entries: list[Values]) -> None:
    ending = _ending(path)
    try:
        path.write_bytes(_text(path, ending, many, settings, entries).encode("utf-8"))
    except OSError as error:
        raise InputError(_one_line(f"{path}: cannot be written ({error.strerror}); check the folder")) from None
    except UnicodeEncodeError as error:
        raise InputError(_one_line(f"{path}: {error.object!r} cannot be written as UTF-8; rename it")) from None


def _text(path: Path, ending: str, many: str, settings: Values, entries: list[Values]) -> str:
    if ending == ".csv":
        return _to_csv(path, settings, entries)
    if ending == ".json":
        lines = [f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in settings.items()]
        listed = ",\n    ".join(json.dumps(entry, allow_nan=False) for entry in entries)
        return f'{{\n{"".join(lines)}  "{many}": [\n    {listed}\n  ]\n}}\n'
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    told: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": None}
    return str(yaml.dump(settings | {many: entries}, Dumper=dumper, **told))


def _tellable(column: str, cell: str) -> bool:
    """Whether CSV keeps it: no blank cell, no stray carriage return, no column name with spaces around it."""
    bare = column.strip()
    return bool(cell.strip()) and "\r" not in column + cell and column == bare and not bare.endswith(".")


def _to_csv(path: Path, settings: Values, entries: list[Values]) -> str:
    flat = []
    for entry in entries:
        row: Values = {}
        for name, value in entry.items():
            prefix = "" if name == "capacity" else f"{name}."
            inner = {prefix + k: v for k, v in value.items()} if isinstance(value, dict) else {name: value}
            if not inner or not all(_tellable(k, str(v)) for k, v in inner.items()):
                raise InputError(_one_line(f"{path}: {name} {value!r} cannot be told in CSV; write .yaml or .json"))
            row |= inner
        flat.append(row)
    out = io.StringIO(newline="")
    for name, value in settings.items():
        for inside, said in value.items() if isinstance(value, dict) else [(name, value)]:
            out.write(f"# {inside}: {_one_line(str(said))}\n")
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in flat for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()
