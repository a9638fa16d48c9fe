"""Ways to divide the same CPU that do not learn: inside the boxes, and the sum is the budget to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.train.arrays import Floats
from equipoise.train.coupling.instance import Instance
from equipoise.train.grid import proportion
from equipoise.train.problem import Market


def divided(weights: Floats, instance: Instance) -> Floats:
    """Shares in proportion to weights, clipped to boxes: x = clip(level weights); the sum is exact on the grid."""
    market = Market.open(instance.cost(np.ones(len(weights))), instance.budget, len(weights))
    return market.grid.floats(proportion(market.budget, market.low, market.high, weights))


def equal(instance: Instance) -> Floats:
    """The same CPU for all."""
    return divided(np.ones(len(instance.speed)), instance)


def by_data(instance: Instance) -> Floats:
    """CPU in proportion to samples held."""
    return divided(instance.sizes.astype(np.float64), instance)


def equal_finish(instance: Instance) -> Floats:
    """All would pass through their shards in the same time: N_i / speed_i."""
    return divided(instance.sizes / instance.speed, instance)


def neyman(instance: Instance) -> Floats:
    """p_i sigma_i / sqrt(speed_i), with sigma_i of whole shards at the reference, which nobody knows beforehand."""
    return divided(instance.sizes * instance.sigma / np.sqrt(instance.speed), instance)


RIVALS: dict[str, Callable[[Instance], Floats]] = {
    "equal": equal,
    "data": by_data,
    "finish": equal_finish,
    "neyman": neyman,
}
LABELS = {
    "coupled": "coupled (sigma learnt)",
    "equal": "equal shares",
    "data": "in proportion to data",
    "finish": "equal finish time",
    "neyman": "Neyman, sigma known",
    "oracle": "Neyman, sigma told anew",
}
