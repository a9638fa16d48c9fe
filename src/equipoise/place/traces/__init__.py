"""Workloads from traces and generators, one file each. Each reader counts the rows it could not map, with line and reason.

A file with `matches(first_lines)` is a format of files, found by being in this folder; a literal `ending` names it too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.place.job import Workload
from equipoise.place.traces._rows import opened
from equipoise.place.traces.alibaba import alibaba, alibaba_cluster
from equipoise.place.traces.gavel import gavel
from equipoise.place.traces.philly import gpu_cluster, philly
from equipoise.place.traces.philly_like import philly_like
from equipoise.place.traces.slurm import slurm
from equipoise.place.traces.swf import swf
from equipoise.place.traces.synthetic import REGIMES, regime, synthetic, synthetic_cluster
from equipoise.place.traces.tiresias import tiresias, tiresias_cluster
from equipoise.registry import Registry

if TYPE_CHECKING:
    FORMATS: dict[str, Callable[..., Workload]]

TRACES: Registry[Workload] = Registry("equipoise.place.traces", "format")
OWN = "own"  # our own format: YAML, JSON, or CSV with these columns
OWN_ENDINGS, OWN_COLUMNS = (".yaml", ".yml", ".json"), {"id", "arrival"}

__all__ = [
    "FORMATS",
    "OWN",
    "REGIMES",
    "TRACES",
    "alibaba",
    "alibaba_cluster",
    "format_of",
    "gavel",
    "gpu_cluster",
    "philly",
    "philly_like",
    "regime",
    "slurm",
    "swf",
    "synthetic",
    "synthetic_cluster",
    "tiresias",
    "tiresias_cluster",
]


def __getattr__(name: str) -> object:
    """FORMATS, the reader of each format of files by its name, when it is asked for."""
    if name == "FORMATS":
        return {kind: TRACES.load(kind) for kind in TRACES.names("matches")}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def format_of(path: Path) -> str:
    """The format of a file of jobs, by its ending and its first lines; "own" is ours."""
    bare = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    ending = bare.suffix.lower()
    if ending in OWN_ENDINGS:
        return OWN
    for choice in TRACES.choices():
        if ending and ending == choice.facts.get("ending"):
            return choice.name
    first = next(iter(opened(path, "jobs, or a trace")), "").strip()
    if {cell.strip().lower() for cell in first.split(",")} >= OWN_COLUMNS or (first[:1] == "#" and ending == ".csv"):
        return OWN
    try:
        return TRACES.detect(path)
    except InputError as error:
        if error.code != "registry.format":
            raise
        known = ", ".join((OWN, *TRACES.names("matches")))
        raise InputError(
            f"{path}: its first line is none that is known; say --format {known}", code=error.code
        ) from None
