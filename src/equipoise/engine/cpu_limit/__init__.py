"""Holding a process, its threads and its children to a share of the CPU.

The share is a ceiling; what a process asked for and did not get is reported. Names are loaded when they are used: the
guardian starts from this package and must start fast.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.engine.cpu_limit.limiters import KINDS, Availability, CpuLimiter, Held, Usage, available, limiter

__all__ = ["KINDS", "Availability", "CpuLimiter", "Held", "Usage", "available", "limiter"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.limiters"), name)
