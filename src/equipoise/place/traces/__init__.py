"""Workloads from traces and generators. Each importer counts the rows it could not map, with line and reason."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.place.job import Workload
from equipoise.place.traces.alibaba import alibaba, alibaba_cluster
from equipoise.place.traces.gavel import gavel
from equipoise.place.traces.philly import gpu_cluster, philly
from equipoise.place.traces.philly_like import philly_like
from equipoise.place.traces.slurm import slurm
from equipoise.place.traces.swf import swf
from equipoise.place.traces.synthetic import REGIMES, regime, synthetic, synthetic_cluster
from equipoise.place.traces.tiresias import tiresias, tiresias_cluster

# The formats of files, by the name the command line knows them by; each takes a path.
FORMATS: dict[str, Callable[..., Workload]] = {
    "alibaba": alibaba,
    "gavel": gavel,
    "philly": philly,
    "slurm": slurm,
    "swf": swf,
    "tiresias": tiresias,
}

__all__ = [
    "FORMATS",
    "REGIMES",
    "alibaba",
    "alibaba_cluster",
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
