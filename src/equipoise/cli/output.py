"""What commands print, and where runs are kept: documents, tables that fit the terminal, progress, warnings."""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from equipoise.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from equipoise.certificate import Certificate
    from equipoise.document import Document
    from equipoise.present.values import Block, Column, Table, Tone
    from equipoise.registry import Registry
    from equipoise.spec import Spec

LINE_SECONDS = 10.0
FEW_ROWS, MANY_ROWS = 3, 100  # of a class, and of all
COMPILING_SECONDS = 1.0  # of compiling, after which it is told
TONES: Mapping[str, Tone] = {
    "admitted": "good",
    "lent": "blue",
    "pending": "warn",
    "refused": "bad",
    "up": "good",
    "down": "bad",
}


def complain(message: str) -> None:
    """One line on standard error."""
    print("error: " + " ".join(message.split()), file=sys.stderr)


def warn(lines: Iterable[object]) -> None:
    """Each as a warning on standard error."""
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)


def warn_of_files(facts: Mapping[str, Any]) -> None:
    """How own files were read, on standard error: files with the same note together."""
    told: dict[str, list[str]] = {}
    for path, note in facts["notes"]:
        told.setdefault(note, []).append(Path(path).name)
    for note, names in told.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"note: {', '.join(names[:3])}{more}: {note}", file=sys.stderr)
    for name in facts["small"]:
        print(
            f"warning: {name} has so few rows that the sums it tells others nearly say what stands in them",
            file=sys.stderr,
        )
    few: dict[str, list[str]] = {}
    for name, column in facts["few"]:
        few.setdefault(name, []).append(repr(column))
    for name, columns in few.items():
        more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
        print(
            f"warning: {name} has so few values in {', '.join(columns[:3])}{more} that the sums it tells others nearly say "
            "what they are; leave them out with --drop",
            file=sys.stderr,
        )
    for column, values in facts["spelt"][:FEW_ROWS]:
        print(
            f"warning: column {column!r}: are {', '.join(map(repr, values))} the same? They are values of their own",
            file=sys.stderr,
        )
    for words in _alike_classes(facts["classes"]):
        print(f"warning: {words}: is one of them a typing mistake?", file=sys.stderr)
    for name in facts["left_out"]:
        print(
            f"note: column {name!r} is left out: it is empty, or none of its values is frequent enough", file=sys.stderr
        )
    for name in facts["alike"]:
        if name not in facts["left_out"]:
            print(
                f"warning: no value of column {name!r} stands twice in any file, as in a column of ids; leave it out with "
                f"--drop {name}",
                file=sys.stderr,
            )


def _alike_classes(classes: Mapping[str, int]) -> Iterator[str]:
    """Classes that differ in case or spaces only, and those with hardly a row among many."""
    by_letters: dict[str, list[str]] = {}
    for name in classes:
        by_letters.setdefault("".join(name.casefold().split()), []).append(repr(name))
    yield from (
        f"classes {', '.join(names)} differ in case or spaces only" for names in by_letters.values() if names[1:]
    )
    least = FEW_ROWS if sum(classes.values()) >= MANY_ROWS else 1
    for name, rows in classes.items():
        if rows < least:
            yield f"class {name!r} has {rows} row{'s' * (rows != 1)} to train on"


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """What Python warns of inside is one line each."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: warn([message])
        yield


def answer(content: object, *, lines: bool = False) -> None:
    """Only JSON on standard output; on one line where more follow."""
    from equipoise.document import plain  # loads NumPy, which --help need not wait for

    print(json.dumps(plain(content), indent=None if lines else 2, allow_nan=False), flush=True)


def safe(words: object) -> str:
    """What others called their jobs, as text: nothing in it steers a terminal."""
    return "".join(letter if letter.isprintable() else "·" for letter in str(words))


def table_of(columns: Sequence[str | Column], rows: Sequence[Sequence[object]]) -> Table:
    """A table of the terminal. A column given by its name holds words; nothing known is a dash; states have colours."""
    from equipoise.present.values import Cell, Column, Table

    made = [Column(column, "left", wrap=True) if isinstance(column, str) else column for column in columns]
    texts = [["-" if value is None or value == "" else safe(value) for value in row] for row in rows]
    return Table("", made, [[Cell(text, tone=TONES.get(text, "")) for text in row] for row in texts])


def show_choices(**registries: Registry[Any]) -> None:
    """What can be chosen, one line each: its name and the first line of its file."""
    for kind, registry in registries.items():
        rows = [(choice.name, choice.help) for choice in registry.choices()]
        show(table_of([kind.replace("_", " "), "what it is"], rows))


def numbers(name: str, drop: int = 0) -> Column:
    """A column of numbers, which a narrow terminal leaves out when `drop` is not 0, the largest first."""
    from equipoise.present.values import Column

    return Column(name, "right", drop)


def amount(units: object) -> str:
    """4.0 as 4; bytes as 16Gi."""
    if not isinstance(units, int | float):
        return safe(units)
    return f"{units / 2**30:,.4g}Gi" if units >= 2**27 else f"{units:g}"


def show(*values: Block | Certificate | str) -> None:
    """Print values one below the other; words alone are a title."""
    from rich.console import Console

    from equipoise.present import terminal

    console = Console(highlight=False)
    for value in values:
        if isinstance(value, str):
            console.print(value, style="bold", markup=False)
        else:
            terminal.show(console, value)


def say_where(verb: str, config: Mapping[str, object], *, json: bool, over: str | None = "") -> None:
    """Before a run: whether it is a simulation or an execution, who reads which data, and what leaves this machine.

    It goes first on standard output; where that is for JSON alone, on standard error. `over`: where a sweep is sent.
    """
    from equipoise.present.where import where

    found = where(verb, config, over=over)
    if found is None:
        raise KeyError(verb)  # a new command: present/where.py must know it
    if json:
        print(found, file=sys.stderr, flush=True)
    else:
        show(found.block)
        sys.stdout.flush()


def tell(document: Document, json: bool, *blocks: Block | Certificate | str, last: object = None) -> NoReturn:
    """Print the document as JSON, or blocks, the certificate and a last line; exit 1 if the certificate fails."""
    certificate = document.certificate
    if json:
        print(document.text(), end="")
    else:
        shown = certificate is None or any(block is certificate for block in blocks)
        show(*blocks, *([] if certificate is None or shown else [certificate]))
        if last is not None:
            print(last)
    raise typer.Exit(0 if certificate is None or certificate.passed else 1)


@contextmanager
def run_folder(out: Path, verb: str, spec: Spec, policies: Sequence[str] = ()) -> Iterator[Path]:
    """A new run folder; after an error, nothing of it is left. `policies` may be files of the user."""
    from equipoise.result import drop_if_empty, new_folder

    folder = new_folder(out, verb, spec.plain())
    try:
        with naming_faults(policies):
            yield folder
    finally:
        drop_if_empty(folder)


@contextmanager
def naming_faults(policies: Sequence[str]) -> Iterator[None]:
    """A fault inside a user's own policy becomes one line that names the place in the user's file."""
    from equipoise.registry import fault_in, is_reference

    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        if fault := fault_in(error, [name.rpartition(":")[0] for name in policies if is_reference(name)]):
            raise InputError(fault) from None
        raise


@contextmanager
def compiling_told(about: float, *, quiet: bool) -> Iterator[None]:
    """Says on standard error that kernels are compiled, once that takes more than a moment, and at the end what it took.

    `about` are the seconds of one core that the verb's default run takes for it: once on each installation, and again where
    a new version has changed its kernels. A busy machine takes longer, which the line at the end tells.
    """
    from equipoise.kernels import when_compiling

    lock, depth, kernels, began, spent, told = threading.Lock(), 0, 0, 0.0, 0.0, False
    timer: threading.Timer | None = None

    def tell_once() -> None:
        nonlocal told
        if depth and not told:
            told = True
            print(f"compiling kernels for the first time, about {about:.0f} s", file=sys.stderr, flush=True)

    def begun() -> None:
        nonlocal depth, began, timer
        with lock:
            depth += 1
            if depth == 1:
                began = time.monotonic()
                if not told:
                    timer = threading.Timer(max(COMPILING_SECONDS - spent, 0.0), tell_once)
                    timer.daemon = True
                    timer.start()

    def done() -> None:
        nonlocal depth, kernels, spent
        with lock:
            depth, kernels = depth - 1, kernels + 1
            if depth == 0:
                spent += time.monotonic() - began
                if timer is not None:
                    timer.cancel()

    if quiet:
        yield
        return
    try:
        with when_compiling(begun, done):
            yield
    finally:
        if timer is not None:
            timer.cancel()
    if told:
        print(f"compiled {kernels} kernels in {spent:.0f} s; later runs find them on disk", file=sys.stderr, flush=True)


class Meter:
    """How far a run is: a bar on a terminal, a line every ten seconds where there is none."""

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
    from rich import progress
    from rich.console import Console

    terminal = sys.stderr.isatty()
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{unit}s"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("ETA"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
    )
    hidden = quiet or not terminal
    with progress.Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True) as bar:
        yield Meter(bar, bar.add_task(doing, total=total, note=""), unit, quiet or terminal)
