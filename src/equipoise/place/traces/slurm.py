"""Slurm's accounting, as `sacct --parsable2` writes it: a header, then fields between bars, in any order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from equipoise.errors import InputError
from equipoise.place.job import Demand, Ran, Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow, Unmappable
from equipoise.units import count

alias = "sacct"  # the command that writes it: `admin shadow --format` takes this word too
COLUMNS = ("jobid", "submit")
EXPECTED = (
    "the output of: sacct --allusers --parsable2 "
    "--format=JobID,User,Submit,Start,End,ElapsedRaw,Timelimit,AllocTRES,ReqTRES,NCPUS,NNodes,State,Partition"
)
LENGTHS = ({"elapsedraw"}, {"elapsed"}, {"start", "end"})  # columns that tell how long a job ran
UNLIMITED = ("", "unlimited", "partition_limit")  # limits that say nothing of the job
NOT_YET = ("pending", "requeued", "resv_del_hold", "suspended")
ELAPSED = re.compile(r"^(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d{1,9})?$", re.ASCII)
MEMORY = re.compile(r"^(\d{1,18}(?:\.\d{1,18})?)([KMGTP]?)[nc]?$", re.ASCII)
BYTES = {"K": 2**10, "": 2**20, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}  # megabytes where none is said
MOST_MEMORY = 8 * 2**40  # bytes per worker


def matches(first_lines: Sequence[str]) -> bool:
    """Whether these are the first lines of sacct's output."""
    return "jobid" in first_lines[0].strip().lower().split("|")[:-1] if first_lines else False


def slurm(
    path: str | Path,
    *,
    slot: str | float = "10m",
    seed: int = 0,
    elasticity: float = 1,
    sized_utility: bool = True,
    worth: str = "none",
    types: Sequence[str] = (),
) -> Workload:
    """Jobs that ran, whatever their end: one worker per GPU, or without GPUs one per node; never wider than asked.

    A worker has its share of the job's CPUs and memory. Slot 0 starts at midnight of the first day. Steps (123.batch)
    belong to their job: they are left out, and the note says how many. A job states its Timelimit, and really took Elapsed
    (`Job.actual`); one without a limit states what it took, and the note counts them.

    Parameters
    ----------
    path, slot, seed, elasticity, sized_utility, worth
        As for `philly`.
    types
        Types of machines there are (`Cluster.types`): a job that had GPUs of one of them (gres/gpu:a100=2) takes that type
        only. Other types are ignored, and the note says which.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility, worth=worth)
    steps, unlimited, typed = 0, 0, Counter[str]()
    known = {name.lower(): name for name in types if name}

    def entries() -> Iterator[tuple[int, dict[str, str] | None]]:
        nonlocal steps
        for line, cells in rows.table(path, COLUMNS, EXPECTED, delimiter="|"):
            if cells is not None and not any(columns <= cells.keys() for columns in LENGTHS):
                raise InputError(f"{path}: no column says how long a job ran; expected {EXPECTED}", code="trace.column")
            if cells is not None and "." in cells["jobid"]:
                steps += 1
            else:
                yield line, cells

    def row(line: int, cells: dict[str, str]) -> TraceRow:
        nonlocal unlimited
        found = _row(line, cells)
        unlimited += _limit(cells) is None
        typed[found.type] += 1
        return replace(found, type=known.get(found.type.lower(), ""))

    workload = mapped.read(path, entries(), row, calendar=True)
    said = [f"{unlimited:,} of {len(workload):,} jobs have no Timelimit, and state what they took"] if unlimited else []
    said += [f"{steps} job steps left out"] if steps else []
    for there, why in ((True, "take machines of that type only"), (False, "take any: no machine is of that type")):
        which = [
            f"{name} ({count(n, 'job')})"
            for name, n in typed.most_common()
            if name and there == (name.lower() in known)
        ]
        said += [f"jobs that had GPUs of a type {why}: {', '.join(which)}"] if which else []
    return replace(workload, note="; ".join([workload.note, *said]))


def _limit(cells: dict[str, str]) -> float | None:
    """Seconds that the job stated; None where it stated none."""
    minutes, text = cells.get("timelimitraw", "").strip(), cells.get("timelimit", "").strip()
    if (minutes or text).lower() in UNLIMITED:
        return None
    seconds = 60.0 * rows.number(minutes, "TimelimitRaw") if minutes else elapsed(text, "Timelimit")
    return rows.lasting(str(seconds), "Timelimit")


def _row(line: int, cells: dict[str, str]) -> TraceRow:
    submit = rows.calendar(cells["submit"], "Submit")
    seconds = _duration(cells)
    try:
        real = Ran(submit, *(rows.calendar(cells.get(name, ""), name) for name in ("start", "end")))
    except Unmappable:
        real = None
    said = (cells.get("alloctres") or cells.get("reqtres") or "").strip()  # cpu=8,gres/gpu=2,mem=32G,node=1
    tres = dict(part.split("=", 1) for part in said.split(",") if "=" in part)
    typed = _typed(tres)
    gpus = _count(tres["gres/gpu"], "GPUs") if "gres/gpu" in tres else sum(typed.values())
    cpus = _count(tres.get("cpu") or _first(cells, "ncpus", "alloccpus", "reqcpus"), "CPUs")
    nodes = max(1, _count(tres.get("node") or _first(cells, "nnodes", "allocnodes", "reqnodes"), "nodes"))
    if not gpus and not cpus:
        raise Unmappable("says neither CPUs nor GPUs; add AllocTRES or NCPUS to the export")
    width = gpus or nodes
    memory = _memory(tres.get("mem", ""))
    if memory > width * MOST_MEMORY:
        raise Unmappable(f"memory is {tres['mem']}; more than 8 TiB a worker is a slip")
    share = {"gpu": 1000 if gpus else 0, "cpu": -(-cpus * 1000 // width), "memory": -(-memory * 1000 // width)}
    stated = _limit(cells) or seconds
    if cells.get("state", "").strip().upper() == "TIMEOUT":  # killed at its limit, some seconds late
        seconds = stated
    return TraceRow(
        line=line,
        id=f"slurm-{cells['jobid'].strip()}",
        submit=submit,
        duration=stated,
        actual=seconds / stated,
        user=cells.get("user", "").strip(),
        width=width,
        worker=Demand({r: amount for r, amount in share.items() if amount}),
        together=nodes == 1,
        communicates=gpus > 0,
        rigid=gpus == 0,
        tags={tag: cells[tag].split()[0] for tag in ("state", "partition") if cells.get(tag, "").strip()},
        type="+".join(sorted(name for name, amount in typed.items() if amount)),
        real=real,
    )


def _duration(cells: dict[str, str]) -> float:
    """Seconds the job ran: ElapsedRaw, else Elapsed, else End - Start."""
    state = (cells.get("state", "").split() or [""])[0]
    if state.lower() == "running":
        raise Unmappable("still running: its duration is not known")
    start = cells.get("start", "").strip()
    if state.lower() in NOT_YET or ("start" in cells and start in ("", "Unknown", "None")):
        raise Unmappable(f"never started{f' ({state})' if state else ''}")
    if cells.get("elapsedraw", "").strip():
        return rows.lasting(cells["elapsedraw"], "ElapsedRaw")
    if cells.get("elapsed", "").strip():
        return rows.lasting(str(elapsed(cells["elapsed"])), "Elapsed")
    if {"start", "end"} <= cells.keys():
        return rows.lasting(repr(rows.calendar(cells["end"], "End") - rows.calendar(start, "Start")), "End - Start")
    raise Unmappable("duration is missing")


def elapsed(text: str, what: str = "Elapsed") -> int:
    """Seconds of "1-02:03:04", "02:03:04" or "03:04"."""
    found = ELAPSED.match(text.strip())
    if found is None:
        raise Unmappable(f"{what} is {text.strip()!r}; expected a time such as 1-02:03:04")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def _typed(tres: dict[str, str]) -> dict[str, int]:
    """GPUs by type: gres/gpu:a100=2."""
    words = ((name.partition("gres/gpu:")[2], amount) for name, amount in tres.items())
    return {name: _count(amount, "GPUs") for name, amount in words if name}


def _count(text: str, what: str) -> int:
    return rows.whole(text, what, zero=True) if text.strip() else 0


def _first(cells: dict[str, str], *names: str) -> str:
    return next((cells[name] for name in names if cells.get(name, "").strip()), "")


def _memory(text: str) -> int:
    """Bytes of "32G" or "2.50T"; nothing said is 0."""
    if not text:
        return 0
    found = MEMORY.match(text)
    if found is None:
        raise Unmappable(f"memory is {text!r}; expected such as 32G")
    return round(float(found.group(1)) * BYTES[found.group(2)])
