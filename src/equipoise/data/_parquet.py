"""Parquet files, through pyarrow: the same columns as those of a text file with the same values."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data._cells import Cells, Seen
from equipoise.data._csv_rows import Lines
from equipoise.data.problems import Report
from equipoise.errors import InputError

INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index that has no name
BATCH = 1 << 16  # rows at a time


class ParquetRows:
    """A parquet file. Raises Unreadable, with the reason in the report, where it cannot be read."""

    header = True
    first_line = None
    decimal_commas = False

    def __init__(self, path: Path, report: Report) -> None:
        self.path, self.report, self.notes = path, report, list[str]()
        self.arrow = _pyarrow("pyarrow")
        self.lines = Lines()
        try:
            self.file = _pyarrow("pyarrow.parquet").ParquetFile(path)
        except (OSError, ValueError, self.arrow.lib.ArrowException) as error:
            raise self._damaged(error) from None
        schema = self.file.schema_arrow
        self.names: list[str] = ["" if INDEX.fullmatch(name) else name.strip() for name in schema.names]
        self.types = list(schema.types)
        self.rows: int = self.file.metadata.num_rows
        self.dates: dict[int, Seen] = {}

    def cells(self, name: str, *, coded: bool) -> Cells:
        """An empty column of this file."""
        return Cells(name, underscores=True, coded=coded)

    def nested(self, place: int) -> str | None:
        """The type of this column, if it is neither numbers nor text nor dates."""
        is_, kind = self.arrow.types, self._type(place)
        tests = (is_.is_integer, is_.is_floating, is_.is_boolean, is_.is_decimal, is_.is_null, is_.is_temporal)
        return None if _is_text(is_, kind) or any(test(kind) for test in tests) else str(kind)

    def pour(self, columns: Mapping[int, Cells]) -> None:
        """Give every row's cells to the columns, by position."""
        row, self.dates = 0, {}
        try:
            for batch in self.file.iter_batches(BATCH):
                for place, cells in columns.items():
                    self._add(batch.column(place), place, cells, row)
                row += batch.num_rows
        except (OSError, ValueError, self.arrow.lib.ArrowException) as error:
            raise self._damaged(error) from None

    def _type(self, place: int) -> Any:
        kind = self.types[place]
        return kind.value_type if self.arrow.types.is_dictionary(kind) else kind

    def _add(self, values: Any, place: int, cells: Cells, row: int) -> None:
        is_, kind = self.arrow.types, self._type(place)
        if self.arrow.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if is_.is_temporal(kind) and cells.codes is None:
            present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            seen = self.dates.setdefault(place, Seen())
            for at in present[:3].tolist():
                seen.add(row + at, str(values[at]))
            seen.count += max(0, len(present) - 3)
        if _is_text(is_, kind) or cells.codes is not None:
            cells.add(self._written(values, kind))
        elif is_.is_temporal(kind) or is_.is_null(kind):
            cells.add_numbers(np.full(len(values), np.nan))
        else:
            numbers = values.cast(self.arrow.uint8()) if is_.is_boolean(kind) else values
            numbers = numbers.cast(self.arrow.float64(), safe=False)
            cells.add_numbers(numbers.to_numpy(zero_copy_only=False))

    def _written(self, values: Any, kind: Any) -> list[str]:
        """As text; numbers, True and False as Python and pandas write them, so that a CSV file of them says the same."""
        is_ = self.arrow.types
        if _is_text(is_, kind) or is_.is_temporal(kind) or is_.is_null(kind):
            found: list[str] = values.cast(self.arrow.string()).fill_null("").to_pylist()
            return found
        return ["" if value is None else str(value) for value in values.to_pylist()]

    def _damaged(self, error: Exception) -> Exception:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return self.report.stop("table.form", None, f"not a parquet file, or a damaged one ({reason}); write it again")


def _is_text(is_: Any, kind: Any) -> bool:
    return bool(is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind))


def _pyarrow(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            "a parquet file needs pyarrow, which is not installed: pip install pyarrow", code="library.missing"
        ) from None
