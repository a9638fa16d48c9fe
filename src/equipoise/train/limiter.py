"""Factors that cut flows to a node's room, in a few bits and whole numbers (docs/train.md, 3.5)."""

from __future__ import annotations

import math

import numpy as np

from equipoise.compiled import kernel

# Factors in 8 bits: code 255 is 1, each code below an eighth of an octave less, 0 is nothing. Even steps of 1/256 would
# round a small factor to 0 and lock a narrow node that much CPU wants to pass.
FACTOR_BITS, FULL, EIGHTHS = 8, 255, 8
AMOUNT_BITS = 64
FACTOR_SHIFT = 31
FACTOR_MASK = 2**FACTOR_SHIFT - 1
FACTORS = np.floor(2.0 ** (FACTOR_SHIFT - (FULL - np.arange(FULL + 1)) / EIGHTHS)).astype(np.int64)
FACTORS[0] = 0
BIGGEST_FLOW = 2.0**52  # units; a larger one means the run has diverged


@kernel
def factor(room: int, flow: int) -> int:
    """The code of the largest factor at which a flow fits into the room: 0 is none, FULL is all of it."""
    if flow <= room:
        return FULL
    if room <= 0:
        return 0
    code = FULL - max(1, math.ceil(EIGHTHS * math.log2(flow / room)))
    while code > 0 and scaled(flow, code) > room:
        code -= 1
    return max(code, 0)


@kernel
def scaled(amount: int, code: int) -> int:
    """amount x factor, rounded towards 0, in whole numbers below 2^63: a sum of parts never exceeds the part of the sum."""
    if code == FULL:
        return amount
    part = FACTORS[code]
    return int((amount >> FACTOR_SHIFT) * part + ((amount & FACTOR_MASK) * part >> FACTOR_SHIFT))
