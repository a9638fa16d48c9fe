"""The form of a text file: its separator, its header, its rows and the lines they stand on."""

from __future__ import annotations

import csv
import re
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from equipoise.data._cells import Cells
from equipoise.data._written import MISSING, has_decimal_comma, number
from equipoise.data.problems import FIRST, Report, at_lines

SEPARATORS = {"\t": "tabs", ";": ";", ",": ","}  # those that seldom stand in a cell first
SAMPLE = 50  # lines that are looked at to find the separator
CHUNK = 1 << 13  # cells held as Python strings at a time: they stay in the cache of the processor
TOLD = re.compile(r"""["']?sep=([;,\t|])["']?\s*""", re.IGNORECASE)  # a first line that Excel writes and reads
LEAST = 64  # rows at a time, of however many columns
END = "\0end"  # read after the last line: if it is found inside a cell, the quotes of that cell were not closed


class Lines:
    """The file's line of each row. Kept as the rows where the distance of the two changes."""

    def __init__(self, first: int = 1) -> None:
        self.rows, self.shifts = array("q", [0]), array("q", [first])

    def add(self, row: int, lines: Sequence[int]) -> None:
        """The lines of the rows from `row` on."""
        if lines[0] - row == self.shifts[-1] and lines[-1] - lines[0] == len(lines) - 1:
            return
        for at, line in enumerate(lines, row):
            if line - at != self.shifts[-1]:
                if self.rows[-1] == at:
                    self.shifts[-1] = line - at
                else:
                    self.rows.append(at)
                    self.shifts.append(line - at)

    def __call__(self, row: int) -> int:
        return row + self.shifts[bisect_right(self.rows, row) - 1]


class CsvRows:
    """A file of separated cells. Raises Unreadable, with the reason in the report, where it cannot be read on.

    Parameters
    ----------
    path
        The file, in UTF-8.
    report
        Takes what is wrong.
    known
        Columns that should be there: they tell a header from a row, and the separator.
    exact
        All of `known` are in the first row, or it is no header.
    underscores
        How many underscores the file has.
    """

    def __init__(self, path: Path, report: Report, known: Collection[str], *, exact: bool, underscores: int) -> None:
        self.path, self.report, self.notes = path, report, list[str]()
        self.told = self._told()
        self.separator = self.told or self._separator(known)
        first = self._first_rows()
        self.width = len(first[0])
        self.header = _is_header(first, known, exact, self.separator != ",")
        self.names = first[0] if self.header else [str(place + 1) for place in range(self.width)]
        self.odd_cells = underscores > (sum(cell.count("_") for cell in first[0]) if self.header else 0)
        self.lines = Lines()
        self.rows = 0
        self.first_line = next(self._chunks(1))[1][0]
        self.decimal_commas = self.separator != "," and any(has_decimal_comma(cell) for row in first for cell in row)
        if self.told:
            self.notes.append(f"the first line says what separates fields, and was skipped: sep={self.told!r}")
        elif self.separator != ",":
            self.notes.append(f"fields are separated by {SEPARATORS[self.separator]}")
        if not self.header:
            how = "taken by their position" if exact else "called by their number"
            self.notes.append(f"no header was found: columns are {how}")

    def cells(self, name: str, *, coded: bool) -> Cells:
        """An empty column of this file."""
        return Cells(name, commas=self.separator != ",", underscores=self.odd_cells, coded=coded)

    def nested(self, place: int) -> str | None:
        """A cell of text holds one value."""
        return None

    def pour(self, columns: Mapping[int, Cells]) -> None:
        """Give every row's cells to the columns, by position. Rows of another length are reported and left out."""
        self.lines, self.rows = Lines(), 0
        wrong, first = 0, list[tuple[int, int]]()
        for rows, lines in self._chunks(max(LEAST, CHUNK // self.width), skip=self.header):
            if set(map(len, rows)) != {self.width}:
                odd = [(line, len(row)) for row, line in zip(rows, lines, strict=True) if len(row) != self.width]
                lines = [line for row, line in zip(rows, lines, strict=True) if len(row) == self.width]
                rows = [row for row in rows if len(row) == self.width]
                wrong, first = wrong + len(odd), (first + odd)[:FIRST]
            if rows:
                self.lines.add(self.rows, lines)
                self.rows += len(rows)
                by_column = list(zip(*rows, strict=True))
                del rows
                for place, cells in columns.items():
                    cells.add(by_column[place])
        if wrong:
            self._report_width(wrong, first)

    def _report_width(self, count: int, first: list[tuple[int, int]]) -> None:
        if any(problem.code == "table.width" for problem in self.report.problems):
            return  # the file is read a second time
        found = ", ".join(str(width) for _, width in first)
        where = f"line {self.first_line}" if self.header else f"the first row, line {self.first_line}"
        self.report.add(
            "table.width",
            first[0][0],
            f"{count:,} row{'s have' if count > 1 else ' has'} another number of cells"
            f" ({at_lines([line for line, _ in first], count)}: {found}; {where} has {self.width});"
            " correct the rows, and put cells that hold the separator or a line break in quotes",
        )

    def _chunks(self, size: int, skip: bool = False) -> Iterator[tuple[list[list[str]], list[int]]]:
        """Rows that are not blank, at most `size` at a time, and the line each begins on; the first one not if `skip`."""
        above = 1 if self.told else 0
        rows, lines, line = list[list[str]](), list[int](), 1 + above
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                records = csv.reader(
                    chain(islice(file, above, None), (END,)), delimiter=self.separator, skipinitialspace=True
                )
                for cells in records:
                    if len(cells) > 1 or (cells and cells[0].strip()):
                        if cells[-1].endswith(END):
                            break
                        if skip:
                            skip = False
                        else:
                            rows.append(cells)
                            lines.append(line)
                            if len(rows) == size:
                                yield rows, lines
                                rows, lines = [], []
                    line = records.line_num + 1 + above
                if cells != [END]:
                    raise self.report.stop("table.form", line, 'a quote " is not closed before the file ends; close it')
        except UnicodeDecodeError:
            what = (
                'not UTF-8 from this line on; save the file as "CSV UTF-8" (so Excel calls it), or convert it:'
                f" iconv -f {self._encoding()} -t UTF-8 old.csv > new.csv"
            )
            raise self.report.stop("file.read", self._undecodable(), what) from None
        except csv.Error as error:
            raise self.report.stop(
                "table.form", line, f'not a row of separated cells ({error}); is a quote " not closed?'
            ) from None
        if rows:
            yield rows, lines

    def _undecodable(self) -> int:
        """The first line with a byte that is not UTF-8."""
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            return next((place for place, line in enumerate(file, 1) if re.search("[\ud800-\udfff]", line)), 1)

    def _encoding(self) -> str:
        """What a file that is not UTF-8 most likely is."""
        with self.path.open("rb") as file:
            return "UTF-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"

    def _told(self) -> str | None:
        """The separator that the first line names, if that is all it does."""
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            found = TOLD.fullmatch(file.readline(20))
        return found and found[1]

    def _first_rows(self) -> list[list[str]]:
        """Enough rows, stripped, to know a header by."""
        for rows, _ in self._chunks(1000):
            return [[cell.strip() for cell in row] for row in rows]
        raise self.report.stop("table.empty", None, "empty; give a table with a header and one row a line")

    def _separator(self, known: Collection[str]) -> str:
        """The separator of the first row: the one that finds a known column, or cuts the next rows alike."""
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                sample = list(islice(file, SAMPLE))
        except UnicodeDecodeError:
            return ","  # reported when the rows are read
        tables = {}
        for separator in SEPARATORS:
            try:
                rows = [row for row in csv.reader(sample, delimiter=separator, skipinitialspace=True) if any(row)]
            except csv.Error:
                continue
            if rows and len(rows[0]) > 1:
                tables[separator] = rows[:-1] if len(rows) > 1 and len(sample) == SAMPLE else rows
        for separator, rows in tables.items():
            if set(known).intersection(cell.strip() for cell in rows[0]):
                return separator
        for separator, rows in tables.items():
            if len({len(row) for row in rows}) == 1:
                return separator
        return max(tables, key=lambda separator: len(tables[separator][0]), default=",")


def are_positions(names: Collection[str]) -> bool:
    """Whether these may be columns that are called by their number, of a file without a header."""
    return bool(names) and all(name.isdecimal() and name == str(int(name)) and name != "0" for name in names)


def _is_header(rows: Sequence[Sequence[str]], known: Collection[str], exact: bool, commas: bool) -> bool:
    """A first row with text in it is a header, unless all its text comes back further down in the same columns."""
    first = rows[0]
    counted = first in [[str(place + start) for place in range(len(first))] for start in (0, 1)]
    text = [place for place, cell in enumerate(first) if cell not in MISSING and number(cell, commas) is None]
    new = any(all(len(row) <= place or row[place] != first[place] for row in rows[1:]) for place in text)
    if exact and are_positions(known):
        known_here = set(known).issubset(first)
        return known_here and (counted or new or max(map(int, known)) > len(first))
    if exact and known and set(known).issubset(first):
        return True
    if any(name in first and number(name) is None for name in known):
        return True
    if not exact and any(name in first for name in known):  # a number: a row may hold it too
        return counted
    return bool(text) if known else new
