"""share on the real clock: the same policies on real training processes held to their shares, beside the simulation.

Names are loaded when they are used: the server of task processes starts from this package and loads only its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.engine.real_clock.audit import certify
    from equipoise.engine.real_clock.comparison import Pair, RealComparison, compare
    from equipoise.engine.real_clock.execute import Executed, Fault
    from equipoise.engine.real_clock.scene import RealPlan, RealScene
    from equipoise.engine.real_clock.spec import ExecuteSpec
    from equipoise.engine.real_clock.tasks import KINDS, Work, partial_fit_work, torch_work

__all__ = [
    "KINDS",
    "ExecuteSpec",
    "Executed",
    "Fault",
    "Pair",
    "RealComparison",
    "RealPlan",
    "RealScene",
    "Work",
    "certify",
    "compare",
    "partial_fit_work",
    "torch_work",
]

_HOMES = {
    "audit": ("certify",),
    "comparison": ("RealComparison", "Pair", "compare"),
    "execute": ("Executed", "Fault"),
    "scene": ("RealPlan", "RealScene"),
    "spec": ("ExecuteSpec",),
    "tasks": ("KINDS", "Work", "partial_fit_work", "torch_work"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
