"""The interface of limiters, and the choice among their kinds.

A limiter holds processes to shares of the CPU; what it holds can be changed, measured and let go.
"""

from __future__ import annotations

import errno
import itertools
import math
import numbers
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import ClassVar

from equipoise.engine.cpu_limit import groups
from equipoise.engine.cpu_limit.process_tree import ancestors, cpu_seconds, facts, tree
from equipoise.errors import Failure, InputError, unknown_name

CORES = os.cpu_count() or 1
KINDS = {
    "systemd": ("scope", "ScopeLimiter", "a scope of systemd with cpu.max"),
    "cgroup2": ("cgroup2", "Cgroup2Limiter", "a quota of cgroup v2"),
    "cgroup1": ("cgroup1", "Cgroup1Limiter", "a quota of cgroup v1"),
    "stop": ("stop", "StopLimiter", "stopping and continuing, watched every 10 ms"),
    "none": ("limiters", "Unlimited", "nothing is held, only measured"),
}  # best first: name, (module, class, what it does)
QUOTAS = ("systemd", "cgroup2", "cgroup1")
REFUSALS = (InputError, Failure, OSError, subprocess.SubprocessError)


@dataclass(frozen=True)
class Usage:
    """What a held process got since the hold, in seconds of one core."""

    cpu_seconds: float  # of the whole tree, with children that ended where the kind can know
    asked_cpu_seconds: float  # the share over time, added up
    wall_seconds: float
    shortfall: float  # asked and not got: the machine was busy, or the process did not want it

    @property
    def share(self) -> float:
        """The mean share it got, in cores."""
        return self.cpu_seconds / self.wall_seconds if self.wall_seconds > 0 else 0.0

    @property
    def asked(self) -> float:
        """The mean share asked for, in cores."""
        return self.asked_cpu_seconds / self.wall_seconds if self.wall_seconds > 0 else 0.0


class Held(ABC):
    """One process, its threads and its children, held to a share. A process that has died is no error here."""

    def __init__(self, limiter: CpuLimiter, pid: int, start: int, share: float) -> None:
        self.pid, self.start, self.share = pid, start, share
        self.released = False
        self._limiter = limiter
        self._lock = threading.RLock()
        self._began = self._since = time.monotonic()
        self._asked = 0.0
        self._last: Usage | None = None

    def set(self, share: float) -> None:
        """Another share, in cores, from now on. 0 pauses: stopped by signal, or frozen by cgroup v2."""
        checked = checked_share(share, least=0.0)
        with self._lock:
            if self.released:
                return
            self._count()
            before, self.share = self.share, checked
            try:
                self._apply(checked)
            except OSError as error:
                self.share = before
                raise InputError(
                    f"a share of {checked:g} cores was refused: {error}; groups above allow less"
                ) from None

    def usage(self) -> Usage:
        """What it got until now; after the release, until then."""
        with self._lock:
            if self._last is not None:
                return self._last
            got = self._cpu_seconds()
            self._count()
            wall = self._since - self._began
            return Usage(got, self._asked, wall, max(0.0, self._asked - got))

    def release(self) -> None:
        """No longer limited, and continued if it was stopped. Twice is fine."""
        with self._lock:
            if self.released or os.getpid() != self._limiter._owner:
                return
            self._last = self.usage()
            self.released = True
            self._let_go()
        self._limiter._forget(self)

    def _count(self) -> None:
        now = time.monotonic()
        self._asked += self.share * (now - self._since)
        self._since = now

    @abstractmethod
    def _apply(self, share: float) -> None: ...

    @abstractmethod
    def _cpu_seconds(self) -> float: ...

    @abstractmethod
    def _let_go(self) -> None: ...


class CpuLimiter(ABC):
    """Holds processes to shares of the CPU, in one way; leaving it as a context releases all."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.says = self.name
        self._held: dict[int, Held] = {}
        self._owner = os.getpid()
        self._numbers = itertools.count(1)
        self._closed = False
        self._lock = threading.RLock()

    def hold(self, pid: int, share: float) -> Held:
        """Hold a process, its threads and its children, now and later, to a share of the CPU.

        Hold a process when it is ready, not while it imports: importing scikit-learn takes seconds of CPU, ten times as
        long at a share of 0.1.

        Parameters
        ----------
        pid
            The id of the process; not this one, nor one above it.
        share
            Cores that it may use: 0.3 is 30 % of one core.
        """
        if self._closed:
            raise InputError(
                f"hold({pid!r}): this limiter is closed; open another with limiter({self.name!r})",
                code="limiter.closed",
            )
        share = checked_share(share)
        with self._lock:
            start = self._checked_process(pid)
            held = self._hold(pid, start, share)
            self._held[pid] = held
            return held

    @abstractmethod
    def _hold(self, pid: int, start: int, share: float) -> Held: ...

    def _checked_process(self, pid: int) -> int:
        """The start time of a process that may be held; otherwise one line that says why not."""
        if not isinstance(pid, numbers.Integral) or isinstance(pid, bool) or pid <= 0:
            raise InputError(
                f"hold(pid={pid!r}): expected the id of a process, a whole number above 0", code="process.id"
            )
        pid = int(pid)
        now = facts(pid)
        if now is None or now.state in "ZX":
            raise InputError(
                f"hold(pid={pid}): no such process is running; it may have ended already", code="process.gone"
            )
        mine = os.getpid()
        if pid == 1:
            raise InputError(
                "hold(pid=1): process 1 runs the whole machine and is never held; hold a process you started",
                code="process.never",
            )
        if pid == mine or pid in ancestors(mine):
            who = "this very process" if pid == mine else "a process above this one"
            raise InputError(
                f"hold(pid={pid}): that is {who}, and would hold its own limiter; start a child and hold that",
                code="process.never",
            )
        try:
            os.kill(pid, 0)
        except PermissionError:
            raise InputError(f"hold(pid={pid}): it belongs to another user; hold your own, or run as root") from None
        except ProcessLookupError:
            raise InputError(
                f"hold(pid={pid}): no such process is running; it may have ended already", code="process.gone"
            ) from None
        before = self._held.get(pid)
        if before is not None:
            if before.start == now.start:
                raise InputError(
                    f"hold(pid={pid}): it is held already, to {before.share:g}; use set() on what hold() gave",
                    code="process.held",
                )
            before.release()
        return now.start

    def _forget(self, held: Held) -> None:
        with self._lock:
            if self._held.get(held.pid) is held:
                del self._held[held.pid]

    def close(self) -> None:
        """Release everything and clean up. Twice is fine; in a fork of the owner nothing happens."""
        if self._closed or os.getpid() != self._owner:
            return
        for held in list(self._held.values()):
            held.release()
        self._closed = True
        self._close()

    def _close(self) -> None:  # noqa: B027 - not every kind has more to close
        """Whatever else the kind has open."""

    def __enter__(self) -> CpuLimiter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def checked_share(share: float, least: float | None = None) -> float:
    """A share in cores, within the machine."""
    fix = f"give cores between 0 and {CORES}, such as 0.3 for 30 % of one core"
    if not isinstance(share, numbers.Real) or isinstance(share, bool):
        raise InputError(f"a share of {share!r} is not a number; {fix}", code="share.range")
    value = float(share)
    if math.isnan(value) or value > CORES or value < 0 or (value == 0 and least is None):
        why = f"this machine has {CORES} cores" if value > CORES else "a share is above 0"
        raise InputError(f"a share of {value:g} cores cannot be held: {why}; {fix}", code="share.range")
    return value


def missing() -> str:
    """The kind "none" lacks nothing anywhere; other kinds say in their own file what they lack here."""
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


class Unlimited(CpuLimiter):
    """Holds nothing: for machines where nothing may be held, and for comparing."""

    name = "none"

    def _hold(self, pid: int, start: int, share: float) -> Held:
        return Watched(self, pid, start, share)


@dataclass(frozen=True)
class Availability:
    """Whether one kind works here; `missing` says what it lacks, empty when it works."""

    kind: str
    means: str
    missing: str

    @property
    def works(self) -> bool:
        return not self.missing


def available() -> list[Availability]:
    """Every kind, best first."""
    return [
        Availability(kind, means, import_module(f"equipoise.engine.cpu_limit.{module}").missing())
        for kind, (module, _, means) in KINDS.items()
    ]


def _made(one: Availability, passed: list[str], surely: bool) -> CpuLimiter:
    module, name, means = KINDS[one.kind]
    made: CpuLimiter = getattr(import_module(f"equipoise.engine.cpu_limit.{module}"), name)()
    if surely:
        _try_out(made)
    better = f"; not {', not '.join(passed)}" if passed else ""
    made.says = f"{one.kind}: {means}{better}"
    return made


def _try_out(made: CpuLimiter) -> None:
    """Hold a process that sleeps: the kernel may refuse what its files allow."""
    asleep = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        made.hold(asleep.pid, 0.5).release()
    except REFUSALS:
        made.close()
        raise
    finally:
        asleep.kill()
        asleep.communicate()


def limiter(kind: str = "auto") -> CpuLimiter:
    """The limiter of this kind, or the best that works here; use it as a context.

    Parameters
    ----------
    kind
        "auto", "systemd", "cgroup2", "cgroup1", "stop" or "none" (measures, holds nothing).
    """
    if kind != "auto" and kind not in KINDS:
        raise unknown_name("kind of CPU limiter", kind, ["auto", *KINDS])
    passed: list[str] = []
    for one in available():
        if kind not in ("auto", one.kind):
            continue
        if one.works:
            try:
                return _made(one, passed, surely=kind == "auto" and one.kind in QUOTAS)
            except REFUSALS as error:
                if kind != "auto":
                    raise
                passed.append(f"{one.kind} ({error})")
                continue
        passed.append(f"{one.kind} ({one.missing})")
    raise InputError(
        f"limiter {kind} cannot be used here: {'; '.join(passed)}; use the kind auto", code="limiter.missing"
    )
