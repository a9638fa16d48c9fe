"""A run divided over shards gives the bits of a run in one process: everything is compared, by memory."""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, strategies as st
from shard_cases import METHODS, NETWORKS, NODES, differences, problem

from equipoise.engine import Workers
from equipoise.engine.sharded import Shard
from equipoise.engine.shards.restrict import part_of_model, partition
from equipoise.train import LeastSquares, LogQuantizer, Method, Network, Problem, Quadratic, Softmax, solve
from equipoise.train.exchange.rows import packed, unpacked
from equipoise.train.state import State
from equipoise.train.steps import StepWarning
from refusals import refused

PLAIN = ("static", "switching", "fresh")


def played(which: Problem, network: Network, method: Method, shards: int | None, **given: Any) -> Any:
    options = {"rounds": 40, "every": 7, "seed": 3} | given
    if shards is None:
        return solve(which, network, method, **options)
    with Workers(shards, on="threads") as workers:
        return solve(which, network, method, engine=workers, **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", PLAIN)
@pytest.mark.parametrize("kind", ["boxed", "latency"])
def test_one_two_and_four_shards_give_the_bits_of_one_process(kind: str, network: str, method: str) -> None:
    """Boxes that bind, so that limits and amounts cross; every quantiser, both forms of both halves."""
    given = (problem(kind), NETWORKS[network], METHODS[method])
    alone = played(*given, None, rounds=20)
    for shards in (1, 2, 4):
        assert not differences(alone, played(*given, shards, rounds=20))


@pytest.mark.parametrize("network", PLAIN)
@pytest.mark.parametrize("kind", ["open", "coupled", "own"])
def test_open_boxes_batches_that_follow_shares_and_a_users_own_cost_and_model(kind: str, network: str) -> None:
    which = problem(kind)
    alone = played(which, NETWORKS[network], Method(), None, rounds=20)
    for shards in (2, 3):
        assert not differences(alone, played(which, NETWORKS[network], Method(), shards, rounds=20))


@pytest.mark.parametrize("half", ["cpu", "model"])
def test_a_problem_with_one_half(half: str) -> None:
    whole = problem("boxed")
    which = Problem(whole.cost, whole.budget) if half == "cpu" else Problem(model=whole.model)
    alone = played(which, NETWORKS["switching"], Method(), None)
    assert not differences(alone, played(which, NETWORKS["switching"], Method(), 2))


def test_mini_batches_are_drawn_by_global_numbers() -> None:
    which = Problem(model=problem("open").model)
    alone = played(which, NETWORKS["switching"], Method(), None, batch=4)
    assert not differences(alone, played(which, NETWORKS["switching"], Method(), 3, batch=4))


def test_a_budget_that_changes_reaches_the_workers() -> None:
    which = problem("boxed")
    given: dict[str, Any] = {"budgets": {11: 180.0, 23: 230.0}}
    alone = played(which, NETWORKS["switching"], Method(), None, **given)
    assert not differences(alone, played(which, NETWORKS["switching"], Method(), 2, **given))


def test_a_callback_sees_the_same_shares_and_models_in_every_round() -> None:
    which = problem("boxed")

    def rows(shards: int | None) -> list[bytes]:
        seen: list[bytes] = []

        def look(moment: Any) -> None:
            seen.append(moment.shares.tobytes() + moment.models.tobytes())

        played(which, NETWORKS["static"], Method(), shards, callback=look)
        return seen

    spread = rows(2)
    assert len(spread) == 40 and spread == rows(None)


def test_a_checkpoint_of_workers_is_one_of_a_single_process_and_back(tmp_path: Any) -> None:
    """Stopped on two shards, gone on with by one process; and the other way round."""
    which, network = problem("boxed"), NETWORKS["switching"]
    alone = played(which, network, Method(), None)
    for first, then in ((2, None), (None, 4)):
        file = tmp_path / f"{first}.npz"
        played(which, network, Method(), first, checkpoint=file, callback=lambda m: m.number == 17)
        resumed = played(which, network, Method(), then, resume=file)
        assert alone.shares.tobytes() == resumed.shares.tobytes()
        assert alone.models.tobytes() == resumed.models.tobytes()
        assert alone.bits == resumed.bits


def test_a_checkpoint_where_a_worker_has_as_many_centres_as_there_are_graphs(tmp_path: Any) -> None:
    """Twenty centres on four workers, five graphs in turn: five centres must not be taken for the five graphs."""
    which, network, file = (
        problem("boxed"),
        Network.erdos_renyi(NODES, 0.3, switching=NODES // 4),
        tmp_path / "kept.npz",
    )
    alone = played(which, network, Method(), None)
    played(which, network, Method(), 4, checkpoint=file, callback=lambda m: m.number == 17)
    assert not differences(alone, played(which, network, Method(), None, resume=file))


def test_local_steps_are_those_of_the_whole_network() -> None:
    """A path with a little ridge: its ends are pulled least, and a shard in the middle, which has neither, would choose
    another momentum."""
    rng = np.random.default_rng(4)
    signs = [(rng.standard_normal((8, 3)), rng.integers(0, 2, 8)) for _ in range(NODES)]
    which, network = Problem(model=Softmax(signs, reg=1e-3)), Network.path(NODES)
    alone = played(which, network, Method(), None)
    assert alone.steps.links["local_steps"] > 1
    assert not differences(alone, played(which, network, Method(), 3))


def test_a_run_that_diverges_ends_in_the_same_state() -> None:
    """A step far past its limit: shards notice at different moments, and the last round is played again by one."""
    which = problem("open")
    method = Method(quantizer=LogQuantizer(mode="node"), step=50.0, momentum=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)
        alone = played(which, NETWORKS["static"], method, None, rounds=400)
        spread = played(which, NETWORKS["static"], method, 3, rounds=400)
    assert alone.status == spread.status == "diverged"
    assert not differences(alone, spread)


def test_bytes_on_the_wire_are_the_bits_that_are_counted() -> None:
    """Two shards of a ring, one node on each side of either cut: what crosses is what is counted for those links, each part
    of a packet rounded up to bytes."""
    which, network, rounds = problem("boxed"), Network.ring(NODES), 40
    with Workers(2, on="threads") as workers:
        run = solve(which, network, Method(), rounds=rounds, seed=3, engine=workers)
        state, sent = workers.state, workers.wire_bytes
        bits = run.link_bits
        crossing = np.flatnonzero(state.shard_of[bits.senders] != state.shard_of[bits.receivers])
        before = dict(zip(*state.overhead.pairs(), strict=True))
        told = sum(before[s * NODES + r] for s, r in zip(bits.senders[crossing], bits.receivers[crossing], strict=True))
        counted = int(bits.bits[crossing].sum()) - told - 16 * len(crossing)  # first elasticities: at the start
    assert len(sent) == rounds and len(crossing) == 4
    padding = 2 * rounds * 8 * (8 + 4 * 2)  # two directions; up to eight parts of a packet, and lengths of its streams
    assert counted <= 8 * sum(sent) <= counted + padding


def test_on_a_static_network_a_message_goes_to_each_shard_once() -> None:
    """A centre of a star speaks to all; with two shards its message crosses once, whatever the number of its links."""
    leaves = 39
    cost = Quadratic(np.linspace(1, 2, leaves + 1), 3.0)
    with Workers(2, on="threads") as workers:
        run = solve(Problem(cost, 100.0), Network.star(leaves + 1), Method(), rounds=30, engine=workers)
        assert 8 * sum(workers.wire_bytes) < run.bits / 1.5


def test_a_worker_holds_its_own_data_and_no_other() -> None:
    """The arrays that a shard is sent hold its nodes' samples, and there is no way from it to the others'."""
    rng = np.random.default_rng(0)
    marks = [float(f"{1000 + k}.5") for k in range(NODES)]
    data = [
        (np.column_stack([rng.standard_normal((6, 2)), np.full(6, marks[k])]), np.arange(6.0)) for k in range(NODES)
    ]
    signs = [(X, (y > 2).astype(int)) for X, y in data]
    for model in (LeastSquares(data, reg=1.0), Softmax(signs, reg=1.0)):
        state = State(Problem(model=model), NETWORKS["static"], Method())
        shard_of = partition(NETWORKS["static"], 2)
        for shard in range(2):
            sent = cloudpickle.dumps(Shard(state, shard, shard_of))
            for node in range(NODES):
                assert (np.float64(marks[node]).tobytes() in sent) == (shard_of[node] == shard)


@pytest.mark.parametrize("kind", ["boxed", "open", "latency"])
def test_a_part_of_a_model_has_the_whole_models_gradients(kind: str) -> None:
    model = problem(kind).model
    nodes = np.array([1, 4, 5, 17])
    part, Y = part_of_model(model, nodes), np.random.default_rng(1).standard_normal((NODES, model.size))
    assert part.gradients(Y[nodes]).tobytes() == model.gradients(Y)[nodes].tobytes()
    rows = [np.arange(3) for _ in range(NODES)]
    for mine, whole in zip(part.sampled(Y[nodes], rows[:4]), model.sampled(Y, rows), strict=True):
        assert mine.tobytes() == whole[nodes].tobytes()
    losses = sum(model.loss(int(i), Y[0]) for i in nodes)
    assert part.total(Y[0])[0] == pytest.approx(losses, rel=1e-12)


@given(st.lists(st.integers(-511, 511), max_size=40))
def test_codes_come_back_as_they_were_packed(numbers: list[int]) -> None:
    """Ten bits each, the first of them the sign."""
    packet = packed(np.array(numbers, dtype=np.int64), 10)
    assert len(packet) == -(-10 * len(numbers) // 8)
    assert unpacked(packet, len(numbers), 10).tolist() == numbers


def test_a_grid_is_cut_along_few_links() -> None:
    """400 nodes in a square numbered at random: two halves of it need a cut of about 20 links, not of hundreds."""
    side = 20
    order = np.random.default_rng(0).permutation(side * side)
    pairs = [(order[i * side + j], order[i * side + j + 1]) for i in range(side) for j in range(side - 1)]
    pairs += [(order[i * side + j], order[(i + 1) * side + j]) for i in range(side - 1) for j in range(side)]
    shard = partition(Network.from_edges(pairs, n=side * side), 2)
    assert np.bincount(shard).tolist() == [200, 200]
    assert sum(shard[a] != shard[b] for a, b in pairs) < 45


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"count": 0}, ("workers.range", 0)),
        ({"on": "moon"}, ("unknown", "'moon'")),
        ({"address": "a:1"}, ("workers.address", "on='ray'")),
    ],
)
def test_workers_that_cannot_be_are_refused(given: dict[str, Any], refusal: tuple[object, ...]) -> None:
    with refused(*refusal):
        Workers(**given)


def test_more_workers_than_centres_are_refused() -> None:
    with refused("workers.range", 21, 20):
        played(problem("boxed"), NETWORKS["static"], Method(), 21)


@pytest.mark.parametrize("batch", [None, 8])
def test_a_net_of_torch_on_shards(batch: int | None) -> None:
    """Slices as long as the whole's, and a module for each part: sums are the same here too."""
    if importlib.util.find_spec("torch") is None and not os.environ.get("CI"):
        pytest.skip("torch is not installed: pip install 'equipoise[torch]'")
    from torch import nn

    from equipoise.train import TorchModel

    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((int(rng.integers(10, 60)), 5)), np.arange(0)) for _ in range(8)]
    shards = [(X, (X[:, 0] > 0).astype(int)) for X, _ in data]
    net = TorchModel(lambda: nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2)), shards)
    which = Problem(model=net)
    alone = played(which, Network.ring(8), Method(), None, rounds=10, batch=batch)
    for workers in (2, 4):
        assert not differences(alone, played(which, Network.ring(8), Method(), workers, rounds=10, batch=batch))
