"""A quota of cgroup v2 (cpu.max) in a group that was delegated to this user, or anywhere for root.

Written to the kernel's documentation and tested on a copy of its files: untested on a real kernel here.
"""

import contextlib
import os
from collections.abc import Iterable

from equipoise.engine.cpu_limit import groups
from equipoise.engine.cpu_limit.guard import Guard
from equipoise.engine.cpu_limit.limiters import CpuLimiter, Held, Quota
from equipoise.errors import InputError


def find(root: str = "/") -> tuple[str, str]:
    """(the nearest group in which groups with a quota can be made, "") or ("", why there is none)."""
    places = groups.own(root=root)
    if places is None:
        return "", "cgroup v2 is not mounted here"
    mount, mine = places
    group, forbidden = mine, ""  # the nearest group with the controller in which we may not write
    while True:
        if "cpu" in groups.words(group, "cgroup.controllers"):
            # May this user make groups there, move processes within, and hand the cpu controller down?
            needed = (os.path.join(group, name) for name in ("", "cgroup.procs", "cgroup.subtree_control"))
            if all(os.access(place, os.W_OK) for place in needed):
                return group, ""
            forbidden = forbidden or group
        if group == mount:
            break
        group = os.path.dirname(group)
    if forbidden:
        return "", f"no right to make groups in {forbidden} (systemd-run --user --scope -p Delegate=yes gives one)"
    return "", f"the cpu controller is not delegated to {mine}"


def missing(root: str = "/") -> str:
    """Why this kind cannot work here; empty when it can."""
    return find(root)[1]


def prepare(base: str, rest: str) -> str:
    """Hand the cpu controller down in `base`; its own processes first go to the group `rest`. Where they went, or ""."""
    if "cpu" in groups.words(base, "cgroup.subtree_control"):
        return ""
    went = ""
    if os.path.exists(os.path.join(base, "cgroup.type")) and groups.members(base):  # only the real root may have both
        groups.make(rest)
        went = rest
        while there := groups.members(base):
            for pid in there:
                groups.move(pid, rest)
    groups.put(base, "cgroup.subtree_control", "+cpu")
    return went


class Quota2(Quota):
    """One group with cpu.max; a share of 0 freezes it."""

    def __init__(self, limiter: CpuLimiter, pid: int, start: int, share: float, group: str, home: str) -> None:
        super().__init__(limiter, pid, start, share)
        self.group, self.home = group, home
        self._got = 0.0
        self._enter([group])

    def check(self) -> None:
        """A group without cpu.max limits nothing: let go and say so."""
        if not os.path.exists(os.path.join(self.group, "cpu.max")):
            self.release()
            raise InputError(
                f"hold(pid={self.pid}): {self.group} has no cpu.max: the cpu controller was not handed down"
            )

    def _apply(self, share: float) -> None:
        quota_us, period_us = groups.quota(share)
        with contextlib.suppress(FileNotFoundError):
            groups.put(self.group, "cpu.max", f"{quota_us} {period_us}")
            groups.put(self.group, "cpu.weight", str(groups.weight(share, 100, 10000)))
            if (share <= 0) != getattr(self, "_frozen", False):
                self._frozen = share <= 0
                groups.put(self.group, "cgroup.freeze", str(int(self._frozen)))

    def _cpu_seconds(self) -> float:
        told = groups.words(self.group, "cpu.stat")
        if "usage_usec" in told:
            self._got = int(told[told.index("usage_usec") + 1]) / 1e6
        return self._got

    def _let_go(self) -> None:
        groups.remove(self.group, self.home)


class Cgroup2Limiter(CpuLimiter):
    """A group of cgroup v2 for every held process."""

    name = "cgroup2"

    def __init__(self, root: str = "/") -> None:
        super().__init__()
        base, why = find(root)
        places = groups.own(root=root)
        if not base or places is None:
            raise InputError(
                f"limiter('cgroup2') cannot be used here: {why}; use the kind auto", code="limiter.missing"
            )
        self.base, self.home = base, places[1]
        groups.sweep(base, self.home)
        self.guard = Guard(self._state)
        try:
            self.rest = prepare(base, os.path.join(base, f"{self.guard.prefix}rest"))
        except OSError as error:
            self.guard.close()
            raise InputError(f"limiter('cgroup2'): {base} did not take the cpu controller ({error.strerror})") from None
        if self.rest:
            self.home = self.rest
            self.guard.tell(f"base {base}\t{self.home}")

    def _state(self) -> Iterable[str]:
        return [f"base {self.base}\t{self.home}"]

    def _hold(self, pid: int, start: int, share: float) -> Held:
        name = f"{self.guard.prefix}{next(self._numbers)}"
        held = Quota2(self, pid, start, share, os.path.join(self.base, name), self.home)
        held.check()
        return held

    def _close(self) -> None:
        if self.rest:
            groups.remove(self.rest)
        groups.sweep(self.base, self.home)
        self.guard.close()
