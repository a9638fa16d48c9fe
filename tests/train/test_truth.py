"""The centralised solvers that certificates compare with, themselves checked by CVXPY."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from equipoise.train import Latency, Quadratic
from equipoise.train.audit import kkt_violation
from equipoise.train.truth import optimal_shares


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 15), st.floats(0.02, 0.98))
def test_quadratic_shares_are_cvxpys(seed, nodes, fill):
    """Random boxes and budgets: bisection on the price against Clarabel."""
    rng = np.random.default_rng(seed)
    a, c = rng.uniform(0.5, 3, nodes), rng.uniform(-20, 60, nodes)
    lo, hi = np.sort(rng.uniform(-5, 40, (2, nodes)), axis=0)
    budget = float(lo.sum() + fill * (hi - lo).sum())
    found = optimal_shares(Quadratic(a, c, lo=lo, hi=hi), budget, lo, hi)
    x = cp.Variable(nodes)
    cp.Problem(cp.Minimize(0.5 * cp.sum(cp.multiply(a, (x - c) ** 2))), [cp.sum(x) == budget, x >= lo, x <= hi]).solve(
        solver=cp.CLARABEL
    )
    ours, theirs = (float(0.5 * (a * (v - c) ** 2).sum()) for v in (found.shares, x.value))
    assert ours <= theirs + 1e-6 * (1 + abs(theirs))
    assert_allclose(found.shares, x.value, atol=1e-2)
    assert found.shares.sum() == pytest.approx(budget, abs=1e-10)
    assert ((found.shares >= lo) & (found.shares <= hi)).all()


def test_latency_shares_are_cvxpys():
    """A cost without a closed inverse goes through bisection on its derivative."""
    rng = np.random.default_rng(1)
    work, energy = rng.uniform(50, 500, 8), rng.uniform(1e-4, 1e-2, 8)
    lo, hi = np.full(8, 2.0), np.full(8, 30.0)
    found = optimal_shares(Latency(work, 1.0, energy, lo=lo, hi=hi), 100.0, lo, hi)
    x = cp.Variable(8)
    objective = cp.sum(cp.multiply(work, cp.inv_pos(x)) + cp.multiply(energy, cp.power(x, 3)))
    cp.Problem(cp.Minimize(objective), [cp.sum(x) == 100, x >= lo, x <= hi]).solve(solver=cp.CLARABEL)
    ours = float((work / found.shares + energy * found.shares**3).sum())
    assert_allclose(found.shares, x.value, atol=1e-2)  # a flat optimum: the conic solver stops at 1e-8 of the objective
    assert ours <= objective.value * (1 + 1e-12)
    assert ours == pytest.approx(objective.value, rel=1e-6)


def test_open_boxes():
    """No bounds at all: x = c + price/a with sum b, by hand."""
    a, c = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])
    found = optimal_shares(Quadratic(a, c), 1e4, np.full(3, -np.inf), np.full(3, np.inf))
    price = (1e4 - 6.0) / 1.75
    assert_allclose(found.shares, c + price / a, rtol=1e-14)
    assert found.price == pytest.approx(price, rel=1e-12)


def test_a_user_cost_on_an_open_box_is_bracketed():
    """cosh has no closed inverse here and no box: sinh(x) is equal everywhere, so shares are equal."""

    class Cosh:
        nodes, lo, hi = 4, -np.inf, np.inf

        def value(self, x):
            return np.cosh(x)

        def derivative(self, x):
            return np.sinh(x)

    found = optimal_shares(Cosh(), 20.0, np.full(4, -np.inf), np.full(4, np.inf))
    assert_allclose(found.shares, 5.0, atol=1e-9)


@pytest.mark.parametrize(
    ("x", "prices", "expected"),
    [
        ([1, 1, 1], [2, 2, 2], 0.0),  # all inside, one price
        ([1, 1, 1], [2, 4, 3], 1.0),  # all inside: half the spread
        ([0, 1, 1], [9, 2, 2], 0.0),  # at lo, dearer than the rest: fine
        ([0, 1, 1], [1, 2, 2], 0.5),  # at lo, cheaper than the rest: should have more
        ([5, 1, 1], [1, 2, 2], 0.0),  # at hi, cheaper: fine
        ([5, 1, 1], [4, 2, 2], 1.0),  # at hi, dearer: should have less
        ([0, 5, 5], [9, 1, 2], 0.0),  # nobody can give to anybody
    ],
)
def test_kkt_by_hand(x, prices, expected):
    """min over lambda of the worst violation, worked out on paper; boxes [0, 5], curvature 1."""
    found = kkt_violation(np.array(x, float), np.array(prices, float), np.ones(3), np.zeros(3), np.full(3, 5.0))
    assert found == pytest.approx(expected)
