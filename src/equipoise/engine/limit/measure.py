"""Asked and got: a process with two threads and a child, all busy, is held, and its CPU clocks are read from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from equipoise.engine.limit.holding import CORES, CpuLimiter
from equipoise.engine.limit.tree import cpu_seconds
from equipoise.errors import Failure

SPIN = "import hashlib\nblock = bytes(1 << 16)\ndef spin():\n    while True: hashlib.sha256(block)\n"  # without the GIL
THREE = SPIN + (
    "import os, threading\n"
    "child = os.fork()\n"
    "if child == 0: spin()\n"
    "threading.Thread(target=spin).start()\n"
    "print(child, flush=True)\n"
    "spin()\n"
)


@dataclass(frozen=True)
class Measured:
    """One share, as asked and as got, in cores, over `seconds`."""

    kind: str
    asked: float
    got: float
    seconds: float
    idle: float  # cores of the machine that nobody used meanwhile: a shortfall with idle cores is the limiter's own
    guardian: float  # cores that the guardian used meanwhile

    @property
    def shortfall(self) -> float:
        """Cores asked and not got."""
        return max(0.0, self.asked - self.got)

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self) | {"shortfall": self.shortfall}


@contextlib.contextmanager
def busy_tree() -> Iterator[tuple[int, int]]:
    """A process with two busy threads and a busy child: (its pid, the child's)."""
    process = _python(THREE, subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.strip():
            raise Failure("the process to be measured did not start")
        yield process.pid, int(line)
    finally:
        _end(process)


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many busy processes beside."""
    started = [_python(SPIN + "spin()", subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            _end(process)


def _python(code: str, out: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdout=out, start_new_session=True, close_fds=True
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the group that this process leads, and no other
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def measure(cpu: CpuLimiter, share: float, seconds: float) -> Measured:
    """Hold a fresh busy tree to `share` and read its clocks after `seconds`."""
    with busy_tree() as pids:
        held = cpu.hold(pids[0], share)
        guard = getattr(cpu, "guard", None)
        began, before, idle = time.monotonic(), _clocks(*pids), idle_seconds()
        cost = _clocks(guard.pid) if guard else 0.0
        time.sleep(seconds)
        wall = time.monotonic() - began
        got = (_clocks(*pids) - before) / wall
        spent = (_clocks(guard.pid) - cost) / wall if guard else 0.0
        free = (idle_seconds() - idle) / wall
        held.release()
    return Measured(cpu.name, share, got, wall, min(max(0.0, free), CORES), max(0.0, spent))


def _clocks(*pids: int) -> float:
    return sum(cpu_seconds(pid) or 0.0 for pid in pids)


def idle_seconds() -> float:
    """Core-seconds that the machine was idle since it started."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
