"""Policies, one file each, found by being in this folder. `named` finds one by the name it is shown by or by its class.

A file states its class's `label`, `colour`, `marker` and `rank` among the others;
`published` marks those of the paper's own code; `frugal` those that leave compute idle by design;
`forms` names settings that can be asked for as NAME:form. The first line of its docstring is its help line.
"""

from typing import TYPE_CHECKING, Any, cast

from equipoise._lazy import lazy
from equipoise._moved import old_names
from equipoise.errors import unknown_name
from equipoise.registry import Registry
from equipoise.share.policies._learning import Learning as Learning, clairvoyant as clairvoyant
from equipoise.share.view import Policy

POLICIES: Registry[Policy] = Registry("equipoise.share.policies", "policy")

if TYPE_CHECKING:
    ALL: tuple[type[Policy], ...]
    PUBLISHED: tuple[type[Policy], ...]
else:
    __all__ = ["ALL", "POLICIES", "PUBLISHED", "Learning", "clairvoyant", "named"]
    __all__ += [choice.object_name for choice in POLICIES.choices()]
    lazy(__name__, registry=POLICIES)


def __getattr__(name: str) -> Any:
    """ALL and PUBLISHED when they are asked for, as a class is: a file that does not load harms nobody else."""
    if name in ("ALL", "PUBLISHED"):
        chosen = (choice for choice in POLICIES.choices() if name == "ALL" or choice.facts.get("published"))
        return tuple(POLICIES.load(choice.stem) for choice in chosen)
    return old_names(__name__)(name)


def named(name: str) -> Policy:
    """A policy by its name; "NAME:form" for one of its forms, "NAME:clairvoyant" for the twin that knows the true curves."""
    kind, *words = name.split(":")
    choice = POLICIES.find(kind)
    forms: dict[str, Any] = getattr(POLICIES.load(choice.stem), "forms", {})
    if words and words[0] in forms:
        form = words.pop(0)
        made: Policy = cast(Any, POLICIES.load(choice.stem))(**forms[form], called=f"{choice.name}:{form}")
    else:
        made = POLICIES.make(kind)
    if words == ["clairvoyant"]:
        return clairvoyant(cast(Learning, made))
    if not words:
        return made
    twins = [f"{choice.name}:clairvoyant" for choice in POLICIES.choices() if not choice.facts.get("blind")]
    raise unknown_name("policy", name, [*POLICIES.names(), *twins, *(f"{choice.name}:{known}" for known in forms)])
