"""A table of the user's own: comma-separated, numeric features, one label column."""

import math
from collections.abc import Sequence
from csv import Error as MalformedRow, reader
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.data.dataset import Dataset, standardised
from equipoise.data.split import Floats, Targets, hold_out
from equipoise.errors import InputError, unknown_name

TASKS = ("auto", "classification", "regression")
MOST_CLASSES = 20  # with task="auto", more distinct integers than this are a quantity, not classes


@dataclass(frozen=True)
class Record:
    """One record and the line of the file it ends on."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class Records:
    """The rows of a file, all of one length, and what to call its columns (None without a header)."""

    path: Path
    rows: Sequence[Record]
    names: list[str] | None

    def error(self, row: Record, column: int, problem: str) -> InputError:
        """Says where: file:line, and the column by name, or by number from 1."""
        name = repr(self.names[column]) if self.names and self.names[column] else str(column + 1)
        return InputError(f"{self.path}:{row.line}: column {name}: {problem}", code="table.cell")


def csv(
    path: str | Path, label: str | None = None, task: str = "auto", test_fraction: float = 0.2, seed: int = 0
) -> Dataset:
    """Read a table; the label is the named column, or the last. Features are standardised by the training part.

    A header is optional. Text labels become classes in sorted order; task="auto" also takes integers of at most 20
    distinct values for classes, and any other numbers for a regression target.
    """
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)
    table, label_column = _tabulate(Path(path), label)
    X = _features(table, label_column)
    y, classes = _targets(table, label_column, task)
    train, test = hold_out(y, test_fraction, seed)
    X_train, X_test = standardised(X[train], X[test])
    return Dataset(table.path.stem, X_train, y[train], X_test, y[test], classes)


def _tabulate(path: Path, label: str | None) -> tuple[Records, int]:
    """The table, its header taken off, and the position of the label column."""
    rows = _read(path)
    first = rows[0]
    width = len(first.cells)
    if width < 2:
        raise _odd(path, first.line, "1 column; give at least one feature and a label, separated by commas")
    for row in rows:
        if len(row.cells) != width:
            raise _odd(path, row.line, f"{len(row.cells)} cells, but {width} in line {first.line}")
    if not _is_header(rows, label):
        if label is not None:
            raise _odd(
                path,
                first.line,
                f"no header to find label column {label!r} in;"
                " add a line of column names, or give no label to use the last column",
            )
        return Records(path, rows, None), width - 1
    if label is not None and first.cells.count(label) != 1:
        if label in first.cells:
            raise _odd(path, first.line, f"{first.cells.count(label)} columns are named {label!r}; rename one")
        raise InputError(
            f"{path}:{first.line}: {unknown_name('label column', label, filter(None, first.cells))}", code="unknown"
        )
    if len(rows) == 1:
        raise _odd(path, first.line, "a header and no rows; give at least one row of numbers below it")
    return Records(path, rows[1:], first.cells), width - 1 if label is None else first.cells.index(label)


def _odd(path: Path, line: int, problem: str) -> InputError:
    return InputError(f"{path}:{line}: {problem}", code="table.form")


def _read(path: Path) -> list[Record]:
    """All rows that are not blank, cells stripped of spaces."""
    if not path.is_file():
        raise InputError(f"no file {path}; give the path of a comma-separated table", code="file.missing")
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = reader(file, skipinitialspace=True)
        try:
            rows = [Record(lines.line_num, [cell.strip() for cell in cells]) for cells in lines if cells]
        except UnicodeDecodeError:
            raise InputError(
                f"{path}: not a text file in UTF-8; save the table as UTF-8 text", code="file.read"
            ) from None
        except MalformedRow as error:
            raise _odd(path, lines.line_num, f"not a comma-separated row ({error})") from None
    if not rows:
        raise InputError(f"{path}: empty; give a table with one sample a line", code="table.form")
    return rows


def _is_header(rows: Sequence[Record], label: str | None) -> bool:
    """A first row with text in it is a header, unless the text is only a last label that comes back further down."""
    *features, last = rows[0].cells
    if label is not None and label in rows[0].cells:
        return True
    if any(cell and _number(cell) is None for cell in features):
        return True
    if not last or _number(last) is not None:
        return False
    return not (label is None and any(row.cells[-1] == last for row in rows[1:]))


def _number(cell: str) -> float | None:
    """The cell as a float; None if it is not one (Python's own 1_000 is not)."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _features(table: Records, label_column: int) -> Floats:
    columns = [column for column in range(len(table.rows[0].cells)) if column != label_column]
    X = np.empty((len(table.rows), len(columns)))
    for i, row in enumerate(table.rows):
        for j, column in enumerate(columns):
            X[i, j] = _finite(table, row, column)
    return X


def _finite(table: Records, row: Record, column: int) -> float:
    cell = row.cells[column]
    number = _number(cell)
    if number is None:
        found = f"{cell!r} is not a number" if cell else "empty, where a number is needed"
        raise table.error(row, column, f"{found}; correct the cell, or drop the row or the column")
    if not math.isfinite(number):
        raise table.error(row, column, f"{cell!r} is not finite; correct the cell, or drop the row")
    return number


def _targets(table: Records, column: int, task: str) -> tuple[Targets, int]:
    """Class labels and their number, or regression targets and 0."""
    numbers = [_number(row.cells[column]) for row in table.rows]
    for row, number in zip(table.rows, numbers, strict=True):
        if not row.cells[column] or (number is not None and not math.isfinite(number)):
            raise table.error(row, column, f"label {row.cells[column]!r} is missing or not finite; drop the row")
    if task == "regression":
        return np.array([_finite(table, row, column) for row in table.rows]), 0
    texts = [row for row, number in zip(table.rows, numbers, strict=True) if number is None]
    if task == "auto" and texts and len(texts) < len(table.rows):
        raise table.error(
            texts[0],
            column,
            f"label {texts[0].cells[column]!r} is text and others are numbers; correct it,"
            " or give task='classification' to take them all as class names",
        )
    labels = np.array([row.cells[column] for row in table.rows] if texts else numbers)
    names, y = np.unique(labels, return_inverse=True)
    if task == "auto" and not texts and not (len(names) <= MOST_CLASSES and np.all(names == np.floor(names))):
        return labels, 0
    if len(names) < 2:
        raise table.error(
            table.rows[0], column, f"every label is {table.rows[0].cells[column]!r}; classes need two different labels"
        )
    return y.astype(np.int64), len(names)
