"""share on the real clock: the same policies, real training processes held to their shares, and the simulation beside them.

Names are loaded when they are asked for: the server of task processes starts from this package and loads only its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.engine.execute.audit import certify
    from equipoise.engine.execute.comparison import Comparison, Pair, compare
    from equipoise.engine.execute.drive import Executed, Fault
    from equipoise.engine.execute.plan import Plan, Scene
    from equipoise.engine.execute.work import KINDS, Work, partial_fit_work, torch_work

__all__ = [
    "KINDS",
    "Comparison",
    "Executed",
    "Fault",
    "Pair",
    "Plan",
    "Scene",
    "Work",
    "certify",
    "compare",
    "partial_fit_work",
    "torch_work",
]

PLACES = {
    "audit": ("certify",),
    "comparison": ("Comparison", "Pair", "compare"),
    "drive": ("Executed", "Fault"),
    "plan": ("Plan", "Scene"),
    "work": ("KINDS", "Work", "partial_fit_work", "torch_work"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for place, names in PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
