"""Rivals, one file each, and our own method beside them; all play the same instance and leave a Track.

A file in this folder is an entrant: a class of the file's name with `name`, `label`, `colour`, perhaps `rank` (its place
in tables), and `play(problem, network, rounds, every)`. Its tuned parameters are its defaults.
"""

from __future__ import annotations

from equipoise.errors import unknown_name
from equipoise.registry import Registry
from equipoise.train.baselines._track import Entrant, Recorder, Rival, Track
from equipoise.train.baselines.admm import ADMM
from equipoise.train.baselines.dual_tracking import DualTracking
from equipoise.train.baselines.laplacian_edge import LaplacianEdge
from equipoise.train.baselines.laplacian_exact import LaplacianExact
from equipoise.train.baselines.laplacian_log import LaplacianLog
from equipoise.train.baselines.laplacian_uniform import LaplacianUniform
from equipoise.train.baselines.ours import Ours
from equipoise.train.baselines.primal_dual import PrimalDual
from equipoise.train.baselines.ratio_consensus import RatioConsensus

RIVALS: Registry[Rival] = Registry(__name__, "entrant")
LAST = 99  # of an entrant that has no `rank`


def entrants() -> dict[str, type[Rival]]:
    """Every entrant that has a file here by its name, in the order of tables."""
    found: list[type[Rival]] = [RIVALS.load(choice.stem) for choice in RIVALS.choices()]  # type: ignore[misc]
    return {one.name: one for one in sorted(found, key=lambda one: (getattr(one, "rank", LAST), one.name))}


ALL = entrants()
CLASSES = tuple(ALL.values())


def named(name: str, **parameters: object) -> Rival:
    """An entrant by its name, whatever its capitals, with its tuned parameters unless given others."""
    known = {key.lower(): key for key in ALL}
    if name.lower() not in known:
        raise unknown_name("entrant", name, ALL)
    return ALL[known[name.lower()]](**parameters)


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
    "Rival",
    "Track",
    "named",
]
