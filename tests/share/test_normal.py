"""The compiled normal distribution against scipy, and lognormals cut off below against quadrature."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats

from called import called
from equipoise.share import _arithmetic

below, quantile = called(_arithmetic.below), called(_arithmetic.quantile)
draw_beyond, mean_beyond = called(_arithmetic.draw_beyond), called(_arithmetic.mean_beyond)

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


@given(st.floats(1e-300, 1.0, exclude_max=True))
def test_quantile_is_the_inverse(p: float):
    """As scipy's, to 1e-12."""
    assert quantile(p) == pytest.approx(stats.norm.ppf(p), abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("tail", [1e-15, 1e-12, 1e-9, 1e-3, 0.02425, 0.3])
def test_quantile_is_as_good_near_one_as_near_zero(tail: float):
    """1 - p loses digits near one only if it is used carelessly."""
    assert quantile(1.0 - tail) == pytest.approx(stats.norm.ppf(1.0 - tail), abs=1e-12)


def test_quantiles_of_certainties_are_finite():
    """0 and 1 are answered far out, not with infinities that would turn into nan."""
    assert (quantile(0.0), quantile(1.0)) == (-38.0, 38.0)


@given(log_works, spreads, places)
def test_the_mean_beyond_what_is_done_is_that_of_the_cut_lognormal(log_work: float, spread: float, place: float):
    """Against quadrature; from seven deviations on a formula for the tail takes over, good to 0.4 percent."""
    done = math.exp(log_work + spread * place)
    near = 0.004 if place > 6.9 else 1e-6
    assert mean_beyond(log_work, spread, done) == pytest.approx(mean_excess(log_work, spread, done), rel=near)


def test_the_mean_beyond_nothing_is_the_mean():
    """Before the first sample the cut takes nothing away: exp(m + s^2 / 2)."""
    assert mean_beyond(5.0, 1.0, 0.0) == pytest.approx(stats.lognorm(1.0, scale=math.exp(5.0)).mean())


@given(log_works, spreads, st.floats(-6.0, 30.0), st.floats(0.0, 1.0, exclude_max=True))
def test_a_draw_beyond_has_its_place_in_the_cut_lognormal(log_work: float, spread: float, place: float, u: float):
    """P(W > draw | W > done) = 1 - u by scipy's survival function, thirty deviations out as well."""
    done = math.exp(log_work + spread * place)
    drawn = draw_beyond(log_work, spread, done, u)
    survive = stats.norm.logsf((math.log(drawn) - log_work) / spread) - stats.norm.logsf(place)
    assert drawn >= done
    assert math.exp(survive) == pytest.approx(1.0 - u, abs=1e-6)


def test_draws_before_the_first_sample_are_plain_quantiles():
    """The median of an uncut belief is its middle."""
    found = [draw_beyond(4.0, 0.7, 0.0, u) for u in (0.1, 0.5, 0.9)]
    assert found == pytest.approx(np.exp(4.0 + 0.7 * stats.norm.ppf([0.1, 0.5, 0.9])))
