"""Data in the user's own files: each is a centre, or the rows of one are dealt to several; and what centres agree on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse import vstack

from equipoise.data.agreement import (
    MIN_COUNT,
    Delivery,
    Disagreement,
    Left,
    Place,
    Task,
    Terms,
    agree,
    announcement,
    differences,
    holds_classes,
    key_of,
    together,
)
from equipoise.data.problems import Problem, Problems, Report
from equipoise.data.schema import Features, Schema, class_codes
from equipoise.data.split import Targets, hold_out, split, stratified
from equipoise.data.table import Table, check_label, found_files, read_each
from equipoise.errors import InputError
from equipoise.kernels import Ints

HELD_OUT = 0.2  # of the rows of each file
EXACT = 2.0**53  # below it every whole number is a float of its own


@dataclass(frozen=True, eq=False)
class OwnFiles:
    """The table of each centre, the rows that it trains on, and those that nobody trains on."""

    tables: tuple[Table, ...]  # by centre; one file that is dealt out stands there several times
    train: tuple[Ints, ...]
    held_out: tuple[Ints, ...]
    terms: Terms

    @property
    def centres(self) -> int:
        return len(self.tables)

    @classmethod
    def read(
        cls,
        paths: Sequence[str | Path],
        *,
        label: str | None = None,
        drop: Sequence[str] = (),
        text: Sequence[str] = (),
        task: Task = "auto",
        min_count: int | None = None,
        numbers_only: bool = False,
        held_out: float = HELD_OUT,
        samples: int | None = None,
        seed: int = 0,
    ) -> OwnFiles:
        """Read the files; everything that is wrong in any of them, or between them, is told at once.

        Parameters
        ----------
        paths
            Files (CSV, or parquet), or folders of them.
        label
            The label column; the last one of the first file if None.
        drop
            Columns to leave out.
        text
            Columns to take as text though their values are numbers.
        task
            "classification", "regression", or "auto": text, and up to 20 different whole numbers, are classes.
        min_count
            Rows of a centre that must have a value of a text column before the centre names it; 10 for several files, 1 for
            one, unless given.
        numbers_only
            Send no text at all: neither names of columns nor values.
        held_out
            Part of each file's rows that nobody trains on.
        samples
            Rows to train on at most, in all.
        seed
            Draws which.
        """
        files = found_files(paths)
        tables, problems = read_each(files, label=label, drop=drop, text=text)
        usable = {centre: table for centre, table in enumerate(tables) if table is not None}
        named = label is not None
        if label is None and usable:
            label = [*next(iter(usable.values())).columns][-1]
            problems += _unlabelled(usable.values(), label)
        least = MIN_COUNT if len(files) > 1 else 1
        terms = Terms(label or "", task, least if min_count is None else min_count, numbers_only)
        problems += [*_between(usable, files, terms), *_labels(usable.values(), terms, named)]
        if problems:
            order = {path: at for at, path in enumerate(files)}
            raise Problems(
                sorted(dict.fromkeys(problems), key=lambda problem: (order.get(problem.path, -1), problem.line or 0))
            )
        rows = sum(table.rows for table in usable.values())
        parts = [
            _parts(table, terms, held_out, None if samples is None else samples / rows, seed)
            for table in usable.values()
        ]
        return cls(tuple(usable.values()), tuple(a for a, _ in parts), tuple(b for _, b in parts), terms)

    def dealt_to(self, centres: int, how: str, concentration: float, seed: int) -> OwnFiles:
        """The rows of the one file there is, dealt to so many centres."""
        (table,), (rows,), (held,) = self.tables, self.train, self.held_out
        if len(rows) < centres:
            some = f"{len(rows)} row{'s' * (len(rows) != 1)} to train on"
            what = f"{some} (of {table.rows}) cannot be dealt to {centres} nodes"
            raise InputError(
                f"{table.path}: {what}; give --nodes {len(rows)} or fewer, or a file with more rows", code="split.nodes"
            )
        y = _answers(table, self.terms)[rows]
        shards = split(rows[:, None].astype(np.float64), y, centres, how, concentration, seed)  # rows by their numbers
        parts = tuple(X[:, 0].astype(np.int64) for X, _ in shards)
        nobody = np.empty(0, dtype=np.int64)
        terms = replace(self.terms, shared=True)
        return OwnFiles((table,) * centres, parts, (held,) + (nobody,) * (centres - 1), terms)

    def agreed(self, places: Mapping[int, Place], delivery: Delivery) -> Agreed:
        """What the centres agree on, over links that `delivery` knows; each ends up with the same schema."""
        tables, rows = dict(enumerate(self.tables)), dict(enumerate(self.train))
        try:
            schemas, left = agree(tables, rows, places, delivery, self.terms)
        except Disagreement as found:
            names = _names(self.tables, self.terms)
            raise Problems(
                [_problem(self.tables[centre], names, *rest) for centre, *rest in found.differences]
            ) from None
        schema = schemas[0]
        assert all(other == schema for other in schemas.values())
        if len(schema.classes) == 1:
            table, label = self.tables[0], self.terms.label
            what = f"column {label!r} is {schema.classes[0]!r} in every row of all files; a label needs two different values"
            raise Problems([Problem(table.path, table.columns[label].first, what, "table.label")])
        if not schema.width:
            what = (
                f"no column says anything beside {self.terms.label!r} ({', '.join(schema.left_out) or 'none is left'})"
            )
            raise InputError(f"{self.tables[0].path}: {what}; give columns with values", code="table.form")
        return Agreed(self, schema, tuple(left[centre] for centre in range(self.centres)))


@dataclass(frozen=True, eq=False)
class Agreed:
    """Files with the schema that their centres agreed on, and what each told of its own rows."""

    files: OwnFiles
    schema: Schema
    left: tuple[Left, ...]

    def taken(self, *, ones: bool = False) -> tuple[list[tuple[Features, Targets]], tuple[Features, Targets]]:
        """As `shards` and `held_out`; each table is emptied once its rows are encoded, so that they are in memory once.

        Parameters
        ----------
        ones
            Add a last column of ones to the features.
        """
        files, schema = self.files, self.schema
        ends = np.cumsum([0, *map(len, files.held_out)])
        shards, parts = list[tuple[Features, Targets]](), list[Features]()
        all_held = None if schema.sparse else np.zeros((ends[-1], schema.width + ones))
        answers = np.empty(ends[-1], dtype=np.int64 if schema.classes else np.float64)
        for centre, (table, rows, held) in enumerate(zip(files.tables, files.train, files.held_out, strict=True)):
            into = slice(ends[centre], ends[centre + 1])
            shards.append((schema.encode(table, rows, ones=ones), schema.targets(table, rows)))
            answers[into] = schema.targets(table, held)
            parts.append(schema.encode(table, held, ones=ones, into=None if all_held is None else all_held[into]))
            if table not in files.tables[centre + 1 :]:
                table.columns.clear()
        return shards, (vstack(parts, "csr") if all_held is None else all_held, answers)

    def shards(self) -> list[tuple[Features, Targets]]:
        """Features and answers of each centre: class numbers, or numbers to predict."""
        return [self._rows(table, rows) for table, rows in zip(self.files.tables, self.files.train, strict=True)]

    def held_out(self) -> tuple[Features, Targets]:
        """Of the rows that nobody trains on, of all files."""
        pairs = zip(self.files.tables, self.files.held_out, strict=True)
        parts = [self._rows(table, rows) for table, rows in pairs if len(rows)]
        parts = parts or [self._rows(self.files.tables[0], np.empty(0, dtype=np.int64))]
        X = [features for features, _ in parts]
        return (np.concatenate(X) if isinstance(X[0], np.ndarray) else vstack(X, "csr")), np.concatenate(
            [y for _, y in parts]
        )

    def _rows(self, table: Table, rows: Ints) -> tuple[Features, Targets]:
        return self.schema.encode(table, rows), self.schema.targets(table, rows)


def _unlabelled(tables: Iterable[Table], label: str) -> list[Problem]:
    """Rows without a label; of one that was named, the reader says it."""
    found: list[Problem] = []
    for table in tables:
        if label in table.columns and label not in table.unread:
            report = Report(table.path)
            check_label(table.columns[label], table.line, report)
            found += report.problems
    return found


def _between(tables: Mapping[int, Table], files: Sequence[Path], terms: Terms) -> list[Problem]:
    """Why files that can each be read cannot be used together."""
    if not tables:
        return []
    announced = together([announcement(centre, table, terms) for centre, table in tables.items()])
    called = {centre: str(files[centre]) for centre in tables}
    names, label = _names(tables.values(), terms), key_of(terms.label, terms)
    return [
        _problem(tables[centre], names, key, what, code)
        for centre, key, what, code in differences(announced, terms, called)
        if (key, code) != (label, "table.columns")  # a file without the label is told of by its own line
    ]


def _names(tables: Iterable[Table], terms: Terms) -> dict[str, str]:
    """Of the columns of all files of this process, by what they are called in messages."""
    return {key_of(name, terms): name for table in tables for name in table.columns}


def _problem(table: Table, names: Mapping[str, str], key: str, what: str, code: str) -> Problem:
    """In the words of the files: names in place of fingerprints, and the line where the column begins."""
    if key not in names:
        return Problem(table.path, 1, what, code)
    own = table.columns.get(names[key])
    line = 1 if own is None or code == "table.columns" else own.first
    what = what.replace(repr(key), repr(names[key])).replace(f"--text {key}", f"--text {names[key]}")
    return Problem(table.path, line, what, code)


def _labels(tables: Iterable[Table], terms: Terms, named: bool) -> list[Problem]:
    """Files without the label column, where it was not named (others have it as their last one; of one that was named, the
    reader says it), and classes that are whole numbers of so many digits that a float may stand for two of them."""
    found = []
    for table in tables:
        label = table.columns.get(terms.label)
        if label is None:
            if not named:
                what = f"no column {terms.label!r}, the label of the first file; name another with --label"
                found.append(Problem(table.path, 1, what, "table.label"))
        elif label.kind == "number" and holds_classes(label, terms.task) and np.abs(label.values).max() >= EXACT:
            what = f"column {terms.label!r}: classes are numbers of 16 digits or more, which floats do not tell apart"
            what += f"; take them as text with --text {shlex.quote(terms.label)}"
            found.append(Problem(table.path, label.first, what, "table.label"))
    return found


def _parts(table: Table, terms: Terms, held_out: float, part: float | None, seed: int) -> tuple[Ints, Ints]:
    """Rows of a file to train on and rows held out, in the proportions of its classes."""
    y = _answers(table, terms)
    train, held = hold_out(y, held_out, seed)
    if part is not None and part < 1:
        train = train[stratified(y[train], max(1, round(part * len(y))), seed)]
    return train, held


def _answers(table: Table, terms: Terms) -> Targets:
    """Numbers that tell the classes of one file apart, or the numbers to predict."""
    column = table.columns[terms.label]
    return class_codes(column) if holds_classes(column, terms.task) else np.asarray(column.values)
