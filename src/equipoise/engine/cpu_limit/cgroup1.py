"""A quota of cgroup v1 (cpu.cfs_quota_us), for whoever may write there: mostly root, mostly older systems and containers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from equipoise.engine.cpu_limit import groups
from equipoise.engine.cpu_limit.guard import Guard
from equipoise.engine.cpu_limit.limiters import CpuLimiter, Held, Quota
from equipoise.engine.cpu_limit.process_tree import alive, cpu_seconds, resume


def folder(controller: str, root: str = "/") -> str | None:
    """This process's own group under one controller of cgroup v1; None where that is not mounted."""
    places = groups.own(controller, root)
    return None if places is None else places[1]


def missing(root: str = "/") -> str:
    """Why this kind cannot work here; empty when it can."""
    base = folder("cpu", root)
    if base is None:
        return "no cpu controller of cgroup v1 is mounted"
    if not any(os.path.exists(os.path.join(base, name)) for name in ("cpu.cfs_quota_us", "cpu.shares")):
        return f"{base} has no cpu controller"
    if not os.access(base, os.W_OK):
        return f"no right to make a group in {base} (run as root, or have it delegated)"
    return ""


class Quota1(Quota):
    """One group with a quota, and one that counts CPU seconds where the kernel counts elsewhere."""

    def __init__(
        self, limiter: Cgroup1Limiter, pid: int, start: int, share: float, group: str, count: str | None
    ) -> None:
        super().__init__(limiter, pid, start, share)
        self.group, self.count = group, count
        self.paused = ""  # while it is stopped: what a new guardian must hear
        self.number = int(group.rpartition("-")[2])
        self._cgroup1 = limiter
        self._last_count = 0.0
        self.places = [group] if count in (None, group) else [count or "", group]
        self._enter(self.places, needs="cpu.cfs_quota_us")

    def _apply(self, share: float) -> None:
        """A share of 0 stops the tree by signal: at the least quota a process would take seconds even to be killed."""
        self._pause(share <= 0)
        if share <= 0:
            return
        quota_us, period_us = groups.quota(share)
        with contextlib.suppress(FileNotFoundError):
            if getattr(self, "_period", None) != period_us:
                groups.put(self.group, "cpu.cfs_quota_us", "-1")  # an instant: old quota, new period may not agree
                groups.put(self.group, "cpu.cfs_period_us", str(period_us))
                self._period = period_us
            groups.put(self.group, "cpu.cfs_quota_us", str(quota_us))
            groups.put(self.group, "cpu.shares", str(groups.weight(share, 1024, 262144)))

    def _pause(self, wanted: bool) -> None:
        guard, line = self._cgroup1.guard, f"{self.number} {self.pid} {self.start} 0.0"
        if wanted and not self.paused:
            self.paused = f"again {line}"
            guard.tell(f"hold {line}")
        elif self.paused and not wanted:
            self.paused = ""
            if guard.ask(f"drop {self.number}") is None and alive(self.pid, self.start):
                resume(self.pid)

    def _cpu_seconds(self) -> float:
        try:
            self._last_count = int(Path(self.count or "", "cpuacct.usage").read_text()) / 1e9
        except (OSError, ValueError):
            living = sum(cpu_seconds(pid) or 0.0 for pid in groups.members(self.group))
            self._last_count = max(self._last_count, living)
        return self._last_count

    def _let_go(self) -> None:
        self._pause(False)
        for place in self.places:
            groups.remove(place)


class Cgroup1Limiter(CpuLimiter):
    """A group of cgroup v1 for every held process."""

    name = "cgroup1"

    def __init__(self) -> None:
        super().__init__()
        base, count = folder("cpu"), folder("cpuacct")
        assert base is not None
        self.base = base
        self.count = count if count is not None and os.access(count, os.W_OK) else None
        self.bases = sorted({self.base, self.count or self.base})
        for place in self.bases:
            groups.sweep(place)
        self.guard = Guard(self._state)

    def _state(self) -> Iterable[str]:
        paused = [held.paused for held in list(self._held.values()) if isinstance(held, Quota1) and held.paused]
        return [f"base {base}" for base in self.bases] + paused

    def _hold(self, pid: int, start: int, share: float) -> Held:
        name = f"{self.guard.prefix}{next(self._numbers)}"
        count = None if self.count is None else os.path.join(self.count, name)
        return Quota1(self, pid, start, share, os.path.join(self.base, name), count)

    def _close(self) -> None:
        self.guard.close()
