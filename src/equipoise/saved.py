"""Results as plain values, in one shape for train, share and place: written, loaded, put in a frame, drawn.

A `Saved` is what `result.json` holds, with the tables and arrays that stand beside it. Every result of the three verbs
offers the same five ways out of here (`Savable`): `to_frame`, `plot`, `to_csv`, `to_json` and `save`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import __version__
from equipoise.certificate import Certificate
from equipoise.errors import InputError, unknown_name
from equipoise.frames import Frame, Row, frame_of, plain

RESULT, ARRAYS = "result.json", "arrays.npz"
Look = dict[str, str]  # colour, marker, line


class Savable:
    """What a result can do once it can say itself in plain values."""

    def saved(self, *, certify: bool = True) -> Saved:
        """This result as plain values; the certificate, which may take a moment, only if asked for."""
        raise NotImplementedError

    def to_frame(self, table: str | None = None) -> Frame:
        """A pandas frame of the main table, or of the table of this name (`saved().names` has them all)."""
        return frame_of(self.saved(certify=False).rows(table))

    def plot(self, *, width: str = "column", **choices: Any) -> Any:
        """A matplotlib Figure for a paper, as wide as a column or a page of it; choices by kind in docs/interop.md."""
        try:
            from equipoise.plots import draw
        except ImportError:
            raise InputError(
                "a figure needs matplotlib, which is not installed: pip install 'equipoise[plots]'"
            ) from None
        return draw(self.saved(certify=False), width=width, **choices)

    def to_csv(self, path: str | Path, table: str | None = None) -> None:
        """The main table, or the one of this name, as CSV; `equipoise.load` reads it back."""
        write_table(Path(path), self.saved(certify=False).rows(table))

    def to_json(self, path: str | Path) -> None:
        """Result, certificate and every table in one file; `equipoise.load` reads it back."""
        _write(Path(path), self.saved().text(tables=True))

    def save(self, folder: str | Path) -> None:
        """A folder as the command line leaves it: result.json, a CSV for every table, arrays.npz."""
        saved, home = self.saved(), Path(folder)
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{home}: cannot be made a folder ({error.strerror}); name another") from None
        _write(home / RESULT, saved.text(tables=False))
        for name, rows in saved.tables.items():
            write_table(home / f"{name}.csv", rows)
        if saved.arrays:
            np.savez_compressed(home / ARRAYS, **saved.arrays)


@dataclass(frozen=True)
class Saved(Savable):
    """One result of any verb. `result`, `config` and `tables` hold plain values; a number that is not finite is None."""

    verb: str  # "train", "share", "place", "train compare", ...; "" for a bare CSV file
    result: dict[str, Any]
    certificate: Certificate | None = None
    config: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    version: str = __version__
    looks: dict[str, Look] = field(default_factory=dict)  # of policies and entrants, by name
    arrays: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # NumPy arrays, by name

    def __post_init__(self) -> None:
        for name in ("result", "config", "tables"):
            object.__setattr__(self, name, plain(getattr(self, name)))

    def saved(self, *, certify: bool = True) -> Saved:
        return self

    @property
    def names(self) -> list[str]:
        """The tables there are: those of the result, then those beside it."""
        inner = [name for name, value in self.result.items() if _is_table(value)]
        return list(dict.fromkeys([*inner, *self.tables]))

    def rows(self, table: str | None = None) -> list[Row]:
        """One table as plain rows: by its name, or the main one, which is "rows" where there is one, else "history"."""
        names = self.names
        if table is None:
            table = next((name for name in ("rows", "history") if name in names), names[0] if names else "")
        if table not in names:
            raise unknown_name(f"table of a {self.verb or 'CSV'} result", table, names)
        found: list[Row] = self.tables[table] if table in self.tables else self.result[table]
        return found

    def columns(self, table: str | None = None) -> dict[str, list[Any]]:
        """One table by columns."""
        rows = self.rows(table)
        return {name: [row.get(name) for row in rows] for name in _heads(rows)}

    def as_dict(self, *, tables: bool = True) -> dict[str, Any]:
        """The document that `result.json` holds; with every table in it unless told otherwise."""
        certificate = None if self.certificate is None else self.certificate.as_dict()
        found: dict[str, Any] = {
            "verb": self.verb,
            "version": self.version,
            "config": self.config,
            "result": self.result,
            "certificate": certificate,
            "looks": self.looks,
        }
        return found | ({"tables": self.tables} if tables else {})

    def text(self, *, tables: bool) -> str:
        """Strict JSON."""
        return json.dumps(self.as_dict(tables=tables), indent=2, allow_nan=False) + "\n"


def look_of(thing: Any) -> Look:
    """The colour, marker and line of a policy or an entrant that says any; clairvoyant twins are dashed."""
    told = {name: str(getattr(thing, name)) for name in ("colour", "marker") if getattr(thing, name, None)}
    return told | ({"line": "dashed"} if getattr(thing, "clairvoyant", False) else {})


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], heads: Sequence[str] = ()) -> None:
    """Rows as CSV: floats to the last digit, an empty cell where nothing is known; `heads` in case there are no rows."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _heads(rows) or heads, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); check the folder") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); check the folder") from None


def _heads(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(row, dict) for row in value)
