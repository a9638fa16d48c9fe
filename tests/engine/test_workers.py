"""Workers as real processes: the same bits, real kills, and errors that name what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import psutil
import pytest
from shard_cases import KINDS, NODES, differences, problem

from equipoise.engine import Workers
from equipoise.engine.sharded import Sharded
from equipoise.engine.shards import processes
from equipoise.engine.shards.crew import Report
from equipoise.engine.shards.processes import raise_here, told
from equipoise.errors import Failure, InputError
from equipoise.train import Method, Model, Network, Problem, solve
from equipoise.train.audit import Auditor
from equipoise.train.spec import TrainSpec
from refusals import refused

ROUNDS = {"rounds": 25, "every": 6, "seed": 3}


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_processes_give_the_bits_of_one_process(shards: int) -> None:
    """Exact and quantised runs; the same workers play them all."""
    which = problem("boxed")
    with Workers(shards) as workers:
        for given in KINDS.values():
            alone = solve(which, **given, **ROUNDS)
            assert not differences(alone, solve(which, **given, **ROUNDS, engine=workers))
        assert len(set(workers.pids().values())) == shards and os.getpid() not in workers.pids().values()


def test_large_packets_do_not_wait_for_each_other() -> None:
    """Half a megabyte each way in every phase, more than any socket holds."""
    n, size = 200, 400
    which = Problem(model=_Pull(n, size))
    network = Network.erdos_renyi(n, 0.1, seed=0)
    alone = solve(which, network, rounds=4)
    with Workers(3) as workers:
        spread = solve(which, network, rounds=4, engine=workers)
        assert max(workers.wire_bytes) > 3 * 400_000
    assert not differences(alone, spread)


class _Pull(Model):
    """Every node pulls its model towards a point of its own."""

    def __init__(self, nodes: int, size: int) -> None:
        self.nodes, self.size = nodes, size
        self.wish = np.random.default_rng(1).standard_normal((nodes, size))

    def loss(self, node: int, y: Any) -> float:
        return float(0.5 * np.sum((y - self.wish[node]) ** 2))

    def gradient(self, node: int, y: Any) -> Any:
        return y - self.wish[node]


def test_a_worker_that_is_killed_ends_the_run_by_name() -> None:
    """SIGKILL in round 37: who is gone, when, and how to go on."""
    which, network = problem("boxed", NODES), Network.erdos_renyi(NODES, 0.3, switching=5, seed=1)
    with Workers(4) as workers:

        def kill(moment: Any) -> None:
            if moment.number == 37 and 3 in workers.pids():
                os.kill(workers.pids()[3], signal.SIGKILL)

        with pytest.raises(Failure, match=r"round 3[78]: worker 3 .* died with centres .*--resume"):
            solve(which, network, rounds=1500, seed=3, callback=kill, engine=workers)


def test_a_method_that_counts_on_all_centres_says_so() -> None:
    workers = Workers(2)

    def kill(moment: Any) -> None:
        if moment.number == 3:
            os.kill(workers.pids()[1], signal.SIGKILL)

    given: dict[str, Any] = {"rounds": 50, "callback": kill, "engine": workers}
    with workers, pytest.raises(Failure, match=r"worker 1 .* died with centres .*--resume"):
        solve(problem("boxed"), Network.ring(NODES), Method.paper(), **given)


def test_workers_end_with_their_coordinator_however_it_dies(tmp_path: Any) -> None:
    """SIGKILL of the process that runs `solve`: no worker and no fork server is left."""
    script = tmp_path / "run.py"
    script.write_text(
        "import json, sys\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from shard_cases import NETWORKS, problem\n"
        "from equipoise.engine import Workers\n"
        "from equipoise.engine.shards.processes import fork_server\n"
        "from equipoise.train import solve\n"
        "with Workers(3) as workers:\n"
        "    def tell(moment):\n"
        "        if moment.number == 5:\n"
        "            print(json.dumps([fork_server().pid, *workers.pids().values()]), flush=True)\n"
        "    solve(problem('boxed'), NETWORKS['static'], rounds=10**6, every=10**6, callback=tell, engine=workers)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids = json.loads(process.stdout.readline())
    assert len(pids) == 4 and all(map(psutil.pid_exists, pids))
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, pids))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Broken(_Pull):
    """Raises in a worker, and only there."""

    def __init__(self, nodes: int, size: int) -> None:
        super().__init__(nodes, size)
        self.home = os.getpid()

    def gradient(self, node: int, y: Any) -> Any:
        if node == 7 and os.getpid() != self.home:
            raise ZeroDivisionError("node 7 has no data today")
        return super().gradient(node, y)

    def smoothness(self) -> Any:
        return np.ones(self.nodes)


def test_a_model_that_raises_in_a_worker_is_named() -> None:
    with (
        Workers(2) as workers,
        pytest.raises(Failure, match=r"worker \d stopped: ZeroDivisionError: node 7 has no data today"),
    ):
        solve(Problem(model=Broken(12, 3)), Network.ring(12), rounds=50, engine=workers)


def test_a_fork_server_that_cannot_be_started_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(processes, "_servers", {})
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with (
        Workers(2) as workers,
        pytest.raises(Failure, match=r"workers cannot be started: /no/such/python: No such file"),
    ):
        solve(problem("boxed"), Network.ring(NODES), rounds=5, engine=workers)


def test_a_fork_server_that_dies_says_its_last_words(monkeypatch: Any, tmp_path: Any) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no memory left on this machine' >&2\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(processes, "_servers", {})
    monkeypatch.setattr(sys, "executable", str(python))
    with Workers(2) as workers, pytest.raises(Failure, match="no memory left on this machine"):
        solve(problem("boxed"), Network.ring(NODES), rounds=5, engine=workers)


def test_a_halt_reaches_those_whose_neighbours_live() -> None:
    """Four workers in a line, the last one killed: the first waits for a neighbour that waits, and only a halt frees it."""
    which = Problem(model=_Pull(24, 3))
    with Workers(4) as workers:
        solve(which, Network.path(24), rounds=1, engine=workers)
        pids, last = workers.pids(), int(workers.state.shard_of[-1])
        script = f"import os, signal, time; time.sleep(0.3); os.kill({pids[last]}, signal.SIGKILL)"
        killer = subprocess.Popen([sys.executable, "-c", script])
        with pytest.raises(Failure, match="died with centres"):
            solve(which, Network.path(24), rounds=10**6, every=3000, engine=workers)
        killer.wait()
        assert [(row["worker"], row["process"]) for row in workers.losses] == [(last, pids[last])]


def test_a_worker_that_is_stopped_is_named(monkeypatch: Any) -> None:
    """SIGSTOP in the middle of many rounds: nobody waits for it without a word."""
    monkeypatch.setattr(processes, "STOPPED_SECONDS", 1.0)
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.2)
    which = Problem(model=_Pull(24, 3))
    with Workers(2) as workers:
        solve(which, Network.path(24), rounds=1, engine=workers)
        stopped = workers.pids()[1]
        timer = threading.Timer(0.3, os.kill, (stopped, signal.SIGSTOP))
        timer.start()
        try:
            with pytest.raises(Failure, match=rf"worker 1 \(process {stopped}\) is stopped"):
                solve(which, Network.path(24), rounds=10**6, every=10**6, engine=workers)
        finally:
            timer.join()
            os.kill(stopped, signal.SIGCONT)


def test_workers_that_failed_once_serve_again() -> None:
    """After an error in a worker the next run gets workers that are in step."""
    with Workers(3) as workers:
        with pytest.raises(Failure):
            solve(Problem(model=Broken(12, 3)), Network.ring(12), rounds=50, engine=workers)
        which = Problem(model=_Pull(12, 3))
        alone = solve(which, Network.ring(12), rounds=20)
        assert not differences(alone, solve(which, Network.ring(12), rounds=20, engine=workers))


def test_a_run_that_diverges_in_one_shard_ends() -> None:
    """Its worker stops, and the others are not left waiting for it."""
    which, network = problem("boxed"), Network.erdos_renyi(NODES, 0.4, seed=2)
    which = Problem(which.cost.__class__(which.cost.a, which.cost.c, lo=2.0, hi=45.0), 200.0, which.model)
    given: dict[str, Any] = {"rounds": 400, "every": 400, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = solve(which, network, Method(alpha=50.0), **given)
        with Workers(4) as workers:
            spread = solve(which, network, Method(alpha=50.0), **given, engine=workers)
    assert alone.status == "diverged"
    assert not differences(alone, spread)


def test_a_worker_that_hears_nothing_is_killed_when_all_is_over() -> None:
    with Workers(2) as workers:
        solve(problem("boxed"), Network.ring(NODES), rounds=3, engine=workers)
        pids = list(workers.pids().values())
        os.kill(pids[0], signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, pids))


def test_a_refusal_in_a_worker_keeps_its_code() -> None:
    """As it comes out of the pipe, here without one."""
    with refused("node.data", "node 7"):
        raise_here(1, *told(InputError("node 7 has no data", code="node.data")))


def test_what_cannot_be_sent_is_named() -> None:
    class Locked(_Pull):
        def __init__(self) -> None:
            super().__init__(12, 3)
            self.lock = threading.Lock()

    with Workers(2) as workers, refused("process.unpicklable", "lock"):
        solve(Problem(model=Locked()), Network.ring(12), rounds=3, engine=workers)


def test_an_engine_by_its_name_is_refused() -> None:
    with refused("engine.type", "'processes'"):
        solve(problem("boxed"), Network.ring(NODES), rounds=3, engine="processes")  # type: ignore[arg-type]


def test_the_same_workers_serve_another_network() -> None:
    """Along a path few workers talk to each other, on a dense network all do."""
    which = Problem(model=_Pull(24, 3))
    with Workers(4) as workers:
        for network in (Network.path(24), Network.erdos_renyi(24, 0.9, seed=0), Network.path(24)):
            alone = solve(which, network, rounds=5)
            assert not differences(alone, solve(which, network, rounds=5, engine=workers))


def test_a_job_on_workers_says_in_its_result_where_it_was_played() -> None:
    """The same keys from Python as from the command line: the place, and the bytes between workers."""
    job = TrainSpec(nodes=4, rounds=3, data="none").build()
    with Workers(2, on="threads") as workers:
        found = job.run(engine=workers).document(certify=False).result
        assert found["engine"]["where"] == workers.says
    assert found["engine"]["bytes_between_workers"] == sum(workers.wire_bytes) > 0
    assert "engine" not in job.run().document(certify=False).result


def test_the_audit_of_workers_sees_a_budget_that_does_not_hold() -> None:
    """Reports in which one unit is missing, and one in which a share is outside its box."""
    with Workers(2, on="threads") as workers:
        solve(problem("boxed"), Network.ring(NODES), rounds=2, engine=workers)
        state = workers.state
        assert isinstance(state, Sharded)
        held = state.budget
        state._reports = [
            Report(0, played=2, units=[held - 5, held - 5], outside=[0.0, 0.25]),
            Report(1, played=2, units=[5, 4], outside=[0.0, 0.0]),
        ]
        auditor = Auditor()
        state.audit(auditor)
        assert auditor.worst.budget == state.market.grid.unit and auditor.worst.box == 0.25
