"""Functions for compiled loops: ln, exp and sine; the normal distribution; noise that depends on who and when.

ln, exp and sine are plain arithmetic without branches, so that loops run several at a time. They are good to 1e-15 of
the truth (tests/share/test_elementary.py) and use only IEEE operations: nothing depends on the C library.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import Ints, inlined, inner, kernel

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is ln 2; k * HIGH is exact
PER_LN2 = 1.4426950408889634
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: what is added to it is rounded to a whole number, in its lowest bits
ROUNDER_BITS, ONE_BITS, HALF_ROOT_BITS = 0x4338000000000000, 0x3FF0000000000000, 0x3FE6A09E667F3BCD
EXP_LEAST, EXP_MOST = -708.0, 709.0  # beyond, the result is no normal number


@inner
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


@inner
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


@inner
def sin(x: float) -> float:
    """The sine between -pi/2 and pi/2, by Taylor's series."""
    z = x * x
    series = 1.0 / 355687428096000.0 - z * (1.0 / 121645100408832000.0)
    series = 1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0 - z * series)
    series = 1.0 / 362880.0 - z * (1.0 / 39916800.0 - z * series)
    series = 1.0 / 6.0 - z * (1.0 / 120.0 - z * (1.0 / 5040.0 - z * series))
    return float(x - x * z * series)


@inner
def below(z: float) -> float:
    """P(Z <= z)."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@inner
def mean_beyond(log_work: float, spread: float, done: float) -> float:
    """E[W - done | W > done] for ln W ~ N(log_work, spread^2): work left, given that what is done did not suffice."""
    z = (ln(max(done, 1e-9)) - log_work) / spread
    if z < -7.0:  # nothing of the belief is ruled out
        return exp(log_work + 0.5 * spread * spread) - done
    tail = below(-z)
    if tail < 1e-12:  # far beyond the belief the tail is a Pareto; 1 / (z + 2/z) is the mean excess of z
        return done / max((z + 2.0 / z) / spread - 1.0, 0.05)
    return math.exp(log_work + 0.5 * spread * spread) * below(spread - z) / tail - done


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE_BITS = np.uint64(0x3FF0000000000000)


def _scramble(x: Any) -> Any:
    """The finaliser of SplitMix64: every bit of x reaches every bit of the answer. Of a number in kernels, or an array."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


scramble = inner(_scramble)


def keys_of(seeds: Ints, tasks: int) -> NDArray[np.uint64]:
    """What (seed, task) contributes, for every task of every seed."""
    of_seeds = _scramble(_scramble(seeds.astype(np.uint64)))
    return np.asarray(_scramble(of_seeds[:, None] ^ np.arange(tasks, dtype=np.uint64)))


@inner
def from_one(bits: np.uint64) -> float:
    """Uniform in [1, 2): 52 of the bits become a fraction."""
    return float(np.uint64((bits >> np.uint64(12)) | _ONE_BITS).view(np.float64))


@kernel
def uniform(key: np.uint64, number: int) -> float:
    """A draw in [0, 1) for the task with this key."""
    return from_one(scramble(key ^ np.uint64(number))) - 1.0


@inlined
def two_normals(key: np.uint64, pair: int) -> tuple[float, float]:
    """Two independent standard normal draws for the task with this key (Box and Muller); no branches."""
    bits = scramble(key ^ np.uint64(pair))
    size = math.sqrt(-2.0 * ln(2.0 - from_one(bits)))
    turn = from_one(scramble(bits)) - 1.5  # of a turn, from -1/2 to 1/2
    angle = abs(turn)  # cos of it is sin(pi/2 - it), and so is sin for what is left to a quarter
    cosine, sine = sin(2.0 * math.pi * (0.25 - angle)), sin(2.0 * math.pi * (0.25 - abs(angle - 0.25)))
    return size * cosine, size * (sine if turn >= 0.0 else -sine)


@kernel
def normal(key: np.uint64, number: int) -> float:
    """A standard normal draw for one observation of the task with this key: the two of a pair are draws 2k and 2k + 1."""
    first, second = two_normals(key, number >> 1)
    return second if number & 1 else first
