"""Policies, one file each, found by being in this folder. `named` finds one by the name it is shown by or by its class.

A file states its class's `label`, `colour`, `marker` and `rank` among the others;
`published` marks those of the paper. The first line of its docstring is its help line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from equipoise._moved import old_names
from equipoise.errors import unknown_name
from equipoise.registry import Registry
from equipoise.share.policies._learning import Learning, clairvoyant
from equipoise.share.view import Policy

if TYPE_CHECKING:
    from equipoise.share.policies.edf import EDF
    from equipoise.share.policies.hybrid import Hybrid
    from equipoise.share.policies.lara import LARA
    from equipoise.share.policies.las import LAS
    from equipoise.share.policies.max_min import MaxMin
    from equipoise.share.policies.sdf import SDF
    from equipoise.share.policies.slaq import SLAQ
    from equipoise.share.policies.spt import SPT
    from equipoise.share.policies.srtf import SRTF
    from equipoise.share.policies.uara import UARA
    from equipoise.share.policies.uara_lara import UARALARA
    from equipoise.share.policies.uara_lara_corrected import UARALARACorrected
    from equipoise.share.policies.uara_lara_floor import UARALARAFloor
    from equipoise.share.policies.uniform import Uniform
    from equipoise.share.policies.uniform_corrected import UniformCorrected

    ALL: tuple[type[Policy], ...]
    PUBLISHED: tuple[type[Policy], ...]

POLICIES: Registry[Policy] = Registry("equipoise.share.policies", "policy")

__all__ = [
    "ALL",
    "EDF",
    "LARA",
    "LAS",
    "POLICIES",
    "PUBLISHED",
    "SDF",
    "SLAQ",
    "SPT",
    "SRTF",
    "UARA",
    "UARALARA",
    "Hybrid",
    "Learning",
    "MaxMin",
    "UARALARACorrected",
    "UARALARAFloor",
    "Uniform",
    "UniformCorrected",
    "clairvoyant",
    "named",
]


def __getattr__(name: str) -> object:
    """The class of a policy when it is asked for: a file that does not load harms nobody else."""
    choices = POLICIES.choices() if name[:1].isupper() else ()
    if name in ("ALL", "PUBLISHED"):
        return tuple(POLICIES.load(c.stem) for c in choices if name == "ALL" or c.facts.get("published"))
    if name in {choice.object_name for choice in choices}:
        return POLICIES.load(name)
    return old_names(__name__)(name)


def named(name: str) -> Policy:
    """A policy by its name; "NAME:clairvoyant" for the twin that knows the true curves."""
    kind, _, twin = name.partition(":")
    if twin in ("", "clairvoyant"):
        policy = POLICIES.make(kind)
        return clairvoyant(cast(Learning, policy)) if twin else policy
    twins = [f"{choice.name}:clairvoyant" for choice in POLICIES.choices() if not choice.facts.get("blind")]
    raise unknown_name("policy", name, [*POLICIES.names(), *twins])
