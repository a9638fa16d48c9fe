"""Looks of policies, for the pages that are not yet made of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equipoise.document import look_of
from equipoise.present.values import Look as Look
from equipoise.present.values import looks as looks_of
from equipoise.share.view import Policy, name_of

LOG_SPREAD = 10.0  # largest over smallest value from which an axis becomes logarithmic


def looks(policies: Sequence[Policy]) -> list[Look]:
    """Each policy's own colour and marker; one not yet used where it has none that can be drawn."""
    facts = [look_of(policy) for policy in policies]
    found = looks_of(map(str, range(len(policies))), {str(k): fact for k, fact in enumerate(facts)})
    return [replace(look, name=name_of(policy)) for look, policy in zip(found.values(), policies, strict=True)]
