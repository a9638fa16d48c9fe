"""CPU over links that return: the centralised optimum, whole units in every round, and nodes that know what they heard."""

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.train import Exact, Latency, LogQuantizer, Method, Network, Problem, Quadratic, solve
from equipoise.train.dynamics import _price_kernels as kernels
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics.prices import Prices
from equipoise.train.state import State

SHAPES = {
    "path": Network.path,
    "ring": Network.ring,
    "grid": Network.grid,
    "star": Network.star,
    "complete": Network.complete,
    "er": lambda n, **more: Network.erdos_renyi(n, 0.3, **more),
    "geometric": lambda n, **more: Network.geometric(n, **more),
}


class Growing:
    """A user's cost, f = k (x log(x / c) - x): its slope is k log(x / c), and nothing else is told."""

    def __init__(self, k, c, lo, hi):
        self.k, self.c, self.nodes = k, c, len(k)
        self.lo, self.hi = np.full(len(k), lo), np.full(len(k), hi)

    def value(self, x):
        return self.k * (x * np.log(x / self.c) - x)

    def derivative(self, x):
        return self.k * np.log(x / self.c)


def cost_of(kind, n, seed, boxed=True):
    """Nodes that differ by a factor of about six; boxed ones have a third of the nodes at a bound."""
    rng = np.random.default_rng(seed)
    a, c = rng.uniform(0.5, 3, n), rng.uniform(10, 60, n)
    if kind == "quadratic":
        return Quadratic(a, c, lo=15.0, hi=35.0) if boxed else Quadratic(a, c)
    lo, hi = (20.0, 32.0) if boxed else (0.5, 400.0)
    return Latency(100 * a, c / 30, 1e-4, lo=lo, hi=hi) if kind == "latency" else Growing(a, c, lo, hi)


def best_shares(cost, budget, n):
    """By bisection on the price, and for each price on every share: no code of the package."""
    lo, hi = (np.broadcast_to(np.clip(end, -1e4, 1e4), n) for end in (cost.lo, cost.hi))

    def at(price):
        left, right = lo.copy(), hi.copy()
        for _ in range(60):
            middle = 0.5 * (left + right)
            above = cost.derivative(middle) > price
            left, right = np.where(above, left, middle), np.where(above, middle, right)
        return 0.5 * (left + right)

    low, high = float(cost.derivative(lo).min()), float(cost.derivative(hi).max())
    for _ in range(90):
        price = 0.5 * (low + high)
        low, high = (low, price) if at(price).sum() > budget else (price, high)
    return at(price)


def ends_at_the_optimum(problem, network, method=None, rounds=3000, target=1e-12):
    """A run that has converged, with the shares of a bisection and every round inside."""
    run = solve(problem, network, method, rounds=rounds, target=target)
    assert run.method.cpu in ("links", "markets")  # narrow and pinned boxes want markets
    assert run.status == "converged"
    assert (run.worst.budget, max(run.worst.box, 0.0)) == (0, 0.0)
    assert run.shares == pytest.approx(best_shares(problem.cost, problem.budget, network.n), abs=2e-4)
    return run


@pytest.mark.parametrize("kind", ["quadratic", "latency", "own"])
@pytest.mark.parametrize("boxed", [False, True], ids=["open", "boxed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shares_are_those_of_a_bisection(shape, boxed, kind):
    """Sixteen nodes, three kinds of cost, boxes at work or not, on a graph that stays and on three in turn."""
    problem = Problem(cost_of(kind, 16, 1, boxed), 16 * 25.0)
    ends_at_the_optimum(problem, SHAPES[shape](16, seed=2) if shape in ("er", "geometric") else SHAPES[shape](16))
    if shape != "complete":
        ends_at_the_optimum(problem, SHAPES[shape](16, switching=3, seed=2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", ["path", "ring", "grid", "star"])
def test_a_graph_and_the_complete_one_in_turn(shape, seed):
    """Degrees that jump between 1 and 15 from round to round, boxes at work."""
    network = Network.sequence([SHAPES[shape](16), Network.complete(16)])
    ends_at_the_optimum(Problem(cost_of("quadratic", 16, seed), 400.0), network)


@pytest.mark.parametrize("seed", range(6))
def test_two_random_graphs_in_turn(seed):
    """Sparse and dense, boxed and open, quadratic and latency."""
    pair = [Network.erdos_renyi(16, p, seed=10 * seed + k) for k, p in enumerate((0.15, 0.15 + 0.1 * seed))]
    kind = ("quadratic", "latency")[seed % 2]
    ends_at_the_optimum(Problem(cost_of(kind, 16, seed, boxed=seed < 4), 400.0), Network.sequence(pair))


# every round


def played(problem, network, rounds, method=None, budgets=None):
    """The state after each round, stepped here and not by solve."""
    state = State(problem, network, method or Method(), budgets=budgets)
    for number in range(rounds):
        if budgets and number in budgets:
            state.rebudget(budgets[number], state.meet(number))
        assert state.advance(state.meet(number), number) is None
        yield state


@pytest.mark.filterwarnings("ignore")  # pinned neighbours that cut the network are warned about
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1e-3, 0.5, 20.0]), st.booleans())
def test_shares_are_whole_units_that_sum_to_the_budget_inside_their_boxes(seed, graphs, width, latency):
    """Boxes from narrow to wide, some of no width, any graph: Python integers, every round."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 14))
    lo = rng.uniform(1, 20, n)
    hi = lo + width * rng.uniform(0, 1, n) * (rng.random(n) < 0.9)
    a, budget = rng.uniform(0.5, 300, n), float(lo.sum() + rng.uniform(0.05, 0.95) * (hi - lo).sum())
    cost = Latency(a, lo=lo, hi=hi) if latency else Quadratic(a, rng.uniform(0, 60, n), lo=lo, hi=hi)
    network = Network.sequence([Network.erdos_renyi(n, 0.4, seed=seed + k) for k in range(graphs)])
    for state in played(Problem(cost, budget), network, 60):
        shares = [int(units) for units in state.allocation.units]
        assert sum(shares) == state.market.budget
        box = zip(state.market.low, shares, state.market.high, strict=True)
        assert all(int(low) <= x <= int(high) for low, x, high in box)


def test_a_budget_that_changes_is_met_in_that_round():
    """Up and down by a third, boxes at work: whole units, and the optimum of each budget in the end."""
    cost, budgets = cost_of("quadratic", 12, 3), {40: 360.0, 200: 240.0}
    network, now = Network.grid(12), 300.0
    for number, state in enumerate(played(Problem(cost, 300.0), network, 800, budgets=budgets)):
        now = budgets.get(number, now)
        units = [int(u) for u in state.allocation.units]
        assert sum(units) == round(now / state.market.grid.unit)
        assert all(low <= u <= high for low, u, high in zip(state.market.low, units, state.market.high, strict=True))
        if number in (199, 799):
            assert state.shares == pytest.approx(best_shares(cost, now, 12), abs=1e-3)


@pytest.mark.parametrize("network", [Network.star(8), Network.path(8)], ids=repr)
def test_pinned_nodes_pass_cpu_on(network):
    """lo = hi at nodes that all others are apart without: they never move, and the others are at one price."""
    rng = np.random.default_rng(4)
    a, c, lo, hi = rng.uniform(0.5, 3, 8), rng.uniform(10, 60, 8), np.full(8, -200.0), np.full(8, 200.0)
    for node in (0, 3) if "path" in repr(network) else (0,):
        lo[node] = hi[node] = 7.25
    run = ends_at_the_optimum(Problem(Quadratic(a, c, lo=lo, hi=hi), 200.0), network)
    free = lo < hi
    assert run.shares[~free].tolist() == [7.25] * int((~free).sum())
    assert np.ptp((a * (run.shares - c))[free]) < 1e-3


def test_pinned_nodes_pass_cpu_on_where_graphs_take_turns():
    """Three nodes, the first pinned at 5 and hearing one of the others in each graph: by hand (5, -2.5, 27.5)."""
    network = Network.sequence([Network.from_edges([(0, 1), (1, 2)]), Network.from_edges([(0, 2), (1, 2)])])
    cost = Quadratic(1.0, [0.0, 0.0, 30.0], lo=[5.0, -100.0, -100.0], hi=[5.0, 100.0, 100.0])
    run = solve(Problem(cost, 30.0), network, rounds=2000)
    assert run.shares == pytest.approx([5.0, -2.5, 27.5], abs=1e-3)


@pytest.mark.parametrize(
    ("wish", "lo", "hi", "best"),
    [
        ([0, 20, -50, 60], [0, 20, 5, 0], [80, 20, 80, 80], [0, 20, 5, 60]),
        ([0, 20, -50, 20, 60], [0, 20, 5, 20, 0], [80, 20, 80, 20, 80], [0, 20, 5, 20, 60]),
    ],
    ids=["pinned beside one at its bound", "one at its bound between two pinned"],
)
def test_pinned_nodes_pass_cpu_on_to_nodes_at_their_bounds(wish, lo, hi, best):
    """A path that stays, no two pinned nodes side by side, so nothing is warned of. By hand: all at a wish or a bound."""
    problem = Problem(Quadratic(1.0, np.array(wish, float), lo=np.array(lo, float), hi=np.array(hi, float)), sum(best))
    run = solve(problem, Network.path(len(wish)), rounds=6000)
    assert run.shares == pytest.approx(best, abs=1e-2)


# what is said


def test_bits_by_hand():
    """Path of three, nobody's elasticity changes. At first contact 64 bits of price and 16 of elasticity, then a code a
    round; and in every round a flag that the elasticity is the same and, with boxes, one that all can be borne."""
    rounds, a, c = 40, 1.0, np.array([20.0, 25.0, 30.0])
    for quantizer, code in (
        (LogQuantizer(), 10),
        (LogQuantizer(rho=0.05), 12),
        (LogQuantizer(rho=1.0), 7),
        (Exact(), 64),
    ):
        method = Method(quantizer=quantizer)
        bare = solve(Problem(Quadratic(a, c), 75.0), Network.path(3), method, rounds=rounds)
        assert bare.link_bits.bits.tolist() == [64 + 16 + (rounds - 1) * code + rounds] * 4
        boxed = solve(Problem(Quadratic(a, c, lo=-1e3, hi=1e3), 75.0), Network.path(3), method, rounds=rounds)
        assert boxed.link_bits.bits.tolist() == [64 + 16 + (rounds - 1) * code + 2 * rounds] * 4
        assert boxed.bit_parts == {"prices": boxed.bits, "overhead": 0}


def test_two_graphs_in_turn_have_a_first_contact_each():
    """A link of both graphs says a float and an elasticity in each, codes afterwards; one of a single graph meets half as
    often."""
    network = Network.sequence([Network.path(3), Network.complete(3)])
    run = solve(Problem(Quadratic(1.0, [20.0, 25.0, 30.0]), 75.0), network, rounds=20)
    once = 64 + 16 + 9 * 10 + 10
    links = zip(run.link_bits.senders, run.link_bits.receivers, strict=True)
    expected = [once if {int(i), int(j)} == {0, 2} else 2 * once for i, j in links]
    assert run.link_bits.bits.tolist() == expected


@pytest.mark.parametrize(("rho", "digits"), [(0.125, 4), (0.05, 6), (1.0, 1)])
def test_what_is_heard_moves_by_a_number_of_few_digits(rho, digits):
    """From round to round: was + (a number of that many binary digits) is to the bit what is heard now, and within half a
    digit of the price."""
    problem = Problem(cost_of("quadratic", 12, 5), 300.0)
    before, moved = None, 0
    for number, state in enumerate(
        played(problem, Network.erdos_renyi(12, 0.3), 120, Method(quantizer=LogQuantizer(rho=rho)))
    ):
        heard = state.allocation.talk.price[0, :-1].copy()
        if number > 0:
            for now, was in zip(heard.tolist(), before.tolist(), strict=True):
                part, exponent = math.frexp(now - was)
                step = math.ldexp(round(math.ldexp(part, digits)), exponent - digits)
                assert was + step == now
                moved += step != 0
        before = heard
    assert moved > 500


def test_exact_prices_are_heard_as_they_are():
    """Without a quantiser what neighbours hold is the price itself, 64 bits a round."""
    *_, state = played(Problem(cost_of("latency", 9, 2), 225.0), Network.ring(9), 30, Method(quantizer=Exact()))
    last = state.allocation.node.price.copy()
    state.allocation.say(30)
    assert np.array_equal(state.allocation.talk.price[0, :-1], last)


# nodes alone


def alone(state, node):
    """The half of one node: its own cost and box, and of its neighbours what they said of themselves at first contact."""
    whole, market, one = state.allocation, state.market, np.array([node])
    layout = Layout(state.table, one)
    cost, parts = market.cost, {}
    for name in ("a", "c", "work", "speed", "energy", "lo", "hi"):
        if hasattr(cost, name):
            parts[name] = np.broadcast_to(getattr(cost, name), len(market.lo))[one]
    mine = dataclasses.replace(
        market,
        cost=type(cost)(**parts),
        **{name: getattr(market, name)[one] for name in ("lo", "hi", "low", "high", "curvature", "stiffness")},
    )
    rows = whole.layout.row[layout.ghosts]
    ghosts = np.column_stack([whole.node.told[rows], whole.pinned[rows]])
    return Prices(layout, mine, state.method.quantizer, state.gap, market.start()[one], ghosts=ghosts, rule=whole.rule)


def deliver(halves, node, number):
    """Packets of the neighbours: a price or its code, an elasticity if new, parts that their boxes bear if limited."""
    half = halves[node]
    talk, layout, t = half.talk, half.layout, number % half.layout.graphs
    for ghost in range(1, layout.rows):
        other = halves[int(layout.nodes[ghost])]
        if other.layout.table.turn(number)[_link(layout.table, int(layout.nodes[ghost]), node)]:
            if number < layout.graphs:
                talk.price[t, ghost] = other.talk.price[t, 0]
                half.set_first_floors(t, [ghost])
            else:
                kernels.hear_codes(other.talk.codes[:1].astype(np.int64), np.array([ghost]), talk, t, half.mantissa)
            if other.talk.elastic[t, 0] != talk.elastic[t, ghost]:
                talk.elastic[t, ghost] = other.talk.elastic[t, 0]
                talk.changed[talk.news[kernels.CHANGED]] = ghost
                talk.news[kernels.CHANGED] += 1
            if _limited(other):
                talk.limited[talk.news[kernels.LIMITED]] = ghost
                talk.news[kernels.LIMITED] += 1
                half.boxes.out_part[ghost], half.boxes.in_part[ghost] = other.boxes.out_part[0], other.boxes.in_part[0]


def _link(table, sender, receiver):
    return int(np.flatnonzero((table.senders == sender) & (table.receivers == receiver))[0])


def _limited(half):
    return half.talk.news[kernels.LIMITED] > 0 and half.talk.limited[0] == 0


def decide(half, t):
    """A limited node decides what moves on its links."""
    if half.talk.news[kernels.LIMITED]:
        flat = half.weights[t].reshape(-1)
        kernels.decide(half.rule, half.layout.paths, half.talk, half.boxes, half.node.shares, flat, t)
        half.talk.news[kernels.DECIDED] = 1


def tell_decisions(halves, node, t):
    """The second exchange: what neighbours have decided for the links to this node."""
    half = halves[node]
    for e, link in enumerate(half.layout.entry_links[t] if half.rule.boxed else ()):
        other = halves[int(half.layout.table.receivers[link])]
        there = np.flatnonzero(other.layout.entry_links[t] == half.layout.table.back[link])[0]
        half.boxes.abroad[half.layout.paths.back[t, e] - half.layout.paths.links[t]] = other.boxes.moved[there]


@pytest.mark.parametrize("case", range(8))
def test_nodes_alone_do_what_the_whole_does(case):
    """Each node with its own memory and its neighbours' packets only: the same shares, plans and prices, to the bit, while
    boxes hold back and elasticities change."""
    kind, graphs = ("quadratic", "latency")[case % 2], 1 + 2 * (case // 2 % 2)
    boxed = case < 6
    network = Network.erdos_renyi(10, 0.35, switching=graphs if graphs > 1 else 0, seed=case)
    state = State(Problem(cost_of(kind, 10, case, boxed), 250.0), network, Method())
    whole, held = state.allocation, 0
    halves = [alone(state, node) for node in range(10)]
    for number in range(120):
        t = number % graphs
        state.advance(state.meet(number), number)
        for half in halves:
            half.say(number)
        held += sum(map(_limited, halves))
        for node in range(10):
            deliver(halves, node, number)
        for half in halves:
            decide(half, t)
        for node in range(10):
            tell_decisions(halves, node, t)
        for half in halves:
            assert half.hear(number)
        for name in ("shares", "plan", "price"):
            mine = np.array([getattr(half.node, name)[0] for half in halves])
            assert np.array_equal(mine, whole.layout.keep(getattr(whole.node, name))), (number, name)
    bits = np.zeros(len(state.table), dtype=np.int64)
    for half in halves:
        bits[half.layout.links] += half.link_bits()
    assert np.array_equal(bits, whole.link_bits())
    assert held > 0 or not boxed


@pytest.mark.parametrize("kind", ["quadratic", "latency", "own"])
@pytest.mark.parametrize("graphs", [1, 3])
def test_a_run_resumes_from_memory(kind, graphs):
    """Another state that takes up what a checkpoint holds in round 25, with CPU held back and owed: the same bits after."""
    network = Network.path(9) if graphs == 1 else Network.ring(9, switching=3)
    problem = Problem(cost_of(kind, 9, 7), 9 * 24.0)
    states = [State(problem, network, Method()) for _ in range(2)]
    for number in range(80):
        if number == 25:
            kept = {name: np.array(value, copy=True) for name, value in states[0].memory().items()}
            states[1].restore(kept)
            assert np.abs(kept["cpu/node/plan"] - kept["cpu/node/shares"]).max() > 0
        for state in states if number >= 25 else states[:1]:
            state.advance(state.meet(number), number)
        if number >= 25:
            for name, value in states[0].memory().items():
                assert np.array_equal(value, states[1].memory()[name]), (number, name)


def test_many_rounds_at_once_are_the_same_rounds():
    """solve plays bursts in compiled code; round by round gives the same bits, also of traffic."""
    problem, network = Problem(cost_of("latency", 12, 3), 300.0), Network.grid(12)
    run = solve(problem, network, rounds=150)
    *_, state = played(problem, network, 150)
    assert np.array_equal(run.shares, state.shares)
    assert run.link_bits.bits.tolist() == state.link_bits().bits.tolist()


# what must not matter


@pytest.mark.parametrize("rho", [0.05, 0.125, 0.3, 0.6, 1.0])
@pytest.mark.parametrize(
    "network", [Network.ring(12), Network.erdos_renyi(12, 0.3, switching=4)], ids=["ring", "er in turn"]
)
def test_every_precision_of_codes_converges(network, rho):
    """From 12 bits a number to 7."""
    problem = Problem(cost_of("quadratic", 12, 4), 300.0)
    ends_at_the_optimum(problem, network, Method(quantizer=LogQuantizer(rho=rho)), rounds=3000)


@pytest.mark.parametrize("kind", ["quadratic", "latency"])
def test_costs_scaled_by_a_power_of_two_give_the_same_shares(kind):
    """Prices scale, elasticities move by whole octaves, and codes with them: the same bits."""
    shares = []
    for scale in (2.0**-10, 1.0, 2.0**10):
        cost = cost_of(kind, 12, 6)
        if kind == "quadratic":
            cost = Quadratic(scale * cost.a, cost.c, lo=cost.lo, hi=cost.hi)
        else:
            cost = Latency(scale * cost.work, cost.speed, scale * cost.energy, lo=cost.lo, hi=cost.hi)
        shares.append(solve(Problem(cost, 300.0), Network.erdos_renyi(12, 0.3, seed=2), rounds=70).shares)
    assert np.array_equal(shares[0], shares[1])
    assert np.array_equal(shares[2], shares[1])


@pytest.mark.parametrize("lo", [1e-4, 1e-3, 0.1])
def test_a_bound_where_the_cost_is_very_steep_costs_no_rounds(lo):
    """Latency costs, whose curvature at lo is up to 1e14 times that at the optimum: 100 rounds at most."""
    cost = Latency(np.geomspace(100, 1000, 12), lo=lo, hi=100.0)
    for network in (Network.erdos_renyi(12, 0.4, seed=0), Network.erdos_renyi(12, 0.4, seed=0, switching=5)):
        run = solve(Problem(cost, 240.0), network, rounds=100, target=1e-6)
        assert run.status == "converged"


CODE = """
import numpy as np
from equipoise.train import LeastSquares, Network, Problem, Quadratic, solve
rng = np.random.default_rng(0)
cost = Quadratic(rng.uniform(0.5, 3, 5), rng.uniform(10, 60, 5), lo=20.0, hi=32.0)
model = LeastSquares([(X, X @ [1.0, -2.0]) for X in rng.standard_normal((5, 4, 2))])
run = solve(Problem(cost, 125.0, model), Network.path(5, switching=2), rounds=12)
print(run.method.cpu, run.method.learning, run.shares.tolist(), run.models.tolist(), run.bits)
"""


def test_a_small_run_is_the_same_without_compiling():
    """NUMBA_DISABLE_JIT=1: shares and models to the last bit, and as many bits sent."""
    said = [
        subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env={**os.environ, **more}
        ).stdout
        for more in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert said[0] == said[1]
    assert said[0].startswith("links links")
