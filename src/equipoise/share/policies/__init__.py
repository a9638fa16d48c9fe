"""Policies, one file each, found by being in this folder. `named` finds one by the name it is shown by or by its class.

A file states its class's `label`, `colour`, `marker` and `rank` among the others;
`published` marks those of the paper. The first line of its docstring is its help line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from equipoise.errors import unknown_name
from equipoise.registry import Registry
from equipoise.share.policies._learning import Learning as Learning, clairvoyant as clairvoyant
from equipoise.share.view import Policy

if TYPE_CHECKING:
    ALL: tuple[type[Policy], ...]
    PUBLISHED: tuple[type[Policy], ...]

POLICIES: Registry[Policy] = Registry("equipoise.share.policies", "policy")
OWN = ("ALL", "POLICIES", "PUBLISHED", "Learning", "clairvoyant", "named")


def __getattr__(name: str) -> Any:
    """The class of a policy when it is asked for: a file that does not load harms nobody else."""
    if name == "PUBLISHED":
        return tuple(POLICIES.load(choice.stem) for choice in POLICIES.choices() if choice.facts.get("published"))
    return POLICIES.attribute(name, OWN)


def named(name: str) -> Policy:
    """A policy by its name; "NAME:clairvoyant" for the twin that knows the true curves."""
    kind, _, twin = name.partition(":")
    if twin in ("", "clairvoyant"):
        policy = POLICIES.make(kind)
        return clairvoyant(cast(Learning, policy)) if twin else policy
    twins = [f"{choice.name}:clairvoyant" for choice in POLICIES.choices() if not choice.facts.get("blind")]
    raise unknown_name("policy", name, [*POLICIES.names(), *twins])
