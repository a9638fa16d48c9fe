"""Gavel's tab-separated traces, without a header: 7 columns (made from Philly), 10 (generated or run), Shockwave's 12."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.place.job import Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow, Unmappable

EXPECTED = "a Gavel trace: 7, 10 or 12 columns between tabs, the first a job type such as 'ResNet-18 (batch size 32)'"
# Columns of (steps, arrival, scale factor). 7: type, command, steps' option, needs data, steps, arrival, scale.
# 10: type, command, folder, steps' option, needs data, steps, scale, priority, SLO, arrival.
# 12, Shockwave's: as 10 up to scale, then adaptation mode, priority, SLO, duration (s), arrival (s).
PLACES = {7: (4, 5, 6), 10: (5, 9, 6), 12: (5, 11, 6)}
MODE, DURATION = 7, 10  # columns of 12
MODES = ("static", "accordion", "gns")  # who changes the batch size on the way


def matches(first_lines: Sequence[str]) -> bool:
    """Whether these are the first lines of a Gavel trace: it has no header, so the columns are counted."""
    return bool(first_lines) and first_lines[0].strip().count("\t") + 1 in PLACES


def gavel(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    elasticity: float = 1,
    gpus_per_machine: int = 8,
    sized_utility: bool = True,
    worth: str = "none",
) -> Workload:
    """All-reduce jobs whose duration is the trace's steps over the type's steps per second (`RATES`).

    Shockwave's 12 columns say the duration, which is taken as it stands: no job changes its batch size here.
    Slot 0 is the trace's own zero. The parameters are those of `philly`.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility, gpus_per_machine, worth=worth)
    lines = enumerate((text.rstrip("\r\n") for text in rows.opened(path, EXPECTED)), start=1)
    return mapped.read(path, ((line, text.split("\t")) for line, text in lines if text), _row, calendar=False)


def _row(line: int, cells: list[str]) -> TraceRow:
    if len(cells) not in PLACES:
        raise Unmappable(f"wrong number of columns: {len(cells)}; expected 7, 10 or 12 between tabs")
    steps, arrival, scale = (cells[k] for k in PLACES[len(cells)])
    kind, width = cells[0].strip(), rows.whole(scale, "scale factor")
    tags = {"type": kind}
    if len(cells) == 12:
        duration, tags["mode"] = cells[DURATION], cells[MODE].strip()
        if tags["mode"] not in MODES:
            raise Unmappable(f"adaptation mode is {tags['mode']!r}; expected {', '.join(MODES)}")
    else:
        duration = repr(rows.number(steps, "steps") / _rate(kind, width, len(cells)))
    return TraceRow(
        line=line,
        id=f"gavel-{line}",
        submit=rows.number(arrival, "arrival", zero=True),
        duration=rows.lasting(duration),
        width=width,
        tags=tags,
    )


def _rate(kind: str, width: int, columns: int) -> float:
    """Steps per second of a type of job on so many GPUs, or the reason why it is not known."""
    if kind not in RATES:
        raise Unmappable(f"job type {kind!r} has no known steps per second")
    made_with, measured = RATES[kind]
    if columns == 7:
        return made_with
    if width not in measured:
        raise Unmappable(f"job type {kind!r} was never measured on {width} GPUs")
    return measured[width]


# Steps per second of each type of job: what the 7-column traces were made with, and what was measured, by GPUs.
# The 7-column traces are Philly's jobs under other names, with steps = floor(rate x seconds) whatever the GPUs. Found by
# pairing Gavel's traces of four virtual clusters with Philly's own table by time of arrival: 1,832 of 1,851 pairs agree on
# one interval of rates per type, seven digits narrow; its middle stands here.
# The 10-column traces run at what was measured on V100s (`simulation_throughputs.json`, v100, no neighbour).
RATES: dict[str, tuple[float, dict[int, float]]] = {
    "A3C": (8.23303297, {1: 7.17577}),
    "CycleGAN": (4.91849504, {1: 4.42609}),
    "LM (batch size 5)": (167.122858, {1: 109.167, 2: 185.724, 4: 126.716, 8: 698.773}),
    "LM (batch size 10)": (143.360513, {1: 81.6516, 2: 163.129, 4: 121.478, 8: 615.093}),
    "LM (batch size 20)": (107.950872, {1: 64.7425, 2: 132.174, 4: 110.997, 8: 497.295}),
    "LM (batch size 40)": (71.7230368, {1: 45.2374, 2: 91.5927, 4: 96.0312, 8: 359.307}),
    "LM (batch size 80)": (43.9036108, {1: 28.24, 2: 58.0915, 4: 74.8073, 8: 231.176}),
    "Recommendation (batch size 512)": (0.331482131, {1: 23.3176}),
    "Recommendation (batch size 1024)": (0.479979814, {1: 13.2826}),
    "Recommendation (batch size 2048)": (0.567531681, {1: 7.46963}),
    "Recommendation (batch size 4096)": (0.62440847, {1: 3.90605}),
    "Recommendation (batch size 8192)": (0.602354777, {1: 2.84151}),
    "ResNet-18 (batch size 16)": (77.3173732, {1: 32.3534, 2: 100.142, 4: 123.854, 8: 382.597}),
    "ResNet-18 (batch size 32)": (65.8054069, {1: 29.9472, 2: 94.2489, 4: 114.733, 8: 340.038}),
    "ResNet-18 (batch size 64)": (48.8841806, {1: 24.0932, 2: 74.1359, 4: 95.5881, 8: 255.829}),
    "ResNet-18 (batch size 128)": (30.287505, {1: 17.9949, 2: 23.9854, 4: 69.9505, 8: 162.092}),
    "ResNet-18 (batch size 256)": (16.9873711, {1: 10.3003, 2: 15.8828, 4: 27.7821, 8: 81.5066}),
    "ResNet-50 (batch size 16)": (17.3743897, {1: 11.3961, 2: 13.8598, 4: 23.1956, 8: 27.7991}),
    "ResNet-50 (batch size 32)": (9.9205833, {1: 7.78726, 2: 10.8346, 4: 13.7632, 8: 24.0674}),
    "ResNet-50 (batch size 64)": (5.45759986, {1: 4.39477, 2: 7.92205, 4: 9.45195, 8: 17.3032}),
    "ResNet-50 (batch size 128)": (2.84598128, {1: 2.49677, 2: 4.22301, 4: 7.02929, 8: 10.2932}),
    "Transformer (batch size 16)": (12.8456524, {1: 11.0641, 2: 14.1538, 4: 20.085, 8: 71.6517}),
    "Transformer (batch size 32)": (12.475278, {1: 10.6209, 2: 13.328, 4: 22.8225, 8: 63.9777}),
    "Transformer (batch size 64)": (9.56802384, {1: 8.61776, 2: 15.8765, 4: 19.6596, 8: 49.6507}),
    "Transformer (batch size 128)": (5.77121083, {1: 5.44611, 2: 10.0692, 4: 14.1745, 8: 30.8835}),
    "Transformer (batch size 256)": (1.70702992, {1: 1.59514, 2: 2.88524, 4: 4.76305, 8: 9.71702}),
}
