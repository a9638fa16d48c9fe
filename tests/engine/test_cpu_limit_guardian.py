"""Whoever is killed, nothing stays stopped and no group is left; and the guardian keeps out of its owner's way."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from equipoise.engine.cpu_limit import available, cgroup1, groups, limiter
from equipoise.engine.cpu_limit.process_tree import alive, facts
from equipoise.engine.doctor import busy_tree

ROOT = Path(__file__).parents[2]
HOLDING = [one.kind for one in available() if one.works and one.kind != "none"]
OWNER = """
import subprocess, sys, time
from equipoise.engine.cpu_limit import limiter
cpu = limiter(sys.argv[1])
process = subprocess.Popen([sys.executable, "-S", "-c", "while 1: pass"], start_new_session=True)
held = cpu.hold(process.pid, 0.05)
held.set(0.0)
print(process.pid, cpu.guard.pid, flush=True)
time.sleep(1000)
"""


def soon(true, seconds=20.0):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def bases():
    return [base for base in {cgroup1.folder("cpu"), cgroup1.folder("cpuacct")} if base is not None]


def stopped(pid):
    now = facts(pid)
    return now is not None and now.state == "T"


@pytest.mark.parametrize("kind", HOLDING)
@pytest.mark.parametrize("order", ["owner", "guardian, owner"])
def test_a_killed_owner_leaves_nothing_behind(kind, order):
    """The owner is killed while its process is paused, alone or after its guardian: it runs, no group is left."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, kind], stdout=subprocess.PIPE, text=True)
    pid, guardian = map(int, owner.stdout.readline().split())
    prefix = groups.prefix(owner.pid)
    try:
        assert soon(lambda: stopped(pid))
        if "guardian" in order:
            os.kill(guardian, signal.SIGKILL)
        owner.kill()
        owner.wait()
        assert soon(lambda: not stopped(pid))
        assert soon(lambda: not any(groups.made_by(base, prefix) for base in bases()))
        time.sleep(0.2)
        assert not stopped(pid) and facts(pid) is not None
    finally:
        owner.stdout.close()
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", HOLDING)
def test_a_killed_guardian_is_replaced_and_the_limit_stays(kind):
    """A new guardian takes over: the paused process is paused again, and runs after its release."""
    with limiter(kind) as cpu, busy_tree() as pids:
        held = cpu.hold(pids[0], 0.05)
        first = cpu.guard.pid
        held.set(0.0)
        os.kill(first, signal.SIGKILL)
        assert soon(lambda: cpu.guard.pid != first and facts(cpu.guard.pid) is not None)
        if kind in ("stop", "cgroup1"):
            assert soon(lambda: stopped(pids[0]) and stopped(pids[1]))
        assert held.usage().wall_seconds > 0
        held.release()
        assert not any(stopped(pid) for pid in pids)


@pytest.mark.skipif("stop" not in HOLDING, reason="no /proc here")
def test_a_killed_shadow_does_no_harm():
    """The guardian's shadow is killed: the limit stays, and leaving continues the process."""
    with limiter("stop") as cpu, busy_tree() as pids:
        held = cpu.hold(pids[0], 0.05)
        assert cpu.guard.ask("ping") == "here"
        (shadow,) = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_child(pid, cpu.guard.pid)]
        os.kill(shadow, signal.SIGKILL)
        held.set(0.0)
        assert soon(lambda: stopped(pids[0]))
        held.release()
        assert not any(stopped(pid) for pid in pids)


def is_child(pid, parent):
    now = facts(pid)
    return now is not None and now.parent == parent


def test_the_guardian_has_no_file_of_its_owner_and_outlives_ctrl_c():
    """A session of its own; a socket that its owner would hand down is not there; SIGINT does nothing."""
    with socket.socket() as mine, limiter(HOLDING[0]) as cpu:
        mine.set_inheritable(True)
        with limiter(HOLDING[0]) as other:
            assert other.guard.ask("ping") == "here"
            links = {
                os.readlink(f"/proc/{other.guard.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{other.guard.pid}/fd")
            }
            assert not any(link.startswith("socket:") for link in links)
            assert len(links) <= 6
            assert os.getsid(other.guard.pid) == other.guard.pid
            os.kill(other.guard.pid, signal.SIGINT)
            assert other.guard.ask("ping") == "here"
            assert other.guard.started == 1
            last, start = other.guard.pid, facts(other.guard.pid).start
        assert not alive(last, start)
        assert cpu.guard.ask("ping") == "here"


def test_the_guardian_loads_nothing_heavy():
    """It starts in milliseconds because it imports neither numpy nor the rest of the package."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import equipoise.engine.cpu_limit.guardian; print(*sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT / "src")], capture_output=True, text=True, check=True
    )
    loaded = set(told.stdout.split())
    assert not loaded & {"numpy", "psutil", "subprocess", "pathlib", "dataclasses"}
    assert {name for name in loaded if name.startswith("equipoise.")} == {
        "equipoise._lazy",
        "equipoise._moved",
        "equipoise.engine",
        "equipoise.engine.cpu_limit",
        "equipoise.engine.cpu_limit.guardian",
        "equipoise.engine.cpu_limit.groups",
        "equipoise.engine.cpu_limit.process_tree",
    }


@pytest.mark.skipif("cgroup1" not in HOLDING, reason="no right to make groups of cgroup v1")
def test_groups_of_the_dead_are_swept_and_those_of_the_living_stay():
    """An owner and its guardian killed together leave a group; the next limiter of anyone removes it, and only it."""
    base = cgroup1.folder("cpu")
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, kept = f"{base}/equipoise-{dead.pid}-1-t-1", f"{base}/{groups.prefix(os.getpid())}t-1"
    os.mkdir(left)
    os.mkdir(kept)
    try:
        with limiter("cgroup1"):
            assert not os.path.exists(left)
            assert os.path.exists(kept)
    finally:
        groups.remove(left)
        groups.remove(kept)


def as_nobody(code, *words):
    """Run it as an unprivileged user, with a Python that this user can reach: only the standard library is needed."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            told = subprocess.run(
                [python, "-c", code, *words],
                user=65534,
                group=65534,
                extra_groups=[],
                cwd="/",
                text=True,
                capture_output=True,
                check=False,
                env={"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]},
            )
        except OSError:
            continue
        if told.returncode == 0:
            return told
    pytest.skip("an unprivileged user can reach no Python here that knows the package")
    return None


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_without_rights_stopping_is_picked_and_says_why():
    """As nobody: no group may be made, so signals are used, on its own processes only."""
    code = """
import subprocess, sys
from equipoise.engine.cpu_limit import limiter
from equipoise.errors import InputError
with limiter() as cpu:
    print(cpu.name, "|", cpu.says)
    own = subprocess.Popen(["sleep", "1000"])
    cpu.hold(own.pid, 0.1).release()
    own.kill()
    try:
        cpu.hold(int(sys.argv[1]), 0.1)
    except InputError as error:
        print(error)
try:
    limiter("cgroup1")
except InputError as error:
    print(error)
"""
    other = subprocess.Popen(["sleep", "1000"])
    try:
        told = as_nobody(code, str(other.pid))
    finally:
        other.kill()
        other.wait()
    picked, refused, kind = told.stdout.splitlines()
    assert picked.startswith("stop | stop: ")
    assert "no right to make a group" in picked or "cgroup1 (" in picked
    assert "belongs to another user" in refused
    assert kind.startswith("limiter cgroup1 cannot be used here: ")


@pytest.mark.parametrize("kind", HOLDING)
def test_random_changes_and_kills(kind):
    """The short form of benchmarks/engine/limits.py --kills 200."""
    command = [
        sys.executable,
        str(ROOT / "benchmarks/engine/limits.py"),
        "--kills",
        "20",
        "--kind",
        kind,
        "--seed",
        "3",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    print(told.stdout)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "left behind: nothing" in told.stdout
