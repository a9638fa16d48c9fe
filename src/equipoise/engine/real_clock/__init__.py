"""share on the real clock: the same policies on real training processes held to their shares, beside the simulation.

Names are loaded when they are used: the server of task processes starts from this package and loads only its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.engine.real_clock.audit import certify
    from equipoise.engine.real_clock.comparison import Pair, RealComparison, compare
    from equipoise.engine.real_clock.execute import Executed, Fault
    from equipoise.engine.real_clock.scene import RealPlan, RealScene
    from equipoise.engine.real_clock.spec import ExecuteSpec
    from equipoise.engine.real_clock.tasks import KINDS, Work, partial_fit_work, torch_work
else:
    lazy(__name__)

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
