"""Loss, delay and one-way links on workers: the same bits as in one process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from shard_cases import NETWORKS, NODES, differences, problem

from equipoise.engine import Hold, Workers
from equipoise.engine.lossy_sharded import LossyShard, Sharded
from equipoise.engine.shards.restrict import partition
from equipoise.errors import Failure
from equipoise.train import Exact, Faults, LeastSquares, Method, Network, Problem, Quadratic, Softmax, solve
from equipoise.train.hostile import Bursts, Partition
from equipoise.train.hostile.state import HostileState
from refusals import refused

LOST = Faults(loss=0.3, seed=2)
LATE = Faults(delay=3, jitter=True, seed=2)
ROUNDS: dict[str, Any] = {"rounds": 60, "every": 7, "seed": 3}
ONE_WAY = Network.erdos_renyi(NODES, 0.3, seed=1, directed=True)


def played(which: Problem, network: Network, workers: Any, **given: Any) -> tuple[Any, Any]:
    """A run in one process, and the same run on these workers."""
    given = ROUNDS | given
    return solve(which, network, **given), solve(which, network, **given, engine=workers)


def hostile_differences(alone: Any, spread: Any) -> list[str]:
    """What is not the same to the bit, also of packets and of what is in flight."""
    names = ("packets", "lost", "links_passed", "in_flight", "trouble", "events")
    return differences(alone, spread) + [name for name in names if getattr(alone, name) != getattr(spread, name)]


CASES: dict[str, tuple[str, Network, dict[str, Any]]] = {
    "loss": ("boxed", NETWORKS["static"], {"faults": LOST}),
    "loss, softmax": ("open", NETWORKS["static"], {"faults": LOST}),
    "loss, graphs in turn": ("boxed", NETWORKS["switching"], {"faults": LOST}),
    "loss in bursts": ("latency", NETWORKS["static"], {"faults": Faults(loss=Bursts(0.1, 0.4, good=0.05))}),
    "loss and delay": ("boxed", NETWORKS["static"], {"faults": Faults(loss=0.2, delay=2)}),
    "exact numbers": ("boxed", NETWORKS["static"], {"faults": LOST, "method": Method(quantizer=Exact())}),
    "delay with jitter": ("boxed", NETWORKS["static"], {"faults": LATE}),
    "delay without": ("open", NETWORKS["switching"], {"faults": Faults(delay=2, jitter=False)}),
    "batches": ("open", NETWORKS["static"], {"faults": LOST, "batch": 4}),
    "batches that follow shares": ("coupled", NETWORKS["static"], {"faults": LOST}),
    "own cost and model": ("own", NETWORKS["static"], {"faults": LOST}),
    "one way, gifts": ("boxed", ONE_WAY, {}),
    "one way, pushed": ("open", ONE_WAY, {}),
    "one way, graphs in turn": ("boxed", NETWORKS["one-way"], {}),
    "one way, pushed in turn": ("open", NETWORKS["one-way"], {}),
    "one way, loss and batches": ("boxed", ONE_WAY, {"faults": LOST, "batch": 5}),
}


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_threads_give_the_bits_of_one_process(name: str, shards: int) -> None:
    kind, network, given = CASES[name]
    with Workers(shards, on="threads") as workers:
        assert not hostile_differences(*played(problem(kind), network, workers, **given))
        assert sum(workers.wire_bytes) > 0


def test_the_history_of_a_callback_is_that_of_one_process() -> None:
    """Somebody looks after every round: shares add up with what is in flight, on both."""
    seen: list[list[tuple[bytes, int]]] = []
    runs = []

    def note(moment: Any) -> None:
        seen[-1].append((moment.shares.tobytes() + moment.models.tobytes(), moment.state.in_flight))

    given: dict[str, Any] = {"rounds": 15, "faults": LATE, "callback": note}
    with Workers(2, on="threads") as workers:
        for engine in ({}, {"engine": workers}):
            seen.append([])
            runs.append(solve(problem("boxed"), NETWORKS["static"], **given, **engine))
    assert seen[0] == seen[1] and any(flying for _, flying in seen[0])
    assert not hostile_differences(*runs)


@pytest.mark.parametrize("table", ["messages", "said"])
def test_a_message_that_is_not_moved_is_missed(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row that does not reach the other worker, in one round: the runs differ."""
    take, dropped = Sharded.take, []

    def forgetful(self: Sharded, peer: int, halves: Any, packet: bytes) -> bytes:
        if self.whole.packets < 12 * len(self.whole.table) or dropped:
            return take(self, peer, halves, packet)
        half = next(half for half in halves if hasattr(half, table))
        # the first message of this peer that is heard in this round or the next ones
        row, before = self._written(self.heard[peer])[0], getattr(half, table).copy()
        rest = take(self, peer, halves, packet)
        dropped.append(not np.array_equal(getattr(half, table)[row], before[row]))
        getattr(half, table)[row] = before[row]
        return rest

    monkeypatch.setattr(Sharded, "take", forgetful)
    with Workers(2, on="threads") as workers:
        alone, spread = played(problem("boxed"), NETWORKS["static"], workers, faults=Faults(delay=2, jitter=False))
    assert dropped[0] and differences(alone, spread)


@pytest.mark.parametrize("network", ["static", "one-way"])
def test_processes_give_the_bits_of_one_process(network: str) -> None:
    """Real processes; the same workers play loss and delay, one after the other."""
    with Workers(2) as workers:
        for faults in (LOST, LATE):
            assert not hostile_differences(*played(problem("boxed"), NETWORKS[network], workers, faults=faults))


@pytest.mark.parametrize("half", ["cost", "model"])
@pytest.mark.parametrize("network", ["static", "one-way"])
def test_a_problem_with_one_half(half: str, network: str) -> None:
    """On one-way links each half has an exchange of its own: here one of them carries nothing."""
    both = problem("boxed")
    which = Problem(both.cost, both.budget) if half == "cost" else Problem(model=both.model)
    with Workers(3, on="threads") as workers:
        assert not hostile_differences(*played(which, NETWORKS[network], workers, faults=LOST))


def test_trackers_over_links_that_carry_both_ways() -> None:
    """A model so ill-conditioned that trackers are worth their bits."""
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((12, 3)) * [1.0, 0.1, 0.01], rng.standard_normal(12)) for _ in range(NODES)]
    which = Problem(model=LeastSquares(data, reg=1e-4))
    with Workers(3, on="threads") as workers:
        alone, spread = played(which, NETWORKS["switching"], workers, faults=LATE)
    assert alone.dynamics()["learning"] == "trackers" and not hostile_differences(alone, spread)


def test_a_new_one_way_graph_every_round() -> None:
    """Every pair of centres may have a link: workers find out when the round comes."""
    network = Network.erdos_renyi(NODES, 0.3, switching="fresh", seed=1, directed=True)
    with Workers(2) as workers:
        which = Problem(model=problem("boxed").model)
        assert not hostile_differences(*played(which, network, workers, faults=LOST))


@pytest.mark.parametrize("network", ["static", "one-way"])
def test_a_worker_holds_its_own_data_and_no_other(network: str) -> None:
    """What a worker is sent holds its nodes' samples and costs, and there is no way from it to the others'."""
    rng = np.random.default_rng(0)
    marks, wishes = (np.arange(NODES) + start for start in (1000.5, 2000.25))
    data = [(np.column_stack([rng.standard_normal((6, 2)), np.full(6, mark)]), np.arange(6) % 2) for mark in marks]
    which = Problem(Quadratic(np.ones(NODES), wishes), 10.0 * NODES, Softmax(data, reg=1.0))
    for faults in (Faults(), LOST):
        whole = HostileState(which, NETWORKS[network], Method(), faults, rounds=5)
        shard_of = partition(NETWORKS[network], 2)
        for shard in range(2):
            sent = cloudpickle.dumps(LossyShard(whole, shard, shard_of))
            for node, mark, wish in zip(range(NODES), marks, wishes, strict=True):
                own = shard_of[node] == shard
                assert (mark.tobytes() in sent) == (wish.tobytes() in sent) == own


def test_what_runs_away_and_what_is_flat_is_judged_as_by_the_whole() -> None:
    """Both were fixed at the start of the run, from everybody's models and before costs moved."""
    whole = HostileState(problem("coupled"), NETWORKS["static"], Method(), LOST, rounds=5)
    for number in range(2):
        shard = LossyShard(whole, number, partition(NETWORKS["static"], 2))
        assert shard.learning.largest == whole.learning.largest
        assert np.array_equal(shard.allocation.curve.flattest, whole.allocation.curve.flattest[shard.part.nodes])


def test_workers_without_links_between_them_play_alone() -> None:
    """One worker has no peers, and hears nobody."""
    with Workers(1, on="threads") as workers:
        assert not hostile_differences(*played(problem("boxed"), NETWORKS["static"], workers, faults=LOST))
        assert not any(workers.wire_bytes)


@pytest.mark.parametrize("name", ["loss", "batches", "batches that follow shares", "one way, gifts", "one way, pushed"])
def test_a_run_goes_on_from_a_checkpoint_of_either_engine(name: str, tmp_path: Path) -> None:
    """Workers take up what one process kept, and one process what workers kept: the same bits as without a break."""
    kind, network, given = CASES[name]
    which, given = problem(kind), ROUNDS | given
    whole = solve(which, network, **given)
    kept = {"checkpoint_every": 20, "callback": lambda moment: moment.number == 40}
    with Workers(3, on="threads") as workers:
        for first, second in (({}, {"engine": workers}), ({"engine": workers}, {})):
            file = tmp_path / f"{len(first)}.npz"
            assert solve(which, network, **given, **kept, **first, checkpoint=file).rounds == 40
            assert not hostile_differences(whole, solve(which, network, **given, **second, resume=file))


def test_a_killed_worker_is_named_and_the_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """SIGKILL in round 25, after a checkpoint in round 20."""
    given: dict[str, Any] = ROUNDS | {"faults": LOST, "checkpoint_every": 20}
    which, network, file = problem("boxed"), NETWORKS["static"], tmp_path / "kept.npz"
    with Workers(2) as workers:

        def kill(moment: Any) -> None:
            if moment.number == 25:
                os.kill(workers.pids()[1], signal.SIGKILL)

        with pytest.raises(Failure, match=r"round 2[56]: worker 1 .* died with centres .*--resume"):
            solve(which, network, **given, checkpoint=file, callback=kill, engine=workers)
    with Workers(3) as workers:
        again = solve(which, network, **given, resume=file, engine=workers)
    assert not hostile_differences(solve(which, network, **given), again)


@pytest.mark.parametrize("name", ["models", "far", "shares"])
def test_what_diverges_is_what_diverges_in_one_process(name: str) -> None:
    """Steps that are far too long: the same end, in the same round."""
    if name == "models":
        which, network, given = problem("open"), ONE_WAY, {"method": Method(alpha=1e4)}
    elif name == "far":  # five workers in a line: the last ones are rounds behind when the first stops
        which, network, given = problem("boxed"), Network.path(NODES), {"faults": LOST, "method": Method(alpha=1e4)}
    else:
        which, network, given = Problem(Burning(NODES), 10.0 * NODES), NETWORKS["static"], {"faults": LOST}
    with Workers(5 if name == "far" else 2, on="threads") as workers:
        alone, spread = played(which, network, workers, **given, every=60)
    assert alone.status == "diverged" and ("models" if name == "far" else name) in alone.reason
    assert not hostile_differences(alone, spread)


class Burning:
    """A cost that one centre cannot answer any more once its share has moved."""

    lo, hi = -1e9, 1e9

    def __init__(self, nodes: int) -> None:
        self.wish = np.linspace(5.0, 15.0, nodes)

    def value(self, x: Any) -> Any:
        return 0.5 * (x - self.wish) ** 2

    def derivative(self, x: Any) -> Any:
        return np.where((self.wish > 14.9) & (x > 11.0) & (x < 14.0), np.nan, x - self.wish)


@pytest.mark.parametrize(
    "what",
    [
        {"crash": {3: 2}},
        {"leave": {3: 2}},
        {"join": {3: 2}},
        {"straggle": {3: 2}},
        {"partition": Partition(frozenset({0, 1}), 2, 4)},
    ],
)
def test_what_happens_to_centres_by_schedule_is_refused_by_name(what: dict[str, Any]) -> None:
    with Workers(2) as workers, refused("need.staying", *what, "--workers"):
        solve(problem("boxed"), NETWORKS["static"], rounds=5, faults=Faults(**what), engine=workers)
    assert workers.crew is None


def test_workers_are_held_to_shares_of_a_lossy_run() -> None:
    """No bit changes, and everyone's CPU is told."""
    with Workers(2, hold=Hold(cpus=1.0)) as workers:
        assert not hostile_differences(*played(problem("coupled"), NETWORKS["static"], workers, faults=LOST))
        assert sorted(workers.usage()) == [0, 1]
