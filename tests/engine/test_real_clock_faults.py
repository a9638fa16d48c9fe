"""Functions of a user's that raise, hang, yield nonsense or end early: their task fails by name, the rest goes on."""

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

from equipoise.engine.real_clock import RealScene, certify, compare
from equipoise.errors import Failure
from equipoise.share import policies
from equipoise.share.task import DONE
from refusals import refused

SCENE = RealScene(
    cpus=0.8, step=0.15, arrival=(0.0, 1.0), deadline=(24.0, 24.0), work=(5.0, 30.0), trial=0.02, patience=0.1
)
WORK = """
import math, subprocess, sys, time

def spin(seconds=0.001):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def learns(seed):
    for k in range(1, 100000):
        spin()
        yield 1.0 / k

def raises(seed):
    yield from (error for error, _ in zip(learns(seed), range(3)))
    raise KeyError("no such column: price")

def hangs(seed):
    yield from (error for error, _ in zip(learns(seed), range(3)))
    time.sleep(1000)

def spins(seed):
    yield from (error for error, _ in zip(learns(seed), range(3)))
    spin(1000)

def nonsense(seed):
    yield from (error for error, _ in zip(learns(seed), range(3)))
    yield math.nan

def words(seed):
    yield "almost done"

def ends(seed):
    yield from (error for error, _ in zip(learns(seed), range(30)))

def returns(seed):
    return 0.5

def parents(seed):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)  # orphan of a task"])
    yield from learns(seed)
"""
DRIVER = """
import sys
from equipoise.engine.real_clock import RealScene, compare
from equipoise.share import Site, policies
site = Site(delay=0.0, jitter=0.0)
scene = RealScene(cpus=0.8, step=0.2, site=site, arrival=(0.0, 0.0), deadline=(99.0, 99.0), data=(0.0, 0.0),
                  work=(400.0, 400.0), trial=0.02)
compare([policies.DescribedUniform()], scene, kinds=[sys.argv[1]], tasks=4, limit=sys.argv[2],
        progress=lambda doing, done, total: print(doing, done, flush=True))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("work") / "my.py"
    path.write_text(WORK)
    return path


def faults(pair):
    """What went wrong, by the name of the function."""
    return {pair.plan.works[f.task].kind.rpartition(":")[2]: f.why for f in pair.executed.faults}


def test_a_task_that_fails_fails_by_name_and_the_rest_goes_on(file):
    """Seven kinds of trouble beside one that learns."""
    names = ["learns", "raises", "hangs", "spins", "nonsense", "words", "returns", "ends"]
    result = compare([policies.DescribedUniform()], SCENE, kinds=[f"{file}:{name}" for name in names], tasks=len(names))
    (pair,) = result.pairs
    found = faults(pair)
    assert set(found) == {"raises", "hangs", "spins", "nonsense", "words", "returns"}
    assert found["raises"].endswith("KeyError: 'no such column: price'") and "my.py" in found["raises"]
    assert "hung: asleep for 0.1 s while it had CPU, after 3 units" in found["hangs"]
    assert "hung" in found["spins"]
    assert "yielded nan after unit 4; expected a number" in found["nonsense"]
    assert "yielded 'almost done' after unit 1" in found["words"]
    assert "returned float; expected a generator" in found["returns"]
    done = {
        w.kind.rpartition(":")[2] for w, s in zip(pair.plan.works, pair.executed.run.state[0], strict=True) if s == DONE
    }
    assert done <= {"learns", "ends"}
    assert all(
        len(errors) for w, errors in zip(pair.plan.works, pair.executed.errors, strict=True) if "learns" in w.kind
    )
    certificate = certify(result)
    assert [check.name for check in certificate if not check.passed] == ["tasks"]


def test_one_that_ends_above_the_target_it_was_given_says_so(file):
    """30 units end at 1/30; the target is 0.01."""
    from dataclasses import replace

    result = compare([policies.DescribedUniform()], replace(SCENE, target=0.01), kinds=[f"{file}:ends"], tasks=2)
    assert [f.why for f in result.pairs[0].executed.faults] == [
        "ended by itself after 30 units at an error of 0.03333, above its target"
    ] * 2
    assert (result.pairs[0].simulated.successes == 0).all()


def test_all_that_cannot_work_is_a_failure_with_the_reason(file, tmp_path):
    """No trial did a unit; and a file that cannot be read, with its line."""
    with pytest.raises(Failure, match=r"no trial of .*did a unit of work: .*returned float"):
        compare([policies.DescribedUniform()], SCENE, kinds=[f"{file}:returns"], tasks=2)
    with refused("unknown", "my.py", "'learns'"):
        compare([policies.DescribedUniform()], SCENE, kinds=[f"{file}:lerns"], tasks=2)
    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\ny = x / 0\n")
    with refused("registry.load", "broken.py:2", "ZeroDivisionError"):
        compare([policies.DescribedUniform()], SCENE, kinds=[f"{broken}:f"], tasks=2)


def tasks_below(pid):
    """The processes of tasks, and of what they started, under the server of this driver."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "fork_server" in " ".join(child.cmdline()):
                found += child.children(recursive=True)
    return found


def test_a_task_killed_from_outside_fails_by_name(file):
    """SIGKILL in mid-run to one process: one fault, and the others go on."""
    struck = []

    def strike(doing, done, total):
        if doing == "DescribedUniform" and done == 6 and not struck:
            struck.append(tasks_below(os.getpid())[0].pid)
            os.kill(struck[0], signal.SIGKILL)

    long = RealScene(cpus=0.8, step=0.1, arrival=(0.0, 1.0), deadline=(20.0, 20.0), work=(500.0, 500.0), trial=0.02)
    result = compare([policies.DescribedUniform()], long, kinds=[f"{file}:learns"], tasks=3, progress=strike)
    (pair,) = result.pairs
    (fault,) = pair.executed.faults
    assert "was killed by signal 9" in fault.why
    others = [k for k in range(3) if k != fault.task]
    assert all(pair.executed.units[k] > pair.executed.units[fault.task] for k in others)


def gone(processes, seconds=20.0):
    """Those that are still there after so long."""
    return psutil.wait_procs(processes, timeout=seconds)[1]


@pytest.mark.parametrize(("how", "kind"), [(signal.SIGKILL, "auto"), (signal.SIGKILL, "stop"), (signal.SIGINT, "auto")])
def test_a_driver_that_dies_takes_all_with_it(file, how, kind):
    """Killed without a word, or with Ctrl-C: no server, no task, no child of a task, nothing stopped."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, f"{file}:parents", kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        for line in driver.stdout:
            if line.startswith("DescribedUniform 3"):
                break
        below = psutil.Process(driver.pid).children(recursive=True)
        assert len(tasks_below(driver.pid)) >= 4
        os.kill(driver.pid, how)
        driver.wait(20)
        assert not gone(below)
    finally:
        driver.kill()
        driver.stdout.close()


def test_a_server_that_is_killed_ends_the_run_and_its_tasks(file):
    """The run cannot go on; it says so, and the system has killed the tasks."""
    known = []

    def strike(doing, done, total):
        if doing == "DescribedUniform" and done == 4 and not known:
            known.extend(tasks_below(os.getpid()))
            server = known[0].parent()
            known.append(server)
            server.kill()

    long = RealScene(cpus=0.8, step=0.1, arrival=(0.0, 1.0), deadline=(20.0, 20.0), work=(500.0, 500.0), trial=0.02)
    with pytest.raises(Failure, match=r"the server of task processes is gone \(exit -9\)"):
        compare([policies.DescribedUniform()], long, kinds=[f"{file}:learns"], tasks=3, progress=strike)
    assert known and not gone(known)


def test_torch_modules_are_tasks_too(tmp_path):
    """A user's own module in a user's own file, and ours by name."""
    if not os.environ.get("CI"):
        pytest.importorskip("torch", reason="torch is not installed")
    path = tmp_path / "net.py"
    path.write_text(
        "import numpy as np, torch\n"
        "from equipoise.data import load\n"
        "from equipoise.engine.real_clock import torch_work\n"
        "def train(seed):\n"
        "    torch.manual_seed(seed)\n"
        "    return torch_work(torch.nn.Linear(64, 10), load('digits'), rows=32, rng=np.random.default_rng(seed))\n"
    )
    scene = RealScene(cpus=0.8, step=0.15, arrival=(0.0, 1.0), deadline=(12.0, 12.0), work=(10.0, 40.0), trial=0.05)
    result = compare([policies.SDF()], scene, kinds=["torch", f"{path}:train"], tasks=3)
    (pair,) = result.pairs
    assert not pair.executed.faults
    assert certify(result)["curves"].value == 0
    for errors, trained in zip(pair.executed.errors, pair.plan.recorded, strict=True):
        assert errors.tolist() == trained.errors[: len(errors)].tolist() and len(errors)
