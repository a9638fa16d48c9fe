"""Placers, one file each, found by being in this folder. `named` finds one by the name it is shown by or by its class.

A file states its class's `label`, `colour` and its `rank` among the others; `settings` are the options of the command line
that it takes, `kind` the prices it posts whatever those say. The first line of its docstring is its help line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.place.placers._slotwise import Slotwise
from equipoise.place.planner.job_arrays import fits_together, servers_for
from equipoise.registry import Registry

if TYPE_CHECKING:
    from equipoise.place.placers.dorm import Dorm
    from equipoise.place.placers.drf import DRF
    from equipoise.place.placers.fifo import FIFO
    from equipoise.place.placers.las import LAS
    from equipoise.place.placers.oasis import OASiS
    from equipoise.place.placers.pdors import PDORS
    from equipoise.place.placers.srtf import SRTF
    from equipoise.place.simulate import Placer

    ALL: tuple[type[Placer], ...]

PLACERS: Registry[Placer] = Registry("equipoise.place.placers", "policy")

__all__ = [
    "ALL",
    "DRF",
    "FIFO",
    "LAS",
    "PDORS",
    "PLACERS",
    "SRTF",
    "Dorm",
    "OASiS",
    "Slotwise",
    "fits_together",
    "named",
    "servers_for",
]


def __getattr__(name: str) -> object:
    """The class of a placer when it is asked for: a file that does not load harms nobody else."""
    choices = PLACERS.choices() if name[:1].isupper() else ()
    if name == "ALL":
        return tuple(PLACERS.load(choice.stem) for choice in choices)
    if name in {choice.object_name for choice in choices}:
        return PLACERS.load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def named(name: str) -> Placer:
    """A placer with its defaults, by its name; upper and lower case are the same."""
    return PLACERS.make(name)
