"""Chance by hashing: the right distributions, whatever the order of asking."""

import numpy as np
import pytest
from scipy import stats

from equipoise.kernels import kernel
from equipoise.share._arithmetic import keys_of, normal


@kernel
def draw_all(keys, numbers, normals):
    for s in range(keys.shape[0]):
        for i in range(keys.shape[1]):
            for k in range(numbers):
                normals[s, i, k] = normal(keys[s, i], k)


@pytest.fixture(scope="module")
def drawn():
    """300,000 draws: 50 seeds, 60 tasks, 100 observations."""
    keys, normals = keys_of(np.arange(50), 60), np.empty((50, 60, 100))
    draw_all(keys, 100, normals)
    return keys, normals


def test_normal_draws_are_normal(drawn):
    """Kolmogorov and Smirnov do not object; the first four moments and the far tails are those of a normal."""
    draws = drawn[1].ravel()
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
    draws = np.moveaxis(drawn[1], axis, 0)
    one, two = draws[:-1].ravel(), draws[1:].ravel()
    for f in (np.copy, np.square):
        assert np.corrcoef(f(one), f(two))[0, 1] == pytest.approx(0, abs=4 / np.sqrt(one.size))


def test_a_draw_does_not_depend_on_who_else_is_asked(drawn):
    """One by one, in any order, the same bits."""
    keys, normals = drawn
    for s, i, k in ((49, 3, 99), (0, 0, 0), (7, 59, 12)):
        assert normal(keys[s, i], k) == normals[s, i, k]
