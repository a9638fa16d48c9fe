"""What all centres agree that their columns mean: numbers with mean and deviation, text with its values, names of classes.

A schema turns a table into the rows that a model sees: numbers filled with the mean and scaled, then text as one column for
each named value, and one for the rest where there is any.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack

from equipoise.data.exact_sums import ExactSum
from equipoise.data.split import Floats, Targets
from equipoise.data.table import Column, Table
from equipoise.errors import InputError
from equipoise.kernels import Ints

OTHER = "(other)"  # stands for values that no centre names
# From so many features on, rows are kept sparse, if at most this part of their cells is not 0: a softmax over 67 features,
# 7 % of them not 0, took 0.4 of the time. Least squares works on sums of products, which are dense.
WIDE, WIDE_REGRESSION, SPARSE = 32, 1024, 0.15
CELLS = 1 << 16  # numbers encoded at a time: they stay in the cache of the processor
Features = Any  # float64 [rows, features]: an array, or a csr_array
ClassName = str | int | float


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, as all centres together have it: sums of what is there, and of what is filled in."""

    name: str
    sums: ExactSum
    filled: ExactSum  # with the mean, rounded, in every empty cell

    @classmethod
    def of(cls, name: str, sums: ExactSum, rows: int) -> NumberColumn:
        return cls(name, sums, sums + ExactSum.repeated(sums.mean, rows - sums.count))

    @property
    def fill(self) -> float:
        """What stands for an empty cell: the mean of the others."""
        return self.sums.mean

    @property
    def mean(self) -> float:
        return self.filled.mean

    @property
    def deviation(self) -> float:
        return self.filled.deviation

    @property
    def scale(self) -> float:
        """What values are divided by: 1 for a column that never changes."""
        return self.deviation or 1.0


@dataclass(frozen=True)
class TextColumn:
    """A column of text: the values that some centre named, how often each was counted, and how many rows hold others."""

    name: str
    counts: dict[str, int]  # in sorted order
    other: int
    missing: int

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(self.counts)

    @property
    def fill(self) -> str:
        """What stands for an empty cell: the most frequent of the named values, the first of equals."""
        return max(self.counts, key=lambda value: self.counts[value])

    @property
    def rest(self) -> str:
        """What stands for values that no centre names: none of those that are named."""
        name = OTHER
        while name in self.counts:
            name = f"({name})"
        return name

    @property
    def width(self) -> int:
        """Columns that the model sees."""
        return len(self.counts) + (self.other > 0)


@dataclass(frozen=True)
class Schema:
    """Agreed columns, classes and counts of the training rows of all centres. `classes` is empty for regression."""

    label: str
    rows: int
    numbers: tuple[NumberColumn, ...]
    texts: tuple[TextColumn, ...]
    classes: tuple[ClassName, ...]
    class_counts: tuple[int, ...]
    min_count: int
    left_out: tuple[str, ...] = ()  # columns that say nothing: empty everywhere, or no value of theirs is named

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if self.classes else "a number"
        return (
            f"<Schema: {what} in {self.label!r} from {len(self.numbers)} columns of numbers and "
            f"{len(self.texts)} of text, {self.width} features>"
        )

    @property
    def width(self) -> int:
        """Features of a row as a model sees it."""
        return len(self.numbers) + sum(column.width for column in self.texts)

    @property
    def kinds(self) -> dict[str, str]:
        """The columns that prediction reads, with their kinds."""
        return {c.name: "number" for c in self.numbers} | {c.name: "text" for c in self.texts}

    @property
    def features(self) -> list[str]:
        """What each feature is: a column, or column=value."""
        texts = [f"{c.name}={value}" for c in self.texts for value in (*c.categories, *[c.rest] * (c.other > 0))]
        return [*(c.name for c in self.numbers), *texts]

    # rows as a model sees them

    @property
    def sparse(self) -> bool:
        """Whether rows are encoded as a sparse array: most of many columns are 0."""
        wide = self.width >= (WIDE if self.classes else WIDE_REGRESSION)
        return wide and len(self.numbers) + len(self.texts) <= SPARSE * self.width

    def encode(
        self, table: Table, rows: Ints | None = None, *, ones: bool = False, into: Floats | None = None
    ) -> Features:
        """Rows of a table as a model sees them: an array of shape (n_rows, width), sparse if `sparse`.

        Parameters
        ----------
        table
            With the columns of the schema.
        rows
            Which of its rows; all if None.
        ones
            Add a last column of ones: the intercept of a model that has none.
        into
            Where to write them, zeros so far; a new array if None. For dense rows only.
        """
        rows = np.arange(table.rows) if rows is None else rows
        sparse = self.sparse
        X = np.zeros((len(rows), len(self.numbers) if sparse else self.width + ones)) if into is None else into
        self._scaled(table, rows, X)
        first, places = len(self.numbers), []
        for text in self.texts:
            places.append(first + self._places(text, table.columns[text.name])[rows])
            first += text.width
        if not sparse:
            for place in places:
                there = place >= 0
                X[np.flatnonzero(there), place[there]] = 1.0
            if ones:
                X[:, self.width] = 1.0
            return X
        found = self._sparse(X, [place - len(self.numbers) for place in places])
        return csr_array(hstack([found, np.ones((len(rows), 1))], format="csr")) if ones else found

    def _scaled(self, table: Table, rows: Ints, X: Floats) -> None:
        """Write the columns of numbers into the first of X: filled and scaled, some rows of all columns at a time."""
        if not self.numbers:
            return
        columns = [table.columns[number.name].values for number in self.numbers]
        agreed = np.array([(number.fill, number.mean, number.scale) for number in self.numbers])
        fill, mean, scale = agreed.T[:, :, None]
        at_once = max(64, CELLS // len(columns))
        for first in range(0, len(rows), at_once):
            some = rows[first : first + at_once]
            part = np.stack([values[some] for values in columns])
            np.copyto(part, fill, where=np.isnan(part))
            part -= mean
            part /= scale
            X[first : first + at_once, : len(columns)] = part.T

    def _places(self, text: TextColumn, column: Column) -> Ints:
        """Of each row, its feature among those of this column; far below 0 where a value is unknown and nothing stands
        for it."""
        known = {value: at for at, value in enumerate(text.counts)}
        rest = len(text.counts) if text.other else -(2**40)
        if column.kind == "empty":
            return np.full(len(column.values), known[text.fill], dtype=np.int64)
        levels = [known.get(level, rest) for level in column.levels] + [known[text.fill]]  # the last: empty cells
        return np.asarray(np.array(levels, dtype=np.int64)[column.values])

    def _sparse(self, X: Floats, places: list[Ints]) -> csr_array:
        rows = len(X)
        indices = np.column_stack(places)
        there = indices >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        shape = rows, self.width - len(self.numbers)
        ones = csr_array((np.ones(int(there.sum())), indices[there], starts), shape=shape)
        return csr_array(hstack([csr_array(X), ones], format="csr")) if len(self.numbers) else ones

    @cached_property
    def _class_number(self) -> dict[ClassName, int]:
        return {name: number for number, name in enumerate(self.classes)}

    def targets(self, table: Table, rows: Ints | None = None) -> Targets:
        """Class numbers 0, 1, ..., or numbers to predict; a class that training did not have is refused."""
        column = table.columns[self.label]
        rows = np.arange(table.rows) if rows is None else rows
        if not self.classes:
            return np.asarray(column.values[rows], dtype=np.float64)
        names = class_names(column)
        unknown = [name for name in names if name not in self._class_number]
        if unknown:
            raise InputError(
                f"{table.path}: {self.label!r} is {unknown[0]!r} somewhere, which is none of the classes of training "
                f"({', '.join(map(str, self.classes))}); correct it",
                code="table.classes",
            )
        numbers = np.array([self._class_number[name] for name in names], dtype=np.int64)
        return numbers[class_codes(column)[rows]]

    def unseen(self, table: Table) -> dict[str, int]:
        """By column, rows whose value the schema does not name."""
        found = {}
        for text in self.texts:
            column = table.columns[text.name]
            strange = np.array([level not in text.counts for level in column.levels] + [False])
            count = int(strange[column.values].sum()) if column.kind == "text" else 0
            if count:
                found[text.name] = count
        return found

    # as JSON

    def as_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` reads them back."""
        return {
            "label": self.label,
            "rows": self.rows,
            "min_count": self.min_count,
            "classes": list(self.classes),
            "class_counts": list(self.class_counts),
            "numbers": [
                {
                    "name": c.name,
                    "count": c.sums.count,
                    "mean": c.mean,
                    "deviation": c.deviation,
                    "sums": c.sums.packed(),
                }
                for c in self.numbers
            ],
            "texts": [{"name": c.name, "counts": c.counts, "other": c.other, "missing": c.missing} for c in self.texts],
            "left_out": list(self.left_out),
        }

    def text(self) -> str:
        """As JSON; `from_text` reads it back."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """From `text`."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """From `as_dict`."""
        rows = values["rows"]
        return cls(
            values["label"],
            rows,
            tuple(NumberColumn.of(c["name"], ExactSum.unpacked(c["sums"]), rows) for c in values["numbers"]),
            tuple(TextColumn(c["name"], c["counts"], c["other"], c["missing"]) for c in values["texts"]),
            tuple(values["classes"]),
            tuple(values["class_counts"]),
            values["min_count"],
            tuple(values["left_out"]),
        )


def class_names(column: Column) -> list[ClassName]:
    """The names in a label column, by code: whole numbers as such, so that 1, 1.0 and "1" are one class."""
    if column.kind == "text":
        return list(column.levels)
    return [int(value) if value == int(value) else value for value in np.unique(column.values).tolist()]


def class_codes(column: Column) -> Ints:
    """Of each row, the position of its class in `class_names`."""
    if column.kind == "text":
        return column.values.astype(np.int64)
    return np.unique(column.values, return_inverse=True)[1].astype(np.int64)
