"""Claims about `train`: their numbers against others found elsewhere; and they turn when what they measure is broken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from equipoise.claims import Claim, Finding, Measured, Scale
from equipoise.claims.ledger import claims
from equipoise.claims.train import (
    _watched,
    alpha_sweep,
    directed_links,
    eigenvalue_crossing,
    feasible_at_all_times,
    linear_regression,
    log_quantisation,
    lyapunov_decrease,
    sector_bound,
    svm_in_continuous_time,
    tracker_start,
)
from equipoise.train import LogQuantizer, Network, Problem, Quadratic, studies
from equipoise.train.baselines import ours as ours_entrant
from equipoise.train.dynamics.mixing import Mixing
from equipoise.train.dynamics.prices import Prices
from equipoise.train.state import State
from equipoise.train.theory.closed_loop import ClosedLoop
from equipoise.train.truth import optimal_model

QUICK = Scale(quick=True)


class Tiny(Scale):
    """Smaller than the quick form: enough to see which side a finding is on."""

    def pick(self, quick: Any, full: Any) -> Any:
        return min(quick, 60)


def finding(measured: Measured, about: str, words: str) -> Finding:
    """The one about the paper or ours whose quantity or condition has these words."""
    found = [f for f in measured.findings if f.about == about and words in f"{f.quantity}; {f.when}"]
    assert len(found) == 1, [f"{f.quantity}; {f.when}" for f in found]
    return found[0]


def test_every_claim_of_the_paper_has_its_file():
    """The ledger knows the claims by name; each has a sentence, a source and a protocol to play."""
    known = {name: claim for name, claim in claims().items() if claim.verb == "train"}
    assert set(known) >= {
        "feasible-at-all-times",
        "directed-links",
        "log-quantisation",
        "sector-bound",
        "tracker-start",
        "alpha-bound",
        "alpha-sweep",
        "eigenvalue-crossing",
        "lyapunov-decrease",
        "switching-networks",
        "svm-in-continuous-time",
        "linear-regression",
        "mnist-log-against-uniform",
        "rho-against-bits",
        "density-against-communication",
        "fifty-percent-better",
        "anytime-termination",
    }
    assert all(isinstance(claim, Claim) and claim.sentence.endswith(".") and claim.source for claim in known.values())


def test_a_sum_is_off_by_what_integers_say():
    """0.1 has no finite binary form: ten of them are 1 after rounding, and not exactly."""
    assert _watched.off_budget([0.5, 0.25, 0.25], 1.0) == 0.0
    assert sum([0.1] * 10) != 1.0
    exact = abs(10 * int(math.ldexp(0.1, 60)) - (1 << 60)) / 2**60  # 0.1 is a whole number of 2^-60
    assert _watched.off_budget([0.1] * 10, 1.0) == pytest.approx(exact, rel=1e-12)


def test_a_unit_lost_in_one_round_is_seen(monkeypatch):
    """Breakage: in round 7 the first centre drops one unit, 2^-k of a CPU."""
    kept = feasible_at_all_times.measure(Tiny())
    assert kept.verdict.word == "reproduced"
    assert all(f.holds for f in kept.findings if "sum of shares" in f.quantity)
    play = State.advance

    def leak(self: Any, graph: Any, number: int) -> str | None:
        diverged: str | None = play(self, graph, number)
        if number == 7 and self.allocation is not None:
            held = self.allocation.node.shares if isinstance(self.allocation, Prices) else self.allocation.units
            held[0] -= 1
        return diverged

    monkeypatch.setattr(State, "advance", leak)
    broken = feasible_at_all_times.measure(Tiny())
    assert [f.holds for f in broken.findings if "sum of shares" in f.quantity] == [False] * 6
    assert broken.verdict.word == "not reproduced"


def test_a_penalty_leaves_the_box_by_what_its_equilibrium_says():
    """Two centres, of which one may hold at most 1 CPU and wants 10: where the two prices meet, by hand."""
    # a = 1, c = (10, 0), budget 4, hi = (1, 10): prices -9 + 11 (x - 1) and 4 - x are equal at x = 2, one CPU outside.
    problem = Problem(Quadratic(1.0, [10.0, 0.0], lo=0.0, hi=[1.0, 10.0]), 4.0)
    found = _watched.watched(problem, Network.path(2), feasible_at_all_times.PAPER, rounds=3000, budget=4.0)
    assert found.off.max() == 0.0
    assert found.outside[-1] == pytest.approx(1.0, rel=0.1)  # node-wise codes of 12% are heard instead of the prices


def test_the_papers_flows_lose_what_degrees_say():
    """One round changes the sum by step x sum of (out-degree - in-degree) x price, as every arc is heard at one end only."""
    network, cost = Network.erdos_renyi(20, 0.2, directed=True, seed=3), directed_links._cost(3)
    arcs = network.arcs(0)
    out, into = (np.bincount(ends, minlength=20) for ends in (arcs.senders, arcs.receivers))
    step = 0.5 / (into.max() * cost.a.max())
    expected = abs(step * ((out - into) @ (cost.a * (25.0 - cost.c))))
    assert directed_links.pulled(network, cost, 1)[0] == pytest.approx(expected, rel=1e-9)


def test_ratios_are_those_of_the_formula():
    """q(v) = sign(v) exp(rho round(ln|v| / rho)), by math.log and math.exp one by one."""
    rng = np.random.default_rng(0)
    values = 10.0 ** rng.uniform(-3, 3, 50) * rng.choice([-1.0, 1.0], 50)
    expected = [math.exp(0.5 * round(math.log(abs(v)) / 0.5)) / abs(v) for v in values]
    assert_allclose(sector_bound.ratios(0.5, 50), expected, rtol=1e-12)


def test_a_quantiser_that_rounds_down_leaves_the_sector(monkeypatch):
    """Breakage: cells are named by their lower end, so that q(v)/v is in (e^-rho, 1]."""
    assert finding(sector_bound.measure(QUICK), "ours", "outside the sector").holds
    monkeypatch.setattr(
        sector_bound, "LogQuantizer", lambda rho, mode: LogQuantizer(rho=rho, mode=mode, rounding="floor")
    )
    assert finding(sector_bound.measure(QUICK), "ours", "outside the sector").holds is False


def test_trackers_that_lose_their_start_are_seen(monkeypatch):
    """Breakage: whatever is asked for, trackers start at zero."""
    begin = Mixing.__init__

    def forgetful(self: Mixing, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self.trackers[:] = 0.0

    monkeypatch.setattr(Mixing, "__init__", forgetful)
    broken = tracker_start.measure(Tiny())
    assert finding(broken, "paper", "gap of the common model; z(0) = the gradient").holds is False
    assert broken.verdict.word == "depends"  # they agree, on a wrong model


def test_trackers_from_zero_end_where_the_shifted_gradient_vanishes():
    """sum z = sum grad g(y) - sum grad g(y(0)) for ever, so they agree where the pooled gradient is that of the start."""
    model = tracker_start._model(0)
    run, gap, _ = tracker_start._play(0, "zero")
    start = 3.0 * np.random.default_rng([0, 4]).standard_normal((20, 4))
    kept = model.gradients(start).sum(axis=0)
    assert_allclose(model.total(run.models.mean(axis=0))[1], kept, rtol=1e-9)
    assert gap > 0.1


def test_innovation_codes_that_became_node_wise_leave_a_residual(monkeypatch):
    """Breakage: our method codes prices node by node. At price 36 it no longer converges; at 0 it still does."""
    monkeypatch.setattr(log_quantisation, "models_settled", lambda *_: [0.0])  # not about models
    monkeypatch.setattr(ours_entrant, "LogQuantizer", lambda rho: LogQuantizer(rho=rho, mode="node"))
    broken = log_quantisation.measure(QUICK)
    assert finding(broken, "ours", "innovation codes at price 36").holds is False
    assert finding(broken, "ours", "innovation codes at price 0").holds


def test_a_bound_twenty_times_too_large_diverges(monkeypatch):
    """Breakage: |lambda_2|/L is overstated; the claim that nothing diverges below it turns."""
    true = studies._paper_bound
    monkeypatch.setattr(studies, "_paper_bound", lambda *given: 20.0 * true(*given))
    broken = alpha_sweep.measure(Tiny())
    assert finding(broken, "paper", "runs that diverge").holds is False


def test_a_crossing_that_is_5_percent_off_is_contradicted_by_runs(monkeypatch):
    """Breakage: the eigenvalues are said to cross later than they do; runs just below it diverge."""
    assert finding(eigenvalue_crossing.measure(Tiny()), "ours", "not do as predicted").holds
    true = ClosedLoop.crossing
    monkeypatch.setattr(ClosedLoop, "crossing", lambda *given: 1.05 * true(*given))
    assert finding(eigenvalue_crossing.measure(Tiny()), "ours", "not do as predicted").holds is False


def test_the_hard_path_is_what_it_says():
    """Its norm rises at least once, on a run that ends at the pooled optimum."""
    problem, network, _ = lyapunov_decrease.hard_case()
    assert network.n == lyapunov_decrease.HARD
    assert problem.model is not None
    traced = lyapunov_decrease._hard_traces(400)
    assert traced["norm"].largest_rise > 0.0
    assert traced["norm"].values[-1] < 1e-6 * traced["norm"].values[0]


def test_pooled_regression_is_least_squares():
    """Normal equations against numpy's own least squares, which goes by singular values."""
    shards = linear_regression._shards(1)
    X, y = np.concatenate([rows for rows, _ in shards]), np.concatenate([answers for _, answers in shards])
    assert_allclose(linear_regression.pooled(shards), np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-10)


def test_the_pooled_svm_is_flat_where_the_truth_says():
    """The gradient of the pooled loss, by differences of losses, is zero at the centralised solver's answer."""
    _, model, _ = svm_in_continuous_time._instance(0)
    best = optimal_model(model).parameters
    for direction in np.eye(model.size):
        ahead, behind = (model.total(best + side * 1e-4 * direction)[0] for side in (1, -1))
        assert abs(ahead - behind) / 2e-4 < 1e-6
