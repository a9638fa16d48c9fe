"""A scope of systemd, with a quota of cgroup v2 inside: for any user of a machine that systemd runs.

systemd moves the processes into a scope and delegates it; the quota is set in a group inside, which systemd never touches.
Written to systemd's documentation and tested on a copy of its files: untested with a real systemd here.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from equipoise.engine.cpu_limit import groups
from equipoise.engine.cpu_limit.cgroup2 import Quota2
from equipoise.engine.cpu_limit.guard import Guard
from equipoise.engine.cpu_limit.limiters import CpuLimiter, Held
from equipoise.engine.cpu_limit.process_tree import tree
from equipoise.errors import Failure, InputError

ANSWER_SECONDS = 10.0
UNIT = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def whose() -> str:
    """The system's systemd for root, the user's own for others."""
    return "--system" if os.geteuid() == 0 else "--user"


def missing(root: str = "/") -> str:
    """Why this kind cannot work here; empty when it can."""
    if not Path(root, "run/systemd/system").is_dir():
        return "systemd is not running here"
    if shutil.which("busctl") is None:
        return "busctl, which asks systemd for a scope, is not on the path"
    places = groups.own(root=root)
    if places is None:
        return "cgroup v2 is not mounted here"
    user = os.geteuid()
    if user == 0:
        there = "cpu" in groups.words(places[0], "cgroup.controllers")
        return "" if there else f"the cpu controller is not at {places[0]}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{user}")
    if not Path(root + runtime, "bus").exists():
        return f"user {user} has no systemd of its own (no {runtime}/bus; loginctl enable-linger gives one)"
    service = f"{places[0]}/user.slice/user-{user}.slice/user@{user}.service"
    if "cpu" not in groups.words(service, "cgroup.controllers"):
        return f"the cpu controller is not delegated to {service}"
    return ""


def command(name: str, pids: list[int]) -> list[str]:
    """Ask systemd for a delegated scope around these processes."""
    properties = ["PIDs", "au", str(len(pids)), *map(str, pids), "Delegate", "b", "true"]
    properties += ["CollectMode", "s", "inactive-or-failed"]
    call = ["StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail", "3"]
    return ["busctl", whose(), "call", *UNIT, *call, *properties, "0"]


def start(name: str, pids: list[int], root: str = "/") -> str:
    """The group of a new scope with these processes in it."""
    done = subprocess.run(command(name, pids), capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    if done.returncode != 0:
        raise InputError(
            f"systemd refused the scope {name}: {done.stderr.strip() or done.returncode}; use the kind stop",
            code="limiter.refused",
        )
    until = time.monotonic() + ANSWER_SECONDS
    places = groups.own(root=root)
    while places is not None and time.monotonic() < until:  # the call returns before the move is done
        lines = groups.words(f"{root}/proc/{pids[0]}", "cgroup")
        where = next((line[3:] for line in lines if line.startswith("0::") and line.endswith(name)), "")
        if where:
            return os.path.normpath(places[0] + where)
        time.sleep(0.005)
    raise Failure(f"systemd did not move process {pids[0]} into {name} in {ANSWER_SECONDS:g} s")


class ScopeLimiter(CpuLimiter):
    """A scope for every held process."""

    name = "systemd"

    def __init__(self, root: str = "/") -> None:
        super().__init__()
        self.root = root
        self.scopes: list[str] = []
        self.guard = Guard(self._state)

    def _state(self) -> Iterable[str]:
        return [f"base {scope}" for scope in list(self.scopes)]

    def _hold(self, pid: int, start_time: int, share: float) -> Held:
        name = f"{self.guard.prefix}{next(self._numbers)}"
        scope = start(f"{name}.scope", tree(pid, [held.pid for held in self._held.values()]), self.root)
        self.scopes.append(scope)
        self.guard.tell(f"base {scope}")
        held = Quota2(self, pid, start_time, share, os.path.join(scope, name), "")
        with contextlib.suppress(OSError):  # only now is the scope itself empty
            groups.put(scope, "cgroup.subtree_control", "+cpu")
        held.set(share)
        held.check()
        return held

    def _close(self) -> None:
        self.guard.close()
