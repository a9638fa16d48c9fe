"""Processes as /proc shows them: who is whose child, since when, and how much CPU each has used. Standard library only."""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from typing import NamedTuple

TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds; the unit of the times in /proc/<pid>/stat


class Facts(NamedTuple):
    """What /proc/<pid>/stat says of one process."""

    state: str  # R, S, D, T (stopped), Z (dead, not yet collected), X
    parent: int
    start: int  # ticks since boot: with the pid, the name of a process that is never used twice
    children_seconds: float  # CPU of children that ended and were collected


def facts(pid: int) -> Facts | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20:
        return None
    collected = (int(fields[13]) + int(fields[14])) * TICK
    return Facts(fields[0].decode(), int(fields[1]), int(fields[19]), collected)


def alive(pid: int, start: int) -> bool:
    """Is it still the same process, and does it still run?"""
    now = facts(pid)
    return now is not None and now.start == start and now.state not in "ZX"


def cpu_seconds(pid: int) -> float | None:
    """CPU of all threads of a process, living and ended, to the nanosecond: its CPU-time clock, one system call."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the kernel's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
    except OSError:
        return None


def everyone() -> list[int]:
    """All process ids."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def tree(root: int, leave: Collection[int] = ()) -> list[int]:
    """A process and all its descendants, parents first; those in `leave`, and what is below them, are left out."""
    children: dict[int, list[int]] = {}
    for pid in everyone():
        now = facts(pid)
        if now is not None:
            children.setdefault(now.parent, []).append(pid)
    found, k = [root], 0
    while k < len(found):
        found += [child for child in children.get(found[k], ()) if child not in leave and child not in found]
        k += 1
    return found


def ancestors(pid: int) -> list[int]:
    """The parent, its parent, and so on up to pid 1."""
    found: list[int] = []
    now = facts(pid)
    while now is not None and now.parent > 0:
        found.append(now.parent)
        now = facts(now.parent)
    return found


def newest() -> bytes:
    """The pid given out last: while it stays the same nothing was born."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return file.read().rpartition(b" ")[2]
    except OSError:
        return os.urandom(4)


def resume(root: int) -> None:
    """Continue a process and all its descendants."""
    for pid in tree(root):
        now = facts(pid)
        if now is not None:
            process = Process(pid, now.start)
            process.signal(signal.SIGCONT)
            process.close()


class Process:
    """One process by pid and start time: a signal reaches that one or nobody, even when the pid is used again."""

    def __init__(self, pid: int, start: int) -> None:
        self.pid, self.start = pid, start
        self.handle: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self.handle = os.pidfd_open(pid)
        if self.handle is not None and (now := facts(pid)) is not None and now.start != start:
            self.close()

    def signal(self, number: int) -> bool:
        """Send it; False when the process is gone or may not be reached."""
        try:
            if self.handle is not None:
                signal.pidfd_send_signal(self.handle, number)
            elif (now := facts(self.pid)) is not None and now.start == self.start:
                os.kill(self.pid, number)
            else:
                return False
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Give the handle back."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None
