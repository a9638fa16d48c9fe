"""Chance that depends on who and when, not on the order of asking: a hash of (seed, task, number)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.share.elementary import ln, sin

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE_BITS = np.uint64(0x3FF0000000000000)


@kernel
def scramble(x: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64: every bit of x reaches every bit of the answer."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.uint64(x ^ (x >> np.uint64(31)))


@kernel
def keys_of(seeds: NDArray[np.int64], tasks: int) -> NDArray[np.uint64]:
    """What (seed, task) contributes, for every task of every seed."""
    keys = np.empty((len(seeds), tasks), np.uint64)
    for s in range(len(seeds)):
        seed = scramble(scramble(np.uint64(seeds[s])))
        for i in range(tasks):
            keys[s, i] = scramble(seed ^ np.uint64(i))
    return keys


@kernel
def from_one(bits: np.uint64) -> float:
    """Uniform in [1, 2): 52 of the bits become a fraction."""
    return float(np.uint64((bits >> np.uint64(12)) | _ONE_BITS).view(np.float64))


@kernel
def normal(key: np.uint64, number: int) -> float:
    """A standard normal draw for one observation of the task with this key (Box and Muller)."""
    bits = scramble(key ^ np.uint64(number))
    size = math.sqrt(-2.0 * ln(2.0 - from_one(bits)))
    angle = abs(from_one(scramble(bits)) - 1.5)  # of a turn: cos of it is sin(pi/2 - it)
    return size * sin(2.0 * math.pi * (0.25 - angle))
