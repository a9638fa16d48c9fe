"""Workers as Ray actors on a real cluster of two nodes: the same bits, and a kill in mid-run."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from shard_cases import KINDS, NETWORKS, differences, problem

from equipoise.engine import Hold, Workers
from equipoise.engine.shards.ray_actors import RayCrew
from equipoise.errors import Failure
from equipoise.train import Faults, Method, solve
from ray_nodes import two_nodes
from refusals import refused

__all__ = ["two_nodes"]
ROUNDS = {"rounds": 12, "every": 5, "seed": 3}


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_ray_gives_the_bits_of_one_process(two_nodes: str, shards: int) -> None:
    """Exact and quantised runs, on actors of both nodes."""
    which = problem("boxed")
    with Workers(shards, on="ray", address=two_nodes) as workers:
        for given in KINDS.values():
            alone = solve(which, **given, **ROUNDS)
            assert not differences(alone, solve(which, **given, **ROUNDS, engine=workers))
        assert isinstance(workers.crew, RayCrew)
        if shards > 1:
            assert len(set(workers.crew.nodes().values())) == 2
            assert min(workers.wire_bytes) > 0


def test_ray_gives_the_bits_of_one_process_where_packets_are_lost(two_nodes: str) -> None:
    """Loss over graphs in turn, then delays, on the same actors of both nodes."""
    which, network = problem("boxed"), NETWORKS["switching"]
    with Workers(2, on="ray", address=two_nodes) as workers:
        for faults in (Faults(loss=0.3), Faults(delay=3)):
            alone = solve(which, network, **ROUNDS, faults=faults)
            assert not differences(alone, solve(which, network, **ROUNDS, faults=faults, engine=workers))
        assert min(workers.wire_bytes) > 0


def test_an_actor_that_is_killed_ends_the_run_by_name(two_nodes: str) -> None:
    """SIGKILL of one of four workers in mid-run: who is gone, and how to go on."""
    with Workers(4, on="ray", address=two_nodes) as workers:

        def kill(moment: Any) -> None:
            if moment.number == 23:
                os.kill(workers.pids()[2], signal.SIGKILL)

        with pytest.raises(Failure, match="died with centres"):
            solve(problem("boxed"), KINDS["undirected"]["network"], rounds=900, callback=kill, engine=workers)


def test_actors_are_held_on_their_own_nodes(two_nodes: str) -> None:
    """Batches follow shares and actors are held to them: no bit changes, and everyone's CPU is told."""
    which, network = problem("coupled"), KINDS["quantised"]["network"]
    alone = solve(which, network, Method(), **ROUNDS)
    with Workers(2, on="ray", address=two_nodes, hold=Hold(cpus=1.0)) as workers:
        assert not differences(alone, solve(which, network, Method(), **ROUNDS, engine=workers))
        usage = workers.usage()
    assert sorted(usage) == [0, 1]
    assert sum(each.asked for each in usage.values()) == pytest.approx(1.0, rel=0.1)  # of two cores there are


def test_an_address_where_nothing_answers_is_refused_in_seconds() -> None:
    with Workers(2, on="ray", address="127.0.0.1:9") as workers, refused("ray.unreachable", "127.0.0.1:9"):
        solve(problem("boxed"), KINDS["undirected"]["network"], rounds=3, engine=workers)
