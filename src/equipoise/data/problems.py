"""What is wrong with a user's files: every problem of every file, told at once."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.errors import InputError

FIRST = 3  # so many lines are named; the rest are counted
NAMES = 12  # so many column names are listed
CUT = 40  # characters of a cell that are shown


@dataclass(frozen=True)
class Problem:
    """One kind of mistake in one place.

    Parameters
    ----------
    path
        The file, as the user gave it.
    line
        Where the mistake is first met, from 1; None if it is about the whole file.
    what
        What is wrong, how often, where, and the way out.
    code
        For programs and tests: "table.dates", "table.width", ...
    """

    path: Path
    line: int | None
    what: str
    code: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.line is None else f"{self.path}:{self.line}: {self.what}"


class Problems(InputError):
    """Files that cannot be used as they are. The message has one line for each problem.

    The code is that of the problems if they all have the same, and "table.problems" otherwise.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        codes = {problem.code for problem in self.problems}
        super().__init__("\n".join(map(str, self.problems)), code=codes.pop() if len(codes) == 1 else "table.problems")


class Unreadable(Exception):
    """Nothing more can be said about this file; what is known is in its report."""


class Report:
    """The problems of one file, as they are found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def add(self, code: str, line: int | None, what: str) -> None:
        """One more problem."""
        self.problems.append(Problem(self.path, line, what, code))

    def stop(self, code: str, line: int | None, what: str) -> Unreadable:
        """A problem after which the file cannot be read on: raise what this returns."""
        self.add(code, line, what)
        return Unreadable()


def at_lines(lines: Sequence[int], count: int) -> str:
    """The first lines in words: "line 7", or "lines 7, 9, 12 and 20 more"."""
    named = ", ".join(map(str, lines[:FIRST]))
    more = f" and {count - len(lines[:FIRST]):,} more" if count > len(lines[:FIRST]) else ""
    return f"line{'s' if count > 1 else ''} {named}{more}"


def no_column(missing: Sequence[str], names: Sequence[str], *, taken: Collection[str] = (), way: str = "") -> str:
    """No columns of these names: which there are, and which was perhaps meant.

    Parameters
    ----------
    missing
        The columns; the first of them stands for all.
    names
        Those that are there.
    taken
        Those of them that are known to be something else.
    way
        The way out, beside another name.
    """
    others = f" (nor {', '.join(map(repr, missing[1:NAMES]))})" if missing[1:] else ""
    hint = meant(missing[0], [name for name in names if name not in taken])
    return f"no column {missing[0]!r}{others}; it has: {listed(names)}{way and '; '}{way}{hint}"


def meant(name: str, names: Sequence[str]) -> str:
    """Which of these was perhaps meant, whatever the case of its letters; nothing if none is near."""
    folded = {other.casefold(): other for other in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def listed(names: Sequence[str]) -> str:
    """The first of these columns, and how many more there are."""
    more = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"


def cut(cell: str) -> str:
    """A cell as it is quoted in a message."""
    return repr(cell if len(cell) <= CUT else cell[: CUT - 3] + "...")
