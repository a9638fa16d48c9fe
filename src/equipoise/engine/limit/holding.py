"""The interface: a limiter holds processes to shares of the CPU; what it holds can be changed, measured and let go."""

from __future__ import annotations

import itertools
import math
import numbers
import os
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar

from equipoise.engine.limit import tree
from equipoise.errors import InputError

CORES = os.cpu_count() or 1


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
        """Hold a process, its threads and its children, now and later, to `share` cores.

        Hold a process when it is ready, not while it imports: importing scikit-learn takes seconds of CPU, ten times as
        long at a share of 0.1.
        """
        if self._closed:
            raise InputError(f"hold({pid!r}): this limiter is closed; open another with limiter({self.name!r})")
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
            raise InputError(f"hold(pid={pid!r}): expected the id of a process, a whole number above 0")
        pid = int(pid)
        now = tree.facts(pid)
        if now is None or now.state in "ZX":
            raise InputError(f"hold(pid={pid}): no such process is running; it may have ended already")
        mine = os.getpid()
        if pid == 1:
            raise InputError(
                "hold(pid=1): process 1 runs the whole machine and is never held; hold a process you started"
            )
        if pid == mine or pid in tree.ancestors(mine):
            who = "this very process" if pid == mine else "a process above this one"
            raise InputError(
                f"hold(pid={pid}): that is {who}, and would hold its own limiter; start a child and hold that"
            )
        try:
            os.kill(pid, 0)
        except PermissionError:
            raise InputError(f"hold(pid={pid}): it belongs to another user; hold your own, or run as root") from None
        except ProcessLookupError:
            raise InputError(f"hold(pid={pid}): no such process is running; it may have ended already") from None
        before = self._held.get(pid)
        if before is not None:
            if before.start == now.start:
                raise InputError(
                    f"hold(pid={pid}): it is held already, to {before.share:g}; use set() on what hold() gave"
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
        raise InputError(f"a share of {share!r} is not a number; {fix}")
    value = float(share)
    if math.isnan(value) or value > CORES or value < 0 or (value == 0 and least is None):
        why = f"this machine has {CORES} cores" if value > CORES else "a share is above 0"
        raise InputError(f"a share of {value:g} cores cannot be held: {why}; {fix}")
    return value
