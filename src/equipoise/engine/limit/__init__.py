"""Holding a process, its threads and its children to a share of the CPU. The share is a ceiling; what was missed is told.

Names are loaded when they are asked for: the guardian starts from this package and must start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.engine.limit.holding import CpuLimiter, Held, Usage
    from equipoise.engine.limit.kinds import KINDS, Availability, available, limiter

__all__ = ["KINDS", "Availability", "CpuLimiter", "Held", "Usage", "available", "limiter"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    place = "holding" if name in ("CpuLimiter", "Held", "Usage") else "kinds"
    return getattr(import_module(f"{__name__}.{place}"), name)
