"""What is wrong with a user's files: every problem of every file, told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
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


def no_column(name: str, names: Iterable[str]) -> str:
    """No column of this name: which there are, and which was perhaps meant."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    more = f" and {len(known) - NAMES:,} more" if len(known) > NAMES else ""
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"no column {name!r}; it has: {', '.join(known[:NAMES])}{more}{hint}"


def cut(cell: str) -> str:
    """A cell as it is quoted in a message."""
    return repr(cell if len(cell) <= CUT else cell[: CUT - 3] + "...")
