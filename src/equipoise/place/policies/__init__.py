"""Policies, one file each. `named` finds one by the name it is shown by or by its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.errors import unknown_name
from equipoise.place.policies.dorm import Dorm
from equipoise.place.policies.drf import DRF
from equipoise.place.policies.fifo import FIFO
from equipoise.place.policies.las import LAS
from equipoise.place.policies.oasis import OASiS
from equipoise.place.policies.pdors import PDORS
from equipoise.place.policies.srtf import SRTF

if TYPE_CHECKING:
    from equipoise.place.simulate import Policy

ALL = (PDORS, OASiS, FIFO, DRF, Dorm, SRTF, LAS)

__all__ = ["ALL", "DRF", "FIFO", "LAS", "PDORS", "SRTF", "Dorm", "OASiS", "named"]


def named(name: str) -> Policy:
    """A policy with its defaults, by its name; upper and lower case are the same."""
    known: dict[str, type[Any]] = {policy.label.lower(): policy for policy in ALL}
    known |= {policy.__name__.lower(): policy for policy in ALL}
    if name.lower() not in known:
        raise unknown_name("policy", name, [policy.label for policy in ALL])
    policy: Policy = known[name.lower()]()
    return policy
