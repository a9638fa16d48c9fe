"""Logarithm, exponential and sine in plain arithmetic, without branches: compiled loops run several at a time.

Good to 1e-15 of the truth (tests/share/test_elementary.py). Only IEEE operations: nothing depends on the C library.
"""

from __future__ import annotations

import numpy as np

from equipoise.compiled import kernel

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is ln 2; k * HIGH is exact
PER_LN2 = 1.4426950408889634
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: what is added to it is rounded to a whole number, in its lowest bits
ROUNDER_BITS, ONE_BITS, HALF_ROOT_BITS = 0x4338000000000000, 0x3FF0000000000000, 0x3FE6A09E667F3BCD
EXP_LEAST, EXP_MOST = -708.0, 709.0  # beyond, the result is no normal number


@kernel
def ln(x: float) -> float:
    """The natural logarithm of a positive normal number: x = 2^k m with m around 1, and fdlibm's series for ln m."""
    bits = np.float64(x).view(np.int64)
    k = (bits - HALF_ROOT_BITS) >> 52
    m = np.int64(bits - (k << 52)).view(np.float64)
    power = np.int64(k + ROUNDER_BITS).view(np.float64) - ROUNDER
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = 1.531383769920937332e-01 + z * 1.479819860511658591e-01
    series = 2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * series)
    series = 3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * series)
    series = z * (6.666666666666735130e-01 + z * series)
    half = 0.5 * f * f
    return float(power * LN2_HIGH - ((half - (s * (half + series) + power * LN2_LOW)) - f))


@kernel
def exp(x: float) -> float:
    """e^x = 2^k e^r with |r| <= ln 2 / 2, and Taylor's series for e^r; x is held within what a number can show."""
    x = min(max(x, EXP_LEAST), EXP_MOST)
    rounded = x * PER_LN2 + ROUNDER
    k = rounded - ROUNDER
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    series = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
    series = 1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * series)
    series = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * series)
    series = 1.0 / 720.0 + r * (1.0 / 5040.0 + r * series)
    series = 1.0 / 24.0 + r * (1.0 / 120.0 + r * series)
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * series)))
    return float(series * np.int64((np.float64(rounded).view(np.int64) << 52) + ONE_BITS).view(np.float64))


@kernel
def sin(x: float) -> float:
    """The sine between -pi/2 and pi/2, by Taylor's series."""
    z = x * x
    series = 1.0 / 355687428096000.0 - z * (1.0 / 121645100408832000.0)
    series = 1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0 - z * series)
    series = 1.0 / 362880.0 - z * (1.0 / 39916800.0 - z * series)
    series = 1.0 / 6.0 - z * (1.0 / 120.0 - z * (1.0 / 5040.0 - z * series))
    return float(x - x * z * series)
