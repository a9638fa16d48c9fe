"""Momentum on one mode, against companion matrices, played iterations and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equipoise.train.theory import best_beta, momentum_limit, two_step_radius


def companion(rate: float, beta: float) -> float:
    """The spectral radius of (e, e_prev) -> ((1 - r)((1 + beta) e - beta e_prev), e)."""
    left = 1.0 - rate
    return float(np.abs(np.linalg.eigvals(np.array([[left * (1 + beta), -left * beta], [1.0, 0.0]]))).max())


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.8, 0.97])
def test_the_radius_is_that_of_the_companion_matrix(beta: float) -> None:
    """Rates from nothing to past stability, one by one by numpy and all at once by us."""
    rates = np.linspace(0.0, 2.2, 45)
    assert two_step_radius(rates, beta) == pytest.approx([companion(r, beta) for r in rates], abs=1e-7)
    assert isinstance(two_step_radius(0.1, beta), float)


@pytest.mark.parametrize(("part", "settles"), [(0.98, True), (1.02, False)])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_the_iteration_settles_just_below_the_limit_only(beta: float, part: float, settles: bool) -> None:
    """2000 steps of the recursion as it stands."""
    rate = part * momentum_limit(beta)
    error, before = 1.0, 0.0
    for _ in range(2000):
        error, before = (1 - rate) * (error + beta * (error - before)), error
    assert (abs(error) < 1e-6) is settles
    assert settles or abs(error) > 1e6


@pytest.mark.parametrize(
    ("smallest", "largest"), [(0.01, 0.6), (1e-4, 1.0), (0.2, 1.2), (0.01, 1.3), (0.001, 1.6), (0.3, 1.9), (0.9, 0.95)]
)
def test_the_best_beta_is_what_brute_force_finds(smallest: float, largest: float) -> None:
    """20,000 betas by 200 rates: no other has a smaller largest radius."""
    rates = np.linspace(smallest, largest, 200)
    betas = np.linspace(0.0, 0.99999, 20_000)
    ends = np.maximum(
        *(np.array([two_step_radius(r, b) for b in betas[::10]]) for r in (smallest, largest))
    )  # coarse, by the ends
    found = best_beta(smallest, largest)
    worst = float(two_step_radius(rates, found).max())
    assert 0.0 <= found < 1.0
    assert worst <= ends.min() + 1e-9
    assert worst <= max(two_step_radius(rates, float(betas[10 * ends.argmin()])).max(), 1e-12) + 1e-9


def test_critical_damping_by_hand() -> None:
    """r = 1/4: beta = (1 - 1/2)/(1 + 1/2) = 1/3, radius 1 - sqrt(r) = 1/2."""
    assert best_beta(0.25, 1.0) == pytest.approx(1 / 3)
    assert two_step_radius(0.25, 1 / 3) == pytest.approx(0.5, abs=1e-7)


def test_where_there_is_nothing_to_speed_up_there_is_no_momentum() -> None:
    """No positive rate, or one that jumps past the end at once."""
    assert best_beta(0.0, 1.0) == 0.0
    assert best_beta(1.2, 1.3) == 0.0


def test_momentum_takes_the_square_root_of_the_conditioning() -> None:
    """A mode of rate 1e-6: radius 1 - 1e-3 with momentum, 1 - 1e-6 without."""
    assert -math.log(two_step_radius(1e-6, best_beta(1e-6, 1.0))) == pytest.approx(1e-3, rel=1e-2)
    assert -math.log(two_step_radius(1e-6, 0.0)) == pytest.approx(1e-6, rel=1e-3)
