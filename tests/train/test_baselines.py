"""The rivals: each reaches the optimum as far as it can, keeps or breaks what it says, and counts its bits."""

import dataclasses
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from equipoise.train import Latency, LeastSquares, Network, Problem, Quadratic, baselines, solve
from equipoise.train.baselines import Recorder, ratio_consensus
from equipoise.train.instances import Instances
from refusals import refused

FEASIBLE = ("Ours", "LaplacianLog", "LaplacianUniform", "LaplacianExact", "LaplacianEdge")
DUAL = ("ADMM", "DualTracking", "PrimalDual")
# How near each comes to the optimum on the instance below, CPUs: what is sent exactly, or coded exactly, has no residual.
ACCURACY = dict.fromkeys(("Ours", "LaplacianExact", *DUAL, "RatioConsensus"), 2e-6) | {"LaplacianEdge": 1e-5}


def wheel() -> Network:
    """A ring of six with two chords."""
    return Network.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)], n=6)


def six(**box: object) -> Problem:
    """Six centres whose optimal price is about 9."""
    cost = Quadratic([1.0, 2.0, 0.5, 1.5, 3.0, 1.0], [10.0, 25.0, 5.0, 30.0, 12.0, 18.0], **box)
    return Problem(cost, budget=150.0)


def solved_by_cvxpy(problem: Problem) -> np.ndarray:
    """The optimum from Clarabel."""
    cp = pytest.importorskip("cvxpy")
    cost = problem.cost
    x = cp.Variable(6)
    if isinstance(cost, Quadratic):
        value = 0.5 * cp.sum(cp.multiply(cost.a, cp.square(x - cost.c)))
    else:
        per_share = np.broadcast_to(cost.work / cost.speed, 6)
        value = cp.sum(cp.multiply(per_share, cp.inv_pos(x))) + cp.sum(cp.multiply(cost.energy, cp.power(x, 3)))
    ends = [(x >= low, x <= high) for low, high in [(cost.lo, cost.hi)] if np.isfinite(low).all()]
    rules = [cp.sum(x) == problem.budget, *(rule for pair in ends for rule in pair)]
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    cp.Problem(cp.Minimize(value), rules).solve(solver=cp.CLARABEL, **tight)
    return np.asarray(x.value)


@pytest.mark.parametrize("name", ACCURACY)
def test_every_exact_rival_reaches_the_optimum_that_clarabel_finds(name):
    """Six quadratic costs on a ring with chords."""
    track = baselines.named(name).play(six(), wheel(), 1000)
    assert track.shares == pytest.approx(solved_by_cvxpy(six()), abs=ACCURACY[name])
    assert track.distance[-1] < 1e-6 and track.relative_gap[-1] < 1e-6


@pytest.mark.parametrize(
    ("name", "price", "low", "high"),
    [
        ("LaplacianLog", 0.0, 0.0, 1e-5),  # cells shrink with the differences
        ("LaplacianLog", 36.0, 3e-3, 0.2),  # a cell is 36 x 0.125 wide
        ("LaplacianUniform", 0.0, 1e-4, 0.1),  # a level is a level, wherever the price lies
        ("LaplacianUniform", 36.0, 1e-4, 0.1),
    ],
)
def test_coarse_codes_leave_the_residual_they_are_said_to(name, price, low, high):
    """Node-wise log codes are exact only at price 0; uniform ones nowhere."""
    for seed in range(3):
        track = baselines.named(name).play(*Instances(nodes=10, price=price)(seed), 300)
        assert low <= track.distance[-1] <= high


@pytest.mark.parametrize("name", ["Ours", *DUAL])
def test_boxes_and_costs_that_are_not_quadratic(name):
    """Latency costs with one centre that ends full: Clarabel agrees with whoever knows boxes."""
    cost = Latency(1000.0, [1.0, 2.0, 0.5, 4.0, 1.0, 2.0], 1e-3, lo=10.0, hi=[30.0, 30.0, 22.0, 30.0, 30.0, 30.0])
    problem = Problem(cost, budget=110.0)
    rival = (
        baselines.DualTracking(step=0.15) if name == "DualTracking" else baselines.named(name)
    )  # tuned, it swings here
    track = rival.play(problem, wheel(), 1500, every=10)
    assert track.shares == pytest.approx(solved_by_cvxpy(problem), abs=1e-3)
    assert track.shares[2] == pytest.approx(22.0)
    assert track.largest_box_violation == 0


@pytest.mark.parametrize("name", ["Ours", *DUAL])
def test_two_centres_worked_out_by_hand(name):
    """x = c + price: (0, 10) with 6 CPUs meet at -2, (-2, 8); with x >= 0 the first stands at 0 and the other has 6."""
    pair = Network.path(2)
    free = baselines.named(name).play(Problem(Quadratic(1.0, [0.0, 10.0]), budget=6.0), pair, 400)
    assert free.shares == pytest.approx([-2, 8], abs=1e-6)
    held = baselines.named(name).play(Problem(Quadratic(1.0, [0.0, 10.0], lo=0.0), budget=6.0), pair, 600)
    assert held.shares == pytest.approx([0, 6], abs=1e-6)


@pytest.mark.parametrize("name", FEASIBLE)
def test_laplacian_methods_keep_the_budget_to_the_last_bit(name):
    """What leaves one centre enters another: the sum is the budget in every round, exactly."""
    track = baselines.named(name).play(*Instances(nodes=10, switching=3)(1), 80)
    assert (track.violation == 0).all() and track.largest_violation == 0


@pytest.mark.parametrize("name", [*DUAL, "RatioConsensus"])
def test_dual_methods_break_the_budget_on_the_way(name):
    """By whole CPUs at first; it heals as prices agree."""
    track = baselines.named(name).play(*Instances(nodes=10)(1), 600)
    assert track.largest_violation > 1
    assert track.violation[-1] < 1e-2
    assert track.largest_violation == track.violation.max()


@pytest.mark.parametrize("name", ["LaplacianExact", "Ours", *DUAL, "RatioConsensus"])
@pytest.mark.parametrize("switching", [3, "fresh"])
def test_changing_neighbours_stop_nobody(name, switching):
    """Three graphs in turn, or a new one each round: still to 1e-6."""
    track = baselines.named(name).play(*Instances(nodes=12, switching=switching)(2), 300)
    assert track.distance[-1] < 1e-6


@pytest.mark.parametrize(
    ("name", "first", "later"),
    [
        ("ADMM", 64, 64),
        ("PrimalDual", 64, 64),
        ("DualTracking", 128, 128),
        ("RatioConsensus", 2 * 48 + 128, 2 * 48 + 128),
        ("LaplacianExact", 64 + 8 + 64, 64),  # once: the degree in 8 bits and the curvature in 64
        ("LaplacianUniform", 9 + 8 + 64, 9),
        ("LaplacianLog", 9 + 8 + 64, 9),
    ],
)
def test_bits_and_messages_are_those_counted_by_hand(name, first, later):
    """A path of three has four directed links; each carries one message per round."""
    problem = Problem(Quadratic([1.0, 2.0, 1.0], [3.0, 8.0, 1.0]), budget=9.0)
    track = baselines.named(name).play(problem, Network.path(3), 3)
    assert track.bits.tolist() == [0, 4 * first, 4 * (first + later), 4 * (first + 2 * later)]
    assert track.messages.tolist() == [0, 4, 8, 12]


def test_our_bits_are_those_of_the_run_and_boxes_take_two_more_exchanges():
    """Prices and markets' prices: two messages per link; factors and amounts of the limiter: four where there are boxes."""
    free, boxed = (Problem(Quadratic([1.0, 2.0, 1.0], [3.0, 8.0, 1.0], lo=lo), budget=9.0) for lo in (-np.inf, 0.0))
    path = Network.path(3)
    assert baselines.Ours().play(free, path, 2).messages.tolist() == [0, 2 * 4, 4 * 4]
    assert baselines.Ours().play(boxed, path, 2).messages.tolist() == [0, 4 * 4, 8 * 4]
    for problem in (free, boxed):
        assert baselines.Ours().play(problem, path, 7).bits[-1] == solve(problem, path, rounds=7).bits


def test_ratio_consensus_stops_by_itself_and_sends_no_more():
    """Finite time: once all ratios agree, everybody knows it in the same round."""
    track = baselines.RatioConsensus().play(six(), wheel(), 200)
    assert track.bits[-1] == track.bits[100] < track.bits[100 // 2] * 10
    assert (np.diff(track.bits) == 0).any() and (np.diff(track.distance[100:]) == 0).all()


def test_ratio_consensus_splits_whole_numbers_without_losing_one():
    """Also negative ones, and ones smaller than the number of neighbours."""
    topology = wheel().topology(0)
    amounts = np.array([17, -5, 0, 2**47 + 1, -(2**46), 3])
    total = int(amounts.sum())
    for _ in range(50):
        amounts = ratio_consensus._split(topology, amounts)
        assert int(amounts.sum()) == total


def test_ratio_consensus_knows_nothing_of_boxes():
    """It goes where it would without them, and the violation is on record."""
    boxed, free = (baselines.RatioConsensus().play(six(**box), wheel(), 300) for box in ({"hi": 32.0}, {}))
    assert boxed.shares == pytest.approx(free.shares, abs=1e-6)
    assert boxed.box_violation[-1] == pytest.approx(free.shares.max() - 32.0, abs=1e-6)


def test_refusals_name_what_cannot_be():
    """A method without a meaning for an instance says so, and says the way out."""
    latency = Problem(Latency(100.0, lo=1.0, hi=30.0), budget=60.0)
    with refused("entrant.cost", "RatioConsensus", "Quadratic", "Latency"):
        baselines.RatioConsensus().play(latency, wheel(), 5)
    learning = Problem(model=LeastSquares([(np.eye(2), np.ones(2))] * 6))
    with refused("problem.cost"):
        baselines.ADMM().play(learning, wheel(), 5)
    with refused("unknown", "'ADM'", "'ADMM'"):
        baselines.named("ADM")
    assert baselines.named("admm") == baselines.ADMM()


class Flat:
    """f = x^4: no curvature at 0."""

    lo, hi = -1.0, 1.0

    def value(self, x):
        return x**4

    def derivative(self, x):
        return 4 * x**3


def test_a_dual_method_refuses_costs_without_curvature():
    """Where f'' is 0 the dual has no slope that bounds a step."""
    with refused("cost.convex", "DualTracking"):
        baselines.DualTracking().play(Problem(Flat(), budget=0.5), wheel(), 5)


def test_a_divergence_is_said_and_never_read_as_progress():
    """Far too long a step: infinite from there on, for rounds, bits and targets."""
    track = baselines.DualTracking(step=50.0).play(six(), wheel(), 500)
    assert track.diverged
    assert track.at_round(500) == math.inf and track.at_bits(1e12) == math.inf and track.first(1e-3) == math.inf


def test_a_track_is_read_as_it_was_written():
    """By hand: distances 1, .5, .1, .4, .05 - the target .2 holds for good from round 4 on, not from round 2."""
    problem = Problem(Quadratic(1.0, [0.0, 10.0]), budget=10.0)
    book = Recorder("told", problem, Network.path(2))
    away = book.start - book.optimum.shares
    for part in (0.5, 0.1, 0.4, 0.05):
        book.send(Network.path(2).topology(0), 7)
        assert book.record(book.optimum.shares + part * away)
    track = book.track()
    assert track.distance == pytest.approx([1, 0.5, 0.1, 0.4, 0.05])
    assert track.first(0.2) == 4 and track.first(0.45) == 2 and track.first(0.01) == math.inf
    assert track.first(0.2, "bits") == 4 * 2 * 7
    assert track.at_round(3) == pytest.approx(0.4) and track.at_bits(2 * 2 * 7 + 1) == pytest.approx(0.1)
    assert track.relative_gap == pytest.approx([1, 0.25, 0.01, 0.16, 0.0025])


def test_everybody_starts_at_the_same_shares():
    """Dual methods begin at the prices at which they take x(0)."""
    problem, network = Instances(nodes=8, boxes=True)(3)
    tracks = [one().play(problem, network, 1) for one in baselines.CLASSES]
    assert all((track.start == tracks[0].start).all() and track.distance[0] == 1 for track in tracks)


@pytest.mark.parametrize("rival", [one for one in baselines.CLASSES if one.grid], ids=lambda one: one.name)
def test_defaults_stand_on_the_stated_grid(rival):
    """What is reported with is a point of the grid that was searched."""
    assert all(getattr(rival(), name) in values for name, values in rival.grid.items())
    assert set(rival.grid) <= {field.name for field in dataclasses.fields(rival)}


def test_tuning_prefers_the_point_that_is_nearest_and_drops_the_divergent():
    """Three steps by hand: a good one, a slow one, and one that runs away."""

    class Three(baselines.DualTracking):
        grid = {"step": (50.0, 0.02, 0.4)}  # noqa: RUF012

    tune = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/train/tune.py"))["tune"]
    found = tune(Three, [Instances(nodes=8)], seeds=[900], rounds=200)
    assert [trial.parameters["step"] for trial in found] == [0.4, 0.02, 50.0]
    assert found[-1].score == math.inf
