"""Rivals, one file each, and our own method beside them; all play the same instance and leave a Track."""

from __future__ import annotations

from typing import Any

from equipoise.errors import unknown_name
from equipoise.train.baselines.admm import ADMM
from equipoise.train.baselines.dual_tracking import DualTracking
from equipoise.train.baselines.laplacian_edge import LaplacianEdge
from equipoise.train.baselines.laplacian_exact import LaplacianExact
from equipoise.train.baselines.laplacian_log import LaplacianLog
from equipoise.train.baselines.laplacian_uniform import LaplacianUniform
from equipoise.train.baselines.ours import Ours
from equipoise.train.baselines.primal_dual import PrimalDual
from equipoise.train.baselines.ratio_consensus import RatioConsensus
from equipoise.train.baselines.track import Entrant, Recorder, Track

CLASSES: tuple[Any, ...] = (
    Ours,
    LaplacianLog,
    LaplacianUniform,
    LaplacianExact,
    ADMM,
    DualTracking,
    PrimalDual,
    RatioConsensus,
    LaplacianEdge,
)
ALL: dict[str, Any] = {one.name: one for one in CLASSES}


def named(name: str, **parameters: Any) -> Entrant:
    """An entrant by its name, whatever its capitals, with its tuned parameters unless given others."""
    known = {key.lower(): key for key in ALL}
    if name.lower() not in known:
        raise unknown_name("entrant", name, ALL)
    entrant: Entrant = ALL[known[name.lower()]](**parameters)
    return entrant


__all__ = [
    "ADMM",
    "ALL",
    "DualTracking",
    "Entrant",
    "LaplacianEdge",
    "LaplacianExact",
    "LaplacianLog",
    "LaplacianUniform",
    "Ours",
    "PrimalDual",
    "RatioConsensus",
    "Recorder",
    "Track",
    "named",
]
