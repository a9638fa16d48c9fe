"""The Standard Workload Format of the Parallel Workloads Archive: `;` comments, 18 fields per line, -1 for unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from equipoise.errors import whole_number
from equipoise.place.job import Demand, Ran, Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow, Unmappable

FIELDS = 18
ending = ".swf"
EXPECTED = "a Standard Workload Format file: 18 numbers per line, comments after ';'"
# Fields, from 0.
NUMBER, SUBMIT, WAIT, RUN, ALLOCATED, USED_MEMORY, REQUESTED, REQUESTED_MEMORY, QUEUE = 0, 1, 2, 3, 4, 6, 7, 9, 14
START = re.compile(r"^;\s*UnixStartTime:\s*(\d{1,12})(?!\d)", re.IGNORECASE | re.ASCII)
KIB = 1024 * 1000  # milli-bytes
MOST_MEMORY = 2**32  # KiB a processor: 4 TiB
Entry = tuple[int, list[str]]  # UnixStartTime (0: none stated), and the fields of a line


def matches(first_lines: Sequence[str]) -> bool:
    """Whether these are the first lines of a Standard Workload Format file."""
    return bool(first_lines) and first_lines[0].strip().startswith(";")


def swf(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    processors_per_worker: int = 1,
    sized_utility: bool = True,
    worth: str = "none",
) -> Workload:
    """Jobs of CPUs alone, never wider than asked, without communication: processors allocated, or else requested.

    A worker has its memory where the file tells it.
    With `UnixStartTime` slot 0 starts at midnight (UTC) of the first day, else at the file's own zero.

    Parameters
    ----------
    path, slot, seed, sized_utility, worth
        As for `philly`.
    processors_per_worker
        CPUs of a worker: those of a node, say, for jobs of thousands.
    """
    mapped = Mapped.of(slot, seed, 1, sized_utility, worth=worth)
    per = whole_number(processors_per_worker, "processors_per_worker")
    start = 0

    def row(line: int, entry: Entry) -> TraceRow:
        nonlocal start
        start = entry[0]
        return _row(line, *entry, per)

    found, skipped = rows.collected(_entries(path), row)
    return mapped.workload(found, skipped, str(path), calendar=start > 0)


def _entries(path: str | Path) -> Iterator[tuple[int, Entry]]:
    """Each line that is no comment, with the start that was stated before it."""
    start = 0
    for line, text in enumerate(rows.opened(path, EXPECTED), start=1):
        said = text.strip()
        if said.startswith(";"):
            header = START.match(said)
            start = int(header.group(1)) if header and int(header.group(1)) < 2**33 else start
        elif said:
            yield line, (start, said.split())


def _row(line: int, start: int, cells: list[str], per: int) -> TraceRow:
    if len(cells) != FIELDS:
        raise Unmappable(f"wrong number of fields: {len(cells)}; expected {FIELDS}")
    processors = rows.whole(_known(cells, ALLOCATED, REQUESTED), "processors")
    each = min(per, processors)
    worker = Demand(cpu=each * 1000)
    memory = _known(cells, REQUESTED_MEMORY, USED_MEMORY)
    if memory != "-1":
        kib = rows.number(memory, "memory", zero=True)
        if kib > MOST_MEMORY:
            raise Unmappable(f"memory is {memory} KiB a processor; more than 4 TiB is a slip")
        worker["memory"] = round(kib * KIB) * each
    submit = start + rows.number(cells[SUBMIT], "submit time", zero=True)
    took = rows.lasting(cells[RUN], "run time")
    try:
        began = submit + rows.number(cells[WAIT], "wait", zero=True)
    except Unmappable:  # -1: not known; or anything else
        began = None
    return TraceRow(
        line=line,
        id=f"swf-{line}",
        submit=submit,
        duration=took,
        width=-(-processors // each),
        worker=worker,
        communicates=False,
        rigid=True,
        tags={"job": cells[NUMBER], "queue": cells[QUEUE]},
        real=None if began is None else Ran(submit, began, began + took),
    )


def _known(cells: list[str], *places: int) -> str:
    """The first of these fields that is known and not zero, else -1."""
    return next((cells[k] for k in places if cells[k] not in ("-1", "0", "-1.0")), "-1")
