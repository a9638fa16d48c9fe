"""Costs: derivatives, curvature bounds, and the checker that users run on their own."""

import numpy as np
import pytest

from equipoise.train import Latency, Problem, Quadratic, check_cost
from equipoise.train.costs._base import box, curvature
from refusals import refused


class LogCost:
    """A user's cost with nothing but the four names: -w ln x, convex."""

    nodes, lo, hi = 3, 1.0, np.array([10.0, 20.0, 30.0])

    def __init__(self, w=(1.0, 2.0, 3.0)):
        self.w = np.array(w)

    def value(self, x):
        return -self.w * np.log(x)

    def derivative(self, x):
        return -self.w / x


@pytest.mark.parametrize(
    "cost",
    [
        Quadratic(2.0, [1.0, 2.0]),
        Quadratic([1.0, 3.0], 5.0, lo=0.0, hi=9.0),
        Latency([100.0, 5.0], 2.0, 1e-3, lo=0.1, hi=40.0),
        LogCost(),
    ],
    ids=["open", "boxed", "latency", "user"],
)
def test_good_costs_pass(cost):
    """The shipped costs and a user's own satisfy the checker."""
    check_cost(cost)


def test_latency_curvature_bounds_are_those_of_a_fine_sample():
    """The smallest and largest f'' on the box, against second differences of the derivative on 100,001 points."""
    cost = Latency([300.0, 20.0, 1.0], [1.0, 2.0, 0.5], [1e-3, 1e-2, 1e-1], lo=[2.0, 0.5, 1.0], hi=[30.0, 8.0, 20.0])
    smallest, largest = cost.curvature()
    t = np.linspace(0, 1, 100_001)[:, None]
    x = cost.lo + t * (cost.hi - cost.lo)
    second = np.gradient(cost.derivative(x), axis=0) / np.gradient(x, axis=0)
    np.testing.assert_allclose(smallest, second.min(axis=0), rtol=1e-3)
    np.testing.assert_allclose(largest, second.max(axis=0), rtol=1e-2)


@pytest.mark.parametrize("price", [-50.0, -0.3, -1e-9, 0.0, 1e-9, 0.3, 50.0])
def test_latency_knows_the_share_at_a_price(price):
    """There the derivative is the price; without energy it nears 0 from below, and no share has a price above."""
    cost = Latency([300.0, 20.0, 1.0], [1.0, 2.0, 0.5], [1e-3, 1e-2, 1e-1], lo=1.0, hi=30.0)
    assert cost.derivative(cost.share_at(price)) == pytest.approx(price, abs=1e-12)
    free = Latency([300.0, 20.0], lo=1.0, hi=30.0).share_at(price)
    assert (free == np.inf).all() if price >= 0 else free == pytest.approx(np.sqrt([300 / -price, 20 / -price]))


def test_a_users_cost_gets_a_sampled_curvature_that_bounds_the_true_one():
    """-w ln x has f'' = w/x^2, largest at lo: the sampled bound is above it, by less than a factor of two."""
    cost = LogCost()
    lo, hi = box(cost, 3)
    _, largest = curvature(cost, lo, hi)
    true = cost.w / lo**2
    assert (largest >= true).all()
    assert (largest <= 2 * true).all()


def broken(**changes):
    """LogCost with one thing wrong."""
    return type("Broken", (LogCost,), changes)()


@pytest.mark.parametrize(
    ("cost", "refusal"),
    [
        (broken(derivative=lambda self, x: -2 * self.w / x), ("cost.derivative", "Broken.derivative")),
        (broken(value=lambda self, x: np.sin(x), derivative=lambda self, x: np.cos(x)), ("cost.convex", "node 0")),
        (broken(value=lambda self, x: np.full(3, np.nan)), ("cost.finite", "Broken.value", "node 0")),
        (broken(derivative=lambda self, x: np.where(x > 5, np.nan, -self.w / x)), ("cost.finite", "Broken.derivative")),
        (broken(value=lambda self, x: 1.0), ("cost.shape", "float")),
        (broken(value=lambda self, x: np.ones(2)), ("cost.shape", "(2,)", "(3,)")),
        (broken(value=lambda self, x: np.multiply(x, 2, out=x)), ("cost.in_place",)),
        (LogCost, ("cost.class", "LogCost")),
        (broken(lo=np.array([11.0, 1.0, 1.0])), ("cost.box", "node 0", 11, 10)),
        (object(), ("cost.method", "value(x)")),
    ],
)
def test_a_broken_cost_is_explained(cost, refusal):
    """What is wrong, at which node and where."""
    with refused(*refusal):
        check_cost(cost, 3)


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Quadratic(-1.0, [1.0, 2.0]), ("cost.curvature", -1)),
        (lambda: Quadratic([1.0, float("nan")], 0.0), ("cost.number", "node 1")),
        (lambda: Quadratic([1.0, 2.0], [1.0, 2.0, 3.0]), ("cost.nodes", 2, 3)),
        (lambda: Quadratic("x", 1.0), ("cost.number", "'x'")),
        (lambda: Quadratic(1.0, [1.0, 2.0], lo=3.0, hi=2.0), ("cost.box", "node 0")),
        (lambda: Latency(10.0, lo=0.0, hi=4.0), ("cost.lo", 0)),
        (lambda: Latency(10.0, lo=1.0, hi=np.inf), ("cost.unbounded",)),
        (lambda: Latency(0.0, lo=1.0, hi=4.0), ("cost.work", 0)),
        (lambda: Latency(1.0, speed=-2.0, lo=1.0, hi=4.0), ("cost.speed", -2)),
        (lambda: Latency(1.0, energy=-1.0, lo=1.0, hi=4.0), ("cost.energy", -1)),
        (lambda: Problem(Quadratic(1.0, [1.0, 2.0], lo=5.0, hi=9.0), 9.0), ("budget.low", 9, 10, 2)),
        (lambda: Problem(Quadratic(1.0, [1.0, 2.0], lo=5.0, hi=9.0), 19.0), ("budget.high", 19, 18, 2)),
        (lambda: Problem(Quadratic(1.0, [1.0, 2.0]), float("nan")), ("budget.number", "nan")),
        (lambda: Problem(Quadratic(1.0, [1.0, 2.0])), ("problem.cost",)),
        (lambda: Problem(), ("problem.empty",)),
        (lambda: Problem(broken(value=lambda s, x: -(x**2), derivative=lambda s, x: -2 * x), 20.0), ("cost.convex",)),
        (lambda: Problem(type("Open", (LogCost,), {"hi": np.inf})(), 20.0), ("cost.unbounded", "Open")),
    ],
)
def test_bad_costs_and_budgets_are_refused(make, refusal):
    """One line, before anything runs."""
    with refused(*refusal):
        make()
