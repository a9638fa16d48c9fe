"""How far a log-quantised value can be from the true one."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import LogQuantizer
from equipoise.train.arrays import Floats

RHOS = (0.01, 0.125, 0.5, 1.0)
JUDGED = (0.125, 1.0)  # the paper's, and a coarse one
SPREAD = 6.0  # decades that values are drawn from, evenly on a log scale, within the code's range
ROUNDING = 1e-12
REACHED = 1e-3  # of the width of the sector


def ratios(rho: float, count: int, seed: int = 0) -> Floats:
    """q(v) / v of so many values of either sign."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-SPREAD / 2, SPREAD / 2, count)
    values = sizes * rng.choice([-1.0, 1.0], count)
    return np.asarray(LogQuantizer(rho=rho, mode="node")(values) / values)


def _outside(ratio: Floats, low: float, high: float) -> float:
    """The largest distance of a ratio from an interval."""
    return float(np.max([0.0, (low - ratio).max(), (ratio - high).max()]))


@claim(
    "The log-scale quantiser is sector-bounded: q(v)/v lies in 1 ± rho/2 (elsewhere 1 ± rho^2/4).",
    source="arXiv 2510.25176",
    effort=1.0,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(200_000, 1_000_000)
    drawn = {rho: ratios(rho, count) for rho in RHOS}
    over, everywhere = f"worst of {count:,} values", f"worst of {count:,} values at each of {len(RHOS)} rho"
    quantity = "q(v)/v outside the sector by"
    findings = [
        Finding(
            quantity,
            _outside(drawn[rho], 1 - reach, 1 + reach),
            at_most(ROUNDING),
            over=over,
            when=f"{words} at rho = {rho:g}",
        )
        for rho in JUDGED
        for words, reach in (("1 ± rho/2", rho / 2), ("1 ± rho^2/4", rho**2 / 4))
    ]
    sectors = {rho: (math.exp(-rho / 2), math.exp(rho / 2)) for rho in RHOS}
    outside = max(_outside(drawn[rho], *sectors[rho]) for rho in RHOS)
    reached = min(float(np.ptp(drawn[rho])) / (sectors[rho][1] - sectors[rho][0]) for rho in RHOS)
    ours = partial(Finding, when="e^(±rho/2)", about="ours", over=everywhere)
    findings += [
        ours(quantity, outside, at_most(ROUNDING)),
        ours("part of the sector that is reached", reached, at_least(1.0 - REACHED)),
    ]
    tops = [float(drawn[rho].max()) for rho in RHOS]
    at = np.linspace(0.01, 1.0, 60)
    figure = Figure(
        "The largest q(v)/v",
        x=Axis("rho"),
        y=Axis("q(v)/v"),
        series=(
            Series("measured", RHOS, tops, kind="dots"),
            Series("e^(rho/2)", at, np.exp(at / 2)),
            Series("1 + rho/2", at, 1 + at / 2, dash="dashed"),
            Series("1 + rho^2/4", at, 1 + at**2 / 4, dash="dashed"),
        ),
        caption="Measured values lie on e^(rho/2), above both published forms.",
    )
    return Measured(
        protocol=f"{count:,} random values of either sign, sizes even over {SPREAD:g} decades, coded and decoded at "
        f"each of rho = {', '.join(f'{rho:g}' for rho in RHOS)}; the smallest and the largest q(v)/v are held "
        "against each form of the bound.",
        findings=findings,
        figures=(figure,),
    )
