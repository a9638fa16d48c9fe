"""The normal distribution, compiled: its cumulative function, the inverse, and lognormals cut off below."""

from __future__ import annotations

import math

from equipoise.compiled import kernel


@kernel
def below(z: float) -> float:
    """P(Z <= z)."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@kernel
def quantile(p: float) -> float:
    """z with P(Z <= z) = p, by Acklam's rational approximation and one Halley step; to 1e-12 from 1e-300 on."""
    if p < 1e-300:
        return -38.0
    if p >= 1.0:
        return 38.0
    tail = min(p, 1.0 - p)  # the lower one, where differences are not lost to rounding
    if tail >= 0.02425:
        q = tail - 0.5
        r = q * q
        z = (
            (
                (
                    (((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.3577518672690) * r
                    - 30.66479806614716
                )
                * r
                + 2.506628277459239
            )
            * q
            / (
                (
                    (((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r
                    - 13.28068155288572
                )
                * r
                + 1.0
            )
        )
    else:
        q = math.sqrt(-2.0 * math.log(tail))
        z = (
            (
                (((-0.007784894002430293 * q - 0.3223964580411365) * q - 2.400758277161838) * q - 2.549732539343734) * q
                + 4.374664141464968
            )
            * q
            + 2.938163982698783
        ) / (
            (((0.007784695709041462 * q + 0.3224671290700398) * q + 2.445134137142996) * q + 3.754408661907416) * q
            + 1.0
        )
    miss = (below(z) - tail) * math.sqrt(2.0 * math.pi) * math.exp(0.5 * z * z)
    z -= miss / (1.0 + 0.5 * z * miss)
    return -z if p > 0.5 else z


@kernel
def mean_beyond(log_work: float, spread: float, done: float) -> float:
    """E[W - done | W > done] for ln W ~ N(log_work, spread^2): work left, given that what is done did not suffice."""
    z = (math.log(max(done, 1e-9)) - log_work) / spread
    tail = below(-z)
    if tail < 1e-12:  # far beyond the belief the tail is a Pareto; 1 / (z + 2/z) is the mean excess of z
        return done / max((z + 2.0 / z) / spread - 1.0, 0.05)
    return math.exp(log_work + 0.5 * spread * spread) * below(spread - z) / tail - done


@kernel
def draw_beyond(log_work: float, spread: float, done: float, u: float) -> float:
    """The u-quantile of W given W > done."""
    tail = below((log_work - math.log(max(done, 1e-9))) / spread)
    return max(math.exp(log_work - spread * quantile((1.0 - u) * tail)), done)
