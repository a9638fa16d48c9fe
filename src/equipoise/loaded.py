"""Results from disk: a run folder of the command line, a folder of `save`, a file of `to_json` or of `to_csv`."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.errors import InputError
from equipoise.frames import Row
from equipoise.saved import ARRAYS, RESULT, Look, Saved, look_of

# Columns of names: a job called 17 stays a text.
NAMES = ("policy", "job", "id", "machine", "entrant", "state", "reason")
ALLOCATIONS = "allocations"


def load(path: str | Path) -> Saved:
    """What a run left behind, as plain values with `rows`, `to_frame()` and `plot()`.

    `path` is a run folder (`runs/train-...`, or one of `save`), its result.json, a file of `to_json`, or a CSV table.
    """
    given = Path(path)
    where = given / RESULT if given.is_dir() else given
    if not where.is_file():
        missing = f"the folder has no {RESULT}" if given.is_dir() else "no such file or folder"
        raise InputError(f"{path}: {missing}; expected a run folder, a result.json, or a CSV of to_csv")
    if where.suffix == ".csv":
        return Saved("", {}, tables={where.stem: read_table(where)}, version="")
    document = _document(where)
    beside = where.parent if where.name == RESULT else None
    tables = document.get("tables") or ({} if beside is None else _tables(beside, document["result"]))
    certificate = document.get("certificate")
    verb = str(document["verb"])
    return Saved(
        verb,
        document["result"],
        None if certificate is None else certificate_from(certificate),
        document.get("config") or {},
        tables,
        str(document.get("version", "")),
        document["looks"] if "looks" in document else _looks(verb),
        {} if beside is None else _arrays(beside / ARRAYS),
    )


def certificate_from(values: dict[str, Any]) -> Certificate:
    """A certificate of `as_dict`."""
    return Certificate(tuple(Check(**check) for check in values["checks"]))


def read_table(path: Path) -> list[Row]:
    """A CSV with a header as plain rows: whole numbers, numbers, None for empty cells and what is not finite, text."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            heads = next(lines, [])
            rows = [dict(zip(heads, cells, strict=True)) for cells in lines]
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise InputError(f"{path}: not a table in CSV ({error}); expected one of to_csv") from None
    texts = {head for head in heads if head in NAMES or any(not _numeric(row[head]) for row in rows)}
    return [{head: cell or None if head in texts else _number(cell) for head, cell in row.items()} for row in rows]


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


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not JSON ({error}); expected a result.json or a file of to_json") from None
    if not (isinstance(found, dict) and "verb" in found and isinstance(found.get("result"), dict)):
        raise InputError(f"{path}: no verb and result in it; expected a result.json or a file of to_json")
    return found


def _tables(folder: Path, result: dict[str, Any]) -> dict[str, list[Row]]:
    """Every CSV of the folder by its name; allocations of several policies become one table with their labels."""
    found: dict[str, list[Row]] = {}
    for path in sorted(folder.glob("*.csv")):
        if not path.stem.startswith(f"{ALLOCATIONS}-"):
            found[path.stem] = read_table(path)
    for label in [str(row["policy"]) for row in result.get("rows", []) if "policy" in row]:
        path = folder / f"{ALLOCATIONS}-{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-') or 'policy'}.csv"
        if path.is_file():
            found.setdefault(ALLOCATIONS, []).extend({"policy": label, **row} for row in read_table(path))
    if ALLOCATIONS in found and (folder / "jobs.json").is_file() and (folder / "cluster.yaml").is_file():
        from equipoise.place.frames import tables_beside

        found |= tables_beside(folder, found[ALLOCATIONS])
    return found


def _arrays(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _looks(verb: str) -> dict[str, Look]:
    """Our own policies and rivals by their names; what a user brought has no look on disk and is given a spare one."""
    if verb.startswith("share"):
        from equipoise.share.policies import ALL as POLICIES
        from equipoise.share.view import name_of

        return {name_of(policy()): look_of(policy()) for policy in POLICIES}
    if verb.startswith("place"):
        from equipoise.place.policies import ALL as PLACERS

        return {policy.label: look_of(policy()) for policy in PLACERS}
    if verb == "train compare":
        from equipoise.train.baselines import CLASSES

        return {entrant.name: look_of(entrant) for entrant in CLASSES}
    return {}
