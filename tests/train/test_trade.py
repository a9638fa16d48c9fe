"""The CPU half, over links where these return and by markets among neighbours where they do not: exact sums and boxes in
every round, and few of them."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from equipoise.train import Exact, Latency, LogQuantizer, Method, Network, Problem, Quadratic, StepWarning, solve
from equipoise.train.costs._base import curvature
from equipoise.train.costs._kernels import answer, curve_of, steepness
from equipoise.train.state import State


def quadratic(nodes, seed, full=0, scale=1.0):
    """Curvatures U[.5, 3], wishes U[10, 60], 25 CPUs a node; `full` nodes end at a bound, the others inside, by design."""
    rng = np.random.default_rng(seed)
    a, c = rng.uniform(0.5, 3, nodes), rng.uniform(10, 60, nodes)
    wished = c + (25.0 * nodes - c.sum()) / (1 / a).sum() / a  # equal prices a (x - c)
    if not full:
        return Problem(Quadratic(scale * a, c), 25.0 * nodes)
    far, near = rng.uniform(5, 40, (2, nodes)), rng.uniform(0.5, 10, nodes)
    chosen = np.isin(np.arange(nodes), rng.permutation(nodes)[:full])
    at_hi = chosen & (rng.random(nodes) < 0.5)
    at_lo = chosen & ~at_hi
    hi = np.where(at_hi, wished - near, wished + far[1] + np.where(at_lo, near, 0.0))
    lo = np.where(at_lo, wished + near, wished - far[0] - np.where(at_hi, near, 0.0))
    return Problem(Quadratic(scale * a, c, lo=lo, hi=hi), float(np.clip(wished, lo, hi).sum()))


class Tide:
    """A cost whose wishes move all the time, so that nothing ever settles."""

    nodes, lo, hi = 20, np.zeros(20), np.full(20, 60.0)

    def __init__(self):
        self.now = 0
        self.a = np.random.default_rng(0).uniform(0.5, 3, 20)
        self.wishes = 25 + 20 * np.sin(2 * np.pi / 628 * np.arange(628)[:, None] + np.arange(20))

    def wish(self):
        return self.wishes[self.now % 628]

    def value(self, x):
        return 0.5 * self.a * (x - self.wish()) ** 2

    def derivative(self, x):
        return self.a * (x - self.wish())

    def curvature(self):
        return self.a, self.a

    def second(self, x):
        return self.a

    def response(self, weight, level, guess):
        return (level + weight * self.a * self.wish()) / (1 + weight * self.a)


def test_the_budget_holds_to_the_last_bit_in_200_000_rounds():
    """Moving costs and budgets on a switching network, 2e5 rounds: in each one the shares, whole numbers of units, sum to
    the budget of that round and lie in their boxes."""
    cost, budgets = Tide(), {10_000 * k: 400.0 + 10.0 * k for k in range(1, 20)}
    wrong, moved, checked = 0, 0.0, 0

    def look(moment):
        nonlocal wrong, moved, checked
        cost.now += 1
        units, market = moment.state.allocation.units, moment.state.market
        wrong += int(units.sum()) != moment.state.budget
        if moment.number % 100 == 0:  # the reported floats too, in exact rational arithmetic
            expected = budgets.get((moment.number - 1) // 10_000 * 10_000, 500.0)
            assert sum(map(Fraction, moment.shares.tolist())) == Fraction(expected)
            assert (units >= market.low).all()
            assert (units <= market.high).all()
            moved = max(moved, float(moment.shares.max()))
            checked += 1

    run = solve(
        Problem(cost, 500.0),
        Network.erdos_renyi(20, 0.3, switching=7),
        rounds=200_000,
        every=50_000,
        budgets=budgets,
        callback=look,
    )
    assert wrong == 0
    assert checked == 2000
    assert moved > 40  # the shares really moved
    assert run.worst.rounds == 200_000
    assert run.worst.box <= 0  # looked at in every round
    assert run.certificate()["budget"].value == 0


def test_a_ring_of_a_hundred_takes_at_most_200_rounds():
    """To 1e-6 at 9 bits, ten instances, each of them."""
    counts = [solve(quadratic(100, s), Network.ring(100), rounds=1000, target=1e-6, every=1).rounds for s in range(10)]
    assert max(counts) <= 200


def test_a_geometric_network_of_a_thousand_takes_at_most_120_rounds():
    """To 1e-6 at 9 bits: radius 0.065, ten instances, each of them."""
    counts = [
        solve(quadratic(1000, s), Network.geometric(1000, 0.065, seed=s), rounds=1000, target=1e-6, every=1).rounds
        for s in range(10)
    ]
    assert max(counts) <= 120


def test_a_ring_with_45_full_nodes_takes_at_most_700_rounds():
    """Nodes at their bounds cut a ring of 100 many times over: to 1e-6, on average over ten instances."""
    runs = [solve(quadratic(100, s, 45), Network.ring(100), rounds=5000, target=1e-6, every=1) for s in range(10)]
    for run in runs:
        x, market = run.cpu_optimum.shares, run.market
        assert ((x <= market.lo + 1e-9) | (x >= market.hi - 1e-9)).sum() == 45
        assert run.status == "converged"
        assert run.worst.box <= 0
        assert run.worst.budget == 0
    assert np.mean([run.rounds for run in runs]) <= 700


@pytest.mark.parametrize("full", [0, 8])
@pytest.mark.parametrize("switching", [20, "fresh"])
def test_a_star_whose_hub_moves_every_round_converges(switching, full):
    """Twenty nodes, another one in the middle each time: 1e-6 within 100 rounds by markets. Over links each of twenty graphs
    keeps a pull of its own and meets every twentieth round: 150 to 300."""
    for seed in range(5):
        network = Network.star(20, switching=switching, seed=seed)
        limit = 100 if switching == "fresh" else 6000
        run = solve(quadratic(20, seed, full), network, rounds=limit, target=1e-6, every=1)
        assert run.status == "converged"
        assert run.worst.budget == 0


@pytest.mark.parametrize("switching", [0, 5, "fresh"])
def test_costs_scaled_by_a_power_of_two_change_nothing(switching):
    """Codes of elasticities are parts of an octave: at 2^-10 and 2^10 the shares are the same bits."""
    network = Network.erdos_renyi(20, 0.3, switching=switching, seed=1)
    shares = [solve(quadratic(20, 1, 8, scale), network, rounds=60).shares for scale in (2.0**-10, 1.0, 2.0**10)]
    assert np.array_equal(shares[0], shares[1])
    assert np.array_equal(shares[2], shares[1])


def test_costs_scaled_by_a_thousand_take_as_many_rounds():
    """Scale 1e-3, 1 and 1e3, boxes active, static to never repeating: rounds to 1e-9 over twelve instances within 10%."""
    totals = []
    for scale in (1e-3, 1.0, 1e3):
        runs = [
            solve(
                quadratic(20, seed, 8, scale),
                Network.erdos_renyi(20, 0.3, switching=switching, seed=seed),
                rounds=3000,
                target=1e-9,
                every=1,
            )
            for switching in (0, 5, "fresh")
            for seed in range(4)
        ]
        assert all(run.status == "converged" for run in runs)
        totals.append(sum(run.rounds for run in runs))
    assert max(totals) <= 1.1 * min(totals)


class Plain:
    """A built-in cost with nothing but the four names: what else the solver needs it must find numerically."""

    def __init__(self, cost):
        self.nodes, self.lo, self.hi, self.value, self.derivative = (
            cost.nodes,
            cost.lo,
            cost.hi,
            cost.value,
            cost.derivative,
        )


RNG = np.random.default_rng(3)
COSTS = {
    "quadratic": Quadratic(RNG.uniform(0.5, 3, 12), RNG.uniform(0, 40, 12), lo=5.0, hi=28.0),
    "latency": Latency(RNG.uniform(100, 900, 12), RNG.uniform(0.5, 2, 12), 1e-3, lo=5.0, hi=40.0),
}


@pytest.mark.parametrize("switching", [3, "fresh"])
def test_elasticities_come_back_after_a_node_was_full(switching):
    """Nodes that are at a bound for a few rounds and then inside again end with the elasticity of their curvature."""
    cost = COSTS["quadratic"]
    state = State(
        Problem(cost, 200.0), Network.erdos_renyi(12, 0.4, switching=switching, seed=2), Method(cpu="markets")
    )
    trading, was_full = state.allocation, np.zeros(12, dtype=bool)
    for number in range(300):
        assert state.advance(state.meet(number), number) is None
        was_full |= (trading.answer <= cost.lo) | (trading.answer >= cost.hi)
    inside = (trading.answer > cost.lo) & (trading.answer < cost.hi)
    assert (was_full & inside).any()
    assert_allclose(trading.stretch[inside], -np.log2(cost.a[inside]), atol=1 / 16)  # half a code


@pytest.mark.parametrize("switching", [0, "fresh"])
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_a_cost_with_only_a_value_and_a_derivative_gets_the_same_shares(cost, switching):
    """Responses by halving and curvatures by differences: round by round nearly the same, and the same in the end."""
    network = Network.erdos_renyi(12, 0.4, switching=switching, seed=2)
    seen = {}
    for name, one in {"built in": cost, "user's": Plain(cost)}.items():
        history = seen.setdefault(name, [])
        run = solve(Problem(one, 200.0), network, rounds=250, callback=lambda m, kept=history: kept.append(m.shares))
        assert run.certificate().passed
    assert_allclose(seen["user's"][:5], seen["built in"][:5], atol=1e-9)
    assert_allclose(seen["user's"][-1], seen["built in"][-1], atol=1e-6)


@pytest.mark.parametrize("name", [*COSTS, "user's"])
def test_a_response_solves_its_equation(name):
    """x + weight f'(x) = level in the box, against scipy's brentq; beyond the box, its nearer end. Guesses may be bad."""
    rng = np.random.default_rng(0)
    cost = Plain(COSTS["latency"]) if name == "user's" else COSTS[name]
    lo, hi = np.broadcast_to(cost.lo, 12), np.broadcast_to(cost.hi, 12)
    curve = curve_of(cost, lo.copy(), hi.copy(), curvature(cost, lo, hi)[1])
    inside = 0
    for _ in range(40):
        weight = 10.0 ** rng.uniform(-4, 4, 12)
        x = rng.uniform(lo - 3, hi + 3)
        level = x + weight * cost.derivative(np.maximum(x, 1.0))
        found = rng.uniform(lo, hi)
        answer(cost, curve, weight, level, found)

        def miss(t, i, weight=weight, level=level):
            return t + weight[i] * cost.derivative(np.full(12, t))[i] - level[i]

        for i in range(12):
            if miss(lo[i], i) >= 0 or miss(hi[i], i) <= 0:
                assert found[i] == (lo[i] if miss(lo[i], i) >= 0 else hi[i])
            else:
                assert found[i] == pytest.approx(
                    brentq(miss, lo[i], hi[i], args=(i,), xtol=1e-14, rtol=1e-14), rel=1e-11
                )
                inside += 1
    assert inside > 300


def test_steepness_is_the_second_derivative():
    """Of built-in costs by formula, of a user's by differences: both against differences of the derivative here."""
    cost = COSTS["latency"]
    lo, hi = np.broadcast_to(cost.lo, 12).copy(), np.broadcast_to(cost.hi, 12).copy()
    x = np.random.default_rng(1).uniform(lo + 0.1, hi - 0.1)
    expected = (cost.derivative(x + 1e-4) - cost.derivative(x - 1e-4)) / 2e-4
    for one in (cost, Plain(cost)):
        assert_allclose(steepness(one, curve_of(one, lo, hi, curvature(one, lo, hi)[1]), x), expected, rtol=1e-4)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(2, 9),
    switching=st.sampled_from([0, 3, "fresh"]),
    quantizer=st.sampled_from([Exact(), LogQuantizer(), LogQuantizer(rho=1.0)]),
    plans=st.floats(0.0, 12.0),
)
def test_no_unit_is_lost_and_no_box_left_from_any_state(seed, nodes, switching, quantizer, plans):
    """Any graph, boxes that are open, narrow or a point, shares anywhere in them, plans up to 1e12 CPUs outside: one round
    at a time, all units are still there and inside."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 5, nodes)  # both ends, pinned, no lo, no hi, a narrow box
    lo = rng.uniform(-5, 20, nodes)
    hi = lo + np.select([kind == 1, kind == 4], [0.0, 1e-9], rng.uniform(0, 30, nodes))
    lo, hi = np.where(kind == 2, -np.inf, lo), np.where(kind == 3, np.inf, hi)
    inside = rng.uniform(np.maximum(lo, -40), np.minimum(hi, 60))
    problem = Problem(
        Quadratic(10 ** rng.uniform(-2, 2, nodes), rng.uniform(-20, 40, nodes), lo=lo, hi=hi), inside.sum()
    )
    network = Network.erdos_renyi(nodes, 0.7, switching=0 if nodes < 4 else switching, seed=seed % 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # pinned neighbours may cut the network
        state = State(problem, network, Method(quantizer=quantizer, cpu="markets"))
    trading, low, high = state.allocation, state.market.low, state.market.high
    for number in range(6):
        trading.excess += rng.standard_normal(nodes) * 10.0 ** rng.uniform(-3, plans)
        for _ in range(3):  # move units between random pairs, inside both boxes
            i, j = rng.integers(0, nodes, 2)
            most = min(trading.units[i] - low[i], high[j] - trading.units[j], 2**45)
            amount = int(rng.integers(0, most + 1))
            trading.units[i] -= amount
            trading.units[j] += amount
        assert state.advance(state.meet(number), number) is None
        assert int(trading.units.sum()) == state.budget
        assert (trading.units >= low).all()
        assert (trading.units <= high).all()


@pytest.mark.parametrize("switching", [0, 4])
def test_a_round_of_markets_is_this_formula(switching):
    """Ideal codes, open boxes: prices clear, shares move, prices follow, as three lines of dense NumPy say."""
    network = Network.erdos_renyi(9, 0.4, switching=switching, seed=3)
    rng = np.random.default_rng(0)
    a, c = 2.0 ** rng.integers(-2, 3, 9), rng.uniform(10, 40, 9)  # elasticities that their codes hold exactly
    state = State(Problem(Quadratic(a, c), 225.0), network, Method(quantizer=Exact(), cpu="markets"))
    theta = state.steps.inertia
    x, p = np.full(9, 25.0), a * (25.0 - c)
    for number in range(12):
        graph = network.topology(number)
        A = np.eye(9)
        A[graph.tails, graph.heads] = A[graph.heads, graph.tails] = 1.0
        rho = theta / a / A.sum(axis=1)
        z = A @ (rho * p) / (A @ rho)  # each market's price
        x = x - rho * (A.sum(axis=1) * p - A @ z)  # what it gives in the markets around it and its own
        level = x + rho * (A @ z)
        response = (level + theta / a * a * c) / (1 + theta / a * a)
        p = (level - response) / (theta / a)
        assert state.advance(state.meet(number), number) is None
        assert_allclose(state.shares, x, atol=1e-10)
        assert_allclose(state.allocation.price, p, atol=1e-9)


def test_a_link_between_pinned_nodes_is_planned_around():
    """Ring of five, two neighbours pinned: CPU cannot cross their link and goes the other way. By hand: (15, 5, 5, 0, 0)."""
    lo, hi = np.zeros(5), np.full(5, 20.0)
    lo[1:3] = hi[1:3] = 5.0
    problem = Problem(Quadratic(1.0, [20.0, 0, 0, 2, 0], lo=lo, hi=hi), 25.0)
    run = solve(problem, Network.ring(5), rounds=2000, target=1e-8)
    assert run.status == "converged"
    assert run.shares == pytest.approx([15, 5, 5, 0, 0], abs=1e-3)


@pytest.mark.parametrize("width", [0.0, 1e-3, 0.1])
def test_narrow_neighbours_do_not_hold_up_the_others(width):
    """A ring of ten with two narrow neighbours: the narrower they are, the more goes the other way, in no more rounds by
    markets. Over links two adjacent boxes store and forward what passes: up to 3,400 rounds."""
    rng = np.random.default_rng(1)
    a, c, lo, hi = rng.uniform(0.5, 3, 10), rng.uniform(10, 60, 10), np.zeros(10), np.full(10, 80.0)
    lo[3:5], hi[3:5] = 20.0, 20.0 + width
    problem = Problem(Quadratic(a, c, lo=lo, hi=hi), 250.0)
    for method, rounds in ((Method(cpu="markets"), 400), (Method(), 6000)):
        assert solve(problem, Network.ring(10), method, rounds=rounds, target=1e-6).status == "converged"


def test_a_cost_with_flat_parts_converges():
    """Huber's loss is flat but for a unit around its wish: elasticities are bounded by the mean curvature over the box.
    Where it is flat a price says nothing of how far to go, and over links up to 2,100 rounds pass."""

    class Huber:
        lo, hi = np.zeros(10), np.full(10, 30.0)

        def __init__(self, wish):
            self.wish = wish

        def value(self, x):
            d = np.abs(x - self.wish)
            return np.where(d < 1, 0.5 * d * d, d - 0.5)

        def derivative(self, x):
            return np.clip(x - self.wish, -1, 1)

    for seed in range(3):
        cost = Huber(np.random.default_rng(seed).uniform(0, 30, 10))
        for method, rounds in ((Method(cpu="markets"), 1000), (Method(), 6000)):
            run = solve(Problem(cost, 120.0), Network.ring(10), method, rounds=rounds, target=1e-5)
            assert run.status == "converged", seed


def test_nothing_to_share_is_no_divergence():
    """Budget 0 and no lower bound below 0: every share is 0, exactly."""
    run = solve(Problem(Quadratic(1.0, [3.0, 0, -4], lo=0, hi=5), 0.0), Network.path(3), rounds=20)
    assert run.status == "finished"
    assert run.shares.tolist() == [0, 0, 0]


def test_a_subclass_with_a_derivative_of_its_own_is_asked_for_it():
    """Twice the cost by inheritance: kernels must not take the parent's formula."""

    class Twice(Quadratic):
        def value(self, x):
            return 2 * super().value(x) + x

        def derivative(self, x):
            return 2 * super().derivative(x) + 1

        def second(self, x):
            return 2 * super().second(x)

        def curvature(self):
            return 2 * self.a, 2 * self.a

        def share_at(self, price):
            return super().share_at((price - 1) / 2)

    wishes = np.array([10.0, 20.0, 60.0, 40.0])
    run = solve(Problem(Twice([1.0, 2, 1, 3], wishes, lo=0, hi=80), 100.0), Network.ring(4), rounds=400, target=1e-9)
    plain = solve(Problem(Quadratic([1.0, 2, 1, 3], wishes, lo=0, hi=80), 100.0), Network.ring(4), rounds=400)
    assert run.status == "converged"
    assert run.shares == pytest.approx(plain.shares, abs=1e-3)  # the same optimum: scaled and shifted prices


def test_changed_elasticities_and_limiter_factors_are_counted():
    """Latency costs with tight boxes by markets: more bits than the fixed part of every round, by multiples of 16."""
    rng = np.random.default_rng(0)
    cost = Latency(np.exp(rng.standard_normal(12)), lo=0.05, hi=1.0)
    run = solve(Problem(cost, 6.0), Network.ring(12), Method(cpu="markets"), rounds=60)
    links = 24
    fixed = links * (2 * 64 + 59 * (9 + 9) + 60 * (1 + 2) + 8 + 16)
    assert run.bits > fixed
    assert (run.bits - fixed) % 16 == 0
