"""Claims about sharing a site: their arithmetic by hand, and a side that changes when the thing they measure is broken."""

import numpy as np
import pytest

from equipoise.claims import Scale
from equipoise.claims.ledger import claims
from equipoise.claims.share import (
    _published as shared,
    latency_column,
    network_utilisation_converges,
    normalisation_bug,
    table_at_60_tasks,
)
from equipoise.share import Curve, Task, Workload, policies, published, simulate
from equipoise.share.published import PUBLISHED_TABLE
from equipoise.statistics import Paired

QUICK = Scale(quick=True)
NAMES = {
    "published-run",
    "table-at-60-tasks",
    "starvation",
    "latency-column",
    "panels-over-load",
    "light-load",
    "network-utilisation-converges",
    "uara-reduces-energy",
    "normalisation-bug",
    "estimation-fragility",
    "robustness-against-efficiency",
    "remedies",
}


def sides(measured):
    """Whether each finding holds, by what and when it was measured."""
    return {(finding.quantity, finding.when): finding.holds for finding in measured.findings}


def test_all_claims_of_the_paper_are_in_the_ledger():
    """Twelve sentences of Hasan and Peña, each with a source."""
    found = {name: claim for name, claim in claims().items() if claim.verb == "share" and "Hasan" in claim.source}
    assert set(found) == NAMES
    assert all(claim.sentence for claim in found.values())


def test_a_published_number_is_held_against_the_spread_of_single_runs():
    """By hand: runs 48 and 52 have mean 50 and sd 2.83; a published 46.7 lies 1.17 sd away, the others 0."""
    close = {name: [row.success - 2.0, row.success + 2.0] for name, row in PUBLISHED_TABLE.items()}
    runs = {name: {"success": np.array(values)} for name, values in (close | {"UARA": [48.0, 52.0]}).items()}
    finding = table_at_60_tasks._column(runs, "success")
    assert finding.value == pytest.approx(3.3 / 8**0.5)
    assert finding.holds
    assert "UARA" in finding.over


def test_the_least_sure_lead_is_the_one_nearest_to_zero_in_its_own_errors():
    """5 +- 4 is less sure than 1 +- 0.1, though it is larger."""
    gaps = [Paired("a", "b", "success", 60, 1.0, 0.1), Paired("c", "d", "success", 60, 5.0, 4.0)]
    assert shared.least_sure(gaps).one == "c"


def test_means_are_those_of_the_specified_tables():
    """The text's two Uniforms on seeds 20000-20399 of the preset described; the authors' on the first of 400 seeds."""
    found = shared.played(("DescribedUniform", "Uniform"), 400, loads=(10, 60), workload=Workload.described())
    means = [shared.mean_of(found, name, "success", load) for load in (10, 60) for name in found.names]
    assert means == pytest.approx([91.7, 92.0, 51.2, 57.6], abs=0.06)


def test_the_same_tasks_give_the_table_of_an_independent_implementation():
    """60 tasks, seeds 0-59: within three standard errors of 400 seeds' means, which `equipoise reproduce` repeats."""
    found = shared.same_tasks([kind() for kind in policies.PUBLISHED], 60)
    theirs = {"Uniform": 48.16, "SDF": 49.53, "LARA": 44.55, "UARA": 36.92, "UARA+LARA": 33.41}
    for name, mean in theirs.items():
        cell = found[name]["success"]
        assert cell.mean() == pytest.approx(mean, abs=3.0 * cell.std(ddof=1) / 60**0.5)


def test_latency_with_failures_counts_until_the_deadline():
    """Work 30, data 100, delay 3: succeeds in step 4. One that cannot be done waits until step 16, 10 after it came."""
    easy = Task(arrival=0, deadline=20, data=100.0, delay=3, target=0.5, curve=Curve(0.5 * 30**0.3, 0.3))
    hopeless = Task(arrival=6, deadline=17, data=10.0, delay=3, target=1e-6, curve=Curve(1.0, 0.3))
    run = simulate(policies.SDF(), Workload.of([easy, hopeless]))
    assert run.latency.tolist() == [4.0]
    assert latency_column._with_failures(run).tolist() == [7.0]


def test_who_never_finishes_sending_is_counted():
    """25.7 % of 60 tasks, by an independent implementation on 400 other seeds."""
    assert network_utilisation_converges._never(200) == pytest.approx(25.7, abs=1.0)


def test_five_computing_and_twenty_sending_tasks():
    """By the text 150 / 25 = 6 each, 150 / 5 = 30 each with the right denominator."""
    assert normalisation_bug.starving("DescribedUARA+LARA").tolist() == [6.0] * 5
    assert normalisation_bug.starving("DescribedUARA+LARA:corrected").tolist() == [30.0] * 5


def test_had_the_code_the_bug_the_claim_about_it_would_hold(monkeypatch):
    """Broken on purpose: what is put in for the bug is the authors' own policy. Then all cells print as the paper's."""
    monkeypatch.setattr(normalisation_bug.WithTheBug, "given", policies.UARALARA.given)
    assert claims()["normalisation-bug"].measure(QUICK).verdict.word == "reproduced"


def test_another_draw_shows_in_the_published_run(monkeypatch):
    """Broken on purpose: the generator starts elsewhere. No column prints as the paper's."""
    monkeypatch.setattr(published, "SEED", 43)
    measured = claims()["published-run"].measure(QUICK)
    assert measured.verdict.word == "not reproduced"


def test_a_policy_that_wastes_an_empty_site_shows_at_light_load(monkeypatch):
    """Broken on purpose: Uniform gives a tenth. It joins UARA+LARA among those that do not perform well."""
    decide = policies.Uniform.decide
    monkeypatch.setattr(
        policies.Uniform,
        "decide",
        lambda self, view: decide(self, view)._replace(compute=decide(self, view).compute / 10),
    )
    found = sides(claims()["light-load"].measure(QUICK))
    what = "success below the bound of any policy"
    assert found[what, "Uniform"] is False
    assert found[what, "SDF"] is True


def test_a_hybrid_that_is_uara_lara_recovers_nothing(monkeypatch):
    """Broken on purpose: Hybrid decides as the text's UARA+LARA does, and wins nothing back."""
    monkeypatch.setattr(policies.Hybrid, "start", lambda self, scene: policies.DescribedUARALARA().start(scene))
    measured = claims()["remedies"].measure(QUICK)
    assert measured.verdict.word == "not reproduced"
    assert sides(measured)["success minus that of Uniform", "a hybrid that falls back (ours)"] is False
