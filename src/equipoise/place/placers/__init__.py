"""Policies, one file each. `named` finds one by the name it is shown by or by its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.errors import unknown_name
from equipoise.place.placers._slotwise import Slotwise
from equipoise.place.placers.dorm import Dorm
from equipoise.place.placers.drf import DRF
from equipoise.place.placers.fifo import FIFO
from equipoise.place.placers.las import LAS
from equipoise.place.placers.oasis import OASiS
from equipoise.place.placers.pdors import PDORS
from equipoise.place.placers.srtf import SRTF
from equipoise.place.planner.job_arrays import fits_together, servers_for

if TYPE_CHECKING:
    from equipoise.place.simulate import Placer

ALL = (PDORS, OASiS, FIFO, DRF, Dorm, SRTF, LAS)

__all__ = [
    "ALL",
    "DRF",
    "FIFO",
    "LAS",
    "PDORS",
    "SRTF",
    "Dorm",
    "OASiS",
    "Slotwise",
    "fits_together",
    "named",
    "servers_for",
]


def named(name: str) -> Placer:
    """A policy with its defaults, by its name; upper and lower case are the same."""
    known: dict[str, type[Any]] = {policy.label.lower(): policy for policy in ALL}
    known |= {policy.__name__.lower(): policy for policy in ALL}
    if name.lower() not in known:
        raise unknown_name("policy", name, [policy.label for policy in ALL])
    policy: Placer = known[name.lower()]()
    return policy
