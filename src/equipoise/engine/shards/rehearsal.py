"""A small run in lock step: loads every kernel that workers use."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.engine.shards.hostile_state import HostileShard
from equipoise.engine.shards.region import regions
from equipoise.engine.shards.shard import Shard
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.state import HostileState
from equipoise.train.method import Method
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.state import State


def play() -> None:
    """Two shards of a ring of four, some rounds, with boxes that bind."""
    shards = [(np.eye(2) + k, np.arange(2.0)) for k in range(4)]
    problem = Problem(Quadratic(np.arange(1.0, 5.0), 3.0, lo=0.0, hi=4.0), 9.0, LeastSquares(shards, reg=0.1))
    halves = np.array([0, 0, 1, 1])
    for network in (Network.ring(4), Network.sequence([Network.ring(4), Network.path(4)])):
        state = State(problem, network, Method())
        state.make_room()
        in_step([Shard(state, region) for region in regions(network, halves)], 0, 3)
    hostile = HostileState(problem, Network.ring(4), Method(), Faults(loss=0.1, delay=1), rounds=3)
    in_step([HostileShard(hostile, region) for region in regions(Network.ring(4), halves)], 0, 3)


def in_step(shards: list[Any], begin: int, count: int) -> list[str | None]:
    """Play rounds of all shards in one process, handing packets over phase by phase; what diverged in the last."""
    ends: list[str | None] = [None] * len(shards)
    for number in range(begin, begin + count):
        talks = [shard.play(number) for shard in shards]
        waiting: list[dict[int, bytes] | None] = [None] * len(shards)
        for k, talk in enumerate(talks):
            waiting[k] = _step(talk, None, ends, k)
        while any(packets is not None for packets in waiting):
            sent = {shard.region.shard: packets or {} for shard, packets in zip(shards, waiting, strict=True)}
            for k, (shard, talk) in enumerate(zip(shards, talks, strict=True)):
                me = shard.region.shard
                came = {peer: bytes(sent[peer][me]) for peer in sent[me]}
                waiting[k] = _step(talk, came, ends, k)
    return ends


def _step(talk: Any, came: dict[int, bytes] | None, ends: list[str | None], k: int) -> dict[int, bytes] | None:
    try:
        packets: dict[int, bytes] = next(talk) if came is None else talk.send(came)
        return packets
    except StopIteration as end:
        ends[k] = end.value
        return None
