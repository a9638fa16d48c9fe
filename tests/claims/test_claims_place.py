"""The claims of place: their yardsticks against values from elsewhere; and they turn when what they measure is broken."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from equipoise.claims import Scale
from equipoise.claims.ledger import chosen
from equipoise.claims.place import (
    _growth,
    _slots,
    approximation_in_practice,
    g_delta,
    idle_cluster_ties,
    prices_from_history,
    rounding_success_rate,
    training_time,
    value_of_locality,
)
from equipoise.place import compare, placers
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.planner.job_arrays import JobArrays
from equipoise.place.planner.rounding import Rounding
from equipoise.place.prices._posted import Posted
from equipoise.place.prices.recalled import Recalled
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster

approx = pytest.approx
QUICK = Scale(quick=True)


def small_slot(free: list[list[float]], gamma: int = 2) -> _slots.Slot:
    """Machines with so much (gpu, cpu) free; a worker takes 1 and 2, a server 0 and 1; the later the dearer."""
    amount = np.array(free)
    cluster = Cluster((Machine({"gpu": 10, "cpu": 10}, len(free)),))
    arrays = JobArrays(
        np.array([1000, 2000]),
        np.array([0, 1000]),
        gamma,
        np.arange(9.0)[None],
        np.arange(9.0)[None],
        0.0,
        cluster.within,
    )
    price = 1.0 + np.arange(len(free))
    return _slots.Slot(cluster, None, arrays, (1000 * amount).astype(np.int64), 2 * price, price)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", range(1, 7))
def test_the_exact_placement_is_the_cheapest_of_all_that_fit(width):
    """Two machines, every way to put workers and servers on them, counted out."""
    slot = small_slot([[3, 5], [3, 9]])
    least = np.inf
    for w, s in product(product(range(7), repeat=2), product(range(4), repeat=2)):
        counts = np.array([w, s])
        fits = (counts[0][:, None] * slot.arrays.worker + counts[1][:, None] * slot.arrays.server <= slot.free).all()
        if fits and sum(w) == width and sum(s) == -(-width // 2):
            least = min(least, slot.cost(counts))
    assert _slots.exact(slot, width) == approx(least)


def test_asked_widths_can_be_placed_and_repeat():
    """Every slot comes with a finite exact cost, not above greedy's; the same seed gives the same."""
    first = [(width, cost) for _, width, cost in _slots.asked(6, 10, seed=4)]
    assert first == [(width, cost) for _, width, cost in _slots.asked(6, 10, seed=4)]
    for slot, width, cost in _slots.asked(6, 10, seed=4):
        assert np.isfinite(cost) and cost <= _slots.greedy(slot)[width] * (1 + 1e-9)


def test_kept_rows_follow_the_binomial():
    """Half a worker on each of two machines and 1.5 servers: two workers with probability 1/4, two servers with 1/2."""
    slot = small_slot([[1, 3], [1, 3]], gamma=1)
    kept = g_delta.Relaxed(slot, 2, np.array([[0.5, 0.5], [1.0, 1.5]]), 0).kept(1.0)
    assert kept["packing"] == approx(75.0, abs=10.0)  # a worker and two servers need four CPUs: fails at 1/2 x 1/2
    assert kept["covering"] == approx(25.0, abs=10.0)  # two servers are there anyway
    everything = g_delta.Relaxed(slot, 2, np.array([[1.0, 1.0], [1.0, 1.0]]), 0)
    assert everything.kept(1.0) == {"packing": 100.0, "covering": 100.0, "all": 100.0}
    assert everything.kept(2.0) == {"packing": 0.0, "covering": 100.0, "all": 0.0}


def test_the_guarantee_by_hand():
    """U/L = e^50: 1 / (2 x 50) of the optimum; never more than a half."""
    assert approximation_in_practice.promised({"posted": {"growth": [3.0, 50.0]}})[0] == approx(1.0)
    assert approximation_in_practice.promised({"posted": {"growth": [0.1]}})[0] == approx(50.0)


def test_training_time_is_that_of_the_comparison_table():
    """Per finished job the mean of `compare`; of every job the unfinished to the end, added by hand."""
    cluster, jobs = synthetic_cluster(20), synthetic(12, seed=501, slots=_growth.SLOTS)
    result = compare(cluster, jobs, [placers.SRTF()], slots=_growth.SLOTS)["SRTF"]
    run = _growth.scored(result, 1.0)
    assert 0 < run.completed < 12
    assert run.slots_done / run.completed == approx(result.row["mean_completion"])
    late = sum(_growth.SLOTS - job.arrival for job, finish in zip(jobs, result.finish, strict=True) if finish < 0)
    assert run.slots_all == approx(run.slots_done + late)
    assert training_time.hours([{"SRTF": [run]}], "SRTF", training_time.DONE) == [
        approx(run.slots_done / run.completed)
    ]


def test_rounding_that_never_fails_would_be_reproduced(monkeypatch):
    """Eight slots of each size, ten times over: too few draws fit; with every draw called feasible it is reproduced."""
    monkeypatch.setattr(rounding_success_rate, "asked", lambda count, machines, seed: 10 * [*_slots.asked(8, 20, seed)])
    monkeypatch.setattr(rounding_success_rate, "in_a_run", lambda seed: 100.0)
    sides = {(f.when, f.about): f.holds for f in rounding_success_rate.measure(QUICK).findings}
    assert sides["half-loaded, 20 machines", "paper"] is False
    assert sides["half-loaded, 20 machines", "ours"] is True
    monkeypatch.setattr(Rounding, "_feasible", lambda self, drawn, width: np.ones(len(drawn), dtype=bool))
    assert rounding_success_rate.measure(QUICK).verdict.word == "reproduced"


def test_a_wrong_g_delta_is_seen(monkeypatch):
    """Ten slots: each G keeps the rows it is for; with G = 1 for both, neither does."""
    monkeypatch.setattr(g_delta, "asked", lambda count, machines, seed: _slots.asked(10, 20, seed))
    held = {finding.when: finding.holds for finding in g_delta.measure(QUICK).findings}
    assert held["covering rows with G for covering"] and held["packing rows with G for packing"]
    assert not held["all rows with G for covering"] and not held["all rows with G for packing"]
    monkeypatch.setattr(g_delta, "stretch", lambda *given: 1.0)
    broken = {finding.when: finding.holds for finding in g_delta.measure(QUICK).findings}
    assert broken["covering rows with G for covering"] is False
    assert broken["packing rows with G for packing"] is False


def test_a_planner_blind_to_locality_is_seen(monkeypatch):
    """Four seeds at slow links: planning for locality gains; a PDORS that is OASiS gains nothing, and the claim falls."""
    monkeypatch.setattr(value_of_locality, "SEED_COUNT", 4)
    monkeypatch.setattr(value_of_locality, "HISTORIES", 2)
    monkeypatch.setattr(value_of_locality, "LEVELS", (1.0,))
    runs = value_of_locality.at(value_of_locality.SLOW, 4)
    aware, blind = (
        sum(run.utility for run in runs[label]) for label in (value_of_locality.AWARE, value_of_locality.BLIND)
    )
    assert aware > blind
    monkeypatch.setattr(value_of_locality, "placers", SimpleNamespace(PDORS=placers.OASiS, OASiS=placers.OASiS))
    assert value_of_locality.measure(QUICK).verdict.word == "not reproduced"


def leads(label: str, about: str) -> dict[str, bool | None]:
    runs = _growth.grown([(20, 12)], 3, 1)
    return {finding.when: finding.holds for finding in _growth.leads(runs, label, about, "three seeds")}


def test_prices_nobody_can_pay_are_seen(monkeypatch):
    """PD-ORS leads FIFO; posted at 1e100 nobody is admitted, and it leads nobody."""
    _growth._at.cache_clear()
    assert leads(_growth.PAPER, "paper")["against FIFO"] is True
    post = Recalled.post

    def dear(self, run, policy=None):
        posted = post(self, run, policy)
        return Posted(1e100 * posted.base / posted.base.min(), 0.0 * posted.growth, posted.note)

    monkeypatch.setattr(Recalled, "post", dear)
    _growth._at.cache_clear()
    assert not any(leads(_growth.PAPER, "paper").values())
    _growth._at.cache_clear()


def test_a_policy_that_falls_behind_on_an_idle_cluster_is_seen():
    """By hand: of 100, 99 and 60 the second ties within one per cent, the third does not."""
    runs = {name: [SimpleNamespace(utility=worth)] for name, worth in (("a", 100.0), ("b", 99.0), ("c", 60.0))}
    assert [idle_cluster_ties.behind(runs, name) for name in runs] == approx([0.0, 1.0, 40.0])  # type: ignore[arg-type]


def test_calibration_that_only_recalls_is_seen(monkeypatch):
    """With recalled constants in the place of history's prices nothing is gained: the claim is not reproduced."""
    kinds = SimpleNamespace(Recalled=Recalled, Replay=Recalled)
    monkeypatch.setattr(prices_from_history, "prices", kinds)
    assert prices_from_history.measure(QUICK).verdict.word == "not reproduced"


def test_every_claim_says_what_could_not_be_read():
    """Nine claims; none of them passes a number off as the paper's."""
    claims = chosen(["place"])
    assert len(claims) == 9
    assert all("abstract and introduction" in claim.unread for claim in claims)
