"""Control groups as folders: made under a name that says who made them, and removed by whoever finds the maker dead.

Standard library only, and the same for cgroup v1 and v2. Names: equipoise-<pid>-<start time>-<number>.
"""

import contextlib
import os
import re
import time

from equipoise.engine.cpu_limit.process_tree import alive, facts

NAME = re.compile(r"equipoise-(\d+)-(\d+)-.*")
# A throttled process leaves slowly.
UNLIMITED = (("cpu.cfs_quota_us", "-1"), ("cpu.max", "max"), ("cgroup.freeze", "0"))
REMOVE_SECONDS = 10.0  # a group stays busy for a moment after its last process died
PERIOD = 0.02  # seconds; 10 to 100 ms are equally exact (benchmarks/engine/limits.py --periods), this pauses shortly
WEIGHT = 16  # ordinary processes that a share of one core weighs as much as
LONGEST = 1.0  # seconds; the kernel's longest period
LEAST_QUOTA = 0.001  # seconds; the kernel's least quota


def own(controller: str = "", root: str = "/") -> tuple[str, str] | None:
    """Where a controller of cgroup v1, or without one cgroup v2, is mounted, and this process's own group in it."""
    try:
        with (
            open(os.path.join(root, "proc/self/mountinfo")) as mounted,
            open(os.path.join(root, "proc/self/cgroup")) as joined,
        ):
            mounts, lines = mounted.read().splitlines(), joined.read().splitlines()
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


def prefix(pid: int) -> str:
    """The beginning of all names that this process gives."""
    now = facts(pid)
    return f"equipoise-{pid}-{now.start if now else 0}-"


def words(group: str, name: str) -> list[str]:
    """The words in one file of a group; none when it cannot be read."""
    try:
        with open(os.path.join(group, name)) as file:
            return file.read().split()
    except OSError:
        return []


def members(group: str) -> list[int]:
    """The processes in a group; none when it is gone."""
    return [int(word) for word in words(group, "cgroup.procs") if word != "0"]


def put(group: str, name: str, value: str) -> None:
    """Write one value to one file of a group: unbuffered, so that the kernel's answer comes back as OSError."""
    handle = os.open(os.path.join(group, name), os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)


def move(pid: int, group: str) -> bool:
    """Put a process with all its threads into a group; False when it has ended."""
    try:
        put(group, "cgroup.procs", str(pid))
    except ProcessLookupError:
        return False
    return True


def make(group: str) -> None:
    """A new, empty group: the kernel fills in its files."""
    os.mkdir(group)


def discard(group: str) -> None:
    """Remove an empty group: its files go by themselves."""
    os.rmdir(group)


def remove(group: str, home: str = "") -> bool:
    """Hand the group's processes to the group `home`, or to the one above, and remove it; True when it is gone."""
    above = os.path.dirname(group)
    until = time.monotonic() + REMOVE_SECONDS
    for name, value in UNLIMITED:
        with contextlib.suppress(OSError):
            put(group, name, value)
    while os.path.isdir(group):
        for pid in members(group):
            if not (home and home != group and moved(pid, home)) and not moved(pid, above):
                free(above)
        try:
            discard(group)
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
    return True


def moved(pid: int, group: str) -> bool:
    """Try to move; a process that ended counts as moved."""
    try:
        move(pid, group)
    except OSError:
        return False
    return True


def free(group: str) -> None:
    """In cgroup v2 a group that controls others holds no processes itself: stop controlling when one of ours is left."""
    if len(made_by(group, "equipoise-")) <= 1:
        with contextlib.suppress(OSError):
            put(group, "cgroup.subtree_control", "-cpu")


def made_by(base: str, start: str) -> list[str]:
    """The groups in `base` whose name begins so."""
    try:
        return [os.path.join(base, name) for name in os.listdir(base) if name.startswith(start)]
    except OSError:
        return []


def sweep(base: str, home: str = "") -> None:
    """Remove what earlier owners left whose guardians were killed as well."""
    for group in stale(base):
        remove(group, home)


def stale(base: str) -> list[str]:
    """The groups in `base` whose maker is dead: its pid is free, or belongs to a process that started at another time."""
    found = []
    for group in made_by(base, "equipoise-"):
        name = NAME.fullmatch(os.path.basename(group))
        if name and not alive(int(name[1]), int(name[2])):
            found.append(group)
    return found
