"""Tables of the user's own: files of columns, read as they are written, with all that is wrong in them at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

import numpy as np

from equipoise.data._cells import Cells, Column as Column, Seen
from equipoise.data._csv_rows import CsvRows, Lines, are_positions
from equipoise.data._parquet import ParquetRows
from equipoise.data.problems import (
    FIRST,
    NAMES,
    Problem,
    Problems,
    Report,
    Unreadable,
    at_lines,
    listed,
    meant,
    no_column,
)
from equipoise.errors import refuse_if

SUFFIXES = (".csv", ".tsv", ".parquet")
WANTED = ", ".join(SUFFIXES[:-1]) + " or " + SUFFIXES[-1]
BLOCK = 1 << 20  # bytes hashed at a time
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of one file.

    Parameters
    ----------
    path
        The file, as the user gave it.
    rows
        How many, without the header.
    columns
        By name, in the file's order.
    digest
        SHA-256 of the file's bytes, in hexadecimal.
    notes
        What was read in a special way, without the file's name.
    lines
        The file's line of each row.
    unread
        Columns that something is wrong with; they stand among the others as empty ones.
    """

    path: Path
    rows: int
    columns: dict[str, Column]
    digest: str
    notes: tuple[str, ...] = ()
    lines: Callable[[int], int] = field(default_factory=Lines, repr=False)
    unread: frozenset[str] = frozenset()

    def line(self, row: int) -> int:
        """The file's line, from 1, on which a row begins; the row counts from 0."""
        return self.lines(row)


@dataclass(frozen=True)
class Wish:
    """What is asked of every file: see `read_tables`."""

    label: str | None
    drop: frozenset[str]
    text: frozenset[str]
    kinds: Mapping[str, str] | None

    @property
    def known(self) -> tuple[str, ...]:
        """Columns that a file must have."""
        return (*(self.kinds or ()), *(() if self.label is None else (self.label,)))

    def reads(self, name: str) -> bool:
        """Whether this column is read at all."""
        return name not in self.drop and (self.kinds is None or name in self.kinds)


def read_tables(
    paths: Sequence[str | Path],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> list[Table]:
    """Read every file; raise Problems with all that is wrong in all of them.

    Parameters
    ----------
    paths
        Files; those that end in .parquet are parquet, all others text with a separator.
    label
        The label column: a file without it, and rows without its value, are refused. None: no check.
    drop
        Columns left out. A name that no file has is refused.
    text
        Columns taken as text even if all their values are numbers. A name that no file has is refused.
    kinds
        "number" or "text" by column: exactly these columns are read, each as that kind, and a file may have no rows.
        None: all columns, each as what it looks like.
    """
    tables, problems = read_each(paths, label=label, drop=drop, text=text, kinds=kinds)
    if problems:
        raise Problems(problems)
    return [table for table in tables if table is not None]


def read_each(
    paths: Sequence[str | Path],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> tuple[list[Table | None], list[Problem]]:
    """As `read_tables`: the table of each file, None where it cannot be read at all, and the problems of all."""
    refuse_if(
        label in drop, f"{label!r} is the label, and a column to leave out; choose one of the two", code="table.drop"
    )
    wish = Wish(label, frozenset(drop), frozenset(text), kinds)
    problems: list[Problem] = []
    tables: list[Table | None] = []
    names: dict[str, None] = {}
    all_named = True
    for path in map(Path, paths):
        report, table = Report(path), None
        try:
            found, table = _read(path, report, wish)
            names |= dict.fromkeys(filter(None, found))
        except Unreadable:
            all_named = False
        tables.append(table)
        problems += sorted(report.problems, key=lambda problem: problem.line or 0)
    if all_named and kinds is None:
        for name in [name for name in dict.fromkeys([*drop, *text]) if name not in names]:
            option = "--drop" if name in wish.drop else "--text"
            what = no_column([name], [*names])
            if paths[1:]:
                what = f"none of the {len(paths)} files has a column {name!r}; together they have: {listed([*names])}"
                what += meant(name, [*names])
            what = f"{option} {name}: {what}"
            problems.append(Problem(Path(paths[0]), None, what, "unknown"))
    return tables, problems


def found_files(given: Sequence[str | Path]) -> list[Path]:
    """The files to read: files as given, and of a folder its .csv, .tsv and .parquet, sorted, without hidden ones."""
    problems: list[Problem] = []
    files: list[Path] = []
    for path in map(Path, given):
        if path.is_dir():
            inside = sorted(
                file
                for file in path.iterdir()
                if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
            )
            if not inside:
                problems.append(Problem(path, None, f"no file in this folder ends in {WANTED}", "file.missing"))
            files += inside
        elif not path.exists():
            problems.append(Problem(path, None, "no such file; give the path of a table", "file.missing"))
        elif path.suffix.lower() not in SUFFIXES:
            problems.append(Problem(path, None, _wrong_suffix(path), "file.suffix"))
        else:
            files.append(path)
    once: dict[Path, Path] = {}
    for file in files:
        before = once.setdefault(file.resolve(), file)
        if before is not file:
            what = f"given twice (as {before} before); give every file once"
            problems.append(Problem(file, None, what, "file.twice"))
    if problems:
        raise Problems(problems)
    return files


def _wrong_suffix(path: Path) -> str:
    return f"ends in {path.suffix!r}; give a file that ends in {WANTED}"


def _read(path: Path, report: Report, wish: Wish) -> tuple[list[str], Table | None]:
    """The names of a file's columns, and its table, if it has columns to be read."""
    try:
        digest, underscores, mark = _bytes(path, report)
        rows: CsvRows | ParquetRows
        if path.suffix.lower() == ".parquet":
            rows = ParquetRows(path, report)
        else:
            rows = CsvRows(path, report, wish.known, exact=wish.kinds is not None, underscores=underscores)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise report.stop("file.read", None, f"cannot be read ({reason}); give a file that can be") from None
    places = _columns(rows, report, wish)
    if not places:
        return rows.names, None
    columns, unread = _filled(rows, places, report, wish)
    if rows.rows == 0 and wish.kinds is None and not any(found.code == "table.width" for found in report.problems):
        report.add("table.rows", rows.first_line, "a header and no rows; give at least one row of values below it")
    if wish.label in columns and wish.label not in unread:
        check_label(columns[wish.label], rows.lines, report)
    notes = ["a byte-order mark was skipped"] * mark + rows.notes
    return rows.names, Table(path, rows.rows, columns, digest, tuple(notes), rows.lines, frozenset(unread))


def _bytes(path: Path, report: Report) -> tuple[str, int, bool]:
    """The digest of the file, how many underscores it has, and whether it begins with a byte-order mark."""
    if not path.is_file():
        what = "a folder; give the files in it" if path.is_dir() else "no such file; give the path of a table"
        raise report.stop("file.missing", None, what)
    if path.suffix.lower() not in SUFFIXES:
        raise report.stop("file.suffix", None, _wrong_suffix(path))
    digest, underscores, mark = hashlib.sha256(), 0, False
    with path.open("rb") as file:
        first = True
        while block := file.read(BLOCK):
            mark, first = (block.startswith(BYTE_ORDER_MARK) if first else mark), False
            digest.update(block)
            underscores += block.count(b"_")
    if first:
        raise report.stop("table.empty", None, "empty; give a table with a header and one row a line")
    return digest.hexdigest(), underscores, mark


def _columns(rows: CsvRows | ParquetRows, report: Report, wish: Wish) -> dict[int, str]:
    """Which columns are read, by position; what is wrong with their names is reported."""
    line, names = rows.first_line, [name for name in rows.names if name]
    unnamed = [place for place, name in enumerate(rows.names, 1) if not name]
    if unnamed and wish.kinds is None:
        one = len(unnamed) == 1
        what = f"column {unnamed[0]} has" if one else f"columns {_joined(unnamed)} have"
        rows.notes.append(f"{what} no name in the header and {'is' if one else 'are'} left out")
    if wish.kinds is not None and not rows.header and not are_positions(wish.kinds):
        wanted = ", ".join(map(repr, list(wish.kinds)[:NAMES]))
        report.add("table.header", line, f"no header; add a first line with the names of the columns: {wanted}")
        return {}
    if len(names) < 2 and wish.kinds is None:
        what = "only one column; give at least one feature and a label, separated by commas, semicolons or tabs"
        report.add("table.single", line, what)
        return {}
    if rows.header:
        _check_names(rows.names, line, report, wish)
    missing = [name for name in wish.known if name not in names]
    if missing:
        header = "" if rows.header else "no header: columns are called by their number; "
        way = "" if wish.kinds is None else "add the column (its cells may be empty)"
        report.add("table.column", line, header + no_column(missing, names, taken=wish.known, way=way))
    places = {name: place for place, name in reversed(list(enumerate(rows.names))) if name and wish.reads(name)}
    if not places and not missing:
        report.add("table.single", line, "all columns are left out; keep a label, and at least one feature")
    return dict(sorted((place, name) for name, place in places.items()))


def _check_names(names: list[str], line: int | None, report: Report, wish: Wish) -> None:
    by_name: dict[str, list[int]] = {}
    for place, name in filter(itemgetter(1), enumerate(names, 1)):
        by_name.setdefault(name, []).append(place)
    used = [name for name in by_name if wish.kinds is None or name in wish.kinds]
    twice = [name for name in used if len(by_name[name]) > 1]
    if twice:
        said = "; ".join(f"{name!r} is the name of columns {_joined(by_name[name])}" for name in twice[:FIRST])
        more = f"; and {len(twice) - FIRST:,} more" if len(twice) > FIRST else ""
        report.add("table.names", line, f"{said}{more}; rename all but one of each")


def _joined(places: list[int]) -> str:
    *first, last = map(str, places)
    return f"{', '.join(first)} and {last}"


def _filled(
    rows: CsvRows | ParquetRows, places: dict[int, str], report: Report, wish: Wish
) -> tuple[dict[str, Column], list[str]]:
    """Read the columns and judge each; also, of which something is wrong. One that turns out to be text after many numbers
    is read a second time."""
    nested = {place: what for place in places if (what := rows.nested(place)) is not None}
    for place, what in nested.items():
        way = "leave it out with --drop, or write numbers or text"
        report.add("table.nested", None, f"column {places[place]!r} holds {what}; {way}")
    kinds = wish.kinds or {}
    as_text = {place for place, name in places.items() if name in wish.text or kinds.get(name) == "text"}
    cells = {place: rows.cells(name, coded=place in as_text) for place, name in places.items() if place not in nested}
    rows.pour(cells)
    dates = rows.dates if isinstance(rows, ParquetRows) else {}
    again = {place: rows.cells(places[place], coded=True) for place, column in cells.items() if column.doubtful}
    if again:
        rows.pour(again)
    columns, unread, commas, thousands = dict[str, Column](), list[str](), list[str](), list[str]()
    decimal_commas = rows.decimal_commas or any(column.comma.count for column in cells.values())
    for place, name in places.items():
        column = None
        if place in cells:
            column = _judged(again.get(place, cells[place]), dates, place, rows, report, wish)
        if column is not None and column.kind == "number" and place not in again:
            if cells[place].comma:
                commas.append(name)
            elif cells[place].thousands and decimal_commas:
                cells[place].refuse_thousands(rows.lines, report)
                column = None
            elif cells[place].thousands:
                thousands.append(name)
        if column is None:
            unread.append(name)
            column = Column(name, "empty", np.full(rows.rows, np.nan))
        columns[name] = column
        cells[place] = Cells(name)  # its memory is the column's now
    if commas:
        rows.notes.append(f"decimal commas were read as points in: {', '.join(commas)}")
    if thousands:
        rows.notes.append(
            f"in {', '.join(map(repr, thousands))} a point stands before three digits in every number that has one: read"
            " as a decimal point; if it separates thousands, take it out"
        )
    return _in_one_piece(columns), unread


def _in_one_piece(columns: dict[str, Column]) -> dict[str, Column]:
    """The same, with all numbers in one array: a large one goes back to the system when a table is given up, and the many
    that columns grew in are free for the next file."""
    found = dict(columns)
    names = [name for name, column in columns.items() if column.kind != "text"]
    if names:
        together = np.empty((len(names), len(columns[names[0]].values)))
        for row, name in zip(together, names, strict=True):
            row[:] = columns.pop(name).values
            found[name] = replace(found[name], values=row)
    return found


def _judged(
    cells: Cells, dates: Mapping[int, Seen], place: int, rows: CsvRows | ParquetRows, report: Report, wish: Wish
) -> Column | None:
    """The column, or None and a problem in the report."""
    if place in dates and dates[place].count:
        cells.dates(dates[place], rows.lines, report)
        return None
    wanted = wish.kinds.get(cells.name) if wish.kinds is not None else None
    return cells.column(rows.lines, report, text=cells.name in wish.text, wanted=wanted)


def check_label(label: Column, line: Callable[[int], int], report: Report) -> None:
    """Report rows without a label."""
    missing = np.flatnonzero(label.values < 0 if label.kind == "text" else np.isnan(label.values))
    if len(missing):
        lines, count = [line(int(row)) for row in missing[:FIRST]], len(missing)
        rows = f"{count:,} rows have" if count > 1 else "1 row has"
        what = f"{rows} no value of the label {label.name!r} ({at_lines(lines, count)}); give it, or take the rows out"
        report.add("table.label", lines[0], what)
