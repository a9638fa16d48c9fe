"""Workloads from traces and generators, one file each. Each reader counts the rows it could not map, with line and reason.

A file with `matches(first_lines)` is a format of files, found by being in this folder; a literal `ending` names it too.
A new one needs no line here: `equipoise.place.traces.NAME` is its reader. Those below are named for type checkers.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise._lazy import lazy
from equipoise.place.spec import TRACES as TRACES

if TYPE_CHECKING:
    from equipoise.place.job import Workload
    from equipoise.place.spec import OWN as OWN
    from equipoise.place.traces._rows import format_of as format_of
    from equipoise.place.traces.alibaba import alibaba as alibaba, alibaba_cluster as alibaba_cluster
    from equipoise.place.traces.elasticflow import elasticflow as elasticflow
    from equipoise.place.traces.gavel import gavel as gavel
    from equipoise.place.traces.philly import gpu_cluster as gpu_cluster, philly as philly
    from equipoise.place.traces.philly_like import philly_like as philly_like
    from equipoise.place.traces.sia import sia as sia
    from equipoise.place.traces.slurm import slurm as slurm
    from equipoise.place.traces.swf import swf as swf
    from equipoise.place.traces.synthetic import (
        REGIMES as REGIMES,
        regime as regime,
        synthetic as synthetic,
        synthetic_cluster as synthetic_cluster,
    )
    from equipoise.place.traces.tiresias import tiresias as tiresias, tiresias_cluster as tiresias_cluster

    FORMATS: dict[str, Callable[..., Workload]]
else:
    __all__ = ["FORMATS", "TRACES", *lazy(__name__, registry=TRACES)]


def __getattr__(name: str) -> object:
    """FORMATS, the reader of each format of files by its name, when it is asked for."""
    if name == "FORMATS":
        return {kind: TRACES.load(kind) for kind in TRACES.names("matches")}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
