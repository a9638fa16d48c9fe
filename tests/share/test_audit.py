"""The certificate recomputes; it does not believe. Every kind of false book is tried on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equipoise.share import Server, Site, Workload, policies, simulate, sweep
from equipoise.share.audit import audit
from equipoise.share.task import COMPUTING, DONE, FAILED


@pytest.fixture(scope="module", params=["described", "authors"])
def run(request):
    return simulate(policies.Uniform(), getattr(Workload, request.param)(), load=20, seeds=3, trace=True)


def test_an_honest_run_is_clean():
    """Every policy, all presets and real curves."""
    for policy in policies.ALL:
        for workload in (Workload.authors(), Workload.described(), Workload.network_heavy(), Workload.recorded()):
            found = audit(simulate(policy(), workload, load=10, seeds=2, trace=True))
            assert found.capacity <= 1e-6 and found.bandwidth <= 1e-6 and found.idle <= 1e-6
            assert (found.misplaced, found.outcomes) == (0, 0)


def test_compute_above_the_site_is_found(run):
    """Everyone's compute doubled."""
    assert audit(replace(run, trace=replace(run.trace, compute=2 * run.trace.compute))).capacity > 1


def test_bandwidth_above_the_uplink_is_found(run):
    """What was sent, three times over; where the uplink divides itself, what a policy says of it means nothing."""
    if run.site.uplink == "equal":
        assert audit(replace(run, trace=replace(run.trace, bandwidth=1e9 + run.trace.bandwidth))).bandwidth == 0
        return
    assert audit(replace(run, trace=replace(run.trace, bandwidth=3 * run.trace.bandwidth + 1))).bandwidth > 1


def test_compute_before_the_data_is_there_is_found(run):
    """One task computes a sample in step 0."""
    compute = run.trace.compute.copy()
    compute[0, 0, 5] = 1.0
    assert audit(replace(run, trace=replace(run.trace, compute=compute))).misplaced > 0


def test_a_claimed_success_is_recomputed(run):
    """A failed task called done, and a done one called failed."""
    state = run.state.copy()
    state[0, int(np.flatnonzero(state[0] == DONE)[0])] = FAILED
    assert audit(replace(run, state=state)).outcomes == 1


def test_a_claimed_step_is_recomputed(run):
    """Done one step earlier than it was."""
    done_at = run.done_at.copy()
    done_at[0, int(np.flatnonzero(run.state[0] == DONE)[0])] -= 1
    assert audit(replace(run, done_at=done_at)).outcomes == 1


def test_claimed_idleness_is_recomputed(run):
    """Idle compute halved in the books."""
    assert audit(replace(run, idle=run.idle / 2)).idle > 0.1


def test_idle_compute_is_counted_by_hand(run):
    """Directly from the trace's states: capacity not given in steps with a computing task."""
    used = run.trace.compute.sum(axis=2)
    ready = (run.trace.state == COMPUTING).any(axis=2)
    by_hand = np.where(ready, 150.0 - used, 0.0).sum(axis=0) / (150.0 * run.batch.horizon) * 100
    np.testing.assert_allclose(run.idle_while_work, by_hand, rtol=1e-12)


def test_a_sweep_with_false_numbers_fails_its_certificate():
    """One success too many in one seed, and success above the oracle."""
    players = [policies.SDF()]
    found = sweep(players, loads=[10], seeds=3, oracle=True)
    assert found.certificate().passed
    cell = dict(found.measured["SDF", 10])
    cell["successes"] = cell["successes"] + np.array([0, 1, 0])
    forged = replace(found, measured={("SDF", 10): cell})
    assert forged.certificate()["outcomes"].passed is False
    cell["successes"] = found.bounds[10] + 1
    assert replace(found, measured={("SDF", 10): cell}).certificate()["oracle"].passed is False


def test_without_the_oracle_there_is_no_such_check():
    """It does not apply, so it neither passes nor fails."""
    players = [policies.SDF()]
    certificate = sweep(players, loads=[10], seeds=2).certificate()
    assert "oracle" not in certificate and certificate.passed


def test_one_task_above_its_cap_is_found():
    """31 samples for a single task, on a site that is far from full."""
    run = simulate(policies.SDF(), Workload.described(), load=1, seeds=1, trace=True)
    compute = run.trace.compute.copy()
    compute[compute > 0] = 31.0
    assert audit(replace(run, trace=replace(run.trace, compute=compute))).capacity == pytest.approx(1.0)


def test_a_few_samples_left_unsent_are_not_nothing():
    """A policy that keeps back 5e-8 samples of every transfer: the engine waits for them, and so does the audit."""

    class Miser:
        def decide(self, view):
            honest = policies.Uniform().decide(view)
            return honest._replace(bandwidth=np.maximum(honest.bandwidth - 5e-8, 0.0))

    found = audit(simulate(Miser(), Workload.described(), load=10, seeds=2, trace=True))
    assert (found.misplaced, found.outcomes) == (0, 0) and found.idle < 1e-9


@pytest.mark.parametrize("law", ["pooled", "per_node", "linear"])
def test_false_energy_is_found(law):
    """A tenth of it in the books, under each law; the true one passes, also with unlike servers and power caps."""
    site = Site(servers=(Server(30.0), Server(60.0, power_cap=4.0)), power=law)
    for where in (Site(power=law), site):
        run = simulate(policies.DescribedUARA(), Workload.described(), load=15, seeds=2, site=where, trace=True)
        assert audit(run).energy < 1e-9 and audit(run).servers < 1e-6
        assert audit(replace(run, energy=run.energy * 0.1)).energy > 0.5


def test_a_server_that_ran_beyond_its_speed_is_found(run):
    """Everything that all servers ran, put on the first one."""
    ran = np.zeros_like(run.trace.ran)
    ran[..., 0] = run.trace.ran.sum(axis=3)
    assert audit(replace(run, trace=replace(run.trace, ran=ran))).servers > 1


def test_a_single_seed_above_the_oracle_fails():
    """Not all of them: one."""
    players = [policies.SDF()]
    found = sweep(players, loads=[10], seeds=8, oracle=True)
    cell = dict(found.measured["SDF", 10])
    cell["successes"] = np.minimum(cell["successes"], found.bounds[10] - 1)
    cell["successes"][7] = found.bounds[10][7] + 1
    assert replace(found, measured={("SDF", 10): cell}).certificate()["oracle"].passed is False
