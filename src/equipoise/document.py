"""The one format of results: plain values of one run of any verb, as `result.json` and the files beside it hold them.

A verb's result makes a `Document`; `equipoise.result` writes it; `read` reads it back; `equipoise.present` draws it.
"""

import csv
import json
import math
import re
import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.certificate import Certificate, Check
from equipoise.errors import InputError, unknown_name
from equipoise.registry import Registry
from equipoise.spec import newer

RESULT, ARRAYS, CONFIG, REPORT = "result.json", "arrays.npz", "config.yaml", "report.html"
# Columns of names: a job called 17 stays a text.
NAMES = ("policy", "job", "id", "machine", "entrant", "state", "reason")
ALLOCATIONS, POLICY = "allocations", "policy"  # the one table that has a CSV file for each policy
CELLS = ("job", "slot", "machine", "workers", "servers")

Array = NDArray[np.generic]
Plain = Any  # what JSON can say; a union of its types would make every reader cast what it has just looked up
Row = dict[str, Plain]
Look = dict[str, str]  # colour, marker, line


def plain(value: object) -> Plain:
    """Python's own values for NumPy's, all the way down; a number that is not finite is None."""
    kind = type(value)
    if kind is str or kind is int or value is None:  # most values of most tables
        return cast(Plain, value)
    if kind is float:
        return value if math.isfinite(cast(float, value)) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return cast(Plain, value)


class Tables(dict[str, list[Row]]):
    """The tables beside a result, each a CSV file; `[name]` also finds those inside it, so that it knows all of `names`."""

    def __init__(self, beside: Mapping[str, list[Row]], result: Mapping[str, Plain]) -> None:
        super().__init__(beside)
        self._result = result

    def __missing__(self, name: str) -> list[Row]:
        if not _is_table(self._result.get(name)):
            raise KeyError(name)
        return cast("list[Row]", self._result[name])


@dataclass(frozen=True, repr=False, eq=False)
class Document:
    """One result of any verb. `result`, `config` and `tables` hold plain values; a number that is not finite is None.

    Parameters
    ----------
    verb
        "train", "share", "place", "train compare", ...; "" for a bare CSV file.
    result
        What came out, by name.
    certificate
        The checks of the run, where they were made.
    config
        The settings of the run: what its config.yaml holds.
    tables
        Rows by the name of their table; each becomes a CSV file. A table inside `result` is found here by its name too.
    version
        The version that wrote it.
    looks
        Colour, marker and line of policies, placers and rivals, by name.
    arrays
        NumPy arrays by name; they become arrays.npz.
    files
        Texts of further files of the folder, by file name.
    """

    verb: str
    result: dict[str, Plain]
    certificate: Certificate | None = None
    config: dict[str, Plain] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    version: str = __version__
    looks: dict[str, Look] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("result", "config", "tables"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        object.__setattr__(self, "tables", Tables(self.tables, self.result))

    def __repr__(self) -> str:
        passed = {None: "no certificate", True: "passed", False: "not passed"}
        made = passed[None if self.certificate is None else self.certificate.passed]
        return (
            f"Document({self.verb or 'CSV'}, {self.version or 'no version'}, {made}, tables: {', '.join(self.names)})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def names(self) -> list[str]:
        """The tables there are: those of the result, then those beside it."""
        inner = [name for name, value in self.result.items() if _is_table(value)]
        return list(dict.fromkeys([*inner, *self.tables]))

    def rows(self, table: str | None = None) -> list[Row]:
        """One table as plain rows.

        Parameters
        ----------
        table
            Its name; None for the main one, which is "rows" where there is one, else "history".
        """
        names = self.names
        if table is None:
            table = next((name for name in ("rows", "history") if name in names), names[0] if names else "")
        if table not in names:
            raise unknown_name(f"table of a {self.verb or 'CSV'} result", table, names)
        return self.tables[table]

    def columns(self, table: str | None = None) -> dict[str, list[Plain]]:
        """One table by columns."""
        rows = self.rows(table)
        return {name: [row.get(name) for row in rows] for name in _heads(rows)}

    def as_dict(self, *, tables: bool = True) -> dict[str, Plain]:
        """What `result.json` holds; with every table in it unless told otherwise."""
        certificate = None if self.certificate is None else self.certificate.as_dict()
        found = {
            "verb": self.verb,
            "version": self.version,
            "config": self.config,
            "result": self.result,
            "certificate": certificate,
            "looks": self.looks,
        }
        return cast("dict[str, Plain]", found | ({"tables": self.tables} if tables else {}))

    def text(self, *, tables: bool = False) -> str:
        """Strict JSON: a number that is not finite would be an error, never NaN."""
        return json.dumps(self.as_dict(tables=tables), indent=2, allow_nan=False) + "\n"


def rows_of(document: Document, table: str, **wanted: object) -> list[Row]:
    """Rows of a table that have these values in these columns; none where the document has no such table."""
    rows = document.rows(table) if table in document.names else []
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def look_of(thing: object) -> Look:
    """The colour, marker and line of a policy, placer or rival that states any; clairvoyant twins are dashed."""
    stated = {name: str(getattr(thing, name)) for name in ("colour", "marker") if getattr(thing, name, None)}
    return stated | ({"line": "dashed"} if getattr(thing, "clairvoyant", False) else {})


# Tables as CSV.


def write_table(path: Path | None, rows: Sequence[Mapping[str, object]], heads: Sequence[str] = ()) -> None:
    """Rows as CSV, on standard output without a path: floats to the last digit, an empty cell where nothing is known, and
    `heads` in case there are no rows."""
    try:
        with nullcontext(sys.stdout) if path is None else path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _heads(rows) or heads, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        if path is None:
            raise
        raise InputError(f"{path}: cannot be written ({error.strerror}); name another folder", code="disk") from None


def read_table(path: Path) -> list[Row]:
    """A CSV with a header as plain rows: whole numbers, numbers, None for empty cells and what is not finite, text."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            heads = next(lines, [])
            rows = [dict(zip(heads, cells, strict=True)) for cells in lines]
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise InputError(f"{path}: not a table in CSV ({error}); expected one of to_csv", code="table.form") from None
    texts = {head for head in heads if head in NAMES or any(not _numeric(row[head]) for row in rows)}
    return [{head: cell or None if head in texts else _number(cell) for head, cell in row.items()} for row in rows]


def csv_files(document: Document) -> dict[str, tuple[list[Row], Sequence[str]]]:
    """The rows of every CSV file of a run folder by its name, and its columns in case there are none.

    Allocations have a file for each policy, without the column `policy`: what `place verify` reads.
    """
    found: dict[str, tuple[list[Row], Sequence[str]]] = {}
    for name, rows in document.tables.items():
        if name != ALLOCATIONS:
            found[f"{name}.csv"] = rows, ()
            continue
        own: dict[str, list[Row]] = {str(row[POLICY]): [] for row in document.rows("rows")}
        for row in rows:
            own[row[POLICY]].append({head: cell for head, cell in row.items() if head != POLICY})
        found |= {f"{allocations_of(label)}.csv": (cells, CELLS) for label, cells in own.items()}
    return found


def allocations_of(label: str) -> str:
    """The name of the table of a policy's allocations: allocations-pdors-recalled for PDORS recalled."""
    return f"{ALLOCATIONS}-{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-') or POLICY}"


def _heads(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _is_table(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(row, dict) for row in value)


def _numeric(cell: str) -> bool:
    try:
        return not cell or float(cell) is not None
    except ValueError:
        return False


def _number(cell: str) -> int | float | None:
    if not cell:
        return None
    try:
        return int(cell)
    except ValueError:
        value = float(cell)
        return value if np.isfinite(value) else None


# From disk.


def read(path: str | Path) -> Document:
    """What a run left behind, as plain values.

    Parameters
    ----------
    path
        A run folder (`runs/train-...`, or one of `save`), its result.json, a file of `to_json`, or a CSV table.
    """
    given = Path(path)
    where = given / RESULT if given.is_dir() else given
    if not where.is_file():
        missing = f"the folder has no {RESULT}, so its run did not end" if given.is_dir() else "no such file or folder"
        raise InputError(
            f"{path}: {missing}; expected a run folder, a result.json, or a CSV of to_csv", code="file.missing"
        )
    if where.suffix == ".csv":
        return Document("", {}, tables={where.stem: read_table(where)}, version="")
    found = _read(where)
    verb, result = str(found["verb"]), cast("dict[str, Plain]", found["result"])
    beside = where.parent if where.name == RESULT else None
    tables = cast("dict[str, list[Row]]", found.get("tables") or {})
    certificate = cast("dict[str, Plain] | None", found.get("certificate"))
    return Document(
        verb,
        result,
        None if certificate is None else certificate_from(certificate),
        cast("dict[str, Plain]", found.get("config") or {}),
        tables or ({} if beside is None else _tables(beside, result)),
        str(found.get("version", "")),
        cast("dict[str, Look]", found["looks"]) if "looks" in found else _looks(verb),
        {} if beside is None else _arrays(beside / ARRAYS),
        {} if beside is None else _files(beside),
    )


def certificate_from(values: Mapping[str, object]) -> Certificate:
    """A certificate of `as_dict`."""
    return Certificate(tuple(Check(**check) for check in cast("list[dict[str, str]]", values["checks"])))  # type: ignore[arg-type]


def _read(path: Path) -> dict[str, Plain]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: not JSON ({error}); expected a result.json or a file of to_json", code="result.json"
        ) from None
    if not (isinstance(found, dict) and "verb" in found and isinstance(found.get("result"), dict)):
        raise InputError(
            f"{path}: no verb and result in it; expected a result.json or a file of to_json", code="result.form"
        )
    version = str(found.get("version", ""))
    if newer(version):
        raise InputError(
            f"{path}: written by version {version}, this is {__version__}; install {version} or later to load it",
            code="newer",
        )
    return found


def _tables(folder: Path, result: Mapping[str, Plain]) -> dict[str, list[Row]]:
    """Every CSV of the folder by its name; allocations of several policies become one table with their labels."""
    found: dict[str, list[Row]] = {}
    for path in sorted(folder.glob("*.csv")):
        if not path.stem.startswith(f"{ALLOCATIONS}-"):
            found[path.stem] = read_table(path)
    rows = cast("list[Row]", result.get("rows") or [])
    for label in [str(row[POLICY]) for row in rows if POLICY in row]:
        path = folder / f"{allocations_of(label)}.csv"
        if path.is_file():
            found.setdefault(ALLOCATIONS, []).extend({POLICY: label, **row} for row in read_table(path))
    old = ALLOCATIONS in found and "machines" not in found  # of 0.1.0
    if old and (folder / "jobs.json").is_file() and (folder / "cluster.yaml").is_file():
        # Only place can say what its jobs and machines were; by name, since it stands above this module.
        found |= import_module("equipoise.place.tables").tables_beside(folder, found[ALLOCATIONS])
    return found


def _arrays(path: Path) -> dict[str, Array]:
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path}: damaged ({type(error).__name__}); copy the folder again, or repeat its run with --config",
            code="arrays.form",
        ) from None


def _files(folder: Path) -> dict[str, str]:
    """Further texts of the folder."""
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".yaml")]
    return {path.name: path.read_text(encoding="utf-8") for path in paths if path.name not in (RESULT, CONFIG)}


def _looks(verb: str) -> dict[str, Look]:
    """Our own policies, placers and rivals by name, for a document of 0.1.0, which has no looks in it."""
    folders = {
        "share": "equipoise.share.policies",
        "place": "equipoise.place.placers",
        "train compare": "equipoise.train.baselines",
    }
    package = folders.get(verb) or folders.get(verb.partition(" ")[0])
    if package is None:
        return {}
    stated = ("colour", "marker", *(("label",) if verb == "train compare" else ()))  # a rival's name is not its label
    return {
        str(choice.facts.get("name", choice.name)): {
            key: str(choice.facts[key]) for key in stated if key in choice.facts
        }
        for choice in Registry[object](package, "choice").choices()
    }
