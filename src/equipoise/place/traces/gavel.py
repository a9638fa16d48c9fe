"""Gavel's tab-separated traces, without a header: 7 columns (made from Philly) or 10 (generated, or run on a cluster)."""

from __future__ import annotations

from pathlib import Path

from equipoise.place.job import Skipped, Workload
from equipoise.place.traces import rows
from equipoise.place.traces.gavel_rates import MADE_WITH, MEASURED
from equipoise.place.traces.philly import fits
from equipoise.place.traces.rows import Mapped, Row, Unmappable

EXPECTED = "a Gavel trace: 7 or 10 columns between tabs, the first a job type such as 'ResNet-18 (batch size 32)'"
# Columns of (steps, arrival, scale factor). 7: type, command, steps' option, needs data, steps, arrival, scale.
# 10: type, command, folder, steps' option, needs data, steps, scale, priority, SLO, arrival.
PLACES = {7: (4, 5, 6), 10: (5, 9, 6)}


def gavel(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    elasticity: float = 1,
    gpus_per_machine: int = 8,
    sized_utility: bool = True,
) -> Workload:
    """All-reduce jobs whose duration is the trace's steps over the type's steps per second (`gavel_rates`).

    Slot 0 is the trace's own zero. Otherwise as `philly`.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility)
    limit = fits(gpus_per_machine)
    found: list[Row] = []
    skipped: list[Skipped] = []
    for line, text in enumerate(rows.opened(path, EXPECTED), start=1):
        cells = text.rstrip("\r\n").split("\t")
        if cells == [""]:
            continue
        try:
            found.append(_row(line, cells, limit))
        except Unmappable as reason:
            skipped.append(Skipped(line, str(reason)))
    return mapped.workload(found, skipped, str(path), calendar=False)


def _row(line: int, cells: list[str], limit: int) -> Row:
    if len(cells) not in PLACES:
        raise Unmappable(f"wrong number of columns: {len(cells)}; expected 7 or 10 between tabs")
    steps, arrival, scale = (cells[k] for k in PLACES[len(cells)])
    kind, width = cells[0].strip(), rows.whole(scale, "scale factor")
    if kind not in MEASURED:
        raise Unmappable(f"job type {kind!r} has no known steps per second")
    rate = MADE_WITH[kind] if len(cells) == 7 else MEASURED[kind].get(width)
    if rate is None:
        raise Unmappable(f"job type {kind!r} was never measured on {width} GPUs")
    seconds = rows.number(steps, "steps") / rate
    return Row(
        line=line,
        id=f"gavel-{line}",
        submit=rows.number(arrival, "arrival", zero=True),
        duration=rows.lasting(repr(seconds)),
        width=width,
        together=width <= limit,
        tags={"type": kind},
    )
