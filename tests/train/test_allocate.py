"""The CPU half, over links, by markets or by flows: the sum to the last bit, boxes in every round, and the optimum of a
centralised solver. What concerns markets alone is in test_trade.py, and prices over links in test_link_prices.py."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from equipoise.train import Exact, Latency, LogQuantizer, Method, Network, Problem, Quadratic, UniformQuantizer, solve
from equipoise.train.grid import Grid, spread


def random_quadratic(nodes=20, budget=500.0, seed=0, scale=1.0, **box):
    """Curvatures U[.5, 3] and wishes U[0, 40]."""
    rng = np.random.default_rng(seed)
    return Problem(Quadratic(scale * rng.uniform(0.5, 3, nodes), rng.uniform(0, 40, nodes), **box), budget)


def rounds_to(run, gap):
    """First recorded round whose relative gap is below `gap`."""
    below = np.flatnonzero(run.history["relative_gap"] <= gap)
    return int(run.history["round"][below[0]]) if len(below) else 10**9


class Tide:
    """A cost whose wishes move all the time, so that nothing ever settles."""

    nodes, lo, hi = 20, 0.0, 60.0

    def __init__(self):
        self.now = 0
        self.a = np.random.default_rng(0).uniform(0.5, 3, 20)

    def wish(self):
        return 25 + 20 * np.sin(0.01 * self.now + np.arange(20))

    def value(self, x):
        return 0.5 * self.a * (x - self.wish()) ** 2

    def derivative(self, x):
        return self.a * (x - self.wish())

    def curvature(self):
        return self.a, self.a


def test_the_budget_holds_to_the_last_bit_where_cpu_flows_along_edges():
    """Moving costs on a switching network, 2e4 rounds of flows: in each one the shares, as fractions of integers, sum to b.
    Markets have 2e5 such rounds in test_trade.py."""
    cost = Tide()
    sums, moved, checked = set(), 0.0, 0

    def look(moment):
        nonlocal moved, checked
        cost.now += 1
        units = moment.state.allocation.units
        sums.add(int(units.sum()))
        if moment.number % 1000 == 0:  # the reported floats too, in exact rational arithmetic
            assert sum(map(Fraction, moment.shares.tolist())) == 500
            checked += 1
        moved = max(moved, float(moment.shares.max()))

    network, method = Network.erdos_renyi(20, 0.3, switching=7), Method(step=0.5)
    run = solve(Problem(cost, 500.0), network, method, rounds=20_000, every=5_000, callback=look)
    assert sums == {run.market.budget}
    assert run.market.budget * Fraction(run.market.grid.unit) == 500
    assert checked == 20
    assert moved > 40  # the shares really moved
    assert run.worst.rounds == 20_000
    assert run.certificate()["budget"].value == 0


def test_large_prices_innovation_is_exact_and_node_mode_is_not():
    """b = 1000 makes lambda* about 36: node-wise codes plateau near 1e-3, innovation codes go below 1e-11 in 100 rounds."""
    problem, network = random_quadratic(budget=1000.0), Network.erdos_renyi(20, 0.3, seed=0)
    innovation = solve(problem, network, Method(quantizer=LogQuantizer(mode="innovation")), rounds=100)
    node = solve(problem, network, Method(quantizer=LogQuantizer(mode="node")), rounds=2000)
    assert 30 < innovation.cpu_optimum.price < 40
    assert abs(innovation.relative_gap) < 1e-11
    assert 1e-4 < np.median(node.history["relative_gap"][-1000:]) < 1e-2


@pytest.mark.parametrize("mode", ["innovation", "edge"])
@pytest.mark.parametrize("switching", [0, 5, "fresh"])
def test_exact_modes_reach_the_centralised_optimum(mode, switching):
    """Static, periodic and never repeating: the shares are those of an independent water-filling formula."""
    problem = random_quadratic(budget=700.0)
    network = Network.erdos_renyi(20, 0.3, switching=switching, seed=3)
    run = solve(problem, network, Method(quantizer=LogQuantizer(mode=mode)), rounds=300)
    a, c = problem.cost.a, problem.cost.c
    price = (700.0 - c.sum()) / (1 / a).sum()  # by hand: sum(c + price/a) = b
    assert_allclose(run.shares, c + price / a, atol=1e-7)
    assert run.certificate()["budget"].value == 0


def test_uniform_codes_leave_a_residual_that_log_codes_do_not():
    """Same bits: the uniform quantiser stops at the size of its step, the log quantiser goes on."""
    problem, network = random_quadratic(budget=600.0), Network.erdos_renyi(20, 0.3, seed=0)
    uniform = solve(problem, network, Method(quantizer=UniformQuantizer(bits=9)), rounds=1000)
    log = solve(problem, network, Method(quantizer=LogQuantizer()), rounds=1000)
    assert uniform.history["relative_gap"][-500:].min() > 1e-8
    assert abs(log.relative_gap) < 1e-13


def test_a_saturated_middle_node_relays_the_price():
    """Path of three, the middle one full: the outer two can only meet through its price. By hand: (0, 5, 10)."""
    problem = Problem(Quadratic(1.0, [0.0, 30.0, 20.0], lo=0.0, hi=[20.0, 5.0, 20.0]), 15.0)
    outside = []

    def look(moment):
        outside.append(max(0.0, *(0 - moment.shares), *(moment.shares - [20, 5, 20])))

    run = solve(problem, Network.path(3), Method(), rounds=3000, callback=look)
    assert_allclose(run.shares, [0, 5, 10], atol=1e-6)
    assert max(outside) <= 1e-15
    assert run.certificate()["box"].value == 0
    assert run.certificate()["kkt"].passed


def test_without_the_price_the_limiter_stalls():
    """The same path with the limiter alone stays at (5, 5, 5): the test of the test above."""
    problem = Problem(Quadratic(1.0, [0.0, 30.0, 20.0], lo=0.0, hi=[20.0, 5.0, 20.0]), 15.0)
    run = solve(problem, Network.path(3), Method(box="limit"), rounds=3000, patience=500)
    assert_allclose(run.shares, [5, 5, 5], atol=1e-3)
    assert run.status == "stagnated"
    assert not run.certificate()["kkt"].passed
    assert not run.certificate()["gap"].passed


def test_a_penalty_leaves_the_box_and_reports_a_negative_gap():
    """The paper's box penalty: shares outside their box, a gap below 0, and a certificate that says so by name."""
    problem = random_quadratic(budget=300.0, lo=10.0, hi=18.0)
    run = solve(problem, Network.erdos_renyi(20, 0.3, seed=0), Method.paper(quantizer=Exact()), rounds=2000)
    certificate = run.certificate()
    assert certificate["budget"].value == 0
    assert certificate["box"].value > 0.01
    assert not certificate["box"].passed
    assert run.gap < 0
    assert not certificate["gap"].passed


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    nodes=st.integers(6, 25),
    full=st.floats(0.0, 0.8),
    rho=st.sampled_from([0.05, 0.125, 0.5, 1.0]),
    kind=st.sampled_from(["ring", "erdos_renyi", "path", "star"]),
    switching=st.sampled_from([0, 3, "fresh"]),
)
def test_any_box_is_kept_in_every_round(seed, nodes, full, rho, kind, switching):
    """Random boxes, many saturated: sum and box exact in all rounds, and the gap never negative."""
    rng = np.random.default_rng(seed)
    c = rng.uniform(0, 40, nodes)
    lo = rng.uniform(0, 10, nodes)
    hi = np.where(rng.random(nodes) < full, lo + rng.uniform(0, 5, nodes), lo + 40)
    budget = float(lo.sum() + rng.uniform(0.05, 0.95) * (hi - lo).sum())
    problem = Problem(Quadratic(rng.uniform(0.5, 3, nodes), c, lo=lo, hi=hi), budget)
    options = {"p": 0.6} if kind == "erdos_renyi" else {}
    network = Network.by_name(kind, nodes, switching=switching, seed=seed, **options)
    run = solve(problem, network, Method(quantizer=LogQuantizer(rho=rho)), rounds=150)
    assert run.worst.budget == 0
    assert run.worst.box <= 0
    optimum = float(problem.cost.value(run.cpu_optimum.shares).sum())
    scale = max(abs(optimum), run.history["gap"][0])
    assert run.history["gap"].min() >= -1e-9 * scale


def test_costs_scaled_by_a_thousand_take_as_many_rounds():
    """Scale 1e-3, 1 and 1e3, boxes active: rounds to 1e-9 within 10% of one another."""
    network = Network.erdos_renyi(20, 0.3, seed=1)
    counts = [
        rounds_to(
            solve(random_quadratic(scale=s, budget=400.0, lo=5.0, hi=28.0), network, rounds=3000, target=1e-9), 1e-9
        )
        for s in (1e-3, 1.0, 1e3)
    ]
    assert max(counts) < 3000
    assert max(counts) - min(counts) <= 0.1 * min(counts)


def test_never_repeating_graphs_hearing_only_current_neighbours():
    """Fresh graphs every round, estimates per link: 1e-9 is reached, the sum is exact, every link's bits are counted."""
    network = Network.erdos_renyi(20, 0.15, switching="fresh", seed=5)
    run = solve(random_quadratic(lo=5.0, hi=32.0), network, rounds=2000, target=1e-9)
    assert run.status == "converged"
    assert run.worst.budget == 0
    graphs = [network.topology(k) for k in range(run.rounds)]
    used = {pair for t in graphs for pair in zip(t.tails.tolist(), t.heads.tolist(), strict=True)}
    assert len(run.link_bits.bits) == 2 * len(used)
    # By hand, per directed link and round: two short floats, 16 bits of elasticity, 8 of the degree, 2 flags of the limiter;
    # one that acts: 16 of factors, and 64 for an amount.
    met = Counter(pair for t in graphs for pair in zip(t.tails.tolist(), t.heads.tolist(), strict=True))
    for sender, receiver, bits in zip(*map(np.ndarray.tolist, vars(run.link_bits).values()), strict=True):
        times = met[min(sender, receiver), max(sender, receiver)]
        more = bits - (2 * 48 + 16 + 8 + 2) * times
        assert 0 <= more <= 80 * times
        assert more % 16 == 0


def test_static_links_carry_exactly_the_counted_bits():
    """No boxes, 100 rounds on a ring, each link by markets: two prices of 64 + 99 x 10 bits, 16 a round of elasticity, the
    degree once. As flows: one price, the curvature and the degree once."""
    run = solve(random_quadratic(), Network.ring(20), Method(cpu="markets"), rounds=100)
    assert run.link_bits.bits.tolist() == [2 * (64 + 99 * 10) + 1600 + 8] * 40
    flows = solve(random_quadratic(), Network.ring(20), Method(momentum=False), rounds=100)
    assert flows.link_bits.bits.tolist() == [64 + 99 * 10 + 8 + 64] * 40
    assert flows.bits == 40 * (64 + 99 * 10 + 72)


def test_hosts_of_many_speak_finer():
    """Star of 20 by markets: an answer is right to a twentieth, 4 bits of mantissa instead of 3."""
    run = solve(random_quadratic(), Network.star(20), Method(cpu="markets"), rounds=100)
    assert set(run.link_bits.bits.tolist()) == {2 * 64 + 99 * (10 + 11) + 1600 + 8}


def test_latency_costs_reach_the_optimum():
    """work/(speed x) + energy x^3 in a box, against the centralised solver and the KKT conditions."""
    rng = np.random.default_rng(2)
    cost = Latency(rng.uniform(100, 900, 12), rng.uniform(0.5, 2, 12), 1e-3, lo=5.0, hi=40.0)
    run = solve(Problem(cost, 200.0), Network.erdos_renyi(12, 0.4, seed=2), rounds=4000, target=1e-10)
    assert run.status == "converged"
    assert run.certificate().passed


@given(st.integers(1, 60), st.integers(0, 10**9), st.integers(0, 2**32))
def test_spreading_a_budget_is_exact_and_inside(nodes, total, seed):
    """x(0): whole units, inside every box, summing to the total; nobody is more than one unit off the common level."""
    rng = np.random.default_rng(seed)
    low = rng.integers(-1000, 1000, nodes)
    high = low + rng.integers(0, 10**8, nodes)
    total = int(np.clip(total, low.sum(), high.sum()))
    shares = spread(total, low, high)
    assert int(shares.sum()) == total
    assert (shares >= low).all()
    assert (shares <= high).all()
    free = shares[(shares > low) & (shares < high)]
    assert len(free) == 0 or free.max() - free.min() <= 1


def test_the_grid_snaps_inward():
    """lo rounds up and hi down, so that the grid never steps out of the user's box."""
    grid = Grid.fit(10.0, np.array([0.1]), np.array([9.9]))
    low, high = grid.inward(np.array([0.1]), np.array([9.9]))
    assert Fraction(grid.unit) * int(low[0]) >= Fraction(0.1)
    assert Fraction(grid.unit) * int(high[0]) <= Fraction(9.9)


def test_a_link_that_began_in_silence_follows_a_jump_of_seven_decades():
    """Prices start at 0; the budget doubles and they jump by 1e7: codes saturate, their floors rise, the optimum is met."""
    problem = Problem(Quadratic(np.array([1e6, 2e6, 3e6, 1e6]), 10.0, lo=0.0), 40.0)
    share = 40 / (1 / 1e6 + 1 / 2e6 + 1 / 3e6 + 1 / 1e6)  # by hand: equal prices a (x - 10)
    for method in (Method(), Method(cpu="markets")):
        run = solve(problem, Network.ring(4), method, rounds=400, budgets={5: 80.0})
        assert_allclose(run.shares, 10 + share / problem.cost.a, rtol=1e-9)


def test_much_cpu_passes_a_narrow_node():
    """Path of 21, 84 CPUs must cross a middle node whose box is 0.03 wide. Markets clear what passes through before it
    moves: 1,000 rounds do. Over links a box stores and forwards, its width at a time: 2,800 rounds and more."""
    c = np.where(np.arange(21) < 10, 0.0, 40.0)
    lo, hi = np.zeros(21), np.full(21, 40.0)
    lo[10], hi[10] = 6.0, 6.03
    problem = Problem(Quadratic(1.0, c, lo=lo, hi=hi), 168.0)
    for method, rounds in ((Method(cpu="markets"), 1000), (Method(), 6000)):
        run = solve(problem, Network.path(21), method, rounds=rounds, target=1e-6)
        assert run.status == "converged"
        assert run.worst.box <= 0


@pytest.mark.parametrize(
    ("network", "pinned"), [(Network.star(20), {0: 7.1}), (Network.ring(20), {3: 7.1, 9: 0.0})], ids=["hub", "cut"]
)
def test_cpu_passes_through_nodes_whose_share_is_fixed(network, pinned):
    """lo = hi at a star's hub, or at two nodes that cut a ring: the others still reach their optimum, by hand."""
    problem = random_quadratic()
    lo, hi = np.full(20, -400.0), np.full(20, 400.0)
    for node, share in pinned.items():
        lo[node] = hi[node] = share
    a, c = problem.cost.a, problem.cost.c + 20
    run = solve(Problem(Quadratic(a, c, lo=lo, hi=hi), 500.0), network, rounds=3000, target=1e-10)
    free = np.array([i for i in range(20) if i not in pinned])
    price = (500 - sum(pinned.values()) - c[free].sum()) / (1 / a[free]).sum()
    assert run.status == "converged"
    assert_allclose(run.shares[free], c[free] + price / a[free], atol=1e-3)
    assert_allclose(run.shares[list(pinned)], list(pinned.values()), atol=1e-12)
    assert run.worst.box <= 0


def test_neighbours_that_are_both_pinned_are_warned_about_where_they_cut_the_network():
    """A path whose middle two are fixed: CPU cannot cross, which is said before the run."""
    lo, hi = np.zeros(6), np.full(6, 40.0)
    lo[2:4] = hi[2:4] = 5.0
    with pytest.warns(UserWarning, match="CPU cannot pass the link 2 - 3"):
        solve(Problem(Quadratic(1.0, [0, 0, 0, 0, 40.0, 40.0], lo=lo, hi=hi), 60.0), Network.path(6), rounds=10)


@pytest.mark.parametrize(
    ("lo", "hi", "budget"),
    [(0.0, 1e6, 500.0), (0.0, 1e9, 0.05), (0.1, 1.0, 2.0), (0.0, 33.3, 666.0), (0.1, 0.1, 2.0), (-1e9, 1e9, 500.0)],
)
def test_boxes_of_any_size_and_budgets_at_their_very_ends(lo, hi, budget):
    """Wide boxes, and budgets equal to the sum of lo or of hi though neither is a whole number of grid units."""
    run = solve(random_quadratic(budget=budget, lo=lo, hi=hi), Network.ring(20), rounds=2000, target=1e-6)
    assert run.certificate().passed
    assert run.shares.sum() == pytest.approx(budget, abs=1e-11)


@pytest.mark.parametrize("budget", [0.0, 1e-9, -1e-3, 1e6])
def test_open_boxes_with_any_budget(budget):
    """No bounds: also a budget near 0 while shares are large and of both signs."""
    problem = random_quadratic(budget=budget)
    run = solve(problem, Network.erdos_renyi(20, 0.3, switching=5), rounds=2000, target=1e-6)
    a, c = problem.cost.a, problem.cost.c
    assert run.certificate().passed
    assert_allclose(run.shares, c + (budget - c.sum()) / (1 / a).sum() / a, rtol=1e-2)


def test_limiter_bits_by_hand():
    """One round on a path of three. Wide boxes: 64 bits of price, 64 of curvature, 8 of degree, 2 flags on each link (by
    markets, 64 more for their price, and 16 bits of elasticity instead; over links 64 of price, 16 of elasticity, 2
    flags). Middle pinned: its promises are 16 bits more
    to both sides, and it cuts what it does on the busier side."""
    cost, flows = {"a": 1.0, "c": np.array([0.0, 9.0, 40.0])}, Method(momentum=False)
    wide = Problem(Quadratic(**cost, lo=-1e3, hi=1e3), 15.0)
    assert solve(wide, Network.path(3), rounds=1).link_bits.bits.tolist() == [64 + 16 + 2] * 4
    markets = solve(wide, Network.path(3), Method(cpu="markets"), rounds=1)
    assert markets.link_bits.bits.tolist() == [64 + 16 + 8 + 2 + 64] * 4
    assert solve(wide, Network.path(3), flows, rounds=1).link_bits.bits.tolist() == [64 + 64 + 8 + 2] * 4
    # Prices (5, -4, -35): 9 units of price push CPU 0 -> 1, and 31 units 1 -> 2. Node 1 can pull little and must cut its
    # pushes to 2: 64 bits for that amount, on the link 1 -> 2 alone.
    problem = Problem(Quadratic(**cost, lo=[-1e3, 5, -1e3], hi=[1e3, 5, 1e3]), 15.0)
    pinned = solve(problem, Network.path(3), flows, rounds=1)
    bits = dict(
        zip(zip(pinned.link_bits.senders, pinned.link_bits.receivers, strict=True), pinned.link_bits.bits, strict=True)
    )
    assert bits == {(0, 1): 138, (1, 0): 138 + 16, (1, 2): 138 + 16 + 64, (2, 1): 138}
