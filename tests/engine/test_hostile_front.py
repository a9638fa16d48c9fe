"""`solve` on a hostile network with workers: the same run as in one process, whoever dies."""

from __future__ import annotations

import threading
from queue import Empty
from typing import Any

import numpy as np
import pytest

from equipoise.engine.shards.crew import Threads
from equipoise.engine.shards.hostile_front import ShardedHostileState
from equipoise.engine.shards.worker import Halted
from equipoise.errors import Failure
from equipoise.train import (
    Coupled,
    Exact,
    Faults,
    LeastSquares,
    Method,
    Network,
    Partition,
    Problem,
    Quadratic,
    Softmax,
    solve,
)

NODES = 12
EVENTS = Faults(
    loss=0.1,
    delay=1,
    crash={3: 12},
    leave={5: 20},
    join={7: 25, 3: 60},
    straggle={1: 3},
    partition=Partition(frozenset({0, 1, 2, 9}), 28, 45),
    notice=4,
    seed=5,
)


class Died(Exception):
    """A worker is killed."""


class Mortal(Threads):
    """Threads of which some die in the middle of a round."""

    def __init__(self, dies: dict[int, int]) -> None:
        super().__init__()
        self.dies, self.dead = dies, {shard: threading.Event() for shard in dies}

    def start(self, shards: Any) -> None:
        super().start(shards)
        for shard, worker in self.workers.items():
            worker.post.exchange = self._exchanging(shard, worker.post)

    def _exchanging(self, shard: int, post: Any) -> Any:
        def exchange(number: int, phase: int, packets: dict[int, bytes]) -> dict[int, bytes]:
            if self.dies.get(shard, 10**9) <= number:
                self.dead[shard].set()
                raise Died
            for peer, packet in packets.items():
                post.mail[shard, peer].put((number, phase, packet))
            came = {}
            for peer in packets:
                while peer not in came:
                    if any(event.is_set() for event in self.dead.values()):
                        raise Halted
                    try:
                        *when, packet = post.mail[peer, shard].get(timeout=0.02)
                    except Empty:
                        continue
                    assert when == [number, phase]
                    came[peer] = packet
            return came

        return exchange

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        asked = {s: self._pool.submit(getattr(self.workers[s], method), *given) for s, given in arguments.items()}
        found = {}
        for shard, future in asked.items():
            try:
                found[shard] = future.result()
            except Died:
                del self.workers[shard]
        if len(found) < len(asked):  # what was on its way is thrown away
            for worker in self.workers.values():
                for queue in worker.post.mail.values():
                    while not queue.empty():
                        queue.get()
            for event in self.dead.values():
                event.clear()
        return found


class Workers:
    """An engine of threads."""

    def __init__(self, count: int, dies: dict[int, int] | None = None) -> None:
        self.count, self.dies = count, dies or {}
        self.state: Any = None

    def hostile(self, *parts: Any, **options: Any) -> ShardedHostileState:
        self.state = ShardedHostileState(Mortal(self.dies), self.count, *parts, **options)
        return self.state


def problem(boxed: bool = True) -> Problem:
    rng = np.random.default_rng(7)
    shards = [(rng.normal(size=(8, 3)), rng.normal(size=8)) for _ in range(NODES)]
    lo, hi = (0.0, 60.0) if boxed else (-np.inf, np.inf)
    cost = Quadratic(rng.uniform(0.5, 3.0, NODES), rng.uniform(10.0, 60.0, NODES), lo=lo, hi=hi)
    return Problem(cost, 25.0 * NODES, LeastSquares(shards, reg=0.1))


NETWORKS = {
    "static": Network.erdos_renyi(NODES, 0.35, seed=1),
    "switching": Network.erdos_renyi(NODES, 0.35, switching=5, seed=2),
    "fresh": Network.erdos_renyi(NODES, 0.35, switching="fresh", seed=3),
    "one-way": Network.erdos_renyi(NODES, 0.5, seed=4, directed=True),
}


def outcome(run: Any) -> dict[str, Any]:
    """All that a run says, but not how long it took."""
    found = run.summary()
    found = {name: value for name, value in found.items() if "second" not in name and name != "engine"}
    bits = run.link_bits
    return found | {
        "shares": run.shares.tobytes(),
        "models": run.models.tobytes(),
        "worst": run.worst,
        "tallies": run.tallies,
        "bits": (bits.senders.tobytes(), bits.receivers.tobytes(), bits.bits.tobytes()),
        "history": {name: np.asarray(column).tobytes() for name, column in run.history.items() if "second" not in name},
        "certificate": str(run.certificate()),
    }


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("callback", [None, lambda moment: None])
def test_a_run_by_workers_is_the_run_in_one_process(network, callback):
    """History, certificate, bits of every link, events: nothing tells who played."""
    options: dict[str, Any] = {"rounds": 100, "faults": EVENTS, "callback": callback}
    alone = solve(problem(), NETWORKS[network], Method(), **options)
    engine = Workers(3)
    spread = solve(problem(), NETWORKS[network], Method(), engine=engine, **options)
    assert outcome(spread) == outcome(alone)
    assert len(engine.state.wire_bytes) == 100 and min(engine.state.wire_bytes[:10]) > 0


def test_mini_batches_and_the_push_form():
    network = NETWORKS["one-way"]
    alone = solve(problem(boxed=False), network, Method(), rounds=60, batch=3)
    assert outcome(solve(problem(boxed=False), network, Method(), rounds=60, batch=3, engine=Workers(2))) == outcome(
        alone
    )


def test_a_run_that_diverges_ends_with_the_same_numbers():
    """A round in which numbers run away ends half played: the mirror plays it again by itself."""
    method = Method(alpha=4.0, quantizer=Exact())
    options: dict[str, Any] = {"rounds": 3000, "faults": Faults(loss=0.1)}
    alone = solve(problem(), NETWORKS["static"], method, **options)
    assert alone.status == "diverged"
    spread = solve(problem(), NETWORKS["static"], method, engine=Workers(3), **options)
    assert (spread.status, spread.reason, spread.rounds) == (alone.status, alone.reason, alone.rounds)
    assert spread.shares.tobytes() == alone.shares.tobytes() and spread.models.tobytes() == alone.models.tobytes()


def test_a_checkpoint_of_workers_goes_on_alone(tmp_path):
    """And the other way round."""
    options: dict[str, Any] = {"faults": EVENTS, "checkpoint_every": 30, "rounds": 80}
    whole = solve(problem(), NETWORKS["switching"], Method(), **options)
    for first, then in ((Workers(2), None), (None, Workers(4))):
        file = tmp_path / f"{first is None}.npz"
        solve(
            problem(),
            NETWORKS["switching"],
            Method(),
            checkpoint=file,
            engine=first,
            callback=lambda m: m.number == 41,
            **options,
        )
        again = solve(problem(), NETWORKS["switching"], Method(), resume=file, engine=then, **options)
        assert again.shares.tobytes() == whole.shares.tobytes() and again.models.tobytes() == whole.models.tobytes()
        assert again.bits == whole.bits


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("callback", [None, lambda moment: None])
def test_a_worker_that_dies_is_a_crash_of_its_nodes(network, callback):
    """It dies in the middle of a round. The others go back to a round they remember; the rest is as if the faults had said
    so from the start: on the living bit by bit, and the budget is exact."""
    loss = Faults(loss=0.1, delay=1, notice=4)
    engine = Workers(4, dies={2: 37})
    run = solve(problem(), NETWORKS[network], Method(), rounds=120, faults=loss, engine=engine, callback=callback)
    dead = np.flatnonzero(engine.state.shard_of == 2)
    crashed = [event.round for event in run.events if event.kind == "crash"]
    assert len(crashed) == len(dead) and len(set(crashed)) == 1 and 27 <= crashed[0] <= 37
    foreseen = Faults(loss=0.1, delay=1, notice=4, crash={int(node): crashed[0] for node in dead})
    alone = solve(problem(), NETWORKS[network], Method(), rounds=120, faults=foreseen)
    living = np.setdiff1d(np.arange(NODES), dead)
    assert run.shares[living].tobytes() == alone.shares[living].tobytes()
    assert run.models[living].tobytes() == alone.models[living].tobytes()
    assert run.events == alone.events and run.in_flight == alone.in_flight and run.trouble == alone.trouble
    assert run.worst.budget == 0.0 and run.worst.over == 0.0
    assert str(run.certificate()["budget"]) == str(alone.certificate()["budget"])
    assert run.certificate()["bits"].passed


@pytest.mark.parametrize("looks", [True, False])
def test_cpu_seconds_of_a_worker_that_died(looks):
    """What its centres had spent when they were last looked at stays spent."""
    rng = np.random.default_rng(2)
    shards = [(rng.normal(size=(size, 3)), rng.integers(0, 3, size)) for size in rng.integers(10, 30, NODES)]
    sizes, speed = np.array([len(y) for _, y in shards]), rng.uniform(0.5, 2.0, NODES)

    def coupled() -> Problem:
        return Problem(Coupled(speed, sizes=sizes, lo=0.5, hi=sizes / speed), 5.0 * NODES, Softmax(shards, classes=3))

    faults = Faults(loss=0.1, notice=4)
    seen: list[float] = []
    callback = (lambda moment: seen.append(moment.shares[0])) if looks else None
    run = solve(coupled(), NETWORKS["static"], rounds=60, faults=faults, engine=Workers(3, {1: 25}), callback=callback)
    crash = {event.nodes[0]: event.round for event in run.events if event.kind == "crash"}
    alone = solve(coupled(), NETWORKS["static"], rounds=60, faults=Faults(loss=0.1, notice=4, crash=crash))
    spent, all_spent = (np.asarray(r.history["cpu_seconds"])[-1] for r in (run, alone))
    assert spent == all_spent if looks else 0.5 * all_spent < spent <= all_spent


def test_workers_may_die_one_after_the_other():
    loss = Faults(loss=0.1, notice=4)
    engine = Workers(4, dies={1: 20, 3: 33})
    run = solve(problem(), NETWORKS["static"], Method(), rounds=80, faults=loss, engine=engine)
    rounds = {int(node): event.round for event in run.events if event.kind == "crash" for node in event.nodes}
    foreseen = Faults(loss=0.1, notice=4, crash=rounds)
    alone = solve(problem(), NETWORKS["static"], Method(), rounds=80, faults=foreseen)
    assert run.events == alone.events and run.shares.tobytes() == alone.shares.tobytes()
    assert run.worst.budget == 0.0


def test_the_push_form_does_not_survive_a_worker():
    """It keeps no books by which what the dead held could be claimed; and says so."""
    with pytest.raises(Failure, match="keeps no books"):
        solve(problem(boxed=False), NETWORKS["one-way"], Method(), rounds=60, engine=Workers(3, dies={1: 15}))
