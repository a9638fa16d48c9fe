"""Comparisons: what is said of entrants is what their tracks say, and our own promises are checked, not believed."""

import math

import numpy as np
import pytest

from equipoise.claims.train.fifty_percent_better import EARLY, LATE, claim_table, improvement
from equipoise.train import Network, Problem, Quadratic, baselines, compare
from equipoise.train.baselines import Recorder
from equipoise.train.comparison import better_share, certificate_of, geometric_mean, median_interval, worst_of
from equipoise.train.instances import Instances
from equipoise.train.studies import alpha_certificate, alpha_study, density_study, rho_study
from refusals import refused


class Told:
    """Walks straight to the optimum: its distance is what it is told, at so many bits per message."""

    def __init__(self, name, distances, bits, off=0.0):
        self.name, self.distances, self.bits, self.off = name, distances, bits, off

    def play(self, problem, network, rounds, every=1):
        book = Recorder(self.name, problem, network, every)
        for number in range(rounds):
            book.send(network.topology(number), self.bits)
            away = book.start - book.optimum.shares
            book.record(book.optimum.shares + self.distances[number] * away + self.off)
        return book.track()


def pair():
    """Two centres and one link."""
    return Problem(Quadratic(1.0, [0.0, 10.0]), budget=10.0), Network.path(2)


def duel():
    fast = Told("Ours", [0.5, 0.2, 0.1, 0.01], 10)
    slow = Told("slow", [0.6, 0.3, 0.05, 0.02], 25)
    return compare(*pair(), [fast, slow], rounds=4, targets=(0.1,))


def test_equal_rounds_and_equal_bits_by_hand():
    """20 bits per round against 50: after 3 rounds ours has spent 60, which pays for one round of the other."""
    found = duel()
    assert found.after_rounds("slow", 3) == pytest.approx([0.05])
    assert found.after_bits("slow", 3) == pytest.approx([0.6])
    assert found.after_bits("slow", 4, payer="slow") == pytest.approx([0.02])
    assert found.after_bits("slow", 1) == pytest.approx([1.0])  # 20 bits pay for nothing


def test_quartiles_along_rounds_and_bits_by_hand():
    """One instance: the quartiles are all its own; 50 bits per round."""
    np.testing.assert_allclose(duel().band("slow", "rounds", [1, 4]), [[0.6, 0.02]] * 3)
    np.testing.assert_allclose(duel().band("slow", "bits", [99, 150]), [[0.6, 0.05]] * 3)
    np.testing.assert_allclose(duel().band("slow", "rounds", [2], "bits"), [[100]] * 3)


def test_rounds_and_bits_to_a_target_by_hand():
    """Both stay below 0.1 from round 3 on: 60 bits against 150."""
    rows = {row["entrant"]: row for row in duel().summary}
    assert (rows["Ours"]["round_to_0.1"], rows["Ours"]["bits_to_0.1"]) == (3, 60)
    assert (rows["slow"]["round_to_0.1"], rows["slow"]["bits_to_0.1"], rows["slow"]["messages_to_0.1"]) == (3, 150, 6)
    assert rows["slow"]["reached_0.1"] == 1


def test_who_is_nearer_by_hand():
    """Ours leads in all rounds but the third."""
    found = duel()
    shares = {
        row["checkpoint"]: row["reference_better"]
        for row in found.rows
        if row["protocol"] == "rounds" and row["entrant"] == "slow"
    }
    assert shares == {1: 1.0, 2: 1.0, 4: 1.0}
    assert better_share(found.after_rounds("Ours", 3), found.after_rounds("slow", 3)) == 0
    assert all(row["reference_better"] is None for row in found.rows if row["entrant"] == "Ours")


def test_what_has_arrived_is_a_tie():
    """1e-12 is not nearer than 1e-11: both are rounding."""
    assert better_share(np.array([1e-12, 0.1]), np.array([1e-11, 0.2])) == 0.5
    assert geometric_mean(np.array([1e-12, 1e-7])) == pytest.approx(1e-8)
    assert geometric_mean(np.array([0.1, math.inf])) == math.inf


def test_the_interval_of_a_median_holds_it_and_repeats():
    """The same seeds give the same interval; one seed has none."""
    values = np.random.default_rng(1).lognormal(size=40)
    low, high = median_interval(values)
    assert low < np.median(values) < high
    assert median_interval(values) == (low, high)
    assert median_interval(np.array([3.0])) == (3.0, 3.0)


def test_improvement_by_hand():
    """Half the distance is 50%; never against some rounds is minus infinity, the other way 100%; never both is 0."""
    one, other = np.array([1.0, 4.0, math.inf, 3.0, math.inf]), np.array([2.0, 2.0, 5.0, math.inf, math.inf])
    assert improvement(one, other).tolist() == [50.0, -100.0, -math.inf, 100.0, 0.0]


def test_every_entrant_plays_every_seed_and_the_certificate_passes():
    """All nine on two instances; the table names each, and result.json's numbers are finite."""
    found = compare(Instances(nodes=10), seeds=2, rounds=60)
    assert found.names == list(baselines.ALL)
    assert all(len(tracks) == 2 for tracks in found.tracks.values())
    assert all(name in found.table() for name in found.names)
    assert certificate_of(found, 1e-6).passed
    numbers = [value for row in found.as_dict()["rows"] for value in row.values() if isinstance(value, float)]
    assert np.isfinite(numbers).all()


def test_ours_is_nearer_than_every_real_rival_at_equal_bits():
    """What the picture shows: at the bits ours has spent when it is at 1e-6, nobody is nearer."""
    found = compare(Instances(nodes=16), seeds=4, rounds=80)
    needed = found.needed("Ours", 1e-6, "bits")
    assert np.isfinite(needed).all()
    for entrant in found.entrants:
        name = entrant.name
        if name != "Ours" and not getattr(entrant, "analysis", False):
            there = [t.at_bits(bits) for t, bits in zip(found.tracks[name], needed, strict=True)]
            assert min(there) > 1e-6, name


@pytest.mark.parametrize(
    ("spoilt", "check"),
    [(Told("Ours", [0.5, 0.2, 0.1, 1e-9], 10, off=0.25), "budget"), (Told("Ours", [0.5, 0.2, 0.1, 0.05], 10), "gap")],
)
def test_a_broken_promise_of_ours_fails_the_certificate(spoilt, check):
    """An entrant that calls itself Ours but breaks the budget, or does not arrive."""
    found = certificate_of(compare(*pair(), [spoilt], rounds=4), 1e-6)
    assert found[check].passed is False and not found.passed


def test_a_share_outside_its_box_fails_the_certificate():
    """Half way to an optimum at the bound is inside; a start pushed beyond it is not."""
    problem = Problem(Quadratic(1.0, [0.0, 10.0], lo=0.0, hi=6.0), budget=10.0)
    found = certificate_of(compare(problem, Network.path(2), [Told("Ours", [-0.5, 0.0], 10)], rounds=2), 1e-6)
    assert found["box"].value == pytest.approx(0.5) and found["box"].passed is False


def test_an_unfair_start_fails_the_certificate():
    """An entrant that begins elsewhere is found out."""

    class Ahead(Told):
        def play(self, problem, network, rounds, every=1):
            other = Problem(Quadratic(1.0, [0.0, 11.0]), budget=10.0)
            return super().play(other, network, rounds, every)

    found = certificate_of(compare(*pair(), [Told("fair", [0.5], 9), Ahead("ahead", [0.5], 9)], rounds=1), 1e-6)
    assert found["same instances"].value == pytest.approx(0.5) and not found.passed


def test_bad_input_is_named():
    """What was given, and the way out."""
    problem, network = pair()
    with refused("network.missing"):
        compare(problem)
    with refused("entrant.twice", "'a'"):
        compare(problem, network, [Told("a", [1.0], 1), Told("a", [1.0], 1)])
    with refused("entrant.none"):
        compare(problem, network, [])
    with refused("rounds.range", 0):
        compare(problem, network, rounds=0)
    with refused("network.unused"):
        compare(Instances(), network)
    with refused("comparison.nodes"):
        compare(Problem(Quadratic(1.0, 1.0), budget=1.0), Network.from_edges([], n=1))
    with refused("budget.twice"):
        Instances(budget=5.0, price=1.0)
    with refused("budget.price"):
        Instances(cost="latency", price=1.0)


def test_an_entrant_that_lacks_something_is_named_before_anybody_plays():
    """No name, no play, a class, a lone text; and a play that forgets to return its track, as soon as it has played."""
    problem, network = pair()

    class Silent(Told):
        def play(self, problem, network, rounds, every=1):
            super().play(problem, network, rounds, every)

    class Nameless:
        play = Told.play

    class Idle:
        name = "idle"

    for entrants, refusal in (
        ([Nameless()], ("entrant.name", "Nameless")),
        ([Told("", [1.0], 1)], ("entrant.name", "''")),
        ([Idle()], ("entrant.play", "'idle'")),
        ([Told], ("entrant.class", "Told", "Told()")),
        ("Ours", ("entrant.list", "str")),
        ([Silent("silent", [1.0], 1)], ("entrant.track", "'silent'", "None", "Track")),
    ):
        with refused(*refusal):
            compare(problem, network, entrants, rounds=1)


def test_the_round_of_the_first_table_is_explained():
    """Of rounds 1, 2 and 4 the last at which the reference is on its way; the first if it has arrived by then."""
    found = compare(*pair(), [Told("ADMM", [0.5, 0.2, 0.1, 0.0], 10)], rounds=4)
    assert found.telling == 2 and "bits of ADMM by then" in found.table()
    assert "Round 2 is the last of 1, 2, 4 after which the median distance of ADMM is still above 1e-9" in found.table()
    arrived = compare(*pair(), [Told("ADMM", [0.0] * 4, 10)], rounds=4)
    assert arrived.telling == 1 and "Round 1 is the first of 1, 2, 4: ADMM has arrived" in arrived.table()


def test_who_refuses_is_left_out_unless_named():
    """Ratio consensus has no meaning for latency costs."""
    kind = Instances(nodes=5, cost="latency")
    assert "RatioConsensus" not in compare(kind, seeds=1, rounds=2).names
    with refused("entrant.cost", "RatioConsensus", "Quadratic"):
        compare(kind, entrants=["RatioConsensus"], seeds=1, rounds=2)


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("price", [0.0, 18.0])
def test_instances_have_the_price_they_are_asked_for(price, boxes):
    """The optimum's own price, from bisection; with boxes some nodes end full; the same seed draws the same."""
    problem, network = Instances(price=price, boxes=boxes)(4)
    optimum = Recorder("x", problem, network).optimum
    assert optimum.price == pytest.approx(price, abs=1e-9)
    full = np.isclose(optimum.shares, problem.cost.hi)
    assert full.any() == boxes
    again, _ = Instances(price=price, boxes=boxes)(4)
    assert (again.cost.c == problem.cost.c).all() and again.budget == problem.budget


def test_node_wise_log_codes_win_at_price_0_and_lose_at_36():
    """Against uniform codes of the same bits; innovation always wins. And the 50% is not true of everybody."""
    claim = claim_table(Instances(nodes=12), seeds=3, levels=(0.0, 36.0))
    nearer = {(row["code"], row["price"], row["boxes"]): row["better"] for row in claim.codes if row["rounds"] == LATE}
    assert (nearer["LaplacianLog", 0.0, False], nearer["LaplacianLog", 36.0, False]) == (1.0, 0.0)
    assert all(nearer[code, price, False] == 1.0 for code in ("LaplacianEdge", "Ours") for price in (0.0, 36.0))
    assert all(nearer["Ours", price, True] == 1.0 for price in (0.0, 36.0))
    paper = {
        row["price"]: row
        for row in claim.verdicts
        if row["candidate"] == "LaplacianLog" and row["protocol"] == f"{EARLY} rounds" and not row["boxes"]
    }
    assert not paper[0.0]["true"] and "ADMM" in paper[0.0]["false_against"]
    arrived = [row for row in claim.verdicts if row["candidate"] == "Ours" and row["protocol"] == f"{LATE} rounds"]
    assert all("ADMM" in row["tied_with"] for row in arrived if not row["boxes"])  # both have arrived by then
    cell = claim.cell(f"bits of {LATE} rounds", 0.0, False, "LaplacianLog", "LaplacianUniform")
    assert cell["improvement"] > 50 and cell["better"] == 1.0
    assert worst_of(list(claim.comparisons.values()), 1e-6).passed


def test_a_coarser_code_takes_fewer_bits_a_number_and_ours_still_arrives():
    """The paper's code never reaches 1e-6 at a price of 18, however fine."""
    study = rho_study(Instances(nodes=10, price=18.0), rounds=120, seeds=2)
    ours = [row for row in study.rows if row["entrant"] == "Ours"]
    assert [row["rho"] for row in ours] == sorted(row["rho"] for row in ours)
    assert np.diff([row["bits_a_number"] for row in ours]).max() <= 0
    assert all(row["reached"] == 1 for row in ours)
    assert all(row["round"] is None for row in study.rows if row["entrant"] == "LaplacianLog")


def test_a_denser_network_takes_fewer_rounds():
    """From a third of all links to all of them: fewer rounds, for ours as for floats."""
    players = [baselines.Ours(), baselines.LaplacianExact()]
    study = density_study(Instances(nodes=12, p=0.3), players, rounds=400, seeds=2)
    for name in ("Ours", "LaplacianExact"):
        rounds = {row["p"]: row["round"] for row in study.rows if row["entrant"] == name}
        assert max(rounds[1.0], rounds[0.7]) < rounds[0.3] < rounds[0.15]
    assert rounds[1.0] < rounds[0.3] / 2
    with refused("study.network"):
        density_study(Instances(network="ring"), players, rounds=10, seeds=1)


def test_the_papers_step_is_safe_and_slow_and_larger_ones_diverge_in_the_end():
    """The best step lies above the bound, and far above it everything diverges."""
    study = alpha_study(Instances(nodes=12), seeds=1)
    rows = {row["part"]: row for row in study.rows}
    best = min((row for row in study.rows if row["round"]), key=lambda row: row["round"])
    assert rows[1.0]["converged"] == 1 and best["part"] > 1 and best["round"] < rows[1.0]["round"]
    assert rows[0.01]["slow"] == 1 and rows[40.0]["diverged"] == 1
    assert alpha_certificate(study).passed
