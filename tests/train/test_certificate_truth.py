"""What a certificate must not pass: nothing optimised, outputs that were changed, what is no number; and what it must."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.errors import InputError
from equipoise.train import Latency, Quadratic, check_cost

# costs in any units


class Own:
    """A user's cost: v (exp(w x / u) - 3 w x / u), x in units of u and f in units of v; `wrong` spoils its derivative."""

    def __init__(self, w, u, v, lo, hi, wrong=1.0):
        self.w, self.u, self.v, self.lo, self.hi, self.wrong, self.nodes = w, u, v, lo, hi, wrong, len(w)

    def value(self, x):
        return self.v * (np.exp(self.w * x / self.u) - 3 * self.w * x / self.u)

    def derivative(self, x):
        return self.wrong * self.v / self.u * self.w * (np.exp(self.w * x / self.u) - 3)


class Wave(Own):
    """Not convex."""

    def value(self, x):
        return self.v * np.sin(self.w * x / self.u)

    def derivative(self, x):
        return self.v / self.u * self.w * np.cos(self.w * x / self.u)


class WrongQuadratic(Quadratic):
    """Its derivative is a thousandth too large."""

    def derivative(self, x):
        return 1.001 * super().derivative(x)


class WrongLatency(Latency):
    """Its derivative is a thousandth too large."""

    def derivative(self, x):
        return 1.001 * super().derivative(x)


@settings(max_examples=60, deadline=None)
@given(st.floats(-9, 9), st.floats(-9, 9), st.integers(0, 10**6))
def test_costs_are_judged_alike_in_all_units(of_x, of_f, seed):
    """Shares and costs in units from 1e-9 to 1e9: right derivatives are accepted, wrong ones and bent costs refused."""
    u, v, rng = 10.0**of_x, 10.0**of_f, np.random.default_rng(seed)
    a, c, w = rng.uniform(0.5, 3, 5), rng.uniform(10, 60, 5), rng.uniform(50, 500, 5)
    curved, low, high = a * v / u**2, np.full(5, 3.0 * u), np.full(5, 20 * u)
    right = [
        Quadratic(curved, c * u, lo=0.0, hi=40 * u),
        Quadratic(curved, c * u),
        Latency(w * u * v, 1.0, 1e-4 * v / u**3, lo=0.1 * u, hi=60 * u),
        Latency(w * u * v, lo=1e-4 * u, hi=100 * u),
        Own(a, u, v, 0 * low, high),
        Own(a, u, v, low, low * 1.001),
    ]
    for cost in right:
        check_cost(cost, 5)
    wrong = [
        WrongQuadratic(curved, c * u, lo=0.0, hi=40 * u),
        WrongQuadratic(curved, c * u),
        WrongLatency(w * u * v, lo=1e-4 * u, hi=100 * u),
        Own(a, u, v, 0 * low, high, wrong=1.001),
        Own(a, u, v, 0 * low, high, wrong=0.0),
        Wave(a, u, v, 0 * low, high),
    ]
    for cost in wrong:
        with pytest.raises(InputError, match="derivative"):
            check_cost(cost, 5)
