"""Where work really runs: shards of a training run on processes or Ray, tasks of a site on the real clock, and the CPU
each process is held to."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.engine.cpu_limit import CpuLimiter as CpuLimiter, limiter as limiter
    from equipoise.engine.shards.keeper import Hold as Hold
    from equipoise.engine.shards.workers import Workers as Workers
    from equipoise.engine.spread import spread as spread
else:
    lazy(__name__)
