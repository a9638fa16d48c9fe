"""Promises on machines that fail: nobody's is broken but by a machine that job sat on, or by its own statement."""

from __future__ import annotations

import pytest
from failing import PROMISING, calendar, played

from equipoise.place.simulate import Placer

SEEDS = 20  # of each; 200 in `python tests/place/failing.py`


@pytest.mark.parametrize("policy", PROMISING, ids=lambda policy: policy.label)
def test_no_promise_is_broken_by_us(policy: Placer):
    """Failures, a spot machine's end, reservations, re-planning on, and in half of the workloads wrong durations."""
    broken = []
    for seed in range(SEEDS):
        result = played(policy, seed)
        assert result.certificate().passed, (seed, result.certificate())
        broken += result.broken.values()
        away = {(w.machine, t) for w in calendar(seed).windows if w.amount is None for t in range(w.first, w.last)}
        held = {(result.cluster.names[h], t) for _, t, h, _, _ in result.schedule.tolist()}
        assert not away & held
    assert len(broken) > 5 * SEEDS
    assert "us" not in broken and broken.count("machine") > 5 and broken.count("statement") > 5
