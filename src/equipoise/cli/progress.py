"""Progress on standard error: a bar on a terminal, a line every ten seconds where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_SECONDS = 10.0


class Meter:
    """How far a run has come; told after every unit of work, it says so when there is something new to see."""

    def __init__(self, bar: Progress, task: TaskID, unit: str, silent: bool) -> None:
        self.bar, self.task, self.unit, self.silent = bar, task, unit, silent
        self.began = self.last = time.monotonic()
        self.first: int | None = None

    def show(self, done: int, total: int, *, doing: str | None = None, note: str = "") -> None:
        """`done` of `total` units, what is being `doing`, and a `note` that stands beside them."""
        if doing is None:
            self.bar.update(self.task, completed=done, total=total, note=note)
        else:
            self.bar.update(self.task, completed=done, total=total, note=note, description=doing)
        self._line(done, total, note)

    def _line(self, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        if self.first is None:
            self.began, self.first = now, done
        if self.silent or now - self.last < LINE_SECONDS or done == self.first:
            return
        self.last = now
        left = (now - self.began) / (done - self.first) * (total - done)
        parts = [f"{self.unit} {done} of {total}", note, f"about {left:.0f} s to go"]
        print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)


@contextmanager
def metered(doing: str, unit: str, total: int | None, *, quiet: bool) -> Iterator[Meter]:
    """A meter for work in units such as "round"; silent when `quiet`."""
    terminal = sys.stderr.isatty()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}s"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet or not terminal, transient=True) as bar:
        yield Meter(bar, bar.add_task(doing, total=total, note=""), unit, quiet or terminal)
