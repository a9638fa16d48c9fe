"""cgroup v2 and systemd on a copy of their files that keeps the kernel's rules: there is no such kernel to try here."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from equipoise.engine import doctor
from equipoise.engine.cpu_limit import cgroup1, cgroup2, groups, scope
from refusals import refused

FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.freeze", "cgroup.type")
CPU = ("cpu.max", "cpu.weight", "cpu.stat")


class Kernel:
    """Folders with the rules of cgroup v2: a group that hands cpu down has no processes, its children have cpu.max."""

    def __init__(self, root, own, controllers="cpu memory"):
        self.root, self.mount = root, root / "sys/fs/cgroup"
        self.mount.mkdir(parents=True)
        for name, text in (("procs", ""), ("subtree_control", "cpu memory"), ("controllers", controllers)):
            (self.mount / f"cgroup.{name}").write_text(text)
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text("30 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n")
        (root / "proc/self/cgroup").write_text(f"0::{own}\n")
        self.real_put = groups.put
        place = self.mount
        for part in Path(own).parts[1:]:
            place = place / part
            self.make(str(place))
        self.own = place

    def make(self, group):
        os.mkdir(group)
        above = Path(group).parent
        handed = groups.words(str(above), "cgroup.subtree_control")
        for name in (*FILES, *(CPU if "cpu" in handed else ())):
            Path(group, name).write_text("")
        Path(group, "cgroup.controllers").write_text(" ".join(handed))

    def discard(self, group):
        if groups.members(group):
            raise OSError(errno.EBUSY, "busy")
        for file in Path(group).iterdir():
            if file.is_dir():
                raise OSError(errno.ENOTEMPTY, "not empty")
            file.unlink()
        os.rmdir(group)

    def put(self, group, name, value):
        inner = Path(group, "cgroup.type").exists()
        if name == "cgroup.procs":
            if inner and groups.words(group, "cgroup.subtree_control"):
                raise OSError(errno.EBUSY, "hands controllers down")
            for file in self.mount.rglob("cgroup.procs"):
                file.write_text("".join(f"{pid}\n" for pid in file.read_text().split() if pid != value))
            with Path(group, name).open("a") as file:
                file.write(f"{value}\n")
        elif name == "cgroup.subtree_control":
            if inner and value == "+cpu" and groups.members(group):
                raise OSError(errno.EBUSY, "has processes")
            Path(group, name).write_text("cpu" if value == "+cpu" else "")
            for child in filter(Path.is_dir, Path(group).iterdir()):
                for file in CPU:
                    (child / file).write_text("") if value == "+cpu" else (child / file).unlink(missing_ok=True)
        else:
            self.real_put(group, name, value)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    def start(own, **options):
        made = Kernel(tmp_path, own, **options)
        for name in ("make", "discard", "put"):
            monkeypatch.setattr(groups, name, getattr(made, name))
        return made

    return start


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_a_delegated_group_makes_room_holds_and_is_as_before(kernel, sleeper):
    """The owner stands in its own delegated group: all move aside, cpu.max is set; afterwards all is as it was."""
    fake = kernel("/user.slice/mine.scope")
    fake.put(str(fake.mount / "user.slice"), "cgroup.subtree_control", "+cpu")
    (fake.own / "cgroup.controllers").write_text("cpu")
    for pid in (os.getpid(), sleeper.pid):
        fake.put(str(fake.own), "cgroup.procs", str(pid))
    with cgroup2.Cgroup2Limiter(str(fake.root)) as cpu:
        assert cpu.base == str(fake.own)
        assert groups.members(cpu.base) == []
        held = cpu.hold(sleeper.pid, 0.3)
        group = Path(held.group)
        assert groups.members(held.group) == [sleeper.pid]
        assert (group / "cpu.max").read_text() == "6000 20000"
        held.set(0.01)
        quota, period = map(int, (group / "cpu.max").read_text().split())
        assert quota >= 1000 and quota / period == pytest.approx(0.01)
        held.set(0.0)
        assert (group / "cgroup.freeze").read_text() == "1"
        held.set(0.5)
        assert (group / "cgroup.freeze").read_text() == "0"
        (group / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1400000\n")
        assert held.usage().cpu_seconds == 1.5
        held.release()
        assert not group.exists()
        assert sleeper.pid in groups.members(cpu.home)
    assert sorted(groups.members(str(fake.own))) == sorted([os.getpid(), sleeper.pid])
    assert [place.name for place in fake.own.iterdir() if place.is_dir()] == []
    assert groups.words(str(fake.own), "cgroup.subtree_control") == []


def test_root_takes_the_nearest_group_above_that_hands_down(kernel, sleeper):
    """Own group without the controller, the root with it: groups are made there; the process comes back to the owner's."""
    fake = kernel("/session.scope")
    (fake.own / "cgroup.controllers").write_text("memory")
    fake.put(str(fake.own), "cgroup.procs", str(sleeper.pid))
    with cgroup2.Cgroup2Limiter(str(fake.root)) as cpu:
        held = cpu.hold(sleeper.pid, 1.0)
        assert Path(held.group).parent == fake.mount
        assert Path(held.group, "cpu.weight").read_text() == "1600"
    assert groups.members(str(fake.own)) == [sleeper.pid]
    assert not list(fake.mount.glob("equipoise-*"))


def test_stale_groups_of_the_dead_go_first(kernel, sleeper):
    """A group named after a process that is gone is removed by the next limiter, and its process set free."""
    fake = kernel("/mine")
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = fake.mount / f"equipoise-{dead.pid}-1-a-1"
    fake.make(str(left))
    fake.put(str(left), "cgroup.procs", str(sleeper.pid))
    (fake.own / "cgroup.controllers").write_text("")
    with cgroup2.Cgroup2Limiter(str(fake.root)):
        assert not left.exists()
        assert groups.members(str(fake.own)) == [sleeper.pid]


def test_what_is_missing_is_said(kernel, tmp_path, monkeypatch):
    """No mount, no controller, no right: each by name."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert cgroup2.missing(str(empty)) == "cgroup v2 is not mounted here"
    assert cgroup1.missing(str(empty)) == "no cpu controller of cgroup v1 is mounted"
    assert scope.missing(str(empty)) == "systemd is not running here"
    fake = kernel("/mine", controllers="memory")
    (fake.own / "cgroup.controllers").write_text("")
    assert cgroup2.missing(str(tmp_path)) == f"the cpu controller is not delegated to {fake.own}"
    with refused("limiter.missing", "'cgroup2'"):
        cgroup2.Cgroup2Limiter(str(tmp_path))
    (fake.own / "cgroup.controllers").write_text("cpu")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"no right to make groups in {fake.own}" in cgroup2.missing(str(tmp_path))


def test_systemd_says_what_a_user_lacks(kernel, tmp_path, monkeypatch):
    """Not running, no busctl, no bus of one's own, no cpu controller: in this order."""
    fake = kernel("/mine")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setattr(scope.shutil, "which", lambda name: None)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert "busctl" in scope.missing(str(tmp_path))
    monkeypatch.setattr(scope.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert "no systemd of its own" in scope.missing(str(tmp_path))
    (tmp_path / "run/user/1000").mkdir(parents=True)
    (tmp_path / "run/user/1000/bus").write_text("")
    assert "not delegated to" in scope.missing(str(tmp_path))
    service = fake.mount / "user.slice/user-1000.slice/user@1000.service"
    service.mkdir(parents=True)
    (service / "cgroup.controllers").write_text("cpu memory pids")
    assert scope.missing(str(tmp_path)) == ""


def test_a_scope_is_asked_for_and_the_quota_set_inside(kernel, sleeper, monkeypatch):
    """systemd (here: a stand-in that moves the process) is asked once for a delegated scope; the quota is ours, inside."""
    fake = kernel("/mine")
    asked = []

    def run(command, **_):
        asked.append(command)
        name = next(word for word in command if word.endswith(".scope"))
        fake.make(str(fake.mount / name))
        (fake.mount / name / "cgroup.controllers").write_text("cpu")
        fake.put(str(fake.mount / name), "cgroup.procs", str(sleeper.pid))
        (fake.root / f"proc/{sleeper.pid}").mkdir()
        (fake.root / f"proc/{sleeper.pid}/cgroup").write_text(f"0::/{name}\n")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(scope.subprocess, "run", run)
    with scope.ScopeLimiter(str(fake.root)) as cpu:
        held = cpu.hold(sleeper.pid, 0.25)
        group = Path(held.group)
        assert groups.members(held.group) == [sleeper.pid]
        assert (group / "cpu.max").read_text() == "5000 20000"
        assert group.parent.name.endswith(".scope")
    (command,) = asked
    text = " ".join(command)
    assert "StartTransientUnit ssa(sv)a(sa(sv))" in text
    assert f"fail 3 PIDs au 1 {sleeper.pid} Delegate b true" in text
    assert not group.exists()
    assert groups.members(str(group.parent)) == [sleeper.pid]


def test_a_refusal_of_systemd_is_one_line(monkeypatch):
    """Its own words, and the way out."""
    told = subprocess.CompletedProcess([], 1, "", "Call failed: Access denied\n")
    monkeypatch.setattr(scope.subprocess, "run", lambda *_, **__: told)
    with refused("limiter.refused", "Access denied"):
        scope.start("equipoise-1-1-1.scope", [1])


def test_the_quota_of_a_container_is_seen(kernel):
    """cpu.max of one's own group and of those above: the least counts. By hand: 1.5 and 0.5 cores."""
    fake = kernel("/pod/box")
    assert doctor.own_quota(str(fake.root)) is None
    (fake.mount / "pod/cpu.max").write_text("150000 100000")
    (fake.own / "cpu.max").write_text("max 100000")
    assert doctor.own_quota(str(fake.root)) == 1.5
    (fake.own / "cpu.max").write_text("50000 100000")
    assert doctor.own_quota(str(fake.root)) == 0.5


def test_the_own_group_of_cgroup_v1_is_found(tmp_path):
    """By mountinfo and /proc/self/cgroup, also where cpu and cpuacct are one mount, or a container shows its own root."""
    (tmp_path / "proc/self").mkdir(parents=True)
    mount = "33 20 0:29 {top} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    (tmp_path / "proc/self/mountinfo").write_text(mount.format(top="/"))
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,cpuacct:/user.slice/me\n")
    assert cgroup1.folder("cpuacct", str(tmp_path)) == f"{tmp_path}/sys/fs/cgroup/cpu,cpuacct/user.slice/me"
    (tmp_path / "proc/self/mountinfo").write_text(mount.format(top="/docker/abc"))
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,cpuacct:/docker/abc\n")
    assert cgroup1.folder("cpu", str(tmp_path)) == f"{tmp_path}/sys/fs/cgroup/cpu,cpuacct"
    assert cgroup1.folder("memory", str(tmp_path)) is None
