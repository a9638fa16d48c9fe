"""What this machine can do: its cores, which kinds of CPU limit work and how well, and which extras are installed."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from equipoise.document import Row
from equipoise.engine.cpu_limit import Availability, available, cgroup1, groups, limiter
from equipoise.engine.cpu_limit.limiters import CORES, CpuLimiter
from equipoise.engine.cpu_limit.process_tree import cpu_seconds
from equipoise.errors import Failure, InputError
from equipoise.present.values import Cell, Column, KeyNumber, KeyNumbers, Table

SHARES = (0.1, 0.3, 0.7)  # cores
SECONDS, QUICK_SECONDS = 2.0, 0.5
UNTESTED = ("systemd", "cgroup2")  # written to the documentation; there was no machine to try them on
UNTRIED = "not yet tried on a real kernel"
EXTRAS = {"Ray": "ray", "torch": "torch", "joblib": "joblib", "PostgreSQL (psycopg)": "psycopg"}


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
class Host:
    """The machine, as this process may use it."""

    cores: int
    usable_cores: int  # that this process may run on
    quota: float | None  # cores that a container or a group above allows; None when nothing does
    model: str
    memory_gib: float
    cgroup: str
    load: float  # processes that wanted a core, mean of the last minute


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

    def as_dict(self) -> Row:
        """For --json."""
        return asdict(self) | {"shortfall": self.shortfall}


@dataclass(frozen=True)
class LimiterKind(Availability):
    """One kind of limit: what it is, what it lacks here, and what it did."""

    measured: tuple[Measured, ...]

    @property
    def note(self) -> str:
        """What a user should know beside the figures."""
        if self.missing:
            return self.missing + (f" ({UNTRIED})" if self.kind in UNTESTED else "")
        if not self.measured:
            return "nothing is held"
        above = max(row.got - row.asked for row in self.measured)
        short = max(self.measured, key=lambda row: row.shortfall)
        said = [f"at most {max(above, 0.0):.3f} above"]
        if short.shortfall > 0.03:
            said.append(f"{short.shortfall:.2f} short of {short.asked:g} with {short.idle:.2f} cores idle")
        if self.kind in UNTESTED:
            said.append(f"{UNTRIED}: these figures are its test")
        return "; ".join(said)

    def cells(self) -> list[str | Cell]:
        """Its row in the table."""
        got = [f"{row.got:.3f}" for row in self.measured]
        cost = f"{max(row.guardian for row in self.measured):.3f}" if self.measured else "-"
        works = Cell("yes", tone="good") if self.works else Cell("no", tone="warn")
        return [self.kind, works, *(got + ["-"] * len(SHARES))[: len(SHARES)], cost, self.note]


@dataclass(frozen=True)
class Examination:
    """All that the doctor found."""

    machine: Host
    kinds: tuple[LimiterKind, ...]
    extras: dict[str, str | None]  # name: version, None when it is not installed

    @property
    def best(self) -> str:
        """The kind that `limiter("auto")` picks."""
        return next(kind.kind for kind in self.kinds if kind.works)

    @property
    def holds(self) -> bool:
        """Does any kind hold anything?"""
        return self.best != "none"

    def numbers(self) -> KeyNumbers:
        """The machine and what is installed, one line each."""
        here = self.machine
        quota = "" if here.quota is None else f", of which a quota allows this process {here.quota:g}"
        usable = "" if here.usable_cores == here.cores else f", {here.usable_cores} of them for this process"
        found = {
            "cores": f"{here.cores}{usable}{quota}",
            "processor": here.model,
            "memory": f"{here.memory_gib:.1f} GiB",
            "cgroup": here.cgroup,
            "load": f"{here.load:.2f} processes wanted a core in the last minute",
        } | {name: version or "not installed" for name, version in self.extras.items()}
        return KeyNumbers([KeyNumber(name, value) for name, value in found.items()])

    def table(self) -> Table:
        """One row for each kind of limit: does it work, what it gave, what it lacks."""
        pick = f"picked where none is named: {self.best}"
        return Table(
            "holding a process to its CPU: cores asked and got",
            [
                Column("kind", "left"),
                Column("works", "left"),
                *(Column(f"{share:.2f}") for share in SHARES),
                Column("guardian", drop=1),
                Column("note", "left", wrap=True),
            ],
            [kind.cells() for kind in self.kinds],
            pick if self.holds else "nothing here can hold a process to a share",
        )

    def as_dict(self) -> Row:
        """For --json."""
        kinds = [
            {"kind": kind.kind, "means": kind.means, "works": kind.works, "missing": kind.missing, "note": kind.note}
            | {"measured": [row.as_dict() for row in kind.measured]}
            for kind in self.kinds
        ]
        return {"machine": asdict(self.machine), "best": self.best, "kinds": kinds, "extras": self.extras}


def examine(
    seconds: float = SECONDS, progress: Callable[[int, int, str], None] = lambda done, total, doing: None
) -> Examination:
    """Look, and measure every kind that works.

    Parameters
    ----------
    seconds
        How long each share is held.
    progress
        Called with how many shares are measured, of how many, and what is measured next.
    """
    found = available()
    total = len(SHARES) * sum(one.works and one.kind != "none" for one in found)
    done = 0
    kinds = []
    for one in found:
        missing, rows = one.missing, []
        if one.works and one.kind != "none":
            try:
                with limiter(one.kind) as cpu:
                    for share in SHARES:
                        progress(done, total, f"{one.kind} {share:g}")
                        rows.append(measure(cpu, share, seconds))
                        done += 1
            except (InputError, Failure) as error:
                missing = f"it should work but did not: {error}"
        kinds.append(LimiterKind(one.kind, one.means, missing, tuple(rows)))
    return Examination(machine(), tuple(kinds), extras())


def machine() -> Host:
    """What /proc and the groups say."""
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Host(cores, usable, own_quota(), processor(), memory, groups_here(), os.getloadavg()[0])


def processor() -> str:
    """The model of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.lower().startswith(("model name", "hardware")))
    return next(named, platform.processor() or platform.machine())


def groups_here() -> str:
    """Which cgroups are mounted, in words."""
    one, two = cgroup1.folder("cpu"), groups.own()
    said = []
    if two is not None:
        has = "with" if "cpu" in groups.words(two[1], "cgroup.controllers") else "without"
        said.append(f"v2 {has} the cpu controller ({two[1]})")
    if one is not None:
        said.append(f"v1 ({one})")
    return ", ".join(said) or "none"


def own_quota(root: str = "/") -> float | None:
    """The least quota, in cores, of this process's group and those above it that can be seen."""
    found: list[float] = []
    places = groups.own(root=root)
    if places is not None:
        for group in above(places[1], places[0]):
            words = groups.words(group, "cpu.max")
            if len(words) == 2 and words[0] != "max":
                found.append(int(words[0]) / int(words[1]))
    mine = cgroup1.folder("cpu", root)
    for group in above(mine, "/") if mine else ():
        quota, period = groups.words(group, "cpu.cfs_quota_us"), groups.words(group, "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            found.append(int(quota[0]) / int(period[0]))
    return min(found, default=None)


def above(group: str, top: str) -> list[str]:
    """The group and every folder above it, up to `top`."""
    found = [group]
    while found[-1] != top and os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found


def extras() -> dict[str, str | None]:
    """Versions as installed, without importing anything; and whether a PostgreSQL is on the path."""
    found: dict[str, str | None] = {}
    for name, package in EXTRAS.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[name] = None
    found["PostgreSQL (psql)"] = shutil.which("psql")
    return found


@contextlib.contextmanager
def busy_tree() -> Iterator[tuple[int, int]]:
    """A process with two busy threads and a busy child: (its pid, the child's)."""
    process = start_python(THREE, subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.strip():
            raise Failure("the process to be measured did not start")
        yield process.pid, int(line)
    finally:
        end(process)


def start_python(code: str, out: int) -> subprocess.Popen[bytes]:
    """Python that runs this code, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdout=out, start_new_session=True, close_fds=True
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started."""
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
