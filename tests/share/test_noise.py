"""Chance by hashing: the right distributions, whatever the order of asking."""

import numpy as np
import pytest
from scipy import stats

from equipoise.compiled import kernel
from equipoise.share.noise import keys_of, normal, uniform


@kernel
def draw_all(keys, numbers, uniforms, normals):
    for s in range(keys.shape[0]):
        for i in range(keys.shape[1]):
            for k in range(numbers):
                uniforms[s, i, k], normals[s, i, k] = uniform(keys[s, i], k), normal(keys[s, i], k)


@pytest.fixture(scope="module")
def drawn():
    """300,000 draws: 50 seeds, 60 tasks, 100 observations."""
    keys = keys_of(np.arange(50), 60, 0)
    uniforms, normals = np.empty((50, 60, 100)), np.empty((50, 60, 100))
    draw_all(keys, 100, uniforms, normals)
    return keys, uniforms, normals


def test_uniform_draws_are_uniform(drawn):
    """Kolmogorov and Smirnov do not object, and all lie in [0, 1)."""
    _, draws, _ = drawn
    assert draws.min() >= 0.0 and draws.max() < 1.0
    assert stats.kstest(draws.ravel(), "uniform").pvalue > 1e-3


def test_normal_draws_are_normal(drawn):
    """Kolmogorov and Smirnov do not object; the first four moments and the far tails are those of a normal."""
    draws = drawn[2].ravel()
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    error = 4 / np.sqrt(draws.size)
    assert draws.mean() == pytest.approx(0, abs=error) and draws.var() == pytest.approx(1, abs=error * np.sqrt(2))
    assert stats.skew(draws) == pytest.approx(0, abs=error * np.sqrt(6))
    assert stats.kurtosis(draws) == pytest.approx(0, abs=error * np.sqrt(24))
    expected = 2 * stats.norm.sf(3.5) * draws.size
    assert (np.abs(draws) > 3.5).sum() == pytest.approx(expected, abs=4 * np.sqrt(expected))


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["seed", "task", "observation"])
def test_neighbours_have_nothing_in_common(drawn, axis):
    """The draws of one seed, task or observation and the next do not correlate, nor do their squares."""
    draws = np.moveaxis(drawn[2], axis, 0)
    one, two = draws[:-1].ravel(), draws[1:].ravel()
    for f in (np.copy, np.square):
        assert np.corrcoef(f(one), f(two))[0, 1] == pytest.approx(0, abs=4 / np.sqrt(one.size))


def test_a_draw_does_not_depend_on_who_else_is_asked(drawn):
    """One by one, in any order, the same bits; another salt, other keys."""
    keys, uniforms, normals = drawn
    for s, i, k in ((49, 3, 99), (0, 0, 0), (7, 59, 12)):
        assert uniform(keys[s, i], k) == uniforms[s, i, k] and normal(keys[s, i], k) == normals[s, i, k]
    assert not (keys_of(np.arange(50), 60, 1) == keys).any()
