"""Policies, one file each. `named` finds one by the name it is shown by or by its class."""

from __future__ import annotations

from equipoise.errors import unknown_name
from equipoise.share.policies._learning import Learning, clairvoyant
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
from equipoise.share.view import Policy, name_of

PUBLISHED = (Uniform, SDF, LARA, UARA, UARALARA)
ALL = (*PUBLISHED, UniformCorrected, UARALARACorrected, UARALARAFloor, SPT, SRTF, EDF, SLAQ, LAS, MaxMin, Hybrid)

__all__ = [
    "ALL",
    "EDF",
    "LARA",
    "LAS",
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


def named(name: str) -> Policy:
    """A policy by its name; "NAME:clairvoyant" for the twin that knows the true curves."""
    kind, _, twin = name.partition(":")
    known = {name_of(policy()).lower(): policy for policy in ALL} | {p.__name__.lower(): p for p in ALL}
    policy = known[kind.lower()]() if kind.lower() in known else None
    if policy is not None and not twin:
        return policy
    if policy is not None and twin == "clairvoyant":
        return clairvoyant(policy)  # type: ignore[type-var]  # refused if it estimates nothing
    twins = [f"{name_of(policy())}:clairvoyant" for policy in ALL if issubclass(policy, Learning)]
    raise unknown_name("policy", name, [*(name_of(policy()) for policy in ALL), *twins])
