"""Sweeps of share and place give the same numbers, bit for bit, on one worker, threads, processes and two Ray nodes."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.engine.spread import spread
from equipoise.errors import Failure, InputError
from equipoise.parallel import PROCESSES, THREADS, parts
from equipoise.place import placers, prices, traces
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.compare import Case, compare
from equipoise.place.sweep import sweep as sweep_place
from equipoise.registry import fault_in
from equipoise.share import policies
from equipoise.share.spec import policy_from
from equipoise.share.sweep import Sweep, sweep
from ray_nodes import need_ray, two_nodes  # noqa: F401
from refusals import refused

USERS = """
import numpy as np
from equipoise.share import Decision

PART = 0.5

class Odd(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")

class Half:
    label = "Half"
    def decide(self, view):
        sent, worked = (np.maximum(who.sum(axis=-1, keepdims=True), 1) for who in (view.sending, view.computing))
        compute = np.where(view.computing, PART * view.capacity / worked, 0.0)
        return Decision(np.where(view.sending, view.bandwidth / sent, 0.0), np.minimum(compute, view.task_cap))

class Broken(Half):
    def decide(self, view):
        raise Odd("this", "that")
"""


@pytest.fixture
def users_file(tmp_path: Path) -> Path:
    path = tmp_path / "own_policies.py"
    path.write_text(USERS)
    return path


def share(*more: Any, **given: Any) -> Sweep:
    """Ours and the user's; the oracle too. Many small parts."""
    players = [policies.named("Uniform"), policies.named("Hybrid"), *more]
    return sweep(players, loads=(10, 30), seeds=[3, 1, 4, 15], oracle=3, **given)


def assert_equal(one: Sweep, other: Sweep) -> None:
    assert one.measured.keys() == other.measured.keys()
    for cell, measures in one.measured.items():
        for name, values in measures.items():
            assert np.array_equal(values, other.measured[cell][name], equal_nan=True), (cell, name)
    for load, bound in one.bounds.items():
        assert np.array_equal(bound, other.bounds[load], equal_nan=True)


def cases(count: int = 3) -> list[Case]:
    """Small clusters; PDORS with prices recalled from other draws, and FIFO."""
    cluster = Cluster(tuple(Machine({"gpu": 8, "cpu": 40, "memory": 120, "disk": 60}) for _ in range(2)))
    return [Case(k, cluster, traces.synthetic(8, seed=k, slots=8), (*_players(k),), slots=8) for k in range(count)]


def _players(seed: int) -> tuple[Any, Any]:
    past = (traces.synthetic(8, seed=100 + seed, slots=8),)
    return placers.PDORS(prices.Recalled(past)), placers.FIFO()


def test_share_is_the_same_on_threads_and_processes(users_file: Path):
    """One worker, two threads, two processes: all measures and bounds, and the user's own policy among them."""
    own = policy_from(f"{users_file}:Half")
    alone = share(own, workers=1)
    assert all(np.isfinite(bound[:3]).all() for bound in alone.bounds.values())
    for kind in (THREADS, PROCESSES):
        seen: list[tuple[int, int]] = []
        with spread(kind, workers=2):
            assert_equal(alone, share(own, progress=lambda done, total, seen=seen: seen.append((done, total))))
        assert seen == [(k, 4) for k in range(1, 5)]  # 2 loads x (a part with its bounds + 1 batch)


def test_place_is_the_same_on_threads_and_processes():
    """A sweep over seeds and a comparison over policies: rows, schedules, calibration and certificates."""
    alone = sweep_place(cases(), workers=1)
    assert {row["policy"] for row in alone.seed_rows} == {"PDORS", "FIFO"} and len(alone.seed_rows) == 6
    one = cases(1)[0]
    by_itself = compare(one.cluster, one.jobs, one.policies, slots=8)
    for kind in (THREADS, PROCESSES):
        with spread(kind, workers=2):
            other = sweep_place(cases())
            side_by_side = compare(one.cluster, one.jobs, one.policies, slots=8, workers=None)
        assert (alone.seed_rows, alone.certificate) == (other.seed_rows, other.certificate)
        assert (by_itself.table, by_itself.certificate) == (side_by_side.table, side_by_side.certificate)
        for left, right in zip(by_itself.results, side_by_side.results, strict=True):
            assert np.array_equal(left.schedule, right.schedule) and np.array_equal(left.finish, right.finish)
            assert left.policy is right.policy and left.decisions == right.decisions


def where() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def meet(folder: str, k: int) -> str:
    """Wait for the other part: neither can be done unless both run at once."""
    import time

    Path(folder, str(k)).touch()
    end = time.monotonic() + 60
    while not Path(folder, str(1 - k)).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return where()


def test_the_same_on_two_ray_nodes(two_nodes: str, users_file: Path, tmp_path: Path):  # noqa: F811
    """share, place and the user's policy through a real cluster; both nodes take part; her fault keeps its line."""
    import sys

    import cloudpickle

    own, broken = (policy_from(f"{users_file}:{name}") for name in ("Half", "Broken"))
    with spread(address=two_nodes) as says:
        assert says == f"2 workers of Ray at {two_nodes}: 2 nodes, 2 CPUs"
        assert_equal(share(own, workers=1), share(own))
        assert sweep_place(cases(2), workers=1).seed_rows == sweep_place(cases(2)).seed_rows
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        nodes = [node for _, node in parts(meet, (str(tmp_path),), [(0,), (1,)])]
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        assert len(set(nodes)) == 2
        with pytest.raises(Exception, match="this and that") as caught:
            share(broken)
    assert fault_in(caught.value, [str(users_file)]) == "own_policies.py:20: Odd: this and that"


@pytest.mark.parametrize("kind", [THREADS, PROCESSES])
def test_what_a_worker_raises_comes_out_with_its_line(kind: str, users_file: Path):
    """Though her error cannot be unpickled and tracebacks do not travel."""
    with spread(kind, workers=2), pytest.raises(Exception, match="this and that") as caught:
        share(policy_from(f"{users_file}:Broken"))
    assert fault_in(caught.value, [str(users_file)]) == "own_policies.py:20: Odd: this and that"


def refuse(k: int) -> None:
    raise InputError(f"part {k} is wrong", code="part.wrong")


def die(k: int) -> None:
    os.kill(os.getpid(), 9)


@pytest.mark.parametrize("kind", [THREADS, PROCESSES])
def test_bad_input_stays_bad_input(kind: str):
    with spread(kind, workers=2), refused("part.wrong"):
        list(parts(refuse, (), [(k,) for k in range(4)]))


def test_a_killed_worker_is_one_line():
    with spread(PROCESSES, workers=2), pytest.raises(Failure, match="one of 2 worker processes ended"):
        list(parts(die, (), [(k,) for k in range(4)]))


@dataclass
class Locked:
    lock: Any

    def __call__(self, k: int) -> int:
        return k


def test_what_cannot_be_sent_is_refused():
    """A lock in a policy: fine in threads, refused for processes with the way out."""
    work = Locked(threading.Lock())
    with spread(THREADS, workers=2):
        assert sorted(parts(work, (), [(0,), (1,)])) == [(0, 0), (1, 1)]
    with spread(PROCESSES, workers=2), refused("process.unpicklable", "threads"):
        list(parts(work, (), [(0,), (1,)]))


def blas_threads() -> list[int]:
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_processes_have_one_blas_thread_each(monkeypatch: pytest.MonkeyPatch):
    """By themselves: not because the tests' own environment says so."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with spread(PROCESSES, workers=2):
        assert all(set(found) == {1} for _, found in parts(blas_threads, (), [(), (), ()]))


def test_one_worker_is_this_process():
    with spread(PROCESSES, workers=1) as says:
        assert says == "this process"
        assert list(parts(os.getpid, (), [(), ()])) == [(0, os.getpid()), (1, os.getpid())]


def test_bad_spreads_are_refused():
    for given, refusal in (
        ({"kind": "thread"}, ("unknown", "'thread'", "'threads'")),
        ({"kind": "threads", "address": "host:1"}, ("address.unused", "--address host:1", "--spread")),
        ({"kind": "processes", "workers": 0}, ("workers.range", "--workers 0")),
        ({"kind": "threads", "workers": 10**6}, ("workers.range", "--workers 1000000")),
        ({"address": "host:1", "workers": 0}, ("workers.range", "--workers 0")),
    ):
        with refused(*refusal), spread(**given):  # type: ignore[arg-type]
            pass


def test_more_workers_than_the_cluster_has(two_nodes: str):  # noqa: F811
    """They would wait for each other for ever."""
    with refused("workers.range", "--workers 3", two_nodes, 2), spread(address=two_nodes, workers=3):
        pass
