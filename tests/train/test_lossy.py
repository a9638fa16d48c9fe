"""Learning, packets and members on networks that lose: loss only delays, and survivors find their own optimum."""

import numpy as np
import pytest
from fault_cases import CpuTruth, ModelTruth, draw_shards
from hypothesis import given, settings, strategies as st
from in_memory import InMemory
from numpy.testing import assert_array_equal

from equipoise.train import Faults, LeastSquares, Method, Network, Partition, Problem, Quadratic, solve
from equipoise.train.dynamics.links import Links
from equipoise.train.dynamics.tracking import Tracking
from equipoise.train.exchange.lossy import HEADER_BITS, Lossy
from equipoise.train.hostile.state import HostileState
from equipoise.train.region import LinkTable, Region
from equipoise.train.sampler import Sampler
from refusals import refused


def shards(n, m=3, seed=0):
    return draw_shards(np.random.default_rng(seed), n, m)


def rounds_needed(network, data, loss, most=1500, delay=0):
    model = LeastSquares(data)
    faults = Faults(loss=loss, delay=delay, seed=1)
    run = solve(Problem(model=model), network, faults=faults, rounds=most, target=1e-8, every=1)
    assert run.status == "converged"
    return run.rounds


@pytest.mark.parametrize("m", [1, 3, 10])
def test_models_reach_the_pooled_optimum(m):
    """Any number of parameters, by the same loop."""
    data = shards(12, m)
    network = Network.erdos_renyi(12, 0.4, seed=1)
    run = solve(Problem(model=LeastSquares(data)), network, faults=Faults(loss=0.3), rounds=800)
    assert ModelTruth(data, np.ones(12, bool)).relative(run.models) < 1e-10
    assert run.certificate().passed


def test_loss_only_delays():
    """Half of all packets lost: fewer than three times the rounds of none, on a random network and on a ring."""
    for network in (Network.erdos_renyi(20, 0.3, seed=0), Network.ring(20)):
        data = shards(20)
        whole, half = (rounds_needed(network, data, loss) for loss in (0.001, 0.5))
        assert whole <= half < 3 * whole


def test_path_and_complete_in_turn():
    network = Network.sequence([Network.path(20), Network.complete(20)])
    assert rounds_needed(network, shards(20), 0.3) < 300


def test_links_say_what_they_hold_themselves():
    """Two regions that hand each other decoded messages give the bits of one."""
    network, model = Network.erdos_renyi(12, 0.4, seed=3), LeastSquares(shards(12))
    table, start = LinkTable.of(network), np.zeros((12, 3))
    everybody = Region.cut(table, np.arange(12))
    steepest = float(model.smoothness().max())

    class Part(Sampler):
        """Gradients of some nodes."""

        def __init__(self, ids):
            super().__init__(model)
            self.ids = ids

        def at(self, Y, number):
            whole = np.zeros((12, 3))
            whole[self.ids] = Y
            return model.gradients(whole)[self.ids]

    def half_of(region):
        return Links(region, table, Part(region.ids), Method(), steepest, start[region.ids])

    alone, whole = half_of(everybody), InMemory(table, everybody)
    regions = [Region.cut(table, ids) for ids in (np.arange(5), np.arange(5, 12))]
    homes, parts = [region.where.copy() for region in regions], [half_of(region) for region in regions]
    exchanges = [InMemory(table, region) for region in regions]
    for number in range(40):
        whole.open(number)
        alone.say(number)
        whole.move(number, [alone])
        for exchange, part in zip(exchanges, parts, strict=True):
            exchange.open(number)
            part.say(number)
        for me, part in enumerate(parts):
            exchanges[me].move(number, [part])
            for slot in part.region.outside:
                link = table.back[part.region.link[slot]]
                theirs = int(np.flatnonzero(regions[1 - me].link == link)[0])
                part.said[homes[me][slot]] = parts[1 - me].said[theirs]
        alone.hear(number)
        for part in parts:
            part.hear(number)
        assert_array_equal(alone.models, np.concatenate([part.models for part in parts]))


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.floats(0.0, 0.9), st.integers(0, 6), st.booleans(), st.sampled_from([0.0, 0.4]), st.integers(0, 999))
def test_messages_build_on_what_their_receiver_holds(loss, delay, jitter, copies, seed):
    """Acknowledged packets are among those received; what is heard is never older than what was heard before; a row that a
    message builds on is not the one it writes."""
    table = LinkTable.of(Network.erdos_renyi(8, 0.5, seed=seed, switching=2))
    exchange = Lossy(table, Faults(loss=loss, delay=delay, jitter=jitter, seed=seed), copies)
    region, held, last = exchange.region, {}, np.full(len(table), -1)
    for number in range(80):
        exchange.open(number)
        assert (region.base != region.target)[region.target >= 0].all()
        for link in np.flatnonzero(region.acked >= 0):
            assert int(region.acked[link]) in held[link]
        exchange.move(number, [])
        for slot in np.flatnonzero(region.fresh):
            held.setdefault(table.back[slot], set()).add(int(exchange.newest[slot]))
        assert (exchange.newest >= last).all()
        assert (exchange.newest[region.fresh] > last[region.fresh]).all()
        last = exchange.newest.copy()
    assert int(region.bits["headers"].sum()) == HEADER_BITS * exchange.packets


def test_survivors_on_both_halves_of_a_split_and_after_it():
    """A crash, a leave, a join and a split on one network: at the end everybody's optimum, by an outsider's arithmetic."""
    n, rng = 12, np.random.default_rng(4)
    cost = Quadratic(rng.uniform(0.5, 3.0, n), rng.uniform(0, 40, n), lo=1.0, hi=60.0)
    data = shards(n, seed=4)
    faults = Faults(
        loss=0.3, delay=1, crash={3: 30}, leave={5: 50}, join={7: 40}, partition=Partition(range(6), 70, 200), notice=4
    )
    problem = Problem(cost, 12.0 * n, LeastSquares(data))
    run = solve(problem, Network.erdos_renyi(n, 0.5, seed=2), faults=faults, rounds=1500)
    there = np.ones(n, bool)
    there[[3, 5]] = False
    assert_array_equal(run.present, there)
    assert (run.worst.budget, run.worst.over, run.worst.box) == (0.0, 0.0, 0.0)
    assert CpuTruth(cost, 12.0 * n, there).relative(run.shares) < 1e-9
    assert ModelTruth(data, there).relative(run.models) < 1e-9
    assert run.certificate().passed


def test_a_straggler_that_sleeps_longer_than_packets_are_kept_is_heard_and_hears():
    """Every 30th round: newer packets have long overwritten those that wait for it elsewhere."""
    data = shards(6)
    faults = Faults(loss=0.2, straggle={2: 30})
    run = solve(Problem(model=LeastSquares(data)), Network.complete(6), faults=faults, rounds=4000)
    assert ModelTruth(data, np.ones(6, bool)).relative(run.models) < 1e-8


def test_networks_that_never_repeat_are_refused_with_the_way_out():
    network = Network.erdos_renyi(8, 0.4, switching="fresh")
    with refused("need.repeating", "switching=COUNT"):
        solve(Problem(model=LeastSquares(shards(8))), network, faults=Faults(loss=0.1), rounds=10)


def ill_conditioned(n=10, seed=0):
    """Curvatures of 1 and of 1e-3, and a ridge."""
    rng = np.random.default_rng(seed)
    scale = np.geomspace(1.0, 0.03, 4)
    return [(rng.standard_normal((12, 4)) * scale, rng.standard_normal(12)) for _ in range(n)]


def test_ill_conditioned_models_are_learnt_by_trackers():
    """Momentum pays there; where the data itself is well conditioned a small ridge changes nothing."""
    for data, kind in ((ill_conditioned(), Tracking), (shards(10), Links)):
        problem = Problem(model=LeastSquares(data, reg=1e-3))
        state = HostileState(problem, Network.complete(10), Method(), Faults(loss=0.2), rounds=10)
        assert isinstance(state.learning, kind)


def test_trackers_bear_crashes_joins_and_splits():
    """Sum of trackers + in flight = sum of gradients in every row, and the survivors' optimum at the end."""
    model = LeastSquares(ill_conditioned(), reg=1e-3)
    faults = Faults(
        loss=0.2, delay=1, crash={3: 30}, join={5: 50}, partition=Partition({0, 1}, 80, 140), straggle={7: 2}
    )
    network = Network.erdos_renyi(10, 0.6, seed=1)
    run = solve(Problem(model=model), network, faults=faults, rounds=4000, target=1e-6, every=10)
    assert run.status == "converged"
    assert run.history["tracker"].max() < 1e-12
    assert run.certificate().passed
    assert not run.present[3]


def test_a_resumed_run_with_trackers_repeats_bit_for_bit(tmp_path):
    model, file = LeastSquares(ill_conditioned(), reg=1e-3), tmp_path / "k.npz"
    given = {"rounds": 90, "every": 7, "faults": Faults(loss=0.3, delay=2, crash={4: 40}, straggle={2: 3})}
    network = Network.erdos_renyi(10, 0.4, switching=3, seed=1)
    whole = solve(Problem(model=model), network, **given)
    solve(Problem(model=model), network, **given, checkpoint=file, callback=lambda moment: moment.number == 43)
    rest = solve(Problem(model=model), network, **given, resume=file)
    assert_array_equal(rest.models, whole.models)
    assert rest.bits == whole.bits
