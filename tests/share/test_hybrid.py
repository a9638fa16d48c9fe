"""Hybrid: fails nowhere, survives wrong beliefs because it probes, keeps a floor and learns, and races when unsure."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from equipoise.share import Curve, Site, Task, Workload, policies, simulate, sweep
from equipoise.share.estimators import Bayes
from equipoise.share.policies.hybrid import _price
from equipoise.share.view import Prior
from refusals import refused

FRESH = range(20_000, 20_120)  # nothing was tuned on these


def wrong_prior(shift: float, sigma: float = 0.005) -> Workload:
    """The paper's tasks, but a told mean of b that is off."""
    paper = Workload.described(sigma=sigma)
    return paper.but(prior=replace(paper.prior, mean=(paper.prior.mean[0], paper.prior.mean[1] + shift)))


def test_it_is_above_both_uniforms_from_20_tasks_up():
    """Paired over fresh seeds, by more than two standard errors at every load."""
    players = [policies.DescribedUniform(), policies.Uniform(), policies.Hybrid()]
    found = sweep(players, loads=[20, 40, 60, 100], seeds=FRESH)
    for other in ("Uniform", "UniformCorrected"):
        for gap in found.paired("Hybrid", other):
            assert gap.standard_error is not None
            assert gap.difference > 2 * gap.standard_error, str(gap)


@pytest.mark.parametrize("law", ["pooled", "per_node", "linear"])
def test_it_is_more_efficient_than_the_most_frugal_published_policy(law):
    """Success per energy above UARA+LARA's under each power law, by more than two paired standard errors."""
    players = [policies.DescribedUARALARA(), policies.Hybrid()]
    found = sweep(players, loads=[10, 20, 40, 60], seeds=range(20_000, 20_400), site=Site(power=law))
    for gap in found.paired("Hybrid", "UARA+LARA", "efficiency"):
        assert gap.standard_error is not None
        assert gap.difference > 2 * gap.standard_error, str(gap)


def test_it_comes_near_the_oracle():
    """At least the asked share of the bound on fresh seeds: 98 % at 20 tasks, 94 at 40, 93 at 60, 91 at 100."""
    found = sweep([policies.Hybrid()], loads=[20, 40, 60, 100], seeds=range(20_000, 20_200), oracle=True)
    reached = {row["load"]: row["of_oracle"] for row in found.rows}
    for load, asked in {20: 0.98, 40: 0.94, 60: 0.93, 100: 0.91}.items():
        assert reached[load] >= asked, reached


def test_a_prior_off_by_a_tenth_hardly_matters_but_would_without_its_safeguards():
    """b told .1 too low, 60 tasks: at least 75 %; without floor, probes and population learning at most 60 %."""
    workload = wrong_prior(-0.1)
    whole = simulate(policies.Hybrid(), workload, load=60, seeds=FRESH)
    bare = policies.Hybrid(estimator=Bayes(population=False), floor=0.0, probe=0.0)
    assert whole.success.mean() >= 75
    assert simulate(bare, workload, load=60, seeds=FRESH).success.mean() <= 60


@pytest.mark.parametrize("shift", [-0.1, 0.1])
@pytest.mark.parametrize("sigma", [0.005, 0.05])
def test_wrong_beliefs_and_noise_never_push_it_below_a_uniform(shift, sigma):
    """From 20 tasks up, sigma not told: not below either Uniform by more than two paired standard errors."""
    players = [policies.DescribedUniform(), policies.Uniform(), policies.Hybrid()]
    found = sweep(players, wrong_prior(shift, sigma), loads=[20, 60, 100], seeds=FRESH)
    for other in ("Uniform", "UniformCorrected"):
        for gap in found.paired("Hybrid", other):
            assert gap.difference > -2 * (gap.standard_error or 0.0), str(gap)


def test_on_real_curves_it_doubles_uniform():
    """60 recorded tasks on fresh seeds: 2x Uniform's success and 1.8x UniformCorrected's, and 65.5 % of the clairvoyant."""
    twin = policies.clairvoyant(policies.Hybrid())
    players = [policies.DescribedUniform(), policies.Uniform(), policies.Hybrid(), twin]
    found = sweep(players, Workload.recorded(), loads=[60], seeds=FRESH[:60])
    success = {row["policy"]: row["success"] for row in found.rows}
    assert success["Hybrid"] >= 2.0 * success["Uniform"]
    assert success["Hybrid"] >= 1.8 * success["UniformCorrected"]
    assert success["Hybrid"] >= 37.6 / 57.4 * success["Hybrid (clairvoyant)"]


def test_the_switch_makes_it_race_or_pace():
    """With trust 0 it always races: more energy than when it never does, on the same tasks, at light load."""
    race = simulate(policies.Hybrid(trust=0.0), load=10, seeds=40)
    pace = simulate(policies.Hybrid(trust=math.inf), load=10, seeds=40)
    assert race.energy.mean() > 1.5 * pace.energy.mean()


def test_curves_that_break_the_power_law_make_it_race():
    """Level for long, then a cliff: what was believed after three looks was wrong, so it stops pacing by itself."""
    samples = np.geomspace(1, 3000, 40)
    errors = np.where(samples < 150, 0.8, 0.8 * (samples / 150) ** -2.0)
    cliff = Curve.recorded(samples, errors)
    tasks = [Task(arrival=0, deadline=60, data=10, target=0.2, curve=cliff, delay=0) for _ in range(6)]
    workload = Workload.of(tasks, prior=Prior(mean=(-0.2, 0.3), variance=(0.01, 0.0, 0.002)))
    switching = simulate(policies.Hybrid(), workload, seeds=1)
    pacing = simulate(policies.Hybrid(trust=math.inf), workload, seeds=1)
    assert switching.successes[0] == 6
    assert (switching.done_at.max() < pacing.done_at.max()) or pacing.successes[0] < 6


def test_the_price_of_a_gamble_is_its_cost_per_success():
    """By hand: eight equally likely amounts. Certain 40: price 40. One in eight is 8, the rest out of reach: 8 x 8 = 64."""
    assert _price(np.full(8, 40.0), 1000.0) == pytest.approx(40.0)
    assert _price(np.array([8.0] + [5000.0] * 7), 1000.0) == pytest.approx(64.0)
    assert _price(np.full(8, 40.0), 39.0) == math.inf
    ladder = np.arange(1.0, 9.0) * 10
    by_hand = min(
        sum(min(w, d) for w in ladder) / sum(w <= d for w in ladder) for d in ladder
    )  # E[min(W, d)] / P(W <= d)
    assert _price(ladder, 1000.0) == pytest.approx(by_hand)


def test_a_new_task_is_probed_so_that_it_can_be_estimated():
    """Sixty tasks at once: everyone who computes was seen within a few steps, in small steps."""
    run = simulate(policies.Hybrid(), load=60, seeds=3, trace=True)
    assert run.trace is not None
    ready = (run.trace.state == 3).cumsum(axis=0)
    given = run.trace.compute.cumsum(axis=0) > 0
    assert given[ready >= 2].all()


@pytest.mark.parametrize("name", ["margin", "floor", "probe", "ahead", "trust"])
def test_constants_that_cannot_be_are_refused(name):
    """Negative and nan, in one line that names the constant."""
    for value in (-1.0, math.nan):
        with refused("number.range", f"Hybrid: {name} is {value!r}"):
            policies.Hybrid(**{name: value})
