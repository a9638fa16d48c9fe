"""The ladder: rung by rung the same tasks, a leader, its lead, and what watching learning curves gains."""

import math

import numpy as np
import pytest

from equipoise.share import Site, Workload, policies, simulate
from equipoise.share.ladder import RUNGS, competitors, ladder, pays
from equipoise.share.simulate import telling_task
from equipoise.share.sweep import sweep
from equipoise.share.view import name_of
from refusals import refused


@pytest.fixture(scope="module")
def climbed():
    """Everyone, two loads, a few seeds."""
    return ladder(loads=(10, 60), seeds=8)


def test_everyone_who_was_published_climbs():
    """The five, and Hybrid."""
    names = [name_of(policy) for policy in competitors()]
    assert names == ["Uniform", "SDF", "LARA", "UARA", "UARA+LARA", "Hybrid"]


def test_the_first_rung_has_no_network_and_the_last_all_of_it(climbed):
    """Without a network nothing is sent and no task waits; the top rungs are the described site."""
    bottom = climbed.sweeps["no network"]
    assert max(row["network"] for row in bottom.rows) == 0
    assert not bottom.workload.draw(10, 3, bottom.site).delay.any()
    assert climbed.sweeps["+ jitter"].site == Site()
    assert climbed.sweeps["+ jitter"].workload == Workload.described()


def test_every_rung_plays_the_same_tasks(climbed):
    """Arrivals, deadlines and work do not depend on the rung, so that rungs can be compared."""
    batches = [found.workload.draw(60, [3], found.site) for found in climbed.sweeps.values()]
    for batch in batches[1:]:
        for name in ("arrival", "deadline", "work"):
            assert (getattr(batch, name) == getattr(batches[0], name)).all()


def test_the_network_costs_success(climbed):
    """Uniform at 60 tasks finishes less with transfer and delay than without a network."""
    found = {
        name: next(r["success"] for r in climbed.sweeps[name].rows if (r["policy"], r["load"]) == ("Uniform", 60))
        for name in ("no network", "+ delay")
    }
    assert found["+ delay"] < found["no network"]


def test_the_leader_and_its_lead_are_those_of_a_sweep_of_ones_own(climbed):
    """The rung "+ delay" at 60 tasks recomputed from scratch, seed by seed."""
    everyone = competitors()
    found = sweep(everyone, Workload.described(), loads=[60], seeds=8, site=Site(jitter=0.0))
    means = {name: found.measured[name, 60]["success"] for name in found.names}
    first, second = sorted(means, key=lambda name: -means[name].mean())[:2]
    row = next(row for row in climbed.rows if (row["rung"], row["load"]) == ("+ delay", 60))
    gap = means[first] - means[second]
    assert (row["leader"], row["runner_up"]) == (first, second)
    assert row["lead"] == pytest.approx(gap.mean())
    assert row["lead_se"] == pytest.approx(gap.std(ddof=1) / math.sqrt(8))


def test_learners_are_those_that_watch_curves(climbed):
    """LARA and UARA+LARA do, Uniform, SDF and UARA do not; the gain is the best of one against the best of the other."""
    assert {"LARA", "UARA+LARA"} <= set(climbed.learners)
    assert not {"Uniform", "SDF", "UARA"} & set(climbed.learners)
    for row in climbed.rows:
        assert row["learner"] in climbed.learners
        assert row["other"] not in climbed.learners
        assert row["leader"] in (row["learner"], row["other"])


def test_energy_rungs_are_judged_by_efficiency(climbed):
    """Three power laws; the value is success percent over energy."""
    for row in climbed.rows:
        assert row["measure"] == ("efficiency" if "energy" in row["rung"] else "success")
    assert [climbed.sweeps[f"+ energy, {law}"].site.power for law in ("pooled", "per_node", "linear")] == [
        "pooled",
        "per_node",
        "linear",
    ]


def test_the_verdict_says_where_watching_pays_and_where_it_costs(climbed):
    """The authors' learners lose without a network and win nowhere; those of the text win in efficiency: both are said."""
    pays_part, costs_part = climbed.verdict[0].split("; it ")
    assert '"no network"' in costs_part and pays_part.endswith("pays on no rung")
    described = [policies.named(name) for name in ("DescribedUniform", "DescribedUARA", "DescribedUARA+LARA")]
    found = ladder(described, loads=[60], seeds=8)
    told = {row["rung"]: pays(row) for row in found.rows}
    assert told["no network"] is False and told["+ energy, pooled"] is True


def test_a_gain_within_two_standard_errors_is_not_claimed():
    """1 ± 0.6 is neither a gain nor a loss; 1 ± 0.4 is a gain; one seed has no error and claims nothing."""
    assert pays({"gain": 1.0, "gain_se": 0.6}) is None
    assert pays({"gain": 1.0, "gain_se": 0.4}) is True
    assert pays({"gain": -1.0, "gain_se": 0.4}) is False
    assert pays({"gain": 1.0, "gain_se": None}) is None


def test_raw_rows_name_their_rung(climbed):
    """One per rung, policy, load and seed."""
    rows = list(climbed.seed_rows)
    assert len(rows) == len(RUNGS) * len(competitors()) * 2 * 8
    assert {row["rung"] for row in rows} == {rung.name for rung in RUNGS}


def test_progress_rises_to_the_whole():
    """Told after every part, over all rungs."""
    seen = []
    ladder(
        [policies.SDF(), policies.DescribedUniform()],
        loads=[5],
        seeds=2,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1]


def test_one_policy_alone_is_refused():
    """No lead over nobody."""
    with refused("policies.few"):
        ladder([policies.SDF()], loads=[5], seeds=2)


def test_the_telling_task_is_where_outcomes_split():
    """Without UARA+LARA: a task that one policy finishes and the other does not."""
    lives = {
        name_of(p): simulate(p, load=60, seeds=[1], trace=True) for p in (policies.SDF(), policies.DescribedUniform())
    }
    task = telling_task(lives)
    ends = [int(run.state[0, task]) for run in lives.values()]
    assert len(set(ends)) == 2
    assert np.isin(ends, [4, 5]).all()
