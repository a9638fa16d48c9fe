"""A quota of cgroup v1 (cpu.cfs_quota_us), for whoever may write there: mostly root, mostly older systems and containers."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from equipoise.engine.cpu_limit import groups
from equipoise.engine.cpu_limit.guard import Guard
from equipoise.engine.cpu_limit.limiters import CpuLimiter, Held
from equipoise.engine.cpu_limit.process_tree import alive, cpu_seconds, resume, tree
from equipoise.errors import InputError

PERIOD = 0.02  # seconds; 10 to 100 ms are equally exact (benchmarks/engine/limits.py --periods), this pauses shortly
WEIGHT = 16  # ordinary processes that a share of one core weighs as much as
LONGEST = 1.0  # seconds; the kernel's longest period
LEAST_QUOTA = 0.001  # seconds; the kernel's least quota


def quota(share: float) -> tuple[int, int]:
    """Quota and period in microseconds. A small share gets a longer period, for the quota is at least 1 ms."""
    if share <= 0:
        return round(LEAST_QUOTA * 1e6), round(LONGEST * 1e6)
    period = min(max(PERIOD, 2 * LEAST_QUOTA / share), LONGEST)
    return max(round(share * period * 1e6), round(LEAST_QUOTA * 1e6)), round(period * 1e6)


def weight(share: float, one: int, most: int) -> int:
    """The weight of a group: so heavy, where an ordinary process weighs `one`, that it reaches its quota beside others.

    In proportion to the share, so that held processes that crowd each other are cut alike.
    """
    return min(max(round(WEIGHT * share * one), 2), most)


def own(controller: str = "", root: str = "/") -> tuple[str, str] | None:
    """Where a controller of cgroup v1, or without one cgroup v2, is mounted, and this process's own group in it."""
    try:
        mounts = Path(root, "proc/self/mountinfo").read_text().splitlines()
        lines = Path(root, "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    entries = (line.split(":", 2) for line in lines)
    mine = next((path for _, names, path in entries if controller in names.split(",")), None)
    for mount in mounts:
        fields, _, kind = mount.partition(" - ")
        name, _, options = (kind.split() + [""] * 3)[:3]
        if (
            mine is None
            or name != ("cgroup" if controller else "cgroup2")
            or controller not in ("", *options.split(","))
        ):
            continue
        top, point = fields.split()[3:5]
        below = os.path.relpath(mine, top)
        place = os.path.normpath(root.rstrip("/") + point)
        return place, os.path.normpath(os.path.join(place, "" if below.startswith("..") else below))
    return None


def folder(controller: str, root: str = "/") -> str | None:
    """This process's own group under one controller of cgroup v1; None where that is not mounted."""
    places = own(controller, root)
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


class Quota(Held):
    """A process, its threads and its children in a group with a quota."""

    group: str

    def _enter(self, places: list[str], needs: str = "") -> None:
        """Make these groups, set the share, and move the tree in; again until nobody new is found: it may fork meanwhile."""
        leave = [held.pid for held in self._limiter._held.values()]
        moved: set[int] = set()
        try:
            for place in places:
                groups.make(place)
            if needs and not os.path.exists(os.path.join(self.group, needs)):
                raise OSError(errno.ENOENT, f"it has no {needs}: this kernel has no quotas")
            self._apply(self.share)
            while new := [pid for pid in tree(self.pid, leave) if pid not in moved]:
                for pid in new:
                    for place in places:
                        groups.move(pid, place)
                moved |= set(new)
        except OSError as error:
            self._let_go()
            why = f"the kernel refused to put it into {self.group} ({error.strerror})"
            raise InputError(f"hold(pid={self.pid}): {why}; use the kind stop") from None


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
        quota_us, period_us = quota(share)
        with contextlib.suppress(FileNotFoundError):
            if getattr(self, "_period", None) != period_us:
                groups.put(self.group, "cpu.cfs_quota_us", "-1")  # an instant: old quota, new period may not agree
                groups.put(self.group, "cpu.cfs_period_us", str(period_us))
                self._period = period_us
            groups.put(self.group, "cpu.cfs_quota_us", str(quota_us))
            groups.put(self.group, "cpu.shares", str(weight(share, 1024, 262144)))

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
