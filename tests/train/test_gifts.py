"""CPU as gifts over links: whole units, exact boxes, and prices that agree, whatever arrives."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from in_memory import InMemory
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.train import Exact, Faults, Latency, LogQuantizer, Network, Problem, Quadratic, UniformQuantizer
from equipoise.train.dynamics.gifts import Gifts
from equipoise.train.exchange.lossy import Lossy
from equipoise.train.region import LinkTable, Region
from equipoise.train.truth import optimal_shares
from refusals import refused


def quadratic(n, seed=0, boxed=True):
    rng = np.random.default_rng(seed)
    ends = {"lo": 2.0, "hi": 32.0} if boxed else {}
    return Problem(Quadratic(rng.uniform(0.5, 3.0, n), rng.uniform(10.0, 60.0, n), **ends), 20.0 * n)


class Cubic:
    """A user's own cost: kernels do not know it. f' = a x^2 - c."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.a, self.c, self.lo, self.hi = rng.uniform(0.5, 2.0, n), rng.uniform(10.0, 200.0, n), 1.0, 40.0

    def value(self, x):
        return self.a * x**3 / 3 - self.c * x

    def derivative(self, x):
        return self.a * x**2 - self.c


def lossy(network, problem, faults, quantizer=None, copies=0.0):
    table = LinkTable.of(network)
    exchange = Lossy(table, faults, copies)
    return exchange, Gifts(exchange.region, table, problem.market(network.n), quantizer or LogQuantizer())


def reliable(network, problem, quantizer=None):
    return lossy(network, problem, Faults(), quantizer)


def play(exchange, half, rounds, begin=0, look=None):
    for number in range(begin, begin + rounds):
        exchange.open(number)
        assert half.say(number)
        exchange.move(number, [half])
        assert half.hear(number)
        if look is not None:
            look(number)
    return half


def audit(half):
    """In Python integers, from the outside."""
    ledger, market, back = half.ledger, half.market, half.table.back
    flying = [int(gave) - int(got) for gave, got in zip(ledger.gave, ledger.got[back], strict=True)]
    assert min(flying) >= 0
    assert sum(map(int, ledger.shares)) + sum(flying) + sum(map(int, ledger.escrow)) == market.budget
    assert min(map(int, ledger.escrow)) >= 0
    assert sum(map(int, ledger.shares)) <= market.budget
    assert (market.low <= ledger.shares).all() and (ledger.shares <= market.high).all()


def gap(half):
    market = half.market
    best = optimal_shares(market.cost, market.budget * market.grid.unit, market.lo, market.hi)
    x = market.grid.floats(half.shares)
    first = market.grid.floats(market.start())
    off = np.sum(market.cost.value(x)) - np.sum(market.cost.value(best.shares))
    return abs(off) / (np.sum(market.cost.value(first)) - np.sum(market.cost.value(best.shares)))


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    st.integers(2, 12),
    st.integers(0, 99),
    st.floats(0.0, 0.8),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
)
def test_every_round_of_any_network_keeps_every_unit(n, seed, loss, delay, jitter, in_turn, copies):
    """Sums, boxes and escrow in integers, with losses, delays, copies and graphs in turn."""
    network = Network.sequence([Network.path(n), Network.complete(n)]) if in_turn else Network.path(n)
    exchange, half = lossy(
        network, quadratic(n, seed), Faults(loss=loss, delay=delay, jitter=jitter, seed=seed), copies=copies
    )
    play(exchange, half, 120, look=lambda _: audit(half))


@pytest.mark.parametrize("quantizer", [LogQuantizer(), LogQuantizer(rho=0.5), Exact()])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_shares_reach_the_centralised_optimum(quantizer, loss):
    exchange, half = lossy(Network.erdos_renyi(20, 0.3, seed=1), quadratic(20), Faults(loss=loss), quantizer)
    play(exchange, half, 600)
    assert gap(half) < 1e-9


@pytest.mark.parametrize("cost", [Cubic(10), Latency(np.linspace(1, 5, 10), lo=1.0, hi=40.0)])
def test_any_convex_cost_will_do(cost):
    """One that kernels know, and one that only Python does."""
    exchange, half = lossy(Network.ring(10), Problem(cost, 120.0), Faults(loss=0.2, delay=2))
    play(exchange, half, 1500, look=lambda _: audit(half))
    assert gap(half) < 1e-9


def test_path_and_complete_in_turn():
    """A link that is not there in a round is a packet that was lost."""
    network = Network.sequence([Network.path(20), Network.complete(20)])
    for exchange, half in (reliable(network, quadratic(20)), lossy(network, quadratic(20), Faults(loss=0.3))):
        play(exchange, half, 300)
        assert gap(half) < 1e-6


def test_copies_and_overtaking_change_nothing_that_counts():
    """A packet that comes twice, or late, credits nothing twice."""
    exchange, half = lossy(Network.ring(8), quadratic(8), Faults(loss=0.2, delay=4), copies=0.5)
    play(exchange, half, 800, look=lambda _: audit(half))
    assert gap(half) < 1e-9


def test_say_reads_its_own_memory_only():
    """Two regions that hand each other decoded messages give the bits of one."""
    network, problem = Network.erdos_renyi(12, 0.4, seed=3), quadratic(12)
    table = LinkTable.of(network)
    everybody = Region.cut(table, np.arange(12))
    alone_exchange, alone = InMemory(table, everybody), Gifts(everybody, table, problem.market(12), LogQuantizer())
    regions = [Region.cut(table, ids) for ids in (np.arange(5), np.arange(5, 12))]
    homes = [region.where.copy() for region in regions]
    parts = [(InMemory(table, region), Gifts(region, table, problem.market(12), LogQuantizer())) for region in regions]
    slot_of = [{int(link): slot for slot, link in enumerate(region.link)} for region in regions]
    for number in range(60):
        play(alone_exchange, alone, 1, begin=number)
        for exchange, half in parts:
            exchange.open(number)
            half.say(number)
        for me, (exchange, half) in enumerate(parts):
            exchange.move(number, [half])
            other = parts[1 - me][1]
            for slot in half.region.outside:  # rows of neighbours that live elsewhere, as the wire brought them
                theirs = slot_of[1 - me][int(table.back[half.region.link[slot]])]
                half.messages[homes[me][slot]] = other.messages[theirs]
        for _, half in parts:
            half.hear(number)
        assert_array_equal(alone.shares, np.concatenate([half.shares for _, half in parts]))
    bits = [sum(int(part.sum()) for part in half.region.bits.values()) for half in (alone, *(h for _, h in parts))]
    assert bits[0] == bits[1] + bits[2]


def test_a_centre_below_nothing_leaves_a_debt_that_is_paid_from_above_lo():
    cost = Quadratic(1.0, [10, 12, 14, -40], lo=[5, 5, 5, -50], hi=50.0)
    exchange, half = lossy(Network.complete(4), Problem(cost, 16.0), Faults())
    play(exchange, half, 60)
    held = half.shares.copy()
    assert held[3] < 0
    claim = half.close(np.array([3]), np.array([0]), np.array([True, True, True, False]))
    assert claim == held[3]
    assert half.shares[0] >= half.ledger.low[0]
    assert int(half.shares.sum()) + int(half.escrow.sum()) == half.market.budget


def test_prices_follow_a_cost_that_moves():
    """The answer to a price is asked anew in every round."""
    problem = quadratic(8)
    exchange, half = reliable(Network.ring(8), problem)
    play(exchange, half, 200)
    cost = problem.cost
    moved = Quadratic(cost.a, cost.c[::-1].copy(), lo=2.0, hi=32.0)
    half.market = Problem(moved, 160.0).market(8)
    half.curve = half.curve._replace(second=moved.c)
    play(exchange, half, 600, begin=200)
    assert gap(half) < 1e-9


def test_quantisers_without_a_relative_precision_are_refused():
    with refused("quantizer.type", "UniformQuantizer", "LogQuantizer"):
        reliable(Network.ring(4), quadratic(4), UniformQuantizer())


def test_networks_that_never_repeat_are_refused():
    with refused("need.repeating", "switching=COUNT"):
        LinkTable.of(Network.erdos_renyi(6, 0.5, switching="fresh"))


def test_bits_of_a_packet():
    """64 and 17 bits of ledger and scale at first contact, 64 and 1 later; a price is 64 bits, then 10."""
    exchange, half = reliable(Network.ring(4), quadratic(4, boxed=False))
    play(exchange, half, 1)
    assert_array_equal(half.region.bits["prices"], 64)
    assert_array_equal(half.region.bits["ledgers"], 64 + 17)
    play(exchange, half, 1, begin=1)
    assert_array_equal(half.region.bits["prices"], 74)
    assert_allclose(half.region.bits["ledgers"], 2 * 64 + 18)
