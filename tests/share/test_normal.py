"""The compiled normal distribution against scipy, and lognormals cut off below against quadrature."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats

from called import called
from equipoise.share import _arithmetic

below, mean_beyond = called(_arithmetic.below), called(_arithmetic.mean_beyond)

log_works = st.floats(0.0, 9.0)
spreads = st.floats(0.02, 1.5)
places = st.floats(-6.0, 12.0)  # of what is done, in standard deviations from the middle


def mean_excess(log_work: float, spread: float, done: float) -> float:
    """E[W - done | W > done] as the integral of the survival function, in u = ln(W / done)."""
    start = (math.log(done) - log_work) / spread
    peak = max(log_work + spread**2 - math.log(done), 0.0)

    def survival(u: float) -> float:
        return done * math.exp(u + stats.norm.logsf(start + u / spread) - stats.norm.logsf(start))

    ends = sorted({0.0, peak, peak + spread / max(start, 1.0), peak + 3.0 * spread, peak + 40.0 * spread})
    return float(sum(integrate.quad(survival, a, b, limit=200)[0] for a, b in pairwise(ends)))


@given(st.floats(-37.0, 37.0))
def test_below_is_the_cumulative_normal(z: float):
    """P(Z <= z) as scipy has it, in both tails to relative precision."""
    assert below(z) == pytest.approx(stats.norm.cdf(z), rel=1e-10, abs=0.0)


@given(log_works, spreads, places)
def test_the_mean_beyond_what_is_done_is_that_of_the_cut_lognormal(log_work: float, spread: float, place: float):
    """Against quadrature; from seven deviations on a formula for the tail takes over, good to 0.4 percent."""
    done = math.exp(log_work + spread * place)
    near = 0.004 if place > 6.9 else 1e-6
    assert mean_beyond(log_work, spread, done) == pytest.approx(mean_excess(log_work, spread, done), rel=near)


def test_the_mean_beyond_nothing_is_the_mean():
    """Before the first sample the cut takes nothing away: exp(m + s^2 / 2)."""
    assert mean_beyond(5.0, 1.0, 0.0) == pytest.approx(stats.lognorm(1.0, scale=math.exp(5.0)).mean())
