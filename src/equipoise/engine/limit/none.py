"""No limit: the process runs as it likes, and what it used is measured against what was asked."""

from __future__ import annotations

from equipoise.engine.limit.holding import CpuLimiter, Held
from equipoise.engine.limit.tree import cpu_seconds, facts, tree


def missing() -> str:
    """Never missing anything."""
    return ""


class Watched(Held):
    """Not held at all; children that ended are not counted unless their parent collected them."""

    def __init__(self, limiter: CpuLimiter, pid: int, start: int, share: float) -> None:
        super().__init__(limiter, pid, start, share)
        self._before = self._now()
        self._most = 0.0

    def _now(self) -> float:
        root = facts(self.pid)
        if root is None or root.start != self.start:
            return 0.0
        total = 0.0
        for pid in tree(self.pid):
            now = facts(pid)
            total += (cpu_seconds(pid) or 0.0) + (now.children_seconds if now else 0.0)
        return total

    def _cpu_seconds(self) -> float:
        self._most = max(self._most, self._now() - self._before)
        return self._most

    def _apply(self, share: float) -> None:
        """Nothing to do: the share is only written down."""

    def _let_go(self) -> None:
        """Nothing to undo."""


class Unlimited(CpuLimiter):
    """Holds nothing: for machines where nothing may be held, and for comparing."""

    name = "none"

    def _hold(self, pid: int, start: int, share: float) -> Held:
        return Watched(self, pid, start, share)
