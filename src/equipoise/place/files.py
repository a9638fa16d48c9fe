"""A YAML, JSON or CSV file as settings and entries, each entry with the place it stands in; and back.

Every mistake is one line that names file and line. What the entries mean is for `job_spec` to say.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from equipoise import units
from equipoise.errors import InputError, refuse_unknown, said_of
from equipoise.place.calendar import Calendar
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job, Workload
from equipoise.place.job_spec import (
    FIELDS,
    GROUPS,
    HOUR,
    KINDS,
    WINDOW_FIELDS,
    Values,
    WindowSpec,
    job_from,
    machine_from,
    plain_job,
    plain_machine,
)

DEEPEST = 20  # levels of a YAML file; ours need four
BANDWIDTHS = ("inside", "between", "across")  # of a cluster
LONGEST = 400  # characters of a message: one line that a terminal can show
CALENDAR = "calendar.yaml"  # its name in a run folder
AMOUNTS = {
    "machines": ("capacity", ("name", "count", *KINDS)),
    "windows": ("amount", WINDOW_FIELDS),
}  # of what other columns are
Entries = list[tuple[str, object]]  # where each stands, and what stands there
YAML_KINDS = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "value", "merge")


@dataclass
class EntryFile:
    """What a file says: settings that hold for all, and the entries, each with where it stands."""

    path: Path
    where: str
    settings: Values
    defaults: Values
    entries: list[tuple[str, Values]]
    listed: bool = True  # False: the file is one entry


def one_line(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 120]} ... {line[-110:]}"


@contextmanager
def at(path: Path, where: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(one_line(f"{path}, {where}: {error}"), code=error.code) from None


def refused(path: Path, message: str, where: str = "", code: str = "file.form") -> InputError:
    """The error of a file: one line with its name, and the place in it."""
    return InputError(one_line(f"{path}{f', {where}' if where else ''}: {message}"), code=code)


@contextmanager
def reading(path: Path, expected: str = "a file") -> Iterator[None]:
    """A file that cannot be read is one line."""
    try:
        yield
    except FileNotFoundError:
        raise refused(path, f"no such file (from {Path.cwd()}); expected {expected}", code="file.missing") from None
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or error
        raise refused(path, f"cannot be read ({why}); expected {expected}", code="file.read") from None
    except UnicodeDecodeError:  # of a stream: it counts from the part that it read last
        raise refused(path, f"not UTF-8 text; expected {expected}", code="file.read") from None


def ending_of(path: Path) -> str:
    """.yaml, .json or .csv; any other is refused."""
    ending = path.suffix.lower().replace(".yml", ".yaml")
    if ending not in (".yaml", ".json", ".csv"):
        raise refused(path, f"the name ends in {path.suffix!r}; expected .yaml, .json or .csv")
    return ending


def opened(path: Path, many: str, *, text: str | None = None, single: bool = False) -> EntryFile:
    """Read a file of `many`, "jobs", "machines" or "windows".

    `text` is YAML that was read already; with `single` the file may be the fields of one entry.
    """
    ending = ".yaml" if text is not None else ending_of(path)
    if text is None:
        with reading(path):
            content = path.read_bytes()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            message = f"byte {error.start} is not UTF-8; save the file as UTF-8 text"
            raise refused(path, message, code="file.read") from None
    try:
        if ending == ".csv":
            file = _from_csv(path, text, many)
        else:
            found = _from_yaml(path, text, many, single) if ending == ".yaml" else _from_json(path, text, many)
            file = _document(path, many, single, *found)
    except RecursionError:
        raise refused(path, f"nested too deeply; expected a list of {many}") from None
    if not file.entries:
        raise refused(path, f"no {many}; expected at least one")
    return file


def _document(path: Path, many: str, single: bool, where: str, top: Values, entries: Entries) -> EntryFile:
    """Check the top of a YAML or JSON file, and that every field is one value or a mapping of values."""
    with at(path, where):
        if single and many not in top:
            return EntryFile(path, where, {}, {}, [(where, _fields(top))], listed=False)
        known = {"jobs": ("slot", "defaults", "note", "start"), "machines": ("bandwidth",)}.get(many, ())
        refuse_unknown("field", top, (many, *known))
        settings = _fields({k: v for k, v in top.items() if k != many and v is not None})
        defaults = settings.pop("defaults", {})
        if not isinstance(defaults, dict):
            raise InputError(f"defaults is {defaults!r}; expected a mapping of fields")
        if many not in top:
            raise InputError(f"no {many}; expected a list under `{many}:`")
    checked = []
    for spot, values in entries:
        with at(path, spot):
            if not isinstance(values, dict):
                raise InputError(f"{_named(values)} in {many}; expected a mapping of fields")
            name = values.get("id" if many == "jobs" else "name")
            with said_of(f"{many[:-1]} {name!r}" if isinstance(name, str | int | float) else f"a {many[:-1]}"):
                checked.append((spot, _fields(values)))
    return EntryFile(path, where, settings, defaults, checked)


def _fields(values: dict[str, object], depth: int = 2, listed: bool = False) -> Values:
    for name, value in values.items():
        if isinstance(value, dict) and depth:
            with said_of(name):
                _fields(value, depth - 1 if name == "defaults" else 0, name == "speeds")
        elif listed and isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
            continue
        elif isinstance(value, bool | list | dict):
            raise InputError(f"{name} is {_named(value)}; expected one value")
    return values


def _named(value: object) -> str:
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else repr(value)


def _pairs(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """A mapping in which no key comes twice."""
    out: dict[str, object] = {}
    for key, value in pairs:
        if key in out:
            whose = f" by {out['id']!r}" if "id" in out else ""
            raise InputError(f"{key!r} is given twice{whose}; keep one")
        out[key] = value
    return out


def _from_json(path: Path, text: str, many: str) -> tuple[str, Values, Entries]:
    try:
        top = json.loads(text, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        raise refused(path, f"not JSON ({error.msg}); correct it there", f"line {error.lineno}") from None
    except ValueError as error:  # a key twice, or a number of thousands of digits
        raise refused(path, f"{error}") from None
    if not isinstance(top, dict):
        raise refused(path, f"{_named(top)}; expected a mapping with `{many}`")
    found = top.get(many, [])
    if not isinstance(found, list):
        raise refused(path, f"{many} is {_named(found)}; expected a list")
    return "top", top, [(f"entry {k} of {many}", values) for k, values in enumerate(found, 1)]


def _from_yaml(path: Path, text: str, many: str, single: bool) -> tuple[str, Values, Entries]:
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
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        since = f", {error.context} from line {error.context_mark.line + 1}" if error.context_mark else ""
        raise refused(path, f"not YAML ({error.problem}{since}); correct it there", line) from None
    except yaml.YAMLError as error:
        raise refused(path, f"not YAML ({error}); correct it") from None
    if root is None:
        raise refused(path, f"empty; expected a list under `{many}:`{', or one of them' if single else ''}")

    def spot(node: yaml.Node) -> str:
        return f"line {node.start_mark.line + 1}"

    def refuse(node: yaml.Node, message: str) -> NoReturn:
        raise refused(path, message, spot(node))

    def lower(node: yaml.Node, depth: int) -> object:
        """Scalars stay text; a list, or what lies too deep, is only named."""
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in YAML_KINDS:
            refuse(node, f"the tag {node.tag!r} is not read; expected plain values")
        if isinstance(node, yaml.ScalarNode):
            if kind == "bool":
                return node.value.lower() in ("yes", "true", "on")
            return None if kind == "null" else str(node.value)
        out: dict[str, object] = {}
        if isinstance(node, yaml.SequenceNode):
            return [str(one.value) if isinstance(one, yaml.ScalarNode) else {} for one in node.value]
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
        raise refused(path, f"{_named(top)}; expected a list under `{many}:`", "line 1")
    entries: Entries = []
    for name, node in root.value:
        if name.value == many:
            if not isinstance(node, yaml.SequenceNode):
                refuse(node, f"{many} is {_named(top[many])}; expected a list")
            entries = [(spot(one), lower(one, 2)) for one in node.value]
    return "line 1", top, entries


def _from_csv(path: Path, text: str, many: str) -> EntryFile:
    """Each row is an entry. Lines `# name: value` before the header are settings, where the name is one; else comments."""
    stream = io.StringIO(text, newline="")
    settings: Values = {}
    above, start = 0, 0
    while (line := stream.readline()).startswith("#"):
        above, start = above + 1, stream.tell()
        name, _, value = line.lstrip("# ").partition(":")
        if many == "jobs" and name.strip() in ("slot", "note", "start"):
            settings[name.strip()] = value.strip()
        elif many == "machines" and name.strip() in BANDWIDTHS:
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
                with at(path, where):
                    places = _columns(columns, many)
            elif len(row) != len(columns):
                what = f"{len(row)} cells under {len(columns)} columns"
                raise refused(path, f"{what}; expected as many, empty where nothing is said", where)
            else:
                values: Values = {}
                for (group, name), cell in zip(places, row, strict=True):
                    if cell and not cell.isspace():
                        (values.setdefault(group, {}) if group else values)[name] = cell
                entries.append((where, values))
    except csv.Error as error:
        raise refused(path, f"not CSV ({error}); correct it there", f"line {first}") from None
    return EntryFile(path, "line 1", settings, {}, entries)


def _columns(columns: list[str], many: str) -> list[tuple[str, str]]:
    _pairs((name, None) for name in columns)
    if many in AMOUNTS:
        group, own = AMOUNTS[many]
        return [("", name) if name in own else (group, name) for name in columns]
    places = []
    for column in columns:
        group, name = grouped(column)
        if (not group and name in GROUPS) or (group and not name):
            raise InputError(f"the column {column!r} is a group; expected one column each, as 'worker.gpu'")
        if not group:
            refuse_unknown("column", [column], FIELDS)
        places.append((group, name))
    return places


def grouped(column: str) -> tuple[str, str]:
    """The group of a column of jobs ("" for none), and its name in it: worker.gpu is gpu of worker."""
    group, dot, name = column.partition(".")
    return (group, name) if dot and group in GROUPS else ("", column)


def flat(entry: Values) -> Values:
    """A job or machine as a row of a table: {"worker": {"gpu": 1}} as {"worker.gpu": 1}; what a machine has by its name."""
    row: Values = {}
    for name, value in entry.items():
        prefix = "" if name == "capacity" else f"{name}."
        row |= {prefix + k: v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return row


def save(path: Path, text: Callable[[], str]) -> None:
    """Write a text file; one that cannot be written is one line."""
    try:
        path.write_bytes(text().encode("utf-8"))
    except OSError as error:
        raise refused(path, f"cannot be written ({error.strerror}); check the folder") from None
    except UnicodeEncodeError as error:
        raise refused(path, f"{error.object!r} cannot be written as UTF-8; rename it") from None


def text_of(path: Path, many: str, settings: Values, entries: list[Values]) -> str:
    """YAML, JSON or CSV, by the ending of the path."""
    ending = ending_of(path)
    if ending == ".csv":
        return _to_csv(path, settings, entries)
    if ending == ".json":
        lines = [f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in settings.items()]
        listed = ",\n    ".join(json.dumps(entry, allow_nan=False) for entry in entries)
        return f'{{\n{"".join(lines)}  "{many}": [\n    {listed}\n  ]\n}}\n'
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = settings | {many: entries}
    return yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _tellable(column: str, cell: str) -> bool:
    """Whether CSV keeps it: no blank cell, no stray carriage return, no column name with spaces around it."""
    bare = column.strip()
    return bool(cell.strip()) and "\r" not in column + cell and column == bare and not bare.endswith(".")


def _to_csv(path: Path, settings: Values, entries: list[Values]) -> str:
    rows = [flat(entry) for entry in entries]
    for entry in entries:
        for name, value in entry.items():
            inner = flat({name: value})
            if not inner or not all(_tellable(k, str(v)) for k, v in inner.items()):
                raise refused(path, f"{name} {value!r} cannot be told in CSV; write .yaml or .json")
    out = io.StringIO(newline="")
    for name, value in settings.items():
        for inside, said in value.items() if isinstance(value, dict) else [(name, value)]:
            out.write(f"# {inside}: {one_line(str(said))}\n")
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


# Files of jobs and of machines.


def read_cluster(path: str | Path) -> Cluster:
    """Machines, and the bandwidths inside and between them, from YAML, JSON or CSV."""
    file = opened(Path(path), "machines")
    machines = []
    for where, values in file.entries:
        with at(file.path, where):
            machines.append(machine_from(values))
    with at(file.path, file.where):
        rates = file.settings.get("bandwidth", {})
        if not isinstance(rates, dict):
            raise InputError(f"bandwidth is {rates!r}; expected {{inside: 20Gbps, between: 1Gbps}}")
        refuse_unknown("bandwidth", rates, BANDWIDTHS)
        return Cluster(tuple(machines), **{name: units.bandwidth(rate, name) for name, rate in rates.items()})


def read_jobs(path: str | Path, cluster: Cluster, slot: str | float | None = None) -> Workload:
    """Jobs for this cluster, from YAML, JSON or CSV.

    Parameters
    ----------
    path
        The file.
    cluster
        Where they run.
    slot
        Length of a slot ("10m", or seconds); it goes before the file's own.
    """
    file = opened(Path(path), "jobs")
    with at(file.path, file.where):
        length = units.seconds(file.settings.get("slot", HOUR) if slot is None else slot, "slot")
        if length == 0:
            raise InputError('slot is 0; expected a length such as "10m"')
        refuse_unknown("field in defaults", file.defaults, FIELDS)
    found: list[Job] = []
    seen: dict[str, str] = {}
    for where, values in file.entries:
        with at(file.path, where):
            job = job_from(with_defaults(values, file.defaults), cluster, length)
            if job.id in seen:
                raise InputError(f"job {job.id!r} is also at {seen[job.id]}; give every job an id of its own")
        seen[job.id] = where
        found.append(job)
    note, start = (str(file.settings.get(name, "")) for name in ("note", "start"))
    return Workload(tuple(found), slot=length, source=str(path), note=note, start=start)


def with_defaults(own: Values, defaults: Values) -> Values:
    """What the job states, then the defaults; null takes a default away. Work has two forms: the job's own wins."""
    ways = {"work"} if {"samples", "epochs"} & own.keys() else {"samples", "epochs"} if "work" in own else set()
    both = {k: v for k, v in defaults.items() if k not in ways} | own if defaults else own
    return {k: v for k, v in both.items() if v is not None}


def write_jobs(workload: Iterable[Job], path: str | Path) -> None:
    """YAML, JSON or CSV by the name's ending; `read_jobs` reads equal jobs from it."""
    save(Path(path), lambda: jobs_text(workload, path))


def jobs_text(workload: Iterable[Job], name: str | Path = "jobs.json") -> str:
    """What `write_jobs` writes to a file of this name."""
    given = Workload.of(workload)
    settings = {"slot": float(given.slot), "note": given.note, "start": given.start}
    return text_of(Path(name), "jobs", {k: v for k, v in settings.items() if v}, [plain_job(job) for job in given])


def write_cluster(cluster: Cluster, path: str | Path) -> None:
    """YAML, JSON or CSV by the name's ending; `read_cluster` reads an equal one from it."""
    save(Path(path), lambda: cluster_text(cluster, path))


def cluster_text(cluster: Cluster, name: str | Path = "cluster.yaml") -> str:
    """What `write_cluster` writes to a file of this name."""
    rates = {name: float(rate) for name in BANDWIDTHS if (rate := getattr(cluster, name)) is not None}
    return text_of(Path(name), "machines", {"bandwidth": rates}, [plain_machine(m) for m in cluster.machines])


# Calendars.


def read_calendar(path: str | Path, jobs: Workload, *, end: int | None = None, moved: int = 0) -> tuple[Calendar, int]:
    """Windows from YAML, JSON or CSV; and how many of the file are over before its slot `moved`, which becomes slot 0.

    Parameters
    ----------
    path
        The file: `windows`, or a row each, of machine, first, last, kind, notice and an amount of each resource.
    jobs
        Whose slots they are: their length, and the calendar time of slot 0.
    end
        The last slot of a window that states none.
    moved
        Slots of the file that are not scored.
    """
    file = opened(Path(path), "windows")
    found = []
    for where, values in file.entries:
        with at(file.path, where):
            spec = WindowSpec.of({**values, "machine": str(values.get("machine") or "")})
            window = spec.build(jobs, end, moved)
        found.append(window and replace(window, where=f"{file.path}, {where}"))
    windows = tuple(window for window in found if window is not None)
    return Calendar(windows), len(found) - len(windows)


def calendar_text(calendar: Calendar) -> str:
    """What `read_calendar` reads back, as YAML."""
    return text_of(Path(CALENDAR), "windows", {}, [WindowSpec.plain(window) for window in calendar.windows])
