"""Stop and continue, for any user: the guardian watches the tree's CPU clocks every 10 ms and sends SIGSTOP and SIGCONT."""

from __future__ import annotations

import os
from collections.abc import Iterable

from equipoise.engine.cpu_limit.guard import Guard
from equipoise.engine.cpu_limit.limiters import CpuLimiter, Held
from equipoise.engine.cpu_limit.process_tree import alive, resume


def missing() -> str:
    """Why this kind cannot work here; empty when it can."""
    if os.name != "posix" or not os.path.exists("/proc/self/stat"):
        return "there is no /proc here, so nobody can tell a process's children"
    return ""


class Stopped(Held):
    """A share kept by the guardian's feedback loop."""

    def __init__(self, limiter: StopLimiter, number: int, pid: int, start: int, share: float) -> None:
        super().__init__(limiter, pid, start, share)
        self._number = number
        self._stop = limiter
        self._generation = limiter.guard.started
        self._before = self._got = 0.0  # CPU seconds: under guardians that were killed; under all

    def line(self, word: str) -> str:
        """What a guardian must hear to `hold` this one, or to hold it `again`."""
        return f"{word} {self._number} {self.pid} {self.start} {self.share!r}"

    def _apply(self, share: float) -> None:
        self._stop.guard.tell(f"set {self._number} {share!r}")

    def _cpu_seconds(self) -> float:
        started = self._stop.guard.started
        answer = self._stop.guard.ask(f"usage {self._number}")
        if answer is not None:
            if self._generation != started:  # a new guardian counts from nothing
                self._before, self._generation = self._got, started
            self._got = max(self._got, self._before + float(answer))
        return self._got

    def _let_go(self) -> None:
        if self._stop.guard.ask(f"drop {self._number}") is None and alive(self.pid, self.start):
            resume(self.pid)


class StopLimiter(CpuLimiter):
    """Feedback by signals. A ceiling that costs the guardian some CPU of its own (see `equipoise doctor`)."""

    name = "stop"

    def __init__(self) -> None:
        super().__init__()
        self.guard = Guard(self._state)

    def _state(self) -> Iterable[str]:
        return [
            held.line("again") for held in list(self._held.values()) if isinstance(held, Stopped) and not held.released
        ]

    def _hold(self, pid: int, start: int, share: float) -> Held:
        held = Stopped(self, next(self._numbers), pid, start, share)
        self._held[pid] = held
        self.guard.tell(held.line("hold"))
        return held

    def _close(self) -> None:
        self.guard.close()
