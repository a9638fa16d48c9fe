"""Where work really runs: shards of a training run on processes or Ray, tasks of a site on the real clock, and the CPU
each process is held to."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from equipoise._moved import old_names

if TYPE_CHECKING:
    from equipoise.engine.cpu_limit import CpuLimiter, limiter
    from equipoise.engine.shards.keeper import Hold
    from equipoise.engine.shards.workers import Workers

__all__ = ["CpuLimiter", "Hold", "Workers", "limiter"]

_HOMES = {
    "CpuLimiter": "equipoise.engine.cpu_limit",
    "Hold": "equipoise.engine.shards.keeper",
    "Workers": "equipoise.engine.shards.workers",
    "limiter": "equipoise.engine.cpu_limit",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    return old_names(__name__)(name)
