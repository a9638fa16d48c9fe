"""Noise that depends on who and when, not on the order of asking: a hash of (seed, task, observation)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


@kernel
def _scramble(x: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64: every bit of x reaches every bit of the answer."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.uint64(x ^ (x >> np.uint64(31)))


@kernel
def keys_of(seeds: NDArray[np.int64], tasks: int) -> NDArray[np.uint64]:
    """What (seed, task) contributes to its noise, for every task of every seed."""
    keys = np.empty((len(seeds), tasks), np.uint64)
    for s in range(len(seeds)):
        for i in range(tasks):
            keys[s, i] = _scramble(_scramble(np.uint64(seeds[s])) ^ np.uint64(i))
    return keys


@kernel
def normal(task_key: np.uint64, number: int) -> float:
    """A standard normal draw for one observation of the task with this key."""
    key = _scramble(task_key ^ np.uint64(number))
    u = (float(key >> np.uint64(11)) + 0.5) * _TO_UNIT
    v = float(_scramble(key) >> np.uint64(11)) * _TO_UNIT
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
