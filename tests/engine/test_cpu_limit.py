"""Holding a process to its CPU: what every kind promises, and the law of the token bucket."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from equipoise.engine.cpu_limit import KINDS, available, guardian, limiter
from equipoise.engine.cpu_limit.groups import quota, weight
from equipoise.engine.cpu_limit.process_tree import Process, cpu_seconds, facts, tree
from equipoise.engine.doctor import busy_tree
from refusals import refused

HERE = [one.kind for one in available() if one.works]
HOLDING = [kind for kind in HERE if kind != "none"]


@contextlib.contextmanager
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def grows(pid):
    """Whether a process takes CPU now."""
    before = cpu_seconds(pid) or 0.0
    time.sleep(0.1)
    return (cpu_seconds(pid) or 0.0) > before


def soon(true, seconds=10.0):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


@pytest.mark.parametrize("kind", HOLDING)
def test_two_threads_and_a_child_stay_under_the_ceiling(kind):
    """Three busy things held to 0.2 of a core together; their clocks are read from outside. Unheld they take all."""
    with limiter(kind) as cpu, busy_tree() as pids:
        held = cpu.hold(pids[0], 0.2)
        began, before = time.monotonic(), sum(map(cpu_seconds, pids))
        time.sleep(1.5)
        used, wall = sum(map(cpu_seconds, pids)) - before, time.monotonic() - began
        assert used <= 0.2 * wall + 0.1
        told = held.usage()
        assert told.cpu_seconds == pytest.approx(used, abs=0.1)
        assert told.shortfall == max(0.0, told.asked_cpu_seconds - told.cpu_seconds)


@pytest.mark.parametrize("kind", HERE)
def test_asked_is_the_share_over_time(kind):
    """Half a second at 0.5 and half at 0.1 is 0.3 CPU seconds, whatever the process did."""
    with limiter(kind) as cpu, sleeper() as process:
        held = cpu.hold(process.pid, 0.5)
        time.sleep(0.2)
        middle = held.usage()
        assert middle.asked_cpu_seconds == pytest.approx(0.5 * middle.wall_seconds)
        held.set(0.1)
        before = held.usage()
        time.sleep(0.2)
        after = held.usage()
        asked, wall = (after.asked_cpu_seconds - before.asked_cpu_seconds), after.wall_seconds - before.wall_seconds
        assert asked == pytest.approx(0.1 * wall)


@pytest.mark.parametrize("kind", HOLDING)
def test_a_child_born_later_is_held_too(kind):
    """The tree was asleep when it was held; the child it starts afterwards is under the same ceiling."""
    code = "import subprocess, sys; sys.stdin.readline(); subprocess.run([sys.executable, '-S', '-c', 'while 1: pass'])"
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    try:
        with limiter(kind) as cpu:
            held = cpu.hold(process.pid, 0.1)
            process.stdin.write(b"go\n")
            process.stdin.flush()
            assert soon(lambda: len(tree(process.pid)) > 1)
            child = tree(process.pid)[1]
            time.sleep(1.5)
            assert (cpu_seconds(child) or 0.0) <= 0.1 * held.usage().wall_seconds + 0.1
            held.set(0.0)
            assert soon(lambda: not grows(child))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()


@pytest.mark.parametrize("kind", HOLDING)
def test_a_pause_stops_and_a_share_continues(kind):
    """0 is a pause: next to no CPU is used; a share above 0 ends it."""
    with limiter(kind) as cpu, busy_tree() as pids:
        held = cpu.hold(pids[0], 1.0)
        held.set(0.0)
        assert soon(lambda: not any(map(grows, pids)))
        before, paused = sum(map(cpu_seconds, pids)), 0.0
        held.set(1.0)
        assert soon(lambda: sum(map(cpu_seconds, pids)) > before + paused + 0.05)


@pytest.mark.parametrize("kind", HERE)
def test_the_dead_are_no_error(kind):
    """After the process died: set, usage, release and release again."""
    with limiter(kind) as cpu, sleeper() as process:
        held = cpu.hold(process.pid, 0.3)
        process.kill()
        process.wait()
        held.set(0.2)
        assert held.usage().cpu_seconds >= 0.0
        held.release()
        held.release()
        assert held.usage() == held.usage()


@pytest.mark.parametrize("kind", HOLDING)
def test_released_is_running_and_free(kind):
    """A paused process that is released runs on; nothing of the limiter's is left."""
    with limiter(kind) as cpu, busy_tree() as pids:
        cpu.hold(pids[0], 0.05).set(0.0)
        time.sleep(0.1)
    with limiter(kind) as cpu, busy_tree() as pids:
        held = cpu.hold(pids[0], 0.05)
        held.set(0.0)
        time.sleep(0.1)
        held.release()
        assert all(facts(pid).state != "T" for pid in pids)
        assert "equipoise" not in Path(f"/proc/{pids[0]}/cgroup").read_text()


@pytest.mark.parametrize("kind", HERE)
def test_set_from_many_threads(kind):
    """Eight threads set at once; the last word is one of theirs, and nothing breaks."""
    with limiter(kind) as cpu, sleeper() as process:
        held = cpu.hold(process.pid, 0.3)
        threads = [threading.Thread(target=lambda k=k: [held.set(0.1 + 0.01 * k) for _ in range(30)]) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert held.share in [0.1 + 0.01 * k for k in range(8)]
        assert held.usage().asked_cpu_seconds <= 0.3 * held.usage().wall_seconds


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan"), float("inf"), 1e6, "much", True, None])
def test_a_share_outside_the_machine_is_refused(share):
    """By name, with the range and the way out."""
    with limiter("none") as cpu, sleeper() as process, refused("share.range"):
        cpu.hold(process.pid, share)


def test_processes_that_are_never_held():
    """Oneself, those above, process 1, the dead, what is no pid, and one that is held already."""
    with limiter("none") as cpu, sleeper() as process:
        for pid, code in (
            (os.getpid(), "process.never"),
            (1, "process.never"),
            (2**22 + 1, "process.gone"),
            (-5, "process.id"),
            ("7", "process.id"),
            (True, "process.id"),
        ):
            with refused(code):
                cpu.hold(pid, 0.1)
        if os.getppid() > 1:
            with refused("process.never"):
                cpu.hold(os.getppid(), 0.1)
        cpu.hold(process.pid, 0.1)
        with refused("process.held", 0.1):
            cpu.hold(process.pid, 0.2)
        zombie = subprocess.Popen(["true"])
        assert soon(lambda: facts(zombie.pid).state == "Z")
        with refused("process.gone"):
            cpu.hold(zombie.pid, 0.1)
        zombie.wait()
    with refused("limiter.closed"):
        cpu.hold(process.pid, 0.1)


def test_a_kind_that_is_not_there_is_refused_with_the_reason():
    """An unknown name with the nearest; a kind that does not work here with what it lacks."""
    with refused("unknown", "'cgroup1'"):
        limiter("cgrup1")
    for one in available():
        if not one.works:
            with refused("limiter.missing", one.missing):
                limiter(one.kind)
    with limiter() as cpu:
        assert cpu.name == HERE[0]
        assert all(kind in cpu.says for kind in list(KINDS)[: list(KINDS).index(cpu.name) + 1])


@pytest.mark.parametrize("kind", HOLDING)
def test_two_limiters_of_one_owner_do_not_touch_each_other(kind):
    """One is closed: what the other holds is held still."""
    with sleeper() as one, sleeper() as other, limiter(kind) as outer:
        held = outer.hold(one.pid, 0.3)
        with limiter(kind) as inner:
            inner.hold(other.pid, 0.3)
        place = Path(f"/proc/{one.pid}/cgroup").read_text()
        assert kind == "stop" or "equipoise-" in place
        held.set(0.0)
        held.set(0.2)
        assert held.usage().wall_seconds > 0


def test_a_fork_of_the_owner_releases_nothing():
    """A child that leaves the context by fork must not let the owner's processes go."""
    with limiter() as cpu, sleeper() as process:
        held = cpu.hold(process.pid, 0.3)
        fork = os.fork()
        if fork == 0:
            held.release()
            cpu.close()
            os._exit(0)
        os.waitpid(fork, 0)
        before = held.usage()
        assert not held.released and held.usage().wall_seconds > before.wall_seconds


def test_a_pid_that_is_used_again_is_not_signalled():
    """The same pid with another start time is another process: no handle, no signal."""
    with sleeper() as process:
        now = facts(process.pid)
        other = Process(process.pid, now.start + 1)
        assert not other.signal(signal.SIGSTOP)
        assert facts(process.pid).state != "T"
        right = Process(process.pid, now.start)
        assert right.signal(signal.SIGSTOP)
        assert soon(lambda: facts(process.pid).state == "T")
        right.signal(signal.SIGCONT)
        right.close()


@given(st.floats(0.001, 64.0))
def test_a_quota_is_the_share_and_the_kernel_takes_it(share):
    """At least 1 ms, a period of at most 1 s, and their ratio the share."""
    quota_us, period_us = quota(share)
    assert quota_us >= 1000 and 1000 <= period_us <= 1_000_000
    assert quota_us / period_us == pytest.approx(share, rel=0.01)
    assert 2 <= weight(share, 1024, 262144) <= 262144


class Silent:
    """A process that only notes whether it was stopped."""

    pid, start, running = 1, 1, True

    def signal(self, number):
        self.running = number == signal.SIGCONT


def played(share, demand, seconds, ask=False):
    """CPU seconds at the end of every bucket step for a tree that would use `demand(time)` cores when it runs."""
    now, used, process = 0.0, 0.0, Silent()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guardian, "cpu_seconds", lambda pid: used)
        patch.setattr(guardian.time, "monotonic", lambda: now)
        bucket = guardian.Bucket(1, 1, share)
        bucket.members, bucket.clock, bucket.children = {1: process}, {1: 0.0}, {1: 0.0}
        spent = [(0.0, 0.0)]
        while now < seconds:
            bucket.step(now)
            wait = max(bucket.due - now, 1e-3)
            used += demand(now) * wait if process.running else 0.0
            now += wait
            if ask:
                bucket.count()
            spent.append((now, used))
    return spent


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 2.0), st.lists(st.floats(0.0, 4.0), min_size=20, max_size=20))
def test_the_bucket_never_gives_more_than_the_share_and_its_cap(share, demands):
    """In every window of a run, whatever the demand: at most share x window + cap + what one step of 10 ms can overrun."""
    spent = played(share, lambda now: demands[int(now * 10) % 20], 2.0)
    slack = share * guardian.CAP_SECONDS + 2 * 4.0 * guardian.STEP_SECONDS + 1e-9
    for k, (start, before) in enumerate(spent[::7]):
        for end, after in spent[7 * k :: 11]:
            assert after - before <= share * (end - start) + slack


def test_asking_for_the_usage_costs_nobody_anything():
    """Counted between two steps, the CPU is still taken out of the bucket: the same run, asked or not."""
    assert played(0.3, lambda now: 2.0, 2.0, ask=True) == played(0.3, lambda now: 2.0, 2.0)


def test_a_shortfall_is_not_repaid_in_a_burst():
    """Starved for 5 s, then free: in the next second it gets one second's worth and the cap, not six."""
    spent = played(0.5, lambda now: 0.0 if now < 5.0 else 2.0, 6.0)
    assert spent[-1][1] <= 0.5 * 1.0 + 0.5 * guardian.CAP_SECONDS + 2 * 2.0 * guardian.STEP_SECONDS
    assert spent[-1][1] >= 0.45


@pytest.mark.skipif("cgroup1" not in HERE, reason="no cgroup v1 to write to here")
def test_a_quota_and_a_weight_follow_every_set():
    """Read from the kernel's own files: what is asked is what is written, and more shares weigh more."""
    with limiter("cgroup1") as cpu, sleeper() as process:
        held = cpu.hold(process.pid, 0.3)
        weights = []
        for share in (0.3, 0.5, 1.5):
            held.set(share)
            group = Path(held.group)
            written = [int((group / name).read_text()) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
            assert written[0] / written[1] == pytest.approx(share, rel=0.01)
            weights.append(int((group / "cpu.shares").read_text()))
        assert weights == sorted(set(weights))
