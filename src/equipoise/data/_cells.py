"""The cells of one column: what each means, and what the column is when all are read."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from equipoise.data._written import MISSING, in_disguise, is_date, is_number, number, with_thousands
from equipoise.data.problems import FIRST, Report, at_lines, cut

Kind = Literal["number", "text", "empty"]

AS_NAN = dict.fromkeys(MISSING, "NaN")
TRUTH = {"true": 1.0, "false": 0.0}
DATES = 0.9  # from this share of its values on, a column is one of dates
DISGUISED = 0.9  # from this share of its values on, a column of text is one of numbers written for people
PLAIN = "write plain numbers such as 1234.56"
HEAD = 1000  # a value twice among so many: no id, and no need to look at the rest


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a file.

    Parameters
    ----------
    name
        From the header; its position from 1 in a file without one.
    kind
        "empty": it has no value at all.
    values
        Array of shape (n_rows,). number and empty: float64, nan where missing. text: int32 codes into `levels`, -1
        where missing.
    levels
        text: its distinct values, sorted.
    first
        Line of its first value, for messages.
    different
        Text or whole numbers, more than one, and no value twice: looks like an id.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    first: int = 1
    different: bool = False


class Codes(dict[str, int]):
    """Distinct cells, numbered in the order in which they are met."""

    def __missing__(self, cell: str) -> int:
        self[cell] = code = len(self)
        return code


@dataclass
class Seen:
    """Where something was met: how often, in which first rows, and what stood in the first."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    cell: str = ""

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, row: int, cell: str) -> None:
        """Met once more."""
        self.cell = cell if self.count == 0 else self.cell
        self.count += 1
        if len(self.rows) < FIRST:
            self.rows.append(row)


class Cells:
    """One column while its file is read, a chunk of rows at a time.

    It holds floats, or a code for each cell from the first chunk with values on if most of those are text. Cells are
    never kept as they are written: a column that turns out to be text later (`doubtful`) is read again with `coded`.

    Parameters
    ----------
    name
        Of the column.
    commas
        1,5 is a number here: the comma does not separate cells.
    underscores
        There may be cells such as 1_000, which float() takes and we do not.
    coded
        Code the cells from the first on.
    """

    def __init__(self, name: str, *, commas: bool = False, underscores: bool = False, coded: bool = False) -> None:
        self.name, self.commas, self.underscores = name, commas, underscores
        self.codes = Codes() if coded else None
        self.values: NDArray[Any] = np.empty(0, np.int32 if coded else np.float64)
        self.rows = 0
        self.present = 0  # numbers so far
        self.text = Seen()  # cells that are text, among numbers
        self.comma = Seen()  # first numbers with a decimal comma, and with a point
        self.point = Seen()
        # Numbers such as 3.036; None once a point is sure to be decimal.
        self.thousands: Seen | None = Seen() if commas else None
        self.way = 0  # of WAYS, that by which the last cells were read

    @property
    def doubtful(self) -> bool:
        """Read as numbers, yet at least half of it is text."""
        return self.codes is None and self.text.count > 0 and self.present <= self.text.count

    def add(self, cells: Sequence[str]) -> None:
        """Take the cells of the next rows, as written."""
        if self.codes is None:
            text = self.text.count
            numbers = self._numbers(cells)
            present = int(np.count_nonzero(numbers == numbers))
            if text or self.present or self.text.count < max(present, 1):
                self.present += present
                self.put(numbers)
                return
            self.codes, self.text = Codes(), Seen()
            self.values = np.full(self.rows, self.codes[""], np.int32)
        self.put(np.fromiter(map(self.codes.__getitem__, cells), np.int32, len(cells)))

    def add_numbers(self, values: NDArray[np.float64]) -> None:
        """Take the values of the next rows, nan where missing."""
        self.present += int(np.count_nonzero(values == values))
        self.put(values)

    def put(self, part: NDArray[Any]) -> None:
        """Append; the array grows in place, by a quarter at least."""
        need = self.rows + len(part)
        if need > len(self.values):
            self.values.resize(max(need, len(self.values) * 5 // 4), refcheck=False)
        self.values[self.rows : need] = part
        self.rows = need

    def _numbers(self, cells: Sequence[str]) -> NDArray[np.float64]:
        """The cells as floats, nan where missing or text; text is noted. Nearly always one of the fast ways does."""
        written = cells
        if self.commas or self.underscores:
            joined = "\n".join(cells)
            if self.commas:
                self._note_points(cells, joined)
            if "_" in joined:
                return self._one_by_one(written)
            if self.commas and "," in joined:
                cells = joined.replace(",", ".").split("\n")
                if len(cells) != len(written):
                    return self._one_by_one(written)
        for way in range(self.way, len(WAYS)):
            self.way = way
            try:
                return WAYS[way](cells)
            except (ValueError, TypeError, OverflowError):
                continue
        return self._one_by_one(written)

    def _one_by_one(self, cells: Sequence[str]) -> NDArray[np.float64]:
        values = np.full(len(cells), math.nan)
        for row, written in enumerate(cells):
            cell = written.strip()
            if cell not in MISSING:
                value = number(cell, self.commas)
                if value is None:
                    self.text.add(self.rows + row, cell)
                else:
                    values[row] = value
        return values

    def _note_points(self, cells: Sequence[str], joined: str) -> None:
        for mark, seen in ((",", self.comma), (".", self.point)):
            if not seen.count and mark in joined:
                for row, cell in enumerate(cells):
                    if mark in cell and number(cell.strip(), commas=True) is not None:
                        seen.add(self.rows + row, cell.strip())
                        break
        if self.thousands is not None and "." in joined:
            self._note_thousands(self.thousands, cells)

    def _note_thousands(self, seen: Seen, cells: Sequence[str]) -> None:
        """Points before three digits, as long as there are no others."""
        for row, written in enumerate(cells):
            if "." in written and number(cell := written.strip(), commas=True) is not None:
                if not with_thousands(cell):
                    self.thousands = None
                    break
                seen.add(self.rows + row, cell)

    def refuse_thousands(self, line: Callable[[int], int], report: Report) -> None:
        """Refuse the column: other numbers of this file have decimal commas, so that its points separate thousands."""
        assert self.thousands is not None
        first, seen = line(self.thousands.rows[0]), self.thousands
        report.add(
            "table.thousands",
            first,
            f"column {self.name!r}: {_counted(seen.count, 'number has', 'numbers have')} a point before three digits (first"
            f" {cut(seen.cell)} in line {first}), and this file has decimal commas; write {seen.cell.replace('.', '')}"
            f" without the point, or {seen.cell.replace('.', ',')} if it is a decimal one",
        )

    def column(self, line: Callable[[int], int], report: Report, *, text: bool, wanted: str | None) -> Column | None:
        """The column, when all its rows are in; None and a problem in the report if it cannot be one.

        Parameters
        ----------
        line
            The file's line of a row.
        report
            Takes the problems.
        text
            The user takes this column as text.
        wanted
            "number" or "text": nothing else will do. None: what it looks like.
        """
        self.values.resize(self.rows, refcheck=False)
        if self.codes is None:
            return self._number_column(line, report, wanted)
        return self._coded_column(self.codes, line, report, text or wanted == "text", wanted)

    def _number_column(self, line: Callable[[int], int], report: Report, wanted: str | None) -> Column | None:
        found = len(report.problems)
        if self.text.count:
            self._text_among_numbers(self.text, self.present + self.text.count, line, report, wanted)
        infinite = np.flatnonzero(np.isinf(self.values))
        if len(infinite):
            lines, count = [line(int(row)) for row in infinite[:FIRST]], len(infinite)
            report.add(
                "table.infinite",
                lines[0],
                f"column {self.name!r}: {_counted(count, 'value is', 'values are')} not finite"
                f" ({at_lines(lines, count)}); correct or empty the cells",
            )
        if self.comma.count and self.point.count:
            comma, point = line(self.comma.rows[0]), line(self.point.rows[0])
            report.add(
                "table.commas",
                min(comma, point),
                f"column {self.name!r}: decimal commas ({cut(self.comma.cell)} in line {comma}) and points"
                f" ({cut(self.point.cell)} in line {point}); write all its numbers in one way",
            )
        if len(report.problems) > found:
            return None
        if not self.present:
            return self._empty(wanted)
        first = int(np.argmax(self.values == self.values))
        return Column(self.name, "number", self.values, (), line(first), all_different(self.values))

    def _empty(self, wanted: str | None) -> Column:
        if wanted == "text":
            return Column(self.name, "text", np.full(self.rows, -1, np.int32))
        return Column(self.name, "number" if wanted else "empty", np.full(self.rows, math.nan))

    def _coded_column(
        self, codes: Codes, line: Callable[[int], int], report: Report, text: bool, wanted: str | None
    ) -> Column | None:
        cells = [cell.strip() for cell in codes]
        counts = np.bincount(self.values, minlength=len(cells))
        levels = tuple(sorted({cell for cell in cells if cell not in MISSING}))
        present = int(counts[[cell not in MISSING for cell in cells]].sum()) if cells else 0
        if not present:
            return self._empty(wanted)
        if not text and all(level.lower() in TRUTH for level in levels):
            return self._truths(cells, line)
        if not text and not self._is_text(cells, counts, present, line, report, wanted):
            return None
        place = {level: code for code, level in enumerate(levels)}
        values = np.array([place.get(cell, -1) for cell in cells], np.int32)[self.values]
        first = line(int(np.argmax(values >= 0)))
        return Column(self.name, "text", values, levels, first, 1 < present == len(levels))

    def _truths(self, cells: list[str], line: Callable[[int], int]) -> Column:
        """true and false, as 1 and 0."""
        values = np.array([TRUTH.get(cell.lower(), math.nan) for cell in cells])[self.values]
        first = line(int(np.argmax(values == values)))
        return Column(self.name, "number", values, (), first, all_different(values))

    def _is_text(
        self,
        cells: list[str],
        counts: NDArray[np.int64],
        present: int,
        line: Callable[[int], int],
        report: Report,
        wanted: str | None,
    ) -> bool:
        """Whether the column is text: neither dates nor text among numbers, and no numbers are wanted."""

        def where(wrong: list[bool]) -> Seen:
            rows = np.flatnonzero(np.array(wrong)[self.values])
            return Seen(int(counts[wrong].sum()), rows[:FIRST].tolist(), cells[self.values[rows[0]]])

        dates = [is_date(cell) for cell in cells]
        if wanted is None and counts[dates].sum() >= DATES * present:
            self.dates(where(dates), line, report)
            return False
        words = [cell not in MISSING and not is_number(cell, self.commas) for cell in cells]
        if wanted is None and any(word and in_disguise(cell) for word, cell in zip(words[:HEAD], cells, strict=False)):
            disguised = [word and in_disguise(cell) for word, cell in zip(words, cells, strict=True)]
            like = present - counts[words].sum() + counts[disguised].sum()
            if 2 * counts[words].sum() >= present and like >= DISGUISED * present:
                self._in_disguise(where(disguised), line, report)
                return False
        if wanted == "number" or 2 * counts[words].sum() < present:
            if any(words):
                self._text_among_numbers(where(words), present, line, report, wanted)
            return False
        return True

    def dates(self, seen: Seen, line: Callable[[int], int], report: Report) -> None:
        """Refuse the column as one of dates."""
        lines, name = [line(row) for row in seen.rows], shlex.quote(self.name)
        report.add(
            "table.dates",
            lines[0],
            f"column {self.name!r}: {_counted(seen.count, 'value is a date', 'values are dates')}"
            f" (first {cut(seen.cell)}; {at_lines(lines, seen.count)}); leave it out with --drop {name}, turn it into"
            f" a number such as days since the first, or take it as text with --text {name}",
        )

    def _in_disguise(self, seen: Seen, line: Callable[[int], int], report: Report) -> None:
        """Refuse the column as one of numbers that are written for people."""
        lines, name = [line(row) for row in seen.rows], shlex.quote(self.name)
        report.add(
            "table.numberlike",
            lines[0],
            f"column {self.name!r}: {_counted(seen.count, 'value looks', 'values look')} like numbers written for people"
            f" (first {cut(seen.cell)}; {at_lines(lines, seen.count)}); {PLAIN}, or take it as text with --text {name},"
            f" or leave it out with --drop {name}",
        )

    def _text_among_numbers(
        self, seen: Seen, present: int, line: Callable[[int], int], report: Report, wanted: str | None
    ) -> None:
        lines = [line(row) for row in seen.rows]
        way_out = "" if wanted else f", or take the column as text with --text {shlex.quote(self.name)}"
        way = PLAIN if in_disguise(seen.cell) else "correct the cells"
        found = _counted(seen.count, "value is", "values are", present)
        report.add(
            "table.text",
            lines[0],
            f"column {self.name!r}: {found} text {'where numbers are needed' if wanted else 'among numbers'}"
            f" (first {cut(seen.cell)}; {at_lines(lines, seen.count)}); {way}, or empty them{way_out}",
        )


def _as_json(joined: str, count: int) -> NDArray[np.float64]:
    """Cells with commas between them, as floats.

    Nearly all numbers are JSON, and its reader is four times as fast as float() and as exact.

    What JSON has beside numbers is refused: quoted strings, true, false, line breaks. -0 would be a whole number, without
    its sign.
    """
    if any(mark in joined for mark in '"us\t\r\n'):
        raise ValueError
    text = f"{joined},"
    if "-0," in text:
        text = text.replace("-0,", "-0.0,")
    if " " in text and "-0 " in text:
        text = text.replace("-0 ", "-0.0 ")
    values = from_json(f"[{text[:-1]}]")
    if len(values) != count:
        raise ValueError
    return np.fromiter(values, np.float64, count)


def _plain(cells: Sequence[str]) -> NDArray[np.float64]:
    return _as_json(",".join(cells), len(cells))


def _with_empty(cells: Sequence[str]) -> NDArray[np.float64]:
    """Twice: of two empty cells beside each other, the first replacement ends where the second would begin."""
    joined = f",{','.join(cells)},".replace(",,", ",NaN,").replace(",,", ",NaN,")
    return _as_json(joined[1:-1], len(cells))


def _with_missing(cells: Sequence[str]) -> NDArray[np.float64]:
    return _as_json(",".join(_named(cells)), len(cells))


def _by_float(cells: Sequence[str]) -> NDArray[np.float64]:
    return np.fromiter(map(float, _named(cells)), np.float64, len(cells))


def _named(cells: Sequence[str]) -> Iterable[str]:
    """The cells, with NaN for those that are missing."""
    return map(AS_NAN.get, cells, cells)


# The fastest first; each reads what those before it read, and more.
WAYS = (_plain, _with_empty, _with_missing, _by_float)


def _counted(count: int, one: str, many: str, of: int | None = None) -> str:
    words = one if count == 1 else many
    return f"{count:,} {words}" if of is None else f"{count:,} of {of:,} values {words.split()[-1]}"


def all_different(values: NDArray[np.float64]) -> bool:
    """Whether these are whole numbers, more than one, and none twice; nan is missing."""
    for part in (values[:HEAD], values):
        present = part[~np.isnan(part)]
        if not np.all(present == np.floor(present)) or len(np.unique(present)) < len(present):
            return False
    return len(present) > 1
