"""The kinds of limiter, best first, and the choice among them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module

from equipoise.engine.limit.holding import CpuLimiter
from equipoise.errors import Failure, InputError, unknown_name

KINDS = {
    "systemd": ("scope", "ScopeLimiter", "a scope of systemd with cpu.max"),
    "cgroup2": ("cgroup2", "Cgroup2Limiter", "a quota of cgroup v2"),
    "cgroup1": ("cgroup1", "Cgroup1Limiter", "a quota of cgroup v1"),
    "stop": ("stop", "StopLimiter", "stopping and continuing, watched every 10 ms"),
    "none": ("none", "Unlimited", "nothing is held, only measured"),
}  # best first: name, (module, class, what it does)


QUOTAS = ("systemd", "cgroup2", "cgroup1")
REFUSALS = (InputError, Failure, OSError, subprocess.SubprocessError)


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
        Availability(kind, means, import_module(f"equipoise.engine.limit.{module}").missing())
        for kind, (module, _, means) in KINDS.items()
    ]


def _made(one: Availability, passed: list[str], surely: bool) -> CpuLimiter:
    module, name, means = KINDS[one.kind]
    made: CpuLimiter = getattr(import_module(f"equipoise.engine.limit.{module}"), name)()
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
    """The limiter of this kind, or the best that works here; use it as a context."""
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
    raise InputError(f"limiter {kind} cannot be used here: {'; '.join(passed)}; use the kind auto")
